//! Judges: a model that follows the replies, and the promises of docs/guarantees.md, each by its name.
//!
//! | module | contents |
//! |---|---|
//! | `promises` | the promises, and a fault: one that was broken |
//! | `model` | the model of the keyspace, and what arrived at destinations |
//! | `dehydrator` | the model of one dehydrator, with `entry`, `policy`, `group` and `limits` |
//! | `openings` | from when on its groups give something out |
//! | `leaving` | what may leave it at a moment, and what has to |
//! | `follow` | follows the replies to commands that write, with `keyspace` and `polled` |
//! | `heard` | follows what happens by itself, as the effects tell |
//! | `schedule`, `cron`, `zone` | schedules: follows what has occurred |
//! | `revive` | dead letters that come back |
//! | `reads` | checks the replies to commands that read, with `room` |

mod cron;
pub mod dehydrator;
mod entry;
pub mod follow;
mod group;
pub mod heard;
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
pub mod revive;
mod room;
pub mod schedule;
mod zone;

pub type Bytes = Vec<u8>;

/// The latest possible moment.
pub const NEVER: u64 = i64::MAX as u64;

pub use promises::{Fault, Promise};
