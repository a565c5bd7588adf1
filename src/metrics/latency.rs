//! How late elements were given out or delivered: last, greatest, and percentiles.
//!
//! It counts from the moment at which the element could have been given out at the earliest. That is its
//! deadline, unless something came later: the element itself, pushed with a deadline in the past; the end of a pause; room
//! within limits; a policy, said when the element was overdue; what [`start`] knows of.

use std::sync::atomic::{AtomicU64, Ordering};

use super::start;
use crate::clock;

/// Parts into which each power of two is divided: a percentile is told to within an eighth.
const PARTS: u32 = 8;
/// Up to 2^40 microseconds, some twelve days; what is later is counted as that.
const OCTAVES: u32 = 40;

/// What is given out later than this is counted as late, in microseconds: it waited for somebody, not for a waking.
const LATE_US: u64 = 100_000;

const BUCKETS: usize = (PARTS * OCTAVES) as usize;

/// How late elements were. It is the server's main thread's alone, so nothing is ordered or locked; a thread's own would cost
/// more to find than to change.
struct Seen {
    last_us: AtomicU64,
    max_us: AtomicU64,
    /// Elements that were late.
    late: AtomicU64,
    /// Counts of latenesses that are about the same.
    counts: [AtomicU64; BUCKETS],
}

static SEEN: Seen = Seen::new();

/// Since when the next element of a key is overdue. An element may come when its deadline is over already.
#[derive(Clone, Copy, Default, Debug)]
pub struct Overdue {
    /// When the next element comes due, or did, in milliseconds since the epoch.
    next: Option<u64>,
    /// When it came, if it was due by then, in microseconds since the epoch.
    since_us: u64,
    /// What has this deadline or a later one was there before.
    before: Option<u64>,
}

impl Overdue {
    /// Counts what is due in a key as overdue from now on: the key has just come, with whatever is in it.
    pub fn since_now() -> Self {
        Self { since_us: clock::now_us(), ..Self::default() }
    }

    /// Counts nothing as overdue before `next`, in milliseconds since the epoch.
    pub fn from(next: Option<u64>) -> Self {
        Self { next, ..Self::default() }
    }

    /// Counts what is due before `before` as overdue since that moment, in milliseconds since the epoch, and all else since
    /// its deadline.
    pub fn since(moment: u64, before: u64) -> Self {
        Self { since_us: moment.saturating_mul(1000), before: Some(before), next: None }
    }

    /// Notes when the next element comes due, or did. The clock, in microseconds since the epoch, is read if that matters.
    pub fn note(&mut self, next: Option<u64>, clock_us: impl FnOnce() -> u64) {
        // A later deadline than before is that of an element which was there already, behind one that was taken.
        let has_come = next.is_some_and(|next| self.next.is_none_or(|before| next < before));
        self.next = next;
        if let Some(next) = next.filter(|_| has_come) {
            let now_us = clock_us();
            if next <= now_us / 1000 {
                self.since_us = now_us;
            }
        }
    }

    /// Returns how late an element of this deadline is now, in microseconds.
    pub fn late_us(&self, deadline: u64) -> u64 {
        self.late_us_at(deadline, clock::now_us())
    }

    fn late_us_at(&self, deadline: u64, now_us: u64) -> u64 {
        // What limits hold back is noted with a later time than its deadline.
        let deadline_us = deadline.max(self.next.unwrap_or(0)).saturating_mul(1000);
        let was_there = self.before.is_some_and(|before| deadline >= before);
        let since_us = if was_there { deadline_us } else { deadline_us.max(self.since_us) };
        start::late_us(since_us, now_us)
    }
}

/// Elements that are given out at one time, in order. Those of one deadline, which follow each other, are as late.
pub struct Given {
    /// `None`: since their deadlines.
    overdue: Option<Overdue>,
    now_us: u64,
    deadline: u64,
    count: u64,
}

impl Given {
    /// Begins to note elements of a key that are given out at this time, in milliseconds since the epoch.
    #[inline(always)]
    pub fn begin(overdue: Option<Overdue>, now: u64) -> Self {
        Self { overdue, now_us: now.saturating_mul(1000), deadline: 0, count: 0 }
    }

    /// Notes the next one, by the deadline that it had.
    #[inline(always)]
    pub fn note(&mut self, deadline: u64) {
        if deadline != self.deadline {
            self.record();
            self.deadline = deadline;
        }
        self.count += 1;
    }

    #[inline]
    fn record(&mut self) {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            let us = match &self.overdue {
                Some(overdue) => overdue.late_us_at(self.deadline, self.now_us),
                None => start::late_us(self.deadline.saturating_mul(1000), self.now_us),
            };
            record_many(us, count);
        }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        self.record();
    }
}

/// Forgets what was noted, as CONFIG RESETSTAT asks for.
pub fn reset() {
    let Seen { last_us, max_us, late, counts } = &SEEN;
    [last_us, max_us, late].into_iter().chain(counts).for_each(|it| it.store(0, Ordering::Relaxed));
}

/// Notes one, in microseconds.
pub fn record(us: u64) {
    record_many(us, 1);
}

