//! A rate limit, and the log of elements given out.
//!
//! *A sliding window* allows at most n elements in any window of the given length, wherever the window begins. So the log keeps
//! when each of the last n elements was given out, and the next element is allowed when the n-th last leaves the window. A
//! token bucket would need only two numbers, but allows twice as many elements in one window after a rest.
//!
//! *The log* has an entry per moment, with the total given out until then. A window of up to 1,024 ms is exact to the
//! millisecond. A longer window is divided into 1,024 *granules*, and elements count at the end of their granule: a window
//! never has too many elements, and an element is delayed by at most a thousandth of the window. So whatever the rate is, a log
//! has about a thousand entries of sixteen bytes at most, and every query is a binary search.
//!
//! *A clock that steps back* leaves future moments in the log. They really were before now, so they count as now: no element is
//! early, and elements are delayed by at most one window. A forward step ends the window.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of granules in a window.
const GRANULES: u64 = 1024;

/// The file format has numbers of 63 bits.
const MAX: u64 = u64::MAX >> 1;

/// A rate limit. See the [module](self).
#[derive(Debug)]
pub struct Rate {
    max: u64,
    /// The length of a window, in milliseconds.
    per: u64,
    /// Ordered by moment. Each moment is the end of a granule.
    log: VecDeque<LogEntry>,
    /// The total of the last entry that was removed from the log's front.
    before: u64,
    /// An upper bound for all moments in the log. Later moments come from before the clock stepped back. Queries lower the
    /// bound through a shared reference; it is atomic because rules are shared with other threads.
    latest: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LogEntry {
    /// In milliseconds since the epoch.
    moment: u64,
    /// The number of elements given out until then, since the log began.
    total: u64,
}

impl Rate {
    /// Creates a rate of `max` elements per `per` milliseconds. Neither may be 0.
    pub fn new(max: u64, per: u64) -> Self {
        Self {
            max,
            per: per.max(1),
            log: VecDeque::new(),
            before: 0,
            latest: AtomicU64::new(u64::MAX),
        }
    }

    /// Creates a changed rate that keeps counting the elements given out. It equals the rate that a replica loads: entries that
    /// had left the new window at the last entry's moment are dropped.
    pub fn changed(&self, max: u64, per: u64) -> Self {
        let mut new = Self::new(max, per);
        for (moment, count) in self.entries() {
            new.load(moment, count);
        }
        // What is known of a clock that stepped back.
        *new.latest.get_mut() = self.latest.load(Ordering::Relaxed);
        new
    }

    /// Returns the maximum number of elements in a window.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the length of a window, in milliseconds.
    pub fn per(&self) -> u64 {
        self.per
    }

    /// Returns the number of elements that may be given out now.
    pub fn room(&self, now: u64) -> u64 {
        let latest = self.latest(now);
        let over = self.log.partition_point(|entry| self.end(entry, latest) <= now);
        let over = over.checked_sub(1).map_or(self.before, |last| self.log[last].total);
        self.max.saturating_sub(self.total() - over)
    }

    /// Returns when the next element may be given out, in milliseconds since the epoch. A past moment means now.
    pub fn next(&self, now: u64) -> u64 {
        let latest = self.latest(now);
        let over = self.total().checked_sub(self.max).filter(|over| self.before <= *over);
        let Some(over) = over else { return 0 };
        // All entries up to this total must have left the window.
        let last = self.log.partition_point(|entry| entry.total <= over);
        self.log.get(last).map_or(0, |entry| self.end(entry, latest))
    }

    /// Records that `count` elements are given out at `moment`.
    pub fn record(&mut self, moment: u64, count: u64) {
        let end = self.granule_end(moment);
        let total = self.total();
        while self.log.back().is_some_and(|last| last.moment > end) {
            self.log.pop_back();
            self.set_total(end, total);
        }
        *self.latest.get_mut() = u64::MAX;
        self.forget_until(end);
        if self.log.is_empty() {
            // Restarts the total, which would stop counting near its maximum.
            self.before = 0;
        }
        self.add(moment, count);
    }

    /// Records a loaded entry. Returns `false` if the entry is impossible: without elements, or before the last one.
    pub fn load(&mut self, moment: u64, count: u64) -> bool {
        let end = self.granule_end(moment);
        if count == 0 || self.log.back().is_some_and(|last| end < last.moment) {
            return false;
        }
        self.forget_until(end);
        self.add(moment, count);
        true
    }

    /// Returns the moments that still count, in order, each with the number of elements given out.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        let mut before = self.before;
        self.log.iter().map(move |entry| {
            let count = entry.total - before;
            before = entry.total;
            (entry.moment, count)
        })
    }

