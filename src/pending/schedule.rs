//! Which dehydrators the module looks at of its own accord, and when.
//!
//! A value does not know its name, so those that have something to do by themselves when an element comes
//! due, because they deliver it or because somebody listens for it, are noted here by database and name,
//! with their next deadline. At the end of a pass of the event loop whose time has come, as at each tick,
//! the deliveries take them from here one after the other.
//!
//! When its time comes, a name may mean another value, or none: whoever takes it looks. Where its deadline is not known (after
//! a load or a copy, when the key is not there yet), the next tick looks at it.
//!
//! Each database has names of its own, so that SWAPDB exchanges two and FLUSHDB drops one, however many
//! names are in it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, btree_map, btree_set};
use std::rc::Rc;

use hashbrown::{HashMap, HashSet, hash_map, hash_set};

use super::overdue::Serial;
use super::timer;
use crate::clock;
use crate::metrics::latency::OverdueSince;
use crate::server::key::Name;
use crate::server::{Context, Str};

/// The first wait after a failure. It doubles with each that follows.
const BACK_OFF_US: u64 = 100_000;
/// The longest: what is put right is noticed no later than this.
const BACK_OFF_MAX_US: u64 = 10_000_000;

/// A key's name, within its database.
type Key = Rc<[u8]>;

/// When an entry is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum LookAt {
    /// Not by itself: what is due has been announced, and nobody asked to have it delivered; or somebody looks at it now.
    #[default]
    Never,
    /// At this moment, in milliseconds since the epoch.
    At(u64),
    /// After a failure: at this moment of the monotonic clock, in microseconds. A wall clock that steps back must not make it
    /// wait for ever.
    Retry(u64),
}

/// What is known of a name.
#[derive(Default)]
struct Entry {
    serial: Serial,
    look_at: LookAt,
    /// When dead letters that cannot go are tried again, on the monotonic clock, in microseconds. The key's other elements do
    /// not wait for that.
    stuck_us: Option<u64>,
    /// Whether it has been said that something is due.
    announced: bool,
    /// Whether what is due waits for room within limits.
    is_held_back: bool,
    overdue: OverdueSince,
}

/// Deliveries that failed, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// How many.
    pub count: u32,
    /// When the first of them did, in milliseconds since the epoch.
    pub since: u64,
    /// Why the last one did.
    pub reason: String,
    /// When the next one is tried, on the monotonic clock, in microseconds.
    again_us: u64,
}

/// The names in one database.
#[derive(Default)]
struct Database {
    entries: HashMap<Key, Entry, ahash::RandomState>,
    /// Those whose look_at is [`LookAt::At`], earliest first.
    times: BTreeSet<(u64, Key)>,
    /// Those whose look_at is [`LookAt::Retry`], earliest first.
    retries: BTreeSet<(u64, Key)>,
    /// Those whose dead letters cannot go, earliest first.
    stuck: BTreeSet<(u64, Key)>,
    /// Those in which what is due waits for room within limits.
    held_back: HashSet<Key, ahash::RandomState>,
    /// Those that were among them when the wall clock stepped back, and have not been looked at since.
    to_look_at: Vec<hash_set::IntoIter<Key>>,
    /// Those whose last delivery failed.
    failures: BTreeMap<Key, Failure>,
}

#[derive(Default)]
struct Schedule {
    databases: BTreeMap<i32, Database>,
    /// What is left of databases that were emptied, freed a little at a time.
    waste: Vec<Waste>,
}

/// What is left of a database that was emptied.
struct Waste {
    entries: hash_map::IntoIter<Key, Entry>,
    times: [btree_set::IntoIter<(u64, Key)>; 3],
    held_back: Vec<hash_set::IntoIter<Key>>,
    failures: btree_map::IntoIter<Key, Failure>,
}

/// What a dehydrator has to do by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// When there is something to do, or since when, in milliseconds since the epoch.
    pub next: Option<u64>,
    /// Whether it is to be looked at for as long as something is due, and not only once.
    pub delivers: bool,
    /// Whether something is due already, and waits until then for room within limits.
    pub is_held_back: bool,
}

/// What was noted of a value, whether it was due then, and after how many changes of the schedule by others than [`note`].
type Noted = Option<(Serial, Task, bool, u64)>;

/// Values of which that is known: one for each remainder of their serials.
const LAST_MAX: usize = 64;

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static SCHEDULE: RefCell<Schedule> = RefCell::default();
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    /// What time it was when the clock was last looked at, or something was noted that waits for room, in milliseconds since
    /// the epoch.
    static LOOKED_AT_CLOCK: Cell<u64> = const { Cell::new(0) };
    /// Most writes leave it as it is when there is something to do next. To note that again would change nothing, and
    /// costs as much as the rest of a write.
    static LAST: [Cell<Noted>; LAST_MAX] = const { [const { Cell::new(None) }; LAST_MAX] };
}

