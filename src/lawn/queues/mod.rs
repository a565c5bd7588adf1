//! In which order elements come due.
//!
//! | module | noun |
//! |---|---|
//! | `queues` | the FIFO queue of each TTL |
//! | `block`, `blocks` | a piece of a queue or of the timeline: places for 62 handles; all of those |
//! | `first` | which element is first of all |
//! | `heads`, `unsettled` | which queue is next; those of which that is not known yet |
//! | `directory`, `listing` | where to begin to look in a long queue; which of its blocks are listed there |
//! | `timeline` | what fits into no queue, in blocks of ascending ranges |
//! | `order` | the order within one of those blocks |
//! | `ranges` | where each of those blocks begins |
//! | `votes` | which TTLs are worth a queue |
//! | `walk` | looking at a queue and taking nothing |
//! | `upkeep` | giving memory back, moving allocations, measuring, checking |
//! | `iter` | looking at all elements in order, and taking nothing |

mod block;
mod blocks;
mod directory;
mod first;
mod heads;
mod iter;
mod listing;
mod order;
mod queues;
mod ranges;
mod timeline;
mod unsettled;
mod upkeep;
mod votes;
mod walk;

pub use block::{Blanked, PLACES};
pub use heads::TIMELINE;
pub use iter::{Iter, Rows};
pub use queues::{AHEAD, Foreseen, Queues};
