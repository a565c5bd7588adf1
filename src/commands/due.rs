//! What is due, and when the next is: XPOLL, TTN, PTTL.

use crate::clock;
use crate::data_type::{Dehydrator, Reading, is_stuck};
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use super::args;

/// Runs `XPOLL key [COUNT n]`: the ids of the elements that are due, in order.
pub fn xpoll(context: &CommandContext, args: Args<'_>) -> Result {
    let args::XPoll { key, count } = args::read(context, args, args::XPoll::parse)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let mut reply = context.reply_array_up_to(count);
    if let Some(dehydrator) = dehydrator.dehydrator() {
        for (_, element) in dehydrator.given_out(now, count) {
            reply.push_bulk(element.id);
        }
    }
    Ok(())
}

/// Runs `TTN key`: milliseconds until something can be taken, 0 when something is due, nil when nothing waits, or is
/// given out before somebody ends a pause.
pub fn ttn(context: &CommandContext, args: Args<'_>) -> Result {
    let args::OfKey { key } = args::read(context, args, args::OfKey::parse)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    match dehydrator.dehydrator().and_then(Dehydrator::next) {
        Some(deadline) => context.reply_integer(deadline.saturating_sub(now) as i64),
        None => context.reply_null(),
    }
    Ok(())
}

/// Runs `PTTL key id`: milliseconds to the element's deadline, 0 when it is due, -1 if it is a dead letter that cannot
/// go, -2 if there is none.
pub fn pttl(context: &CommandContext, args: Args<'_>) -> Result {
    /// As PTTL says that a key is not there.
    const NO_SUCH_ID: i64 = -2;
    /// As PTTL says that a key does not expire.
    const NO_DEADLINE: i64 = -1;
    let args::OfId { key, id } = args::read(context, args, args::OfId::parse)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let row = dehydrator.lawn().and_then(|lawn| lawn.row(id.bytes()));
    let left = row.map(|row| match is_stuck(&row) {
        true => NO_DEADLINE,
        false => row.element.deadline.saturating_sub(now) as i64,
    });
    context.reply_integer(left.unwrap_or(NO_SUCH_ID));
    Ok(())
}
