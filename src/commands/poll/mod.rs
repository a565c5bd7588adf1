//! What is due, to whoever asks for it: POLL, and MPOLL of several keys, also for a client that sleeps until then.
//!
//! | module | noun |
//! |---|---|
//! | this file | POLL |
//! | `mpoll` | MPOLL |
//! | `request` | what both ask for |
//! | `give` | giving out what is due, to whoever it is for |
//! | `sleep` | falling asleep, where nothing is due |
//! | `serve` | waking: whose turn it is, by [`pending`](crate::pending::blocked), is given something |
//! | `parcel` | what was taken for a client that slept |
//! | `unblocked` | clients that have been woken: they are replied to, or have gone |
//! | `claims` | words that are sent twice, over another connection |
//!
//! ```text
//!   POLL … BLOCK ─▶ sleep ─▶ pending::blocked: asleep, in line
//!                                   │ its turn, at the end of a pass of the event loop
//!                                   ▼
//!                   parcel ◀── serve: woken ─▶ unblocked ─▶ parcel: replied, or given back
//!                   taken
//! ```

mod claims;
mod give;
mod mpoll;
mod parcel;
mod request;
mod serve;
mod sleep;
mod unblocked;

use crate::data_type::Writing;
use crate::pending::blocked::Outlook;
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};

use self::claims::claim;
use self::give::{held, take_due};
use self::request::Poll;
use self::sleep::{has_to_wait, sleep};
use super::{args, limits};

pub use self::mpoll::mpoll;
pub use self::serve::{backstop, next_us, serve};
pub use self::unblocked::{flushed, swapped};

/// Runs `POLL key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]`: the elements that are due, in order, and
/// gone; with LEASE, hidden, and with TOKEN first what is hidden under it already. With BLOCK it waits until there are
/// some.
pub fn poll(context: &CommandContext, args: Args<'_>) -> Result {
    let Poll { key, block, take, word } = args::read(context, args, Poll::parse)?;
    let take = take.with_token();
    let token = take.spelling(word.map(Str::bytes));
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    // Refused before anything is given out.
    take.lease.map_or(Ok(0), |ttl| limits::lease(context, ttl, now))?;
    // Most choose no token, and need not look for what it holds.
    if take.chosen_token().is_some()
        && let Some(lawn) = dehydrator.look()
        && held(lawn, take, now).next().is_some()
    {
        let mut reply = context.reply_array_up_to(take.count);
        held(lawn, take, now).for_each(|element| take.reply(&mut reply, &element, &token));
        claim(key, take.token);
        return Ok(());
    }

    if let Some(timeout) = block.filter(|_| context.may_block()) {
        let Outlook::Next(next) = dehydrator.outlook() else {
            return Err("BLOCK is not allowed: ONDUE delivers this key".into());
        };
        let asked = (key, next);
        if has_to_wait(context, asked, now) {
            drop(dehydrator);
            if sleep(context, &[asked], timeout, (take, word), false) {
                return Ok(());
            }
            dehydrator = Writing::open_at(context, key, now)?;
        }
    }
    let mut reply = context.reply_array_up_to(take.count);
    take_due(context, dehydrator, key, now, take, |element| {
        take.reply(&mut reply, &element, &token);
    });
    Ok(())
}
