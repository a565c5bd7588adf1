//! Strings, lists, streams.

use std::collections::VecDeque;

use super::super::client::Client;
use super::super::clock;
use super::super::command::number;
use super::super::keyspace::{Stream, Value};
use super::super::notify::class;
use super::super::server::Server;
use super::super::text::Words;
use super::{NOT_A_NUMBER, Row, SYNTAX, WRONG_TYPE};

pub const COMMANDS: &[Row] = &[
    ("get", 2, "", 1, 1, get),
    ("set", -3, "wm", 1, 1, set),
    ("lpush", -3, "wm", 1, 1, push),
    ("rpush", -3, "wm", 1, 1, push),
    ("lpop", 2, "w", 1, 1, pop),
    ("rpop", 2, "w", 1, 1, pop),
    ("llen", 2, "", 1, 1, llen),
    ("lrange", 4, "", 1, 1, lrange),
    ("xadd", -5, "wm", 1, 1, xadd),
    ("xlen", 2, "", 1, 1, xlen),
    ("xdel", -3, "w", 1, 1, xdel),
    ("xrange", -4, "", 1, 1, xrange),
    ("xtrim", -4, "w", 1, 1, xtrim),
];

/// Returns whether a key has another type than this, with the error sent.
fn is_wrong(server: &Server, client: &Client, key: &[u8], kind: &str) -> bool {
    let is_wrong = server.kind_of(client.db.get(), key).is_some_and(|it| it != kind);
    if is_wrong {
        client.error(WRONG_TYPE);
    }
    is_wrong
}

fn get(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    if is_wrong(server, client, key, "string") {
        return;
    }
    let mut out = client.out.borrow_mut();
    let found = server.entry(db, key, |entry| match &entry.value {
        Value::String(bytes) => out.bulk(bytes),
        _ => unreachable!("checked"),
    });
    if found.is_none() {
        out.null();
    }
}

fn set(server: &Server, client: &Client, words: &Words) {
    if words.len() > 3 {
        return client.error(SYNTAX);
    }
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    server.set(db, key, Value::String(words.get(2).expect("arity").to_vec()));
    server.touch(db, key);
    server.notify(class::STRING, "set", db, key);
    server.verbatim(client);
    client.ok();
}

fn push(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    if is_wrong(server, client, key, "list") {
        return;
    }
    let is_left = words.get(0).is_some_and(|word| word.eq_ignore_ascii_case(b"lpush"));
    if server.entry(db, key, |_| ()).is_none() {
        server.insert(db, key, Value::List(VecDeque::new()));
    }
    let length = server.entry(db, key, |entry| {
        let Value::List(items) = &mut entry.value else { unreachable!("checked") };
        for item in words.iter().skip(2) {
            match is_left {
                true => items.push_front(item.to_vec()),
                false => items.push_back(item.to_vec()),
            }
        }
        items.len()
    });
    // Another module may have deleted the key at the event that it was made.
    let length = length.unwrap_or(words.len() - 2);
    server.touch(db, key);
    server.notify(class::LIST, if is_left { "lpush" } else { "rpush" }, db, key);
    server.verbatim(client);
    client.int(length as i64);
}

fn pop(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    if is_wrong(server, client, key, "list") {
        return;
    }
    let is_left = words.get(0).is_some_and(|word| word.eq_ignore_ascii_case(b"lpop"));
    let popped = server.entry(db, key, |entry| {
        let Value::List(items) = &mut entry.value else { unreachable!("checked") };
        let item = if is_left { items.pop_front() } else { items.pop_back() };
        (item.expect("no list is empty"), items.is_empty())
    });
    let Some((item, is_empty)) = popped else { return client.out.borrow_mut().null() };
    client.out.borrow_mut().bulk(&item);
    server.notify(class::LIST, if is_left { "lpop" } else { "rpop" }, db, key);
    if is_empty {
        server.remove(db, key, false);
        server.notify(class::GENERIC, "del", db, key);
    }
    server.touch(db, key);
    server.verbatim(client);
}

