//! What waits for its time: noted by every write, and looked at by [`background`](crate::background).
//!
//! This folder is below [`data_type`](crate::data_type): a write notes here what there is to do later. It knows
//! names and times, but no dehydrator and no command. What serves a blocked client is handed to it as a value.
//!
//! | module | noun |
//! |---|---|
//! | `schedule` | dehydrators that have something to do by themselves, and when |
//! | `blocked` | blocked clients, in the line of their key |
//! | `compaction` | dehydrators that have memory to give back |
//! | `timer` | when the event loop comes round for schedule and blocked, which import it |
//!
//! Nobody sets a timer for `compaction`: the server's cron looks at it.

pub mod blocked;
pub mod compaction;
pub mod schedule;
pub mod timer;
