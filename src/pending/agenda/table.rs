//! The agenda's table: the names in each database, the reasons to visit them, and when. It reads no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hashbrown::HashMap;

use super::failure::Failure;
use super::reason::{Moment, Reason};
use crate::metrics::latency::OverdueSince;
use crate::pending::overdue::Serial;
use crate::server::key::Name;

/// A key's name within its database.
pub type Key = Rc<[u8]>;

/// No visit for a reason.
const NEVER: u64 = u64::MAX;

/// The deliveries of a dehydrator, and the event that something is due.
#[derive(Default)]
pub struct Delivery {
    /// Whether the event that something is due was published.
    pub is_announced: bool,
    pub overdue: OverdueSince,
}

/// A recorded name.
pub struct Entry {
    /// The value that was recorded last under this name.
    serial: Serial,
    /// The time of the visit for each reason: see [`Reason`].
    visits: [u64; Reason::COUNT],
    /// `None`: nothing is delivered or published.
    pub delivery: Option<Delivery>,
}

// As many keys may have a policy: see `Dehydrator::memory`.
const _: () = assert!(size_of::<Entry>() <= 88);

impl Entry {
    /// Returns the time of the visit for a reason.
    pub fn visit(&self, reason: Reason) -> Option<u64> {
        Some(self.visits[reason as usize]).filter(|at| *at != NEVER)
    }
}

/// The names in one database.
#[derive(Default)]
pub struct Database {
    entries: HashMap<Key, Entry, ahash::RandomState>,
    /// The names to visit for each reason, earliest first.
    queues: [BTreeSet<(u64, Key)>; Reason::COUNT],
    /// Names whose last delivery failed.
    pub failures: BTreeMap<Key, Failure>,
    /// The number of entries with [`Entry::delivery`].
    deliveries: usize,
}

impl Database {
    /// Returns the number of names with deliveries or events of their own.
    pub fn deliveries(&self) -> usize {
        self.deliveries
    }

    /// Returns the names to visit for a reason.
    pub fn queue(&self, reason: Reason) -> &BTreeSet<(u64, Key)> {
        &self.queues[reason as usize]
    }

