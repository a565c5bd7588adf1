//! The limits of groups: setting them, and bringing groups to what is set.
//!
//! A group has the limits under which it is filed: the number that it may hold in its record, its rate in its log. A change for
//! one group reaches that at once. A change for each reaches some at once, and the rest as the owner calls
//! [`GroupsMut::fit_some`]; until then a group goes on under the limits that it had. In the same way groups find out that the clock
//! has stepped back: what they gave out later than now counts as given out now.

use std::ops::{Deref, DerefMut};

use super::super::element::Group;
use super::super::rate::Rate;
use super::super::store::Records;
use super::super::tiny::TINY;
use super::super::work;
use super::Groups;
use super::rules::{Enforced, GroupLimits, GroupSettings};
use super::table::GroupRecord;

/// The groups that are visited together, about.
const BATCH: usize = if TINY { 2 } else { 16 };
/// The work of a call that fits groups, about: groups visited, leases and entries of logs walked. Of a million groups, that takes
/// some 200 microseconds.
pub const FIT_WORK: usize = if TINY { 4 } else { 512 };
/// The work to file a group elsewhere, among a million.
const REFILE_WORK: usize = if TINY { 1 } else { 16 };

/// A moment at which no log is from the future.
const AS_KNOWN: u64 = i64::MAX as u64;

impl Groups {
    #[inline(always)]
    pub(super) fn own(&self, group: Group) -> GroupSettings {
        let has_own = self.table.get(group).has_settings;
        if has_own { self.rules.of(self.table.name(group)) } else { GroupSettings::NONE }
    }

    /// Returns the limits that hold for a group.
    pub fn limits(&self, group: Group) -> GroupLimits {
        if group == self.ungrouped {
            return GroupLimits::NONE;
        }
        self.rules.holding(self.own(group).limits)
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

    /// Lists the groups that have a log which is not over at `now`, by name, if their rates are limited. Each log is as its
    /// limit is now.
    pub fn all_logs(&self, now: u64) -> Vec<(&[u8], Rate)> {
        let log = |group: Group| {
            let ((max, per), log) = (self.limits(group).rate()?, self.logs.get(group)?);
            let log = log.changed(max, per);
            (!log.is_over(now)).then(|| (self.table.name(group), log))
        };
        let mut all: Vec<_> = self.logs.groups().filter_map(log).collect();
        all.sort_unstable_by_key(|it| it.0);
        all
    }

    /// Returns whether groups are left that have not the limits that are set: see [`GroupsMut::fit_some`].
    #[inline]
    pub fn must_fit(&self) -> bool {
        self.fit_from.is_some()
    }

    /// Returns when the first pause of a group ends, or a log may be over, in milliseconds since the epoch. O(1).
    pub fn first_end(&self) -> Option<u64> {
        self.rules.first_end().into_iter().chain(self.logs.first_end()).min()
    }

    /// Returns whether any group has a log, so that it matters if the clock steps back.
    #[inline]
    pub fn has_logs(&self) -> bool {
        self.logs.len() > 0
    }

    /// Returns whether the clock has stepped back to `now` since groups have given out something under a limit of rate.
    pub fn is_behind(&self, now: u64) -> bool {
        self.has_logs() && now < self.logs.latest
    }
}

/// The groups of a lawn, to change what is set for them, with the elements that it files them by.
pub struct GroupsMut<'a> {
    pub(in super::super) groups: &'a mut Groups,
    pub(in super::super) records: &'a Records,
}

impl Deref for GroupsMut<'_> {
    type Target = Groups;

    fn deref(&self) -> &Groups {
        self.groups
    }
}

impl DerefMut for GroupsMut<'_> {
    fn deref_mut(&mut self) -> &mut Groups {
        self.groups
    }
}

