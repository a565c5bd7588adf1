//! The limits of a dehydrator and its groups, and from when on they let something go.

use super::dehydrator::{Dehydrator, Entry, Policy};
use super::group::Opening;
use super::limits::{Log, Settings};
use super::{Bytes, NEVER};

/// To how many groups a change of the limits of each comes at once: at least to so many.
const AT_ONCE: usize = 200;

impl Dehydrator {
    /// Files all groups anew: limits of each have changed, or the policy.
    pub fn file_all(&mut self) {
        for name in self.groups.keys().cloned().collect::<Vec<_>>() {
            self.file(&name);
        }
    }

    pub fn set(&mut self, name: &Bytes, now: u64, settings: Settings) {
        let before = self.enforced(name).1;
        self.groups.entry(name.clone()).or_default().settings = settings;
        let after = self.enforced(name).1;
        self.change_rate(name, before, after, now);
        self.file(name);
    }

    pub fn set_each(&mut self, now: u64, change: impl FnOnce(&mut Self)) {
        if self.groups.len() > AT_ONCE {
            self.before.get_or_insert_with(|| (self.each, self.policy.clone()));
        }
        let names: Vec<_> = self.groups.keys().cloned().collect();
        let before: Vec<_> = names.iter().map(|name| self.enforced(name).1).collect();
        change(self);
        for (name, before) in names.iter().zip(before) {
            self.change_rate(name, before, self.enforced(name).1, now);
        }
        self.file_all();
    }

    /// Notes that the module looks at what was given out under limits of rate, and that the clock may have been set back.
    pub fn look_at_logs(&mut self, now: u64) {
        self.is_unseen = false;
        self.limits.log.look(self.limits.rate, now);
        self.change_logs(|log, rate| log.look(rate, now));
    }

    /// Notes that the clock was set back from `before` to `now`.
    pub fn set_back(&mut self, before: u64, now: u64) {
        self.limits.log.set_back(self.limits.rate, before, now);
        self.change_logs(|log, rate| log.set_back(rate, before, now));
        // What was forgotten is not remembered again, and nobody knows what was.
        self.remembered.values_mut().filter(|it| it[0] <= before).for_each(|it| it[0] = 0);
        self.restart_turns();
    }

    /// Changes the logs of groups, which have these limits of rate.
    pub(super) fn change_logs(&mut self, change: impl Fn(&mut Log, (u64, u64))) {
        let with_log = self.groups.iter().filter(|it| it.1.log != Log::default());
        for name in with_log.map(|it| it.0.clone()).collect::<Vec<_>>() {
            let rate = self.enforced(&name).1;
            let group = self.groups.get_mut(&name).expect("it is there");
            let before = group.log.clone();
            change(&mut group.log, rate);
            if group.log != before {
                self.file(&name);
            }
        }
    }

    fn change_rate(&mut self, name: &Bytes, before: (u64, u64), after: (u64, u64), now: u64) {
        if before != after
            && let Some(group) = self.groups.get_mut(name)
        {
            group.log.change(before, after, now);
        }
    }

    pub fn settings(&self, name: &[u8]) -> Settings {
        self.groups.get(name).map(|it| it.settings).unwrap_or_default()
    }

    /// Returns the limits of a group: its own, or those of each: LENGTH, HELD, RATE.
    pub fn limits_of(&self, name: &[u8]) -> (u64, u64, (u64, u64)) {
        self.limits_under(name, self.each)
    }

    fn limits_under(&self, name: &[u8], each: Settings) -> (u64, u64, (u64, u64)) {
        if name.is_empty() {
            return (0, 0, (0, 0));
        }
        let own = self.settings(name);
        let limit = |own: u64, each: u64| if own > 0 { own } else { each };
        let rate = if own.rate.0 > 0 { own.rate } else { each.rate };
        (limit(own.length, each.length), limit(own.held, each.held), rate)
    }

    /// Returns the HELD and the RATE of a group that hold under the policy.
    pub fn enforced(&self, name: &[u8]) -> (u64, (u64, u64)) {
        self.enforced_under(name, self.each, &self.policy)
    }

