//! Draws operations and their arguments. Extremes are drawn on purpose.

use super::{CHANNEL, Drawer, LIST, STREAM};
use crate::judges::dehydrator::Policy;
use crate::judges::{Bytes, NEVER};
use crate::world::op::{At, Held, How, Numbers, Op, Options, Poll};
use crate::world::schedule::Back;

impl Drawer<'_> {
    pub(super) fn id(&mut self) -> Bytes {
        self.random.pick(&self.profile.ids)
    }

    pub(super) fn ids(&mut self) -> Vec<Bytes> {
        (0..=self.random.below(3)).map(|_| self.id()).collect()
    }

    pub(super) fn key(&mut self) -> Bytes {
        self.random.pick(&self.profile.keys)
    }

    pub(super) fn group(&mut self) -> Option<Bytes> {
        let is_any = !self.profile.groups.is_empty() && !self.random.one_in(4);
        is_any.then(|| self.random.pick(&self.profile.groups))
    }

    pub(super) fn a_group(&mut self) -> Bytes {
        if self.profile.is_big && self.random.one_in(2) {
            return format!("g{}", self.random.below(20)).into_bytes();
        }
        self.group().unwrap_or_else(|| b"red".to_vec())
    }

    pub(super) fn ttl(&mut self) -> u64 {
        if self.profile.has_extremes && self.random.one_in(20) {
            return self.random.pick(&[NEVER, 1 << 53, 1 << 48, NEVER - (1 << 50)]);
        }
        self.random.pick(&[0, 0, 0, 1, 3, 10, 100, 1000, 1500, 60_000])
    }

    pub(super) fn lease(&mut self) -> u64 {
        self.random.pick(&[1, 5, 50, 50, 500, 500, 5000, 60_000])
    }

    pub(super) fn at(&mut self) -> Option<At> {
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

    pub(super) fn options(&mut self) -> Options {
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

    pub(super) fn held(&mut self) -> Vec<Held> {
        let one = |it: &mut Self| {
            if it.random.one_in(8) {
                Held::Lent(it.random.below(8) as usize, it.id())
            } else if it.random.one_in(4) {
                Held::Named(it.random.pick(&it.profile.tokens), it.id())
            } else {
                Held::Nth(it.random.below(8) as usize)
            }
        };
        (0..=self.random.below(2)).map(|_| one(self)).collect()
    }

    pub(super) fn route(&mut self) -> Policy {
        match self.random.below(7) {
            0 => Policy::Drop,
            // Only a stream is told which of the equal elements of a schedule it gets.
            _ if self.has_schedules() => Policy::Stream(STREAM.to_vec()),
            1 => Policy::Publish(CHANNEL.to_vec()),
            2..4 => Policy::List(LIST.to_vec()),
            _ => Policy::Stream(STREAM.to_vec()),
        }
    }

    pub(super) fn policy(&mut self) -> Policy {
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

    pub(super) fn poll(&mut self) -> Poll {
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
            with_ids: lease.is_none() && (self.has_schedules() || self.random.one_in(2)),
        }
    }

    pub(super) fn rate(&mut self) -> (u64, u64) {
        (self.random.pick(&[0, 1, 1, 2, 5]), self.random.pick(&[1, 50, 1000, 3000]))
    }

    pub(super) fn limit(&mut self) -> Op {
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

    pub(super) fn push(&mut self) -> Op {
        let is_many = self.random.one_in(4);
        let mut elements = vec![(self.ttl(), self.id())];
        if is_many {
            elements.extend((0..self.random.below(5)).map(|_| (self.ttl(), self.id())));
        }
        let how = self.random.pick(&[How::Refuse, How::Nx, How::Nx, How::Replace, How::Replace]);
        let size = if self.profile.has_extremes && self.random.one_in(200) {
            300_000
        } else {
            self.random.pick(&[0, 0, 9, 80])
        };
        Op::Push { elements, is_many, how, options: self.options(), size }
    }

    /// Draws how many elements PURGE or TOUCH of a group changes at most.
    pub(super) fn of_group(&mut self) -> Option<u64> {
        self.random.one_in(2).then(|| self.random.pick(&[1, 2, 1000, 5000]))
    }

    pub(super) fn write(&mut self) -> Op {
        if self.has_schedules() && self.random.one_in(6) {
            return self.of_schedules();
        }
        if self.profile.has_letters && self.random.one_in(12) {
            return if self.random.one_in(4) { Op::OnDueNx(self.policy()) } else { self.revive() };
        }
        match self.random.below(100) {
            0..34 => self.push(),
            34..36 => Op::GidPush { ttl: self.ttl(), group: self.group() },
            36..60 => Op::Poll(self.poll()),
            60..66 => Op::Settle(self.held()),
            66..69 => Op::Renew(self.random.pick(&[0, 50, 500, 500, 5000]), self.held()),
            69..73 => {
                let ms = self.random.pick(&[0, 0, 50, 1000]);
                Op::Release(ms, self.held(), self.back())
            }
            73..75 if self.profile.has_policies => {
                let back = Back { is_uncounted: false, ..self.back() };
                Op::Reject(self.held(), back)
            }
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

    pub(super) fn read(&mut self) -> Op {
        if self.has_schedules() && self.random.one_in(3) {
            return self.list();
        }
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

    pub(super) fn of_keyspace(&mut self) -> Op {
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
}
