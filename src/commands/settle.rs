//! What a client does with elements that it holds: SETTLE, RENEW. Whoever holds them no more, does nothing.

use crate::data_type::Writing;
use crate::replicate::{self, Batch};
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use super::{args, limits};

/// Runs `SETTLE key token id [token id ...]`: for each 1 if it was held under that token, and is gone, or 0.
pub fn settle(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Settle { key, held } = args::read(context, args, args::Settle::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let mut reply = context.reply_array(held.len());
    let mut removed = Batch::removed(context, key);
    let mut lawn = dehydrator.lawn();
    for args::Held { token, id } in held.iter() {
        let lawn = lawn.as_deref_mut().filter(|lawn| lawn.holds(id.bytes(), token));
        let is_settled = lawn.is_some_and(|lawn| lawn.stop(id.bytes()).is_some());
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
/// milliseconds from now, or 0. A ttl of 0 gives it back.
pub fn renew(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Renew { key, ttl, held } = args::read(context, args, args::Renew::parse)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();

    let deadline = limits::deadline(context, ttl, ttl, None, now)?;
    let mut reply = context.reply_array(held.len());
    let mut any = false;
    let mut lawn = dehydrator.lawn();
    for args::Held { token, id } in held.iter() {
        let lawn = lawn.as_deref_mut().filter(|lawn| lawn.holds(id.bytes(), token));
        let is_renewed = lawn.is_some_and(|lawn| lawn.restart_at(id.bytes(), ttl, deadline));
        if is_renewed {
            replicate::touched(context, key, id.bytes(), ttl, deadline);
            any = true;
        }
        reply.push_integer(is_renewed.into());
    }
    drop(reply);
    if any {
        dehydrator.changed(c"dehydrator.renew");
    }
    Ok(())
}
