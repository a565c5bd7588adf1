//! The limits of groups: setting them, and bringing groups to what is set.
//!
//! A group has the limits under which it is filed: the number that it may hold in its record, its rate in its log. A change for
//! one group reaches that at once. A change for each reaches the first [`FITTED_MAX`] at once, and the others as the owner calls
//! [`Groups::fit_some`]; until then a group goes on under the limits that it had. In the same way groups find out that the clock
//! has stepped back: what they gave out later than now counts as given out now.

use super::super::element::Group;
use super::super::rate::Rate;
use super::super::store::Records;
use super::super::tiny::TINY;
use super::super::work;
use super::Groups;
use super::held::PLACES_MAX;
use super::settings::{Enforced, GroupLimits, GroupSettings};
use super::table::GroupRecord;

/// The most groups that one call brings to the limits that are set.
pub const FITTED_MAX: usize = if TINY { 4 } else { 256 };
/// The most entries of logs and leases that such a call walks, about.
const WALKED_MAX: usize = if TINY { 16 } else { 4096 };

/// A moment at which no log is from the future.
const AS_KNOWN: u64 = i64::MAX as u64;

impl Groups {
    /// Returns whether any group has a setting.
    pub fn has_settings(&self) -> bool {
        !self.settings.is_empty() || self.each != GroupLimits::NONE
    }

    /// Returns the settings of the group of this name.
    pub fn settings(&self, name: &[u8]) -> GroupSettings {
        self.settings.get(name).copied().unwrap_or(GroupSettings::NONE)
    }

    /// Returns the settings of a group.
    #[inline(always)]
    pub(super) fn own(&self, group: Group) -> &GroupSettings {
        let has_own = self.table.get(group).has_settings;
        let own = if has_own { self.settings.get(self.table.name(group)) } else { None };
        own.unwrap_or(&GroupSettings::NONE)
    }

    /// Changes the settings of a group. For the elements without a group only the share has a meaning.
    pub fn set(&mut self, records: &Records, group: Group, settings: GroupSettings) {
        let settings = GroupSettings { share: settings.share.max(1), ..settings };
        let name = self.table.name(group).to_vec();
        let before = self.settings(&name);
        if before.ends() {
            self.pauses.remove(&(before.paused_until, group));
        }
        if settings.ends() {
            self.pauses.insert((settings.paused_until, group));
        }
        let record = self.table.get_mut(group);
        record.has_settings = settings != GroupSettings::NONE;
        if record.has_settings {
            self.settings.insert(name, settings);
        } else {
            self.settings.remove(&name);
        }
        if group != self.ungrouped && !self.fit(records, group) {
            self.fit_from = Some(0);
        }
    }

    /// Changes the limits of each group.
    pub fn set_each(&mut self, records: &Records, limits: GroupLimits) {
        self.each = limits;
        self.fit_all(records);
    }

    /// Changes which limits hold.
    pub fn enforce(&mut self, records: &Records, enforced: Enforced) {
        if enforced != self.enforced {
            self.enforced = enforced;
            self.fit_all(records);
        }
    }

    /// Returns how many elements of a group may be held, as is set. 0: any number.
    pub fn held_limit(&self, group: Group) -> u32 {
        let limit = match self.own(group).limits.held {
            _ if !self.enforced.held || group == self.ungrouped => 0,
            0 => self.each.held,
            own => own,
        };
        limit.try_into().unwrap_or(u32::MAX)
    }

    /// Returns the limit of what a group gives out in a time, as is set: a number of elements, and a number of milliseconds.
    pub fn rate_limit(&self, group: Group) -> Option<(u64, u64)> {
        let limit = self.own(group).limits.rate().or(self.each.rate());
        limit.filter(|_| self.enforced.rate && group != self.ungrouped)
    }

    /// Returns the limit of rate of the group of this name, which need not exist.
    pub fn rate_limit_of(&self, name: &[u8]) -> Option<(u64, u64)> {
        let limit = self.settings(name).limits.rate().or(self.each.rate());
        limit.filter(|_| self.enforced.rate && !name.is_empty())
    }

    /// Brings a group to the limits that are set, and files it. Returns whether it is there: see [`Groups::fit_held`].
    fn fit(&mut self, records: &Records, group: Group) -> bool {
        work::step(1);
        let is_fit = self.fit_held(records, group, self.held_limit(group));
        self.fit_log(group);
        // All was given out by then, if the clock has stepped back or the granules of the log have become smaller.
        self.logs.apply_clock(group, self.logs.latest);
        self.refile(records, group);
        is_fit
    }

    /// Returns how many leases and entries of a log are walked, at most, to bring a group to its limits.
    fn distance(&self, group: Group) -> usize {
        let (limit, record) = (self.held_limit(group), self.table.get(group));
        let leases = if record.held_max == limit { 0 } else { record.held_len.min(PLACES_MAX) };
        let log = self.logs.get(group);
        let log = log.filter(|log| self.rate_limit(group) != Some((log.max(), log.per())));
        leases as usize + log.map_or(0, |log| log.entries().len())
    }

