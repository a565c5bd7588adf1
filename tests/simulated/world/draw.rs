//! Draws profiles and steps. Extremes are drawn on purpose.

use super::op::{At, Held, How, Numbers, Op, Options, Poll};
use super::random::Random;
use super::step::{Command, Profile, Reload, Step};
use crate::judges::dehydrator::Policy;
use crate::judges::{Bytes, NEVER};
use crate::machine::Kind;

/// Words of the module's own syntax, and what looks like numbers: as ids, groups, keys and tokens.
const WORDS: [&str; 24] = [
    "group",
    "GROUP",
    "prefix",
    "IDS",
    "ids",
    "AT",
    "TOKEN",
    "token",
    "UNCOUNTED",
    "UNTIL",
    "NX",
    "REPLACE",
    "GT",
    "LT",
    "0",
    "1",
    "-1",
    "0@0",
    "EACH",
    "HOLD",
    "COUNT",
    "DELIVERED",
    "REMEMBER",
    "LEASE",
];
const PLAIN: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
pub const CLIENTS: usize = 6;
pub const STREAM: &[u8] = b"stream";
pub const LIST: &[u8] = b"list";
pub const CHANNEL: &[u8] = b"channel";

impl Profile {
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let has_words = random.one_in(3);
        let mut names = |most: u64, other: &[&str]| -> Vec<Bytes> {
            let count = 1 + random.below(most);
            let mut names: Vec<Bytes> = Vec::new();
            for _ in 0..count {
                let name = match random.below(12) {
                    0 if has_words => Vec::new(),
                    1 if has_words => b"\0\r\n\xff".to_vec(),
                    _ if has_words => random.pick(&WORDS).as_bytes().to_vec(),
                    _ => random.pick(other).as_bytes().to_vec(),
                };
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names
        };
        let keys = names(3, &["k", "q", "r"]);
        let ids = names(12, &PLAIN);
        let mut groups = names(4, &["red", "green", "blue"]);
        groups.retain(|group| !group.is_empty());
        let mut tokens = names(4, &["t1", "t2", "t3", "7", "4000000000000000000"]);
        tokens.retain(|token| !token.is_empty());
        tokens.push(b"t".to_vec());
        if random.one_in(3) {
            groups.clear();
        }
        let kinds = [Kind::Redis70, Kind::Redis8, Kind::Valkey8, Kind::Valkey9];
        let is_big = random.one_in(200);
        let mut has = |many: u64| random.one_in(many);
        Self {
            seed,
            read_ns: if is_big { 20_000 } else { 1000 },
            keys,
            ids,
            groups,
            tokens,
            has_policies: has(3),
            has_limits: has(2),
            has_pauses: has(3),
            has_ends: has(3),
            has_sleepers: has(2),
            has_keyspace: has(3),
            has_extremes: has(3),
            has_replica: has(2),
            has_reloads: has(3),
            has_tool: has(6),
            has_clock: has(8),
            has_operators: has(3),
            is_big,
            kind: random.pick(&kinds),
        }
    }
}

pub struct Drawer<'a> {
    profile: &'a Profile,
    random: Random,
    number: usize,
}

