//! Snapshots, the append-only file, DUMP and RESTORE: in memory, in a format of their own around the module's payloads.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;

use redis_module::raw;

use super::api::context::Context;
use super::api::io::Io;
use super::client::{Client, Origin};
use super::clock;
use super::digest::Digest;
use super::keyspace::{Stream, Value};
use super::propagate::{File, encode};
use super::server::Server;
use super::text::{self, Words};

/// What a server starts from.
#[derive(Clone, Debug)]
pub enum Image {
    Empty,
    Rdb(Vec<u8>),
    /// An append-only file, cut anywhere behind its base.
    Aof(Vec<u8>),
}

/// Reads pieces of a snapshot.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_all<'a>(items: impl ExactSizeIterator<Item = &'a Vec<u8>>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(items.len() as u64).to_le_bytes());
    items.for_each(|item| put(item, out));
}

fn line(out: &mut Vec<u8>, words: &[&[u8]]) {
    encode(&Words::new(words.iter().copied()), out);
}

impl Server {
    /// Runs what a forked child does.
    pub fn fork<T>(&'static self, child: impl FnOnce(&'static Self) -> T) -> T {
        let event = raw::REDISMODULE_EVENT_FORK_CHILD;
        self.is_forked.set(true);
        self.fire(event, raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN, ptr::null_mut());
        child(self)
    }

    fn io(&self, db: u32, key: text::Raw, bytes: Vec<u8>) -> Io {
        let context = Context::new(self);
        Io { bytes, at: 0, has_error: false, key, db, context, commands: Vec::new() }
    }

    /// Returns a value as a snapshot has it: its kind and its payload.
    fn payload(&self, db: u32, key: &[u8], value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        match value {
            Value::String(bytes) => {
                out.push(b's');
                put(bytes, &mut out);
            }
            Value::List(items) => {
                out.push(b'l');
                put_all(items.iter(), &mut out);
            }
            Value::Stream(stream) => {
                out.push(b'x');
                for number in [stream.last.0, stream.last.1, stream.entries.len() as u64] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                for ((ms, sequence), fields) in &stream.entries {
                    out.extend_from_slice(&ms.to_le_bytes());
                    out.extend_from_slice(&sequence.to_le_bytes());
                    put_all(fields.iter(), &mut out);
                }
            }
            Value::Module(value) => {
                out.push(b'm');
                out.extend_from_slice(&(self.encoding_version.get() as u64).to_le_bytes());
                let name = text::new(key);
                let mut io = self.io(db, name, Vec::new());
                let save = self.methods().rdb_save.expect("the type has it");
                // SAFETY: the io lives for the call, the value is the module's.
                unsafe {
                    save((&raw mut io).cast(), *value);
                    text::release(name);
                }
                put(&io.bytes, &mut out);
            }
        }
        out
    }

    /// Reads a value. `None`: it is corrupt.
    fn load_value(&self, db: u32, key: &[u8], payload: &[u8]) -> Option<Value> {
        let (kind, payload) = payload.split_first()?;
        let mut reader = Reader(payload);
        let items = |reader: &mut Reader<'_>| {
            let count = reader.number()?;
            (0..count).map(|_| reader.bytes().map(<[u8]>::to_vec)).collect::<Option<Vec<_>>>()
        };
        Some(match kind {
            b's' => Value::String(reader.bytes()?.to_vec()),
            b'l' => Value::List(VecDeque::from(items(&mut reader)?)),
            b'x' => {
                let last = (reader.number()?, reader.number()?);
                let mut stream = Stream { last, ..Stream::default() };
                for _ in 0..reader.number()? {
                    let id = (reader.number()?, reader.number()?);
                    stream.entries.insert(id, items(&mut reader)?);
                }
                Value::Stream(stream)
            }
            b'm' => {
                let version = reader.number()?;
                let name = text::new(key);
                let mut io = self.io(db, name, reader.bytes()?.to_vec());
                let load = self.methods().rdb_load.expect("the type has it");
                // SAFETY: the io lives for the call.
                let value = unsafe {
                    let value = load((&raw mut io).cast(), version as i32);
                    text::release(name);
                    value
                };
                if value.is_null() {
                    return None;
                }
                if io.has_error || io.at != io.bytes.len() {
                    self.free_now(value);
                    return None;
                }
                Value::Module(value)
            }
            _ => return None,
        })
    }

    /// Returns all data.
    pub fn snapshot(&'static self) -> Vec<u8> {
        let mut out = Vec::new();
        let dbs = self.dbs.borrow();
        for (db, keys) in dbs.iter().enumerate() {
            for (key, entry) in &keys.keys {
                out.extend_from_slice(&(db as u64).to_le_bytes());
                out.extend_from_slice(
                    &entry.expires.map_or(u64::MAX, |at| at as u64).to_le_bytes(),
                );
                put(key, &mut out);
                put(&self.payload(db as u32, key, &entry.value), &mut out);
            }
        }
        out
    }

    fn load_snapshot(&self, data: &[u8]) {
        let mut reader = Reader(data);
        while let Some(db) = reader.number() {
            let read = (|| {
                let expires = reader.number()?;
                Some((expires, reader.bytes()?, reader.bytes()?))
            })();
            let (expires, key, payload) = read.expect("a whole snapshot");
            let db = db as u32;
            let value = self.load_value(db, key, payload);
            let value = value.unwrap_or_else(|| {
                super::server::print_log();
                panic!("the server cannot read its own data: {}", key.escape_ascii())
            });
            let expires = (expires != u64::MAX).then_some(expires as i64);
            // A primary does not load what has expired.
            if !self.is_replica() && expires.is_some_and(|at| at < clock::wall_ms()) {
                self.free(db, key, value, false);
                continue;
            }
            self.insert(db, key, value);
            self.set_expiry(db, key, expires);
        }
    }

    fn loading(&'static self, subevent: u64, load: impl FnOnce()) {
        let event = raw::REDISMODULE_EVENT_LOADING;
        self.is_loading.set(true);
        self.fire(event, subevent, ptr::null_mut());
        load();
        self.is_loading.set(false);
        self.fire(event, raw::REDISMODULE_SUBEVENT_LOADING_ENDED, ptr::null_mut());
    }

    /// Replaces all data by those of the primary.
    pub fn replace_data(&'static self, data: &[u8]) {
        self.flush(None, false);
        self.loading(raw::REDISMODULE_SUBEVENT_LOADING_REPL_START, || self.load_snapshot(data));
        if self.stream.has_file() {
            self.rewrite();
        }
    }

    /// Empties a database, or all, with the events of it.
    pub fn flush(&'static self, db: Option<u32>, is_lazy: bool) {
        let event = raw::REDISMODULE_EVENT_FLUSHDB;
        let dbnum = db.map_or(-1, |db| db as i32);
        let mut info = raw::RedisModuleFlushInfo { version: 1, sync: (!is_lazy).into(), dbnum };
        let data: *mut c_void = (&raw mut info).cast();
        self.fire(event, raw::REDISMODULE_SUBEVENT_FLUSHDB_START, data);
        self.touch_all(db);
        self.empty(db, is_lazy);
        self.fire(event, raw::REDISMODULE_SUBEVENT_FLUSHDB_END, data);
    }

    /// Loads what the server starts from.
    pub fn load(&'static self, image: &Image) {
        self.enter();
        match image {
            Image::Empty => {}
            Image::Rdb(data) => {
                let event = raw::REDISMODULE_SUBEVENT_LOADING_RDB_START;
                self.loading(event, || self.load_snapshot(data));
            }
            Image::Aof(file) => {
                let event = raw::REDISMODULE_SUBEVENT_LOADING_AOF_START;
                self.loading(event, || self.load_file(file));
            }
        }
        if self.stream.has_file() {
            self.rewrite();
        }
    }

    fn load_file(&'static self, file: &[u8]) {
        let mut reader = Reader(file);
        let is_rdb = reader.take(1).is_some_and(|kind| kind == b"r");
        let base = reader.bytes().expect("a file is cut behind its base");
        match is_rdb {
            true => self.load_snapshot(base),
            false => self.replay(base),
        }
        self.replay(reader.0);
    }

    /// Runs the commands of a file. A cut command at its end is left out, and so is a transaction without its end.
    fn replay(&'static self, file: &[u8]) {
        let client = Client::new(u64::MAX - 2, Origin::File, 0, None);
        let mut at = 0;
        while let Some((words, next)) = decode(file, at) {
            at = next;
            self.process(&client, Words::from_raw(words.into_iter().map(text::new).collect()));
            client.out.borrow_mut().clear();
        }
    }

    /// Rewrites the append-only file.
    pub fn rewrite(&self) {
        let this = self.leaked();
        this.stream.flush_file();
        let is_rdb = self.setting_is("aof-use-rdb-preamble", "yes");
        let base = this.fork(|it| if is_rdb { it.snapshot() } else { it.commands() });
        if let Some(file) = self.stream.file.borrow_mut().as_mut() {
            *file = File { base, base_is_rdb: is_rdb, ..File::default() };
        }
    }

    /// Returns the append-only file: its base, with the base's length before it, and what was appended.
    pub fn append_only_file(&self) -> Vec<u8> {
        let file = self.stream.file.borrow();
        let Some(file) = file.as_ref() else { return Vec::new() };
        let mut out = vec![if file.base_is_rdb { b'r' } else { b'c' }];
        put(&file.base, &mut out);
        out.extend_from_slice(&file.tail);
        out
    }

    /// Returns all data as commands.
    fn commands(&'static self) -> Vec<u8> {
        let mut out = Vec::new();
        let dbs = self.dbs.borrow();
        for (db, keys) in dbs.iter().enumerate() {
            if !keys.keys.is_empty() {
                line(&mut out, &[b"SELECT", db.to_string().as_bytes()]);
            }
            for (key, entry) in &keys.keys {
                match &entry.value {
                    Value::String(bytes) => line(&mut out, &[b"SET", key, bytes]),
                    Value::List(items) => {
                        items.iter().for_each(|item| line(&mut out, &[b"RPUSH", key, item]));
                    }
                    Value::Stream(stream) => {
                        for ((ms, sequence), fields) in &stream.entries {
                            let id = format!("{ms}-{sequence}").into_bytes();
                            let mut words: Vec<&[u8]> = vec![b"XADD", key, &id];
                            words.extend(fields.iter().map(|field| &field[..]));
                            line(&mut out, &words);
                        }
                    }
                    Value::Module(value) => {
                        let name = text::new(key);
                        let mut io = self.io(db as u32, name, Vec::new());
                        let rewrite = self.methods().aof_rewrite.expect("the type has it");
                        // SAFETY: the io and the name live for the call, the value is the module's.
                        unsafe {
                            rewrite((&raw mut io).cast(), name.cast(), *value);
                            text::release(name);
                        }
                        out.extend_from_slice(&io.commands);
                    }
                }
                if let Some(at) = entry.expires {
                    line(&mut out, &[b"PEXPIREAT", key, at.to_string().as_bytes()]);
                }
            }
        }
        out
    }

    /// DUMP.
    pub fn dump(&self, db: u32, key: &[u8]) -> Option<Vec<u8>> {
        if !self.exists(db, key) {
            return None;
        }
        let dbs = self.dbs.borrow();
        let entry = dbs[db as usize].keys.get(key)?;
        let mut out = self.payload(db, key, &entry.value);
        let sum = checksum(&out);
        out.extend_from_slice(&sum);
        Some(out)
    }

    /// Reads what DUMP returned. The error is the reply of RESTORE.
    pub fn undump(&self, db: u32, key: &[u8], dump: &[u8]) -> Result<Value, &'static str> {
        let (payload, sum) = dump.split_at(dump.len().saturating_sub(8));
        if checksum(payload) != sum {
            return Err("ERR DUMP payload version or checksum are wrong");
        }
        self.load_value(db, key, payload).ok_or("ERR Bad data format")
    }

    /// Returns the digest of a value of the module. `None`: there is none.
    pub fn digest(&self, db: u32, key: &[u8]) -> Option<[u8; 20]> {
        let value = self.entry(db, key, |entry| match &entry.value {
            Value::Module(value) => Some(*value),
            _ => None,
        })??;
        let mut digest = Digest::default();
        let run = self.methods().digest.expect("the type has it");
        // SAFETY: the digest lives for the call, the value is the module's.
        unsafe { run((&raw mut digest).cast(), value) };
        Some(digest.finish())
    }
}

