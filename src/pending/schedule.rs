//! Dehydrators that the module visits of its own accord, and when.
//!
//! A value does not know its name. So a dehydrator with work of its own when an element comes due, because it delivers
//! the element or publishes an event, is recorded here by database and name, with its next deadline. Deliveries take
//! the names from here one by one, at the end of a pass of the event loop whose time has come, and at each tick.
//!
//! When its time comes, a name may be gone or belong to another value: the visitor checks. If the deadline is unknown
//! (after a load or a copy, before the key exists), the next tick visits it.
//!
//! Each database has its own names, so that SWAPDB exchanges two and FLUSHDB drops one in constant time.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, btree_map, btree_set};
use std::rc::Rc;

use hashbrown::{HashMap, HashSet, hash_map, hash_set};

use super::overdue::Serial;
use super::{swap_databases, take_databases, timer};
use crate::clock;
use crate::metrics::latency::OverdueSince;
use crate::server::key::Name;
use crate::server::{Context, Str};

/// The wait after a first failure. It doubles with each further one.
const BACK_OFF_US: u64 = 100_000;
/// The longest wait: a repair is noticed no later than this.
const BACK_OFF_MAX_US: u64 = 10_000_000;

/// A key's name within its database.
type Key = Rc<[u8]>;

/// When an entry is visited.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Visit {
    /// Not by itself: it has published its event and delivers nothing, or the visit is under way.
    #[default]
    Never,
    /// At this time, in milliseconds since the epoch.
    At(u64),
    /// After a failure: at this time in microseconds, on the monotonic clock, which never steps back.
    Retry(u64),
}

/// The state of a recorded name.
#[derive(Default)]
struct Entry {
    serial: Serial,
    visit: Visit,
    /// When stuck dead letters are retried, on the monotonic clock, in microseconds. Other elements go on.
    stuck_us: Option<u64>,
    /// Whether the event that something is due was published.
    is_announced: bool,
    /// Whether due elements wait for room within limits.
    is_held_back: bool,
    overdue: OverdueSince,
}

/// Consecutive deliveries that failed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failure {
    /// How many there were.
    pub count: u32,
    /// When the first one failed, in milliseconds since the epoch.
    pub since: u64,
    /// Why the last one failed.
    pub reason: String,
    /// When the next one is tried, on the monotonic clock, in microseconds.
    retry_us: u64,
}

/// The names in one database.
#[derive(Default)]
struct Database {
    entries: HashMap<Key, Entry, ahash::RandomState>,
    /// Names with [`Visit::At`], earliest first.
    times: BTreeSet<(u64, Key)>,
    /// Names with [`Visit::Retry`], earliest first.
    retries: BTreeSet<(u64, Key)>,
    /// Names with stuck dead letters, earliest retry first.
    stuck: BTreeSet<(u64, Key)>,
    /// Names whose due elements wait for room within limits.
    held_back: HashSet<Key, ahash::RandomState>,
    /// Names held back when the wall clock stepped back, and not visited since.
    to_revisit: Vec<hash_set::IntoIter<Key>>,
    /// Names whose last delivery failed.
    failures: BTreeMap<Key, Failure>,
}

#[derive(Default)]
struct Schedule {
    databases: BTreeMap<i32, Database>,
    /// Entries of emptied databases, freed a few at a time.
    waste: Vec<Waste>,
}

/// The entries of an emptied database.
struct Waste {
    entries: hash_map::IntoIter<Key, Entry>,
    times: [btree_set::IntoIter<(u64, Key)>; 3],
    held_back: Vec<hash_set::IntoIter<Key>>,
    failures: btree_map::IntoIter<Key, Failure>,
}

/// The work that a dehydrator has of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// When there is work, or since when, in milliseconds since the epoch.
    pub next: Option<u64>,
    /// Whether it is visited for as long as something is due, and not only once.
    pub delivers: bool,
    /// Whether something is due already, and waits until `next` for room within limits.
    pub is_held_back: bool,
}

/// The last [`note`] of a value: its task, whether it was due then, and how many other changes the schedule had seen.
type Noted = Option<(Serial, Task, bool, u64)>;

thread_local! {
    /// When the clock was last checked or a task held back, in milliseconds since the epoch.
    static CLOCK_CHECKED: Cell<u64> = const { Cell::new(0) };
}

