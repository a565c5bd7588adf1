//! Storage for the bytes of elements.
//!
//! | module | contents |
//! |---|---|
//! | `records` | an element's bytes: header, id, payload |
//! | `beside` | what records have in allocations of their own: a long content, a reason |
//! | `links` | the links of records that are in a group |
//! | `slab` | slots of a few units each, in pages; grows without copying, gives memory back |
//! | `handle` | the name of a slot, and the unit that slots consist of |

mod beside;
mod handle;
mod links;
mod records;
mod slab;

pub use handle::{Handle, Unit};
pub use links::{HELD_MARK, LEFT, Links, Nodes, PARENT, RIGHT};
pub use records::{GROUP_MARK, Granule, Records, Spot, are_equal};
pub use slab::Slab;