/// Notes so many that are as late.
#[inline]
fn record_many(us: u64, count: u64) {
    SEEN.record(us, count);
}

/// Returns how many elements were late, by more than a tenth of a second.
pub fn late() -> u64 {
    SEEN.late.load(Ordering::Relaxed)
}

/// Returns the last and the greatest, in microseconds.
pub fn last_and_max_us() -> (u64, u64) {
    SEEN.last_and_max_us()
}

/// Returns what so many of a thousand were not later than, in microseconds. 0 if there were none.
pub fn percentile_us(per_mille: u64) -> u64 {
    SEEN.percentile(per_mille)
}

impl Seen {
    const fn new() -> Self {
        Self {
            last_us: AtomicU64::new(0),
            max_us: AtomicU64::new(0),
            late: AtomicU64::new(0),
            counts: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    #[inline]
    fn record(&self, us: u64, count: u64) {
        self.last_us.store(us, Ordering::Relaxed);
        if us > self.max_us.load(Ordering::Relaxed) {
            self.max_us.store(us, Ordering::Relaxed);
        }
        let add = |number: &AtomicU64| {
            number.store(number.load(Ordering::Relaxed) + count, Ordering::Relaxed);
        };
        if us > LATE_US {
            add(&self.late);
        }
        add(&self.counts[bucket(us)]);
    }

    fn last_and_max_us(&self) -> (u64, u64) {
        (self.last_us.load(Ordering::Relaxed), self.max_us.load(Ordering::Relaxed))
    }

    fn percentile(&self, per_mille: u64) -> u64 {
        let counts = || self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let wanted = (counts().sum::<u64>() * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (bucket, count) in counts().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                // A bucket's end may be beyond the greatest that is in it.
                return greatest(bucket).min(self.last_and_max_us().1);
            }
        }
        0
    }
}

/// Returns the bucket of a lateness: its power of two, and the three bits after the first.
fn bucket(us: u64) -> usize {
    let us = us.min((1 << OCTAVES) - 1);
    if us < u64::from(PARTS) {
        return us as usize;
    }
    let octave = us.ilog2() - PARTS.ilog2();
    ((octave * PARTS) as u64 + (us >> octave)) as usize
}

/// Returns the greatest that is counted in a bucket.
fn greatest(bucket: usize) -> u64 {
    let (bucket, parts) = (bucket as u64, u64::from(PARTS));
    if bucket < parts {
        return bucket;
    }
    let octave = bucket / parts - 1;
    (((bucket % parts) + parts + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_within_an_eighth() {
        for us in (0..100_000).chain([1 << 30, (1 << 39) + 5, u64::MAX]) {
            let told = greatest(bucket(us));
            let us = us.min((1 << OCTAVES) - 1);
            assert!(told >= us && told - us <= us / 8, "{us} is told as {told}");
        }
    }

    #[test]
    fn the_last_the_greatest_and_percentiles_are_told_of_what_was_noted() {
        let seen = Seen::new();
        let record = |us| seen.record(us, 1);
        let last_and_max_us = || seen.last_and_max_us();
        let percentile_us = |per_mille| seen.percentile(per_mille);
        assert_eq!((last_and_max_us(), percentile_us(500)), ((0, 0), 0));
        [3, 1000, 5].into_iter().for_each(record);
        assert_eq!(last_and_max_us(), (5, 1000));
        assert_eq!([0, 1, 333, 334, 666].map(percentile_us), [3, 3, 3, 5, 5]);
        assert_eq!([667, 1000].map(percentile_us), [1000, 1000], "no later than the greatest");
        record(0);
        assert_eq!((last_and_max_us(), percentile_us(250)), ((0, 1000), 0));
        record(u64::MAX);
        assert_eq!(last_and_max_us(), (u64::MAX, u64::MAX));
        assert_eq!(percentile_us(1000), (1 << OCTAVES) - 1, "no later than it can tell");
    }

    #[test]
    fn buckets_are_eighths_of_each_power_of_two_and_follow_each_other() {
        assert_eq!([0, 1, 7, 8, 15].map(bucket), [0, 1, 7, 8, 15]);
        assert_eq!([16, 17, 18, 31, 32, 35, 36].map(bucket), [16, 16, 17, 23, 24, 24, 25]);
        assert_eq!([0, 7, 8, 15, 16, 17, 23, 24].map(greatest), [0, 7, 8, 15, 17, 19, 31, 35]);
        let last = bucket(u64::MAX);
        assert!(last < (PARTS * OCTAVES) as usize, "bucket {last}");
        for number in 0..last {
            assert_eq!(bucket(greatest(number)), number);
            assert_eq!(bucket(greatest(number) + 1), number + 1, "behind bucket {number}");
        }
    }

    #[test]
    fn percentiles_are_those_of_what_was_noted() {
        let seen = Seen::new();
        assert_eq!(seen.percentile(500), 0);
        (1..=1000).for_each(|us| seen.record(us, 1));
        for (per_mille, exact) in [(1, 1), (500, 500), (990, 990), (1000, 1000)] {
            let told = seen.percentile(per_mille);
            assert!((exact..=exact + exact / 8).contains(&told), "{per_mille}: {told}");
        }
    }
}