fn llen(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    if is_wrong(server, client, key, "list") {
        return;
    }
    let length = server.entry(db, key, |entry| match &entry.value {
        Value::List(items) => items.len(),
        _ => unreachable!("checked"),
    });
    client.int(length.unwrap_or(0) as i64);
}

fn lrange(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    let bounds = [2, 3].map(|at| words.get(at).and_then(number));
    let [Some(first), Some(last)] = bounds else { return client.error(NOT_A_NUMBER) };
    if is_wrong(server, client, key, "list") {
        return;
    }
    let found = server.entry(db, key, |entry| {
        let Value::List(items) = &entry.value else { unreachable!("checked") };
        let length = items.len() as i64;
        let from_end = |at: i64| if at < 0 { length + at } else { at };
        let (first, last) = (from_end(first).max(0), from_end(last).min(length - 1));
        let count = (last - first + 1).max(0) as usize;
        items.iter().skip(first as usize).take(count).cloned().collect::<Vec<_>>()
    });
    let found = found.unwrap_or_default();
    let mut out = client.out.borrow_mut();
    out.array(found.len() as i64);
    found.iter().for_each(|item| out.bulk(item));
}

/// Reads an id of a stream's entry: `ms-sequence`, or `ms` with a sequence for it.
fn id(word: &[u8], sequence: u64) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(word).ok()?;
    match text.split_once('-') {
        Some((ms, sequence)) => Some((ms.parse().ok()?, sequence.parse().ok()?)),
        None => Some((text.parse().ok()?, sequence)),
    }
}

fn xadd(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    let (mut at, mut most, mut makes) = (2, None, true);
    if words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"nomkstream")) {
        (at, makes) = (at + 1, false);
    }
    let mut is_about = false;
    if words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"maxlen")) {
        at += 1;
        if words.get(at).is_some_and(|word| word == b"~" || word == b"=") {
            is_about = words.get(at) == Some(b"~");
            at += 1;
        }
        let Some(length) = words.get(at).and_then(number) else {
            return client.error(NOT_A_NUMBER);
        };
        if length < 0 {
            return client.error("ERR The MAXLEN argument must be >= 0.");
        }
        (most, at) = (Some(length as usize), at + 1);
    }
    let Some(word) = words.get(at) else { return client.error(SYNTAX) };
    // `*`, or `ms-*`: the server chooses all of it, or the sequence.
    let moment = word.strip_suffix(b"-*").and_then(|ms| id(ms, 0)).map(|(ms, _)| ms);
    let is_chosen = word == b"*" || moment.is_some();
    let given = if is_chosen { None } else { id(word, 0) };
    if !is_chosen && given.is_none() {
        return client.error("ERR Invalid stream ID specified as stream command argument");
    }
    let fields: Vec<Vec<u8>> = words.iter().skip(at + 1).map(<[u8]>::to_vec).collect();
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return client.error("ERR wrong number of arguments for 'xadd' command");
    }
    if is_wrong(server, client, key, "stream") {
        return;
    }
    if server.entry(db, key, |_| ()).is_none() {
        if !makes {
            return client.out.borrow_mut().null();
        }
        server.insert(db, key, Value::Stream(Stream::default()));
    }
    let now = clock::wall_ms().max(0) as u64;
    let added = server.entry(db, key, |entry| {
        let Value::Stream(stream) = &mut entry.value else { unreachable!("checked") };
        let id = given.unwrap_or(match (stream.last, moment) {
            ((ms, sequence), Some(moment)) if ms == moment => (ms, sequence + 1),
            (_, Some(moment)) => (moment, 0),
            ((ms, _), None) if ms < now => (now, 0),
            ((ms, sequence), None) => (ms, sequence + 1),
        });
        if id <= stream.last && id != (0, 0) {
            return None;
        }
        stream.last = id;
        stream.entries.insert(id, fields);
        let trimmed = trim(stream, most, is_about);
        Some((id, stream.entries.len(), trimmed))
    });
    let Some(Some(((ms, sequence), left, trimmed))) = added else {
        return client.error(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        );
    };
    let id = format!("{ms}-{sequence}");
    client.out.borrow_mut().bulk(id.as_bytes());
    server.touch(db, key);
    server.notify(class::STREAM, "xadd", db, key);
    if trimmed > 0 {
        server.notify(class::STREAM, "xtrim", db, key);
    }
    // The id goes out as it was chosen, and an approximate length as the exact one.
    let mut sent: Vec<Vec<u8>> = words.to_vecs();
    sent[at] = id.into_bytes();
    if is_about {
        sent[at - 2] = b"=".to_vec();
        sent[at - 1] = left.to_string().into_bytes();
    }
    server.note_effect(db, Words::new(sent.iter().map(|word| &word[..])));
}