/// Changes the schedule, so that [`note`] has to look again at what it has noted.
fn change<T>(change: impl FnOnce(&mut Schedule) -> T) -> T {
    CHANGES.set(CHANGES.get() + 1);
    SCHEDULE.with_borrow_mut(change)
}

/// Returns how many names there are.
pub fn len() -> usize {
    sum(|database| database.entries.len())
}

/// Returns how many of them have deliveries that fail.
pub fn failing() -> usize {
    sum(|database| database.failures.len())
}

fn sum(count: impl Fn(&Database) -> usize) -> usize {
    // Also in the report of a crash, which may have happened in the middle of a change.
    SCHEDULE.with(|schedule| {
        schedule.try_borrow().map_or(0, |schedule| schedule.databases.values().map(count).sum())
    })
}

/// Returns the deliveries of a dehydrator that failed one after the other. `None`: the last one went well.
pub fn failure(name: &Name) -> Option<Failure> {
    SCHEDULE.with_borrow(|schedule| {
        schedule.databases.get(&name.db)?.failures.get(&name.key[..]).cloned()
    })
}

/// Notes when the next element of a dehydrator comes due. `delivers`: it is to be looked at for as long as something is
/// due, not only once.
///
/// `now` is the time by which the command that was run looked for what is due, not a later one: it did not see what came due
/// while it made a long reply, and that has to be announced.
pub fn note(context: &Context, key: Str<'_>, serial: Serial, task: Task, now: u64) {
    let is_due = task.next.is_some_and(|next| next <= now);
    let last = Some((serial, task, is_due, CHANGES.get()));
    if LAST.with(|noted| noted[serial as usize % noted.len()].replace(last)) == last {
        return;
    }
    let Task { next, delivers, is_held_back } = task;
    SCHEDULE.with_borrow_mut(|schedule| {
        let database = schedule.databases.entry(context.selected_db()).or_default();
        let Some(next) = next else {
            database.remove(key.bytes(), serial);
            return;
        };
        let key = database.enter(key.bytes(), serial);
        database.set_held_back(&key, is_held_back);
        if is_held_back {
            LOOKED_AT_CLOCK.set(now.max(LOOKED_AT_CLOCK.get()));
        }
        let entry = database.entry(&key);
        if next > now {
            entry.announced = false;
        }
        entry.overdue.note(Some(next), clock::now_us);
        let look_at = match entry.look_at {
            // Its time has come already: it keeps its place among the others whose time has come.
            before @ LookAt::At(at) if at <= now && next <= now => before,
            before @ LookAt::Retry(_) => before,
            _ if delivers || !entry.announced => LookAt::At(next),
            _ => LookAt::Never,
        };
        let is_news = entry.look_at != look_at || matches!(look_at, LookAt::At(at) if at <= now);
        if is_news {
            database.set_look_at(&key, look_at);
            match look_at {
                LookAt::Never => {}
                LookAt::At(at) => timer::at_deadline(context, at),
                LookAt::Retry(at_us) => timer::at(context, at_us),
            }
        }
    });
}

/// Notes a name, to be looked at by the next tick.
pub fn add(name: &Name, serial: Serial) {
    change(|schedule| {
        let database = schedule.databases.entry(name.db).or_default();
        let key = database.enter(&name.key, serial);
        let entry = database.entry(&key);
        entry.announced = false;
        entry.overdue = OverdueSince::since_now();
        database.set_look_at(&key, LookAt::At(0));
    });
}

/// Forgets a name, if it is still this value's.
pub fn remove(name: &Name, serial: Serial) {
    change(|schedule| {
        if let Some(database) = schedule.databases.get_mut(&name.db) {
            database.remove(&name.key, serial);
        }
    });
}

/// Forgets a name, whosever it is.
pub fn forget(name: &Name) {
    change(|schedule| {
        if let Some(database) = schedule.databases.get_mut(&name.db) {
            database.forget(&name.key);
        }
    });
}

