//! The clocks of the model and of the server, and what depends on them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::words::{command, words_of};
use super::{BEHIND, GRAIN, KEYS, Torture};
use crate::model::{Change, Kept, Op};
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
        wall() + self.offset
    }

    /// Waits for the next granule if this one, of any window that is drawn, may end during an operation.
    pub(super) fn await_granule(&self) {
        /// The granules of half a grain are multiples of the others.
        const GRANULE: u64 = GRAIN / 2 / 1024;
        if self.world.has_group_rates() {
            until("the next granule", || (wall() % GRANULE < GRANULE - 1000).then_some(()));
        }
    }

    pub(super) fn set_clock(&mut self) {
        let command = format!("DEHYDRATOR.DEBUG k CLOCK {}", self.offset);
        self.replica.connect().ask(&command);
        self.keep_up();
    }

    /// Sets the clock. What is over by then is forgotten at once, and not within half a second: it would depend on that in
    /// which order groups give something out. A log that was loaded counts at the ends of granules, which may be later than now.
    pub(super) fn keep_up(&mut self) {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("DEHYDRATOR.DEBUG").arg("k").arg("CLOCK").arg(self.offset).ignore();
        for db in 0..2 {
            pipe.cmd("SELECT").arg(db).ignore();
            for (key, kept) in &self.world.dbs[db] {
                if matches!(kept, Kept::Dehydrator(_)) {
                    pipe.cmd("DEHYDRATOR.DEBUG").arg(key).arg("UPKEEP").ignore();
                }
            }
        }
        pipe.exec(&mut self.client).expect("OK");
        self.selected = 1;
        self.world.real = self.real();
        self.world.keep_up(self.now());
    }

    /// Removes all rates, and forgets ids. The model does not know when the module read a clock that was set back. If it stays
    /// so, limits of what groups hold, and their pauses, end too: with them, the module does not know exactly what comes due
    /// before the clock is where somebody looked last.
    pub(super) fn forget_rates(&mut self, stays_behind: bool) {
        let rate = Some((0, 1));
        let no_limit = Op::Limit { length: None, held: None, rate, remember: Some(0) };
        let held = stays_behind.then_some(0);
        let change = Change { rate, held, ..Change::default() };
        for db in 0..2 {
            for key in KEYS {
                let Some(it) = self.world.dehydrator(db, key) else { continue };
                let mut ops = Vec::new();
                if it.limits.rate.is_some() || it.limits.remember > 0 {
                    ops.push(no_limit.clone());
                }
                for (group, settings) in &it.turns.settings {
                    if settings.rate.0 > 0 || settings.held > 0 && stays_behind {
                        ops.push(Op::LimitGroups { group: Some(group.clone()), change });
                    }
                    if settings.pause.is_some() && stays_behind {
                        ops.push(Op::Resume(Some(group.clone())));
                    }
                }
                let each = it.turns.each;
                if each.rate.0 > 0 || each.held > 0 && stays_behind {
                    ops.push(Op::LimitGroups { group: None, change });
                }
                for op in ops {
                    let (words, now) = (words_of(key, &op), self.now());
                    let expected = self.world.apply(db, key, &op, now, false);
                    self.select(db);
                    let reply = command(&words).query(&mut self.client);
                    self.check(db, key, &op, reply, expected);
                    self.deliver();
                }
            }
        }
    }

    /// Returns whether the clock is still behind the time at which somebody looked.
    pub(super) fn is_behind(&self) -> bool {
        self.world.looked_at() > self.now()
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
            self.forget_rates(true);
        }
        self.offset = offset;
        self.set_clock();
        self.deliver();
    }
}