impl GroupsMut<'_> {
    /// Changes what is set for the group of this name. For the elements without a group only the share has a meaning.
    pub fn set(&mut self, name: &[u8], settings: GroupSettings) {
        let settings = GroupSettings { share: settings.share.max(1), ..settings };
        self.rules.set(name, settings);
        if let Some(group) = self.table.find(name) {
            self.table.get_mut(group).has_settings = settings != GroupSettings::NONE;
            if !self.fit(group, &mut 0) {
                self.fit_from = Some(0);
            }
        }
    }

    pub fn set_each(&mut self, limits: GroupLimits) {
        self.rules.each = limits;
        self.fit_all();
    }

    /// Changes which limits hold.
    pub fn enforce(&mut self, enforced: Enforced) {
        if enforced != self.rules.enforced {
            self.rules.enforced = enforced;
            self.fit_all();
        }
    }

    /// Begins to bring all groups to the limits that are set: the first few at once.
    fn fit_all(&mut self) {
        self.fit_from = Some(0);
        self.fit_some();
    }

    /// Brings some more groups to the limits that are set. Returns whether there are more.
    pub fn fit_some(&mut self) -> bool {
        let mut work = 0;
        while let Some(from) = self.fit_from
            && work < FIT_WORK
        {
            let (groups, next) = self.table.some(from, BATCH);
            work += BATCH;
            // If the work is used up in the middle, the next call visits all of them again: the fitted ones cost little then.
            let fit = |group| work < FIT_WORK && self.fit(group, &mut work);
            if groups.into_iter().all(fit) {
                self.fit_from = Some(next).filter(|next| *next > 0);
            }
        }
        self.fit_from.is_some()
    }

    /// Brings a group to the limits that are set, files it, and adds the work of that. Returns whether it is there: see
    /// [`Groups::fit_held`].
    fn fit(&mut self, group: Group, work: &mut usize) -> bool {
        if group == self.ungrouped {
            return true;
        }
        work::step(1);
        let limits = self.limits(group);
        let (places, is_fit) = self.groups.fit_held(self.records, group, limits.held_max());
        *work += places + self.fit_log(group, limits);
        // All was given out by then, if the clock has stepped back or the granules of the log have become smaller.
        let latest = self.logs.latest;
        self.logs.apply_clock(group, latest);
        if self.refile(group) {
            *work += REFILE_WORK;
        }
        is_fit
    }

    /// Adapts the log of a group to its limit of rate. Returns the number of entries walked.
    fn fit_log(&mut self, group: Group, limits: GroupLimits) -> usize {
        let Some(log) = self.logs.get(group) else { return 0 };
        match limits.rate() {
            None => self.drop_log(group),
            Some(limit) if limit == (log.max(), log.per()) => {}
            Some((max, per)) => {
                let walked = log.entries().len();
                work::step(walked);
                let changed = log.changed(max, per);
                self.logs.set(group, changed);
                return walked;
            }
        }
        0
    }

    /// Files a group by when it is eligible. Returns whether that has changed.
    fn refile(&mut self, group: Group) -> bool {
        self.groups.refile(self.records, group)
    }

    /// Records that the group of this name gave out `count` elements at a moment, in milliseconds since the epoch. Returns whether
    /// there is a limit of rate for that. Whatever the lawn gives out itself is recorded: see [`GroupsMut::take_counted`].
    pub fn record(&mut self, name: &[u8], moment: u64, count: u64) -> bool {
        self.change_log(name, |groups, group| groups.record_for(group, moment, count))
    }

    fn record_for(&mut self, group: Group, moment: u64, count: u64) -> bool {
        let limits = self.limits(group);
        let Some(rate) = limits.rate() else { return false };
        self.fit_log(group, limits);
        self.logs.record(group, rate, moment, count);
        self.table.get_mut(group).has_log = true;
        self.refile(group);
        true
    }

    /// Sets the log of the group of this name. Returns `false` if the group has another limit of rate.
    pub fn set_log(&mut self, name: &[u8], log: Rate) -> bool {
        self.change_log(name, |groups, group| {
            let is_its = groups.limits(group).rate() == Some((log.max(), log.per()));
            if is_its {
                groups.logs.latest = groups.logs.latest.max(log.last());
                groups.logs.set(group, log);
                groups.table.get_mut(group).has_log = true;
                groups.refile(group);
            }
            is_its
        })
    }

    /// Changes the log of a group, which may have no element. Returns what `change` does.
    fn change_log(&mut self, name: &[u8], change: impl FnOnce(&mut Self, Group) -> bool) -> bool {
        let Some(group) = self.find_or_create(name) else { return false };
        let is_changed = change(self, group);
        self.free_if_unused(group);
        is_changed
    }

    /// Counts an element under a group's limit of rate, if there is one, for [`GroupsMut::take_counted`] too.
    #[inline(always)]
    pub fn count_given(&mut self, group: Group, now: u64) {
        let may_be_limited = self.rules.each.rate > 0 || self.table.get(group).has_settings;
        if may_be_limited && self.record_for(group, now, 1) {
            *self.logs.counted.entry(group).or_default() += 1;
        }
    }

    /// Returns the groups whose elements were counted since the last call, and the number of elements, which a copy of the lawn
    /// has to [record](GroupsMut::record).
    pub fn take_counted(&mut self) -> Vec<(Vec<u8>, u64)> {
        // This is asked after each element, and usually there is none.
        if self.logs.counted.is_empty() {
            return Vec::new();
        }
        let counted = std::mem::take(&mut self.logs.counted).into_iter();
        counted.map(|(group, count)| (self.table.name(group).to_vec(), count)).collect()
    }

    fn drop_log(&mut self, group: Group) {
        self.logs.remove(group);
        self.table.get_mut(group).has_log = false;
    }

    /// Removes logs that are over at `now`, among at most `most`. Returns whether there may be more.
    pub fn forget_logs(&mut self, now: u64, most: usize) -> bool {
        for _ in 0..most {
            let Some((group, is_over)) = self.logs.examine(now) else { return false };
            if is_over {
                self.drop_log(group);
            }
            // The log may have found out that the clock has stepped back.
            self.refile(group);
        }
        true
    }

    /// Begins to apply that the clock has stepped back to `now`, if it has.
    pub fn step_back(&mut self, now: u64) {
        if self.is_behind(now) {
            self.logs.latest = now;
            self.fit_all();
        }
    }
}
