//! The elements of a queue in order, page by page: by RANGE in small steps, and LOOK.

use std::time::{Duration, Instant};

use axum::Json;
use redis::{Connection, RedisResult, Value as Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking;
use super::bytes::{Bytes, Needle, encode};
use super::query::Words;
use super::queue::Queue;
use super::queues::facts_of;
use super::refusal::Refusal;
use super::session::Caller;
use crate::ask;
use crate::facts::{Facts, REPLY, ROWS};
use crate::fields::{Fields, bytes, number};

/// Rows of one RANGE without elements.
pub const STEP: usize = 200;
/// The time for one request with a filter, which then tells where to continue.
const PATIENCE: Duration = Duration::from_millis(150);
/// Bytes of an element that a list shows.
pub const SHOWN: usize = 64 << 10;
/// Rows of one page, at most.
const PAGE: usize = 500;

/// Which elements: all in order, those that are held, or those that are due.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    #[default]
    Next,
    Held,
    Due,
}

/// A row of RANGE.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub id: Vec<u8>,
    pub deadline: u64,
    pub ttl: u64,
    pub deliveries: u64,
    pub is_leased: bool,
    pub token: Option<Vec<u8>>,
    /// When it was given to the one that holds it, in unix milliseconds.
    pub held_since: Option<u64>,
    pub element: Option<Vec<u8>>,
    /// The name of its group, if it has one. RANGE does not show it.
    pub group: Option<Vec<u8>>,
    /// Why it was given back the last time, if that was said. RANGE does not show it.
    pub reason: Option<Vec<u8>>,
}

/// Filters of elements.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub id: Option<Needle>,
    pub text: Option<Needle>,
    /// The name of a group, exactly.
    pub group: Option<Bytes>,
}

impl Filter {
    pub fn new(id: &str, text: &str, group: Option<Bytes>) -> Self {
        Self { id: Needle::new(id), text: Needle::new(text), group }
    }

    pub fn is_any(&self) -> bool {
        self.id.is_some() || self.text.is_some() || self.group.is_some()
    }

    pub fn finds_id(&self, id: &[u8]) -> bool {
        self.id.as_ref().is_none_or(|needle| needle.is_in(id))
    }

    pub fn finds_text(&self, text: &[u8]) -> bool {
        self.text.as_ref().is_none_or(|needle| needle.is_in(text))
    }

    /// Returns whether it takes a row of its group.
    pub fn takes(&self, view: View, row: &Row) -> bool {
        (view != View::Held || row.token.is_some())
            && (view != View::Due || row.token.is_none() || !row.is_leased)
            && self.finds_id(&row.id)
            && self.finds_text(row.element.as_deref().unwrap_or_default())
    }
}

/// Walks over the elements of a queue with small RANGEs.
pub struct Steps<'a> {
    key: &'a [u8],
    /// Where the next RANGE starts; `None` at the end.
    pub start: Option<String>,
    end: String,
    group: Option<&'a Bytes>,
    with_elements: bool,
    count: usize,
}

impl<'a> Steps<'a> {
    /// Begins a walk over the group of the filter, or over all. `facts`: of the queue, which tell how large its elements are.
    pub fn new(
        key: &'a [u8],
        start: String,
        end: String,
        filter: &'a Filter,
        facts: &Facts,
    ) -> Self {
        let with_elements = filter.text.is_some();
        let group = filter.group.as_ref();
        let count = if with_elements { facts.rows_of_reply() } else { STEP };
        Self { key, start: Some(start), end, group, with_elements, count }
    }

    /// Returns the next rows, at most `most`.
    pub fn step(&mut self, connection: &mut Connection, most: usize) -> RedisResult<Vec<Row>> {
        let Some(start) = self.start.take() else { return Ok(Vec::new()) };
        let mut range = redis::cmd("DEHYDRATOR.RANGE");
        range.arg(self.key).arg(&start).arg(&self.end).arg("COUNT").arg(self.count.min(most));
        range.arg("WITHTOKENS");
        if self.with_elements {
            range.arg("WITHELEMENTS");
        }
        if let Some(group) = self.group {
            range.arg("GROUP").arg(&group.0);
        }
        let (next, rows): (Option<String>, Vec<Vec<Reply>>) = range.query(connection)?;
        let rows: Vec<Row> = rows.iter().filter_map(|row| read(row, self.with_elements)).collect();
        self.start = next;
        if self.with_elements {
            // Elements differ in size.
            let bytes: usize =
                rows.iter().filter_map(|row| Some(row.element.as_ref()?.len())).sum();
            let is_large = bytes as u64 > REPLY;
            self.count = if is_large { self.count / 2 } else { self.count + self.count / 4 + 1 };
            self.count = self.count.clamp(1, ROWS);
        }
        Ok(rows)
    }
}

/// Reads a row of RANGE: id, deadline, ttl, deliveries, leased, the element if it was asked for, the token, and since
/// when that holds.
fn read(row: &[Reply], with_element: bool) -> Option<Row> {
    let number = |at: usize| number(row.get(at)?);
    let text = |at: usize| bytes(row.get(at)?);
    Some(Row {
        id: text(0)?,
        deadline: number(1)?,
        ttl: number(2)?,
        deliveries: number(3)?,
        is_leased: number(4)? == 1,
        element: if with_element { text(5) } else { None },
        token: text(if with_element { 6 } else { 5 }),
        held_since: number(if with_element { 7 } else { 6 }),
        group: None,
        reason: None,
    })
}

