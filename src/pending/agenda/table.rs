//! The agenda's table: the names in each database.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use super::entry::{Entry, Failure, Key, Moment, NEVER, Reason, Recorded, Visits};
use crate::pending::overdue::Serial;
use crate::server::key::Name;

/// The names in one database.
#[derive(Default)]
pub struct Database {
    pub entries: HashMap<Key, Entry, ahash::RandomState>,
    pub visits: Visits,
}

impl Database {
    /// Returns a recorded name.
    pub fn find(&mut self, key: &[u8]) -> Option<Recorded<'_>> {
        match self.entries.entry_ref(key) {
            EntryRef::Occupied(entry) => Some(Recorded { entry, visits: &mut self.visits }),
            EntryRef::Vacant(_) => None,
        }
    }

    /// Returns a name, which is recorded for this value. Deliveries of another value under this name are over.
    pub fn enter(&mut self, key: &[u8], serial: Serial) -> Recorded<'_> {
        if matches!(self.entries.get(key), Some(entry) if entry.serial != serial) {
            self.find(key).into_iter().for_each(Recorded::end_deliveries);
        }
        let new = Entry { serial, visits: [NEVER; Reason::COUNT], delivery: None };
        let mut entry = match self.entries.entry_ref(key) {
            EntryRef::Occupied(entry) => entry,
            EntryRef::Vacant(entry) => entry.insert_entry_with_key(key.into(), new),
        };
        entry.get_mut().serial = serial;
        Recorded { entry, visits: &mut self.visits }
    }

    /// Returns a function that frees a few entries of an emptied database, and returns whether there were any.
    pub fn into_waste(self) -> impl FnMut() -> bool {
        /// A few microseconds' work.
        const NAMES: usize = 64;
        let mut entries = self.entries.into_iter();
        let mut visits = self.visits.times.map(BTreeSet::into_iter);
        let mut failures = self.visits.failures.into_iter();
        move || {
            let queued = visits.iter_mut().flatten().take(NAMES).count();
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
    /// Returns a recorded name.
    pub fn find(&mut self, db: i32, key: &[u8]) -> Option<Recorded<'_>> {
        self.databases.get_mut(&db)?.find(key)
    }

    /// Returns a dehydrator's consecutive failures.
    pub fn failure(&self, name: &Name) -> Option<&Failure> {
        self.databases.get(&name.db)?.visits.failures.get(&name.key[..])
    }

    /// Returns the visit for one of these reasons that has waited longest, or is the next: the time until then, in
    /// microseconds, negative if it is overdue; the database; and the name.
    pub fn first(&self, reasons: &[Reason], now: Moment) -> Option<(i64, i32, &Key)> {
        let mut first: Option<(i64, i32, &Key)> = None;
        for (db, database) in &self.databases {
            for reason in reasons {
                let queue = &database.visits.times[*reason as usize];
                let is_reverse = matches!(reason, Reason::NoRoom);
                let visit = if is_reverse { queue.last() } else { queue.first() };
                let Some((at, key)) = visit else { continue };
                let until_us = reason.until_us(*at, now);
                if first.is_none_or(|(before, ..)| until_us < before) {
                    first = Some((until_us, *db, key));
                }
            }
        }
        first
    }

    /// Returns the name that has waited longest for one of these reasons, and cancels its visits that are due. A name
    /// with deliveries stays recorded.
    pub fn take(&mut self, reasons: &[Reason], now: Moment) -> Option<Name> {
        let (until_us, db, key) = self.first(reasons, now)?;
        if until_us > 0 {
            return None;
        }
        let key = Rc::clone(key);
        let mut recorded = self.find(db, &key)?;
        for reason in reasons {
            let at = recorded.visit(*reason);
            if at != NEVER && reason.until_us(at, now) <= 0 {
                recorded.set(*reason, NEVER);
            }
        }
        recorded.remove_if_idle();
        Some(Name { db, key: key[..].into() })
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
        let mut recorded = database.enter(key.as_bytes(), serial);
        if Reason::DELIVERY.contains(&reason) {
            recorded.begin_deliveries();
        }
        recorded.set(reason, at);
    }

    fn recorded<'a>(table: &'a mut Table, key: &str) -> Option<Recorded<'a>> {
        table.find(0, key.as_bytes())
    }

    /// Returns the time until the next delivery, in microseconds.
    fn next_us(table: &Table, ms: u64) -> Option<i64> {
        table.first(&Reason::DELIVERY, at(ms)).map(|(until_us, ..)| until_us)
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
        assert_eq!(next_us(&table, 9), Some(1000));
        assert_eq!(take(&mut table, &Reason::DELIVERY, 30), ["b", "a"]);
        assert_eq!(next_us(&table, 32), Some(-1000));
        assert_eq!(table.databases[&0].visits.deliveries, 3, "they stay recorded");
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
        recorded(&mut table, "a").expect("a").end_deliveries();
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
        assert_eq!(table.databases[&0].visits.deliveries, 0, "the copy has none");
        recorded(&mut table, "a").expect("a").leave(1);
        assert!(recorded(&mut table, "a").is_some_and(|it| it.visit(Reason::Forget) != NEVER));
        recorded(&mut table, "a").expect("a").leave(2);
        assert!(recorded(&mut table, "a").is_none());
        assert!(table.databases[&0].visits.times.iter().all(BTreeSet::is_empty));
    }

    #[test]
    fn what_waits_for_room_is_visited_if_the_wall_clock_steps_back() {
        let mut table = Table::default();
        note(&mut table, "a", 1, Reason::NoRoom, 10);
        note(&mut table, "b", 2, Reason::NoRoom, 30);
        assert_eq!(take(&mut table, &Reason::DELIVERY, 31), [""; 0]);
        assert_eq!(next_us(&table, 31), Some(i64::MAX));
        assert_eq!(take(&mut table, &Reason::DELIVERY, 30), [""; 0]);
        assert_eq!(take(&mut table, &Reason::DELIVERY, 20), ["b"]);
        assert_eq!(take(&mut table, &Reason::DELIVERY, 9), ["a"]);
    }

    #[test]
    fn a_delivery_waits_for_its_time_or_for_a_retry() {
        let mut table = Table::default();
        note(&mut table, "a", 1, Reason::Deliver, 20);
        let mut a = recorded(&mut table, "a").expect("a");
        a.visit_in(Reason::Retry, 5000, at(10));
        assert_eq!((a.visit(Reason::Deliver), a.visit(Reason::Retry)), (NEVER, 7 + 15_000));
        a.retry_now(at(11));
        assert_eq!((a.visit(Reason::Deliver), a.visit(Reason::Retry)), (11, NEVER));
        a.retry_now(at(12));
        a.visit_in(Reason::Stuck, 5, at(12));
        a.visit_in(Reason::ExpireOrOccur, 3000, at(12));
        assert_eq!((a.visit(Reason::ExpireOrOccur), a.entry.get().delivery.is_some()), (15, true));
        assert_eq!((a.visit(Reason::Deliver), a.visit(Reason::Stuck)), (11, 7 + 12_005));
    }

    #[test]
    fn failures_are_known_by_name_until_the_deliveries_end() {
        let mut table = Table::default();
        note(&mut table, "a", 1, Reason::Deliver, 1);
        note(&mut table, "b", 2, Reason::Deliver, 1);
        let a = recorded(&mut table, "a").expect("a");
        let failure = Failure { count: 3, ..Failure::default() };
        a.visits.failures.insert(Rc::clone(a.entry.key()), failure);
        let count = |table: &Table, db, key: &[u8]| {
            table.failure(&Name { db, key: key.into() }).map(|failure| failure.count)
        };
        let counts = [(0, b"a"), (0, b"b"), (1, b"a")].map(|(db, key)| count(&table, db, key));
        assert_eq!(counts, [Some(3), None, None]);
        recorded(&mut table, "a").expect("a").end_deliveries();
        assert_eq!(count(&table, 0, b"a"), None);
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