    pub fn entry(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Returns whether a name is to be visited for a reason.
    pub fn is_visited(&self, key: &[u8], reason: Reason) -> bool {
        self.entry(key).is_some_and(|entry| entry.visit(reason).is_some())
    }

    /// Returns the key of a recorded name.
    pub fn key(&self, key: &[u8]) -> Option<Key> {
        self.entries.get_key_value(key).map(|(key, _)| Rc::clone(key))
    }

    fn entry_mut(&mut self, key: &Key) -> &mut Entry {
        self.entries.get_mut(key).expect("the caller has looked the name up")
    }

    /// Returns the key of a name, which it records for this value. Deliveries of another value under this name are over.
    pub fn enter(&mut self, key: &[u8], serial: Serial) -> Key {
        if self.entries.get(key).is_some_and(|entry| entry.serial != serial) {
            self.end_deliveries(key);
        }
        let key = self.key(key).unwrap_or_else(|| key.into());
        let new = || Entry { serial, visits: [NEVER; Reason::COUNT], delivery: None };
        self.entries.entry(Rc::clone(&key)).or_insert_with(new).serial = serial;
        key
    }

    /// Returns the deliveries of a recorded name, which begin if there were none.
    pub fn delivery(&mut self, key: &Key) -> &mut Delivery {
        if self.entry_mut(key).delivery.is_none() {
            self.deliveries += 1;
        }
        self.entry_mut(key).delivery.get_or_insert_default()
    }

    /// Sets or cancels the visit of a recorded name for a reason.
    pub fn set(&mut self, key: &Key, reason: Reason, at: Option<u64>) {
        let visit = &mut self.entry_mut(key).visits[reason as usize];
        let before = std::mem::replace(visit, at.unwrap_or(NEVER));
        if before == at.unwrap_or(NEVER) {
            return;
        }
        let queue = &mut self.queues[reason as usize];
        if before != NEVER {
            queue.remove(&(before, Rc::clone(key)));
        }
        queue.extend(at.map(|at| (at, Rc::clone(key))));
    }

    /// Forgets a name that is to be visited no more.
    fn remove_if_idle(&mut self, key: &[u8]) {
        let is_idle = |it: &Entry| it.delivery.is_none() && it.visits == [NEVER; Reason::COUNT];
        if self.entries.get(key).is_some_and(is_idle) {
            self.entries.remove(key);
        }
    }

    /// Ends the deliveries of a name.
    pub fn end_deliveries(&mut self, key: &[u8]) {
        let Some(key) = self.key(key) else { return };
        Reason::DELIVERY.into_iter().for_each(|reason| self.set(&key, reason, None));
        self.deliveries -= usize::from(self.entry_mut(&key).delivery.take().is_some());
        self.failures.remove(&key);
        self.remove_if_idle(&key);
    }

    /// Forgets a name if it was recorded for this value.
    pub fn leave(&mut self, key: &[u8], serial: Serial) {
        if self.entries.get(key).is_some_and(|entry| entry.serial == serial) {
            let key: Key = self.key(key).expect("it was looked up");
            Reason::UPKEEP.into_iter().for_each(|reason| self.set(&key, reason, None));
            self.end_deliveries(&key);
        }
    }

    /// Returns the visit for a reason that has waited longest, or is the next: when, and the name.
    fn first(&self, reason: Reason, now: Moment) -> Option<(i64, &Key)> {
        let queue = self.queue(reason);
        let is_reverse = reason == Reason::HeldBack;
        let (at, key) = if is_reverse { queue.last() } else { queue.first() }?;
        Some((reason.until_us(*at, now), key))
    }

    /// Returns a function that frees a few entries of an emptied database, and returns whether there were any.
    pub fn into_waste(self) -> impl FnMut() -> bool {
        /// A few microseconds' work.
        const NAMES: usize = 64;
        let mut entries = self.entries.into_iter();
        let mut queues = self.queues.map(BTreeSet::into_iter);
        let mut failures = self.failures.into_iter();
        move || {
            let queued = queues.iter_mut().flatten().take(NAMES).count();
            let failures = failures.by_ref().take(NAMES).count();
            queued + failures + entries.by_ref().take(NAMES).count() > 0
        }
    }
}

/// The names in all databases.
#[derive(Default)]
pub struct Table {
    pub databases: BTreeMap<i32, Database>,
}

impl Table {
    /// Returns the name that has waited longest for one of these reasons, and cancels its visits that are due. A name
    /// with deliveries stays recorded.
    pub fn take(&mut self, reasons: &[Reason], now: Moment) -> Option<Name> {
        let firsts = self.databases.iter().flat_map(|(db, database)| {
            let first = |reason: &Reason| database.first(*reason, now);
            reasons.iter().filter_map(first).map(|(until_us, key)| (until_us, *db, key))
        });
        let first = firsts.min_by_key(|(until_us, ..)| *until_us)?;
        let (_, db, key) = Some(first).filter(|(until_us, ..)| *until_us <= 0)?;
        let key = Rc::clone(key);
        let database = self.databases.get_mut(&db)?;
        for reason in reasons {
            let visit = database.entry_mut(&key).visit(*reason);
            if visit.is_some_and(|at| reason.until_us(at, now) <= 0) {
                database.set(&key, *reason, None);
            }
        }
        database.remove_if_idle(&key);
        Some(Name { db, key: key[..].into() })
    }

    /// Returns the time until the next delivery, in microseconds: negative if it is overdue.
    pub fn next_delivery_us(&self, now: Moment) -> Option<i64> {
        let firsts = self.databases.values().flat_map(|database| {
            let first = |reason| database.first(reason, now).map(|(until_us, _)| until_us);
            Reason::DELIVERY.into_iter().filter_map(first)
        });
        firsts.filter(|until_us| *until_us < i64::MAX).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment { wall_us: ms * 1000, monotonic_us: 7 + ms * 1000 }
    }

    /// Records a visit in database 0.
    fn note(table: &mut Table, key: &str, serial: Serial, reason: Reason, at: u64) {
        let database = table.databases.entry(0).or_default();
        let key = database.enter(key.as_bytes(), serial);
        if Reason::DELIVERY.contains(&reason) {
            database.delivery(&key);
        }
        database.set(&key, reason, Some(at));
    }