/// Returns the name that has waited longest of those whose time has come. It stays noted, but will not be returned again until
/// somebody says when.
pub fn take() -> Option<Name> {
    let (now_us, now_monotonic_us) = (clock::now_us(), clock::monotonic_us());
    change(|schedule| {
        let waited_us = |database: &Database| {
            // By how much each is late is comparable, whichever clock it goes by.
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
        database.set_look_at(&key, LookAt::Never);
        if database.entry(&key).stuck_us.is_some_and(|at_us| at_us <= now_monotonic_us) {
            database.set_stuck(&key, None);
        }
        Some(Name { db, key: key[..].into() })
    })
}

/// Notes that dead letters of a dehydrator cannot go, and are tried again. To note that once more does not put it off.
pub fn note_stuck(name: &Name) {
    let now_us = clock::monotonic_us();
    with_entry(name, |database, key| {
        if database.entry(key).stuck_us.is_none() {
            let again_us = database.failures.get(key).map_or(now_us, |failure| failure.again_us);
            database.set_stuck(key, Some(again_us));
        }
    });
}

/// Sets after how many microseconds dead letters that cannot go are tried again.
pub fn try_stuck_in(name: &Name, us: u64) {
    let at_us = clock::monotonic_us() + us;
    with_entry(name, |database, key| database.set_stuck(key, Some(at_us)));
}

/// Has a name be looked at again, when others have had their turn.
pub fn again(name: &Name) {
    let now = clock::now();
    with_entry(name, |database, key| database.set_look_at(key, LookAt::At(now)));
}

/// Has a name not be looked at for so many microseconds.
pub fn wait(name: &Name, us: u64) {
    let at = clock::monotonic_us() + us;
    with_entry(name, |database, key| database.set_look_at(key, LookAt::Retry(at)));
}

/// Returns when the first name's time comes, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    SCHEDULE.with_borrow(|schedule| {
        let firsts = schedule.databases.values().flat_map(|database| {
            let time = database.times.first().map(|(at, _)| timer::from_deadline(*at));
            let others = database.retries.first().into_iter().chain(database.stuck.first());
            time.into_iter().chain(others.map(|(at_us, _)| *at_us))
        });
        firsts.min()
    })
}

/// Returns how late an element of this deadline is, in microseconds.
pub fn late_us(name: &Name, deadline: u64) -> u64 {
    SCHEDULE.with_borrow(|schedule| {
        let entry = schedule.databases.get(&name.db).and_then(|it| it.entries.get(&name.key[..]));
        entry.map_or(0, |entry| entry.overdue.late_us(deadline))
    })
}

/// Notes that something is due in a dehydrator, and that this is being announced. Returns whether it was not before.
pub fn announce(name: &Name) -> bool {
    let mut is_news = false;
    with_entry(name, |database, key| {
        is_news = !std::mem::replace(&mut database.entry(key).announced, true);
    });
    is_news
}

/// Notes that a delivery failed. Returns whether it is the first failure in a row, and after how many microseconds it is
/// to be tried again: that grows with each.
pub fn failed(name: &Name, reason: &str) -> (bool, u64) {
    let mut is_first = false;
    let mut wait = BACK_OFF_US;
    let (now, now_us) = (clock::now(), clock::monotonic_us());
    with_entry(name, |database, key| {
        let failure = database.failures.entry(Rc::clone(key)).or_insert_with(|| Failure {
            count: 0,
            since: now,
            reason: String::new(),
            again_us: 0,
        });
        wait = failure.back_off_us();
        is_first = failure.count == 0;
        failure.count = failure.count.saturating_add(1);
        failure.reason = reason.to_owned();
        failure.again_us = now_us + wait;
    });
    (is_first, wait)
}

/// Returns whether deliveries of a dehydrator have to wait, because the last one failed a moment ago.
pub fn waits(name: &Name) -> bool {
    let now_us = clock::monotonic_us();
    failure(name).is_some_and(|failure| failure.again_us > now_us)
}

impl Failure {
    /// Returns how long it takes until the next try, if it fails once more.
    fn back_off_us(&self) -> u64 {
        BACK_OFF_US.saturating_mul(1 << self.count.min(16)).min(BACK_OFF_MAX_US)
    }
}

/// Notes that a delivery went well, or that another policy was set: nothing waits any longer because one failed.
pub fn succeeded(context: &Context, name: &Name) {
    let (now, now_us) = (clock::now(), clock::monotonic_us());
    with_entry(name, |database, key| {
        database.failures.remove(key);
        if database.entry(key).stuck_us.is_some() {
            database.set_stuck(key, Some(now_us));
            timer::soon(context);
        }
        if matches!(database.entry(key).look_at, LookAt::Retry(_)) {
            database.set_look_at(key, LookAt::At(now));
        }
    });
}

/// Notes that another policy was set: what is overdue could not be delivered before.
pub fn begin(name: &Name) {
    with_entry(name, |database, key| database.entry(key).overdue = OverdueSince::since_now());
}

