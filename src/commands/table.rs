//! The table of commands: what is registered with the server, and what HELP replies.

use std::ffi::CStr;

use crate::server::command::{Command, access, handler};
use crate::server::string::Args;
use crate::server::{CommandContext, Error, error::Result};

use super::args::shown;
#[cfg(debug_assertions)]
use super::debug;
use super::{
    due, effect, every, inspect, limit, ondue, pause, poll, push, range, revive, settle, take,
    touch,
};

/// The tip for a reply that depends on the clock or on chance.
const VARYING: &CStr = c"nondeterministic_output";
/// The history of commands that are unchanged.
const AS_REDE: &CStr = c"As ReDe has it.";

/// Lists every command; behind `new`: name, function, flags, arity, access to the key. A command is `fast` if its cost does not
/// grow with the number of elements it finds.
pub fn commands() -> Vec<Command> {
    vec![
        Command {
            syntax: "key ttl element id [NX | REPLACE] [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]",
            complexity: c"O(log(N)) at most, N being the number of elements in the key",
            summary: c"Stores an element that comes due after ttl milliseconds.",
            history: Some(c"As ReDe has it, with NX, REPLACE, SLACK, AT, DELIVERIES, WITHIN and GROUP."),
            ..Command::new(c"push", handler!(push::push), c"write deny-oom fast", -5, access::TOUCH)
        },
        Command {
            syntax: "key ttl element id [ttl element id ...] [NX | REPLACE] [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]",
            complexity: c"O(N*log(M)) at most, N being the number of elements, M of elements in the key",
            summary: c"Stores several elements.",
            ..Command::new(c"mpush", handler!(push::mpush), c"write deny-oom fast", -5, access::TOUCH)
        },
        Command {
            syntax: "key id",
            complexity: c"O(1)",
            summary: c"Removes an element by its id, due or not, and returns it.",
            history: Some(AS_REDE),
            ..Command::new(c"pull", handler!(take::pull), c"write fast", 3, access::TAKE)
        },
        Command {
            syntax: "key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token] | WITHIDS]",
            complexity: c"O(N), N being the number of elements it takes",
            summary: c"Takes or leases due elements: earliest deadline first, and in turns of their groups.",
            tips: VARYING,
            history: Some(c"As ReDe has it, with COUNT, BLOCK, LEASE, TOKEN and WITHIDS."),
            ..Command::new(c"poll", handler!(poll::poll), c"write blocking", -2, access::TAKE)
        },
        Command {
            syntax: "numkeys key [key ...] [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token] | WITHIDS]",
            complexity: c"O(K+N), K being the number of keys, N of elements it takes",
            summary: c"Takes or leases due elements from the first key that has some.",
            tips: VARYING,
            ..Command::new(
                c"mpoll",
                handler!(poll::mpoll),
                // A cluster of Redis 7.0 finds keys behind a `numkeys` in no other way.
                c"write blocking getkeys-api",
                -3,
                access::TAKE,
            )
        },
        Command {
            syntax: "key token id [token id ...]",
            complexity: c"O(N), N being the number of ids",
            summary: c"Removes each element that is held under its token: its work is done.",
            ..Command::new(c"settle", handler!(settle::settle), c"write fast", -4, access::DELETE)
        },
        Command {
            syntax: "key ttl token id [token id ...]",
            complexity: c"O(N*log(M)) at most, N being the number of ids, M of elements in the key",
            summary: c"Extends the lease of each element that is held under its token.",
            ..Command::new(c"renew", handler!(settle::renew), c"write fast", -5, access::TOUCH)
        },
        Command {
            syntax: "key ttl token id [token id ...] [UNCOUNTED] [ELEMENT element] [REASON text]",
            complexity: c"O(N*log(M)) at most, N being the number of ids, M of elements in the key",
            summary: c"Gives back each element that is held under its token, to be given out again after ttl milliseconds.",
            ..Command::new(c"release", handler!(settle::release), c"write fast", -5, access::TOUCH)
        },
        Command {
            syntax: "key token id [token id ...] [ELEMENT element] [REASON text]",
            complexity: c"O(N), N being the number of ids",
            summary: c"Makes each element that is held under its token a dead letter.",
            ..Command::new(c"reject", handler!(settle::reject), c"write", -4, access::DELETE)
        },
        Command {
            syntax: "key [FROM letter] [COUNT n] [ELEMENT element] [IDS n letter [letter ...]]",
            complexity: c"O(N*log(M)), N being the number of letters it looks at, M of entries in the stream",
            summary: c"Brings dead letters back from the stream that ONDUE names, into their groups and due at once.",
            ..Command::new(c"revive", handler!(revive::revive), c"write deny-oom", -2, access::TOUCH)
        },
        Command {
            syntax: "key id [FULL]",
            complexity: c"O(1)",
            summary: c"Returns an element by its id, due or not, without taking it.",
            tips: VARYING,
            history: Some(c"As ReDe has it, with FULL."),
            ..Command::new(c"look", handler!(range::look), c"readonly fast", -3, access::READ)
        },
        Command {
            syntax: "key start end [COUNT n] [WITHELEMENTS] [WITHTOKENS] [GROUP name]",
            complexity: c"O(N), N being the number of elements it lists, and of different TTLs",
            summary: c"Lists elements by deadline, due or not, without taking them.",
            tips: VARYING,
            ..Command::new(c"range", handler!(range::range), c"readonly", -4, access::READ)
        },
        Command {
            syntax: "key id element",
            complexity: c"O(1)",
            summary: c"Replaces an element, keeps its deadline, and returns the old element.",
            history: Some(AS_REDE),
            ..Command::new(c"update", handler!(touch::update), c"write deny-oom fast", 4, access::UPDATE)
        },
        Command {
            syntax: "key ttl [GT | LT] [AT unix-ms] <id | IDS n id [id ...] | GROUP name [COUNT n]>",
            complexity: c"O(N*log(M)) at most, N being the number of elements it changes, M of elements in the key",
            summary: c"Sets a new deadline for elements, and returns how many it changed.",
            ..Command::new(c"touch", handler!(touch::touch), c"write", -4, access::TOUCH)
        },
        Command {
            syntax: "key id [id ...]",
            complexity: c"O(N), N being the number of ids",
            summary: c"Removes elements by their ids, due or not, and returns how many it removed.",
            ..Command::new(c"rem", handler!(take::rem), c"write fast", -3, access::DELETE)
        },
        Command {
            syntax: "key GROUP name [COUNT n]",
            complexity: c"O(N*log(M)), N being the number of elements it removes, M of elements in the group",
            summary: c"Removes elements of a group, due or not, and returns how many: repeat it until that is 0.",
            ..Command::new(c"purge", handler!(take::purge), c"write", -4, access::DELETE)
        },
        Command {
            syntax: "key [NX] <HOLD [DELIVERIES n <DROP | STREAM dest [MAXLEN [= | ~] n] | LIST dest [LEFT | RIGHT] | PUBLISH channel>] | DROP | STREAM dest [MAXLEN [= | ~] n] | LIST dest [LEFT | RIGHT] | PUBLISH channel>",
            complexity: c"O(1)",
            summary: c"Sets what happens to elements when they come due: they wait to be taken, at most n times with DELIVERIES, are removed, or are moved to a stream, a list or a channel. With NX only if nothing is set.",
            dests: &ondue::DESTS,
            ..Command::new(
                c"ondue",
                handler!(ondue::ondue),
                // Not `getchannels-api` too: Redis 8.6 would then treat the channels as the keys, and check no key.
                c"write getkeys-api",
                -3,
                access::TOUCH,
            )
        },
        Command {
            syntax: "key [FOR ms | AT unix-ms] [GROUP name | SCHEDULE name]",
            complexity: c"O(1)",
            summary: c"Stops POLL and deliveries for a time, or until RESUME; of one group, if it is named. Or pauses a schedule.",
            ..Command::new(c"pause", handler!(pause::pause), c"write fast", -2, access::TOUCH)
        },
        Command {
            syntax: "key [GROUP name | SCHEDULE name]",
            complexity: c"O(1)",
            summary: c"Ends a pause, or that of a group or of a schedule.",
            ..Command::new(c"resume", handler!(pause::resume), c"write fast", -2, access::TOUCH)
        },
        Command {
            syntax: "key [EACH | GROUP name] <LENGTH n | HELD n | RATE n PER ms | REMEMBER ms | SHARE n> [...]",
            complexity: c"O(1)",
            summary: c"Sets limits of a dehydrator, of each of its groups, or of one group: length, concurrent leases, rate; how long ids are remembered; how many elements a group gives out in its turn.",
            ..Command::new(c"limit", handler!(limit::limit), c"write fast", -4, access::TOUCH)
        },
        Command {
            syntax: "key plan element name [ZONE zone] [FROM unix-ms] [UNTIL unix-ms] [TIMES n] [MISSED <ONE | ALL | NONE>] [OVERLAP <ALLOW | SKIP>] [JITTER ms] [DELIVERIES n] [WITHIN ms] [GROUP name]",
            complexity: c"O(log(N)), N being the number of schedules in the key",
            summary: c"Sets a schedule: the server stores the element again and again, every so many milliseconds or by a cron of five fields.",
            ..Command::new(c"every", handler!(every::every), c"write deny-oom fast", -5, access::TOUCH)
        },
        Command {
            syntax: "key [name [name ...] | FROM position [COUNT n]]",
            complexity: c"O(N), N being the number of schedules it lists",
            summary: c"Lists schedules: plan, next and last occurrence, how late that was, how many were missed.",
            ..Command::new(c"schedules", handler!(every::schedules), c"readonly", -2, access::READ)
        },
        Command {
            syntax: "key name [name ...]",
            complexity: c"O(N), N being the number of names",
            summary: c"Removes schedules, and returns how many. Elements that they have stored stay.",
            ..Command::new(c"unschedule", handler!(every::unschedule), c"write fast", -3, access::DELETE)
        },
        Command {
            syntax: "key",
            complexity: c"O(1)",
            summary: c"Returns the milliseconds until the next element comes due.",
            tips: VARYING,
            history: Some(AS_REDE),
            ..Command::new(c"ttn", handler!(due::ttn), c"readonly fast", 2, access::COUNT)
        },
        Command {
            syntax: "key id",
            complexity: c"O(1)",
            summary: c"Returns the milliseconds until an element comes due.",
            tips: VARYING,
            ..Command::new(c"pttl", handler!(due::pttl), c"readonly fast", 3, access::READ)
        },
        Command {
            syntax: "key [GROUP name]",
            complexity: c"O(1)",
            summary: c"Returns the number of elements, due or not.",
            ..Command::new(c"len", handler!(inspect::len), c"readonly fast", -2, access::COUNT)
        },
        Command {
            syntax: "key cursor [MATCH pattern] [COUNT n]",
            complexity: c"O(1) for every call, O(N) for a complete iteration, N being the number of elements",
            summary: c"Iterates over the ids, a few per call.",
            tips: VARYING,
            ..Command::new(c"scan", handler!(inspect::scan), c"readonly", -3, access::READ)
        },
        Command {
            syntax: "key [FULL | GROUP name]",
            complexity: c"O(N), N being the number of elements that are due; with FULL, and of different TTLs; with GROUP, O(1)",
            summary: c"Returns a map of facts about a dehydrator: lengths, limits, policy, failures; or about a group.",
            tips: VARYING,
            ..Command::new(c"info", handler!(inspect::info), c"readonly", -2, access::READ)
        },
        Command {
            syntax: "[COUNT n]",
            complexity: c"O(N*log(K)+M), N being the number of dehydrators it lists, K of all, M of elements in those that are due",
            summary: c"Lists the dehydrators whose elements have been due for the longest.",
            // Of all shards, the client keeps the oldest.
            tips: c"nondeterministic_output request_policy:all_shards response_policy:special",
            ..Command::without_key(c"late", handler!(due::late), c"readonly", -1)
        },
        Command {
            syntax: "[command]",
            complexity: c"O(1)",
            summary: c"Returns the syntax and summary of every command, or of one.",
            ..Command::without_key(c"help", handler!(help), c"allow-loading allow-stale fast", -1)
        },
        Command {
            syntax: "key ttl element [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]",
            complexity: c"O(log(N)) at most, N being the number of elements in the key",
            summary: c"For users of ReDe; others use PUSH with NX and an id of their own. Stores an element under a generated id, and returns the id.",
            tips: VARYING,
            history: Some(c"As ReDe has it, with SLACK, AT, DELIVERIES, WITHIN and GROUP."),
            ..Command::new(c"gidpush", handler!(push::gidpush), c"write deny-oom fast", -4, access::INSERT)
        },
        Command {
            syntax: "key [COUNT n]",
            complexity: c"O(N), N being the number of ids it lists",
            summary: c"For users of ReDe; others use POLL with LEASE, or RANGE to look. Lists the ids of due elements, without taking them.",
            tips: VARYING,
            history: Some(c"As ReDe has it, with COUNT."),
            ..Command::new(c"xpoll", handler!(due::xpoll), c"readonly", -2, access::READ)
        },
        Command {
            syntax: "key id [id ...]",
            complexity: c"O(N), N being the number of ids",
            summary: c"For users of ReDe; others use SETTLE, which requires the token. Takes elements by their ids, if they are due or were given out under a lease.",
            tips: VARYING,
            history: Some(AS_REDE),
            ..Command::new(c"xack", handler!(take::xack), c"write fast", -3, access::TAKE)
        },
        Command {
            syntax: "key word [word ...]",
            complexity: c"O(N*log(M)) at most, N being the number of ids, M of elements in the key",
            summary: c"For replicas, files and tools that copy. Does what happened on the server that sent it.",
            is_admin: true,
            ..Command::new(c"effect", handler!(effect::effect), c"write", -3, access::TOUCH)
        },
        #[cfg(debug_assertions)]
        Command {
            syntax: "key word [word ...]",
            complexity: c"O(1)",
            summary: c"Hooks for tests, in debug builds only.",
            ..Command::new(c"debug", handler!(debug::debug), c"readonly", -3, access::READ)
        },
    ]
}

/// Runs `HELP [command]`. Replies the syntax and summary of every command, or of this one.
pub fn help(context: &CommandContext, args: Args<'_>) -> Result {
    let wanted = args.get(1).map(|word| word.bytes().to_ascii_lowercase());
    if args.len() > 2 {
        return Err(Error::Arity);
    }
    let mut commands = commands();
    if let Some(wanted) = wanted {
        let verb = wanted.strip_prefix(b"dehydrator.").unwrap_or(&wanted);
        commands.retain(|command| command.verb.to_bytes() == verb);
        if commands.is_empty() {
            return Err(format!("there is no command '{}'", shown(verb)).into());
        }
    }
    let mut reply = context.reply_array(2 * commands.len());
    for command in commands {
        let verb = command.verb.to_string_lossy().to_uppercase();
        let line = format!("DEHYDRATOR.{verb} {}", command.syntax);
        reply.push_simple(line.trim_end());
        reply.push_simple(&format!("    {}", command.summary.to_string_lossy()));
    }
    Ok(())
}
