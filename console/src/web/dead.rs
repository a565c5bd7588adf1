//! Dead letters, in the stream or the list that the policy names: shown, sent back, and dropped.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use axum::Json;
use redis::{Connection, RedisResult, Value as Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking;
use super::bytes::encode;
use super::elements::{Filter, SHOWN};
use super::query::Words;
use super::queue::Queue;
use super::queues::facts_of;
use super::refusal::Refusal;
use super::session::Caller;
use crate::destination::Destination;

/// Entries of the first step. Later ones depend on the size of the entries.
const STEP: usize = 10;
const STEP_MAX: usize = 100;
/// Bytes in one reply, about.
const REPLY: usize = 128 << 10;
const PATIENCE: Duration = Duration::from_millis(150);
const PAGE: usize = 200;
/// How far from an end of a list an entry can be dropped: the server searches for it.
const DEPTH: i64 = 10_000;

/// A dead letter. An entry of a list has an element alone.
#[derive(Clone, Debug, Default)]
pub struct Letter {
    /// The id of the stream's entry; for a list, the index and a hash of the element.
    pub entry: String,
    pub id: Option<Vec<u8>>,
    pub element: Vec<u8>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Letter {
    pub fn is_taken_by(&self, filter: &Filter) -> bool {
        let of_fields = || self.fields.iter().any(|(_, value)| filter.finds_text(value));
        filter.finds_id(self.id.as_deref().unwrap_or_default())
            && (filter.finds_text(&self.element) || of_fields())
    }

    fn size(&self) -> usize {
        self.element.len() + self.fields.iter().map(|(_, value)| value.len()).sum::<usize>()
    }

    fn json(&self) -> Value {
        let field =
            |name: &[u8]| self.fields.iter().find(|(it, _)| it == name).map(|(_, value)| value);
        let number = |value: &Vec<u8>| std::str::from_utf8(value).ok()?.parse::<u64>().ok();
        let reason = field(b"reason").or_else(|| field(b"error")).map(|value| encode(value));
        let more = self.fields.iter().filter(|(name, _)| name != b"deliveries");
        let more: Vec<_> = more
            .map(|(name, value)| {
                json!({ "name_b64": encode(name), "value_b64": encode(&value[..value.len().min(SHOWN)]) })
            })
            .collect();
        json!({
            "entry": self.entry,
            "id_b64": self.id.as_deref().map(encode),
            "element_b64": encode(&self.element[..self.element.len().min(SHOWN)]),
            "element_bytes": self.element.len(),
            "deliveries": field(b"deliveries").and_then(number),
            "reason_b64": reason,
            "moment": self.entry.split_once('-').and_then(|(ms, _)| ms.parse::<u64>().ok()),
            "fields": more,
        })
    }
}

/// Walks over dead letters in small steps: a stream from its latest entry, or from its first; a list from its head.
pub struct Steps<'a> {
    destination: &'a Destination,
    /// Where the next step starts; `None` at the end.
    pub start: Option<String>,
    is_forward: bool,
    /// The last entry of a walk forward.
    end: String,
    count: usize,
}

impl<'a> Steps<'a> {
    pub fn backward(destination: &'a Destination, start: String) -> Self {
        let end = "-".to_owned();
        Self { destination, start: Some(start), is_forward: false, end, count: STEP }
    }

    /// Begins a walk over the entries that a stream has now.
    pub fn forward(connection: &mut Connection, destination: &'a Destination) -> RedisResult<Self> {
        let last = match destination {
            Destination::Stream(dest) => {
                let mut range = redis::cmd("XREVRANGE");
                let last =
                    range.arg(dest).arg("+").arg("-").arg("COUNT").arg(1).query(connection)?;
                let last: Vec<Entry> = last;
                last.into_iter().next().map(|(id, _)| id)
            }
            Destination::List(_) => Some(String::new()),
            _ => None,
        };
        let start = last.is_some().then(String::new);
        let end = last.unwrap_or_default();
        Ok(Self { destination, start, is_forward: true, end, count: STEP })
    }

    pub fn step(&mut self, connection: &mut Connection, most: usize) -> RedisResult<Vec<Letter>> {
        let Some(start) = self.start.take() else { return Ok(Vec::new()) };
        let count = self.count.min(most).max(1);
        let (letters, next) = match self.destination {
            Destination::Stream(dest) => {
                let first = match (start.as_str(), self.is_forward) {
                    ("", true) => "-".to_owned(),
                    ("", false) => "+".to_owned(),
                    (start, _) => format!("({start}"),
                };
                let mut range = redis::cmd(if self.is_forward { "XRANGE" } else { "XREVRANGE" });
                range.arg(dest).arg(first).arg(&self.end).arg("COUNT").arg(count);
                let entries: Vec<Entry> = range.query(connection)?;
                let next = (entries.len() == count).then(|| entries.last().map(|it| it.0.clone()));
                (entries.into_iter().map(letter).collect(), next.flatten())
            }
            Destination::List(dest) => {
                let first: usize = start.parse().unwrap_or(0);
                let mut range = redis::cmd("LRANGE");
                range.arg(dest).arg(first).arg(first + count - 1);
                let elements: Vec<Vec<u8>> = range.query(connection)?;
                let next = (elements.len() == count).then(|| (first + count).to_string());
                let letter = |(at, element): (usize, Vec<u8>)| Letter {
                    entry: format!("{}:{:016x}", first + at, hash(&element)),
                    element,
                    ..Letter::default()
                };
                (elements.into_iter().enumerate().map(letter).collect(), next)
            }
            _ => (Vec::new(), None),
        };
        let letters: Vec<Letter> = letters;
        self.start = next;
        let bytes: usize = letters.iter().map(Letter::size).sum();
        self.count = if bytes > REPLY { self.count / 2 } else { self.count * 2 };
        self.count = self.count.clamp(1, STEP_MAX);
        Ok(letters)
    }
}

type Entry = (String, Vec<(Vec<u8>, Vec<u8>)>);

fn letter((entry, fields): Entry) -> Letter {
    let mut letter = Letter { entry, ..Letter::default() };
    for (name, value) in fields {
        match name.as_slice() {
            b"id" => letter.id = Some(value),
            b"element" => letter.element = value,
            _ => letter.fields.push((name, value)),
        }
    }
    letter
}

fn hash(element: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    element.hash(&mut hasher);
    hasher.finish()
}

/// Pushes a dead letter of a list back under a new id, and removes it. REVIVE is for streams alone. A transaction would remove the entry
/// even if the push is refused (`FULL`), and two commands could leave both or neither: so it is a script.
const REVIVE_FROM_LIST: &str = "local id = redis.pcall('DEHYDRATOR.GIDPUSH', KEYS[1], 0, ARGV[3]) \
    if type(id) == 'table' then return {0, id.err} end \
    if redis.call('LREM', KEYS[2], ARGV[2], ARGV[1]) == 1 then return {1, ''} end \
    redis.call('DEHYDRATOR.REM', KEYS[1], id) \
    return {0, ''}";

/// Sends dead letters back to the queue, due at once, a single one perhaps with another element. Returns how many, and why
/// others could not be.
pub fn revive(
    connection: &mut Connection,
    key: &[u8],
    destination: &Destination,
    element: Option<&[u8]>,
    entries: &[String],
) -> RedisResult<(u64, Option<String>)> {
    match destination {
        Destination::Stream(_) => {
            let mut revive = redis::cmd("DEHYDRATOR.REVIVE");
            revive.arg(key);
            if let Some(element) = element {
                revive.arg("ELEMENT").arg(element);
            }
            revive.arg("IDS").arg(entries.len()).arg(entries);
            match revive.query::<(u64, Reply)>(connection) {
                Err(error) if matches!(error.code(), Some("FULL" | "NORULE" | "OOM")) => {
                    Ok((0, Some(error.to_string())))
                }
                reply => Ok((reply?.0, None)),
            }
        }
        Destination::List(dest) => {
            let (mut done, mut last) = (0, None);
            for (old, side) in elements_of(connection, dest, entries)? {
                let mut eval = redis::cmd("EVAL");
                eval.arg(REVIVE_FROM_LIST).arg(2).arg(key).arg(dest).arg(&old).arg(side);
                let one: (u64, String) = eval.arg(element.unwrap_or(&old)).query(connection)?;
                done += one.0;
                last = Some(one.1).filter(|problem| !problem.is_empty()).or(last);
            }
            Ok((done, last))
        }
        _ => Ok((0, None)),
    }
}

/// Removes dead letters. Returns how many.
pub fn drop_all(
    connection: &mut Connection,
    destination: &Destination,
    entries: &[String],
) -> RedisResult<u64> {
    match destination {
        Destination::Stream(dest) => redis::cmd("XDEL").arg(dest).arg(entries).query(connection),
        Destination::List(dest) => {
            let mut done = 0;
            for (element, side) in elements_of(connection, dest, entries)? {
                done +=
                    redis::cmd("LREM").arg(dest).arg(side).arg(element).query::<u64>(connection)?;
            }
            Ok(done)
        }
        _ => Ok(0),
    }
}

/// Returns the elements of entries of a list that are still where they were, and from which side the server should look for
/// each.
fn elements_of(
    connection: &mut Connection,
    dest: &[u8],
    entries: &[String],
) -> RedisResult<Vec<(Vec<u8>, i64)>> {
    let length: i64 = redis::cmd("LLEN").arg(dest).query(connection)?;
    let mut elements = Vec::new();
    for entry in entries {
        let Some((index, expected)) = entry.split_once(':') else { continue };
        let Ok(index) = index.parse::<i64>() else { continue };
        if index.min(length - 1 - index) > DEPTH {
            continue;
        }
        let found = redis::cmd("LINDEX").arg(dest).arg(index).query(connection)?;
        let Some::<Vec<u8>>(element) = found else { continue };
        if format!("{:016x}", hash(&element)) == expected {
            elements.push((element, if index <= length / 2 { 1 } else { -1 }));
        }
    }
    Ok(elements)
}

#[derive(Deserialize)]
pub struct Asked {
    #[serde(default)]
    start: String,
    count: Option<usize>,
    #[serde(default)]
    id: String,
    #[serde(default)]
    text: String,
}

pub async fn dead(
    caller: Caller,
    queue: Queue,
    Words(asked): Words<Asked>,
) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let (_, facts) = facts_of(&caller.account, &queue)?;
        let destination = Destination::of_dead_letters(&facts.policy);
        let filter = Filter::new(&asked.id, &asked.text, None);
        let count = asked.count.unwrap_or(50).clamp(1, PAGE);
        let (letters, next, scanned) = caller.account.on(&queue, |connection| {
            let begun = Instant::now();
            let mut steps = Steps::backward(&destination, asked.start.clone());
            let (mut letters, mut scanned) = (Vec::new(), 0);
            while steps.start.is_some() && letters.len() < count {
                let most = if filter.is_any() { STEP_MAX } else { count - letters.len() };
                let stepped = steps.step(connection, most)?;
                scanned += stepped.len();
                letters.extend(stepped.into_iter().filter(|letter| letter.is_taken_by(&filter)));
                if filter.is_any() && begun.elapsed() > PATIENCE {
                    break;
                }
            }
            Ok((letters, steps.start, scanned))
        })?;
        let rows: Vec<_> = letters.iter().map(Letter::json).collect();
        Ok(Json(json!({
            "kind": destination.kind(),
            "dest_b64": destination.key().map(encode),
            "rows": rows,
            "next": next,
            "scanned": scanned,
        })))
    })
    .await
}
