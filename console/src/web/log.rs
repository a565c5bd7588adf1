//! The record of changes: a stream, which the page writes before each change, and shows.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::Account;
use super::bytes::{Bytes, encode};
use super::query::Words;
use super::queue::Queue;
use super::refusal::Refusal;
use super::session::Caller;
use super::{Page, blocking};

/// About as many changes are kept.
const KEPT: usize = 10_000;
const PAGE: usize = 50;

/// A change, as the log records it.
pub struct Entry<'a> {
    pub who: &'a str,
    pub action: &'a str,
    pub queue: &'a Queue,
    /// How many elements it is about, as far as this is known.
    pub count: u64,
    /// What it is about, see `act`; null for the queue.
    pub on: &'a Value,
    /// Further words: of the request, or how it ended.
    pub args: String,
}

/// Returns where the log is: in the first database, whatever the queue's.
pub fn place(log: &[u8], node: &str) -> Queue {
    Queue { node: node.to_owned(), db: 0, key: Bytes(log.to_vec()) }
}

/// Records a change. Does nothing if there is no log.
pub fn record(page: &Page, account: &Account, entry: &Entry<'_>) -> Result<(), Refusal> {
    let Some(log) = &page.log else { return Ok(()) };
    let at = place(log, &entry.queue.node);
    account.on(&at, |connection| {
        let mut add = redis::cmd("XADD");
        add.arg(log).arg("MAXLEN").arg("~").arg(KEPT).arg("*");
        add.arg("who").arg(entry.who).arg("user").arg(&account.user);
        add.arg("action").arg(entry.action);
        add.arg("db").arg(entry.queue.db).arg("key").arg(&entry.queue.key.0);
        add.arg("count").arg(entry.count).arg("args").arg(&entry.args);
        if !entry.on.is_null() {
            add.arg("on").arg(entry.on.to_string());
        }
        add.exec(connection)
    })
}

/// An entry of a stream.
type Stored = (String, Vec<(String, Vec<u8>)>);

#[derive(Deserialize)]
pub struct Asked {
    node: String,
    before: Option<String>,
}

pub async fn log(
    State(page): State<Arc<Page>>,
    caller: Caller,
    Words(asked): Words<Asked>,
) -> Result<Json<Value>, Refusal> {
    let Some(log) = page.log.clone() else {
        return Ok(Json(json!({ "rows": [], "next": null, "off": true })));
    };
    blocking(move || {
        let at = place(&log, &asked.node);
        let end = asked.before.map_or("+".to_owned(), |before| format!("({before}"));
        let entries: Vec<Stored> = caller.account.on(&at, |connection| {
            let mut range = redis::cmd("XREVRANGE");
            range.arg(&at.key.0).arg(&end).arg("-").arg("COUNT").arg(PAGE).query(connection)
        })?;
        let rows: Vec<_> = entries.iter().map(|(id, fields)| {
            let field = |name: &str| fields.iter().find(|(it, _)| it == name);
            let bytes = |name: &str| field(name).map(|(_, value)| value.as_slice()).unwrap_or_default();
            let text = |name: &str| String::from_utf8_lossy(bytes(name)).into_owned();
            let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
            let moment = id.split_once('-').and_then(|(ms, _)| ms.parse::<u64>().ok());
            json!({
                "entry": id,
                "moment": moment,
                "who": text("who"),
                "user": text("user"),
                "action": text("action"),
                "queue": { "node": at.node, "db": number("db"), "key_b64": encode(bytes("key")) },
                "count": number("count"),
                "on": serde_json::from_slice(bytes("on")).unwrap_or(Value::Null),
                "args": text("args"),
            })
        }).collect();
        let next = (entries.len() == PAGE).then(|| entries.last().map(|(id, _)| id.clone()));
        Ok(Json(json!({ "rows": rows, "next": next.flatten() })))
    })
    .await
}