/// Adds the elements to rows without them. Those that have gone meanwhile are left out.
fn look(
    connection: &mut Connection,
    key: &[u8],
    rows: Vec<Row>,
    facts: &Facts,
) -> RedisResult<Vec<Row>> {
    let fitting = facts.rows_of_reply().min(20);
    let mut found = Vec::with_capacity(rows.len());
    for rows in rows.chunks(fitting) {
        let mut asked = redis::pipe();
        for row in rows {
            asked.cmd("DEHYDRATOR.LOOK").arg(key).arg(&row.id);
        }
        let elements: Vec<Option<Vec<u8>>> = asked.query(connection)?;
        let rows = rows.iter().cloned().zip(elements);
        found
            .extend(rows.filter_map(|(row, element)| Some(Row { element: Some(element?), ..row })));
    }
    Ok(found)
}

#[derive(Deserialize)]
pub struct Asked {
    #[serde(default)]
    view: View,
    #[serde(default)]
    start: String,
    count: Option<usize>,
    #[serde(default)]
    id: String,
    #[serde(default)]
    text: String,
    group: Option<Bytes>,
}

pub async fn elements(
    caller: Caller,
    queue: Queue,
    Words(asked): Words<Asked>,
) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let (_, facts) = facts_of(&caller.account, &queue)?;
        caller
            .account
            .on(&queue, |connection| page(connection, &queue.key.0, &asked, &facts))
            .map(Json)
    })
    .await
}

/// Returns a page. Where it continues is where RANGE does; among held elements, preceded by how many were found.
fn page(
    connection: &mut Connection,
    key: &[u8],
    asked: &Asked,
    facts: &Facts,
) -> RedisResult<Value> {
    let begun = Instant::now();
    let count = asked.count.unwrap_or(50).clamp(1, PAGE);
    let filter = Filter::new(&asked.id, &asked.text, asked.group.clone());
    let now = ask::time(connection)?;
    let (found_before, start) =
        match asked.start.strip_prefix('h').and_then(|it| it.split_once('.')) {
            Some((found, start)) => (found.parse().unwrap_or(0), start),
            None => (0, asked.start.as_str()),
        };
    let start = match start {
        "" => "-".to_owned(),
        start => start.trim_start_matches('~').to_owned(),
    };
    let end = if asked.view == View::Due { now.to_string() } else { "+".to_owned() };
    let is_filtered = filter.is_any() || asked.view == View::Held;
    let mut steps = Steps::new(key, start, end, &filter, facts);
    let (mut rows, mut scanned, mut at) = (Vec::new(), 0, None);
    while steps.start.is_some() && rows.len() < count {
        let missing = count - rows.len();
        // A step that finds more than there is room for could not tell where to continue.
        let most = if is_filtered { missing.max(STEP / 4) } else { missing };
        let stepped = steps.step(connection, most)?;
        scanned += stepped.len();
        at = stepped.last().map(|row| row.deadline).or(at);
        rows.extend(stepped.into_iter().filter(|row| filter.takes(asked.view, row)));
        let has_all_held = asked.view == View::Held
            && !filter.is_any()
            && (found_before + rows.len()) as u64 >= facts.leased;
        if has_all_held {
            steps.start = None;
        }
        if is_filtered && begun.elapsed() > PATIENCE {
            break;
        }
    }
    let next = steps.start.map(|start| match asked.view {
        View::Held => format!("h{}.{start}", found_before + rows.len()),
        _ => start,
    });
    if filter.text.is_none() {
        rows = look(connection, key, rows, facts)?;
    }
    let rows: Vec<_> = rows.iter().map(row_json).collect();
    Ok(json!({
        "now": now, "rows": rows, "next": next, "scanned": scanned, "shown": rows.len(), "at": at,
    }))
}

/// Returns a row as the page gets it.
pub fn row_json(row: &Row) -> Value {
    let element = row.element.as_deref().unwrap_or_default();
    json!({
        "id_b64": encode(&row.id),
        "deadline": row.deadline,
        "ttl": row.ttl,
        "deliveries": row.deliveries,
        "leased": row.is_leased,
        "token_b64": row.token.as_deref().map(encode),
        "held_since": row.held_since,
        "element_b64": encode(&element[..element.len().min(SHOWN)]),
        "element_bytes": element.len(),
    })
}

#[derive(Deserialize)]
pub struct One {
    id: Bytes,
}

pub async fn element(
    caller: Caller,
    queue: Queue,
    Words(asked): Words<One>,
) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let (now, row) = caller.account.on(&queue, |connection| {
            Ok((ask::time(connection)?, look_full(connection, &queue.key.0, &asked.id.0)?))
        })?;
        let row = row.ok_or_else(|| Refusal::missing("The queue has no element of this id."))?;
        let element = row.element.as_deref().unwrap_or_default();
        let mut json = row_json(&row);
        json["element_b64"] = json!(encode(element));
        json["group_b64"] = json!(row.group.as_deref().map(encode));
        json["reason_b64"] = json!(row.reason.as_deref().map(encode));
        json["now"] = json!(now);
        Ok(Json(json))
    })
    .await
}

/// Returns an element with all that is known of it.
pub fn look_full(connection: &mut Connection, key: &[u8], id: &[u8]) -> RedisResult<Option<Row>> {
    let reply: Reply =
        redis::cmd("DEHYDRATOR.LOOK").arg(key).arg(id).arg("FULL").query(connection)?;
    let Some(fields) = Fields::of(&reply) else { return Ok(None) };
    Ok(fields.bytes("element").map(|element| Row {
        id: id.to_vec(),
        deadline: fields.count("deadline"),
        ttl: fields.count("ttl"),
        deliveries: fields.count("deliveries"),
        is_leased: fields.is_set("leased"),
        token: fields.bytes("token"),
        held_since: fields.number("held-since"),
        element: Some(element),
        group: fields.bytes("group"),
        reason: fields.bytes("reason"),
    }))
}
