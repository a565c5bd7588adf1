//! How many elements come due when: counted by a walk with RANGE, in the background, for a fraction of the server's time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::{Account, Queue};
use super::blocking;
use super::bytes::Bytes;
use super::elements::{STEP, Steps, time};
use super::queues::facts_of;
use super::refusal::Refusal;
use super::session::Caller;

/// A finished count is shown for as long, and then made again.
const FRESH: Duration = Duration::from_secs(30);
/// A count for which nobody has asked for this long is given up.
const ABANDONED: Duration = Duration::from_secs(20);
/// Buckets that are kept. Beyond, they are joined.
const KEPT: usize = 4_096;
/// Buckets of an answer.
const SHOWN: u64 = 120;
/// Widths of the buckets of an answer, in seconds; beyond, whole days. Counts are kept in buckets that fit into them.
const WIDTHS: [u64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
/// After each step, the walk rests for as many times the time that the step took.
const REST: u32 = 2;

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
    fn shown(&self, start: u64, end: u64) -> Vec<(u64, u64, u64)> {
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

    fn ends(&self) -> Option<(u64, u64)> {
        let (first, _) = self.buckets.first_key_value()?;
        let (last, _) = self.buckets.last_key_value()?;
        Some((first * self.width, (last + 1) * self.width))
    }
}

#[derive(Default)]
struct Timeline {
    /// The last complete count.
    complete: Option<(Instant, Counts)>,
    /// The present one, and up to where it has come.
    present: Counts,
    until: u64,
    is_counting: bool,
    asked: Option<Instant>,
    error: Option<Refusal>,
}

#[derive(Default)]
pub struct Timelines(Mutex<HashMap<Queue, Arc<Mutex<Timeline>>>>);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Timelines {
    fn of(&self, queue: &Queue) -> Arc<Mutex<Timeline>> {
        let mut all = locked(&self.0);
        all.retain(|_, timeline| {
            let timeline = locked(timeline);
            timeline.is_counting || timeline.asked.is_some_and(|asked| asked.elapsed() < 10 * FRESH)
        });
        Arc::clone(all.entry(queue.clone()).or_default())
    }
}

#[derive(Deserialize)]
pub struct Asked {
    node: String,
    #[serde(default)]
    db: u64,
    key: Bytes,
    start: Option<u64>,
    end: Option<u64>,
}

pub async fn timeline(
    caller: Caller,
    query: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(asked) = query?;
    blocking(move || {
        let queue = Queue { node: asked.node, db: asked.db, key: asked.key };
        let account = &caller.account;
        let now = account.on(&queue, time)?;
        let timeline = account.timelines.of(&queue);
        let mut own = locked(&timeline);
        own.asked = Some(Instant::now());
        if let Some(error) = own.error.take() {
            return Err(error);
        }
        let is_fresh = own.complete.as_ref().is_some_and(|(since, _)| since.elapsed() < FRESH);
        if !is_fresh && !own.is_counting {
            own.is_counting = true;
            let (account, timeline) = (Arc::clone(account), Arc::clone(&timeline));
            thread::spawn(move || {
                let result = count(&account, &queue, &timeline);
                let mut own = locked(&timeline);
                own.is_counting = false;
                own.error = result.err();
            });
        }
        // A small queue is counted at once.
        let begun = Instant::now();
        while own.complete.is_none()
            && own.is_counting
            && begun.elapsed() < Duration::from_millis(100)
        {
            drop(own);
            thread::sleep(Duration::from_millis(3));
            own = locked(&timeline);
        }
        let (counts, is_complete) = match &own.complete {
            Some((_, counts)) => (counts, true),
            None => (&own.present, false),
        };
        let ends = counts.ends().unwrap_or((now, now));
        let start = asked.start.unwrap_or(ends.0);
        let end = asked.end.unwrap_or(ends.1).max(start);
        let buckets = counts.shown(start, end).into_iter();
        let buckets: Vec<_> = buckets
            .map(|(from, to, count)| json!({ "from": from, "to": to, "count": count }))
            .collect();
        Ok(Json(json!({
            "now": now,
            "buckets": buckets,
            "complete": is_complete,
            "until": if is_complete { end } else { own.until },
        })))
    })
    .await
}

/// Counts all elements of a queue. Gives up when nobody has asked for a while.
fn count(account: &Account, queue: &Queue, timeline: &Mutex<Timeline>) -> Result<(), Refusal> {
    let (_, facts) = facts_of(account, queue)?;
    let mut steps = Steps::new(&queue.key.0, "-".into(), "+".into(), false, &facts);
    locked(timeline).present = Counts::default();
    while steps.start.is_some() {
        let begun = Instant::now();
        let rows = account.on(queue, |connection| steps.step(connection, STEP))?;
        let took = begun.elapsed();
        let mut own = locked(timeline);
        if own.asked.is_none_or(|asked| asked.elapsed() > ABANDONED) {
            return Ok(());
        }
        if let Some(row) = rows.last() {
            own.until = row.deadline;
        }
        // Stuck dead letters have no deadline.
        for row in rows.iter().filter(|row| row.deadline < i64::MAX as u64) {
            own.present.add(row.deadline);
        }
        drop(own);
        thread::sleep(took * REST);
    }
    let mut own = locked(timeline);
    own.complete = Some((Instant::now(), std::mem::take(&mut own.present)));
    Ok(())
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
