//! Commands for any key.

use std::ffi::c_void;

use super::super::acl::matches;
use super::super::client::Client;
use super::super::clock;
use super::super::command::number;
use super::super::keyspace::{DATABASES, Names, Value};
use super::super::notify::class;
use super::super::server::Server;
use super::super::text::{self, Words};
use super::{NO_KEY, NOT_A_NUMBER, Row, SYNTAX};

pub const COMMANDS: &[Row] = &[
    ("del", -2, "w", 1, -1, del),
    ("unlink", -2, "w", 1, -1, del),
    ("exists", -2, "", 1, -1, exists),
    ("type", 2, "", 1, 1, kind),
    ("rename", 3, "w", 1, 2, rename),
    ("renamenx", 3, "w", 1, 2, rename),
    ("copy", -3, "wm", 1, 2, copy),
    ("move", 3, "w", 1, 1, move_key),
    ("expire", -3, "w", 1, 1, expire),
    ("pexpire", -3, "w", 1, 1, expire),
    ("pexpireat", -3, "w", 1, 1, expire),
    ("persist", 2, "w", 1, 1, persist),
    ("pttl", 2, "", 1, 1, pttl),
    ("dump", 2, "", 1, 1, dump),
    ("restore", -4, "wm", 1, 1, restore),
    ("keys", 2, "", 0, 0, keys),
    ("dbsize", 1, "", 0, 0, dbsize),
    ("swapdb", 3, "w", 0, 0, swapdb),
    ("flushdb", -1, "w", 0, 0, flush),
    ("flushall", -1, "w", 0, 0, flush),
];

fn is(words: &Words, name: &str) -> bool {
    words.get(0).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}

fn del(server: &Server, client: &Client, words: &Words) {
    let db = client.db.get();
    let is_lazy = is(words, "unlink") || server.setting_is("lazyfree-lazy-user-del", "yes");
    let mut count = 0;
    for key in words.iter().skip(1) {
        if server.exists(db, key) && server.remove(db, key, is_lazy) {
            server.touch(db, key);
            server.notify(class::GENERIC, "del", db, key);
            count += 1;
        }
    }
    if count > 0 {
        server.verbatim(client);
    }
    client.int(count);
}

fn exists(server: &Server, client: &Client, words: &Words) {
    let db = client.db.get();
    client.int(words.iter().skip(1).filter(|key| server.exists(db, key)).count() as i64);
}

fn kind(server: &Server, client: &Client, words: &Words) {
    let kind = server.kind_of(client.db.get(), words.get(1).expect("arity"));
    client.out.borrow_mut().simple(kind.unwrap_or("none").as_bytes());
}

fn rename(server: &Server, client: &Client, words: &Words) {
    let (db, is_nx) = (client.db.get(), is(words, "renamenx"));
    let [from, to] = [1, 2].map(|at| words.get(at).expect("arity"));
    if !server.exists(db, from) {
        return client.error(NO_KEY);
    }
    let done = |client: &Client| if is_nx { client.int(1) } else { client.ok() };
    if from == to {
        return if is_nx { client.int(0) } else { client.ok() };
    }
    if server.exists(db, to) {
        if is_nx {
            return client.int(0);
        }
        let is_lazy = server.setting_is("lazyfree-lazy-server-del", "yes");
        server.remove(db, to, is_lazy);
    }
    transfer(server, (db, from), (db, to));
    server.touch(db, from);
    server.touch(db, to);
    server.notify(class::GENERIC, "rename_from", db, from);
    server.notify(class::GENERIC, "rename_to", db, to);
    server.verbatim(client);
    done(client);
}

/// Gives a value another name. The module is told that it leaves the old one.
fn transfer(server: &Server, (from_db, from): (u32, &[u8]), (to_db, to): (u32, &[u8])) {
    let value = server.entry(from_db, from, |entry| match entry.value {
        Value::Module(value) => Some(value),
        _ => None,
    });
    let entry = server.detach(from_db, from).expect("it exists");
    server.attach(to_db, to, entry);
    if let Some(value) = value.flatten() {
        server.unlink(from_db, from, value);
    }
}

