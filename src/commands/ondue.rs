//! ONDUE: setting what happens to elements when they come due.

use crate::data_type::Writing;
use crate::pending::agenda;
use crate::policy::{End, Policy, Route, Trust};
use crate::replicate::{self, Effect};
use crate::server::command::{Dest, access};
use crate::server::key::{KeyKind, Name};
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Error, Key, OwnedStr, Str, error::Result};

use super::args::options::{Opt, Options};
use super::args::{required, shown};
use super::checks;

/// Reads `key [NX] <HOLD [DELIVERIES n route] | route>`: the key, the policy, and whether to set it only if there is none.
pub fn parse(args: Args<'_>) -> Result<(Str<'_>, Policy, bool)> {
    let key = required(args, 1)?;
    let mut options = Options::new(args, 2);
    let only_new = options.next_if(b"NX");
    Ok((key, parse_policy(key, options)?, only_new))
}

/// Reads `HOLD [DELIVERIES n route] | route`.
pub fn parse_policy<'a>(key: Str<'a>, mut options: Options<'a>) -> Result<Policy> {
    let word = options.next().ok_or(Error::Arity)?;
    let policy = if word.name() == b"HOLD" {
        match options.next() {
            None => Policy::Hold,
            Some(option) if option.name() == b"DELIVERIES" => {
                let deliveries = options.small_number("DELIVERIES")?;
                let route = options.next().ok_or(
                        "DELIVERIES needs DROP, STREAM, LIST or PUBLISH after its value, to say where dead letters go",
                    )?;
                Policy::HoldDeliveries {
                    deliveries,
                    route: parse_route(key, &route, &mut options)?,
                }
            }
            Some(option) if is_route(option.name()) => {
                let place = "needs DELIVERIES and a number before it, after HOLD";
                return Err(option.misplaced(place));
            }
            Some(option) => return Err(option.unexpected_among("DELIVERIES")),
        }
    } else if word.name() == b"DELIVERIES" {
        return Err(word.misplaced("needs HOLD before it"));
    } else {
        Policy::Send(parse_route(key, &word, &mut options)?)
    };
    options.end()?;
    Ok(policy)
}

/// Reads `DROP | STREAM dest [MAXLEN [~ | =] n] | LIST dest [LEFT | RIGHT] | PUBLISH channel`. `word` is the
/// first word.
fn parse_route<'a>(key: Str<'a>, word: &Opt<'a>, options: &mut Options<'a>) -> Result<Route> {
    match word.name() {
        b"DROP" => Ok(Route::Drop),
        b"STREAM" => {
            let dest = parse_dest(key, "STREAM", options)?;
            let maxlen = options.next_if(b"MAXLEN").then(|| options.maxlen()).transpose()?;
            Ok(Route::Stream { dest: dest.into(), maxlen })
        }
        b"LIST" => {
            let dest = parse_dest(key, "LIST", options)?.into();
            let is_left = options.next_if(b"LEFT");
            if !is_left {
                options.next_if(b"RIGHT");
            }
            Ok(Route::List { dest, end: if is_left { End::Left } else { End::Right } })
        }
        b"PUBLISH" => Ok(Route::Publish { channel: options.value("PUBLISH")?.bytes().into() }),
        _ => Err(word.unexpected_among("HOLD DELIVERIES")),
    }
}

fn is_route(word: &[u8]) -> bool {
    matches!(word, b"DROP" | b"STREAM" | b"LIST" | b"PUBLISH")
}

/// Reads the key after `word`. It must differ from the dehydrator's key.
fn parse_dest<'a>(key: Str<'a>, word: &str, options: &mut Options<'a>) -> Result<&'a [u8]> {
    let dest = options.value(word)?.bytes();
    if dest == key.bytes() {
        return Err(format!("{word} must not be the dehydrator's own key").into());
    }
    Ok(dest)
}

