//! The rate limits of groups: which holds for a group, and from when on it may give again.
//!
//! A group keeps its log when it has no element left: with one job at a time it would have no limit otherwise. The owner
//! of the lawn has to call [`Groups::forget_rates`] from time to time, which removes the logs that are over.

use super::super::element::Group;
use super::super::rate::Rate;
use super::super::store::Records;
use super::super::turn::Turn;
use super::{FITTED_MAX, Groups};

impl Groups {
    /// Returns the limit of what a group gives out in a time: a number of elements, and a number of milliseconds.
    pub fn rate(&self, group: Group) -> Option<(u64, u64)> {
        let may_have = self.enforced.rate && (self.restrained > 0 || self.each.rate > 0);
        if !may_have || group == self.others {
            return None;
        }
        let has_settings = self.entries.get(group).has_settings;
        if has_settings { self.rate_of(self.entries.name(group)) } else { self.each.rate() }
    }

    /// Returns the limit of the group of this name, which need not exist.
    pub fn rate_of(&self, name: &[u8]) -> Option<(u64, u64)> {
        self.settings(name).limits.rate().or(self.each.rate()).filter(|_| self.enforced.rate)
    }

    /// Records under a group's limit of rate that it gave out `count` elements. Returns whether it has one.
    pub fn record(&mut self, records: &Records, group: Group, moment: u64, count: u64) -> bool {
        let Some(limit) = self.rate(group) else { return false };
        self.fit_rate(group);
        self.logs.record(group, limit, moment, count);
        self.note_log(records, group, moment);
        true
    }

    /// Counts an element under a group's limit of rate, if there is one, for [`Groups::take_counted`] too.
    pub fn count_given(&mut self, records: &Records, group: Group, now: u64) {
        if self.record(records, group, now, 1) {
            *self.logs.counted.entry(group).or_default() += 1;
        }
    }

    /// Returns the groups whose elements were counted since the last call, and the number of elements.
    pub fn take_counted(&mut self) -> Vec<(Vec<u8>, u64)> {
        // This is asked after each element, and usually there is none.
        if self.logs.counted.is_empty() {
            return Vec::new();
        }
        let counted = std::mem::take(&mut self.logs.counted).into_iter();
        counted.map(|(group, count)| (self.entries.name(group).to_vec(), count)).collect()
    }

    /// Lists the groups that have a log which is not over at `now`, by name, if their rates are limited. Each log is as its
    /// limit is now.
    pub fn logs(&self, now: u64) -> Vec<(&[u8], Rate)> {
        let log = |group: Group| {
            let ((max, per), log) = (self.rate(group)?, self.logs.by_group.get(&group)?);
            let log = log.changed(max, per);
            (!log.is_over(now)).then(|| (self.entries.name(group), log))
        };
        let mut all: Vec<_> = self.logs.by_group.keys().copied().filter_map(log).collect();
        all.sort_unstable_by_key(|it| it.0);
        all
    }

    /// Sets the log of a group that has a limit of rate.
    pub fn set_log(&mut self, records: &Records, group: Group, log: Rate) {
        let last = log.last();
        self.logs.set(group, log);
        self.note_log(records, group, last);
    }

    /// Applies what a group's log says. The clock is at the last `moment` of the log, or later: or else that would count as
    /// one from before the clock stepped back.
    fn note_log(&mut self, records: &Records, group: Group, moment: u64) {
        self.clock = self.clock.max(moment);
        self.entries.get_mut(group).has_log = true;
        self.settle(records, group);
    }

    /// Adapts all logs to limits that have changed, now or when their groups are visited.
    pub(super) fn fit_rates(&mut self, records: &Records) {
        if self.logs.by_group.len() > FITTED_MAX {
            self.visit_from = Some(Turn::FIRST);
            return;
        }
        let groups: Vec<_> = self.logs.by_group.keys().copied().collect();
        groups.into_iter().for_each(|group| self.settle(records, group));
    }

    /// Adapts the log of a group to a limit that has changed. Returns the number of entries that it had to visit.
    pub(super) fn fit_rate(&mut self, group: Group) -> usize {
        if !self.entries.get(group).has_log {
            return 0;
        }
        let (limit, Some(log)) = (self.rate(group), self.logs.by_group.get(&group)) else {
            return 0;
        };
        if limit == Some((log.max(), log.per())) {
            return 0;
        }
        let visited = log.entries().len();
        match limit.map(|(max, per)| log.changed(max, per)) {
            Some(changed) => self.logs.set(group, changed),
            None => self.drop_log(group),
        }
        visited
    }

    fn drop_log(&mut self, group: Group) {
        self.logs.remove(group);
        self.entries.get_mut(group).has_log = false;
    }

    /// Removes logs that are over at `now`, among at most `most`. Returns whether there are more to examine.
    pub fn forget_rates(&mut self, records: &Records, now: u64, most: usize) -> bool {
        for _ in 0..most {
            let Some((group, is_over)) = self.logs.examine(now) else { return false };
            if is_over {
                self.drop_log(group);
                self.settle(records, group);
            }
        }
        true
    }

    /// Notes that the clock has stepped back to `now`, if it has: then groups find out anew when they give something out,
    /// because what they gave out later than now counts as given out now. Returns whether that matters to any.
    pub fn note_clock(&mut self, now: u64) -> bool {
        let is_behind = self.is_behind(now);
        if is_behind {
            self.visit_from = Some(Turn::FIRST);
            self.clock = now;
        }
        is_behind
    }

    /// Returns whether the clock has stepped back, where groups may hold back elements.
    #[inline(always)]
    pub fn is_behind(&self, now: u64) -> bool {
        now < self.clock && (self.may_hold_back() || !self.logs.by_group.is_empty())
    }
}
