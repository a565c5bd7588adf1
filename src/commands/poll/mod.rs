//! What is due, to whoever asks for it: POLL, and MPOLL of several keys.
//!
//! | module | noun |
//! |---|---|
//! | this file | POLL |
//! | `mpoll` | MPOLL |
//! | `give` | giving out what is due, for both, and for a blocked client |
//! | `blocked` | what is taken for a blocked client, and given back if it has gone |

mod blocked;
mod give;
mod mpoll;

use std::iter;

use crate::data_type::{Dehydrator, Writing, inspect};
use crate::pending::blocked::{self as line, Outlook};
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Str, error::Result};

use self::blocked::{Asker, claim};
use self::give::{held, take_due};
use super::{args, limits};

pub use self::mpoll::mpoll;

/// `POLL key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]`: the elements that are due, in order, and gone;
/// with LEASE, hidden, and with TOKEN first what is hidden under it already. With BLOCK it waits until there are some.
pub fn poll(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Poll { key, block, take } = args::read(context, args, args::Poll::parse)?;
    let take = take.with_token();
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    // Refused before anything is given out.
    take.lease.map_or(Ok(0), |ttl| limits::lease(context, ttl, now))?;
    if let Some(lawn) = dehydrator.look()
        && held(lawn, take, now).next().is_some()
    {
        let mut reply = context.reply_array_up_to(take.count);
        held(lawn, take, now).for_each(|element| take.reply(&mut reply, &element));
        claim(take.token);
        return Ok(());
    }

    if let Some(timeout) = block.filter(|_| context.may_block()) {
        let Outlook::Next(next) = dehydrator.outlook() else {
            return Err(
                "BLOCK waits for nothing here: what comes due in this key is delivered by ONDUE"
                    .into(),
            );
        };
        // Those who came before are served before.
        if next.is_none_or(|next| next > now) || line::is_watched(context, key) {
            drop(dehydrator);
            let taker = Box::new(Asker::new(take, false, iter::once(key)));
            if line::block(context, &[(key, next)], timeout, peek, taker) {
                return Ok(());
            }
            dehydrator = Writing::open_at(context, key, now)?;
        }
    }
    let mut reply = context.reply_array_up_to(take.count);
    take_due(context, dehydrator, key, now, take, |element| take.reply(&mut reply, &element));
    Ok(())
}

/// What there is for blocked clients.
fn peek(context: &Context, key: Str<'_>) -> Outlook {
    inspect(context, key, Dehydrator::outlook).unwrap_or(Outlook::Next(None))
}
