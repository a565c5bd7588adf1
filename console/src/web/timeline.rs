//! How many elements come due when: counted by a walk with RANGE, in the background, for a fraction of the server's time.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use axum::Json;
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::Account;
use super::blocking;
use super::counts::{Counts, FRESH, Timeline, locked};
use super::elements::{Filter, STEP, Steps};
use super::query::Words;
use super::queue::Queue;
use super::queues::facts_of;
use super::refusal::Refusal;
use super::session::Caller;
use crate::ask;

/// A count for which nobody has asked for this long is given up.
const ABANDONED: Duration = Duration::from_secs(20);
/// After each step, the walk rests for as many times the time that the step took.
const REST: u32 = 2;

#[derive(Deserialize)]
pub struct Asked {
    start: Option<u64>,
    end: Option<u64>,
}

pub async fn timeline(
    caller: Caller,
    queue: Queue,
    Words(asked): Words<Asked>,
) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let account = &caller.account;
        let now = account.on(&queue, ask::time)?;
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
    let all = Filter::default();
    let mut steps = Steps::new(&queue.key.0, "-".into(), "+".into(), &all, &facts);
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
