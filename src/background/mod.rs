//! What the module does by itself, when the server calls it without a client's asking.
//!
//! This folder is above [`data_type`](crate::data_type): it opens keys, changes what is in them, and replicates that.
//! What there is to do stands in [`pending`](crate::pending). Blocked clients are served by the
//! [room of POLL](crate::commands::poll), below, when `pass` says so.
//!
//! | module | noun |
//! |---|---|
//! | `pass` | the end of a pass of the event loop: what is due now is done |
//! | `cron` | the server's cron: the per-tick bookkeeping |
//! | `delivery` | moving what came due to its stream or channel |
//! | `renamed` | finding dehydrators that were renamed |
//! | `keyspace` | FLUSHALL, SWAPDB, a load, a change of roles |
//!
//! The server calls three of these: `pass`, `cron` and `keyspace`, which `lib` registers. `pass` calls `delivery`
//! and `renamed`; `cron` sees to it that nothing was missed.

pub mod cron;
mod delivery;
pub mod keyspace;
pub mod pass;
mod renamed;