/// Entries in a node of a real server's stream: an approximate length is a multiple of it.
const NODE: usize = 100;

fn trim(stream: &mut Stream, most: Option<usize>, is_about: bool) -> usize {
    let Some(most) = most else { return 0 };
    let beyond = stream.entries.len().saturating_sub(most);
    let count = if is_about { beyond / NODE * NODE } else { beyond };
    (0..count).for_each(|_| _ = stream.entries.pop_first());
    count
}

fn xlen(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    if is_wrong(server, client, key, "stream") {
        return;
    }
    let length = server.entry(db, key, |entry| match &entry.value {
        Value::Stream(stream) => stream.entries.len(),
        _ => unreachable!("checked"),
    });
    client.int(length.unwrap_or(0) as i64);
}

fn xrange(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    let bound = |at: usize, sequence: u64| match words.get(at) {
        Some(b"-") => Some((0, 0)),
        Some(b"+") => Some((u64::MAX, u64::MAX)),
        // Behind an entry.
        Some(word) if word.starts_with(b"(") && at == 2 => {
            id(&word[1..], 0).map(|(ms, sequence)| (ms, sequence + 1))
        }
        Some(word) => id(word, sequence),
        None => None,
    };
    let (Some(first), Some(last)) = (bound(2, 0), bound(3, u64::MAX)) else {
        return client.error("ERR Invalid stream ID specified as stream command argument");
    };
    let most = match words.get(4) {
        None => usize::MAX,
        Some(_) => words.get(5).and_then(number).unwrap_or(0).max(0) as usize,
    };
    if is_wrong(server, client, key, "stream") {
        return;
    }
    let mut out = client.out.borrow_mut();
    let found = server.entry(db, key, |entry| {
        let Value::Stream(stream) = &entry.value else { unreachable!("checked") };
        let entries: Vec<_> = if first > last {
            Vec::new()
        } else {
            stream.entries.range(first..=last).take(most).collect()
        };
        out.array(entries.len() as i64);
        for ((ms, sequence), fields) in entries {
            out.array(2);
            out.bulk(format!("{ms}-{sequence}").as_bytes());
            out.array(fields.len() as i64);
            fields.iter().for_each(|field| out.bulk(field));
        }
    });
    if found.is_none() {
        out.array(0);
    }
}

fn xdel(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    if is_wrong(server, client, key, "stream") {
        return;
    }
    let count = server.entry(db, key, |entry| {
        let Value::Stream(stream) = &mut entry.value else { unreachable!("checked") };
        let ids = words.iter().skip(2).filter_map(|word| id(word, 0));
        ids.filter(|id| stream.entries.remove(id).is_some()).count()
    });
    let count = count.unwrap_or(0);
    if count > 0 {
        server.touch(db, key);
        server.notify(class::STREAM, "xdel", db, key);
        server.verbatim(client);
    }
    client.int(count as i64);
}

fn xtrim(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    let is_length = words.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"maxlen"));
    let at = if words.get(3) == Some(b"=") { 4 } else { 3 };
    let most = words.get(at).and_then(number).filter(|it| *it >= 0);
    let (true, Some(most)) = (is_length, most) else { return client.error(SYNTAX) };
    if is_wrong(server, client, key, "stream") {
        return;
    }
    let count = server.entry(db, key, |entry| {
        let Value::Stream(stream) = &mut entry.value else { unreachable!("checked") };
        trim(stream, Some(most as usize), false)
    });
    let count = count.unwrap_or(0);
    if count > 0 {
        server.touch(db, key);
        server.notify(class::STREAM, "xtrim", db, key);
        server.verbatim(client);
    }
    client.int(count as i64);
}
