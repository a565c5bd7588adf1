//! A discrete-event simulation of a node, its workers and its elements.
//!
//! A *node* is the one thread of a server. It works in passes of its event loop: a pass takes every request that has
//! arrived, processes them one after the other, and sends all replies at its end. A node without requests sleeps, and
//! waking it takes time. Elements have deadlines, leases and delivery counts, as in the module. *Workers* ask, wait,
//! work, and settle or give back, one job at a time. They run on a machine with one core for all of them, as in the
//! comparison with real servers, or on as many machines as needed.
//!
//! Times are nanoseconds from the start. The same plan and seed give the same run, event by event.

pub mod agenda;
pub mod costs;
pub mod later;
pub mod node;
pub mod plan;
pub mod random;
pub mod run;
pub mod tally;

/// Nanoseconds.
pub type Time = u64;

pub const US: Time = 1000;
pub const MS: Time = 1000 * US;
pub const SECOND: Time = 1000 * MS;
