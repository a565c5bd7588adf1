//! Ids that are remembered for a while, and nothing else of them.
//!
//! | module | noun |
//! |---|---|
//! | `remembered` | ids, each until a moment: all that can be asked of them |
//! | `piles` | those ids in the order of their moments, in lists of chunks |
//! | `chunk` | some of them, one behind the other |
//! | `place` | where one lies: the name by which the index knows it |

mod chunk;
mod piles;
mod place;
mod remembered;

pub use remembered::{Remembered, Rest};
