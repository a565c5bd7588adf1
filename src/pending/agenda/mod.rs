//! The dehydrators that the module visits of its own accord, for which reasons, and when.
//!
//! A value does not know its name. So a dehydrator with work of its own (to deliver elements or publish that they are
//! due, to forget remembered ids, to give memory back) is recorded here by database and name. Deliveries take the names
//! from here one by one, at the end of a pass of the event loop whose time has come, and at each tick; the cron takes
//! those that need upkeep.
//!
//! When its time comes, a name may be gone or belong to another value: the visitor checks. If the deadline is unknown
//! (after a load or a copy, before the key exists), the next tick visits it.
//!
//! Each database has its own names, so that SWAPDB exchanges two and FLUSHDB drops one in constant time.
//!
//! | module | contents |
//! |---|---|
//! | this file | the agenda of this server |
//! | `table` | the names in each database |
//! | `entry` | an entry: the reasons to visit a name, and a time for each; consecutive deliveries that failed |
//! | `tracking` | what a value knows of its entry |

mod entry;
mod table;
mod tracking;

use std::rc::Rc;

use self::entry::{BACK_OFF_US, Moment, NEVER, Recorded, Visits};
use self::store::{change, read};
use self::table::Table;
use super::{overdue::Serial, timer, waste};
use crate::clock;
use crate::metrics::lateness::OverdueSince;
use crate::server::key::Name;
use crate::server::{Context, Str};

pub use entry::{Failure, OwnWork, Reason};
pub use tracking::{Tracking, moved, track_all};

/// The only doors to the table: a change that is not a repeated [`note`] cannot forget to count itself.
mod store {
    use std::cell::{Cell, RefCell};

    use super::table::Table;
    use super::{OwnWork, Serial};

    /// Values whose last note is remembered: one for each remainder of their serials.
    const LAST_MAX: usize = 64;

    /// The last note of a value: its own work, whether it was due then, and how many other changes the table had seen.
    type Noted = Option<(Serial, OwnWork, bool, u64)>;

    thread_local! {
        // Commands, timers and ticks run on the server's main thread alone.
        static TABLE: RefCell<Table> = RefCell::default();
        static CHANGES: Cell<u64> = const { Cell::new(0) };
        /// Most writes do not change when there is work next. To note that again would change nothing, and costs as much as
        /// the rest of a write.
        static LAST: [Cell<Noted>; LAST_MAX] = const { [const { Cell::new(None) }; LAST_MAX] };
    }

    /// Reads the table. `None` while a change is under way, as in a crash report.
    pub fn read<T>(read: impl FnOnce(&Table) -> T) -> Option<T> {
        TABLE.with(|table| Some(read(&*table.try_borrow().ok()?)))
    }

    /// Changes the table, so that the next [`note`](super::note) of each value is looked at again.
    pub fn change<T>(change: impl FnOnce(&mut Table) -> T) -> T {
        CHANGES.set(CHANGES.get() + 1);
        TABLE.with_borrow_mut(change)
    }

    /// Applies a note, unless it repeats the last one of this value with no change since.
    pub fn note(serial: Serial, own: OwnWork, is_due: bool, apply: impl FnOnce(&mut Table)) {
        let noted = Some((serial, own, is_due, CHANGES.get()));
        let last = LAST.with(|last| last[serial as usize % LAST_MAX].replace(noted));
        if last != noted {
            TABLE.with_borrow_mut(apply);
        }
    }
}

/// Returns the number of dehydrators with deliveries or events of their own.
pub fn len() -> usize {
    sum(|visits| visits.deliveries)
}

/// Returns the number of dehydrators to visit for a reason.
pub fn count(reason: Reason) -> usize {
    sum(|visits| visits.times[reason as usize].len())
}

/// Returns the number of dehydrators with failing deliveries.
pub fn failing() -> usize {
    sum(|visits| visits.failures.len())
}

fn sum(count: impl Fn(&Visits) -> usize) -> usize {
    let visits = |table: &Table| table.databases.values().map(|it| count(&it.visits)).sum();
    read(visits).unwrap_or(0)
}

/// Returns a dehydrator's consecutive failures. `None`: its last delivery succeeded.
pub fn failure(name: &Name) -> Option<Failure> {
    read(|table| table.failure(name).cloned())?
}

