//! Databases: keys, their values, when they expire.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;

use super::notify::class;
use super::server::Server;
use super::{clock, text};

/// An entry of a stream: its fields and values.
pub type StreamEntry = Vec<Vec<u8>>;

#[derive(Clone, Default)]
pub struct Stream {
    pub entries: BTreeMap<(u64, u64), StreamEntry>,
    pub last: (u64, u64),
}

pub enum Value {
    String(Vec<u8>),
    List(VecDeque<Vec<u8>>),
    Stream(Stream),
    Module(*mut c_void),
}

impl Value {
    /// Returns the type's name, as TYPE replies it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Stream(_) => "stream",
            Self::Module(_) => "dehy-type",
        }
    }
}

pub struct Entry {
    /// Different for each value that was ever stored.
    pub id: u64,
    pub value: Value,
    /// In milliseconds since the epoch.
    pub expires: Option<i64>,
}

#[derive(Default)]
pub struct Db {
    /// By name: a walk continues behind the last name that it saw.
    pub keys: BTreeMap<Box<[u8]>, Entry>,
    /// The number of keys that expire.
    pub expiring: usize,
}

/// Number of databases.
pub const DATABASES: usize = 16;

/// The names of a value that is copied, or of one that is unlinked, for the module's callbacks.
pub struct Names {
    pub from: (u32, text::Raw),
    pub to: Option<(u32, text::Raw)>,
}

impl Server {
    /// Calls `look` with a key's entry, whether it has expired or not.
    pub fn entry<T>(&self, db: u32, key: &[u8], look: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.dbs.borrow_mut()[db as usize].keys.get_mut(key).map(look)
    }

    /// Returns whether a key exists and has not expired. Deletes it if it has, where that is allowed.
    pub fn exists(&self, db: u32, key: &[u8]) -> bool {
        match self.entry(db, key, |entry| entry.expires) {
            None => false,
            Some(None) => true,
            Some(Some(at)) => !self.expire_if_due(db, key, at),
        }
    }

