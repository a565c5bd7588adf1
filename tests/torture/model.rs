//! A model of a dehydrator, as simple as possible: a list, searched from end to end.
//!
//! It has no queues, heaps or indexes, and reads no clock: the test passes the time.

mod keyspace;
mod limits;
mod op;
mod schedules;
mod touch;
mod verbs;

use std::collections::BTreeMap;

use redis::Value;

pub use limits::Limits;
pub use op::{Bounds, DISTANCES, IfThere, Moment, Op, Policy, end_within};

/// The unit of all time in a run: more than four hours, in milliseconds.
pub const GRAIN: u64 = 1 << 24;
/// How far the server's clock can be behind the model.
pub const BEHIND: u64 = GRAIN / 4;
/// The latest possible deadline, and the largest number in any argument.
pub const MAX: u64 = i64::MAX as u64;

pub type Bytes = Vec<u8>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub deadline: u64,
    /// The order of pushes, leases and touches.
    pub sequence: u64,
    pub id: Bytes,
    pub element: Bytes,
    pub ttl: u64,
    pub deliveries: u64,
    /// The token under which it is held.
    pub token: Option<u64>,
    /// The deadline and the sequence number that it had before its lease, if that is known.
    pub was_due: Option<(u64, u64)>,
    /// Why it was given back the last time, or empty.
    pub reason: Bytes,
    /// Whether it is held under a generated token, which may be unknown yet.
    pub is_drawn: bool,
    /// Its own maximum number of deliveries, or 0.
    pub most: u64,
    /// When it is too late to be given out, or 0.
    pub until: u64,
}

/// An element that has left: its id, its content, its deliveries, whether it was too late, and why it was given back.
pub type Gone = (Bytes, Bytes, u64, bool, Bytes);

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Dehydrator {
    pub entries: Vec<Entry>,
    pub policy: Policy,
    /// When a pause ends; [`MAX`]: at RESUME.
    pub pause: Option<u64>,
    pub limits: Limits,
    /// Remembered ids, and until when they are refused.
    pub remembered: BTreeMap<Bytes, u64>,
    /// The words of each schedule, and whether it is paused.
    pub schedules: BTreeMap<Bytes, (Vec<Bytes>, bool)>,
}

#[derive(Clone, Debug)]
pub enum Kept {
    Dehydrator(Dehydrator),
    Text,
}

