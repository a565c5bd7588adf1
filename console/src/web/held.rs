//! Who holds what, in all queues.

use std::time::{Duration, Instant};

use axum::Json;
use redis::{Connection, RedisResult};
use serde_json::{Value, json};

use super::blocking;
use super::bytes::encode;
use super::elements::{Filter, Row, STEP, Steps, View, row_json};
use super::refusal::Refusal;
use super::session::Caller;
use crate::ask;
use crate::facts::Facts;

/// The time for one request, of which the page sends one every three seconds, and for one queue of it: held elements stand among
/// those that wait.
const PATIENCE: Duration = Duration::from_millis(400);
const OF_QUEUE: Duration = Duration::from_millis(150);
/// Elements in one answer, at most.
const SHOWN: usize = 500;

/// Answers with the elements that are held, those held the longest first, and whether that is all of them.
pub async fn held(caller: Caller) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let begun = Instant::now();
        let (mut found, mut now, mut is_complete) = (Vec::new(), None, true);
        for node in caller.account.sources() {
            let mut queues: Vec<(u64, Vec<u8>, Facts)> = {
                let state = node.state();
                is_complete &= state.trouble.is_none();
                is_complete &= state.databases.values().all(|it| it.dehydrators.walks > 0);
                let databases = state.databases.iter();
                let all = databases.flat_map(|(db, it)| {
                    it.dehydrators.all.iter().map(|(key, it)| (*db, key.clone(), it.facts.clone()))
                });
                all.filter(|(.., facts)| facts.leased > 0).collect()
            };
            // The small ones are soon read.
            queues.sort_by_key(|(.., facts)| facts.length);
            for (db, key, facts) in queues {
                if begun.elapsed() > PATIENCE || found.len() >= SHOWN {
                    is_complete = false;
                    break;
                }
                // Other queues may be readable.
                let Ok((time, (rows, is_all))) = node.with(db, |connection| {
                    Ok((ask::time(connection)?, held_in(connection, &key, &facts)?))
                }) else {
                    is_complete = false;
                    continue;
                };
                now = Some(time);
                is_complete &= is_all;
                let queue = json!({ "node": node.name, "db": db, "key_b64": encode(&key) });
                found.extend(rows.into_iter().map(|row| (row, queue.clone())));
            }
        }
        found.sort_by_key(|(row, _)| row.held_since);
        let rows: Vec<_> = found
            .iter()
            .map(|(row, queue)| {
                let mut json = row_json(row);
                json["queue"] = queue.clone();
                json
            })
            .collect();
        Ok(Json(json!({ "now": now, "rows": rows, "complete": is_complete })))
    })
    .await
}

/// Returns the held elements of a queue, without what they say, and whether that is all of them.
fn held_in(
    connection: &mut Connection,
    key: &[u8],
    facts: &Facts,
) -> RedisResult<(Vec<Row>, bool)> {
    let begun = Instant::now();
    let any = Filter::default();
    let mut steps = Steps::new(key, "-".into(), "+".into(), &any, facts);
    let mut rows = Vec::new();
    while steps.start.is_some() && (rows.len() as u64) < facts.leased {
        if begun.elapsed() > OF_QUEUE || rows.len() >= SHOWN {
            return Ok((rows, false));
        }
        let stepped = steps.step(connection, STEP)?;
        rows.extend(stepped.into_iter().filter(|row| any.takes(View::Held, row)));
    }
    Ok((rows, true))
}
