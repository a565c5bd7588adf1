//! Where the bytes of elements lie.
//!
//! | module | noun |
//! |---|---|
//! | `records` | the bytes of an element: header, id, payload |
//! | `slab` | slots of a few units each, in pages; grows without copying, gives memory back |
//! | `handle` | the name of a slot, and what a slot is made of |
//! | `shelves` | a list that grows without being copied |
//! | `boxes` | what is too wide for a slot |

mod boxes;
mod handle;
mod records;
mod shelves;
mod slab;

pub use handle::{Handle, Unit};
pub use records::{Records, Spot};
pub use slab::Slab;