/// Has all names be looked at now that wait after a failure: the reason may be over.
pub fn look_again() {
    let now = clock::now();
    change(|schedule| {
        for database in schedule.databases.values_mut() {
            let waiting: Vec<Key> = database.retries.iter().map(|(_, key)| key.clone()).collect();
            for key in waiting {
                database.set_look_at(&key, LookAt::At(now));
            }
        }
    });
}

/// Has names be looked at now in which something waits for room within limits, if the wall clock has stepped back since this
/// was last called: when there is room again may be much earlier than had been noted. Some at a time, while `go_on` says so;
/// the next call carries on.
pub fn look_at_clock(mut go_on: impl FnMut() -> bool) {
    let now = clock::now();
    let has_stepped_back = now < LOOKED_AT_CLOCK.replace(now);
    let waits = |schedule: &Schedule| {
        schedule.databases.values().any(|database| !database.to_look_at.is_empty())
    };
    if !has_stepped_back && !SCHEDULE.with_borrow(waits) {
        return;
    }
    change(|schedule| {
        for database in schedule.databases.values_mut() {
            if has_stepped_back {
                let held_back = std::mem::take(&mut database.held_back);
                database.to_look_at.push(held_back.into_iter());
            }
            while !database.to_look_at.is_empty() && go_on() {
                database.look_at_some(now);
            }
        }
    });
}

/// Forgets the names in a database that was emptied, or in all (`None`).
pub fn flushed(db: Option<i32>) {
    change(|schedule| {
        let emptied = match db {
            Some(db) => schedule.databases.remove(&db).into_iter().collect(),
            None => std::mem::take(&mut schedule.databases).into_values().collect::<Vec<_>>(),
        };
        let waste = |it: Database| Waste {
            entries: it.entries.into_iter(),
            times: [it.times, it.retries, it.stuck].map(BTreeSet::into_iter),
            held_back: it.to_look_at.into_iter().chain([it.held_back.into_iter()]).collect(),
            failures: it.failures.into_iter(),
        };
        schedule.waste.extend(emptied.into_iter().map(waste));
    });
}

/// Frees some of what is left of emptied databases. Returns whether there is more.
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

/// Exchanges the names in two databases, as their contents were.
pub fn swapped(first: i32, second: i32) {
    change(|schedule| {
        let [at_first, at_second] = [first, second].map(|db| schedule.databases.remove(&db));
        schedule.databases.extend(at_first.map(|database| (second, database)));
        schedule.databases.extend(at_second.map(|database| (first, database)));
    });
}

fn with_entry(name: &Name, change_it: impl FnOnce(&mut Database, &Key)) {
    change(|schedule| {
        let Some(database) = schedule.databases.get_mut(&name.db) else { return };
        let Some((key, _)) = database.entries.get_key_value(&name.key[..]) else { return };
        let key = Rc::clone(key);
        change_it(database, &key);
    });
}

impl Database {
    /// Makes an entry for a name, if there is none, and has it be this value's.
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
        self.entries.get_mut(key).expect("a name that has just been looked up is there")
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
            self.leave_look_at(entry.look_at, key);
        }
    }

    /// Has some names be looked at now that were held back when the wall clock stepped back.
    fn look_at_some(&mut self, now: u64) {
        /// A few microseconds' work.
        const NAMES: usize = 16;
        let Some(some) = self.to_look_at.last_mut() else { return };
        let keys: Vec<Key> = some.take(NAMES).collect();
        if keys.is_empty() {
            self.to_look_at.pop();
        }
        for key in keys {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            // If it is held back still, that is noted again.
            entry.is_held_back = false;
            if matches!(entry.look_at, LookAt::At(at) if at > now) {
                self.set_look_at(&key, LookAt::At(now));
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
        if let Some(before) = before {
            self.stuck.remove(&(before, Rc::clone(key)));
        }
        self.stuck.extend(at_us.map(|at_us| (at_us, Rc::clone(key))));
    }

    fn set_look_at(&mut self, key: &Key, look_at: LookAt) {
        let before = std::mem::replace(&mut self.entry(key).look_at, look_at);
        if before == look_at {
            return;
        }
        self.leave_look_at(before, Rc::clone(key));
        match look_at {
            LookAt::Never => {}
            LookAt::At(at) => _ = self.times.insert((at, Rc::clone(key))),
            LookAt::Retry(at) => _ = self.retries.insert((at, Rc::clone(key))),
        }
    }

    fn leave_look_at(&mut self, look_at: LookAt, key: Key) {
        match look_at {
            LookAt::Never => {}
            LookAt::At(at) => _ = self.times.remove(&(at, key)),
            LookAt::Retry(at) => _ = self.retries.remove(&(at, key)),
        }
    }
}
