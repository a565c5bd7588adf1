//! Draws the next operation.

use super::words::nonsense;
use super::{CHANNEL, KEYS, LISTS, STREAMS, Torture};
use crate::model::{Bounds, Bytes, GRAIN, IfThere, MAX, Moment, Op, Policy};

/// Words of the syntax that follow or stand beside an id.
const OUR_WORDS: [&[u8]; 14] = [
    b"group",
    b"GROUP",
    b"prefix",
    b"IDS",
    b"AT",
    b"GT",
    b"UNCOUNTED",
    b"NX",
    b"FULL",
    b"EACH",
    b"0",
    b"0@9",
    b"LEASE",
    b"P5@9",
];

impl Torture {
    pub(super) fn id(&mut self) -> Bytes {
        match self.random.below(20) {
            0 => Vec::new(),
            1 => b"\0\r\n\xff".to_vec(),
            2 => vec![b'i'; 300],
            // Our own words, which an id may be too.
            3 | 4 => self.random.pick(&OUR_WORDS).to_vec(),
            5..7 => format!("rare-{}", self.random.below(2000)).into_bytes(),
            _ => format!("id-{}", self.random.below(30)).into_bytes(),
        }
    }

    /// Draws EVERY, with a plan that does not occur before the year 4900, or another command for schedules.
    fn schedule(&mut self) -> Op {
        const YEAR_4900: u64 = 92_461_046_400_000;
        match self.random.below(8) {
            0 => return Op::Unschedule(self.ids()),
            1 => return Op::Schedules(if self.random.one_in(2) { self.ids() } else { Vec::new() }),
            2 => return Op::PauseSchedule(self.id()),
            3 => return Op::ResumeSchedule(self.id()),
            _ => {}
        }
        let plan = self.random.pick(&["1", "86400000", "0 0 * * *", "*/5 2,3 29 2 MON-FRI"]);
        let mut words = vec![plan.into(), self.element()];
        let mut options = vec![
            ("UNTIL", (2 * YEAR_4900).to_string()),
            ("TIMES", (1 + self.random.below(3)).to_string()),
            ("MISSED", self.random.pick(&["ONE", "ALL", "NONE"]).to_owned()),
            ("OVERLAP", self.random.pick(&["ALLOW", "SKIP"]).to_owned()),
            ("JITTER", (1 + self.random.below(1 << 20)).to_string()),
            ("DELIVERIES", (1 + self.random.below(3)).to_string()),
            ("WITHIN", (1 + self.random.below(1 << 40)).to_string()),
            ("GROUP", self.random.pick(&["g", "GROUP"]).to_owned()),
        ];
        if plan.contains(' ') {
            options.push(("ZONE", self.random.pick(&["UTC", "Europe/Berlin"]).to_owned()));
        }
        options.retain(|_| self.random.one_in(3));
        options.push(("FROM", YEAR_4900.to_string()));
        for (name, value) in options {
            words.extend([name.into(), value.into()]);
        }
        Op::Every { name: self.id(), words }
    }

    pub(super) fn element(&mut self) -> Bytes {
        let number = self.random.below(1 << 32).to_string();
        match self.random.below(40) {
            0 => Vec::new(),
            1 => b"\0\r\n\xff".repeat(5),
            2 => number.repeat(600).into_bytes(),
            3 => number.repeat(5000).into_bytes(),
            _ => number.into_bytes(),
        }
    }

    pub(super) fn ttl(&mut self) -> u64 {
        GRAIN
            * match self.random.below(10) {
                0..3 => 0,
                3..8 => self.random.below(5),
                8 => self.random.below(5000),
                // Far in the future, and near the limit.
                _ => self.random.pick(&[1 << 38, (MAX - self.start) / GRAIN - 10_000]),
            }
    }

    /// Sometimes beyond the limit.
    pub(super) fn ttl_or_too_much(&mut self) -> u64 {
        if self.random.one_in(60) { self.random.pick(&[MAX, MAX - 1]) } else { self.ttl() }
    }

    pub(super) fn deadline(&mut self) -> u64 {
        let grains = GRAIN * (self.offset / GRAIN + self.random.below(8)).saturating_sub(3);
        match self.random.below(8) {
            0 => self.random.pick(&[0, 1, 5, MAX - 1, MAX]),
            1..5 => self.start + grains,
            _ => self.start + grains + GRAIN / 4 * 3,
        }
    }

