//! An entry of the agenda: the reasons to visit a dehydrator, and when; consecutive failures of its deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hashbrown::hash_map::OccupiedEntry;

use crate::clock;
use crate::metrics::lateness::OverdueSince;
use crate::pending::overdue::Serial;

/// Why the module visits a dehydrator of its own accord.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// An element comes due that is delivered or announced, or a pause ends. In milliseconds since the epoch.
    Deliver,
    /// Due elements wait for room within limits until [`Reason::Deliver`], or dead letters for their turn. If the wall clock steps
    /// back, either may come much earlier. So the name is visited if the clock falls below this moment, the time of recording,
    /// in milliseconds since the epoch.
    NoRoom,
    /// A delivery failed. In microseconds on the monotonic clock, which never steps.
    Retry,
    /// Stuck dead letters are retried, while other elements go on. In microseconds on the monotonic clock.
    Stuck,
    /// An element is too late to be given out, or a schedule occurs. In milliseconds since the epoch.
    ExpireOrOccur,
    /// Remembered ids expire, or pauses of groups end. In milliseconds since the epoch.
    Forget,
    /// There is memory to give back since this time, in microseconds on the monotonic clock.
    Compact,
    /// Groups are to be brought to limits that have changed, since this time, in microseconds on the monotonic clock.
    FitGroups,
}

/// The present time on both clocks, in microseconds.
#[derive(Clone, Copy)]
pub struct Moment {
    pub wall_us: u64,
    pub monotonic_us: u64,
}

impl Reason {
    pub(super) const COUNT: usize = 8;

    /// The reasons of [`delivery`](crate::delivery).
    pub const DELIVERY: [Self; 5] =
        [Self::Deliver, Self::NoRoom, Self::Retry, Self::Stuck, Self::ExpireOrOccur];

    /// The reasons of the cron, and of the end of each pass of the event loop for [`Reason::FitGroups`], on replicas too.
    pub const UPKEEP: [Self; 3] = [Self::Forget, Self::Compact, Self::FitGroups];

    /// The reasons for which the event loop is woken.
    pub const TIMED: [Self; 6] = {
        let [deliver, held_back, retry, stuck, expire] = Self::DELIVERY;
        [deliver, held_back, retry, stuck, expire, Self::FitGroups]
    };

    /// Returns whether visits are on the wall clock, in milliseconds, and not on the monotonic clock, in microseconds.
    fn is_by_wall(self) -> bool {
        matches!(self, Self::Deliver | Self::NoRoom | Self::ExpireOrOccur | Self::Forget)
    }

    /// Returns the time of a visit in `us` microseconds.
    pub(super) fn at(self, us: u64, now: Moment) -> u64 {
        if self.is_by_wall() { (now.wall_us + us) / 1000 } else { now.monotonic_us + us }
    }

    /// Returns the time until a visit recorded for `at`, in microseconds: negative if it is overdue.
    pub(super) fn until_us(self, at: u64, now: Moment) -> i64 {
        let (at_us, now_us) = match self.is_by_wall() {
            true => (at.saturating_mul(1000), now.wall_us),
            false => (at, now.monotonic_us),
        };
        let until_us = i64::try_from(at_us).unwrap_or(i64::MAX).saturating_sub_unsigned(now_us);
        match self {
            Self::NoRoom if until_us > 0 => -until_us,
            Self::NoRoom => i64::MAX,
            _ => until_us,
        }
    }
}

/// The wait after a first failure. It doubles with each further one.
pub(super) const BACK_OFF_US: u64 = 100_000;
/// The longest wait: a repair is noticed no later than this.
const BACK_OFF_MAX_US: u64 = 10_000_000;

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
    pub(super) retry_us: u64,
}

impl Failure {
    /// Returns the wait after one more failure, in microseconds.
    fn back_off_us(&self) -> u64 {
        BACK_OFF_US.saturating_mul(1 << self.count.min(16)).min(BACK_OFF_MAX_US)
    }

    /// Counts one more failure. Returns the wait before the next try, in microseconds.
    pub(super) fn count_one(&mut self, reason: &str) -> u64 {
        let (wait_us, now_us) = (self.back_off_us(), clock::monotonic_us());
        if self.count == 0 {
            self.since = clock::now();
        }
        self.count = self.count.saturating_add(1);
        reason.clone_into(&mut self.reason);
        self.retry_us = now_us + wait_us;
        wait_us
    }
}

/// A key's name within its database.
pub type Key = Rc<[u8]>;

/// No visit for a reason.
pub(super) const NEVER: u64 = u64::MAX;

/// The deliveries of a dehydrator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnWork {
    /// When there is work, or since when, in milliseconds since the epoch.
    pub next: Option<u64>,
    /// Set if it is visited for as long as something is due, and not only once.
    pub delivers: bool,
    /// Set if something is due already, and waits until `next` for room within limits, or may wait for the turn of its group.
    pub waits_for_room: bool,
    /// When the first element is too late to be given out, in milliseconds since the epoch.
    pub expires: Option<u64>,
    /// When the first schedule occurs, in milliseconds since the epoch.
    pub occurs: Option<u64>,
}

impl OwnWork {
    /// Returns whether there is anything to do, now or later.
    pub fn has_any(&self) -> bool {
        self.next.is_some() || self.occurs.is_some()
    }

    /// Returns when the first element is too late or the first schedule occurs, in milliseconds since the epoch.
    pub fn expires_or_occurs(&self) -> Option<u64> {
        [self.expires, self.occurs].into_iter().flatten().min()
    }
}

/// The deliveries that are recorded, and the event that something is due.
#[derive(Default)]
pub struct Delivery {
    /// Set if the event that something is due was published.
    pub is_announced: bool,
    pub overdue: OverdueSince,
}