    /// Returns the type of a key, for a command.
    pub fn kind_of(&self, db: u32, key: &[u8]) -> Option<&'static str> {
        if !self.exists(db, key) {
            return None;
        }
        self.entry(db, key, |entry| entry.value.kind())
    }

    fn expire_if_due(&self, db: u32, key: &[u8], at: i64) -> bool {
        if self.is_loading.get() || at >= clock::wall_ms() {
            return false;
        }
        if self.is_replica() {
            // What a primary sends is run as if nothing expired: the primary sends a DEL.
            return !self.obeys();
        }
        if !self.is_paused() {
            self.expire(db, key);
        }
        true
    }

    /// Deletes an expired key, and tells everybody.
    pub fn expire(&self, db: u32, key: &[u8]) {
        let is_lazy = self.setting_is("lazyfree-lazy-expire", "yes");
        self.remove(db, key, is_lazy);
        self.notify(class::EXPIRED, "expired", db, key);
        self.touch(db, key);
        let word: &[u8] = if is_lazy { b"UNLINK" } else { b"DEL" };
        self.also_propagate(db, text::Words::new([word, key]));
    }

    /// Deletes some keys that have expired, as the server's cron does.
    pub fn expire_some(&self) {
        let expires = self.dbs.borrow().iter().any(|db| db.expiring > 0);
        if !expires || self.is_replica() || self.is_paused() {
            return;
        }
        let now = clock::wall_ms();
        for db in 0..DATABASES as u32 {
            let due: Vec<Box<[u8]>> = {
                let dbs = self.dbs.borrow();
                let it = &dbs[db as usize];
                if it.expiring == 0 {
                    continue;
                }
                let is_due = |entry: &Entry| entry.expires.is_some_and(|at| at < now);
                let due = it.keys.iter().filter(|(_, entry)| is_due(entry));
                due.map(|(key, _)| key.clone()).take(20).collect()
            };
            for key in due {
                self.enter_unit();
                if self.entry(db, &key, |it| it.expires.is_some_and(|at| at < now)) == Some(true) {
                    self.expire(db, &key);
                }
                self.exit_unit();
            }
        }
    }

    /// Stores a value under a name that is free.
    pub fn insert(&self, db: u32, key: &[u8], value: Value) -> u64 {
        let id = self.next_value.get();
        self.next_value.set(id + 1);
        let entry = Entry { id, value, expires: None };
        let before = self.dbs.borrow_mut()[db as usize].keys.insert(key.into(), entry);
        assert!(before.is_none(), "the name is free");
        self.changes.set(self.changes.get() + 1);
        if !self.is_loading.get() {
            self.notify(class::NEW, "new", db, key);
        }
        id
    }

    /// Stores a value in the place of whatever is there.
    pub fn set(&self, db: u32, key: &[u8], value: Value) {
        let before = self.entry(db, key, |entry| match entry.value {
            Value::Module(value) => Some(value),
            _ => None,
        });
        let Some(before) = before else {
            self.insert(db, key, value);
            return;
        };
        if let Some(before) = before {
            self.unlink(db, key, before);
        }
        let entry = self.detach(db, key).expect("it is there");
        let id = self.next_value.get();
        self.next_value.set(id + 1);
        let new = Entry { id, value, expires: None };
        self.dbs.borrow_mut()[db as usize].keys.insert(key.into(), new);
        self.free(db, key, entry.value, false);
    }

    pub fn set_expiry(&self, db: u32, key: &[u8], at: Option<i64>) {
        let mut dbs = self.dbs.borrow_mut();
        let db = &mut dbs[db as usize];
        if let Some(entry) = db.keys.get_mut(key) {
            db.expiring += usize::from(at.is_some());
            db.expiring -= usize::from(entry.expires.is_some());
            entry.expires = at;
        }
    }

    /// Removes a key, and frees its value. Tells nobody but the module whose value it is.
    pub fn remove(&self, db: u32, key: &[u8], is_lazy: bool) -> bool {
        let value = self.entry(db, key, |entry| match entry.value {
            Value::Module(value) => Some(value),
            _ => None,
        });
        let Some(value) = value else { return false };
        if let Some(value) = value {
            self.unlink(db, key, value);
        }
        if let Some(entry) = self.detach(db, key) {
            self.free(db, key, entry.value, is_lazy);
        }
        true
    }

    /// Takes an entry out of the table, as it is.
    pub fn detach(&self, db: u32, key: &[u8]) -> Option<Entry> {
        self.changes.set(self.changes.get() + 1);
        let mut dbs = self.dbs.borrow_mut();
        let db = &mut dbs[db as usize];
        let entry = db.keys.remove(key)?;
        db.expiring -= usize::from(entry.expires.is_some());
        Some(entry)
    }

    /// Puts a detached entry into the table under another name: RENAME and MOVE.
    pub fn attach(&self, db: u32, key: &[u8], entry: Entry) {
        self.changes.set(self.changes.get() + 1);
        {
            let mut dbs = self.dbs.borrow_mut();
            let db = &mut dbs[db as usize];
            db.expiring += usize::from(entry.expires.is_some());
            db.keys.insert(key.into(), entry);
        }
        self.notify(class::NEW, "new", db, key);
    }

    /// Tells the module that its value leaves a name.
    pub fn unlink(&self, db: u32, key: &[u8], value: *mut c_void) {
        if let Some(unlink) = self.methods().unlink2 {
            let name = text::new(key);
            let mut names = Names { from: (db, name), to: None };
            // SAFETY: the names live for the call, the value is the module's.
            unsafe {
                unlink((&raw mut names).cast(), value);
                text::release(name);
            }
        }
    }

    /// Frees a value: a large one perhaps on another thread, perhaps later.
    pub fn free(&self, _db: u32, key: &[u8], value: Value, is_lazy: bool) {
        /// Allocations that are freed in the foreground.
        const EFFORT: usize = 64;
        let Value::Module(value) = value else { return };
        let effort = match self.methods().free_effort {
            Some(effort) if is_lazy => {
                let name = text::new(key);
                // SAFETY: the name lives for the call, the value is the module's.
                unsafe {
                    let effort = effort(name.cast(), value);
                    text::release(name);
                    effort
                }
            }
            _ => 1,
        };
        if is_lazy && (effort == 0 || effort > EFFORT) {
            self.freed_later.borrow_mut().push(value);
        } else {
            self.free_now(value);
        }
    }

    pub fn free_now(&self, value: *mut c_void) {
        let free = self.methods().free.expect("a type has it");
        // SAFETY: the value left the table, and is freed once.
        unsafe { free(value) };
    }

    /// Frees on another thread what was left to it.
    pub fn free_lazily(&self) {
        struct Values(Vec<*mut c_void>);
        // SAFETY: the other thread alone uses them.
        unsafe impl Send for Values {}
        let values = Values(self.freed_later.take());
        if values.0.is_empty() {
            return;
        }
        let free = self.methods().free.expect("a type has it");
        let run = move || {
            let values = values;
            // SAFETY: as in `free_now`.
            values.0.into_iter().for_each(|value| unsafe { free(value) });
        };
        // Starting a thread takes as long as a pass, or longer.
        if self.random().is_multiple_of(8) {
            std::thread::spawn(run).join().expect("no panic");
        } else {
            run();
        }
    }

    /// Empties a database, or all. Returns the number of keys that it had.
    pub fn empty(&self, only: Option<u32>, is_lazy: bool) -> usize {
        let mut count = 0;
        for db in 0..DATABASES as u32 {
            if only.is_none_or(|only| only == db) {
                let emptied = std::mem::take(&mut self.dbs.borrow_mut()[db as usize]);
                self.changes.set(self.changes.get() + 1);
                count += emptied.keys.len();
                for (_, entry) in emptied.keys {
                    match entry.value {
                        Value::Module(value) if is_lazy => {
                            self.freed_later.borrow_mut().push(value);
                        }
                        Value::Module(value) => self.free_now(value),
                        _ => {}
                    }
                }
            }
        }
        count
    }

    /// Returns some names after one, in order.
    pub fn names_after(&self, db: u32, after: Option<&[u8]>, most: usize) -> Vec<Box<[u8]>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let dbs = self.dbs.borrow();
        let from = after.map_or(Unbounded, Excluded);
        let range = dbs[db as usize].keys.range::<[u8], _>((from, Unbounded));
        range.take(most).map(|(key, _)| key.clone()).collect()
    }
}
