//! POLL and MPOLL: giving out due elements, at once or to a client that blocks until there are some.
//!
//! | module | noun |
//! |---|---|
//! | this file | POLL |
//! | `mpoll` | MPOLL |
//! | `request` | the arguments of both |
//! | `give` | giving out due elements |
//! | `sleep` | blocking a client when nothing is due |
//! | `serve` | waking blocked clients in the order that [`pending`](crate::pending::blocked) keeps |
//! | `taken` | elements taken for a blocked client |
//! | `unblocked` | woken clients: each receives its reply, or has disconnected |
//! | `resends` | requests repeated over another connection |
//!
//! ```text
//!   POLL … BLOCK ─▶ sleep ─▶ pending::blocked: queued per key
//!                                   │ its turn, at the end of a pass of the event loop
//!                                   ▼
//!                   taken ◀── serve: woken ─▶ unblocked ─▶ taken: replied, or given back
//! ```

mod give;
mod mpoll;
mod request;
mod resends;
mod serve;
mod sleep;
mod taken;
mod unblocked;

use crate::data_type::Writing;
use crate::pending::blocked::Outlook;
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};

use self::give::{held, take_due};
use self::request::Poll;
use self::resends::note_resend;
use self::sleep::{must_wait, sleep};
use super::{args, limits};

pub use self::mpoll::mpoll;
pub use self::serve::{backstop, next_us, serve};
pub use self::unblocked::{flushed, swapped};

/// Runs `POLL key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]`. Replies the due elements in order, and
/// removes them or, with LEASE, leases them. A TOKEN that holds elements already gets those instead. With BLOCK the
/// client waits until some are due.
pub fn poll(context: &CommandContext, args: Args<'_>) -> Result {
    let Poll { key, block, take, word } = args::read(context, args, Poll::parse)?;
    let take = take.with_token();
    let token = take.token_form(word.map(Str::bytes));
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    // Checked before anything is given out.
    take.lease.map_or(Ok(0), |ttl| limits::lease(context, ttl, now))?;
    // Most clients choose no token, which skips the search.
    if take.chosen_token().is_some()
        && let Some(lawn) = dehydrator.look()
        && held(lawn, take, now).next().is_some()
    {
        let mut reply = context.reply_array_up_to(take.count);
        held(lawn, take, now).for_each(|element| take.reply(&mut reply, &element, &token));
        note_resend(key, take.token);
        return Ok(());
    }

    if let Some(timeout) = block.filter(|_| context.may_block()) {
        let Outlook::Next(next) = dehydrator.outlook() else {
            return Err("BLOCK is not allowed: ONDUE delivers this key".into());
        };
        let asked = (key, next);
        if must_wait(context, asked, now) {
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