/// Records when a dehydrator has deliveries.
///
/// `now` is when the command looked for due elements: those that came due while it wrote a long reply are to be
/// announced.
pub fn note(context: &Context, key: Str<'_>, tracking: &Tracking, own: OwnWork, now: u64) {
    tracking.note_deliveries(own.has_any());
    let is_due = own.next.is_some_and(|next| next <= now);
    let serial = tracking.slot.serial();
    store::note(serial, own, is_due, |table| {
        let database = table.databases.entry(context.selected_db()).or_default();
        if let Some(at) = database.enter(key.bytes(), serial).note(own, now) {
            timer::at_deadline(context, at);
        }
    });
}

/// Records a dehydrator for upkeep at a time as [`Reason`] says, unless it is recorded for that reason already.
#[inline]
pub fn note_upkeep(tracking: &Tracking, db: i32, key: &[u8], reason: Reason, at: u64) {
    if !tracking.is_noted(reason) {
        note_upkeep_by(tracking, db, key, reason, at);
    }
}

/// Records a dehydrator for upkeep at a time as [`Reason`] says, or earlier if it is recorded so.
pub fn note_upkeep_by(tracking: &Tracking, db: i32, key: &[u8], reason: Reason, at: u64) {
    change(|table| {
        let database = table.databases.entry(db).or_default();
        let mut recorded = database.enter(key, tracking.slot.serial());
        let at = at.min(recorded.visit(reason));
        recorded.set(reason, at);
    });
    tracking.note(reason);
}

/// Records a dehydrator that has just got its name for a delivery at the next tick.
pub fn add(name: &Name, tracking: &Tracking) {
    tracking.note_deliveries(true);
    change(|table| {
        let database = table.databases.entry(name.db).or_default();
        database.enter(&name.key, tracking.slot.serial()).deliver_soon();
    });
}

/// Records that a value leaves its name: it is deleted, overwritten, renamed or moved. `name` is that name.
pub fn leave(tracking: &Tracking, name: impl FnOnce() -> Option<Name>) {
    if tracking.leave()
        && let Some(name) = name()
    {
        let serial = tracking.slot.serial();
        change(|table| table.find(name.db, &name.key).map(|it| it.leave(serial)));
    }
}

/// Ends the deliveries of a name, whatever value it belongs to.
pub fn end_deliveries(name: &Name) {
    change(|table| table.find(name.db, &name.key).map(Recorded::end_deliveries));
}

/// Returns the name that has waited longest for a visit for one of these reasons. It is removed from the agenda for those
/// that are due: the visitor calls [`Tracking::visited`], or [`note`].
pub fn take(reasons: &[Reason]) -> Option<Name> {
    if !has_any(reasons) {
        return None;
    }
    let now = now();
    change(|table| table.take(reasons, now))
}

/// Returns whether any name is to be visited for one of these reasons. Mostly none is, and no clock is read.
fn has_any(reasons: &[Reason]) -> bool {
    let is_listed = |table: &Table| {
        let mut visits = table.databases.values().map(|it| &it.visits.times);
        visits.any(|times| reasons.iter().any(|it| !times[*it as usize].is_empty()))
    };
    read(is_listed).unwrap_or(false)
}

fn now() -> Moment {
    Moment { wall_us: clock::now_us(), monotonic_us: clock::monotonic_us() }
}

/// Returns the time of the earliest visit for one of these reasons, on the monotonic clock, in microseconds.
pub fn next_us(reasons: &[Reason]) -> Option<u64> {
    if !has_any(reasons) {
        return None;
    }
    let now = now();
    let until_us = read(|table| Some(table.first(reasons, now)?.0))??;
    // What is held back has no time of its own.
    let is_timed = until_us < i64::MAX;
    if is_timed { Some(now.monotonic_us.saturating_add_signed(until_us)) } else { None }
}

/// Sets the next visit of a name with deliveries, in microseconds from now. A delivery waits either for its time, behind
/// the others that are due, or for a retry.
pub fn visit_in(name: &Name, reason: Reason, us: u64) {
    let now = now();
    with_deliveries(name, |recorded| recorded.visit_in(reason, us, now));
}

/// Records when the first element of a name with deliveries expires or its first schedule occurs, in milliseconds since the epoch.
pub fn expires_or_occurs_at(name: &Name, at: u64) {
    with_deliveries(name, |recorded| recorded.set(Reason::ExpireOrOccur, at));
}

/// Records that what is due waits at this moment, in milliseconds since the epoch.
pub fn waits_since(name: &Name, now: u64) {
    with_deliveries(name, |recorded| recorded.set(Reason::NoRoom, now));
}

