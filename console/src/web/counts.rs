//! How many elements come due when, as far as it was counted: the state of each timeline.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::queue::Queue;
use super::refusal::Refusal;

/// A finished count is shown for as long, and then made again.
pub const FRESH: Duration = Duration::from_secs(30);
/// Buckets that are kept. Beyond, they are joined.
const KEPT: usize = 4_096;
/// Buckets of an answer.
const SHOWN: u64 = 120;
/// Widths of the buckets of an answer, in seconds; beyond, whole days. Counts are kept in buckets that fit into them.
const WIDTHS: [u64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];

/// Counts by moments, in buckets that are joined when there are too many.
#[derive(Clone, Debug)]
pub struct Counts {
    /// In milliseconds.
    width: u64,
    /// Counts by the number of the bucket.
    buckets: BTreeMap<u64, u64>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { width: 1_000, buckets: BTreeMap::new() }
    }
}

impl Counts {
    pub fn add(&mut self, moment: u64) {
        *self.buckets.entry(moment / self.width).or_default() += 1;
        while self.buckets.len() > KEPT {
            // Minutes, hours and days, so that wider buckets begin where these do.
            let factor = match self.width {
                1_000 | 60_000 => 60,
                3_600_000 => 24,
                _ => 2,
            };
            self.width *= factor;
            let mut joined = BTreeMap::new();
            for (bucket, count) in &self.buckets {
                *joined.entry(bucket / factor).or_default() += count;
            }
            self.buckets = joined;
        }
    }

    /// Returns non-empty buckets of a range: from, to, count.
    pub fn shown(&self, start: u64, end: u64) -> Vec<(u64, u64, u64)> {
        let span = (end - start).div_ceil(SHOWN).max(self.width);
        let round = WIDTHS.iter().map(|seconds| seconds * 1_000).find(|width| *width >= span);
        let days = self.width.max(86_400_000);
        let width = round.unwrap_or(span.div_ceil(days) * days);
        let mut shown: Vec<(u64, u64, u64)> = Vec::new();
        for (bucket, count) in self.buckets.range(start / self.width..=end / self.width) {
            let from = bucket * self.width / width * width;
            match shown.last_mut() {
                Some(last) if last.0 == from => last.2 += count,
                _ => shown.push((from, from + width, *count)),
            }
        }
        shown
    }

    pub fn ends(&self) -> Option<(u64, u64)> {
        let (first, _) = self.buckets.first_key_value()?;
        let (last, _) = self.buckets.last_key_value()?;
        Some((first * self.width, (last + 1) * self.width))
    }
}

#[derive(Default)]
pub struct Timeline {
    /// The last complete count.
    pub complete: Option<(Instant, Counts)>,
    /// The present one, and up to where it has come.
    pub present: Counts,
    pub until: u64,
    pub is_counting: bool,
    pub asked: Option<Instant>,
    pub error: Option<Refusal>,
}

#[derive(Default)]
pub struct Timelines(Mutex<HashMap<Queue, Arc<Mutex<Timeline>>>>);

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Timelines {
    /// Returns the timeline of a queue. Forgets those that nobody has asked for lately.
    pub fn of(&self, queue: &Queue) -> Arc<Mutex<Timeline>> {
        let mut all = locked(&self.0);
        all.retain(|_, timeline| {
            let timeline = locked(timeline);
            timeline.is_counting || timeline.asked.is_some_and(|asked| asked.elapsed() < 10 * FRESH)
        });
        Arc::clone(all.entry(queue.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_bounded_and_lose_nothing() {
        let mut counts = Counts::default();
        for moment in 0..100_000_u64 {
            counts.add(moment * 7_919);
        }
        assert!(counts.buckets.len() <= KEPT, "{}", counts.buckets.len());
        let (start, end) = counts.ends().expect("ends");
        let shown = counts.shown(start, end);
        assert!(shown.len() as u64 <= SHOWN + 1, "{}", shown.len());
        assert_eq!(shown.iter().map(|(_, _, count)| count).sum::<u64>(), 100_000);
        assert!(shown.iter().all(|(from, to, _)| to - from == 7_200_000 && from % 7_200_000 == 0));
        assert!(shown.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
