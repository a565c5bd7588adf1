//! An id, looked for in all queues.

use std::time::{Duration, Instant};

use axum::Json;
use redis::RedisResult;
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking;
use super::bytes::{Bytes, encode};
use super::query::Words;
use super::refusal::Refusal;
use super::session::Caller;

/// Queues in one pipeline.
const STEP: usize = 50;
/// The time for one request.
const PATIENCE: Duration = Duration::from_secs(2);
/// Queues in one answer, at most.
const SHOWN: usize = 100;

#[derive(Deserialize)]
pub struct Asked {
    id: Bytes,
}

/// Answers with the queues that have an element of this id, and whether all were asked.
pub async fn find(
    caller: Caller,
    Words(Asked { id }): Words<Asked>,
) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let begun = Instant::now();
        let (mut rows, mut is_complete) = (Vec::new(), true);
        for node in caller.account.sources() {
            let databases: Vec<(u64, Vec<Vec<u8>>)> = {
                let state = node.state();
                is_complete &= state.databases.values().all(|it| it.dehydrators.walks > 0);
                let keys = state.databases.iter();
                keys.map(|(db, it)| (*db, it.dehydrators.all.keys().cloned().collect())).collect()
            };
            for (db, keys) in databases {
                for keys in keys.chunks(STEP) {
                    if begun.elapsed() > PATIENCE || rows.len() >= SHOWN {
                        is_complete = false;
                        break;
                    }
                    // Other nodes may answer.
                    let Ok(found) = node.with(db, |connection| having(connection, keys, &id.0))
                    else {
                        is_complete = false;
                        break;
                    };
                    rows.extend(found.into_iter().map(
                        |key| json!({ "node": node.name, "db": db, "key_b64": encode(&key) }),
                    ));
                }
            }
        }
        Ok(Json(json!({ "rows": rows, "complete": is_complete })))
    })
    .await
}

/// Returns which keys have the id. Leaves out those that the user may not read.
fn having(
    connection: &mut redis::Connection,
    keys: &[Vec<u8>],
    id: &[u8],
) -> RedisResult<Vec<Vec<u8>>> {
    let mut asked = redis::pipe();
    for key in keys {
        asked.cmd("DEHYDRATOR.PTTL").arg(key).arg(id);
    }
    let times: Vec<redis::Value> = asked.ignore_errors().query(connection)?;
    let is_there = |time: &redis::Value| matches!(time, redis::Value::Int(ms) if *ms != -2);
    let found = keys.iter().zip(&times).filter(|(_, time)| is_there(time));
    Ok(found.map(|(key, _)| key.clone()).collect())
}