    pub(super) fn ids(&mut self) -> Vec<Bytes> {
        (0..=self.random.below(5)).map(|_| self.id()).collect()
    }

    fn bounds(&mut self) -> Bounds {
        let most = self.random.one_in(8).then(|| self.random.pick(&[1, 2, 3, 65_535]));
        let within = self.random.one_in(6).then(|| GRAIN * (1 + self.random.below(4)));
        Bounds { most, within: within.map(|it| if self.random.one_in(20) { MAX } else { it }) }
    }

    /// Draws a token of the client's choice, from a few.
    pub(super) fn token(&mut self) -> Option<u64> {
        self.random.one_in(2).then(|| 1 + self.random.below(5))
    }

    /// Draws ids with the tokens under which they are held, or with others.
    pub(super) fn held(&mut self, db: usize, key: &str) -> Vec<(u64, Bytes)> {
        let entries = self.world.dehydrator(db, key).map(|it| it.entries.clone());
        let entries = entries.unwrap_or_default().into_iter();
        let mut known: Vec<_> =
            entries.filter_map(|entry| Some((entry.token?, entry.id))).collect();
        let mut held = Vec::new();
        for _ in 0..=self.random.below(4) {
            let at = self.random.below(1 + known.len() as u64) as usize;
            held.push(match known.get(at) {
                Some(_) => known.swap_remove(at),
                None => (1 + self.random.below(5), self.id()),
            });
        }
        held
    }

    pub(super) fn slack(&mut self) -> Option<u64> {
        // Steps up to a few grains, which keep the TTL a whole number of grains.
        let slacks = [0, 1, 511, GRAIN - 1, 2 * GRAIN, 5 * GRAIN, 8 * GRAIN - 1];
        self.random.one_in(5).then(|| self.random.pick(&slacks))
    }

    pub(super) fn policy(&mut self) -> Policy {
        match self.random.below(8) {
            0..3 => self.route(),
            3..6 => {
                let most = self.random.pick(&[1, 1, 2, 2, 3, 65_535]);
                Policy::Limit(most, Box::new(self.route()))
            }
            // Otherwise, nothing would ever be polled.
            _ => Policy::Hold,
        }
    }

    fn pause(&mut self) -> Op {
        match self.random.below(4) {
            0 => Op::Pause { ms: None, at: None },
            1 => Op::Pause { ms: None, at: Some(self.deadline().clamp(1, MAX - 1)) },
            _ => Op::Pause { ms: Some(self.ttl_or_too_much().max(GRAIN)), at: None },
        }
    }

    /// The first delivery of a window counts until half a grain before its end.
    fn limit(&mut self) -> Op {
        let grains = 1 + self.random.below(3);
        let per = grains * GRAIN - GRAIN / 2;
        if self.random.one_in(3) {
            // Otherwise, nothing could be done after a while.
            let (length, held, rate) = (Some(0), Some(0), Some((0, per)));
            return Op::Limit { length, held, rate, remember: Some(0) };
        }
        let length = self.random.one_in(3).then(|| self.random.pick(&[1, 5, 20, 100]));
        let rate = self.random.one_in(2).then(|| (self.random.pick(&[1, 2, 3, 10]), per));
        let remember = self.random.one_in(2).then(|| self.random.pick(&[per, MAX]));
        let held = length.is_none() && rate.is_none() && remember.is_none();
        let held = held || self.random.one_in(2);
        let held = held.then(|| self.random.pick(&[1, 2, 5, 100]));
        Op::Limit { length, held, rate, remember }
    }

    pub(super) fn route(&mut self) -> Policy {
        let lengths = [None, Some((false, 1_000_000)), Some((true, 3))];
        match self.random.below(6) {
            0 => Policy::Drop,
            1 => Policy::Publish(CHANNEL),
            2 | 3 => {
                Policy::List { dest: self.random.pick(&LISTS), is_left: self.random.one_in(2) }
            }
            _ => Policy::Stream {
                dest: self.random.pick(&STREAMS),
                maxlen: self.random.pick(&lengths),
            },
        }
    }

