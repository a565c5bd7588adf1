//! The module's own work, which the server's events start and no client requests.
//!
//! This folder is above [`data_type`](crate::data_type): it opens keys, changes them, and replicates the changes.
//! [`pending`](crate::pending) records the work. `pass` has blocked clients served by
//! [`commands::poll`](crate::commands::poll), and elements delivered by [`delivery`](crate::delivery), both below.
//!
//! | module | contents |
//! |---|---|
//! | `pass` | the end of a pass of the event loop, where due work is done |
//! | `cron` | the server's cron, in a budget of time: compaction, forgetting expired ids, and what `pass` and `server_events` could not notice |
//! | `renamed` | after a RENAME or MOVE: the walk over the keyspace that finds the dehydrator under its new name |
//! | `server_events` | the server's events: FLUSHALL, SWAPDB, a load, a change of roles, slots that migrate here |
//!
//! The server calls `pass`, `cron` and `server_events`, which `lib` registers. `pass` calls `renamed`.

pub mod cron;
pub mod pass;
mod renamed;
pub mod server_events;
