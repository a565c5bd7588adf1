//! MPOLL: POLL on the first of several keys that has due elements.

use crate::clock;
use crate::data_type::{Dehydrator, Reading, Writing};
use crate::pending::Take;
use crate::pending::blocked::Outlook;
use crate::server::command::access;
use crate::server::reply::Array;
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Str, error::Result};

use super::give::{held, take_due};
use super::request::{MPoll, parse_numkeys};
use super::resends::note_resend;
use super::sleep::{Asked, must_wait, sleep};
use crate::commands::{args, limits};

/// Runs `MPOLL numkeys key [key ...] [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]`. Replies the first key that
/// has due elements, and POLL's reply for it, or nil. With BLOCK the client waits until one has.
pub fn mpoll(context: &CommandContext, args: Args<'_>) -> Result {
    if context.wants_keys() {
        // A malformed request is refused anyway, so it reports no keys.
        (2..2 + parse_numkeys(args).unwrap_or(0)).for_each(|at| context.key_at(at, access::TAKE));
        return Ok(());
    }
    let MPoll { keys, block, take, word } = args::read(context, args, MPoll::parse)?;
    let take = take.with_token();
    let timeout = block.filter(|_| context.may_block());
    let now = clock::now();
    // All keys are checked before anything is given out: a key of another type is an error, whatever is due elsewhere.
    let outlooks: Vec<_> =
        keys.iter().map(|key| outlook(context, *key, timeout.is_some())).collect::<Result<_>>()?;
    take.lease.map_or(Ok(0), |ttl| limits::lease(context, ttl, now))?;
    if let Some(key) = reply_held(context, &keys, (take, word), now) {
        note_resend(key, take.token);
        return Ok(());
    }

    let asked: Vec<Asked<'_>> = keys
        .into_iter()
        .zip(outlooks)
        .map(|(key, outlook)| match outlook {
            Outlook::Next(next) => Ok((key, next)),
            Outlook::Delivered => {
                Err("BLOCK is not allowed: ONDUE delivers one of these keys".into())
            }
        })
        .collect::<Result<_>>()?;
    let Some(timeout) = timeout else {
        reply_first(context, &asked, (take, word), now);
        return Ok(());
    };
    let first = asked.iter().find(|asked| is_due(asked, now));
    if first.is_none_or(|first| must_wait(context, *first, now))
        && sleep(context, &asked, timeout, (take, word), true)
    {
        return Ok(());
    }
    reply_first(context, &asked, (take, word), now);
    Ok(())
}

fn is_due((_, next): &Asked<'_>, now: u64) -> bool {
    next.is_some_and(|next| next <= now)
}

/// Returns when a key can next give something out. A client cannot wait for elements that a policy delivers. A client
/// that does not wait is given them if they are due, as by POLL.
fn outlook(context: &Context, key: Str<'_>, waits: bool) -> Result<Outlook> {
    let dehydrator = Reading::open(context, key)?;
    Ok(match dehydrator.dehydrator() {
        None => Outlook::Next(None),
        Some(dehydrator) if waits => dehydrator.outlook(),
        Some(dehydrator) => Outlook::Next(Dehydrator::next(dehydrator)),
    })
}

/// Replies the elements that the client holds under its chosen token in the first of these keys that has any. Returns
/// that key.
fn reply_held<'a>(
    context: &Context,
    keys: &[Str<'a>],
    (take, word): (Take, Option<Str<'_>>),
    now: u64,
) -> Option<Str<'a>> {
    let token = take.token_form(word.map(Str::bytes));
    take.chosen_token()?;
    keys.iter().copied().find(|key| {
        let Ok(dehydrator) = Reading::open(context, *key) else { return false };
        let mut reply = None;
        for element in dehydrator.lawn().into_iter().flat_map(|lawn| held(lawn, take, now)) {
            take.reply(reply.get_or_insert_with(|| named(context, *key, take)), &element, &token);
        }
        reply.is_some()
    })
}

/// Replies the due elements of the first key that gives some out, or nil.
fn reply_first(
    context: &Context,
    asked: &[Asked<'_>],
    (take, word): (Take, Option<Str<'_>>),
    now: u64,
) {
    let token = take.token_form(word.map(Str::bytes));
    for (key, _) in asked.iter().filter(|asked| is_due(asked, now)) {
        // Moving dead letters of an earlier key calls out, so this key may have another type now.
        let Ok(dehydrator) = Writing::open_at(context, *key, now) else { continue };
        let mut reply = None;
        take_due(context, dehydrator, *key, now, take, |element| {
            take.reply(reply.get_or_insert_with(|| named(context, *key, take)), &element, &token);
        });
        if reply.is_some() {
            return;
        }
    }
    context.reply_null_array();
}

/// Begins a reply with the key and an array for its elements.
fn named<'a>(context: &'a Context, key: Str<'_>, take: Take) -> Array<'a> {
    context.reply_named_array_up_to(key.bytes(), take.count)
}