    /// Moments that the server's clock does not come near: elements with such a ttl are due within the first quarter of
    /// a grain, those with a deadline at its beginning or at three quarters.
    fn moment(&mut self) -> Moment {
        let grains = GRAIN * (self.offset / GRAIN + self.random.below(10)).saturating_sub(4);
        let clear = self.start + grains + GRAIN / 2;
        match self.random.below(10) {
            0 => Moment::First,
            1 => Moment::Last,
            2 => Moment::At(self.random.pick(&[0, 1, 5, MAX - 1, MAX])),
            3 => Moment::Without(self.random.pick(&[0, 1, 5, MAX - 1, MAX])),
            4..7 => Moment::Without(clear),
            _ => Moment::At(clear),
        }
    }

    fn range(&mut self) -> Op {
        let start = if self.random.one_in(2) { Moment::First } else { self.moment() };
        let end = if self.random.one_in(2) { Moment::Last } else { self.moment() };
        let count = self.random.one_in(2).then(|| self.random.pick(&[1, 2, 7, 100, MAX]));
        let [with_elements, with_tokens] = [(); 2].map(|()| self.random.one_in(2));
        Op::Range { start, end, count, with_elements, with_tokens }
    }

    pub(super) fn op(&mut self, db: usize, key: &'static str) -> Op {
        let count = self.random.one_in(2).then(|| self.random.pick(&[1, 2, 3, 10, MAX]));
        match self.random.below(1000) {
            0..250 => {
                let mut ttl = self.ttl_or_too_much();
                let at = self.random.one_in(4).then(|| self.deadline());
                let mut slack = self.slack().filter(|_| at.is_none());
                let if_there = [IfThere::Refuse, IfThere::Nx, IfThere::Replace, IfThere::Replace];
                if self.random.one_in(20) && (GRAIN..MAX / 2).contains(&ttl) && at.is_none() {
                    // Rounded up to whole grains.
                    (ttl, slack) = (ttl - 300, Some(511));
                }
                // An element that claims to be a stuck dead letter is given back, or moved: see the server tests.
                let is_stuck = at == Some(MAX);
                let deliveries = at.filter(|_| self.random.one_in(3) && !is_stuck);
                let deliveries = deliveries.map(|_| self.random.pick(&[1, 2, 65_534, 65_535]));
                let if_there = self.random.pick(&if_there);
                let token = deliveries.and_then(|_| self.token());
                let (element, id) = (self.element(), self.id());
                let bounds = self.bounds();
                Op::Push { ttl, element, id, if_there, slack, at, deliveries, token, bounds }
            }
            250..270 => {
                let at = self.random.one_in(4).then(|| self.deadline());
                let slack = self.slack().filter(|_| at.is_none());
                let (ttl, element) = (self.ttl(), self.element());
                let bounds = self.bounds();
                Op::GidPush { ttl, element, slack, at, bounds }
            }
            270..320 => {
                let many = if self.random.one_in(10) { 300 } else { 1 + self.random.below(6) };
                let mut element = || (self.ttl(), self.element(), self.id());
                let mut elements: Vec<_> = (0..many).map(|_| element()).collect();
                if self.random.one_in(20) {
                    elements[0].0 = MAX;
                }
                let if_there = [IfThere::Refuse, IfThere::Nx, IfThere::Nx, IfThere::Replace];
                let if_there = self.random.pick(&if_there);
                let at = self.random.one_in(4).then(|| self.deadline());
                let slack = self.slack().filter(|_| at.is_none());
                // XPOLL passes over a limited number of dead letters.
                let bounds = if many < 300 { self.bounds() } else { Bounds::default() };
                Op::MPush { elements, if_there, slack, at, bounds }
            }
            320..370 => Op::Pull(self.id()),
            370..520 => {
                let lease = self.random.one_in(2).then(|| GRAIN * (1 + self.random.below(3)));
                let lease = if self.random.one_in(100) { Some(MAX) } else { lease };
                let block = self.random.one_in(5).then(|| 1 + self.random.below(3));
                // A client does not block on a key with a policy.
                let is_bound = self.world.dehydrator(db, key).is_some_and(|it| !it.policy.holds());
                let block = block.filter(|_| !is_bound);
                let token = lease.and_then(|_| self.token());
                let with_ids = lease.is_none() && self.random.one_in(2);
                if self.random.one_in(3) {
                    let mut keys = vec![key];
                    keys.extend((0..self.random.below(4)).map(|_| self.random.pick(&KEYS)));
                    // Nor on one with dead letters: only the server's clock knows when they are moved.
                    let is_plain = |key: &&str| {
                        let it = self.world.dehydrator(db, key);
                        it.is_none_or(|it| it.policy == Policy::Hold)
                    };
                    let block = block.filter(|_| keys.iter().all(is_plain));
                    let poll = Box::new(Op::Poll { count, block, lease, token, with_ids });
                    return Op::MPoll { keys, poll };
                }
                Op::Poll { count, block, lease, token, with_ids }
            }
            520..570 => Op::XPoll(count),
            570..590 => Op::XAck(self.ids()),
            590..615 => Op::Settle(self.held(db, key)),
            615..640 => {
                let ttl = if self.random.one_in(4) { 0 } else { self.ttl_or_too_much() };
                let held = self.held(db, key);
                match self.random.below(4) {
                    0 | 1 => Op::Renew { ttl, held },
                    2 => {
                        let is_one = held.len() == 1;
                        let element = (is_one && self.random.one_in(2)).then(|| b"other".to_vec());
                        let reason = self.random.one_in(4).then(|| b"it failed".to_vec());
                        let is_uncounted = self.random.one_in(3);
                        Op::Release { ms: ttl, held, is_uncounted, element, reason }
                    }
                    _ => {
                        let reason = self.random.one_in(2).then(|| b"it cannot succeed".to_vec());
                        Op::Reject { held, reason }
                    }
                }
            }
            640..650 => self.range(),
            650..655 => {
                let prefix = self.random.pick(&[None, Some("id-"), Some("rare-1"), Some("nobody")]);
                Op::Scan { prefix, count }
            }
            655..658 => Op::Info { full: self.random.one_in(2) },
            658..680 => Op::Look { id: self.id(), full: self.random.one_in(2) },
            680..710 => Op::Update(self.id(), self.element()),
            710..790 => {
                let ttl = self.ttl_or_too_much();
                let ids = if self.random.one_in(4) { self.ids() } else { vec![self.id()] };
                let only = self.random.pick(&[None, Some("GT"), Some("LT")]);
                let at = self.random.one_in(3).then(|| self.deadline());
                let same = at.is_none().then(|| self.now().checked_add(ttl)).flatten();
                let it = self.world.dehydrator(db, key);
                let entry = |id: &Bytes| it.and_then(|it| it.entries.get(it.find(id)?));
                // Only the server's clock knows which of the two is later by less than a grain.
                let is_known =
                    |id: &Bytes| entry(id).is_none_or(|entry| Some(entry.deadline) != same);
                // An id that is named twice would differ from itself by less than that.
                let is_known = ids.iter().all(is_known) && (at.is_some() || ids.len() == 1);
                Op::Touch { ids, ttl, only: only.filter(|_| is_known), at }
            }
            790..806 => Op::Rem(self.ids()),
            806..816 => self.schedule(),
            816..820 => Op::Settled { until: self.deadline(), ids: self.ids() },
            820..840 => {
                let (ttl, at, ids) = (self.ttl(), self.deadline().min(MAX - 1), self.ids());
                Op::Lease { ttl, token: 1 + self.random.below(5), at, ids }
            }
            840..842 => Op::OnDueStream(self.random.pick(&STREAMS), 3),
            842..844 => Op::OnDueNew(self.policy()),
            844..860 => Op::OnDue(self.policy()),
            860..866 => self.pause(),
            // Otherwise, nothing would ever be polled.
            866..880 => Op::Resume,
            880..885 => Op::Ttn,
            885..895 => Op::Pttl(self.id()),
            895..909 => self.limit(),
            909 => Op::Given { at: self.now(), count: 1 + self.random.below(3) },
            910..940 => nonsense(&mut self.random),
            940..955 => Op::Copy {
                to: self.random.pick(&KEYS),
                db: self.random.below(2) as usize,
                replace: self.random.one_in(2),
            },
            955..970 => Op::Rename { to: self.random.pick(&KEYS), nx: self.random.one_in(3) },
            970..978 => Op::Move(self.random.below(2) as usize),
            978..982 => Op::SwapDb(self.random.below(2) as usize, self.random.below(2) as usize),
            982..985 => Op::Del(self.random.pick(&["DEL", "UNLINK"])),
            985..988 => Op::Expire,
            988..992 => Op::SetText,
            992 if self.random.one_in(2) => Op::Late,
            992 => Op::Help,
            993 => Op::Require { level: self.random.pick(&[1, u64::MAX]) },
            994 if self.random.one_in(4) => Op::FlushDb,
            _ => Op::Len,
        }
    }
}
