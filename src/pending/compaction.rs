//! Dehydrators with memory to give back, which the next ticks of the cron visit.
//!
//! A value does not know its key, so each is recorded by database and name. When its turn comes, the name may be gone
//! or belong to another value; then there is nothing to do.
//!
//! A recorded value carries a [`Mark`], so that later writes need not record it again. Marks belong to a *round*. The
//! round ends when a name turns out to belong to another value than the recorded one: then some value carries a mark
//! under a name that nobody visits, and all values have to be recorded again.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashSet;

use crate::server::key::Name;

/// Most names stored: some megabytes. A name beyond that is recorded when its key is next opened for writing.
const NAMES_MAX: usize = 1 << 16;

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static NAMES: RefCell<Names> = RefCell::default();
}

/// The current round, never that of [`Mark::none`]. Only the main thread uses it; it is an atomic because each write
/// reads it, and a thread-local costs more.
static ROUND: AtomicU32 = AtomicU32::new(1);

fn round() -> u32 {
    ROUND.load(Ordering::Relaxed)
}

/// Each name once, in the order of arrival.
#[derive(Default)]
struct Names {
    queue: VecDeque<Rc<Name>>,
    noted: HashSet<Rc<Name>, ahash::RandomState>,
    /// SWAPDB's exchanges: from a database's number to the number that its recorded names carry.
    stored_as: BTreeMap<i32, i32>,
}

impl Names {
    fn stored_as(&self, db: i32) -> i32 {
        self.stored_as.get(&db).copied().unwrap_or(db)
    }

    /// Adds a name. Returns whether it is recorded now: there may be no room.
    fn add(&mut self, mut name: Name) -> bool {
        name.db = self.stored_as(name.db);
        self.insert(Rc::new(name))
    }

    fn insert(&mut self, name: Rc<Name>) -> bool {
        if self.queue.len() >= NAMES_MAX {
            return false;
        }
        if self.noted.insert(Rc::clone(&name)) {
            self.queue.push_back(name);
        }
        true
    }
}

/// Whether a value is recorded. An atomic because a value may be freed on another thread; only the main thread uses it.
pub struct Mark(AtomicU32);

impl Mark {
    /// Creates the mark of a value that is not recorded.
    pub fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns whether the value is recorded under its present name.
    pub fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == round()
    }

    /// Marks the value as recorded.
    pub(super) fn note(&self) {
        self.0.store(round(), Ordering::Relaxed);
    }

    /// Clears the mark after a visit by the recorded name. Ends the round if another value was recorded under that
    /// name.
    pub fn visited(&self) {
        if self.0.swap(0, Ordering::Relaxed) != round() {
            end_round();
        }
    }

    /// Clears the mark: the value has left its name.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Ends the round: a recorded name is no dehydrator's.
pub fn end_round() {
    ROUND.store(round().wrapping_add(1).max(1), Ordering::Relaxed);
}

/// Records a dehydrator that is empty or holds memory to give back.
pub fn note(mark: &Mark, db: i32, key: &[u8]) {
    if mark.is_noted() {
        return;
    }
    if NAMES.with_borrow_mut(|names| names.add(Name { db, key: key.into() })) {
        mark.note();
    }
}

/// Removes and returns the oldest name.
pub fn take() -> Option<Name> {
    NAMES.with_borrow_mut(|names| {
        let name = names.queue.pop_front()?;
        names.noted.remove(&name);
        let mut name = Rc::into_inner(name)?;
        let is_stored_so = |(_, stored): &(&i32, &i32)| **stored == name.db;
        name.db = names.stored_as.iter().find(is_stored_so).map_or(name.db, |(db, _)| *db);
        Some(name)
    })
}

/// Queues a taken name again.
pub fn put_back(name: Name) {
    NAMES.with_borrow_mut(|names| names.add(name));
}

/// Swaps the names of two databases, after SWAPDB.
pub fn swapped(first: i32, second: i32) {
    NAMES.with_borrow_mut(|names| {
        let [of_first, of_second] = [first, second].map(|db| names.stored_as(db));
        names.stored_as.extend([(first, of_second), (second, of_first)]);
    });
}

/// Returns how many names there are.
pub fn len() -> usize {
    // A crash report reads this too, perhaps in the middle of a change.
    NAMES.with(|names| names.try_borrow().map_or(0, |names| names.queue.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Rounds are shared by the process: one test at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drains the names, with what other tests on this thread left.
    fn names() -> Vec<Vec<u8>> {
        std::iter::from_fn(take).map(|name| name.key.to_vec()).collect()
    }

    #[test]
    fn a_value_is_recorded_once_until_it_is_visited() {
        let _alone = alone();
        assert!(names().is_empty());
        let [a, b] = [Mark::none(), Mark::none()];
        for _ in 0..2 {
            note(&a, 0, b"a");
            note(&b, 0, b"b");
        }
        assert_eq!((a.is_noted(), len()), (true, 2));
        let taken = take().expect("there are two");
        a.visited();
        assert!(!a.is_noted() && b.is_noted());
        note(&a, 0, b"a");
        put_back(taken);
        assert_eq!(names(), [b"b", b"a"]);
    }

    #[test]
    fn a_value_marked_under_another_name_is_recorded_again() {
        let _alone = alone();
        let [a, b, new] = [Mark::none(), Mark::none(), Mark::none()];
        note(&a, 0, b"a");
        note(&b, 0, b"b");
        // The keys were replaced: the name now belongs to a value that is not recorded.
        assert_eq!(names(), [b"a", b"b"]);
        new.visited();
        assert!(!a.is_noted() && !b.is_noted());
        note(&a, 1, b"a");
        note(&b, 1, b"b");
        // Renamed.
        b.clear();
        note(&b, 1, b"c");
        assert_eq!(names(), [b"a", b"b", b"c"]);
        // Deleted.
        end_round();
        assert!(!a.is_noted());
    }

    #[test]
    fn names_go_with_their_databases() {
        let _alone = alone();
        let taken = || std::iter::from_fn(take).map(|it| (it.db, it.key)).collect::<Vec<_>>();
        note(&Mark::none(), 0, b"a");
        note(&Mark::none(), 1, b"b");
        swapped(0, 1);
        note(&Mark::none(), 0, b"b");
        note(&Mark::none(), 0, b"c");
        swapped(1, 2);
        let expected = [(2, b"a"), (0, b"b"), (0, b"c")].map(|(db, key)| (db, key[..].into()));
        assert_eq!(taken(), expected);
        [(1, 2), (0, 1)].into_iter().for_each(|(first, second)| swapped(first, second));
        note(&Mark::none(), 2, b"a");
        assert_eq!(taken(), [(2, b"a"[..].into())]);
    }

    #[test]
    fn a_value_without_room_carries_no_mark() {
        let _alone = alone();
        let marks: Vec<_> = (0..=NAMES_MAX).map(|_| Mark::none()).collect();
        for (number, mark) in marks.iter().enumerate() {
            note(mark, 0, &number.to_le_bytes());
        }
        assert_eq!(marks.iter().position(|mark| !mark.is_noted()), Some(NAMES_MAX));
        assert_eq!(names().len(), NAMES_MAX);
    }
}
