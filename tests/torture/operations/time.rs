//! The clocks of the model and of the server, and what depends on them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::words::{command, words_of};

use super::{KEYS, Torture};
use crate::model::{BEHIND, GRAIN, Op};
use harness::Ask;

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

    /// Waits until the clock has moved on since the latest operation: the model knows the order of two, but not the distance.
    pub(super) fn let_clock_move(&self) {
        while wall() <= self.acted {
            std::thread::yield_now();
        }
    }

    pub(super) fn set_clock(&mut self) {
        let command = format!("DEHYDRATOR.DEBUG k CLOCK {}", self.ahead + self.offset);
        self.replica.connect().ask(&command);
        self.client.ask(&command);
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
