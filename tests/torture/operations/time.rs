//! The clocks of the model and of the server, and what depends on them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::words::{command, words_of};
use redis::Value;

use super::{KEYS, Torture};
use crate::model::{BEHIND, Bytes, Change, GRAIN, Kept, Op};
use harness::{Ask, until};

/// Returns the machine's time in milliseconds since the epoch.
pub(super) fn wall() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.expect("a clock after 1970").as_millis() as u64
}

impl Torture {
    /// Returns the model's time.
    pub(super) fn now(&self) -> u64 {
        self.start + BEHIND + self.offset
    }

    /// Returns about the time of the server's clock, which is behind the model's.
    pub(super) fn real(&self) -> u64 {
        wall() + self.ahead + self.offset
    }

    /// Waits until the clock has moved on since the latest operation: the model knows the order of two, but not the distance.
    pub(super) fn let_clock_move(&self) {
        while wall() <= self.acted {
            std::thread::yield_now();
        }
    }

    /// Waits for the next granule if this one, of any window that is drawn, may end during an operation.
    pub(super) fn await_granule(&self) {
        /// The granules of half a grain are multiples of the others.
        const GRANULE: u64 = GRAIN / 2 / 1024;
        if self.world.has_group_rates() {
            until("the next granule", || (self.real() % GRANULE < GRANULE - 1000).then_some(()));
        }
    }

    pub(super) fn set_clock(&mut self) {
        let command = format!("DEHYDRATOR.DEBUG k CLOCK {}", self.ahead + self.offset);
        self.replica.connect().ask(&command);
        self.keep_up();
    }

    /// Sets the clock. What is over by then is forgotten at once, and not within half a second: it would depend on that in
    /// which order groups give something out. A log that was loaded counts at the ends of granules, which may be later than now.
    pub(super) fn keep_up(&mut self) {
        let mut pipe = redis::pipe();
        let clock = self.ahead + self.offset;
        pipe.atomic().cmd("DEHYDRATOR.DEBUG").arg("k").arg("CLOCK").arg(clock).ignore();
        let mut keys = Vec::new();
        for db in 0..2 {
            pipe.cmd("SELECT").arg(db).ignore();
            for (key, kept) in &self.world.dbs[db] {
                if matches!(kept, Kept::Dehydrator(_)) {
                    pipe.cmd("DEHYDRATOR.DEBUG").arg(key).arg("UPKEEP").ignore();
                    pipe.cmd("DEHYDRATOR.DEBUG").arg(key).arg("ROUND");
                    keys.push((db, *key));
                }
            }
        }
        let rounds: Vec<Value> = pipe.query(&mut self.client).expect("rounds");
        self.selected = 1;
        self.world.real = self.real();
        self.world.keep_up(self.now());
        for ((db, key), round) in keys.into_iter().zip(rounds) {
            self.world.learn_turns(db, key, round);
        }
    }

    /// Returns whether an operation lets several groups come into the round at once. The order in which they come is that of the
    /// server's table: whatever it is, it is right.
    pub(super) fn lets_many_join(&self, db: usize, key: &'static str, op: &Op) -> bool {
        let is_of_all = matches!(op, Op::LimitGroups { group: None, .. } | Op::OnDue(_));
        if !is_of_all && !matches!(op, Op::OnDueStream(..)) {
            return false;
        }
        let mut ahead = self.world.clone();
        ahead.apply(db, key, op, self.now(), true);
        ahead.dehydrator(db, key).is_some_and(|it| it.turns.have_many_joined())
    }

    /// Learns which dehydrators know turns. One that was small has begun a new round.
    pub(super) fn learn_forms(&mut self) {
        for db in 0..2 {
            for key in KEYS {
                if self.world.dehydrator(db, key).is_some_and(|it| it.may_know_turns()) {
                    self.select(db);
                    let mut ask = redis::cmd("DEHYDRATOR.DEBUG");
                    let round = ask.arg(key).arg("ROUND").query::<Value>(&mut self.client);
                    self.world.learn_form(db, key, round != Ok(Value::Nil));
                }
            }
        }
    }

    /// Removes all rates, and forgets ids: the model does not know when the module read a clock that was set back.
    pub(super) fn forget_rates(&mut self) {
        let no_limit =
            Op::Limit { length: None, held: None, rate: Some((0, 1)), remember: Some(0) };
        for db in 0..2 {
            for key in KEYS {
                let Some(it) = self.world.dehydrator(db, key) else { continue };
                let mut ops = Vec::new();
                if it.limits.rate.is_some() || it.limits.remember > 0 {
                    ops.push(no_limit.clone());
                }
                let limit = |group: Option<&Bytes>, rate| {
                    let change = Change { rate: Some(rate), ..Change::default() };
                    Op::LimitGroups { group: group.cloned(), change }
                };
                let is_limited = |group: &&Bytes| it.limits_of(group).rate.0 > 0;
                // One group after the other: those that come into the round at once have no order.
                let limited: Vec<_> = it.turns.logs.keys().filter(is_limited).collect();
                ops.extend(
                    limited.iter().map(|group| limit(Some(*group), (u64::from(u32::MAX), GRAIN))),
                );
                if it.turns.each.rate.0 > 0 {
                    ops.push(limit(None, (0, 1)));
                }
                let own = it.turns.settings.iter().filter(|(_, settings)| settings.rate.0 > 0);
                let mut groups: Vec<_> = own.map(|(group, _)| group).chain(limited).collect();
                groups.sort();
                groups.dedup();
                ops.extend(groups.into_iter().map(|group| limit(Some(group), (0, 1))));
                for op in ops {
                    let (words, now) = (words_of(key, &op), self.now());
                    self.let_clock_move();
                    let expected = self.world.apply(db, key, &op, now, false);
                    self.select(db);
                    let reply = command(&words).query(&mut self.client);
                    self.check(db, key, &op, reply, expected);
                    self.deliver();
                    self.acted = wall();
                }
            }
        }
    }

    /// Lets time pass, and sometimes sets the clock back.
    pub(super) fn pass(&mut self) {
        let grains = self.random.below(4) * GRAIN;
        let offset = if self.random.one_in(6) {
            self.offset.saturating_sub(grains)
        } else {
            self.offset + grains
        };
        self.note(format!("the clock is stepped to {} grains", offset / GRAIN));
        if offset < self.offset {
            self.forget_rates();
        }
        self.offset = offset;
        self.set_clock();
        self.deliver();
    }
}
