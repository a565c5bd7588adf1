//! The schedules of a queue, and their upcoming occurrences.

use axum::Json;
use redis::{Connection, RedisResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking;
use super::bytes::encode;
use super::elements::SHOWN;
use super::query::Words;
use super::queue::Queue;
use super::queues::facts_of;
use super::refusal::Refusal;
use super::session::Caller;
use crate::ask;
use crate::schedule::Schedule;

/// Upcoming occurrences of each.
const UPCOMING: usize = 5;

#[derive(Deserialize)]
pub struct Asked {
    /// Where the page begins; the first one without.
    start: Option<String>,
}

pub async fn schedules(
    caller: Caller,
    queue: Queue,
    Words(asked): Words<Asked>,
) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let (_, facts) = facts_of(&caller.account, &queue)?;
        let start = asked.start.as_deref().unwrap_or("-");
        let (now, (next, all)) = caller.account.on(&queue, |connection| {
            Ok((ask::time(connection)?, ask::schedules(connection, &queue.key.0, start)?))
        })?;
        let rows: Vec<_> = all.iter().map(|schedule| row(schedule, now)).collect();
        Ok(Json(json!({ "now": now, "rows": rows, "total": facts.schedules, "next": next })))
    })
    .await
}

fn row(it: &Schedule, now: u64) -> Value {
    json!({
        "name_b64": encode(&it.name),
        "when": it.when(),
        "zone": it.zone.as_deref().map(String::from_utf8_lossy),
        "next": it.next,
        "last": it.last,
        "late": it.late,
        "stored": it.stored,
        "missed": it.missed,
        "paused": it.is_paused,
        "ended": it.has_ended(),
        "element_b64": encode(&it.element[..it.element.len().min(SHOWN)]),
        "group_b64": it.group.as_deref().map(encode),
        "upcoming": it.upcoming(UPCOMING, now),
    })
}

/// Returns the command that stores an element as the schedule would, with the present moment in its id; `None` if there is no
/// such schedule, which stays as it is.
pub fn run_now(
    connection: &mut Connection,
    key: &[u8],
    name: &[u8],
) -> RedisResult<Option<redis::Cmd>> {
    let mut asked = redis::cmd("DEHYDRATOR.SCHEDULES");
    let found: Vec<redis::Value> = asked.arg(key).arg(name).query(connection)?;
    let Some(it) = found.first().and_then(Schedule::parse) else { return Ok(None) };
    let id = [name, b"@", ask::time(connection)?.to_string().as_bytes()].concat();
    let mut push = redis::cmd("DEHYDRATOR.PUSH");
    push.arg(key).arg(0).arg(it.element).arg(id);
    if it.deliveries > 0 {
        push.arg("DELIVERIES").arg(it.deliveries);
    }
    if let Some(within) = it.within {
        push.arg("WITHIN").arg(within);
    }
    if let Some(group) = it.group {
        push.arg("GROUP").arg(group);
    }
    Ok(Some(push))
}