/// Records that dead letters of a dehydrator are stuck, and are to be retried. Repeating this does not delay the retry.
pub fn note_stuck(name: &Name) {
    let now_us = clock::monotonic_us();
    with_deliveries(name, |recorded| {
        if recorded.visit(Reason::Stuck) == NEVER {
            let failure = recorded.visits.failures.get(recorded.entry.key());
            let retry_us = failure.map_or(now_us, |failure| failure.retry_us);
            recorded.set(Reason::Stuck, retry_us);
        }
    });
}

/// Returns how late an element with this deadline is, in microseconds.
pub fn late_us(name: &Name, deadline: u64) -> u64 {
    let entry = |table: &Table| {
        let entry = table.databases.get(&name.db)?.entries.get(&name.key[..])?;
        let delivery = entry.delivery.as_ref()?;
        Some(delivery.overdue.late_us(deadline, clock::now_us()))
    };
    read(entry).flatten().unwrap_or(0)
}

/// Records that a due element is being announced. Returns `false` if one was already.
pub fn announce(name: &Name) -> bool {
    with_deliveries(name, |recorded| {
        let Some(delivery) = &mut recorded.entry.get_mut().delivery else { return false };
        !std::mem::replace(&mut delivery.is_announced, true)
    })
    .unwrap_or(false)
}

/// Records a failed delivery. Returns whether it is the first in a row, and the wait before the next try, in
/// microseconds.
pub fn failed(name: &Name, reason: &str) -> (bool, u64) {
    let counted = with_deliveries(name, |recorded| {
        let key = Rc::clone(recorded.entry.key());
        let failure = recorded.visits.failures.entry(key).or_default();
        (failure.count == 0, failure.count_one(reason))
    });
    counted.unwrap_or((false, BACK_OFF_US))
}

/// Returns whether deliveries of a dehydrator wait after a recent failure.
pub fn is_backing_off(name: &Name) -> bool {
    let retry_us = |table: &Table| Some(table.failure(name)?.retry_us);
    read(retry_us).flatten() > Some(clock::monotonic_us())
}

/// Records a successful delivery, or a new policy: nothing waits for a retry any longer.
pub fn succeeded(context: &Context, name: &Name) {
    let now = now();
    with_deliveries(name, |recorded| {
        recorded.visits.failures.remove(recorded.entry.key());
        if recorded.visit(Reason::Stuck) != NEVER {
            recorded.visit_in(Reason::Stuck, 0, now);
            timer::soon(context);
        }
        recorded.retry_now(now);
    });
}

/// Counts due elements as overdue from now on: a policy, a limit or a pause held them back before.
pub fn reset_overdue(name: &Name) {
    with_deliveries(name, |recorded| {
        let delivery = recorded.entry.get_mut().delivery.as_mut();
        delivery.into_iter().for_each(|it| it.overdue = OverdueSince::since_now());
    });
}

/// Retries all names that wait after a failure: its cause may be over.
pub fn retry_all() {
    let now = now();
    change(|table| {
        for database in table.databases.values_mut() {
            let waiting = &database.visits.times[Reason::Retry as usize];
            let waiting = waiting.iter().map(|(_, key)| Rc::clone(key));
            for key in waiting.collect::<Vec<_>>() {
                database.find(&key).into_iter().for_each(|mut it| it.retry_now(now));
            }
        }
    });
}

/// Forgets the names in a database that was emptied, or in all (`None`).
pub fn flushed(db: Option<i32>) {
    let emptied: Vec<_> = change(|table| match db {
        Some(db) => table.databases.remove(&db).into_iter().collect(),
        None => std::mem::take(&mut table.databases).into_values().collect(),
    });
    emptied.into_iter().for_each(|database| waste::discard(database.into_waste()));
}

/// Swaps the names of two databases, after SWAPDB.
pub fn swapped(first: i32, second: i32) {
    change(|table| {
        let [at_first, at_second] = [first, second].map(|db| table.databases.remove(&db));
        table.databases.extend(at_first.map(|names| (second, names)));
        table.databases.extend(at_second.map(|names| (first, names)));
    });
}

/// Changes the deliveries of a name, if there are any.
fn with_deliveries<T>(name: &Name, change_it: impl FnOnce(&mut Recorded<'_>) -> T) -> Option<T> {
    change(|table| {
        let mut recorded = table.find(name.db, &name.key)?;
        recorded.entry.get().delivery.as_ref()?;
        Some(change_it(&mut recorded))
    })
}
