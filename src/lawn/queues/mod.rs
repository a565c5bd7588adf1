//! The order in which elements come due.
//!
//! | module | contents |
//! |---|---|
//! | `queues` | the FIFO queue of each TTL |
//! | `block`, `blocks` | a piece of a queue or of the timeline with places for 64 handles; all of these |
//! | `heads` | the heap over the heads of the queues |
//! | `first` | the first element of all, by that heap, and which of its ranks are stale |
//! | `timeline` | elements that fit into no queue, in blocks of ascending ranges |
//! | `order` | the order within a block of the timeline |
//! | `ranges` | where each block begins: the order of the blocks |
//! | `votes` | which TTLs are frequent enough for a queue |
//! | `walk` | read-only iteration in order, over one queue and over all |
//! | `upkeep` | compaction: freeing memory, moving allocations, measuring, checking |

mod block;
mod blocks;
mod first;
mod heads;
mod order;
mod queues;
mod ranges;
mod timeline;
mod upkeep;
mod votes;
mod walk;

pub use block::{Blanked, PLACES};
pub use heads::TIMELINE;
pub use queues::{AHEAD, PredictedRange, Queues};
pub use walk::Walk;