use table::{change, read};

/// The only doors to the schedule: a change that is not a repeated [`note`] cannot forget to count itself.
mod table {
    use std::cell::{Cell, RefCell};

    use super::{Noted, Schedule};

    /// Values whose last note is remembered: one for each remainder of their serials.
    const LAST_MAX: usize = 64;

    thread_local! {
        static SCHEDULE: RefCell<Schedule> = RefCell::default();
        static CHANGES: Cell<u64> = const { Cell::new(0) };
        /// Most writes do not change when there is work next. To note that again would change nothing, and costs as much as
        /// the rest of a write.
        static LAST: [Cell<Noted>; LAST_MAX] = const { [const { Cell::new(None) }; LAST_MAX] };
    }

    /// Reads the schedule.
    pub fn read<T>(read: impl FnOnce(&Schedule) -> T) -> T {
        SCHEDULE.with_borrow(read)
    }

    /// Reads the schedule unless a change is under way.
    pub fn try_read<T>(read: impl FnOnce(&Schedule) -> T) -> Option<T> {
        SCHEDULE.with(|schedule| schedule.try_borrow().ok().map(|schedule| read(&schedule)))
    }

    /// Changes the schedule, so that the next [`note`](super::note) of each value is looked at again.
    pub fn change<T>(change: impl FnOnce(&mut Schedule) -> T) -> T {
        CHANGES.set(CHANGES.get() + 1);
        SCHEDULE.with_borrow_mut(change)
    }

    /// Applies a note, unless it repeats the last one of this value with no change since.
    pub fn note(serial: u64, noted: impl FnOnce(u64) -> Noted, apply: impl FnOnce(&mut Schedule)) {
        let noted = noted(CHANGES.get());
        let last = LAST.with(|last| last[serial as usize % LAST_MAX].replace(noted));
        if last != noted {
            SCHEDULE.with_borrow_mut(apply);
        }
    }
}

/// Returns the number of names.
pub fn len() -> usize {
    sum(|database| database.entries.len())
}

/// Returns the number of names with failing deliveries.
pub fn failing() -> usize {
    sum(|database| database.failures.len())
}

fn sum(count: impl Fn(&Database) -> usize) -> usize {
    // A crash report reads this too, perhaps in the middle of a change.
    table::try_read(|schedule| schedule.databases.values().map(count).sum()).unwrap_or(0)
}

/// Returns a dehydrator's consecutive failures. `None`: its last delivery succeeded.
pub fn failure(name: &Name) -> Option<Failure> {
    read(|schedule| schedule.databases.get(&name.db)?.failures.get(&name.key[..]).cloned())
}

/// Records a dehydrator's next task.
///
/// `now` is when the command looked for due elements: those that came due while it wrote a long reply are to be
/// announced.
pub fn note(context: &Context, key: Str<'_>, serial: Serial, task: Task, now: u64) {
    let is_due = task.next.is_some_and(|next| next <= now);
    let Task { next, delivers, is_held_back } = task;
    let noted = |changes| Some((serial, task, is_due, changes));
    table::note(serial, noted, |schedule| {
        let database = schedule.databases.entry(context.selected_db()).or_default();
        let Some(next) = next else {
            database.remove(key.bytes(), serial);
            return;
        };
        let key = database.enter(key.bytes(), serial);
        database.set_held_back(&key, is_held_back);
        if is_held_back {
            CLOCK_CHECKED.set(now.max(CLOCK_CHECKED.get()));
        }
        let entry = database.entry(&key);
        if next > now {
            entry.is_announced = false;
        }
        entry.overdue.note(Some(next), clock::now_us);
        let visit = match entry.visit {
            // Already due: it keeps its place in the queue.
            before @ Visit::At(at) if at <= now && next <= now => before,
            before @ Visit::Retry(_) => before,
            _ if delivers || !entry.is_announced => Visit::At(next),
            _ => Visit::Never,
        };
        let is_news = entry.visit != visit || matches!(visit, Visit::At(at) if at <= now);
        if is_news {
            database.set_visit(&key, visit);
            match visit {
                Visit::Never => {}
                Visit::At(at) => timer::at_deadline(context, at),
                Visit::Retry(at_us) => timer::at(context, at_us),
            }
        }
    });
}