impl<'a> Drawer<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        Self { profile, random: Random::new(profile.seed ^ 0x5eed), number: 0 }
    }

    pub fn steps(&mut self) -> Vec<Step> {
        let many = if self.profile.is_big { 30 } else { 40 + self.random.below(400) };
        let mut steps = Vec::new();
        while (steps.len() as u64) < many {
            self.step(&mut steps);
        }
        steps.push(Step::Compare);
        steps
    }

    fn id(&mut self) -> Bytes {
        self.random.pick(&self.profile.ids)
    }

    fn ids(&mut self) -> Vec<Bytes> {
        (0..=self.random.below(3)).map(|_| self.id()).collect()
    }

    fn key(&mut self) -> Bytes {
        self.random.pick(&self.profile.keys)
    }

    fn group(&mut self) -> Option<Bytes> {
        let is_any = !self.profile.groups.is_empty() && !self.random.one_in(4);
        is_any.then(|| self.random.pick(&self.profile.groups))
    }

    fn a_group(&mut self) -> Bytes {
        if self.profile.is_big && self.random.one_in(2) {
            return format!("g{}", self.random.below(20)).into_bytes();
        }
        self.group().unwrap_or_else(|| b"red".to_vec())
    }

    fn ttl(&mut self) -> u64 {
        if self.profile.has_extremes && self.random.one_in(20) {
            return self.random.pick(&[NEVER, 1 << 53, 1 << 48, NEVER - (1 << 50)]);
        }
        self.random.pick(&[0, 0, 0, 1, 3, 10, 100, 1000, 1500, 60_000])
    }

    fn lease(&mut self) -> u64 {
        self.random.pick(&[1, 5, 50, 50, 500, 500, 5000, 60_000])
    }

    fn at(&mut self) -> Option<At> {
        if !self.random.one_in(5) {
            return None;
        }
        let extremes = [
            At::On(0),
            At::On(1),
            At::On(NEVER - 1),
            At::On((1 << 48) - 1),
            At::On(1 << 48),
            At::On(1 << 53),
        ];
        if self.profile.has_extremes && self.random.one_in(2) {
            return Some(self.random.pick(&extremes));
        }
        Some(At::In(self.random.pick(&[-5000, -1, 0, 0, 1, 20, 300, 2000])))
    }

    fn options(&mut self) -> Options {
        let at = self.at();
        let ends = self.profile.has_ends && self.random.one_in(2);
        let most =
            (self.profile.has_policies && self.random.one_in(5)).then(|| 1 + self.random.below(3));
        Options {
            at,
            slack: (at.is_none() && self.random.one_in(12))
                .then(|| self.random.pick(&[0, 1, 7, 100])),
            most,
            within: ends.then(|| self.random.pick(&[1, 10, 300, 2000, 600_000])),
            group: self.group(),
        }
    }

    fn held(&mut self) -> Vec<Held> {
        let one = |it: &mut Self| {
            if it.random.one_in(4) {
                Held::Named(it.random.pick(&it.profile.tokens), it.id())
            } else {
                Held::Nth(it.random.below(8) as usize)
            }
        };
        (0..=self.random.below(2)).map(|_| one(self)).collect()
    }

    fn route(&mut self) -> Policy {
        match self.random.below(7) {
            0 => Policy::Drop,
            1 => Policy::Publish(CHANNEL.to_vec()),
            2..4 => Policy::List(LIST.to_vec()),
            _ => Policy::Stream(STREAM.to_vec()),
        }
    }

    fn policy(&mut self) -> Policy {
        match self.random.below(6) {
            0..2 => Policy::Hold,
            2 => self.route(),
            _ => {
                let mut route = self.route();
                // What is dropped leaves no trace, and whose turn it is, the model does not know.
                if route == Policy::Drop && !self.profile.groups.is_empty() {
                    route = Policy::List(LIST.to_vec());
                }
                Policy::Limit(1 + self.random.below(3), Box::new(route))
            }
        }
    }

    fn poll(&mut self) -> Poll {
        let lease = (!self.random.one_in(4)).then(|| self.lease());
        let is_many = self.random.one_in(5);
        let mut keys = vec![self.key()];
        if is_many {
            keys.extend((0..self.random.below(3)).map(|_| self.key()));
        }
        Poll {
            keys,
            is_many,
            count: (!self.random.one_in(4)).then(|| self.random.pick(&[1, 1, 2, 3, 10])),
            block: (self.profile.has_sleepers && self.random.one_in(2))
                .then(|| self.random.pick(&[0, 0, 30, 700])),
            lease,
            token: lease
                .filter(|_| self.random.one_in(2))
                .map(|_| self.random.pick(&self.profile.tokens)),
            with_ids: lease.is_none() && self.random.one_in(2),
        }
    }

    fn rate(&mut self) -> (u64, u64) {
        (self.random.pick(&[0, 1, 1, 2, 5]), self.random.pick(&[1, 50, 1000, 3000]))
    }

    fn limit(&mut self) -> Op {
        let mut numbers = Numbers::default();
        let most = if self.profile.has_extremes { 1 << 40 } else { 3 };
        let small = |it: &mut Self| it.random.pick(&[0, 0, 1, 1, 2, most]);
        if self.random.one_in(3) {
            numbers.length = Some(small(self) * 4);
        }
        if self.random.one_in(2) {
            numbers.held = Some(small(self));
        }
        if self.random.one_in(4) {
            numbers.rate = Some(self.rate());
        }
        if numbers == Numbers::default() {
            numbers.held = Some(0);
        }
        if self.profile.groups.is_empty() || self.random.one_in(4) {
            numbers.remember = self.random.one_in(3).then(|| self.random.pick(&[0, 100, 5000]));
            return Op::Limit(numbers);
        }
        let group = self.random.one_in(2).then(|| self.a_group());
        numbers.share =
            group.as_ref().and_then(|_| self.random.one_in(3).then(|| 1 + self.random.below(3)));
        Op::LimitGroup(group, numbers)
    }

    fn push(&mut self) -> Op {
        let is_many = self.random.one_in(4);
        let mut elements = vec![(self.ttl(), self.id())];
        if is_many {
            elements.extend((0..self.random.below(5)).map(|_| (self.ttl(), self.id())));
        }
        let how = self.random.pick(&[How::Refuse, How::Nx, How::Nx, How::Replace, How::Replace]);
        let size = if self.profile.has_extremes && self.random.one_in(30) {
            300_000
        } else {
            self.random.pick(&[0, 0, 9, 80])
        };
        Op::Push { elements, is_many, how, options: self.options(), size }
    }

    /// Draws how many elements PURGE or TOUCH of a group changes at most.
    fn of_group(&mut self) -> Option<u64> {
        self.random.one_in(2).then(|| self.random.pick(&[1, 2, 1000, 5000]))
    }

    fn write(&mut self) -> Op {
        match self.random.below(100) {
            0..34 => self.push(),
            34..36 => Op::GidPush { ttl: self.ttl(), group: self.group() },
            36..60 => Op::Poll(self.poll()),
            60..66 => Op::Settle(self.held()),
            66..69 => Op::Renew(self.random.pick(&[0, 50, 500, 500, 5000]), self.held()),
            69..73 => {
                Op::Release(self.random.pick(&[0, 0, 50, 1000]), self.held(), self.random.one_in(2))
            }
            73..75 if self.profile.has_policies => Op::Reject(self.held()),
            75..78 => Op::Pull(self.id()),
            78..80 => Op::Rem(self.ids()),
            80 => Op::XAck(self.ids()),
            81..83 => Op::Update(self.id()),
            83..89 => {
                let mut ids = self.ids();
                ids.dedup();
                let is_twice = ids.iter().enumerate().any(|(at, id)| ids[..at].contains(id));
                let ids = if is_twice { vec![self.id()] } else { ids };
                let only = self.random.one_in(4).then(|| self.random.one_in(2));
                Op::Touch { ids, ttl: self.ttl(), at: self.at(), only }
            }
            89..93 if self.profile.has_limits => self.limit(),
            93..95 if self.profile.has_pauses => {
                let group = self.group();
                Op::Pause {
                    ms: (!self.random.one_in(3)).then(|| self.random.pick(&[1, 30, 600, 3000])),
                    group,
                }
            }
            95..97 if self.profile.has_pauses => Op::Resume(self.group()),
            98 if self.profile.has_operators => {
                Op::TouchGroup(self.a_group(), self.ttl(), self.of_group())
            }
            99 if self.profile.has_operators => Op::Purge(self.a_group(), self.of_group()),
            97..99 if self.profile.has_policies => Op::OnDue(self.policy()),
            _ => self.push(),
        }
    }

    fn read(&mut self) -> Op {
        match self.random.below(12) {
            0 => Op::Look(self.id(), false),
            1 => Op::Look(self.id(), true),
            2 => Op::Range(self.group(), self.random.one_in(2).then(|| 1 + self.random.below(4))),
            3 | 4 => Op::Info,
            5 => Op::InfoGroup(self.a_group()),
            6 => Op::Late,
            7 | 8 => Op::Ttn,
            9 => Op::Pttl(self.id()),
            10 => Op::XPoll(self.random.one_in(2).then(|| 1 + self.random.below(4))),
            _ => Op::Len(self.group()),
        }
    }

    fn of_keyspace(&mut self) -> Op {
        match self.random.below(12) {
            0..3 => Op::Copy {
                to: self.key(),
                db: self.random.below(2) as usize,
                replace: self.random.one_in(2),
            },
            3..5 => Op::Rename { to: self.key(), nx: self.random.one_in(2) },
            5..7 => Op::Move(self.random.below(2) as usize),
            7..9 => Op::SwapDb,
            9 | 10 => Op::Del(self.random.one_in(2)),
            11 if self.random.one_in(2) => Op::FlushDb,
            _ => Op::Set,
        }
    }

    fn command(&mut self, op: Op) -> Command {
        self.number += 1;
        let client = self.random.below(CLIENTS as u64) as usize;
        let in_multi = self.random.one_in(8) && !matches!(op, Op::Purge(..) | Op::TouchGroup(..));
        let key = self.key();
        Command { number: self.number, client, key, op, in_multi }
    }

    fn step(&mut self, steps: &mut Vec<Step>) {
        if self.profile.is_big && self.big(steps) {
            return;
        }
        let profile = self.profile;
        let step = match self.random.below(100) {
            0..50 => {
                let op = self.write();
                Step::Batch(vec![self.command(op)])
            }
            // When exactly something is delivered in the middle of a pass, the model does not know.
            50..60 if !profile.has_policies => {
                let many = 2 + self.random.below(3);
                let ops: Vec<_> = (0..many).map(|_| self.write()).collect();
                Step::Batch(ops.into_iter().map(|op| self.command(op)).collect())
            }
            50..74 => {
                let op = self.read();
                Step::Batch(vec![self.command(op)])
            }
            74..78 if profile.has_keyspace => {
                let op = self.of_keyspace();
                Step::Batch(vec![self.command(op)])
            }
            78..80 if profile.has_sleepers => {
                Step::HangUp(self.random.below(CLIENTS as u64) as usize)
            }
            80 if profile.has_reloads => {
                Step::Reload(self.random.pick(&[Reload::Rdb, Reload::Aof, Reload::RewrittenAof]))
            }
            81 if profile.has_replica => Step::Cut,
            82 if profile.has_replica && self.random.one_in(3) => Step::Promote,
            83 if profile.has_clock => {
                Step::StepWall(self.random.pick(&[-5000, -100, 100, 3000, 60_000]))
            }
            84 => Step::Compare,
            _ => Step::Advance(self.random.pick(&[1, 2, 5, 20, 60, 200, 600, 600, 1100, 2500])),
        };
        steps.push(step);
    }

    /// Draws what needs many elements, or many groups.
    fn big(&mut self, steps: &mut Vec<Step>) -> bool {
        self.number += 1;
        let (number, key, db) = (self.number, self.key(), self.random.below(2) as usize);
        if self.random.one_in(12) {
            self.crowd(steps, &key, db);
            return true;
        }
        let step = match self.random.below(24) {
            0..3 => {
                let groups = self.random.pick(&[0, 1, 1, 300, 3000, 3000, 6000]);
                let each = if groups < 2 {
                    self.random.pick(&[3000, 20_000])
                } else {
                    self.random.pick(&[1, 2])
                };
                Step::Bulk {
                    number,
                    key,
                    db,
                    groups,
                    each,
                    ttl: self.random.pick(&[0, 0, 0, 2000]),
                }
            }
            3..5 => {
                let count = self.random.pick(&[10, 1000, 5000, 20_000]);
                Step::LeaseMany {
                    number,
                    key,
                    db,
                    count,
                    lease: self.random.pick(&[500, 3000, 60_000]),
                }
            }
            5 => {
                let op = Op::Purge(b"g0".to_vec(), self.of_group());
                Step::Begin(self.command_of(op, &key))
            }
            6 => {
                let op = Op::TouchGroup(b"g0".to_vec(), self.ttl(), self.of_group());
                Step::Begin(self.command_of(op, &key))
            }
            7 => {
                let held = self.random.pick(&[0, 1, 2, 3]);
                let op = Op::LimitGroup(None, Numbers { held: Some(held), ..Numbers::default() });
                let mut poll = self.poll();
                poll.block = Some(0);
                let poll = self.command_of(Op::Poll(poll), &key);
                Step::Batch(vec![poll, self.command_of(op, &key)])
            }
            8 => Step::Batch(vec![self.command_of(Op::SwapDb, &key)]),
            9 => Step::MoveSlot(key),
            10 => Step::Batch(vec![self.command_of(Op::Del(true), &key)]),
            _ => return false,
        };
        steps.push(step);
        true
    }

    /// Draws groups that are all at their limit, a change of that limit, and somebody who waits meanwhile.
    fn crowd(&mut self, steps: &mut Vec<Step>, key: &Bytes, db: usize) {
        let number = self.number;
        let groups = self.random.pick(&[1, 1, 2500, 5000]);
        let each = if groups == 1 { 20_000 } else { 3 };
        let most = 1 + self.random.below(2);
        let held = |most| Op::LimitGroup(None, Numbers { held: Some(most), ..Numbers::default() });
        let wait = |lease| {
            let (keys, count, block) = (vec![key.clone()], Some(3), Some(0));
            Op::Poll(Poll {
                keys,
                is_many: false,
                count,
                block,
                lease: Some(lease),
                token: None,
                with_ids: false,
            })
        };
        let lease = self.random.pick(&[500, 60_000]);
        let command = |it: &mut Self, op| {
            let mut command = it.command_of(op, key);
            // Of this database.
            command.client = command.client / 2 * 2 + db;
            command
        };
        steps.push(Step::Bulk { number, key: key.clone(), db, groups, each, ttl: 0 });
        if groups > 1 {
            steps.push(Step::Batch(vec![command(self, held(most))]));
        }
        steps.push(Step::LeaseMany { number, key: key.clone(), db, count: 20_000, lease });
        let change = self.random.pick(&[1, 1, 2, 3]);
        let change = [command(self, wait(1000)), command(self, held(change))];
        steps.push(if self.random.one_in(2) {
            Step::Batch(vec![change[1].clone()])
        } else {
            Step::Batch(change.to_vec())
        });
        steps.push(Step::Batch(vec![command(self, Op::Ttn)]));
        steps.push(Step::Batch(vec![command(self, wait(50))]));
        if self.random.one_in(2) {
            self.number += 1;
            steps.push(Step::Advance(600));
            steps.push(Step::Bulk {
                number: self.number,
                key: key.clone(),
                db,
                groups: 3,
                each: 2,
                ttl: 0,
            });
            steps.push(Step::Batch(vec![command(self, wait(50))]));
        }
        steps.push(Step::Compare);
    }

    fn command_of(&mut self, op: Op, key: &Bytes) -> Command {
        let mut command = self.command(op);
        (command.key, command.in_multi) = (key.clone(), false);
        command
    }
}
