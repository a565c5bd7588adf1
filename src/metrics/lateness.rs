//! The lateness of elements that were given out or delivered: the last, the maximum, and percentiles, since the start and of the
//! last minute.
//!
//! Lateness counts from the earliest moment at which the element could have been given out. That is its deadline, or a later
//! event: the push of an element whose deadline had passed; the end of a pause; room within limits; an ONDUE for an overdue
//! element; the events in [`clock_steps`].

use super::clock_steps;
use super::counters::Counter;
use crate::clock;

/// Buckets per power of two: a percentile is exact to an eighth.
const PARTS: u32 = 8;
/// The largest lateness is 2^40 microseconds, about twelve days; more counts as this.
const OCTAVES: u32 = 40;

/// Elements with more lateness than this count as late, in microseconds: they waited for a consumer, not for a wakeup.
const LATE_US: u64 = 100_000;

const BUCKETS: usize = (PARTS * OCTAVES) as usize;

/// The interval at which counts are remembered, in microseconds of the monotonic clock. What is recent is counted from the older
/// of two such moments, thus for half a minute to a minute.
const RECENT_US: u64 = 30_000_000;

/// The lateness of elements.
pub struct Histogram {
    last_us: Counter,
    max_us: Counter,
    /// Elements later than [`LATE_US`].
    late: Counter,
    /// Elements per bucket.
    counts: [Counter; BUCKETS],
    /// The counts at the last moment but one at which they were remembered, and at the last.
    before: [[Counter; BUCKETS]; 2],
    /// That last moment, on the monotonic clock in microseconds.
    remembered_us: Counter,
}

/// The lateness of all elements that this server has given out or delivered.
pub static LATENESS: Histogram = Histogram::new();

/// The moment since which the next element of a key is overdue. An element may be pushed after its deadline.
#[derive(Clone, Copy, Debug)]
pub struct OverdueSince {
    /// The deadline of the next element, in milliseconds since the epoch, or [`NONE`].
    next: u64,
    /// When that element came, if it was due already, in microseconds since the epoch.
    since_us: u64,
    /// Elements with this deadline or a later one came before they were due. In milliseconds since the epoch, or [`NONE`].
    before: u64,
}

/// No element, or none that matters: later than every deadline. (An `Option` would take 16 bytes.)
const NONE: u64 = u64::MAX;

impl Default for OverdueSince {
    /// Counts elements as overdue since their deadlines.
    fn default() -> Self {
        Self { next: NONE, since_us: 0, before: NONE }
    }
}

impl OverdueSince {
    /// Counts due elements as overdue from now on, for a key that has just come with its elements.
    pub fn since_now() -> Self {
        Self { since_us: clock::now_us(), ..Self::default() }
    }

    /// Counts no element as overdue before `next`, in milliseconds since the epoch.
    pub fn from(next: Option<u64>) -> Self {
        Self { next: next.unwrap_or(NONE), ..Self::default() }
    }

    /// Counts elements due before `before` as overdue since `moment`, and the others since their deadlines. In milliseconds
    /// since the epoch.
    pub fn since(moment: u64, before: u64) -> Self {
        Self { since_us: moment.saturating_mul(1000), before, next: NONE }
    }

    /// Records the deadline of the next element. Reads the clock, in microseconds since the epoch, only if needed.
    pub fn note(&mut self, next: Option<u64>, clock_us: impl FnOnce() -> u64) {
        // A later deadline than before belongs to an element that was already there, after one that was taken.
        let before = std::mem::replace(&mut self.next, next.unwrap_or(NONE));
        if let Some(next) = next
            && next < before
        {
            let now_us = clock_us();
            if next <= now_us / 1000 {
                self.since_us = now_us;
            }
        }
    }

    /// Returns the lateness of an element with this deadline, in microseconds.
    pub fn late_us(&self, deadline: u64, now_us: u64) -> u64 {
        // For an element that limits hold back, `next` is later than its deadline.
        let next = if self.next == NONE { 0 } else { self.next };
        let deadline_us = deadline.max(next).saturating_mul(1000);
        let since_us =
            if deadline >= self.before { deadline_us } else { deadline_us.max(self.since_us) };
        clock_steps::late_us(since_us, now_us)
    }
}

/// Records the lateness of elements that are given out together, in order. Consecutive elements with the same deadline have the
/// same lateness.
pub struct LatenessBatch {
    /// If `None`, elements are overdue since their deadlines.
    overdue: Option<OverdueSince>,
    now_us: u64,
    deadline: u64,
    count: u64,
}

impl LatenessBatch {
    /// Begins a batch of a key's elements that are given out at `now`, in milliseconds since the epoch.
    #[inline(always)]
    pub fn begin(overdue: Option<OverdueSince>, now: u64) -> Self {
        Self { overdue, now_us: now.saturating_mul(1000), deadline: 0, count: 0 }
    }

    /// Adds the next element, by its deadline.
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
                Some(overdue) => overdue.late_us(self.deadline, self.now_us),
                None => clock_steps::late_us(self.deadline.saturating_mul(1000), self.now_us),
            };
            LATENESS.record(us, count);
        }
    }
}