/// Records a name for the next tick.
pub fn add(name: &Name, serial: Serial) {
    change(|schedule| {
        let database = schedule.databases.entry(name.db).or_default();
        let key = database.enter(&name.key, serial);
        let entry = database.entry(&key);
        entry.is_announced = false;
        entry.overdue = OverdueSince::since_now();
        database.set_visit(&key, Visit::At(0));
    });
}

/// Forgets a name if it still belongs to this value.
pub fn remove(name: &Name, serial: Serial) {
    with_database(name.db, |database| database.remove(&name.key, serial));
}

/// Forgets a name, whatever value it belongs to.
pub fn forget(name: &Name) {
    with_database(name.db, |database| database.forget(&name.key));
}

/// Returns the due name that has waited longest. It stays recorded, without a next visit.
pub fn take() -> Option<Name> {
    let (now_us, now_monotonic_us) = (clock::now_us(), clock::monotonic_us());
    change(|schedule| {
        let waited_us = |database: &Database| {
            // Lateness is comparable across clocks.
            let time = database.times.first();
            let time = time.map(|(at, key)| (now_us.checked_sub(at.saturating_mul(1000)), key));
            let late_us = |at_us: u64| now_monotonic_us.checked_sub(at_us);
            let retry = database.retries.first().map(|(at_us, key)| (late_us(*at_us), key));
            let stuck = database.stuck.first().map(|(at_us, key)| (late_us(*at_us), key));
            let waiting = [time, retry, stuck].into_iter().flatten();
            let waiting = waiting.filter_map(|(late_us, key)| Some((late_us?, Rc::clone(key))));
            waiting.max_by_key(|(late_us, _)| *late_us)
        };
        let found = schedule.databases.iter().filter_map(|(db, it)| Some((waited_us(it)?, *db)));
        let ((_, key), db) = found.max_by_key(|((late_us, _), _)| *late_us)?;
        let database = schedule.databases.get_mut(&db)?;
        database.set_visit(&key, Visit::Never);
        if database.entry(&key).stuck_us.is_some_and(|at_us| at_us <= now_monotonic_us) {
            database.set_stuck(&key, None);
        }
        Some(Name { db, key: key[..].into() })
    })
}

/// Records that dead letters of a dehydrator are stuck, and are to be retried. Repeating this does not delay the retry.
pub fn note_stuck(name: &Name) {
    let now_us = clock::monotonic_us();
    with_entry(name, |database, key| {
        if database.entry(key).stuck_us.is_none() {
            let retry_us = database.failures.get(key).map_or(now_us, |failure| failure.retry_us);
            database.set_stuck(key, Some(retry_us));
        }
    });
}

/// Sets the delay before stuck dead letters are retried, in microseconds.
pub fn retry_stuck_in(name: &Name, us: u64) {
    let at_us = clock::monotonic_us() + us;
    with_entry(name, |database, key| database.set_stuck(key, Some(at_us)));
}

/// Queues a name behind the others that are due.
pub fn revisit(name: &Name) {
    let now = clock::now();
    with_entry(name, |database, key| database.set_visit(key, Visit::At(now)));
}

/// Delays the next visit to a name, in microseconds.
pub fn retry_in(name: &Name, us: u64) {
    let at = clock::monotonic_us() + us;
    with_entry(name, |database, key| database.set_visit(key, Visit::Retry(at)));
}

/// Returns the time of the earliest visit, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    read(|schedule| {
        let firsts = schedule.databases.values().flat_map(|database| {
            let time = database.times.first().map(|(at, _)| timer::from_deadline(*at));
            let others = database.retries.first().into_iter().chain(database.stuck.first());
            time.into_iter().chain(others.map(|(at_us, _)| *at_us))
        });
        firsts.min()
    })
}

/// Returns how late an element with this deadline is, in microseconds.
pub fn late_us(name: &Name, deadline: u64) -> u64 {
    read(|schedule| {
        let entry = schedule.databases.get(&name.db).and_then(|it| it.entries.get(&name.key[..]));
        entry.map_or(0, |entry| entry.overdue.late_us(deadline))
    })
}

/// Records that a due element is being announced. Returns `false` if one was already.
pub fn announce(name: &Name) -> bool {
    let announce = |entry: &mut Entry| !std::mem::replace(&mut entry.is_announced, true);
    with_entry(name, |database, key| announce(database.entry(key))).unwrap_or(false)
}

