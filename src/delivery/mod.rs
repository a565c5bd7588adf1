//! Moving due elements and dead letters to the destination of a policy, and publishing the event that elements are due.
//!
//! ```text
//!   the end of a pass, the cron ─▶ visit ─┬─▶ the event dehydrator.due
//!                                         ├─▶ deliver ───────────┐
//!   POLL ─────────────────────────────────┼─▶ move_dead_letters ─┤
//!                                         ├─▶ retry ─────────────┼─▶ send: XADD or PUBLISH for each, RPUSH for all; then REM
//!                                         └─▶ occur              │
//!   REJECT ─────────────────────────────────▶ reject ────────────┘
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `visit` | the work that is due for one key of the [`agenda`](crate::pending::agenda): the event, delivery, the end of a pause, expired elements, stuck dead letters, schedules |
//! | `dead_letters` | dead letters: moving, rejecting, parking and retrying them |
//! | `occur` | storing the elements of schedules |
//! | `send` | sending elements, and removing those that were sent |
//! | `send_command` | the server command that moves elements |

mod dead_letters;
mod occur;
mod send;
mod send_command;
mod visit;

pub use send::Origin;
pub use visit::run;
