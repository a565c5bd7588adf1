//! What becomes of elements when they come due: ONDUE.

use crate::data_type::Writing;
use crate::pending::schedule;
use crate::policy::{Policy, Route};
use crate::replicate;
use crate::server::command::{Dest, access};
use crate::server::key::{KeyKind, Name};
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Error, Key, OwnedStr, Str, error::Result};

use super::args::{self, shown};
use super::limits;

/// Runs `ONDUE key HOLD [DELIVERIES n route] | route`: OK. A route is `DROP | STREAM dest [MAXLEN [~ | =] n] |
/// LIST dest [LEFT | RIGHT] | PUBLISH channel`. It confirms a policy that came by RESTORE; in replication `UNCONFIRMED` behind it says that nobody has
/// yet.
pub fn ondue(context: &CommandContext, args: Args<'_>) -> Result {
    if context.wants_keys() {
        say_where(context, args);
        return Ok(());
    }
    let args::OnDue { key, policy, trust } = args::read(context, args, args::OnDue::parse)?;
    if !trust.is_confirmed() && !context.is_replaying() {
        return Err("syntax error, unexpected 'UNCONFIRMED'".into());
    }
    // The server checks the rights to keys, and is not told of channels.
    if let Some(Route::Publish { channel }) = policy.route()
        && !context.is_replaying()
        && !context.may_publish_to(OwnedStr::new(channel).as_str())
    {
        return Err(Error::NoChannel);
    }
    // A policy that only takes away is allowed to a server that is full, if the key is there.
    if policy.sends_elsewhere() {
        limits::memory(context)?;
    }
    if !context.is_replaying() {
        dest_fits(context, &policy)?;
    }
    let mut dehydrator = Writing::open(context, key)?;

    // What could not be delivered is tried at once, also where it was before.
    let name = Name::of(context, key);
    schedule::succeeded(context, &name);
    if dehydrator.set_policy(policy, trust) {
        if dehydrator.is_new() {
            limits::memory(context)?;
        }
        schedule::begin(&name);
        replicate::verbatim(context);
        dehydrator.shrunk(c"dehydrator.ondue");
    }
    context.reply_ok();
    Ok(())
}

/// Returns whether the key that elements go to can take them.
///
/// # Errors
///
/// [`Error::WrongTypeOf`].
fn dest_fits(context: &Context, policy: &Policy) -> Result {
    let (dest, kind, word, noun) = match policy.route() {
        Some(Route::Stream { dest, .. }) => (dest, KeyKind::Stream, "STREAM", "stream"),
        Some(Route::List { dest, .. }) => (dest, KeyKind::List, "LIST", "list"),
        _ => return Ok(()),
    };
    if Key::holds_other_than(context, OwnedStr::new(dest).as_str(), kind) {
        return Err(Error::WrongTypeOf(format!("{word} '{}' is not a {noun}", shown(dest))));
    }
    Ok(())
}

/// The second key: to a stream as by XADD, which may trim, or to a list as by RPUSH. The server is told that it has to ask
/// ([`say_where`]): it may be called as the other word is.
pub const DESTS: [Dest; 2] = [
    Dest { keyword: c"STREAM", from: 2, access: access::TOUCH },
    Dest { keyword: c"LIST", from: 2, access: access::INSERT },
];

/// Says which arguments are keys, so that the server checks the user's rights to them, and, in a cluster, that
/// they are in one slot.
fn say_where(context: &Context, args: Args<'_>) {
    /// Where the policy stands.
    const POLICY: usize = 2;
    /// Where the route does behind `HOLD DELIVERIES n`. The stream or list is behind either.
    const ROUTE: usize = 5;
    context.key_at(1, access::TOUCH);
    let is = |at, name: &[u8]| {
        args.get(at).is_some_and(|word: Str<'_>| word.bytes().eq_ignore_ascii_case(name))
    };
    let route = if is(POLICY, b"HOLD") { ROUTE } else { POLICY };
    let dest = DESTS.iter().find(|dest| is(route, dest.keyword.to_bytes()));
    if let Some(dest) = dest
        && args.get(route + 1).is_some()
    {
        context.key_at(route + 1, dest.access);
    }
}