/// Returns the checksum of a dump.
pub fn checksum(payload: &[u8]) -> [u8; 8] {
    let mut digest = Digest::default();
    digest.add(payload);
    digest.finish()[..8].try_into().expect("eight")
}

/// Returns how many effects these commands of a file are, where a transaction is one.
pub fn units(file: &[u8]) -> usize {
    let (mut at, mut count, mut is_inside) = (0, 0, false);
    while let Some((words, next)) = decode(file, at) {
        at = next;
        match words[0] {
            b"MULTI" => is_inside = true,
            b"EXEC" => is_inside = false,
            _ => {}
        }
        count += usize::from(!is_inside && words[0] != b"SELECT");
    }
    count
}

/// Reads a command. `None`: it is not all there.
fn decode(file: &[u8], mut at: usize) -> Option<(Vec<&[u8]>, usize)> {
    let header = |at: &mut usize, sign: u8| -> Option<usize> {
        let line = &file[*at..];
        let end = line.windows(2).position(|pair| pair == b"\r\n")?;
        assert_eq!(line[0], sign, "a file of commands");
        *at += end + 2;
        std::str::from_utf8(&line[1..end]).ok()?.parse().ok()
    };
    let count = header(&mut at, b'*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = header(&mut at, b'$')?;
        words.push(file.get(at..at + length)?);
        file.get(at + length..at + length + 2)?;
        at += length + 2;
    }
    Some((words, at))
}