/// Records a failed delivery. Returns whether it is the first in a row, and the wait before the next try, in
/// microseconds.
pub fn failed(name: &Name, reason: &str) -> (bool, u64) {
    let (now, now_us) = (clock::now(), clock::monotonic_us());
    let counted = with_entry(name, |database, key| {
        let new = || Failure { since: now, ..Failure::default() };
        let failure = database.failures.entry(Rc::clone(key)).or_insert_with(new);
        let counted = (failure.count == 0, failure.back_off_us());
        failure.count = failure.count.saturating_add(1);
        failure.reason = reason.to_owned();
        failure.retry_us = now_us + counted.1;
        counted
    });
    counted.unwrap_or((false, BACK_OFF_US))
}

/// Returns whether deliveries of a dehydrator wait after a recent failure.
pub fn is_backing_off(name: &Name) -> bool {
    let now_us = clock::monotonic_us();
    failure(name).is_some_and(|failure| failure.retry_us > now_us)
}

impl Failure {
    /// Returns the wait after one more failure, in microseconds.
    fn back_off_us(&self) -> u64 {
        BACK_OFF_US.saturating_mul(1 << self.count.min(16)).min(BACK_OFF_MAX_US)
    }
}

/// Records a successful delivery, or a new policy: nothing waits for a retry any longer.
pub fn succeeded(context: &Context, name: &Name) {
    let (now, now_us) = (clock::now(), clock::monotonic_us());
    with_entry(name, |database, key| {
        database.failures.remove(key);
        if database.entry(key).stuck_us.is_some() {
            database.set_stuck(key, Some(now_us));
            timer::soon(context);
        }
        if matches!(database.entry(key).visit, Visit::Retry(_)) {
            database.set_visit(key, Visit::At(now));
        }
    });
}

/// Counts due elements as overdue from now on: a policy, a limit or a pause held them back before.
pub fn reset_overdue(name: &Name) {
    with_entry(name, |database, key| database.entry(key).overdue = OverdueSince::since_now());
}

/// Retries all names that wait after a failure: its cause may be over.
pub fn retry_all() {
    let now = clock::now();
    change(|schedule| {
        for database in schedule.databases.values_mut() {
            let waiting: Vec<Key> = database.retries.iter().map(|(_, key)| key.clone()).collect();
            for key in waiting {
                database.set_visit(&key, Visit::At(now));
            }
        }
    });
}

/// If the wall clock has stepped back since the last call, queues the names that wait for room, which may come much
/// earlier than recorded. Queues some at a time, while `go_on` returns `true`; the next call carries on.
pub fn check_clock(mut go_on: impl FnMut() -> bool) {
    let now = clock::now();
    let has_stepped_back = now < CLOCK_CHECKED.replace(now);
    let waits = |schedule: &Schedule| {
        schedule.databases.values().any(|database| !database.to_revisit.is_empty())
    };
    if !has_stepped_back && !read(waits) {
        return;
    }
    change(|schedule| {
        for database in schedule.databases.values_mut() {
            if has_stepped_back {
                let held_back = std::mem::take(&mut database.held_back);
                database.to_revisit.push(held_back.into_iter());
            }
            while !database.to_revisit.is_empty() && go_on() {
                database.revisit_some(now);
            }
        }
    });
}

/// Forgets the names in a database that was emptied, or in all (`None`).
pub fn flushed(db: Option<i32>) {
    change(|schedule| {
        let waste = |it: Database| Waste {
            entries: it.entries.into_iter(),
            times: [it.times, it.retries, it.stuck].map(BTreeSet::into_iter),
            held_back: it.to_revisit.into_iter().chain([it.held_back.into_iter()]).collect(),
            failures: it.failures.into_iter(),
        };
        let emptied = take_databases(&mut schedule.databases, db);
        schedule.waste.extend(emptied.into_iter().map(waste));
    });
}

/// Frees a few entries of emptied databases. Returns whether there are more.
pub fn free_some() -> bool {
    /// A few microseconds' work.
    const NAMES: usize = 64;
    change(|schedule| {
        let Some(waste) = schedule.waste.last_mut() else { return false };
        let times = waste.times.iter_mut().flatten().take(NAMES).count();
        let held_back = waste.held_back.iter_mut().flatten().take(NAMES).count();
        let others = waste.entries.by_ref().take(NAMES).count()
            + waste.failures.by_ref().take(NAMES).count();
        if times + held_back + others == 0 {
            schedule.waste.pop();
        }
        !schedule.waste.is_empty()
    })
}