    fn enforced_under(&self, name: &[u8], each: Settings, policy: &Policy) -> (u64, (u64, u64)) {
        let (_, held, rate) = self.limits_under(name, each);
        (if policy.holds() { held } else { 0 }, if *policy == Policy::Drop { (0, 0) } else { rate })
    }

    /// Returns whether a change of limits may not have reached all groups yet.
    pub fn is_fitting(&self) -> bool {
        self.before.is_some()
    }

    /// Notes that a change of limits has reached all groups, if that was before `then`.
    pub fn fitted(&mut self, then: u64) {
        if self.before.take_if(|_| self.touched <= then).is_some() {
            self.file_all();
        }
    }

    /// Returns from when on a group gives something out, and what. `None`: it has nothing.
    pub(super) fn opening(&self, name: &[u8]) -> Option<Opening> {
        let group = self.groups.get(name)?;
        let mut opening = group.opening(self.enforced(name))?;
        if let Some((each, policy)) = &self.before {
            let before = self.enforced_under(name, *each, policy);
            let before = group.opening(before).expect("it has an element");
            opening.earliest = opening.earliest.min(before.earliest);
            opening.latest = opening.latest.max(before.latest);
            opening.unlimited = opening.unlimited.min(before.unlimited);
            opening.other = before.first;
        }
        Some(opening)
    }

    /// Returns the groups that certainly give something out at `now`, with their first elements.
    pub fn open(&self, now: u64) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.openings.range(..(now + 1, Vec::new())).map(|(_, name)| {
            let first = self.opening(name).expect("it has an opening").first;
            (name, &self.entries[&self.groups[name].members[&first]])
        })
    }

    /// Returns from when on each group gives something out, as it is shown: at the earliest, and at the latest. A limit of rate
    /// that holds nothing back at `now` may be forgotten.
    fn shown(&self, now: u64) -> impl Iterator<Item = [u64; 2]> {
        // After the clock was set back, the module finds out at its next look what groups may give out.
        let is_behind = self.is_unseen && self.counted > now;
        self.groups.iter().filter_map(move |(name, group)| {
            let opening = self.opening(name)?;
            let earliest = match opening {
                Opening { deadline, .. } if is_behind => deadline,
                Opening { earliest, unlimited, .. } if earliest <= now => unlimited,
                Opening { earliest, .. } => earliest,
            };
            Some([earliest, opening.latest.max(group.resumed)])
        })
    }

    /// Returns when the next group opens, at the earliest and at the latest.
    pub fn next_opening(&self, now: u64) -> Option<[u64; 2]> {
        let next =
            self.shown(now).reduce(|one, other| [one[0].min(other[0]), one[1].min(other[1])]);
        next.filter(|it| it[0] < NEVER)
    }

    /// Returns how many may be given out: at most, and at least.
    pub fn room(&self, now: u64) -> [u64; 2] {
        let held = self.limits.held;
        let held = if held == 0 { u64::MAX } else { held.saturating_sub(self.running(now)) };
        self.limits.log.room(self.limits.rate, now).map(|rate| rate.min(held))
    }

    /// Returns when there is room, at the earliest and at the latest.
    pub fn room_from(&self, now: u64) -> [u64; 2] {
        let excess = if self.limits.held == 0 {
            0
        } else {
            (self.running(now) + 1).saturating_sub(self.limits.held)
        };
        let mut running = self.held.range((now + 1, 0)..);
        let held = if excess > 0 { running.nth_back(self.limits.held as usize - 1) } else { None };
        let held = held.map_or(0, |it| it.0.0);
        let rate = self.limits.log.next(self.limits.rate);
        rate.map(|rate| rate.max(held))
    }

    /// Returns for how long the oldest element could have been given out: at least, if certainly one could, and at most, if one
    /// could at all.
    pub fn oldest(&self, now: u64) -> [Option<u64>; 2] {
        let certain = self.open(now).filter_map(|(name, _)| self.opening(name));
        let since = certain.map(|it| it.latest.max(self.touched).max(self.aged_from)).min();
        let at = self.shown(now).map(|it| it[0]).filter(|at| *at <= now).min();
        [since.map(|since| now.saturating_sub(since)), at.map(|at| now - at)]
    }
}