/// Runs `ONDUE key [NX] <HOLD [DELIVERIES n route] | route>`: OK, or with NX nil if there is a policy. A route is `DROP | STREAM dest [MAXLEN [~ | =] n] |
/// LIST dest [LEFT | RIGHT] | PUBLISH channel`. The command also confirms a policy that came by RESTORE.
pub fn ondue(context: &CommandContext, args: Args<'_>) -> Result {
    if context.wants_keys() {
        report_keys(context, args);
        return Ok(());
    }
    let (key, policy, only_new) = parse(args)?;
    // The server checks the rights to keys, but the command declares no channels.
    if let Some(Route::Publish { channel }) = policy.route()
        && !context.is_replaying()
        && !context.may_publish_to(OwnedStr::new(channel).as_str())
    {
        return Err(Error::NO_CHANNEL);
    }
    if !context.is_replaying() {
        dest_fits(context, &policy)?;
    }
    let mut dehydrator = Writing::open(context, key)?;
    if only_new && dehydrator.rules().policy != Policy::Hold {
        context.reply_null();
        return Ok(());
    }
    // Workers repeat their ONDUE when they start, also to drain a queue that has filled the memory.
    if policy.memory() > dehydrator.rules().policy.memory() {
        checks::memory(context)?;
    }

    // Replicas and files get no condition.
    let effect = only_new.then(|| Effect::policy(key, &policy, Trust::Confirmed));
    // Failed deliveries are retried at once, also under an unchanged policy.
    let name = Name::of(context, key);
    agenda::succeeded(context, &name);
    if dehydrator.change_rules(|rules| (rules.policy, rules.trust) = (policy, Trust::Confirmed)) {
        if dehydrator.is_new() {
            checks::memory(context)?;
        }
        agenda::reset_overdue(&name);
        match effect {
            Some(effect) => effect.replicate(context),
            None => replicate::verbatim(context, args),
        }
        dehydrator.finish(c"dehydrator.ondue");
    }
    context.reply_ok();
    Ok(())
}

/// Checks that the destination key has the right type. Fails with WRONGTYPE.
fn dest_fits(context: &Context, policy: &Policy) -> Result {
    let (dest, kind, word, noun) = match policy.route() {
        Some(Route::Stream { dest, .. }) => (dest, KeyKind::Stream, "STREAM", "stream"),
        Some(Route::List { dest, .. }) => (dest, KeyKind::List, "LIST", "list"),
        _ => return Ok(()),
    };
    if Key::has_other_kind(context, OwnedStr::new(dest).as_str(), kind) {
        return Err(Error::Coded(
            "WRONGTYPE",
            format!("{word} '{}' is not a {noun}", shown(dest)).into(),
        ));
    }
    Ok(())
}

/// The second key: a stream as for XADD, which may trim, or a list as for RPUSH. It is registered as incomplete, so the
/// server calls [`report_keys`]: the key may have the same name as a keyword.
pub const DESTS: [Dest; 2] = [
    Dest { keyword: c"STREAM", from: 2, access: access::TOUCH },
    Dest { keyword: c"LIST", from: 2, access: access::INSERT },
];

/// Reports which arguments are keys, so that the server checks the user's rights to them and, in a cluster, that they are
/// in one slot.
fn report_keys(context: &Context, args: Args<'_>) {
    /// The words of `HOLD DELIVERIES n` before the route. The stream or list follows the policy or the route.
    const BEFORE_ROUTE: usize = 3;
    context.key_at(1, access::TOUCH);
    let is = |at, name: &[u8]| {
        args.get(at).is_some_and(|word: Str<'_>| word.bytes().eq_ignore_ascii_case(name))
    };
    let policy = if is(2, b"NX") { 3 } else { 2 };
    let route = if is(policy, b"HOLD") { policy + BEFORE_ROUTE } else { policy };
    let dest = DESTS.iter().find(|dest| is(route, dest.keyword.to_bytes()));
    if let Some(dest) = dest
        && args.get(route + 1).is_some()
    {
        context.key_at(route + 1, dest.access);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;
    use crate::server::fake::with_args;

    /// Replication and the append-only file use these words.
    #[test]
    fn a_policy_s_own_words_ask_for_it() {
        for policy in policy::of_every_kind() {
            let words = policy.words(Trust::Confirmed);
            let words: Vec<&[u8]> =
                [&b"k"[..]].into_iter().chain(words.iter().map(AsRef::as_ref)).collect();
            assert_eq!(
                with_args(&words, |args| parse(args).map(|(_, policy, _)| policy)),
                Ok(policy)
            );
        }
    }
}