/// Swaps the names of two databases, after SWAPDB.
pub fn swapped(first: i32, second: i32) {
    change(|schedule| swap_databases(&mut schedule.databases, first, second));
}

/// Changes the entry of a name, if there is one.
fn with_entry<T>(name: &Name, change_it: impl FnOnce(&mut Database, &Key) -> T) -> Option<T> {
    let change_entry = |database: &mut Database| {
        let key = Rc::clone(database.entries.get_key_value(&name.key[..])?.0);
        Some(change_it(database, &key))
    };
    with_database(name.db, change_entry)?
}

fn with_database<T>(db: i32, change_it: impl FnOnce(&mut Database) -> T) -> Option<T> {
    change(|schedule| schedule.databases.get_mut(&db).map(change_it))
}

impl Database {
    /// Returns the key of a name's entry, which it inserts if needed and assigns to this value.
    fn enter(&mut self, key: &[u8], serial: Serial) -> Key {
        let found = self.entries.get_key_value(key).map(|(key, _)| Rc::clone(key));
        let key = found.unwrap_or_else(|| {
            let key = Key::from(key);
            self.entries.insert(Rc::clone(&key), Entry::default());
            key
        });
        self.entry(&key).serial = serial;
        key
    }

    fn entry(&mut self, key: &Key) -> &mut Entry {
        self.entries.get_mut(key).expect("the caller has looked the name up")
    }

    fn remove(&mut self, key: &[u8], serial: Serial) {
        if self.entries.get(key).is_some_and(|entry| entry.serial == serial) {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: &[u8]) {
        self.failures.remove(key);
        if let Some((key, entry)) = self.entries.remove_entry(key) {
            if entry.is_held_back {
                self.held_back.remove(&key);
            }
            if let Some(at_us) = entry.stuck_us {
                self.stuck.remove(&(at_us, Rc::clone(&key)));
            }
            self.unlink_visit(entry.visit, key);
        }
    }

    /// Queues a few of the names that were held back when the wall clock stepped back.
    fn revisit_some(&mut self, now: u64) {
        /// A few microseconds' work.
        const NAMES: usize = 16;
        let Some(some) = self.to_revisit.last_mut() else { return };
        let keys: Vec<Key> = some.take(NAMES).collect();
        if keys.is_empty() {
            self.to_revisit.pop();
        }
        for key in keys {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            // The visit records again whether it is held back.
            entry.is_held_back = false;
            if matches!(entry.visit, Visit::At(at) if at > now) {
                self.set_visit(&key, Visit::At(now));
            }
        }
    }

    fn set_held_back(&mut self, key: &Key, is_held_back: bool) {
        let before = std::mem::replace(&mut self.entry(key).is_held_back, is_held_back);
        if is_held_back && !before {
            self.held_back.insert(Rc::clone(key));
        } else if before && !is_held_back {
            self.held_back.remove(key);
        }
    }

    fn set_stuck(&mut self, key: &Key, at_us: Option<u64>) {
        let before = std::mem::replace(&mut self.entry(key).stuck_us, at_us);
        before.map(|before| self.stuck.remove(&(before, Rc::clone(key))));
        self.stuck.extend(at_us.map(|at_us| (at_us, Rc::clone(key))));
    }

    fn set_visit(&mut self, key: &Key, visit: Visit) {
        let before = std::mem::replace(&mut self.entry(key).visit, visit);
        if before != visit {
            self.unlink_visit(before, Rc::clone(key));
            self.queue_of(visit).map(|(queue, at)| queue.insert((at, Rc::clone(key))));
        }
    }

    fn unlink_visit(&mut self, visit: Visit, key: Key) {
        self.queue_of(visit).map(|(queue, at)| queue.remove(&(at, key)));
    }

    fn queue_of(&mut self, visit: Visit) -> Option<(&mut BTreeSet<(u64, Key)>, u64)> {
        match visit {
            Visit::Never => None,
            Visit::At(at) => Some((&mut self.times, at)),
            Visit::Retry(at) => Some((&mut self.retries, at)),
        }
    }
}
