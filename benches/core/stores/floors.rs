//! The costs of ids and elements without timers: no store can be much below.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;
use hashbrown::{HashMap, HashTable};

use crate::store::{Id, Payload, Store};

/// An element with the deadline that any store of timers must keep.
#[derive(Clone)]
struct Record {
    #[allow(dead_code, reason = "it takes its room")]
    deadline: u64,
    id: Id,
    payload: Payload,
}

/// hashbrown, keyed by id, and one allocation for each record.
pub struct Boxes(HashMap<Id, Box<Record>, RandomState>);

impl Store for Boxes {
    const NAME: &'static str = "floor-boxes";
    const LABEL: &'static str = "floor: hashbrown, one allocation per record";
    const TIMERS: bool = false;

    fn new(_now: u64) -> Self {
        Self(HashMap::with_hasher(RandomState::new()))
    }

    fn start(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        let record = Box::new(Record { deadline: now + ttl, id: *id, payload: *payload });
        let before = self.0.insert(*id, record);
        assert!(before.is_none(), "an id is started twice");
    }

    fn restart(&mut self, id: &Id, ttl: u64, now: u64) -> bool {
        let Some(record) = self.0.get_mut(id) else { return false };
        record.deadline = now + ttl;
        true
    }

    fn stop(&mut self, id: &Id) -> Option<Payload> {
        self.0.remove(id).map(|record| record.payload)
    }

    fn expire(&mut self, _now: u64, _sink: &mut impl FnMut(&Id, &Payload)) {}

    fn rearm(&mut self, _now: u64, _ttl: &mut impl FnMut() -> u64) -> usize {
        0
    }
}

/// Records in chunks, and a table of (hash, handle).
pub struct Arena {
    hasher: RandomState,
    table: HashTable<(u32, u32)>,
    chunks: Vec<Vec<Record>>,
    free: Vec<u32>,
}

const CHUNK: usize = 1024;

impl Arena {
    fn hash(&self, id: &Id) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(id);
        hasher.finish() as u32
    }
}

/// Spreads a hash: hashbrown takes its tag from the top bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

fn at(chunks: &[Vec<Record>], handle: u32) -> &Record {
    &chunks[handle as usize / CHUNK][handle as usize % CHUNK]
}

impl Store for Arena {
    const NAME: &'static str = "floor-arena";
    const LABEL: &'static str = "floor: table of (hash, handle), record arena";
    const TIMERS: bool = false;

    fn new(_now: u64) -> Self {
        let table = HashTable::new();
        Self { hasher: RandomState::new(), table, chunks: Vec::new(), free: Vec::new() }
    }

    fn start(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        let hash = self.hash(id);
        let is_it = |entry: &(u32, u32)| entry.0 == hash && at(&self.chunks, entry.1).id == *id;
        assert!(self.table.find(spread(hash), is_it).is_none(), "an id is started twice");
        let record = Record { deadline: now + ttl, id: *id, payload: *payload };
        let handle = if let Some(handle) = self.free.pop() {
            self.chunks[handle as usize / CHUNK][handle as usize % CHUNK] = record;
            handle
        } else {
            if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
                self.chunks.push(Vec::with_capacity(CHUNK));
            }
            let before = (self.chunks.len() - 1) * CHUNK;
            let chunk = self.chunks.last_mut().expect("there is one");
            chunk.push(record);
            (before + chunk.len() - 1) as u32
        };
        self.table.insert_unique(spread(hash), (hash, handle), |entry| spread(entry.0));
    }

    fn restart(&mut self, id: &Id, ttl: u64, now: u64) -> bool {
        let hash = self.hash(id);
        let is_it = |entry: &(u32, u32)| entry.0 == hash && at(&self.chunks, entry.1).id == *id;
        let Some(&(_, handle)) = self.table.find(spread(hash), is_it) else { return false };
        self.chunks[handle as usize / CHUNK][handle as usize % CHUNK].deadline = now + ttl;
        true
    }

    fn stop(&mut self, id: &Id) -> Option<Payload> {
        let hash = self.hash(id);
        let is_it = |entry: &(u32, u32)| entry.0 == hash && at(&self.chunks, entry.1).id == *id;
        let entry = self.table.find_entry(spread(hash), is_it).ok()?;
        let ((_, handle), _) = entry.remove();
        self.free.push(handle);
        Some(at(&self.chunks, handle).payload)
    }

    fn expire(&mut self, _now: u64, _sink: &mut impl FnMut(&Id, &Payload)) {}

    fn rearm(&mut self, _now: u64, _ttl: &mut impl FnMut() -> u64) -> usize {
        0
    }
}
