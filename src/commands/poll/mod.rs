//! POLL and MPOLL: giving out due elements, at once or to a client that blocks until there are some.
//!
//! | module | contents |
//! |---|---|
//! | this file | POLL; MPOLL, which is POLL on the first of several keys that has due elements |
//! | `request` | the arguments of both |
//! | `give` | giving out due elements: into the reply of a command, or into the elements taken for a blocked client |
//! | `reply` | the reply of both if something is due at once |
//! | `serve` | waking blocked clients, in the order that [`pending`](crate::pending::blocked) keeps |
//! | `taken` | elements taken for a blocked client |
//! | `client` | a blocked client: from the command that blocks it to its reply, or to its disconnection |
//!
//! The life of a blocked client:
//!
//! ```text
//!   blocked   POLL … BLOCK ─▶ client::sleep ─▶ pending::blocked: queued per key ◀── every write records when to visit
//!                                                   │ its turn, at the end of a pass of the event loop
//!   woken                     serve ◀───────────────┘
//!                               ├─▶ taken: due elements leave the lawn, and replicas are told
//!                               ▼
//!   replied   client::unblock ─▶ the server asks for the reply: the elements, nothing, or an error
//!   gone                    └──▶ the client has disconnected: serve gives the elements back
//! ```

mod client;
mod give;
mod reply;
mod request;
mod serve;
mod taken;

use crate::clock;
use crate::data_type::{Dehydrator, Reading, Writing};
use crate::pending::blocked::Take;
use crate::server::command::access;
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Error, Str, error::Result};

use self::client::{Asked, must_wait, note_resend, sleep};
use self::reply::{reply_due, reply_held, reply_nothing};
use self::request::{parse_mpoll, parse_numkeys, parse_poll};
use super::checks;

pub use self::client::{disconnected, flushed, is_under_way, pass_begins, swapped};
pub use self::serve::{backstop, serve};

/// Runs `POLL key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token] | WITHIDS]`. Replies the due elements in order, and
/// removes them or, with LEASE, leases them. A TOKEN that holds elements already gets those instead. With BLOCK the
/// client waits until some are due.
pub fn poll(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, block, mut take) = parse_poll(args)?;
    take.draw_token();
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    // Checked before anything is given out.
    checks::lease(take.lease, now)?;
    // Most clients choose no token, which skips the search.
    if take.chosen_token().is_some()
        && let Some(lawn) = dehydrator.look()
        && reply_held(context, key, lawn, &take, now)
    {
        note_resend(context.selected_db(), key, take.token);
        return Ok(());
    }

    let timeout = block.filter(|_| context.may_block());
    if timeout.is_some() {
        let outlook = dehydrator.existing().map_or(Ok(None), Dehydrator::outlook);
        let refused = |_| "BLOCK is not allowed: ONDUE delivers this key";
        let asked = (key, outlook.map_err(refused)?);
        if must_wait(context, asked, now) {
            drop(dehydrator);
            if let Some(timeout) = timeout
                && sleep(context, args.get(0), &[asked], timeout, &take)
            {
                return Ok(());
            }
            dehydrator = Writing::open_at(context, key, now)?;
        }
    }
    if !reply_due(context, dehydrator, key, now, &take)
        && !sleep_after_all(context, args.get(0), &[key], timeout, &take)
    {
        reply_nothing(context, take.is_named);
    }
    Ok(())
}