/// The expected reply.
#[derive(PartialEq, Debug)]
pub enum Expect {
    Is(Value),
    /// About this many milliseconds, and not 0: the server's clock has advanced a little.
    Near(u64),
    /// An error that starts with this.
    Refused(&'static str),
    /// A new id.
    NewId,
    /// Rows of id, element and deliveries, each with a generated token.
    Leased(Vec<Vec<Value>>),
    /// The reply of one of several keys, with its name.
    From(&'static str, Box<Expect>),
    /// The state of this dehydrator, as reads show it.
    Shown(Box<Dehydrator>),
}

/// The elements that came due in a dehydrator with a policy, in order.
#[derive(Clone, Debug)]
pub struct Delivered {
    pub db: usize,
    pub policy: Policy,
    pub elements: Vec<Gone>,
}

/// All databases.
#[derive(Clone, Default, Debug)]
pub struct World {
    pub dbs: [BTreeMap<&'static str, Kept>; 2],
    /// The number of the operation, and below that of the element in it: see [`SEQUENCE_BITS`].
    sequence: u64,
    /// How many elements were put first among those with their deadlines.
    firsts: u64,
    /// Dead letters that were moved along the way.
    delivered: Vec<Delivered>,
    /// Dead letters that a poll came across.
    met: Vec<Gone>,
}

/// The bits of a sequence number that count within an operation: up from the middle, and for elements that are put first among
/// those with their deadline, down from there.
const SEQUENCE_BITS: u32 = 40;
/// Where the sequence numbers within an operation begin.
const MIDDLE: u64 = 1 << (SEQUENCE_BITS - 1);

const WRONG_TYPE: Expect = Expect::Refused("WRONGTYPE");
const REFUSED: Expect = Expect::Refused("ERR");

fn int(number: u64) -> Expect {
    Expect::Is(Value::Int(number as i64))
}

fn bulk(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

/// Returns the rows that POLL replies with a lease.
fn leased(rows: Vec<Vec<Value>>, token: u64) -> Expect {
    let token = bulk(token.to_string().as_bytes());
    let row = |row: Vec<Value>| Value::Array([row, vec![token.clone()]].concat());
    Expect::Is(Value::Array(rows.into_iter().map(row).collect()))
}

/// Returns the TTL, rounded up to the coarsest power of two that adds no more than `slack`.
pub fn rounded(ttl: u64, slack: Option<u64>) -> Option<u64> {
    let mut step = 1;
    while step * 2 - 1 <= slack.unwrap_or(0) {
        step *= 2;
    }
    Some(ttl.next_multiple_of(step)).filter(|ttl| *ttl <= MAX)
}

impl Dehydrator {
    pub fn find(&self, id: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| entry.id == id)
    }

    fn held(&self, token: u64, id: &[u8]) -> Option<usize> {
        let is_held = |at: &usize| self.entries[*at].token == Some(token);
        self.find(id).filter(is_held)
    }

    fn take(&mut self, id: &[u8]) -> Option<Entry> {
        self.find(id).map(|at| self.entries.remove(at))
    }

    /// Removes elements one after the other. Returns how many there were.
    fn remove_each(&mut self, ids: &[Bytes]) -> u64 {
        ids.iter().filter(|id| self.take(id).is_some()).count() as u64
    }

    /// Returns everything in the order of delivery.
    pub fn ordered(&self) -> Vec<&Entry> {
        let mut all: Vec<_> = self.entries.iter().collect();
        all.sort_by_key(|entry| (entry.deadline, entry.sequence));
        all
    }

    /// Like [`Dehydrator::ordered`], without dead letters.
    pub fn alive(&self, now: u64) -> Vec<&Entry> {
        let is_dead =
            |entry: &Entry| entry.is_late(now) || self.policy.holds() && self.policy.sends(entry);
        self.ordered().into_iter().filter(|entry| !is_dead(entry)).collect()
    }

    /// Returns whether it is deleted.
    fn is_idle(&self) -> bool {
        let is_usual = self.policy == Policy::Hold && self.pause.is_none() && !self.limits.is_any();
        self.entries.is_empty() && is_usual && self.schedules.is_empty()
    }

    pub fn is_paused(&self, now: u64) -> bool {
        self.pause.is_some_and(|end| end > now)
    }

    /// Takes what is too late, which only a limit keeps.
    fn bury_late(&mut self, now: u64) -> Vec<Gone> {
        let mut late: Vec<_> = self.entries.iter().filter(|it| it.is_late(now)).cloned().collect();
        late.sort_by_key(|entry| (entry.until.max(entry.deadline), entry.sequence));
        let ids: Vec<_> = late.iter().map(|entry| entry.id.clone()).collect();
        self.remove_each(&ids);
        late.retain(|_| matches!(self.policy, Policy::Limit(..)));
        late.into_iter()
            .map(|it| (it.id, it.element, it.deliveries, true, b"expired".to_vec()))
            .collect()
    }

    /// Takes the first elements and applies the policy.
    fn bury(&mut self, now: u64) -> Vec<Gone> {
        if self.is_paused(now) {
            return Vec::new();
        }
        let mut dead = self.bury_late(now);
        let late = dead.len() as u64;
        let most = self.deliverable(now);
        while dead.len() as u64 - late < most
            && let Some(at) = self.first_due(now)
        {
            if !self.policy.sends(&self.entries[at]) {
                break;
            }
            let entry = self.entries.remove(at);
            if !self.policy.holds() {
                self.done(&entry.id, now);
            }
            dead.push((entry.id, entry.element, entry.deliveries, false, entry.reason));
        }
        if most < MAX {
            self.limits.give(now, dead.len() as u64 - late);
        }
        dead
    }

    /// Returns the first element, if it is due.
    fn first_due(&self, now: u64) -> Option<usize> {
        let place = |entry: &Entry| (entry.deadline, entry.sequence);
        let first = (0..self.entries.len()).min_by_key(|at| place(&self.entries[*at]));
        first.filter(|at| self.entries[*at].deadline <= now)
    }

    pub fn due(&self, now: u64) -> Vec<Bytes> {
        let ordered = self.ordered().into_iter();
        ordered.filter(|entry| entry.deadline <= now).map(|entry| entry.id.clone()).collect()
    }
}

impl World {
    pub fn dehydrator(&self, db: usize, key: &str) -> Option<&Dehydrator> {
        match self.dbs[db].get(key) {
            Some(Kept::Dehydrator(dehydrator)) => Some(dehydrator),
            _ => None,
        }
    }

    /// Applies an operation, and returns the expected reply; in a transaction, nothing blocks.
    pub fn apply(
        &mut self,
        db: usize,
        key: &'static str,
        op: &Op,
        now: u64,
        transaction: bool,
    ) -> Expect {
        if let Some(expect) = self.keyspace(db, key, op) {
            return expect;
        }
        if let Op::MPoll { keys, poll } = op {
            return self.first_of(db, keys, poll, now, transaction);
        }
        let is_refused = match op {
            Op::Push { ttl, slack, .. } | Op::GidPush { ttl, slack, .. } => {
                rounded(*ttl, *slack).is_none()
            }
            Op::MPush { elements, slack, .. } => {
                elements.iter().any(|(ttl, ..)| rounded(*ttl, *slack).is_none())
            }
            _ => false,
        };
        if is_refused {
            return REFUSED;
        }
        let mut inside = match self.dbs[db].get(key) {
            Some(Kept::Text) => return WRONG_TYPE,
            Some(Kept::Dehydrator(dehydrator)) => dehydrator.clone(),
            None => Dehydrator::default(),
        };
        self.sequence = (((self.sequence >> SEQUENCE_BITS) + 1) << SEQUENCE_BITS) + MIDDLE;
        let policy = inside.policy.clone();
        let expect = self.within(&mut inside, op, now, transaction);
        if !self.met.is_empty() {
            let elements = std::mem::take(&mut self.met);
            self.delivered.push(Delivered { db, policy, elements });
        }
        // An empty dehydrator is deleted, unless it has a policy or limits, or is paused.
        if inside.is_idle() {
            self.dbs[db].remove(key);
        } else {
            self.dbs[db].insert(key, Kept::Dehydrator(inside));
        }
        expect
    }

    /// Returns the reply of the first key that already holds elements under the token, or delivers some.
    fn first_of(
        &mut self,
        db: usize,
        keys: &[&'static str],
        poll: &Op,
        now: u64,
        transaction: bool,
    ) -> Expect {
        let Op::Poll { lease, token, .. } = poll else { panic!("{poll:?}") };
        if keys.iter().any(|key| matches!(self.dbs[db].get(key), Some(Kept::Text))) {
            return WRONG_TYPE;
        }
        if lease.is_some_and(|lease| now.checked_add(lease).is_none_or(|end| end > MAX)) {
            return REFUSED;
        }
        let holds = |it: &Dehydrator| {
            let is_held = |it: &Entry| token.is_some() && it.token == *token && it.deadline > now;
            it.entries.iter().any(is_held)
        };
        let gives =
            |it: &Dehydrator| !it.is_paused(now) && !it.due(now).is_empty() && it.room(now) > 0;
        let has = |world: &Self, key: &str, has: &dyn Fn(&Dehydrator) -> bool| {
            world.dehydrator(db, key).is_some_and(has)
        };
        let held = keys.iter().find(|key| has(self, key, &holds));
        for key in held.map_or(keys, std::slice::from_ref).to_vec() {
            if held.is_none() && !has(self, key, &gives) {
                continue;
            }
            match self.apply(db, key, poll, now, transaction) {
                // All were dead letters, or held back.
                Expect::Is(Value::Nil) => {}
                Expect::Is(Value::Array(none)) if none.is_empty() => {}
                Expect::Leased(none) if none.is_empty() => {}
                expect => return Expect::From(key, Box::new(expect)),
            }
        }
        Expect::Is(Value::Nil)
    }

    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Returns the sequence number of an element that is put first among those with its deadline, which came with `before`. What was
    /// not counted from the clock may be of several operations.
    fn first(&mut self, deadline: u64, before: u64) -> u64 {
        self.firsts += 1;
        let operation = if deadline % GRAIN == BEHIND { before >> SEQUENCE_BITS } else { 0 };
        (operation << SEQUENCE_BITS) + MIDDLE - self.firsts
    }

    /// Records the id that a GIDPUSH replied.
    pub fn named(&mut self, db: usize, key: &'static str, op: &Op, id: Bytes, now: u64) {
        let Op::GidPush { ttl, element, slack, at, bounds } = op else { panic!("{op:?}") };
        let (if_there, deliveries, token) = (IfThere::Refuse, None, None);
        let (ttl, element, slack, at, bounds) = (*ttl, element.clone(), *slack, *at, *bounds);
        let push = Op::Push { ttl, element, id, if_there, slack, at, deliveries, token, bounds };
        assert_eq!(self.apply(db, key, &push, now, false), Expect::Is(Value::Okay), "a new id");
    }

    /// Records the ids and the token that a POLL replied.
    pub fn held(&mut self, db: usize, key: &'static str, ids: &[Bytes], token: u64) {
        let Some(Kept::Dehydrator(it)) = self.dbs[db].get_mut(key) else { panic!("no {key}") };
        for id in ids {
            let at = it.find(id).expect("it was leased");
            it.entries[at].token = Some(token);
        }
    }

    /// Returns how many dehydrators are paused.
    pub fn paused(&self) -> usize {
        let kept = self.dbs.iter().flat_map(BTreeMap::values);
        kept.filter(|kept| matches!(kept, Kept::Dehydrator(it) if it.pause.is_some())).count()
    }

    /// Ends pauses whose time is over. Returns whether there were any.
    pub fn resume(&mut self, now: u64) -> bool {
        let before = self.paused();
        for keys in &mut self.dbs {
            keys.retain(|_, kept| {
                let Kept::Dehydrator(it) = kept else { return true };
                if it.pause.is_none_or(|end| end == MAX || end > now) {
                    return true;
                }
                it.pause = None;
                !it.is_idle()
            });
        }
        self.paused() < before
    }

    /// Takes the elements that policies deliver at this time.
    pub fn deliver(&mut self, now: u64) -> Vec<Delivered> {
        let mut all = std::mem::take(&mut self.delivered);
        for (db, keys) in self.dbs.iter_mut().enumerate() {
            for kept in keys.values_mut() {
                let Kept::Dehydrator(it) = kept else { continue };
                let before = it.entries.len();
                let elements = it.bury(now);
                if it.entries.len() < before {
                    all.push(Delivered { db, policy: it.policy.clone(), elements });
                }
            }
            keys.retain(|_, kept| match kept {
                Kept::Dehydrator(it) => !it.is_idle(),
                Kept::Text => true,
            });
        }
        all
    }
}

impl Entry {
    /// Returns the moment from which on it is too late; 0 for none.
    pub fn end(&self) -> u64 {
        match self.until.checked_sub(DISTANCES) {
            Some(ms) => (self.deadline + ms).min(MAX),
            None => self.until,
        }
    }

    /// Returns whether it is due, and too late to be given out.
    pub fn is_late(&self, now: u64) -> bool {
        self.until > 0 && self.until.max(self.deadline) <= now
    }

    fn restart(&mut self, ttl: u64, deadline: u64, sequence: u64) {
        (self.ttl, self.deadline, self.sequence) = (ttl, deadline, sequence);
        // It was given back.
        if ttl == 0 {
            (self.token, self.is_drawn) = (None, false);
        }
    }

    fn lease(&mut self, ttl: u64, deadline: u64, sequence: u64, token: Option<u64>) {
        (self.token, self.is_drawn) = (token, false);
        // A moment has 48 bits, and 0 is none.
        let began = deadline.saturating_sub(ttl).min((1 << 48) - 1);
        let due =
            if self.deadline <= began { (self.deadline, self.sequence) } else { (began, sequence) };
        self.was_due = (began > 0).then_some(due);
        // The count stops at 16 bits.
        self.deliveries = (self.deliveries + 1).min(65_535);
        (self.ttl, self.deadline, self.sequence) = (ttl, deadline, sequence);
    }
}
