//! What waits for its time: noted by every write, and looked at by [`background`](crate::background).
//!
//! This folder is below [`data_type`](crate::data_type): a write notes here what there is to do later. It is tables and a
//! clock, which know names and times, but open no key. Whoever has something to do asks here what is next; nothing here
//! calls anybody above.
//!
//! | module | noun |
//! |---|---|
//! | `schedule` | dehydrators that have something to do by themselves, and when |
//! | `blocked` | blocked clients, in the lines of their keys |
//! | `overdue` | since when something waits that could be given out, in each key and in all |
//! | `take` | how a client has asked for what is due, which is kept while it sleeps |
//! | `compaction` | dehydrators that have memory to give back |
//! | `fading` | dehydrators that have ids to forget |
//! | `timer` | when the event loop comes round for schedule and blocked, which import it |
//!
//! Nobody sets a timer for `compaction` and `fading`: the server's cron looks at them.

pub mod blocked;
pub mod compaction;
pub mod fading;
pub mod overdue;
pub mod schedule;
mod take;
pub mod timer;

pub use take::Take;