/// Runs `MPOLL numkeys key [key ...] [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token] | WITHIDS]`. Replies the first key that
/// has due elements, and POLL's reply for it, or nil. With BLOCK the client waits until one has.
pub fn mpoll(context: &CommandContext, args: Args<'_>) -> Result {
    if context.wants_keys() {
        // A malformed request is refused anyway, so it reports no keys.
        (2..2 + parse_numkeys(args).unwrap_or(0)).for_each(|at| context.key_at(at, access::TAKE));
        return Ok(());
    }
    let (keys, block, mut take) = parse_mpoll(args)?;
    take.draw_token();
    let timeout = block.filter(|_| context.may_block());
    let now = clock::now();
    // All keys are checked before anything is given out: a key of another type is an error, whatever is due elsewhere.
    let outlooks = keys.iter().map(|key| outlook(context, *key, timeout.is_some()));
    let outlooks = outlooks.collect::<Result<Vec<_>>>()?;
    checks::lease(take.lease, now)?;
    // Most clients choose no token, which skips the search.
    let replies_held = |key: &Str<'_>| {
        let dehydrator = Reading::open(context, *key);
        let lawn = dehydrator.as_ref().ok().and_then(|dehydrator| dehydrator.lawn());
        lawn.is_some_and(|lawn| reply_held(context, *key, lawn, &take, now))
    };
    if take.chosen_token().is_some()
        && let Some(key) = keys.iter().copied().find(replies_held)
    {
        note_resend(context.selected_db(), key, take.token);
        return Ok(());
    }

    let asked: Vec<Asked<'_>> = keys
        .into_iter()
        .zip(outlooks)
        .map(|(key, outlook)| Ok((key, outlook?)))
        .collect::<Result<_>>()
        .map_err(|_: Error| "BLOCK is not allowed: ONDUE delivers one of these keys")?;
    if let Some(timeout) = timeout {
        let first = asked.iter().find(|asked| is_due(asked, now));
        if first.is_none_or(|first| must_wait(context, *first, now))
            && sleep(context, args.get(0), &asked, timeout, &take)
        {
            return Ok(());
        }
    }
    let keys: Vec<_> = asked.iter().map(|(key, _)| *key).collect();
    if !reply_first(context, &asked, &take, now)
        && !sleep_after_all(context, args.get(0), &keys, timeout, &take)
    {
        reply_nothing(context, take.is_named);
    }
    Ok(())
}

fn is_due((_, next): &Asked<'_>, now: u64) -> bool {
    next.is_some_and(|next| next <= now)
}

/// Returns when a key can next give something out. A client cannot wait for elements that a policy delivers. A client
/// that does not wait is given them if they are due, as by POLL.
///
/// # Errors
///
/// [`Error::WRONG_TYPE`].
fn outlook(context: &Context, key: Str<'_>, waits: bool) -> Result<Result<Option<u64>>> {
    let dehydrator = Reading::open(context, key)?;
    Ok(match dehydrator.dehydrator() {
        None => Ok(None),
        Some(dehydrator) if waits => dehydrator.outlook(),
        Some(dehydrator) => Ok(dehydrator.next()),
    })
}

/// Blocks the client of this command if it waits, though something seemed to be due: expired elements and dead letters have
/// left in its place, or there were too many to pass over in one call. Returns whether the client is blocked.
fn sleep_after_all(
    context: &CommandContext,
    command: Option<Str<'_>>,
    keys: &[Str<'_>],
    timeout: Option<u64>,
    take: &Take<'_>,
) -> bool {
    // Others may have changed a key meanwhile.
    let asked = |key| Some((key, outlook(context, key, true).ok()?.ok()?));
    let Some(timeout) = timeout else { return false };
    let asked: Option<Vec<_>> = keys.iter().copied().map(asked).collect();
    asked.is_some_and(|asked| sleep(context, command, &asked, timeout, take))
}

/// Replies the due elements of the first key that gives some out. Returns whether one did.
fn reply_first(context: &Context, asked: &[Asked<'_>], take: &Take<'_>, now: u64) -> bool {
    for (key, _) in asked.iter().filter(|asked| is_due(asked, now)) {
        // Moving dead letters of an earlier key calls out, so this key may have another type now.
        let Ok(dehydrator) = Writing::open_at(context, *key, now) else { continue };
        if reply_due(context, dehydrator, *key, now, take) {
            return true;
        }
    }
    false
}
