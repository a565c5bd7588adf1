//! How much may be given out in a time, and what was.
//!
//! A *sliding window*: no more than so many in any so many milliseconds, wherever they begin. So it is kept when each of the
//! last was given out, and the next one may go when the n-th last leaves the window. A bucket of tokens would need two
//! numbers, and let twice as many go in one window after a rest.
//!
//! *The log* has an entry for each moment, with how many had been given out by then. A window of up to 1,024 ms is kept to
//! the millisecond. A longer one is cut into as many *granules*, and what is given out in one of them counts at its end: never
//! too much in a window, and at most a thousandth of the window late. So a log has some thousand entries at the most, of
//! sixteen bytes each, whatever the rate is, and every question is a search in it.
//!
//! *A clock that steps back* leaves moments that are yet to come. They were before now in truth, so they count as now: never too
//! early, and late by a window at the most. One that steps ahead has the window be over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Into so many parts a window is cut.
const GRANULES: u64 = 1024;

/// What is saved is read as numbers of 63 bits.
const MAX: u64 = u64::MAX >> 1;

/// A limit of what is given out in a time. See the [file](self).
#[derive(Debug)]
pub struct Rate {
    most: u64,
    /// How long a window is, in milliseconds.
    per: u64,
    /// By moments, which are those of granules' ends.
    log: VecDeque<Entry>,
    /// How many had been given out by the last of those that were in the log before.
    before: u64,
    /// Nothing in the log was later than this, though it may say so: the clock has stepped back since. Whoever looks notes
    /// that, who need not be who changes it; an atomic, as rules are shared with other threads.
    latest: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    /// In milliseconds since the epoch.
    moment: u64,
    /// How many were given out by then, since the log began.
    total: u64,
}

impl Rate {
    /// Makes a rate of so many in so many milliseconds, neither of which is 0.
    pub fn new(most: u64, per: u64) -> Self {
        Self {
            most,
            per: per.max(1),
            log: VecDeque::new(),
            before: 0,
            latest: AtomicU64::new(u64::MAX),
        }
    }

    /// Makes another rate of it, which goes on counting what was given out. It is what a replica that loads it gets: what
    /// had left the new window when the last was given out is forgotten here too.
    pub fn changed(&self, most: u64, per: u64) -> Self {
        let mut new = Self::new(most, per);
        for (moment, count) in self.entries() {
            new.load(moment, count);
        }
        new
    }

    /// Returns how many may be given out in a window.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns how long a window is, in milliseconds.
    pub fn per(&self) -> u64 {
        self.per
    }

    /// Returns how many may be given out now.
    pub fn room(&self, now: u64) -> u64 {
        let latest = self.look(now);
        let over = self.log.partition_point(|entry| self.end(entry, latest) <= now);
        let over = over.checked_sub(1).map_or(self.before, |last| self.log[last].total);
        self.most.saturating_sub(self.total() - over)
    }

    /// Returns when the next one may be given out, in milliseconds since the epoch: what is past is now.
    pub fn next(&self, now: u64) -> u64 {
        let latest = self.look(now);
        let over = self.total().checked_sub(self.most).filter(|over| self.before <= *over);
        let Some(over) = over else { return 0 };
        // All up to that one must have left the window.
        let last = self.log.partition_point(|entry| entry.total <= over);
        self.log.get(last).map_or(0, |entry| self.end(entry, latest))
    }

    /// Notes that so many are given out at this moment.
    pub fn give(&mut self, moment: u64, count: u64) {
        let end = self.granule_end(moment);
        let total = self.total();
        while self.log.back().is_some_and(|last| last.moment > end) {
            self.log.pop_back();
            self.set_total(end, total);
        }
        *self.latest.get_mut() = u64::MAX;
        self.forget_until(end);
        if self.log.is_empty() {
            // What had come near to the greatest number would count nothing from then on.
            self.before = 0;
        }
        self.add(moment, count);
    }

    /// Notes that so many were given out at a moment that is not before the last one. Returns whether that can be.
    pub fn load(&mut self, moment: u64, count: u64) -> bool {
        let end = self.granule_end(moment);
        if count == 0 || self.log.back().is_some_and(|last| end < last.moment) {
            return false;
        }
        self.forget_until(end);
        self.add(moment, count);
        true
    }

    /// Lists when how many were given out, as far as that is of interest, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        let mut before = self.before;
        self.log.iter().map(move |entry| {
            let count = entry.total - before;
            before = entry.total;
            (entry.moment, count)
        })
    }

    /// Returns bytes on the heap, in one allocation.
    pub fn memory(&self) -> usize {
        self.log.capacity() * size_of::<Entry>()
    }

    /// Forgets what had left the window when the granule began that ends here: at no moment in it is that of interest. Of the
    /// moment itself nothing may depend, as replicas and files are told of the granule alone.
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

    /// Says how many were given out by a moment, unless what is later says more.
    fn set_total(&mut self, moment: u64, total: u64) {
        let before = self.total();
        match self.log.back_mut() {
            Some(last) if last.moment == moment => last.total = total,
            Some(last) if last.moment > moment => {}
            _ if total == before => {}
            _ => self.log.push_back(Entry { moment, total }),
        }
    }

    fn total(&self) -> u64 {
        self.log.back().map_or(self.before, |last| last.total)
    }

    /// Returns how long a granule is, in milliseconds.
    fn granule(&self) -> u64 {
        self.per.div_ceil(GRANULES)
    }

    fn granule_end(&self, moment: u64) -> u64 {
        moment.next_multiple_of(self.granule()).min(MAX)
    }

    /// Returns when an entry leaves the window, if none was later than `latest`.
    fn end(&self, entry: &Entry, latest: u64) -> u64 {
        entry.moment.min(latest).saturating_add(self.per)
    }

    /// Looks at the clock. Returns what nothing in the log was later than.
    fn look(&self, now: u64) -> u64 {
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
        let Self { most, per, log, before, latest } = self;
        let latest = AtomicU64::new(latest.load(Ordering::Relaxed));
        Self { most: *most, per: *per, log: log.clone(), before: *before, latest }
    }
}

