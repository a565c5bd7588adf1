//! Draws schedules, and what happens to them.

use super::Drawer;
use crate::judges::{Bytes, NEVER};
use crate::world::op::{At, Op};
use crate::world::schedule::{Back, Every, Missed, OfSchedules, Revive};
use crate::world::step::Step;

const DAY_MS: i64 = 86_400_000;

impl Drawer<'_> {
    pub(super) fn has_schedules(&self) -> bool {
        !self.profile.schedules.is_empty()
    }

    fn name(&mut self) -> Bytes {
        if self.profile.has_extremes && self.random.one_in(40) {
            return vec![b'n'; self.random.pick(&[1024, 1025, 1 << 20])];
        }
        self.random.pick(&self.profile.schedules)
    }

    pub(super) fn of_schedules(&mut self) -> Op {
        Op::OfSchedules(match self.random.below(16) {
            0..9 => OfSchedules::Every(Box::new(self.every())),
            9..11 => OfSchedules::Remove((0..=self.random.below(2)).map(|_| self.name()).collect()),
            11 | 12 => OfSchedules::Pause(self.name()),
            13 | 14 => OfSchedules::Resume(self.name()),
            _ => self.listed(),
        })
    }

    pub(super) fn list(&mut self) -> Op {
        Op::OfSchedules(self.listed())
    }

    fn listed(&mut self) -> OfSchedules {
        OfSchedules::List((0..self.random.below(3)).map(|_| self.name()).collect())
    }

    fn every(&mut self) -> Every {
        let is_cron = self.random.one_in(3);
        let is_short = !is_cron && !self.profile.has_years && self.random.one_in(5);
        let plan = match is_cron {
            true => self.cron(),
            false if is_short => self.random.pick(&["1", "2", "7", "100"]).to_owned(),
            false => self.interval(),
        };
        if is_cron && self.random.one_in(3) {
            return self.nightly();
        }
        let zones = ["UTC", "Etc/GMT-14", "Etc/GMT+12", "Asia/Kolkata", "No/Where"];
        let option = |it: &mut Self, many: u64| it.random.one_in(many);
        let moments = |it: &mut Self, extremes: &[u64], near: &[i64]| {
            if it.profile.has_extremes && it.random.one_in(3) {
                At::On(it.random.pick(extremes))
            } else {
                At::In(it.random.pick(near))
            }
        };
        let missed = [Missed::One, Missed::None, Missed::All];
        let missed = &missed[..if self.profile.has_years { 2 } else { 3 }];
        Every {
            name: self.name(),
            plan: plan.into_bytes(),
            zone: (is_cron && option(self, 3))
                .then(|| self.random.pick(&zones).as_bytes().to_vec()),
            from: option(self, 3).then(|| {
                let extremes = [1, 1_700_000_000, NEVER, NEVER - 1, 1 << 53, 1 << 48];
                moments(
                    self,
                    &extremes,
                    &[-400 * DAY_MS, -5000, -1, 0, 1, 30, 500, 100_000, DAY_MS],
                )
            }),
            until: option(self, 5).then(|| {
                let extremes = [1, 1_700_000_000, NEVER, NEVER - 1, 1 << 53];
                moments(self, &extremes, &[-5000, 0, 300, 3000, 3000, 100_000, 800 * DAY_MS])
            }),
            // The shortest ones would fill the run.
            times: (is_short || option(self, 4)).then(|| self.random.pick(&[1, 2, 5, 200])),
            missed: option(self, 2).then(|| self.random.pick(missed)),
            skips: option(self, 3).then(|| !self.random.one_in(4)),
            jitter: option(self, 4).then(|| self.random.pick(&[1, 50, 700, 5000, 100_000])),
            most: (self.profile.has_policies && option(self, 4)).then(|| 1 + self.random.below(3)),
            within: (self.profile.has_ends && option(self, 2))
                .then(|| self.random.pick(&[1, 10, 2000, 600_000])),
            group: self.group(),
            variant: self.random.below(2),
        }
    }

    /// Draws a cron that begins about when clocks change.
    fn nightly(&mut self) -> Every {
        let (zone, change) = self.random.pick(&[
            ("Europe/Berlin", 1_806_195_600_000),
            ("Europe/Berlin", 1_824_944_400_000),
            ("America/New_York", 1_836_457_200_000),
            ("America/New_York", 1_857_016_800_000),
            ("Australia/Lord_Howe", 1_869_663_600_000),
            ("Australia/Lord_Howe", 1_885_995_000_000),
        ]);
        let minute = self.random.pick(&["0", "30", "10", "15,45", "20-50/10", "*/20", "*"]);
        let hour = self.random.pick(&["1", "2", "2", "2,14", "1-3", "*/2", "*"]);
        let day = self.random.pick(&["* * *", "* * *", "* * 0", "28-31 * 6"]);
        let from = change + self.random.below(3 * 3600) * 1000 - 2 * 3_600_000;
        Every {
            name: self.name(),
            plan: format!("{minute} {hour} {day}").into_bytes(),
            zone: Some(zone.as_bytes().to_vec()),
            from: Some(At::On(from)),
            group: self.group(),
            ..Every::default()
        }
    }

    fn interval(&mut self) -> String {
        if self.profile.has_extremes && self.random.one_in(10) {
            return self.random.pick(&[0, NEVER, NEVER - 1, 1 << 53]).to_string();
        }
        self.random.pick(&[300, 1000, 1000, 3000, 20_000, 60_000, 3_600_000]).to_string()
    }

    fn cron(&mut self) -> String {
        if self.random.one_in(12) {
            let odd = ["0 0 31 2 *", "* * * *", "60 * * * *", "a b c d e", "", "0 0 29 2 *"];
            return self.random.pick(&odd).to_owned();
        }
        // When the clock steps by years, one of each minute would have much to pass over.
        if !self.profile.has_years && self.random.one_in(2) {
            return self.random.pick(&["* * * * *", "*/2 * * * *", "1-59/3 * * * *"]).to_owned();
        }
        let weekday = self.random.pick(&["*", "*", "1-5", "0,6", "5", "7", "sun,WED"]);
        let month = self.random.pick(&["*", "*", "1-6", "*/5", "jan,Mar"]);
        let day = self.random.pick(&["*", "*", "13", "1-7", "*/2", "31", "1,15/7"]);
        let hour = match self.profile.has_years {
            true => self.random.pick(&["0", "9", "23"]),
            false => self.random.pick(&["*", "*/6", "9-17/2", "0", "23"]),
        };
        let minute = self.random.pick(&["0", "59", "7"]);
        format!("{minute} {hour} {day} {month} {weekday}")
    }

    /// Draws time that passes, in which schedules occur.
    pub(super) fn time_of_schedules(&mut self) -> Step {
        let near = [1, 7, 100, 300, 300, 1000, 1000, 2500, 2500, 20_000];
        match self.random.below(12) {
            0 if self.profile.has_clock && self.profile.has_years => {
                Step::StepWall(DAY_MS * self.random.pick(&[1, 40, 400, 1830, -1, -400]))
            }
            0 if self.profile.has_clock => {
                Step::StepWall(self.random.pick(&[-60_000, -1000, 1000, 60_000, 200_000]))
            }
            1 => Step::Advance(61_000),
            _ => Step::Advance(self.random.pick(&near)),
        }
    }

    /// Draws many schedules of one key that occur in the same moment.
    pub(super) fn many_schedules(&mut self) -> Step {
        self.number += 1;
        let (number, key, db) = (self.number, self.key(), self.random.below(2) as usize);
        let db = if self.profile.has_slots { 0 } else { db };
        let mut every = self.every();
        // Those that skip would never have occurred as often.
        (every.from, every.until, every.times) = (Some(At::In(700)), Some(At::In(4000)), Some(3));
        every.plan = self.random.pick(&["500", "1000", "60000"]).as_bytes().to_vec();
        (every.zone, every.name) = (None, b"many".to_vec());
        let count = self.random.pick(&[100, 1000, 3000]);
        Step::Schedules { number, key, db, count, every: Box::new(every) }
    }

    pub(super) fn back(&mut self) -> Back {
        let is_uncounted = self.random.one_in(2);
        if !self.profile.has_letters {
            return Back { is_uncounted, ..Back::default() };
        }
        Back { is_uncounted, has_element: self.random.one_in(4), reason: self.reason() }
    }

    pub(super) fn reason(&mut self) -> Option<Bytes> {
        if !self.profile.has_letters {
            return None;
        }
        let long = self.random.one_in(20);
        let short = ["", "REASON", "expired", "no answer\nat all"];
        self.random.one_in(2).then(|| match long {
            true => vec![b'r'; self.random.pick(&[4096, 4097])],
            false => self.random.pick(&short).as_bytes().to_vec(),
        })
    }

    pub(super) fn revive(&mut self) -> Op {
        let letters = match self.random.below(3) {
            0 => (0..=self.random.below(3)).map(|_| self.random.below(20) as usize).collect(),
            _ => Vec::new(),
        };
        let has_ids = !letters.is_empty();
        let is_one = letters.len() == 1;
        Op::Revive(Revive {
            from: (!has_ids && self.random.one_in(3)).then(|| self.random.below(20) as usize),
            count: (!has_ids && self.random.one_in(2)).then(|| self.random.pick(&[1, 2, 32, 5000])),
            letters,
            has_element: is_one && self.random.one_in(2),
        })
    }
}