/// An entry of the table.
pub struct Entry {
    /// The value that was recorded last under this name.
    pub(super) serial: Serial,
    /// The time of the visit for each reason: see [`Reason`].
    pub(super) visits: [u64; Reason::COUNT],
    /// `None`: nothing is delivered or published.
    pub delivery: Option<Delivery>,
}

// As many keys may have a policy: see `Dehydrator::memory`.
const _: () = assert!(size_of::<Entry>() <= 104);

/// The names in a database by what is to be done with them.
#[derive(Default)]
pub struct Visits {
    /// The names to visit for each reason, earliest first.
    pub(super) times: [BTreeSet<(u64, Key)>; Reason::COUNT],
    /// Names whose last delivery failed.
    pub failures: BTreeMap<Key, Failure>,
    /// The number of entries with [`Entry::delivery`].
    pub deliveries: usize,
}

/// A recorded name, for a change.
pub struct Recorded<'a> {
    pub(super) entry: OccupiedEntry<'a, Key, Entry, ahash::RandomState>,
    pub(super) visits: &'a mut Visits,
}

impl Recorded<'_> {
    /// Returns the time of the visit for a reason, or [`NEVER`].
    pub(super) fn visit(&self, reason: Reason) -> u64 {
        self.entry.get().visits[reason as usize]
    }

    /// Sets or cancels the visit for a reason.
    pub fn set(&mut self, reason: Reason, at: u64) {
        let before = std::mem::replace(&mut self.entry.get_mut().visits[reason as usize], at);
        if before == at {
            return;
        }
        let (key, queue) = (self.entry.key(), &mut self.visits.times[reason as usize]);
        if before != NEVER {
            queue.remove(&(before, Rc::clone(key)));
        }
        if at != NEVER {
            queue.insert((at, Rc::clone(key)));
        }
    }

    /// Sets a visit in `us` microseconds. A delivery waits either for its time, behind the others that are due, or for a
    /// retry.
    pub fn visit_in(&mut self, reason: Reason, us: u64, now: Moment) {
        match reason {
            Reason::Deliver => self.set(Reason::Retry, NEVER),
            Reason::Retry => self.set(Reason::Deliver, NEVER),
            _ => {}
        }
        self.set(reason, reason.at(us, now));
    }

    /// Retries a failed delivery now.
    pub fn retry_now(&mut self, now: Moment) {
        if self.visit(Reason::Retry) != NEVER {
            self.visit_in(Reason::Deliver, 0, now);
        }
    }

    /// Returns the deliveries, which begin if there were none.
    pub(super) fn begin_deliveries(&mut self) -> &mut Delivery {
        let delivery = &mut self.entry.get_mut().delivery;
        self.visits.deliveries += usize::from(delivery.is_none());
        delivery.get_or_insert_default()
    }

    /// Records when there are deliveries. Returns when, in milliseconds since the epoch, if that is news.
    pub fn note(mut self, own: OwnWork, now: u64) -> Option<u64> {
        if !own.has_any() {
            self.end_deliveries();
            return None;
        }
        let OwnWork { delivers, waits_for_room, .. } = own;
        let next = own.next.unwrap_or(NEVER);
        let expires_or_occurs = own.expires_or_occurs();
        self.set(Reason::ExpireOrOccur, expires_or_occurs.unwrap_or(NEVER));
        self.set(Reason::NoRoom, if waits_for_room { now } else { NEVER });
        let delivery = self.begin_deliveries();
        if next > now {
            delivery.is_announced = false;
        }
        delivery.overdue.note(own.next, clock::now_us);
        let is_wanted = delivers || !delivery.is_announced;
        if self.visit(Reason::Retry) != NEVER {
            return expires_or_occurs;
        }
        // One that is due already keeps its place in the queue, or gets one behind the others that are due.
        let before = self.visit(Reason::Deliver);
        let waits = before <= now && next <= now;
        let at = if waits {
            before
        } else if is_wanted {
            next.max(now)
        } else {
            NEVER
        };
        self.set(Reason::Deliver, at);
        let at = (at != NEVER && (at != before || at <= now)).then_some(at);
        [at, expires_or_occurs].into_iter().flatten().min()
    }

    /// Records deliveries at the next tick, of a value that has just got its name.
    pub fn deliver_soon(mut self) {
        *self.begin_deliveries() =
            Delivery { is_announced: false, overdue: OverdueSince::since_now() };
        self.set(Reason::Retry, NEVER);
        self.set(Reason::Deliver, 0);
    }

    /// Ends the deliveries.
    pub fn end_deliveries(mut self) {
        Reason::DELIVERY.into_iter().for_each(|reason| self.set(reason, NEVER));
        self.visits.deliveries -= usize::from(self.entry.get_mut().delivery.take().is_some());
        self.visits.failures.remove(self.entry.key());
        self.remove_if_idle();
    }

    /// Forgets the name if it was recorded for this value.
    pub fn leave(mut self, serial: Serial) {
        if self.entry.get().serial == serial {
            Reason::UPKEEP.into_iter().for_each(|reason| self.set(reason, NEVER));
            self.end_deliveries();
        }
    }

    /// Forgets the name if it is to be visited no more.
    pub(super) fn remove_if_idle(self) {
        let Entry { visits, delivery, .. } = self.entry.get();
        if delivery.is_none() && *visits == [NEVER; Reason::COUNT] {
            self.entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_ten_seconds() {
        let wait = |count| Failure { count, ..Failure::default() }.back_off_us();
        assert_eq!([0, 1, 2, 6].map(wait), [100_000, 200_000, 400_000, 6_400_000]);
        assert_eq!([7, 17, u32::MAX].map(wait), [10_000_000; 3]);
    }
}