impl PartialEq for Rate {
    /// Returns whether both say the same of what was given out, whatever their clocks did since.
    fn eq(&self, other: &Self) -> bool {
        (self.most, self.per) == (other.most, other.per) && self.entries().eq(other.entries())
    }
}

impl Eq for Rate {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that was ever given out: when, in order.
    #[derive(Default)]
    struct Naive(Vec<u64>);

    impl Naive {
        fn room(&self, rate: &Rate, now: u64) -> u64 {
            let counts = self.0.iter().filter(|moment| **moment + rate.per > now).count() as u64;
            rate.most.saturating_sub(counts)
        }

        /// When the n-th last leaves the window.
        fn next(&self, rate: &Rate) -> u64 {
            let at = self.0.len().checked_sub(rate.most as usize);
            at.map_or(0, |at| self.0[at] + rate.per)
        }

        /// Panics if there is a window with too many.
        fn check(&self, rate: &Rate) {
            for (at, moment) in self.0.iter().enumerate() {
                let later = self.0[at..].partition_point(|it| *it < moment + rate.per);
                assert!(later as u64 <= rate.most, "{later} from {moment} on");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Everybody takes what there is room for, whenever they ask.
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
                    rate.give(now, given);
                    naive.0.extend((0..given).map(|_| now));
                }
                naive.check(&rate);
                prop_assert!(rate.log.len() as u64 <= GRANULES + 1, "{}", rate.log.len());
                let mut replayed = Rate::new(most, per);
                rate.entries().for_each(|(moment, count)| replayed.give(moment, count));
                prop_assert!(replayed == rate && replayed.room(now) == rate.room(now));
                let mut loaded = Rate::new(most, per);
                for (moment, count) in rate.entries() {
                    prop_assert!(loaded.load(moment, count));
                }
                prop_assert_eq!(loaded.room(now), rate.room(now));
                prop_assert_eq!(loaded.next(now).max(now), rate.next(now).max(now));
            }
        }

        /// In truth time only goes on, whatever the clock says.
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
                // Somebody looks at it all the time.
                let next = rate.next(clock);
                prop_assert!(next <= clock + per + 2 * rate.granule(), "{next} at {clock}");
                let given = rate.room(clock).min(wanted);
                if given > 0 {
                    rate.give(clock, given);
                    naive.0.extend((0..given).map(|_| truth));
                }
                naive.check(&rate);
            }
        }
    }

    #[test]
    fn the_next_may_go_when_the_nth_last_leaves_the_window() {
        let mut rate = Rate::new(3, 100);
        assert_eq!((rate.room(0), rate.next(0)), (3, 0));
        rate.give(10, 1);
        rate.give(20, 2);
        assert_eq!((rate.room(20), rate.next(20)), (0, 110));
        assert_eq!((rate.room(109), rate.room(110), rate.room(119), rate.room(120)), (0, 1, 1, 3));
        rate.give(110, 1);
        assert_eq!((rate.room(110), rate.next(110)), (0, 120));
        assert_eq!(rate.entries().collect::<Vec<_>>(), [(20, 2), (110, 1)]);
        // Fewer than were given out.
        let slower = rate.changed(1, 100);
        assert_eq!((slower.room(120), slower.next(120)), (0, 210));
        assert_eq!((slower.room(210), rate.changed(9, 100).room(119)), (1, 6));
    }

    #[test]
    fn a_long_window_is_kept_in_granules_and_counts_at_their_ends() {
        let mut rate = Rate::new(2, 3_600_000);
        // A granule is 3,516 ms.
        rate.give(3516, 1);
        rate.give(3517, 1);
        assert_eq!(rate.entries().collect::<Vec<_>>(), [(3516, 1), (7032, 1)]);
        assert_eq!(rate.next(4000), 3_603_516);
        rate.give(3_603_516, 1);
        assert_eq!(rate.next(3_603_516), 3_607_032);
        // In granules of another length, none counts earlier than it did.
        let hours = rate.changed(2, 7_200_000);
        assert_eq!(hours.next(3_603_516), 7_207_032);
    }

    #[test]
    fn a_rate_that_was_changed_is_what_a_replica_loads() {
        let loaded = |rate: &Rate| {
            let mut loaded = Rate::new(rate.most(), rate.per());
            assert!(rate.entries().all(|(moment, count)| loaded.load(moment, count)));
            loaded
        };
        let mut rate = Rate::new(5, 100_000);
        rate.give(1_000_000, 1);
        rate.give(1_040_000, 1);
        let shorter = rate.changed(5, 10);
        let replica = loaded(&shorter);
        assert!(replica == shorter);
        let [here, there] = [&shorter, &replica].map(|rate| rate.changed(2, 100_000));
        assert!(here == there && here.room(1_040_000) == there.room(1_040_000));
    }

    #[test]
    fn what_cannot_have_been_is_not_loaded() {
        let mut rate = Rate::new(3, 100);
        assert!(!rate.load(5, 0));
        assert!(rate.load(5, 1) && rate.load(5, 1) && !rate.load(4, 1));
        assert!(rate.load(u64::MAX >> 1, u64::MAX >> 1));
        assert_eq!(rate.room(u64::MAX >> 1), 0);
        assert_eq!(rate.log.len(), 1);
    }
}
