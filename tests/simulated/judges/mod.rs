//! Judges: a model that follows the replies, and the promises of docs/guarantees.md, each by its name.

pub mod dehydrator;
pub mod follow;
pub mod limits;
pub mod model;
pub mod promises;
pub mod reads;

pub type Bytes = Vec<u8>;

/// The latest possible moment.
pub const NEVER: u64 = i64::MAX as u64;

pub use promises::{Fault, Promise};

/// A known fault that is not judged until it is mended: once HELD is lowered below the number of running leases, TTN tells the end
/// of the first of them. To meet it, set this to `false`.
pub const LEAVES_OUT_LOWERED_HELD: bool = true;

/// Known faults that are left out of what is drawn and judged, until they are mended: among thousands of groups at their limits
/// elements get lost and clients sleep on, and TTN, INFO and LATE do not know what groups with limits give out. To meet them,
/// set this to `false`.
pub const LEAVES_OUT_LIMITED_GROUPS: bool = true;