impl Drop for LatenessBatch {
    fn drop(&mut self) {
        self.record();
    }
}

impl Histogram {
    const fn new() -> Self {
        Self {
            last_us: Counter::new(),
            max_us: Counter::new(),
            late: Counter::new(),
            counts: [const { Counter::new() }; BUCKETS],
            before: [const { [const { Counter::new() }; BUCKETS] }; 2],
            remembered_us: Counter::new(),
        }
    }

    /// Clears all records, for CONFIG RESETSTAT.
    pub fn reset(&self) {
        let Self { last_us, max_us, late, counts, before, remembered_us: _ } = self;
        let all = [last_us, max_us, late].into_iter().chain(counts).chain(before.as_flattened());
        all.for_each(|number| number.set(0));
    }

    /// Remembers the counts from time to time, for [`Self::recent_us`]. For each tick, at a moment of the monotonic clock.
    pub fn tick(&self, now_us: u64) {
        if now_us - self.remembered_us.get() >= RECENT_US {
            self.remembered_us.set(now_us);
            for (bucket, count) in self.counts.iter().enumerate() {
                self.before[0][bucket].set(self.before[1][bucket].get());
                self.before[1][bucket].set(count.get());
            }
        }
    }

    /// Records `count` elements of the same lateness, in microseconds.
    #[inline]
    pub fn record(&self, us: u64, count: u64) {
        self.last_us.set(us);
        self.max_us.set(self.max_us.get().max(us));
        if us > LATE_US {
            self.late.add(count);
        }
        self.counts[bucket(us)].add(count);
    }

    /// Returns the number of elements later than [`LATE_US`].
    pub fn late(&self) -> u64 {
        self.late.get()
    }

    /// Returns the last and the maximum lateness, in microseconds.
    pub fn last_and_max_us(&self) -> (u64, u64) {
        (self.last_us.get(), self.max_us.get())
    }

    /// Returns a percentile in microseconds, by thousandths. 0 without elements.
    pub fn percentile_us(&self, per_mille: u64) -> u64 {
        self.percentile(per_mille, |_, count| count)
    }

    /// Returns a percentile of the last half minute to minute, in microseconds, by thousandths. 0 without elements.
    pub fn recent_us(&self, per_mille: u64) -> u64 {
        let before = self.before[0].each_ref().map(Counter::get);
        self.percentile(per_mille, |bucket, count| count - before[bucket])
    }

    /// Returns a percentile of the elements that `part` counts, of each bucket and its count.
    fn percentile(&self, per_mille: u64, part: impl Fn(usize, u64) -> u64) -> u64 {
        let counts =
            || self.counts.iter().enumerate().map(|(bucket, count)| part(bucket, count.get()));
        let wanted = (counts().sum::<u64>() * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (bucket, count) in counts().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                // A bucket's end may be above the largest value in it.
                return greatest(bucket).min(self.last_and_max_us().1);
            }
        }
        0
    }
}

/// Returns the bucket of a lateness: its power of two, and the three bits after the leading one.
fn bucket(us: u64) -> usize {
    let us = us.min((1 << OCTAVES) - 1);
    if us < u64::from(PARTS) {
        return us as usize;
    }
    let octave = us.ilog2() - PARTS.ilog2();
    ((octave * PARTS) as u64 + (us >> octave)) as usize
}

/// Returns the largest value of a bucket.
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
    fn a_bucket_is_exact_to_an_eighth() {
        for us in (0..100_000).chain([1 << 30, (1 << 39) + 5, u64::MAX]) {
            let told = greatest(bucket(us));
            let us = us.min((1 << OCTAVES) - 1);
            assert!(told >= us && told - us <= us / 8, "{us} is told as {told}");
        }
    }

    #[test]
    fn last_maximum_and_percentiles_follow_the_records() {
        let seen = Histogram::new();
        let record = |us| seen.record(us, 1);
        let last_and_max_us = || seen.last_and_max_us();
        let percentile_us = |per_mille| seen.percentile_us(per_mille);
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
    fn what_is_recent_is_half_a_minute_to_a_minute_old() {
        let seen = Histogram::new();
        let mut now_us = 5_000_000_000;
        let mut pass = |seconds: u64| {
            for _ in 0..seconds * 10 {
                now_us += 100_000;
                seen.tick(now_us);
            }
        };
        pass(1);
        seen.record(15, 9);
        assert_eq!((seen.recent_us(500), seen.recent_us(1000)), (15, 15));
        pass(30);
        seen.record(7, 1);
        assert_eq!((seen.recent_us(500), seen.recent_us(100)), (15, 7));
        pass(30);
        assert_eq!([1, 500, 1000].map(|it| seen.recent_us(it)), [7; 3]);
        pass(30);
        assert_eq!((seen.recent_us(1000), seen.percentile_us(1000)), (0, 15));
        seen.record(3, 1);
        seen.reset();
        assert_eq!(seen.recent_us(1000), 0);
        seen.record(6, 2);
        assert_eq!(seen.recent_us(1000), 6);
    }
}
