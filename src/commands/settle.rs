//! What a client does with elements that it holds: SETTLE, RENEW, RELEASE, REJECT. Whoever holds them no more, does nothing.

use std::ffi::CStr;

use crate::clock;
use crate::courier;
use crate::data_type::{Reading, Writing, runs};
use crate::replicate::{self, Batch};
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};
use lawn::Lawn;

use super::{args, limits, refusal};

/// Runs `SETTLE key token id [token id ...]`: for each 1 if it was held under that token, and is gone, or 0.
pub fn settle(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Settle { key, held } = args::read(context, args, args::Settle::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let mut reply = context.reply_array(held.len());
    let until = dehydrator.remembers_until();
    let mut removed = Batch::settled(context, key, until);
    let mut leaving = dehydrator.leaving(until);
    for args::Held { token, id } in held.iter() {
        let held = leaving.as_mut().filter(|leaving| leaving.lawn.holds(id.bytes(), token));
        let is_settled = held.is_some_and(|leaving| leaving.settle(id.bytes()));
        if is_settled {
            removed.push_sent(id);
        }
        reply.push_integer(is_settled.into());
    }
    drop(reply);
    if removed.finish() {
        dehydrator.shrunk(c"dehydrator.settle");
    }
    Ok(())
}

/// Runs `RENEW key ttl token id [token id ...]`: for each 1 if it is held under that token, and comes due `ttl`
/// milliseconds from now, or 0. A ttl of 0 gives it back. A lease that has run out is not
/// renewed where as many run as HELD allows.
pub fn renew(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Renew { key, ttl, held } = args::read(context, args, args::Renew::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let deadline = limits::deadline(context, ttl, ttl, None, dehydrator.now())?;
    restart(context, key, dehydrator, held, (ttl, deadline), c"dehydrator.renew");
    Ok(())
}

/// Runs `RELEASE key ms token id [token id ...]`: for each 1 if it was held under that token, and is held no more, and comes
/// due `ms` milliseconds from now, or 0.
pub fn release(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Release { key, ms, held } = args::read(context, args, args::Release::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let deadline = limits::back_off(context, ms, dehydrator.now())?;
    restart(context, key, dehydrator, held, (GIVEN_BACK, deadline), c"dehydrator.release");
    Ok(())
}

/// The TTL by which an element is given back, whenever it comes due.
const GIVEN_BACK: u64 = 0;

/// Starts the timers of those elements anew that are held under their tokens, and replies which those are.
fn restart(
    context: &CommandContext,
    key: Str<'_>,
    mut dehydrator: Writing<'_>,
    held: args::HeldList<'_>,
    (ttl, deadline): (u64, u64),
    event: &'static CStr,
) {
    let mut reply = context.reply_array(held.len());
    let mut any = false;
    let (now, most) = (dehydrator.now(), dehydrator.held_limit());
    let mut lawn = dehydrator.lawn();
    for args::Held { token, id } in held.iter() {
        let may_run = |lawn: &&mut Lawn| {
            let runs = || lawn.look(id.bytes()).is_some_and(|it| runs(it.deadline, now));
            most == 0 || ttl == 0 || runs() || (lawn.running(now) as u64) < most
        };
        let lawn = lawn.as_deref_mut().filter(|lawn| lawn.holds(id.bytes(), token));
        let lawn = lawn.filter(may_run);
        let is_held = lawn.is_some_and(|lawn| lawn.restart_at(id.bytes(), ttl, deadline));
        if is_held {
            replicate::touched(context, key, id.bytes(), ttl, deadline);
            any = true;
        }
        reply.push_integer(is_held.into());
    }
    drop(reply);
    if any {
        dehydrator.changed(event);
    }
}

/// Runs `REJECT key token id [token id ...]`: for each 1 if it was held under that token, and is a dead letter now, or 0.
pub fn reject(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Settle { key, held } = args::read(context, args, args::Settle::parse)?;
    let now = clock::now();

    let policy = {
        let reading = Reading::open(context, key)?;
        reading.dehydrator().map(|dehydrator| dehydrator.rules.policy.clone())
    };
    let rejected = match policy {
        // What is not there is held by nobody.
        None => vec![false; held.len()],
        Some(policy) if policy.limits() => {
            let held: Vec<_> = held.iter().map(|args::Held { token, id }| (token, id)).collect();
            courier::reject(context, key, &policy, &held, now)
        }
        Some(_) => return Err(refusal::no_rule()),
    };
    let mut reply = context.reply_array(rejected.len());
    rejected.into_iter().for_each(|is_rejected| reply.push_integer(is_rejected.into()));
    Ok(())
}