    /// Returns the moment of the last entry. 0: there is none.
    pub fn last(&self) -> u64 {
        self.log.back().map_or(0, |last| last.moment)
    }

    /// Returns from when on nothing in the log counts, as far as is known of a clock that stepped back.
    pub fn over_at(&self) -> u64 {
        let latest = self.latest.load(Ordering::Relaxed);
        self.log.back().map_or(0, |last| self.end(last, latest))
    }

    /// Returns whether nothing in the log counts at `now`.
    pub fn is_over(&self, now: u64) -> bool {
        let latest = self.latest(now);
        self.log.back().is_none_or(|last| self.end(last, latest) <= now)
    }

    /// Returns the size of the log's heap allocation, in bytes.
    pub fn memory(&self) -> usize {
        self.log.capacity() * size_of::<LogEntry>()
    }

    /// Removes the entries that had left the window at the beginning of the granule that ends at `end`: no moment of the granule
    /// needs them. The moment within the granule must not matter, because replicas and files get only the granule.
    fn forget_until(&mut self, end: u64) {
        let begin = end - (self.granule() - 1).min(end);
        while let Some(first) = self.log.front().filter(|first| self.end(first, end) <= begin) {
            self.before = first.total;
            self.log.pop_front();
        }
    }

    fn add(&mut self, moment: u64, count: u64) {
        let total = self.total().saturating_add(count).min(MAX);
        self.set_total(self.granule_end(moment), total);
    }

    /// Sets the total until a moment, unless the log has a later moment.
    fn set_total(&mut self, moment: u64, total: u64) {
        let before = self.total();
        match self.log.back_mut() {
            Some(last) if last.moment == moment => last.total = total,
            Some(last) if last.moment > moment => {}
            _ if total == before => {}
            _ => self.log.push_back(LogEntry { moment, total }),
        }
    }

    fn total(&self) -> u64 {
        self.log.back().map_or(self.before, |last| last.total)
    }

    /// Returns the length of a granule, in milliseconds.
    fn granule(&self) -> u64 {
        self.per.div_ceil(GRANULES)
    }

    fn granule_end(&self, moment: u64) -> u64 {
        moment.next_multiple_of(self.granule()).min(MAX)
    }

    /// Returns when an entry leaves the window, given that no entry was later than `latest`.
    fn end(&self, entry: &LogEntry, latest: u64) -> u64 {
        entry.moment.min(latest).saturating_add(self.per)
    }

    /// Returns the upper bound for the log's moments, lowered if the clock has stepped back.
    fn latest(&self, now: u64) -> u64 {
        let (before, end) = (self.latest.load(Ordering::Relaxed), self.granule_end(now));
        let is_ahead = self.log.back().is_some_and(|last| last.moment.min(before) > end);
        if is_ahead {
            self.latest.store(end, Ordering::Relaxed);
        }
        if is_ahead { end } else { before }
    }
}

impl Clone for Rate {
    fn clone(&self) -> Self {
        let Self { max, per, log, before, latest } = self;
        let latest = AtomicU64::new(latest.load(Ordering::Relaxed));
        // With the same memory, which owners add up.
        let mut copy = VecDeque::with_capacity(log.capacity());
        copy.extend(log);
        Self { max: *max, per: *per, log: copy, before: *before, latest }
    }
}

impl PartialEq for Rate {
    /// Compares limits and entries, whatever the clocks did since.
    fn eq(&self, other: &Self) -> bool {
        (self.max, self.per) == (other.max, other.per) && self.entries().eq(other.entries())
    }
}

impl Eq for Rate {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The moments of all elements ever given out, in order.
    #[derive(Default)]
    struct Naive(Vec<u64>);

    impl Naive {
        fn room(&self, rate: &Rate, now: u64) -> u64 {
            let counts = self.0.iter().filter(|moment| **moment + rate.per > now).count() as u64;
            rate.max.saturating_sub(counts)
        }

        /// Returns when the n-th last element leaves the window.
        fn next(&self, rate: &Rate) -> u64 {
            let at = self.0.len().checked_sub(rate.max as usize);
            at.map_or(0, |at| self.0[at] + rate.per)
        }

