//! Dehydrators that have ids to forget, and when.
//!
//! Who asks whether an id is remembered looks at its time, so to forget is but to give memory back: those who write
//! forget a few, and the server's cron looks at what stands here, on replicas too. As in [`compaction`](super::compaction),
//! a name may mean nothing any more, or something else, when its turn comes, and what was noted bears a
//! [`Mark`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::rc::Rc;

use super::compaction::Mark;
use crate::server::key::Name;
use lawn::Rest;

/// Ids are forgotten by the cron so long after their time, in milliseconds, so that there are many.
pub const LATER: u64 = 500;

/// The names in one database, each with the time at which it is looked at, in milliseconds since the epoch.
type Times = BTreeSet<(u64, Rc<[u8]>)>;

#[derive(Default)]
struct Fading {
    databases: BTreeMap<i32, Times>,
    /// What is left of databases that were emptied.
    names: Vec<btree_set::IntoIter<(u64, Rc<[u8]>)>>,
    /// What is left of ids that were all forgotten at once.
    rests: Vec<Rest>,
}

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static FADING: RefCell<Fading> = RefCell::default();
}

/// Notes a dehydrator that has ids to forget from that moment on.
pub fn note(mark: &Mark, db: i32, key: &[u8], at: u64) {
    if !mark.is_noted() {
        FADING.with_borrow_mut(|fading| {
            fading.databases.entry(db).or_default().insert((at, key.into()))
        });
        mark.note();
    }
}

/// Takes a name whose time has come.
pub fn take(now: u64) -> Option<Name> {
    FADING.with_borrow_mut(|fading| {
        fading.databases.iter_mut().find_map(|(db, times)| {
            times.first().filter(|(at, _)| *at <= now)?;
            times.pop_first().map(|(_, key)| Name { db: *db, key: key[..].into() })
        })
    })
}

/// Has what is left of ids that were all forgotten at once be freed a little at a time.
pub fn discard(rest: Rest) {
    FADING.with_borrow_mut(|fading| fading.rests.push(rest));
}

/// Frees some of what is left of anything. Returns whether there is more.
pub fn free_some() -> bool {
    /// A few microseconds' work.
    const NAMES: usize = 64;
    FADING.with_borrow_mut(|fading| {
        if let Some(rest) = fading.rests.last_mut() {
            if !rest.free_some() {
                fading.rests.pop();
            }
            return true;
        }
        let Some(names) = fading.names.last_mut() else { return false };
        if names.take(NAMES).count() == 0 {
            fading.names.pop();
        }
        true
    })
}

/// Forgets the names in a database that was emptied, or in all (`None`).
pub fn flushed(db: Option<i32>) {
    FADING.with_borrow_mut(|fading| {
        let emptied = match db {
            Some(db) => fading.databases.remove(&db).into_iter().collect(),
            None => std::mem::take(&mut fading.databases).into_values().collect::<Vec<_>>(),
        };
        fading.names.extend(emptied.into_iter().map(Times::into_iter));
    });
}

/// Exchanges the names in two databases, as their contents were.
pub fn swapped(first: i32, second: i32) {
    FADING.with_borrow_mut(|fading| {
        let [at_first, at_second] = [first, second].map(|db| fading.databases.remove(&db));
        fading.databases.extend(at_first.map(|times| (second, times)));
        fading.databases.extend(at_second.map(|times| (first, times)));
    });
}