fn copy(server: &Server, client: &Client, words: &Words) {
    let from_db = client.db.get();
    let [from, to] = [1, 2].map(|at| words.get(at).expect("arity"));
    let (mut to_db, mut replaces) = (from_db, false);
    let mut at = 3;
    while let Some(word) = words.get(at) {
        if word.eq_ignore_ascii_case(b"replace") {
            replaces = true;
        } else if word.eq_ignore_ascii_case(b"db") && words.len() > at + 1 {
            at += 1;
            let Some(db) = words.get(at).and_then(number) else {
                return client.error(NOT_A_NUMBER);
            };
            if !(0..DATABASES as i64).contains(&db) {
                return client.error("ERR DB index is out of range");
            }
            to_db = db as u32;
        } else {
            return client.error(SYNTAX);
        }
        at += 1;
    }
    if from_db == to_db && from == to {
        return client.error("ERR source and destination objects are the same");
    }
    if !server.exists(from_db, from) {
        return client.int(0);
    }
    let is_there = server.exists(to_db, to);
    if is_there && !replaces {
        return client.int(0);
    }
    let expires = server.entry(from_db, from, |entry| entry.expires).flatten();
    let module = server.entry(from_db, from, |entry| match &entry.value {
        Value::String(bytes) => Ok(Value::String(bytes.clone())),
        Value::List(items) => Ok(Value::List(items.clone())),
        Value::Stream(stream) => Ok(Value::Stream(stream.clone())),
        Value::Module(value) => Err(*value),
    });
    let value = match module.expect("it exists") {
        Ok(value) => value,
        Err(value) => match copy_module(server, (from_db, from), (to_db, to), value) {
            Some(copy) => Value::Module(copy),
            None => return client.error("ERR not supported for this module key"),
        },
    };
    if is_there {
        server.remove(to_db, to, server.setting_is("lazyfree-lazy-server-del", "yes"));
    }
    server.insert(to_db, to, value);
    if expires.is_some() {
        server.set_expiry(to_db, to, expires);
    }
    server.touch(to_db, to);
    server.notify(class::GENERIC, "copy_to", to_db, to);
    server.verbatim(client);
    client.int(1);
}

fn copy_module(
    server: &Server,
    (from_db, from): (u32, &[u8]),
    (to_db, to): (u32, &[u8]),
    value: *mut c_void,
) -> Option<*mut c_void> {
    let copy = server.methods().copy2?;
    let (from, to) = (text::new(from), text::new(to));
    let mut names = Names { from: (from_db, from), to: Some((to_db, to)) };
    // SAFETY: the names live for the call, the value is the module's.
    unsafe {
        let copy = copy((&raw mut names).cast(), value);
        text::release(from);
        text::release(to);
        (!copy.is_null()).then_some(copy)
    }
}

fn move_key(server: &Server, client: &Client, words: &Words) {
    let from_db = client.db.get();
    let key = words.get(1).expect("arity");
    let Some(to_db) = words.get(2).and_then(number) else {
        return client.error("ERR value is not an integer or out of range");
    };
    if !(0..DATABASES as i64).contains(&to_db) {
        return client.error("ERR DB index is out of range");
    }
    let to_db = to_db as u32;
    if from_db == to_db {
        return client.error("ERR source and destination objects are the same");
    }
    if !server.exists(from_db, key) || server.exists(to_db, key) {
        return client.int(0);
    }
    transfer(server, (from_db, key), (to_db, key));
    server.touch(from_db, key);
    server.touch(to_db, key);
    server.notify(class::GENERIC, "move_from", from_db, key);
    server.notify(class::GENERIC, "move_to", to_db, key);
    server.verbatim(client);
    client.int(1);
}

fn expire(server: &Server, client: &Client, words: &Words) {
    let db = client.db.get();
    let key = words.get(1).expect("arity");
    let Some(time) = words.get(2).and_then(number) else { return client.error(NOT_A_NUMBER) };
    if words.len() > 3 {
        return client.error("ERR Unsupported option");
    }
    let ms = if is(words, "expire") { time.saturating_mul(1000) } else { time };
    let is_relative = !is(words, "pexpireat");
    let at = if is_relative { ms.saturating_add(clock::wall_ms()) } else { ms };
    if !server.exists(db, key) {
        return client.int(0);
    }
    let is_past = at <= clock::wall_ms() && !server.is_loading.get() && !server.is_replica();
    if is_past {
        let is_lazy = server.setting_is("lazyfree-lazy-expire", "yes");
        server.remove(db, key, is_lazy);
        let word: &[u8] = if is_lazy { b"UNLINK" } else { b"DEL" };
        server.note_effect(db, Words::new([word, key]));
        server.touch(db, key);
        match server.kind.is_valkey() {
            true => server.notify(class::EXPIRED, "expired", db, key),
            false => server.notify(class::GENERIC, "del", db, key),
        }
    } else {
        server.set_expiry(db, key, Some(at));
        server.touch(db, key);
        server.notify(class::GENERIC, "expire", db, key);
        let at = at.to_string();
        server.note_effect(db, Words::new([&b"PEXPIREAT"[..], key, at.as_bytes()]));
    }
    client.int(1);
}

fn persist(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    let has_expiry = server.exists(db, key)
        && server.entry(db, key, |entry| entry.expires.is_some()) == Some(true);
    if has_expiry {
        server.set_expiry(db, key, None);
        server.touch(db, key);
        server.notify(class::GENERIC, "persist", db, key);
        server.verbatim(client);
    }
    client.int(has_expiry.into());
}

