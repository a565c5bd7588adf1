//! Dehydrators whose remembered ids expire, and when.
//!
//! Expiry only frees memory, because a lookup compares an id's time itself. Writers forget a few expired ids, and the
//! server's cron forgets the rest, on replicas too. As in [`compaction`](super::compaction), a name may be gone or name
//! another value when its turn comes, and a recorded value carries a [`Mark`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::rc::Rc;

use super::compaction::Mark;
use super::{swap_databases, take_databases};
use crate::server::key::Name;
use lawn::Rest;

/// Delay after an id's expiry before the cron forgets it, in milliseconds, so that it forgets many at once.
pub const DELAY_MS: u64 = 500;

/// The names in one database, each with the time of its visit, in milliseconds since the epoch.
type Times = BTreeSet<(u64, Rc<[u8]>)>;

#[derive(Default)]
struct Expiries {
    databases: BTreeMap<i32, Times>,
    /// Entries of emptied databases, still to be freed.
    names: Vec<btree_set::IntoIter<(u64, Rc<[u8]>)>>,
    /// Ids that were dropped all at once, still to be freed.
    rests: Vec<Rest>,
}

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static EXPIRIES: RefCell<Expiries> = RefCell::default();
}

/// Records a dehydrator whose ids expire from `at` on.
pub fn note(mark: &Mark, db: i32, key: &[u8], at: u64) {
    if !mark.is_noted() {
        EXPIRIES.with_borrow_mut(|expiries| {
            expiries.databases.entry(db).or_default().insert((at, key.into()))
        });
        mark.note();
    }
}

/// Removes and returns a name whose time has come.
pub fn take(now: u64) -> Option<Name> {
    EXPIRIES.with_borrow_mut(|expiries| {
        expiries.databases.iter_mut().find_map(|(db, times)| {
            times.first().filter(|(at, _)| *at <= now)?;
            times.pop_first().map(|(_, key)| Name { db: *db, key: key[..].into() })
        })
    })
}

/// Queues ids for gradual freeing.
pub fn discard(rest: Rest) {
    EXPIRIES.with_borrow_mut(|expiries| expiries.rests.push(rest));
}

/// Frees a few queued entries. Returns whether there were any.
pub fn free_some() -> bool {
    /// A few microseconds' work.
    const NAMES: usize = 64;
    EXPIRIES.with_borrow_mut(|expiries| {
        if let Some(rest) = expiries.rests.last_mut() {
            if !rest.free_some() {
                expiries.rests.pop();
            }
            return true;
        }
        let Some(names) = expiries.names.last_mut() else { return false };
        if names.take(NAMES).count() == 0 {
            expiries.names.pop();
        }
        true
    })
}

/// Forgets the names in a database that was emptied, or in all (`None`).
pub fn flushed(db: Option<i32>) {
    EXPIRIES.with_borrow_mut(|expiries| {
        let emptied = take_databases(&mut expiries.databases, db);
        expiries.names.extend(emptied.into_iter().map(Times::into_iter));
    });
}

/// Swaps the names of two databases, after SWAPDB.
pub fn swapped(first: i32, second: i32) {
    EXPIRIES.with_borrow_mut(|expiries| {
        swap_databases(&mut expiries.databases, first, second);
    });
}