        /// Panics if a window has too many elements.
        fn check(&self, rate: &Rate) {
            for (at, moment) in self.0.iter().enumerate() {
                let later = self.0[at..].partition_point(|it| *it < moment + rate.per);
                assert!(later as u64 <= rate.max, "{later} from {moment} on");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Takes as many elements as there is room for, at random moments.
        #[test]
        fn no_window_has_more_and_nothing_waits_longer_than_a_granule(
            most in 1_u64..40,
            per in prop_oneof![1_u64..50, Just(1024), 1000_u64..20_000],
            steps in prop::collection::vec((0_u64..400, 0_u64..20, any::<bool>()), 1..200),
        ) {
            let (mut rate, mut naive, mut now) = (Rate::new(most, per), Naive::default(), 1_000_000);
            for (step, wanted, waits) in steps {
                now += step;
                if waits && rate.room(now) == 0 {
                    let next = rate.next(now);
                    prop_assert!(next > now && rate.room(next - 1) == 0 && rate.room(next) > 0);
                    let exact = naive.next(&rate);
                    let granule = rate.granule();
                    prop_assert!((exact..exact + granule).contains(&next), "{next} and not {exact}");
                    now = next;
                }
                let (room, exact) = (rate.room(now), naive.room(&rate, now));
                prop_assert!(room <= exact);
                if rate.granule() == 1 {
                    prop_assert_eq!(room, exact);
                }
                prop_assert_eq!(rate.next(now) <= now, room > 0);
                let given = room.min(wanted);
                if given > 0 {
                    rate.record(now, given);
                    naive.0.extend((0..given).map(|_| now));
                }
                naive.check(&rate);
                prop_assert!(rate.log.len() as u64 <= GRANULES + 1, "{}", rate.log.len());
                let mut replayed = Rate::new(most, per);
                rate.entries().for_each(|(moment, count)| replayed.record(moment, count));
                prop_assert!(replayed == rate && replayed.room(now) == rate.room(now));
                let mut loaded = Rate::new(most, per);
                for (moment, count) in rate.entries() {
                    prop_assert!(loaded.load(moment, count));
                }
                prop_assert_eq!(loaded.room(now), rate.room(now));
                prop_assert_eq!(loaded.next(now).max(now), rate.next(now).max(now));
            }
        }

        /// The true time only advances, whatever the clock shows.
        #[test]
        fn a_clock_that_steps_back_gives_nothing_early_and_makes_nobody_wait_for_it(
            most in 1_u64..20,
            per in prop_oneof![1_u64..50, 1000_u64..20_000],
            steps in prop::collection::vec((0_u64..400, 0_u64..20, 0_u64..4), 1..200),
        ) {
            let (mut rate, mut naive) = (Rate::new(most, per), Naive::default());
            let (mut truth, mut clock) = (1_000_000_000, 1_000_000_000_u64);
            for (step, wanted, back) in steps {
                truth += step;
                clock += step;
                if back == 0 {
                    clock -= 97 * step * wanted;
                }
                // The rate is queried at every step.
                let next = rate.next(clock);
                prop_assert!(next <= clock + per + 2 * rate.granule(), "{next} at {clock}");
                let given = rate.room(clock).min(wanted);
                if given > 0 {
                    rate.record(clock, given);
                    naive.0.extend((0..given).map(|_| truth));
                }
                naive.check(&rate);
            }
        }
    }

    #[test]
    fn a_long_window_is_kept_in_granules_and_counts_at_their_ends() {
        let mut rate = Rate::new(2, 3_600_000);
        // A granule is 3,516 ms.
        rate.record(3516, 1);
        rate.record(3517, 1);
        assert_eq!(rate.entries().collect::<Vec<_>>(), [(3516, 1), (7032, 1)]);
        assert_eq!(rate.next(4000), 3_603_516);
        rate.record(3_603_516, 1);
        assert_eq!(rate.next(3_603_516), 3_607_032);
        // In granules of another length, none counts earlier than it did.
        let hours = rate.changed(2, 7_200_000);
        assert_eq!(hours.next(3_603_516), 7_207_032);
    }

    #[test]
    fn a_rate_that_was_changed_is_what_a_replica_loads() {
        let loaded = |rate: &Rate| {
            let mut loaded = Rate::new(rate.max(), rate.per());
            assert!(rate.entries().all(|(moment, count)| loaded.load(moment, count)));
            loaded
        };
        let mut rate = Rate::new(5, 100_000);
        rate.record(1_000_000, 1);
        rate.record(1_040_000, 1);
        let shorter = rate.changed(5, 10);
        let replica = loaded(&shorter);
        assert!(replica == shorter);
        let [here, there] = [&shorter, &replica].map(|rate| rate.changed(2, 100_000));
        assert!(here == there && here.room(1_040_000) == there.room(1_040_000));
    }

    #[test]
    fn impossible_entries_are_not_loaded() {
        let mut rate = Rate::new(3, 100);
        assert!(!rate.load(5, 0));
        assert!(rate.load(5, 1) && rate.load(5, 1) && !rate.load(4, 1));
        assert!(rate.load(u64::MAX >> 1, u64::MAX >> 1));
        assert_eq!(rate.room(u64::MAX >> 1), 0);
        assert_eq!(rate.log.len(), 1);
    }
}
