//! Judges: a model that follows the replies, and the promises of docs/guarantees.md, each by its name.

pub mod dehydrator;
mod entry;
pub mod follow;
mod group;
mod keyspace;
mod leaving;
pub mod limits;
pub mod model;
mod openings;
mod policy;
mod polled;
pub mod promises;
pub mod reads;
mod refused;

pub type Bytes = Vec<u8>;

/// The latest possible moment.
pub const NEVER: u64 = i64::MAX as u64;

pub use promises::{Fault, Promise};
