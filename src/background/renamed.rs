//! Finding dehydrators with unknown names, by a walk over the keyspace, a few keys at a time.
//!
//! The server does not tell a module the new name after RENAME and MOVE. A dehydrator in the agenda must be found again;
//! when a client turns keyspace events on, all must be found; and those that are overdue longest are reported by name.
//!
//! A walk takes at most three hundredths of the time until it is done: half a minute for a million keys. However often
//! keys are renamed, it takes no more: the next walk begins after this one. A write to a dehydrator makes its name
//! known at once.

use std::cell::{Cell, RefCell};

use crate::clock;
use crate::data_type::{inspect_open, note_found};
use crate::pending::agenda::{moved, track_all};
use crate::pending::{overdue, timer};
use crate::server::key::{Name, Scan};
use crate::server::{Context, publishes_module_events};

/// The length of a slice of the walk, in microseconds; a little more if many keys share a bucket of the server's table.
const SLICE_US: u64 = 500;
/// The rest after a slice, as a multiple of its length: the walk takes at most three hundredths of the time.
const REST: u64 = 33;

#[derive(Default)]
struct Finder {
    /// The database and the walk in it, while there is one.
    walk: Option<(i32, Scan)>,
    /// Set if the walk looks for all dehydrators, not only for moved ones.
    for_all: bool,
    /// Set if databases were swapped during the walk, which may have missed keys: another one follows.
    has_missed: bool,
    /// Set if events were on at the last check.
    published: bool,
}

thread_local! {
    // Timers and ticks run on the server's main thread alone.
    static FINDER: RefCell<Finder> = RefCell::default();
    /// When the walk continues, on the monotonic clock, in microseconds.
    static GOES_ON_US: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Begins a walk if there is a reason. For the tick.
pub fn begin(context: &Context) {
    FINDER.with_borrow_mut(|finder| {
        let publishes = publishes_module_events();
        let is_wanted = overdue::miss_names();
        if publishes && !finder.published {
            finder.walk = Some((0, Scan::new()));
            finder.for_all = true;
            track_all(true);
        } else if finder.walk.is_none() && (moved() > 0 || is_wanted) {
            finder.walk = Some((0, Scan::new()));
        }
        finder.published = publishes;
        if finder.walk.is_some() && GOES_ON_US.get().is_none() {
            let now_us = clock::monotonic_us();
            GOES_ON_US.set(Some(now_us));
            timer::at(context, now_us);
        }
    });
}

/// Records that two databases were swapped.
pub fn swapped() {
    FINDER.with_borrow_mut(|finder| finder.has_missed = finder.walk.is_some());
}

/// Returns when a walk continues, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    GOES_ON_US.get()
}

/// Continues a walk if it is time.
pub fn go_on(context: &Context) {
    if GOES_ON_US.get().is_some_and(|at_us| at_us <= clock::monotonic_us()) {
        GOES_ON_US.set(FINDER.with_borrow_mut(|finder| finder.go_on(context)));
    }
}

impl Finder {
    /// Walks for a slice. Returns when the walk continues, if it is not done.
    fn go_on(&mut self, context: &Context) -> Option<u64> {
        let started = clock::monotonic_us();
        while let Some((db, walk)) = &mut self.walk {
            let (db, for_all) = (*db, self.for_all);
            if !context.select_db(db) {
                if std::mem::take(&mut self.has_missed) {
                    self.walk = Some((0, Scan::new()));
                    continue;
                }
                self.walk = None;
                self.for_all = false;
                track_all(false);
                break;
            }
            let more = walk.step(context, |name, key| {
                inspect_open(key, |dehydrator| {
                    let tracking = &dehydrator.tracking;
                    let name = || Name { db, key: name.bytes().into() };
                    if for_all || tracking.has_moved() {
                        note_found(dehydrator, &name());
                    }
                    if overdue::wants_name(tracking.slot.serial()) {
                        overdue::learn_name(tracking.slot.serial(), name());
                    }
                });
            });
            if !more {
                self.walk = Some((db + 1, Scan::new()));
            }
            let now_us = clock::monotonic_us();
            if now_us.saturating_sub(started) >= SLICE_US {
                return Some(now_us + REST * now_us.saturating_sub(started));
            }
        }
        None
    }
}
