//! From an id to its record.
//!
//! | module | noun |
//! |---|---|
//! | `index` | all ids of a lawn: tables, and which of them a hash belongs to |
//! | `table` | a table of the index: buckets of eight entries |
//! | `lanes` | which of eight numbers are equal to one: the inner step of a look-up |

mod index;
mod lanes;
mod table;

pub use index::Index;
pub use table::IdHash;
