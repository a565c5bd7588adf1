//! POLL and MPOLL: giving out due elements, at once or to a client that blocks until there are some.
//!
//! | module | contents |
//! |---|---|
//! | this file | POLL |
//! | `mpoll` | MPOLL |
//! | `request` | the arguments of both |
//! | `give` | giving out due elements to a recipient: a reply, or what is taken for a blocked client |
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
//!   replied   client::unblock ─▶ the server asks for the reply: the elements, nil, or an error
//!   gone                    └──▶ the client has disconnected: serve gives the elements back
//! ```

mod client;
mod give;
mod mpoll;
mod reply;
mod request;
mod serve;
mod taken;

use crate::data_type::{Dehydrator, Writing};
use crate::pending::blocked::Outlook;
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use self::client::{must_wait, note_resend, sleep};
use self::reply::{reply_due, reply_held};
use self::request::parse_poll;
use super::{args, limits};

pub use self::client::{flushed, swapped};
pub use self::mpoll::mpoll;
pub use self::serve::{backstop, next_us, serve};

/// Runs `POLL key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]`. Replies the due elements in order, and
/// removes them or, with LEASE, leases them. A TOKEN that holds elements already gets those instead. With BLOCK the
/// client waits until some are due.
pub fn poll(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, block, mut take) = args::read(context, args, parse_poll)?;
    take.draw_token();
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    // Checked before anything is given out.
    limits::lease(context, take.lease, now)?;
    // Most clients choose no token, which skips the search.
    if take.chosen_token().is_some()
        && let Some(lawn) = dehydrator.look()
        && reply_held(context, key, lawn, &take, now)
    {
        note_resend(context.selected_db(), key, take.token);
        return Ok(());
    }

    if let Some(timeout) = block.filter(|_| context.may_block()) {
        let outlook = dehydrator.existing().map_or(Outlook::Next(None), Dehydrator::outlook);
        let Outlook::Next(next) = outlook else {
            return Err("BLOCK is not allowed: ONDUE delivers this key".into());
        };
        let asked = (key, next);
        if must_wait(context, asked, now) {
            drop(dehydrator);
            if sleep(context, &[asked], timeout, &take) {
                return Ok(());
            }
            dehydrator = Writing::open_at(context, key, now)?;
        }
    }
    reply_due(context, dehydrator, key, now, &take);
    Ok(())
}
