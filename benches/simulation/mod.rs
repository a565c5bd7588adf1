//! A node, its workers and what comes due, in discrete events.
//!
//! A *node* is a server's one thread. It works in turns of its event loop: a turn takes every request that has arrived,
//! works on one after the other, and sends all replies at its end. A node that has nothing to do sleeps, and to wake it
//! takes time. Elements have deadlines, leases and counts of deliveries, as the module's have. *Workers* ask, wait,
//! work, and settle or give back, each one at a time. They run on a machine with one processor for all of them, as where
//! this is compared with real servers, or on as many machines as it takes.
//!
//! Times are nanoseconds from the beginning. The same plan and seed give the same run, event by event.

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
