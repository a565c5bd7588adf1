//! What a dehydrator is, as plainly as it can be said: a list, searched from end to end.
//!
//! It knows nothing of queues, heaps or indexes, and reads no clock: the test hands it the time.

mod op;

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

pub use op::{IfThere, Moment, Op, Policy};

/// The latest deadline there is, and the largest number that any argument may be.
pub const MAX: u64 = i64::MAX as u64;

pub type Bytes = Vec<u8>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub deadline: u64,
    /// The order of pushing, leasing and touching.
    pub sequence: u64,
    pub id: Bytes,
    pub element: Bytes,
    pub ttl: u64,
    pub deliveries: u64,
    /// Under which it is held.
    pub token: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Dehydrator {
    pub entries: Vec<Entry>,
    pub policy: Policy,
    /// When a pause ends; [`MAX`]: when it is resumed.
    pub pause: Option<u64>,
}

#[derive(Clone, Debug)]
pub enum Kept {
    Dehydrator(Dehydrator),
    Text,
}

/// What is to be replied.
#[derive(PartialEq, Debug)]
pub enum Expect {
    Is(Value),
    /// About so many milliseconds, and not 0: the server's clock has moved on a little.
    Near(u64),
    /// An error that starts with this.
    Refused(&'static str),
    /// An id that nobody has.
    NewId,
    /// Rows of id, element and deliveries, each with a token that the server has drawn.
    Leased(Vec<Vec<Value>>),
    /// That of one of several keys, with its name.
    From(&'static str, Box<Expect>),
    /// What this dehydrator shows to somebody who only looks.
    Shown(Box<Dehydrator>),
}

/// What came due in a dehydrator with a policy, in order.
#[derive(Clone, Debug)]
pub struct Delivered {
    pub db: usize,
    pub policy: Policy,
    pub elements: Vec<(Bytes, Bytes, u64)>,
}

/// All databases.
#[derive(Clone, Default, Debug)]
pub struct World {
    pub dbs: [BTreeMap<&'static str, Kept>; 2],
    sequence: u64,
    /// What was moved by the way.
    delivered: Vec<Delivered>,
    /// Dead letters that whoever asked for elements has met.
    met: Vec<(Bytes, Bytes, u64)>,
}

const WRONG_TYPE: Expect = Expect::Refused("WRONGTYPE");
const REFUSED: Expect = Expect::Refused("ERR");

fn int(number: u64) -> Expect {
    Expect::Is(Value::Int(number as i64))
}

fn bulk(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

/// The rows that POLL replies under a lease.
fn leased(rows: Vec<Vec<Value>>, token: u64) -> Expect {
    let token = bulk(token.to_string().as_bytes());
    let row = |row: Vec<Value>| Value::Array([row, vec![token.clone()]].concat());
    Expect::Is(Value::Array(rows.into_iter().map(row).collect()))
}

/// The TTL, rounded up to the coarsest power of two by which it is no more than `slack` later.
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

    /// All of it, in the order of delivery.
    pub fn ordered(&self) -> Vec<&Entry> {
        let mut all: Vec<_> = self.entries.iter().collect();
        all.sort_by_key(|entry| (entry.deadline, entry.sequence));
        all
    }

    /// As [`Dehydrator::ordered`], without dead letters.
    pub fn alive(&self) -> Vec<&Entry> {
        let is_dead = |entry: &Entry| self.policy.holds() && self.policy.sends(entry);
        self.ordered().into_iter().filter(|entry| !is_dead(entry)).collect()
    }

    pub fn is_paused(&self, now: u64) -> bool {
        self.pause.is_some_and(|end| end > now)
    }

    /// Takes out what comes first and goes by the policy.
    fn bury(&mut self, now: u64) -> Vec<(Bytes, Bytes, u64)> {
        let mut dead = Vec::new();
        if self.is_paused(now) {
            return dead;
        }
        for id in self.due(now) {
            let at = self.find(&id).expect("it is due");
            if !self.policy.sends(&self.entries[at]) {
                break;
            }
            let entry = self.entries.remove(at);
            dead.push((entry.id, entry.element, entry.deliveries));
        }
        dead
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

    /// Does it, and says what the server replies to it; in a transaction nobody sleeps.
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
        let is_too_long = match op {
            Op::Push { ttl, slack, .. } | Op::GidPush { ttl, slack, .. } => {
                rounded(*ttl, *slack).is_none()
            }
            Op::MPush { elements, slack, .. } => {
                elements.iter().any(|(ttl, ..)| rounded(*ttl, *slack).is_none())
            }
            _ => false,
        };
        if is_too_long {
            return REFUSED;
        }
        let mut inside = match self.dbs[db].get(key) {
            Some(Kept::Text) => return WRONG_TYPE,
            Some(Kept::Dehydrator(dehydrator)) => dehydrator.clone(),
            None => Dehydrator::default(),
        };
        let policy = inside.policy.clone();
        let expect = self.within(&mut inside, op, now, transaction);
        if !self.met.is_empty() {
            let elements = std::mem::take(&mut self.met);
            self.delivered.push(Delivered { db, policy, elements });
        }
        // What is empty is no key, unless it has a policy or is paused.
        if inside.entries.is_empty() && inside.policy == Policy::Hold && inside.pause.is_none() {
            self.dbs[db].remove(key);
        } else {
            self.dbs[db].insert(key, Kept::Dehydrator(inside));
        }
        expect
    }

    /// What the first key replies that holds something under the token already, or gives something out.
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
        let gives = |it: &Dehydrator| !it.is_paused(now) && !it.due(now).is_empty();
        let has = |world: &Self, key: &str, has: &dyn Fn(&Dehydrator) -> bool| {
            world.dehydrator(db, key).is_some_and(has)
        };
        let held = keys.iter().find(|key| has(self, key, &holds));
        for key in held.map_or(keys, std::slice::from_ref).to_vec() {
            if held.is_none() && !has(self, key, &gives) {
                continue;
            }
            match self.apply(db, key, poll, now, transaction) {
                // They were all dead letters.
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

    fn within(&mut self, it: &mut Dehydrator, op: &Op, now: u64, transaction: bool) -> Expect {
        let at_or = |at: Option<u64>, ttl: u64| {
            at.or_else(|| now.checked_add(ttl).filter(|deadline| *deadline <= MAX))
        };
        match op {
            Op::Push { ttl, element, id, if_there, slack, at, deliveries, token } => {
                let ttl = rounded(*ttl, *slack).expect("seen to before");
                let Some(deadline) = at_or(*at, ttl) else { return REFUSED };
                match (it.find(id), if_there) {
                    (Some(_), IfThere::Refuse) => return Expect::Refused("EXISTS"),
                    (Some(_), IfThere::Nx) => return Expect::Is(Value::Nil),
                    (Some(old), IfThere::Replace) => drop(it.entries.remove(old)),
                    (None, _) => {}
                }
                it.entries.push(Entry {
                    deadline,
                    sequence: self.next(),
                    id: id.clone(),
                    element: element.clone(),
                    ttl,
                    deliveries: deliveries.unwrap_or(0),
                    token: *token,
                });
                Expect::Is(Value::Okay)
            }
            Op::GidPush { ttl, slack, .. } => {
                let ttl = rounded(*ttl, *slack).expect("seen to before");
                // The id is known when the reply has come: see `named`.
                if at_or(None, ttl).is_some() { Expect::NewId } else { REFUSED }
            }
            Op::MPush { elements, if_there, slack, at } => {
                let timer = |(ttl, ..): &(u64, Bytes, Bytes)| {
                    let ttl = rounded(*ttl, *slack).expect("seen to before");
                    Some((ttl, at_or(*at, ttl)?))
                };
                let timers: Option<Vec<_>> = elements.iter().map(timer).collect();
                let Some(timers) = timers else { return REFUSED };
                let ids: BTreeSet<_> = elements.iter().map(|(_, _, id)| id).collect();
                let is_any_there =
                    ids.len() < elements.len() || ids.iter().any(|id| it.find(id).is_some());
                if *if_there == IfThere::Refuse && is_any_there {
                    return Expect::Refused("EXISTS");
                }
                let mut started = Vec::new();
                for ((_, element, id), (ttl, deadline)) in elements.iter().zip(timers) {
                    let found = it.find(id);
                    let is_started = found.is_none() || *if_there == IfThere::Replace;
                    if is_started {
                        found.map(|found| it.entries.remove(found));
                        it.entries.push(Entry {
                            deadline,
                            sequence: self.next(),
                            id: id.clone(),
                            element: element.clone(),
                            ttl,
                            deliveries: 0,
                            token: None,
                        });
                    }
                    started.push(Value::Int(is_started.into()));
                }
                Expect::Is(Value::Array(started))
            }
            Op::Pull(id) => {
                Expect::Is(it.take(id).map_or(Value::Nil, |entry| Value::BulkString(entry.element)))
            }
            Op::Poll { count, block, lease, token, with_ids } => {
                if let Some(lease) = lease
                    && (*lease == 0 || at_or(None, *lease).is_none())
                {
                    return REFUSED;
                }
                let row = |entry: &Entry| {
                    let deliveries = Value::Int(entry.deliveries as i64);
                    vec![bulk(&entry.id), bulk(&entry.element), deliveries]
                };
                let count = count.unwrap_or(MAX) as usize;
                if let Some(token) = token {
                    let ordered = it.ordered().into_iter();
                    let held = ordered.filter(|it| it.deadline > now && it.token == Some(*token));
                    let held: Vec<_> = held.take(count).map(row).collect();
                    if !held.is_empty() {
                        return leased(held, *token);
                    }
                }
                if it.is_paused(now) {
                    let sleeps = block.is_some() && !transaction;
                    return Expect::Is(if sleeps { Value::Nil } else { Value::Array(vec![]) });
                }
                // Dead letters in the way are moved; one that is first has somebody sleep until it has gone.
                if block.is_some() && !transaction {
                    let dead = if it.policy.holds() { it.bury(now) } else { Default::default() };
                    self.met.extend(dead);
                    if it.due(now).is_empty() {
                        return Expect::Is(Value::Nil);
                    }
                }
                let (mut given, mut rows) = (Vec::new(), Vec::new());
                for id in it.due(now) {
                    if given.len() + rows.len() == count {
                        break;
                    }
                    let mut entry = it.take(&id).expect("it is due");
                    if it.policy.holds() && it.policy.sends(&entry) {
                        self.met.push((entry.id, entry.element, entry.deliveries));
                        continue;
                    }
                    let (id, element) = (bulk(&entry.id), bulk(&entry.element));
                    match lease {
                        Some(ttl) => {
                            entry.lease(*ttl, now + ttl, self.next(), *token);
                            rows.push(row(&entry));
                            it.entries.push(entry);
                        }
                        None if *with_ids => given.push(Value::Array(vec![id, element])),
                        None => given.push(element),
                    }
                }
                match (lease, token) {
                    (Some(_), Some(token)) => leased(rows, *token),
                    (Some(_), None) => Expect::Leased(rows),
                    (None, _) => Expect::Is(Value::Array(given)),
                }
            }
            Op::XPoll(count) => {
                let due = it.alive().into_iter().filter(|entry| entry.deadline <= now);
                let count = if it.is_paused(now) { 0 } else { count.unwrap_or(MAX) };
                let due = due.take(count as usize);
                Expect::Is(Value::Array(due.map(|entry| bulk(&entry.id)).collect()))
            }
            Op::XAck(ids) => {
                let mut replies = Vec::new();
                for id in ids {
                    let is_out = |at: &usize| {
                        it.entries[*at].deadline <= now || it.entries[*at].deliveries > 0
                    };
                    let found = it.find(id).filter(is_out).map(|at| it.entries.remove(at));
                    replies.push(found.map_or(Value::Nil, |it| Value::BulkString(it.element)));
                }
                Expect::Is(Value::Array(replies))
            }
            Op::Settle(held) => {
                let mut replies = Vec::new();
                for (token, id) in held {
                    let found = it.held(*token, id).map(|at| it.entries.remove(at));
                    replies.push(Value::Int(found.is_some().into()));
                }
                Expect::Is(Value::Array(replies))
            }
            Op::Renew { ttl, held } => {
                let Some(deadline) = at_or(None, *ttl) else { return REFUSED };
                let mut replies = Vec::new();
                for (token, id) in held {
                    let found = it.held(*token, id);
                    replies.push(Value::Int(found.is_some().into()));
                    if let Some(at) = found {
                        let sequence = self.next();
                        it.entries[at].restart(*ttl, deadline, sequence);
                    }
                }
                Expect::Is(Value::Array(replies))
            }
            Op::Look { full: true, .. }
            | Op::Range { .. }
            | Op::Scan { .. }
            | Op::Info { .. }
            | Op::Help => Expect::Shown(Box::new(it.clone())),
            Op::Require { .. } => unreachable!("it is of no key"),
            Op::Look { id, .. } => {
                let found = it.find(id).map(|at| bulk(&it.entries[at].element));
                Expect::Is(found.unwrap_or(Value::Nil))
            }
            Op::Update(id, element) => {
                let Some(at) = it.find(id) else { return Expect::Refused("NOSUCHID") };
                let old = std::mem::replace(&mut it.entries[at].element, element.clone());
                Expect::Is(Value::BulkString(old))
            }
            Op::Touch { ids, ttl, only, at } => {
                let Some(deadline) = at_or(*at, *ttl) else { return REFUSED };
                let mut count = 0;
                for id in ids {
                    let Some(found) = it.find(id) else { continue };
                    let entry = &mut it.entries[found];
                    let holds = match only {
                        None => true,
                        Some("GT") => deadline > entry.deadline,
                        Some(_) => deadline < entry.deadline,
                    };
                    if holds {
                        // With a moment 0 gives nothing back.
                        let keeps = at.is_some() && entry.token.is_some();
                        let ttl = if keeps { (*ttl).max(1) } else { *ttl };
                        entry.restart(ttl, deadline, self.next());
                        count += 1;
                    }
                }
                int(count)
            }
            Op::Rem(ids) => int(ids.iter().filter(|id| it.take(id).is_some()).count() as u64),
            Op::Lease { ttl, token, at, ids } => {
                let mut count = 0;
                for id in ids {
                    if let Some(found) = it.find(id) {
                        it.entries[found].lease(*ttl, *at, self.next(), *token);
                        count += 1;
                    }
                }
                int(count)
            }
            Op::OnDue(policy) => {
                it.policy = policy.clone();
                Expect::Is(Value::Okay)
            }
            Op::OnDueStream(dest, length) => {
                it.policy = Policy::Stream { dest, maxlen: Some((true, *length)) };
                Expect::Is(Value::Okay)
            }
            Op::Pause { ms, at } => {
                let end = match (ms, at) {
                    (Some(ms), _) => at_or(None, *ms),
                    (None, at) => Some(at.unwrap_or(MAX)),
                };
                let Some(end) = end else { return REFUSED };
                it.pause = Some(end);
                Expect::Is(Value::Okay)
            }
            Op::Resume => {
                let was_paused = it.is_paused(now);
                it.pause = None;
                int(was_paused.into())
            }
            Op::Ttn => match it.ordered().first() {
                Some(_) if it.pause == Some(MAX) => Expect::Is(Value::Nil),
                Some(first) => left(first.deadline.max(it.pause.unwrap_or(0)), now),
                None => Expect::Is(Value::Nil),
            },
            Op::Pttl(id) => match it.find(id) {
                Some(at) => left(it.entries[at].deadline, now),
                None => Expect::Is(Value::Int(-2)),
            },
            Op::Len => int(it.entries.len() as u64),
            Op::Nonsense(_) => REFUSED,
            _ => unreachable!("it is of the keyspace"),
        }
    }

    /// A GIDPUSH was replied with this id.
    pub fn named(&mut self, db: usize, key: &'static str, op: &Op, id: Bytes, now: u64) {
        let Op::GidPush { ttl, element, slack } = op else { panic!("{op:?}") };
        let (if_there, at, deliveries, token) = (IfThere::Refuse, None, None, None);
        let (ttl, element, slack) = (*ttl, element.clone(), *slack);
        let push = Op::Push { ttl, element, id, if_there, slack, at, deliveries, token };
        assert_eq!(self.apply(db, key, &push, now, false), Expect::Is(Value::Okay), "a new id");
    }

    /// A POLL was replied with these ids, under this token.
    pub fn held(&mut self, db: usize, key: &'static str, ids: &[Bytes], token: u64) {
        let Some(Kept::Dehydrator(it)) = self.dbs[db].get_mut(key) else { panic!("no {key}") };
        for id in ids {
            let at = it.find(id).expect("it was leased");
            it.entries[at].token = Some(token);
        }
    }

    /// What is done to whole keys.
    fn keyspace(&mut self, db: usize, key: &'static str, op: &Op) -> Option<Expect> {
        Some(match op {
            Op::Nonsense(_) => REFUSED,
            Op::Copy { to, db: there, .. } if *to == key && *there == db => REFUSED,
            Op::Copy { to, db: there, replace } => {
                let is_free = *replace || !self.dbs[*there].contains_key(to);
                let copy = self.dbs[db].get(key).cloned().filter(|_| is_free);
                let count = copy.is_some().into();
                copy.map(|copy| self.dbs[*there].insert(to, copy));
                int(count)
            }
            Op::Rename { .. } if !self.dbs[db].contains_key(key) => REFUSED,
            Op::Rename { to, nx: true } if self.dbs[db].contains_key(to) => int(0),
            Op::Rename { to, nx } => {
                let kept = self.dbs[db].remove(key).expect("it is there");
                self.dbs[db].insert(to, kept);
                if *nx { int(1) } else { Expect::Is(Value::Okay) }
            }
            Op::Move(there) if *there == db => REFUSED,
            Op::Move(there) => {
                let is_free = !self.dbs[*there].contains_key(key);
                let moved = self.dbs[db].contains_key(key) && is_free;
                if moved {
                    let kept = self.dbs[db].remove(key).expect("it is there");
                    self.dbs[*there].insert(key, kept);
                }
                int(moved.into())
            }
            Op::SwapDb(one, other) => {
                self.dbs.swap(*one, *other);
                Expect::Is(Value::Okay)
            }
            Op::Del(_) | Op::Expire => int(self.dbs[db].remove(key).is_some().into()),
            Op::FlushDb => {
                self.dbs[db].clear();
                Expect::Is(Value::Okay)
            }
            Op::Help => Expect::Shown(Box::default()),
            // No level is as high as that.
            Op::Require { level: u64::MAX } => REFUSED,
            Op::Require { .. } => Expect::Is(Value::Okay),
            Op::SetText => {
                self.dbs[db].insert(key, Kept::Text);
                Expect::Is(Value::Okay)
            }
            _ => return None,
        })
    }

    /// How many dehydrators are paused.
    pub fn paused(&self) -> usize {
        let kept = self.dbs.iter().flat_map(BTreeMap::values);
        kept.filter(|kept| matches!(kept, Kept::Dehydrator(it) if it.pause.is_some())).count()
    }

    /// Ends the pauses whose time is over. Returns whether there were any.
    pub fn resume(&mut self, now: u64) -> bool {
        let before = self.paused();
        for keys in &mut self.dbs {
            keys.retain(|_, kept| {
                let Kept::Dehydrator(it) = kept else { return true };
                if it.pause.is_none_or(|end| end == MAX || end > now) {
                    return true;
                }
                it.pause = None;
                !it.entries.is_empty() || it.policy != Policy::Hold
            });
        }
        self.paused() < before
    }

    /// Takes out what policies deliver at this time.
    pub fn deliver(&mut self, now: u64) -> Vec<Delivered> {
        let mut all = std::mem::take(&mut self.delivered);
        for (db, keys) in self.dbs.iter_mut().enumerate() {
            for kept in keys.values_mut() {
                let Kept::Dehydrator(it) = kept else { continue };
                let elements = it.bury(now);
                if !elements.is_empty() {
                    all.push(Delivered { db, policy: it.policy.clone(), elements });
                }
            }
        }
        all
    }
}

impl Entry {
    fn restart(&mut self, ttl: u64, deadline: u64, sequence: u64) {
        (self.ttl, self.deadline, self.sequence) = (ttl, deadline, sequence);
        // It was given back.
        if ttl == 0 {
            self.token = None;
        }
    }

    fn lease(&mut self, ttl: u64, deadline: u64, sequence: u64, token: Option<u64>) {
        self.token = token;
        // It is counted no further than 16 bits go.
        self.deliveries = (self.deliveries + 1).min(65_535);
        (self.ttl, self.deadline, self.sequence) = (ttl, deadline, sequence);
    }
}

fn left(deadline: u64, now: u64) -> Expect {
    match deadline.saturating_sub(now) {
        0 => Expect::Is(Value::Int(0)),
        left => Expect::Near(left),
    }
}
