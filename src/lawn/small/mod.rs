//! A lawn of a few elements, in one allocation.
//!
//! | module | noun |
//! |---|---|
//! | `small` | the small lawn |
//! | `packed` | how its elements lie there |

mod packed;
mod small;

pub use small::{Iter, Small, SmallMax};
