//! Work that waits for its time. Every write records it here; [`background`](crate::background) does it.
//!
//! This folder is below [`data_type`](crate::data_type). It holds tables of names and times and a timer, opens no key, and
//! calls nothing above it.
//!
//! | module | noun |
//! |---|---|
//! | `schedule` | dehydrators with work of their own (deliveries, events), and its time |
//! | `blocked` | blocked clients, queued per key |
//! | `overdue` | since when elements of each key, and of all keys, are overdue |
//! | `take` | the options of a POLL, kept while the client sleeps |
//! | `compaction` | dehydrators that have memory to give back |
//! | `id_expiry` | dehydrators whose remembered ids expire |
//! | `timer` | the event loop's next pass for `schedule` and `blocked`, which import it |
//!
//! `compaction` and `id_expiry` need no timer: the server's cron polls them.

use std::collections::BTreeMap;

pub mod blocked;
pub mod compaction;
pub mod id_expiry;
pub mod overdue;
pub mod schedule;
mod take;
pub mod timer;

pub use take::Take;

/// Removes and returns the entries of a database that was emptied, or of all databases (`None`).
fn take_databases<T>(databases: &mut BTreeMap<i32, T>, db: Option<i32>) -> Vec<T> {
    match db {
        Some(db) => databases.remove(&db).into_iter().collect(),
        None => std::mem::take(databases).into_values().collect(),
    }
}

/// Swaps the entries of two databases, after SWAPDB.
fn swap_databases<T>(databases: &mut BTreeMap<i32, T>, first: i32, second: i32) {
    let [at_first, at_second] = [first, second].map(|db| databases.remove(&db));
    databases.extend(at_first.map(|entries| (second, entries)));
    databases.extend(at_second.map(|entries| (first, entries)));
}
