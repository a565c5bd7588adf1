//! Dehydrators that the next ticks should look at.
//!
//! The server knows keys by name and a value does not know its own, so what needs attention later is
//! noted by database and name. A name may mean nothing any more, or something else, when its turn
//! comes; then there is nothing to do.
//!
//! A value that has been noted bears a [`Mark`], so that each write to it need not note it again. Marks are of a *round*,
//! which ends when a name turns out to be another value's than the one that was noted: then some value bears a mark under
//! a name that nobody looks at, and all of them are to be noted again.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashSet;

use crate::server::key::Name;

/// Names that are kept at most, some megabytes. One that does not fit is noted again when its key is
/// next opened for writing.
const NAMES_MAX: usize = 1 << 16;

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static NAMES: RefCell<Names> = RefCell::default();
}

/// The round of marks. It is never that of [`Mark::none`]. It is the main thread's alone; but each write asks for it, and a
/// thread's own would cost more to find than to read.
static ROUND: AtomicU32 = AtomicU32::new(1);

fn round() -> u32 {
    ROUND.load(Ordering::Relaxed)
}

/// Each name once, first noted first.
#[derive(Default)]
struct Names {
    queue: VecDeque<Rc<Name>>,
    noted: HashSet<Rc<Name>, ahash::RandomState>,
    /// The numbers by which names are kept of databases that SWAPDB has exchanged: their own may be another's by now.
    kept_as: BTreeMap<i32, i32>,
}

impl Names {
    fn kept_as(&self, db: i32) -> i32 {
        self.kept_as.get(&db).copied().unwrap_or(db)
    }

    /// Adds a name. Returns whether there was room for it.
    fn add(&mut self, mut name: Name) -> bool {
        name.db = self.kept_as(name.db);
        self.insert(Rc::new(name))
    }

    /// Returns whether the name is among them now.
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

/// Whether a value has been noted. An atomic, as a value may be freed on another thread; all else is done by the main one.
pub struct Mark(AtomicU32);

impl Mark {
    /// Makes the mark of a value that has not been noted.
    pub fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns whether its value has been noted, under the name that it had then.
    pub fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == round()
    }

    /// Says that its value has been noted, under the name that it has.
    pub(super) fn note(&self) {
        self.0.store(round(), Ordering::Relaxed);
    }

    /// Says that its value was looked at, by the name that was noted. If it was not this value that was noted, the round is
    /// over.
    pub fn looked_at(&self) {
        if self.0.swap(0, Ordering::Relaxed) != round() {
            end_round();
        }
    }

    /// Says that its value has left the name that it had.
    pub fn moved(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Says that a name that was noted is no dehydrator's.
pub fn end_round() {
    ROUND.store(round().wrapping_add(1).max(1), Ordering::Relaxed);
}

/// Notes a dehydrator that holds memory it could give back, or that is empty.
pub fn note(mark: &Mark, db: i32, key: &[u8]) {
    if mark.is_noted() {
        return;
    }
    if NAMES.with_borrow_mut(|names| names.add(Name { db, key: key.into() })) {
        mark.note();
    }
}

/// Takes the name that has waited longest.
pub fn take() -> Option<Name> {
    NAMES.with_borrow_mut(|names| {
        let name = names.queue.pop_front()?;
        names.noted.remove(&name);
        let mut name = Rc::into_inner(name)?;
        let is_kept_so = |(_, kept): &(&i32, &i32)| **kept == name.db;
        name.db = names.kept_as.iter().find(is_kept_so).map_or(name.db, |(db, _)| *db);
        Some(name)
    })
}

/// Has a name that was taken wait once more.
pub fn put_back(name: Name) {
    NAMES.with_borrow_mut(|names| names.add(name));
}

/// Exchanges the names in two databases, as their contents were.
pub fn swapped(first: i32, second: i32) {
    NAMES.with_borrow_mut(|names| {
        let [of_first, of_second] = [first, second].map(|db| names.kept_as(db));
        names.kept_as.extend([(first, of_second), (second, of_first)]);
    });
}

/// Returns how many names there are.
pub fn len() -> usize {
    // Also in the report of a crash, which may have happened in the middle of a change.
    NAMES.with(|names| names.try_borrow().map_or(0, |names| names.queue.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Rounds are of the process: one test at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drains the names that other tests of this thread have left.
    fn names() -> Vec<Vec<u8>> {
        std::iter::from_fn(take).map(|name| name.key.to_vec()).collect()
    }

    #[test]
    fn what_is_noted_is_noted_once_until_it_was_looked_at() {
        let _alone = alone();
        assert!(names().is_empty());
        let [a, b] = [Mark::none(), Mark::none()];
        for _ in 0..2 {
            note(&a, 0, b"a");
            note(&b, 0, b"b");
        }
        assert_eq!((a.is_noted(), len()), (true, 2));
        let taken = take().expect("there are two");
        a.looked_at();
        assert!(!a.is_noted() && b.is_noted());
        note(&a, 0, b"a");
        put_back(taken);
        assert_eq!(names(), [b"b", b"a"]);
    }

    #[test]
    fn whoever_bears_a_mark_under_another_name_is_noted_again() {
        let _alone = alone();
        let [a, b, new] = [Mark::none(), Mark::none(), Mark::none()];
        note(&a, 0, b"a");
        note(&b, 0, b"b");
        // The keys were replaced: behind the name stands another value, which nobody has noted.
        assert_eq!(names(), [b"a", b"b"]);
        new.looked_at();
        assert!(!a.is_noted() && !b.is_noted());
        note(&a, 1, b"a");
        note(&b, 1, b"b");
        // It was renamed.
        b.moved();
        note(&b, 1, b"c");
        assert_eq!(names(), [b"a", b"b", b"c"]);
        // The key was deleted.
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
    fn what_finds_no_room_bears_no_mark() {
        let _alone = alone();
        let marks: Vec<_> = (0..=NAMES_MAX).map(|_| Mark::none()).collect();
        for (number, mark) in marks.iter().enumerate() {
            note(mark, 0, &number.to_le_bytes());
        }
        assert_eq!(marks.iter().position(|mark| !mark.is_noted()), Some(NAMES_MAX));
        assert_eq!(names().len(), NAMES_MAX);
    }
}