    /// Takes the names that are due for these reasons.
    fn take(table: &mut Table, reasons: &[Reason], ms: u64) -> Vec<String> {
        let taken = std::iter::from_fn(|| table.take(reasons, at(ms)));
        taken.map(|name| String::from_utf8_lossy(&name.key).into_owned()).collect()
    }

    #[test]
    fn a_name_is_visited_once_for_all_that_is_due_longest_late_first() {
        let mut table = Table::default();
        note(&mut table, "a", 1, Reason::Deliver, 20);
        note(&mut table, "b", 2, Reason::Retry, 7 + 10_000);
        note(&mut table, "a", 1, Reason::Stuck, 7 + 21_000);
        note(&mut table, "c", 3, Reason::Deliver, 31);
        assert_eq!(take(&mut table, &Reason::DELIVERY, 9), [""; 0]);
        assert_eq!(table.next_delivery_us(at(9)), Some(1000));
        assert_eq!(take(&mut table, &Reason::DELIVERY, 30), ["b", "a"]);
        assert_eq!(table.next_delivery_us(at(32)), Some(-1000));
        assert_eq!(table.databases[&0].deliveries(), 3, "they stay recorded");
    }

    #[test]
    fn upkeep_is_no_delivery_and_is_forgotten_with_its_visit() {
        let mut table = Table::default();
        note(&mut table, "a", 1, Reason::Compact, 7);
        note(&mut table, "b", 2, Reason::Compact, 8);
        note(&mut table, "a", 1, Reason::Forget, 50);
        note(&mut table, "a", 1, Reason::Deliver, 1);
        assert_eq!(take(&mut table, &[Reason::Forget], 40), [""; 0]);
        assert_eq!(take(&mut table, &[Reason::Compact], 40), ["a", "b"]);
        assert_eq!(table.databases[&0].entries.len(), 1);
        table.databases.get_mut(&0).expect("db 0").end_deliveries(b"a");
        assert_eq!(take(&mut table, &Reason::DELIVERY, 40), [""; 0]);
        assert_eq!(take(&mut table, &[Reason::Forget], 50), ["a"]);
        assert!(table.databases[&0].entries.is_empty());
    }

    #[test]
    fn a_value_that_leaves_its_name_takes_only_its_own_entry_along() {
        let mut table = Table::default();
        note(&mut table, "a", 1, Reason::Deliver, 1);
        note(&mut table, "a", 1, Reason::Compact, 1);
        // A copy replaces the value, which leaves the name afterwards.
        note(&mut table, "a", 2, Reason::Forget, 1);
        let database = table.databases.get_mut(&0).expect("db 0");
        assert_eq!(database.deliveries(), 0, "the copy has none");
        database.leave(b"a", 1);
        assert!(database.entry(b"a").is_some_and(|it| it.visit(Reason::Forget).is_some()));
        database.leave(b"a", 2);
        assert!(database.entry(b"a").is_none());
        assert!(database.queues.iter().all(BTreeSet::is_empty));
    }

    #[test]
    fn what_is_held_back_is_visited_if_the_wall_clock_steps_back() {
        let mut table = Table::default();
        note(&mut table, "a", 1, Reason::HeldBack, 10);
        note(&mut table, "b", 2, Reason::HeldBack, 30);
        assert_eq!(take(&mut table, &Reason::DELIVERY, 31), [""; 0]);
        assert_eq!(table.next_delivery_us(at(31)), None);
        assert_eq!(take(&mut table, &Reason::DELIVERY, 20), ["b"]);
        assert_eq!(take(&mut table, &Reason::DELIVERY, 9), ["a"]);
    }

    #[test]
    fn an_emptied_database_is_freed_a_few_names_at_a_time() {
        let mut table = Table::default();
        for number in 0..1000 {
            note(&mut table, &format!("key {number}"), number, Reason::Deliver, number);
        }
        let mut free_some = table.databases.remove(&0).expect("db 0").into_waste();
        assert_eq!((0..).take_while(|_| free_some()).count(), 1000_usize.div_ceil(64));
    }
}