fn pttl(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(1).expect("arity"));
    if !server.exists(db, key) {
        return client.int(-2);
    }
    let Some(at) = server.entry(db, key, |entry| entry.expires).flatten() else {
        return client.int(-1);
    };
    client.int((at - clock::wall_ms()).max(0));
}

fn dump(server: &Server, client: &Client, words: &Words) {
    match server.dump(client.db.get(), words.get(1).expect("arity")) {
        Some(dump) => client.out.borrow_mut().bulk(&dump),
        None => client.out.borrow_mut().null(),
    }
}

fn restore(server: &Server, client: &Client, words: &Words) {
    let db = client.db.get();
    let [key, dump] = [1, 3].map(|at| words.get(at).expect("arity"));
    let has = |option: &[u8]| words.iter().skip(4).any(|it| it.eq_ignore_ascii_case(option));
    let (replaces, is_absolute) = (has(b"replace"), has(b"absttl"));
    let Some(ttl) = words.get(2).and_then(number) else { return client.error(NOT_A_NUMBER) };
    let is_there = server.exists(db, key);
    if is_there && !replaces {
        return client.error("BUSYKEY Target key name already exists.");
    }
    if ttl < 0 {
        return client.error("ERR Invalid TTL value, must be >= 0");
    }
    let value = match server.undump(db, key, dump) {
        Ok(value) => value,
        Err(error) => return client.error(error),
    };
    let is_removed = is_there && server.remove(db, key, false);
    let at = if ttl > 0 && !is_absolute { ttl + clock::wall_ms() } else { ttl };
    if replaces && at > 0 && at < clock::wall_ms() && !server.obeys() {
        server.free(db, key, value, false);
        if is_removed {
            server.note_effect(db, Words::new([&b"DEL"[..], key]));
            server.touch(db, key);
            server.notify(class::GENERIC, "del", db, key);
        }
        return client.ok();
    }
    server.insert(db, key, value);
    if at > 0 {
        server.set_expiry(db, key, Some(at));
        if !is_absolute {
            let at = at.to_string();
            let mut all = vec![&b"RESTORE"[..], key, at.as_bytes(), dump];
            all.extend(words.iter().skip(4));
            all.push(b"ABSTTL");
            server.note_effect(db, Words::new(all));
        }
    }
    if at == 0 || is_absolute {
        server.verbatim(client);
    }
    server.touch(db, key);
    server.notify(class::GENERIC, "restore", db, key);
    client.ok();
}

fn keys(server: &Server, client: &Client, words: &Words) {
    let (db, pattern) = (client.db.get(), words.get(1).expect("arity"));
    let mut names = server.names_after(db, None, usize::MAX);
    names.retain(|name| server.exists(db, name) && matches(pattern, name));
    let mut out = client.out.borrow_mut();
    out.array(names.len() as i64);
    names.iter().for_each(|name| out.bulk(name));
}

fn dbsize(server: &Server, client: &Client, _words: &Words) {
    client.int(server.dbs.borrow()[client.db.get() as usize].keys.len() as i64);
}

fn swapdb(server: &Server, client: &Client, words: &Words) {
    let dbs = [1, 2].map(|at| words.get(at).and_then(number));
    let errors = ["ERR invalid first DB index", "ERR invalid second DB index"];
    let [first, second] = dbs;
    let (Some(first), Some(second)) = (first, second) else {
        return client.error(errors[usize::from(first.is_some())]);
    };
    if [first, second].iter().any(|db| !(0..DATABASES as i64).contains(db)) {
        return client.error("ERR DB index is out of range");
    }
    if first != second {
        server.touch_all(Some(first as u32));
        server.touch_all(Some(second as u32));
        server.dbs.borrow_mut().swap(first as usize, second as usize);
        server.changes.set(server.changes.get() + 1);
        server.touch_all(Some(first as u32));
        server.touch_all(Some(second as u32));
    }
    let mut info = redis_module::raw::RedisModuleSwapDbInfo {
        version: 1,
        dbnum_first: first as i32,
        dbnum_second: second as i32,
    };
    let event = redis_module::raw::REDISMODULE_EVENT_SWAPDB;
    server.leaked().fire(event, 0, (&raw mut info).cast());
    server.verbatim(client);
    client.ok();
}

fn flush(server: &Server, client: &Client, words: &Words) {
    let is_lazy = match words.get(1) {
        None => server.setting_is("lazyfree-lazy-user-flush", "yes"),
        Some(word) if word.eq_ignore_ascii_case(b"async") => true,
        Some(word) if word.eq_ignore_ascii_case(b"sync") => false,
        Some(_) => return client.error(SYNTAX),
    };
    let db = is(words, "flushdb").then(|| client.db.get());
    server.leaked().flush(db, is_lazy);
    server.verbatim(client);
    client.ok();
}
