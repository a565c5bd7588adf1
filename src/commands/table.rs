//! Every command, as the server is told of it, and as HELP tells clients.

use std::ffi::CStr;

use crate::server::command::{Command, access, handler};
use crate::server::string::Args;
use crate::server::{CommandContext, Error, error::Result};

use super::args::shown;
#[cfg(debug_assertions)]
use super::debug;
use super::{
    due, inspect, late, limit, look, ondue, pause, poll, push, range, require, settle, take, update,
};

/// The first version of the module.
const OURS: &CStr = c"0.1.0";
/// Of commands that are as they were.
const AS_REDE: &CStr = c"As ReDe has it.";

/// Lists every command: name, function, flags, arity, access to the key; syntax, complexity, summary. A verb is `fast`
/// if its cost does not grow with what it finds.
pub fn commands() -> Vec<Command> {
    vec![
        Command::new(c"push", handler!(push::push), c"write deny-oom fast", -5, access::TOUCH)
            .described(
                "key ttl element id [NX | REPLACE] [SLACK ms] [AT unix-ms]",
                c"O(log(N)) at most, N being the number of elements in the key",
                c"Puts an element away; it comes due after ttl milliseconds.",
            )
            .with_history(&[(OURS, c"As ReDe has it, with NX, REPLACE, SLACK and AT.")]),
        Command::new(c"mpush", handler!(push::mpush), c"write deny-oom fast", -5, access::TOUCH)
            .described(
                "key ttl element id [ttl element id ...] [NX | REPLACE] [SLACK ms] [AT unix-ms]",
                c"O(N*log(M)) at most, N being the number of elements, M of elements in the key",
                c"Puts several elements away.",
            ),
        Command::new(c"pull", handler!(take::pull), c"write fast", 3, access::TAKE)
            .described("key id", c"O(1)", c"Takes an element by its id, due or not.")
            .with_history(&[(OURS, AS_REDE)]),
        Command::new(c"poll", handler!(poll::poll), c"write blocking", -2, access::TAKE)
            .described(
                "key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]",
                c"O(N), N being the number of elements it takes",
                c"Takes, or leases, elements that are due, earliest deadline first.",
            )
            .varying()
            .with_history(&[(OURS, c"As ReDe has it, with COUNT, BLOCK, LEASE, TOKEN and WITHIDS.")]),
        Command::new(
            c"mpoll",
            handler!(poll::mpoll),
            // A cluster of Redis 7.0 finds keys that are counted in no other way.
            c"write blocking getkeys-api",
            -3,
            access::TAKE,
        )
        .with_numkeys()
        .described(
            "numkeys key [key ...] [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]",
            c"O(K+N), K being the number of keys, N of elements it takes",
            c"Takes, or leases, elements that are due, from the first of these keys that has some.",
        )
        .varying(),
        Command::new(c"settle", handler!(settle::settle), c"write fast", -4, access::DELETE)
            .described(
                "key token id [token id ...]",
                c"O(N), N being the number of ids",
                c"Removes those of the given elements that are held under the given tokens.",
            ),
        Command::new(c"renew", handler!(settle::renew), c"write fast", -5, access::TOUCH)
            .described(
                "key ttl token id [token id ...]",
                c"O(N*log(M)) at most, N being the number of ids, M of elements in the key",
                c"Sets a new deadline for those of the given elements that are held under the given tokens.",
            ),
        Command::new(c"release", handler!(settle::release), c"write fast", -5, access::TOUCH)
            .described(
                "key ms token id [token id ...]",
                c"O(N*log(M)) at most, N being the number of ids, M of elements in the key",
                c"Gives those of the given elements back that are held under the given tokens, to be given out again later.",
            ),
        Command::new(c"reject", handler!(settle::reject), c"write", -4, access::DELETE).described(
            "key token id [token id ...]",
            c"O(N), N being the number of ids",
            c"Makes dead letters of those of the given elements that are held under the given tokens.",
        ),
        Command::new(c"look", handler!(look::look), c"readonly fast", -3, access::READ)
            .described(
                "key id [FULL]",
                c"O(1)",
                c"Returns an element by its id, due or not, and leaves it.",
            )
            .varying()
            .with_history(&[(OURS, c"As ReDe has it, with FULL.")]),
        Command::new(c"range", handler!(range::range), c"readonly", -4, access::READ)
            .described(
                "key start end [COUNT n] [WITHELEMENTS] [WITHTOKENS]",
                c"O(N), N being the number of elements it lists, and of different TTLs",
                c"Lists elements by deadline, due or not, taking nothing.",
            )
            .varying(),
        Command::new(c"update", handler!(update::update), c"write deny-oom fast", 4, access::UPDATE)
            .described(
                "key id element",
                c"O(1)",
                c"Replaces an element, keeping its deadline, and returns the old one.",
            )
            .with_history(&[(OURS, AS_REDE)]),
        Command::new(c"touch", handler!(update::touch), c"write fast", -4, access::TOUCH)
            .described(
                "key <id ttl | ttl IDS numids id [id ...]> [GT | LT] [AT unix-ms]",
                c"O(N*log(M)) at most, N being the number of ids, M of elements in the key",
                c"Sets a new deadline for elements, and returns how many there were.",
            ),
        Command::new(c"rem", handler!(take::rem), c"write fast", -3, access::DELETE).described(
            "key id [id ...]",
            c"O(N), N being the number of ids",
            c"Removes elements by their ids, due or not, and returns how many there were.",
        ),
        Command::new(
            c"ondue",
            handler!(ondue::ondue),
            // Not `getchannels-api` too: Redis 8.6 would then take the channels for the keys, and check no key.
            c"write getkeys-api",
            -3,
            access::TOUCH,
        )
        .with_dests(&ondue::DESTS)
        .described(
            "key <HOLD [DELIVERIES n <DROP | STREAM dest [MAXLEN [= | ~] n] | LIST dest [LEFT | RIGHT] | PUBLISH channel>] | DROP | STREAM dest [MAXLEN [= | ~] n] | LIST dest [LEFT | RIGHT] | PUBLISH channel>",
            c"O(1)",
            c"Says what becomes of elements when they come due: they wait to be taken, perhaps so often at the most, are removed, or are moved to a stream, a list or a channel.",
        ),
        Command::new(c"pause", handler!(pause::pause), c"write fast", -2, access::TOUCH).described(
            "key [ms | AT unix-ms]",
            c"O(1)",
            c"Stops POLL and deliveries for a while, or until RESUME.",
        ),
        Command::new(c"resume", handler!(pause::resume), c"write fast", 2, access::TOUCH).described(
            "key",
            c"O(1)",
            c"Ends a pause.",
        ),
        Command::new(c"limit", handler!(limit::limit), c"write fast", -2, access::TOUCH).described(
            "key [LENGTH n] [HELD n] [RATE n PER ms] [REMEMBER ms]",
            c"O(1)",
            c"Says how much a dehydrator holds and gives out at the most, or returns what was said.",
        ),
        Command::new(c"ttn", handler!(due::ttn), c"readonly fast", 2, access::COUNT)
            .described("key", c"O(1)", c"Returns the milliseconds until the next element comes due.")
            .varying()
            .with_history(&[(OURS, AS_REDE)]),
        Command::new(c"pttl", handler!(due::pttl), c"readonly fast", 3, access::READ)
            .described("key id", c"O(1)", c"Returns the milliseconds until an element comes due.")
            .varying(),
        Command::new(c"len", handler!(inspect::len), c"readonly fast", 2, access::COUNT).described(
            "key",
            c"O(1)",
            c"Returns the number of elements, due or not.",
        ),
        Command::new(c"scan", handler!(inspect::scan), c"readonly", -3, access::READ)
            .described(
                "key cursor [MATCH pattern] [COUNT n]",
                c"O(1) for every call, O(N) for a whole walk, N being the number of elements",
                c"Walks over the ids, a few at each call.",
            )
            .varying(),
        Command::new(c"info", handler!(inspect::info), c"readonly", -2, access::COUNT)
            .described(
                "key [FULL]",
                c"O(N), N being the number of elements that are due; with FULL, and of different TTLs",
                c"Returns a map of what a dehydrator holds.",
            )
            .varying(),
        Command::without_key(c"late", handler!(late::late), c"readonly", -1)
            .described(
                "[COUNT n]",
                c"O(N*log(K)+M), N being the number of dehydrators it lists, K of all, M of elements in those that are due",
                c"Lists the dehydrators whose elements have been due for the longest.",
            )
            .varying(),
        Command::without_key(c"help", handler!(help), c"readonly fast", -1).described(
            "[command]",
            c"O(1)",
            c"Returns this text, or what it has of one command.",
        ),
        Command::new(c"gidpush", handler!(push::gidpush), c"write deny-oom fast", -4, access::INSERT)
            .described(
                "key ttl element [SLACK ms]",
                c"O(log(N)) at most, N being the number of elements in the key",
                c"For users of ReDe; others use PUSH with NX and an id of their own. Puts an element away under an id that the server makes, and returns the id.",
            )
            .varying()
            .with_history(&[(OURS, c"As ReDe has it, with SLACK.")]),
        Command::new(c"xpoll", handler!(due::xpoll), c"readonly", -2, access::READ)
            .described(
                "key [COUNT n]",
                c"O(N), N being the number of ids it lists",
                c"For users of ReDe; others use POLL with LEASE, or RANGE to look. Lists the ids of elements that are due, taking nothing.",
            )
            .varying()
            .with_history(&[(OURS, c"As ReDe has it, with COUNT.")]),
        Command::new(c"xack", handler!(take::xack), c"write fast", -3, access::TAKE)
            .described(
                "key id [id ...]",
                c"O(N), N being the number of ids",
                c"For users of ReDe; others use SETTLE, which asks for the token. Takes those of the given elements that are due or were given out under a lease.",
            )
            .varying()
            .with_history(&[(OURS, AS_REDE)]),
        Command::new(c"lease", handler!(take::lease), c"write fast", -4, access::TOUCH).described(
            "key ttl@unix-ms@token id [id ...]",
            c"O(N*log(M)) at most, N being the number of ids, M of elements in the key",
            c"For replication and tools; workers use POLL. Leases elements by their ids, due or not.",
        ),
        Command::new(c"given", handler!(limit::given), c"write fast", 4, access::TOUCH).described(
            "key unix-ms n",
            c"O(1)",
            c"For replication. Notes that so many elements were given out at a moment, for a limit of RATE.",
        ),
        Command::new(c"settled", handler!(take::settled), c"write fast", -4, access::DELETE).described(
            "key unix-ms id [id ...]",
            c"O(N), N being the number of ids",
            c"For replication. Removes elements by their ids, due or not, which are remembered until then, for a limit of REMEMBER.",
        ),
        Command::without_key(c"require", handler!(require::require), c"write fast", -2)
            .described(
                "level [version]",
                c"O(1)",
                c"For replication and operators. Says whether the module understands what is replicated at that level.",
            )
            .with_tips(c"request_policy:all_nodes response_policy:all_succeeded"),
        #[cfg(debug_assertions)]
        Command::new(c"debug", handler!(debug::debug), c"readonly", -3, access::READ).described(
            "key word [argument ...]",
            c"O(1)",
            c"Hooks for tests, in debug builds alone.",
        ),
    ]
}

/// Runs `HELP [command]`: each command, or this one, as it is written, and what it does.
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