    /// Adapts the log of a group to its limit of rate.
    fn fit_log(&mut self, group: Group) {
        let Some(log) = self.logs.get(group) else { return };
        match self.rate_limit(group) {
            None => self.drop_log(group),
            Some(limit) if limit == (log.max(), log.per()) => {}
            Some((max, per)) => {
                work::step(log.entries().len());
                let changed = log.changed(max, per);
                self.logs.set(group, changed);
            }
        }
    }

    /// Returns until when a group is blocked: to the end of its pause, or of what its limit of rate makes it wait.
    #[inline(always)]
    pub(super) fn blocked_until(&self, group: Group) -> u64 {
        let GroupRecord { has_settings, has_log, .. } = *self.table.get(group);
        if has_settings || has_log { self.find_blocked_until(group) } else { 0 }
    }

    #[inline(never)]
    fn find_blocked_until(&self, group: Group) -> u64 {
        let next = self.logs.get(group).map_or(0, |log| log.next(AS_KNOWN));
        next.max(self.own(group).paused_until)
    }

    /// Begins to bring all groups to the limits that are set: the first few at once.
    fn fit_all(&mut self, records: &Records) {
        self.fit_from = Some(0);
        self.fit_some(records);
    }

    /// Brings some more groups to the limits that are set. Returns whether there are more.
    pub fn fit_some(&mut self, records: &Records) -> bool {
        let Some(from) = self.fit_from else { return false };
        let (groups, next) = self.table.some(from, FITTED_MAX);
        let (mut walked, mut are_fit) = (0, true);
        for group in groups {
            if group == self.ungrouped {
                continue;
            }
            if walked >= WALKED_MAX {
                are_fit = false;
                break;
            }
            walked += self.distance(group);
            are_fit &= self.fit(records, group);
        }
        // Those that are there cost little the second time.
        self.fit_from = if are_fit { Some(next).filter(|next| *next > 0) } else { Some(from) };
        self.fit_from.is_some()
    }

    /// Records under a group's limit of rate that it gave out `count` elements. Returns whether it has one.
    pub fn record(&mut self, records: &Records, group: Group, moment: u64, count: u64) -> bool {
        let Some(limit) = self.rate_limit(group) else { return false };
        self.fit_log(group);
        self.logs.record(group, limit, moment, count);
        self.table.get_mut(group).has_log = true;
        self.refile(records, group);
        true
    }

    /// Counts an element under a group's limit of rate, if there is one, for [`Groups::take_counted`] too.
    #[inline(always)]
    pub fn count_given(&mut self, records: &Records, group: Group, now: u64) {
        let may_be_limited = self.each.rate > 0 || self.table.get(group).has_settings;
        if may_be_limited && self.record(records, group, now, 1) {
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
        counted.map(|(group, count)| (self.table.name(group).to_vec(), count)).collect()
    }

    /// Lists the groups that have a log which is not over at `now`, by name, if their rates are limited. Each log is as its
    /// limit is now.
    pub fn all_logs(&self, now: u64) -> Vec<(&[u8], Rate)> {
        let log = |group: Group| {
            let ((max, per), log) = (self.rate_limit(group)?, self.logs.get(group)?);
            let log = log.changed(max, per);
            (!log.is_over(now)).then(|| (self.table.name(group), log))
        };
        let mut all: Vec<_> = self.logs.groups().filter_map(log).collect();
        all.sort_unstable_by_key(|it| it.0);
        all
    }

    /// Sets the log of a group that has a limit of rate.
    pub fn set_log(&mut self, records: &Records, group: Group, log: Rate) {
        self.logs.latest = self.logs.latest.max(log.last());
        self.logs.set(group, log);
        self.table.get_mut(group).has_log = true;
        self.refile(records, group);
    }

    fn drop_log(&mut self, group: Group) {
        self.logs.remove(group);
        self.table.get_mut(group).has_log = false;
    }

    /// Removes logs that are over at `now`, among at most `most`. Returns whether there may be more.
    pub fn forget_logs(&mut self, records: &Records, now: u64, most: usize) -> bool {
        for _ in 0..most {
            let Some((group, is_over)) = self.logs.examine(now) else { return false };
            if is_over {
                self.drop_log(group);
            }
            // The log may have found out that the clock has stepped back.
            self.refile(records, group);
        }
        true
    }

    /// Returns when the first pause of a group ends, or a log may be over, in milliseconds since the epoch. O(1).
    pub fn first_end(&self) -> Option<u64> {
        let pause = self.pauses.first().map(|(end, _)| *end);
        pause.into_iter().chain(self.logs.first_end()).min()
    }

    /// Lists the groups whose pauses are over at `now`, in the order of their ends.
    pub fn ended_pauses(&self, now: u64) -> impl Iterator<Item = &[u8]> {
        let ended = self.pauses.iter().take_while(move |(end, _)| *end <= now);
        ended.map(|(_, group)| self.table.name(*group))
    }

    /// Returns whether the clock has stepped back to `now` since groups have given out something under a limit of rate.
    pub fn is_behind(&self, now: u64) -> bool {
        now < self.logs.latest && !self.logs.is_empty()
    }

    /// Notes that the clock has stepped back to `now`, if it has.
    pub fn step_back(&mut self, records: &Records, now: u64) {
        if self.is_behind(now) {
            self.logs.latest = now;
            self.fit_all(records);
        }
    }
}
