//! In which order elements come due.
//!
//! | module | noun |
//! |---|---|
//! | `queues` | the FIFO queue of each TTL |
//! | `block` | a piece of a queue: places for 62 handles |
//! | `heads`, `unsettled` | which queue is next; those of which that is not known yet |
//! | `directory`, `listing` | where to begin to look in a long queue; which of its blocks are listed there |
//! | `overflow` | what fits into no queue |
//! | `walk` | looking at a queue and taking nothing |
//! | `upkeep` | giving memory back, moving allocations, measuring, checking |
//! | `iter` | looking at all elements in order, and taking nothing |

mod block;
mod directory;
mod heads;
mod iter;
mod listing;
mod overflow;
mod queues;
mod unsettled;
mod upkeep;
mod walk;

pub use block::{Blanked, PLACES};
pub use iter::{Iter, Rows};
pub use overflow::Overflow;
pub use queues::{AHEAD, Queues};
