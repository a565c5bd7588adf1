//! The groups of a lawn. A lawn that gets one is converted to the full form.

use super::element::{Element, Group, Row};
use super::error::StartError;
use super::full::Full;
use super::groups::{Enforced, GroupLimits, GroupSettings};
use super::lawn::{Form, Lawn, Taken};
use super::rate::Rate;
use super::turn::{DEADLINE_MAX, Start};

impl Lawn {
    /// Starts an element as [`Lawn::start`] does, in the group of this name, of at most [`GROUP_NAME_MAX`] bytes. An empty
    /// name is no group.
    ///
    /// [`GROUP_NAME_MAX`]: super::GROUP_NAME_MAX
    ///
    /// # Errors
    ///
    /// [`StartError`]; then nothing has changed.
    #[inline]
    pub fn start_in_group(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: Option<&[u8]>,
    ) -> Result<(), StartError> {
        match group.filter(|name| !name.is_empty()) {
            None => self.start(ttl, new),
            Some(_) if new.deadline > DEADLINE_MAX => Err(StartError::TooLate),
            Some(name) => self.full().start_in_group(ttl, new, name),
        }
    }

    /// Replaces an element as [`Lawn::replace`] does, by one in this group.
    ///
    /// # Errors
    ///
    /// [`StartError`], but not [`StartError::Exists`]; then nothing has changed.
    #[inline]
    pub fn replace_in_group(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: Option<&[u8]>,
    ) -> Result<(), StartError> {
        match group.filter(|name| !name.is_empty()) {
            None => self.replace(ttl, new),
            Some(_) if new.deadline > DEADLINE_MAX => Err(StartError::TooLate),
            Some(name) => self.full().replace_in_group(ttl, new, name),
        }
    }

    /// Returns the name of an element's group.
    pub fn group_name(&self, group: Group) -> &[u8] {
        self.as_full().map_or(&[], |full| full.groups().name(group))
    }

    /// Returns whether elements are given out in turns: there is a group with an element or a setting. O(1).
    #[inline]
    pub fn has_groups(&self) -> bool {
        self.as_full().is_some_and(Full::has_groups)
    }

    /// Returns the element that [`Lawn::drain`] and [`Lawn::lease_due`] take next at `now`. Without groups that is the
    /// first of all, if it is due, and with groups the first of the group whose turn it is. After the clock stepped back it
    /// may return `None` though there is one, until one is taken.
    #[inline]
    pub fn next_in_turn(&self, now: u64) -> Option<Row<'_>> {
        match &self.form {
            Form::Small(small) => small.rows(Start::FIRST, now).next(),
            Form::Full(full) => full.next_in_turn(now),
        }
    }

    /// Iterates over the due elements in the order in which they are given out, as far as it is known: with groups only the
    /// next one is, because giving it out decides whose turn is next.
    pub fn due_in_turn(&self, now: u64) -> impl Iterator<Item = Row<'_>> {
        let takes_turns = self.as_full().is_some_and(|full| full.takes_turns(now));
        let next = if takes_turns { self.next_in_turn(now) } else { None };
        // What is in a group, and due, is held back.
        let all = (!takes_turns).then(|| self.group_rows(None, Start::FIRST, now));
        next.into_iter().chain(all.into_iter().flatten())
    }

    /// Takes an element out as [`Lawn::stop`] does. It counts as given out at `now`.
    pub fn stop_in_turn(&mut self, id: &[u8], now: u64) -> Option<Taken<'_>> {
        self.full_mut().into_iter().for_each(|full| full.give_turn(id, now));
        self.stop(id)
    }

    /// Lets the group whose turn it is at `now` go to the end of the round.
    pub fn pass_turn(&mut self, now: u64) {
        self.full_mut().into_iter().for_each(|full| full.pass_turn(now));
    }

    /// Changes what is set for a group. [`GroupSettings::NONE`] removes its settings. The empty name stands for all
    /// elements without a group, which can only have a share.
    pub fn set_group(&mut self, group: &[u8], settings: GroupSettings) {
        if settings != GroupSettings::NONE || !self.is_small() {
            self.full().set_group(group, settings);
        }
    }

    /// Returns what is set for a group.
    pub fn settings_of(&self, group: &[u8]) -> GroupSettings {
        self.as_full().map_or(GroupSettings::NONE, |full| full.settings_of(group))
    }

    /// Changes the limits of each group that has none of its own. They do not hold for the elements without a group.
    pub fn set_each_group(&mut self, limits: GroupLimits) {
        if limits != GroupLimits::NONE || !self.is_small() {
            self.full().set_each_group(limits);
        }
    }

    /// Changes which limits of groups hold: both do by default. A lawn that has no groups yet does not remember it.
    pub fn enforce(&mut self, enforced: Enforced) {
        self.full_mut().into_iter().for_each(|full| full.enforce(enforced));
    }

    /// Returns the limits of each group that has none of its own.
    pub fn each_group(&self) -> GroupLimits {
        let groups = self.as_full().and_then(|full| full.groups.as_ref());
        groups.map_or(GroupLimits::NONE, |groups| groups.each())
    }

    /// Records that elements of a group were given out at a moment, in milliseconds since the epoch. Returns whether there
    /// is a limit of rate for that. [`Lawn::drain`], [`Lawn::lease_due`] and [`Lawn::stop_in_turn`] do so themselves: see
    /// [`Lawn::take_counted`].
    pub fn record_given(&mut self, group: &[u8], moment: u64, count: u64) -> bool {
        self.full_mut().is_some_and(|full| full.record_given(group, moment, count))
    }

    /// Returns the groups whose elements were given out under a limit of rate since the last call, and how many, which a
    /// copy of the lawn has to [record](Lawn::record_given).
    #[inline]
    pub fn take_counted(&mut self) -> Vec<(Vec<u8>, u64)> {
        self.full_mut().map_or(Vec::new(), Full::take_counted)
    }

    /// Returns the limit of rate of a group: a number of elements, and a number of milliseconds.
    pub fn group_rate(&self, group: &[u8]) -> Option<(u64, u64)> {
        self.as_full().filter(|_| !group.is_empty())?.rate_of(group)
    }

    /// Sets the log of what a group gave out. Returns `false` if the group has another limit of rate.
    pub fn set_group_log(&mut self, group: &[u8], log: Rate) -> bool {
        self.full_mut().is_some_and(|full| full.set_log(group, log))
    }

    /// Lists the logs that count at `now`, by the names of their groups.
    pub fn group_logs(&self, now: u64) -> Vec<(&[u8], Rate)> {
        let groups = self.as_full().and_then(|full| full.groups.as_ref());
        groups.map_or(Vec::new(), |groups| groups.logs(now))
    }

    /// Returns a moment, in milliseconds since the epoch, before which the logs of all groups count, if there is one. O(1).
    pub fn group_logs_end(&self) -> Option<u64> {
        self.as_full()?.groups.as_ref()?.logs_end()
    }

    /// Notes that the clock has stepped back to `now`, if it has: what groups gave out later than now counts as given out
    /// now. Looks do that, too. Returns whether that matters to any group.
    pub fn step_back(&mut self, now: u64) -> bool {
        let groups = self.full_mut().and_then(|full| full.groups.as_mut());
        groups.is_some_and(|groups| groups.note_clock(now))
    }

    /// Returns whether [`Lawn::step_back`] has something to do.
    pub fn is_behind(&self, now: u64) -> bool {
        let groups = self.as_full().and_then(|full| full.groups.as_ref());
        groups.is_some_and(|groups| groups.is_behind(now))
    }

    /// Removes logs that count no more at `now`, among `most` at most. Returns whether there are more to examine: after the
    /// last one, the next call begins anew.
    pub fn forget_group_logs(&mut self, now: u64, most: usize) -> bool {
        self.full_mut().is_some_and(|full| full.forget_rates(now, most))
    }

    /// Returns the number of groups that have an element.
    pub fn groups(&self) -> usize {
        self.as_full().and_then(|full| full.groups.as_ref()).map_or(0, |groups| groups.filled())
    }

    /// Returns the number of elements of a group. `None`: of those without a group.
    pub fn group_len(&self, group: Option<&[u8]>) -> usize {
        match (self.as_full(), group) {
            (Some(full), _) => full.group_len(group),
            (None, None) => self.len(),
            (None, Some(_)) => 0,
        }
    }

    /// Iterates over the elements of a group, or over those without one, in the order of delivery, from `start` to the
    /// last element whose deadline is at or before `end`.
    pub fn group_rows(
        &self,
        group: Option<&[u8]>,
        start: Start,
        end: u64,
    ) -> impl Iterator<Item = Row<'_>> {
        let small = (self.is_small() && group.is_none()).then(|| self.rows(start, end));
        let full = self.as_full().map(|full| full.group_rows(group, start, end));
        small.into_iter().flatten().chain(full.into_iter().flatten())
    }

    /// Iterates over the elements of a group that have another deadline than this one, and are under no lease that ends
    /// after `now`: those that move if the whole group is to come due then.
    pub fn group_at_rest(
        &self,
        group: &[u8],
        deadline: u64,
        now: u64,
    ) -> impl Iterator<Item = Row<'_>> {
        let full = self.as_full().map(|full| full.group_at_rest(group, deadline, now));
        full.into_iter().flatten()
    }

    /// Returns whether a lease that has ended may be extended at `now`, as far as the limit of the group is concerned that
    /// the element is in, if any.
    pub fn group_has_room(&self, element: &Element<'_>, now: u64) -> bool {
        let full = self.as_full().zip(element.group);
        full.is_none_or(|(full, group)| full.group_has_room(group, now))
    }

    /// Returns whether there is a limit of what the group of an element holds.
    pub fn limits_held(&self, element: &Element<'_>) -> bool {
        let full = self.as_full().zip(element.group);
        full.is_some_and(|(full, group)| full.groups().held_max(group) > 0)
    }

    /// Returns whether any group, or each, has a setting. O(1).
    pub fn has_group_settings(&self) -> bool {
        matches!(self.as_full(), Some(Full { groups: Some(groups), .. }) if groups.has_settings())
    }

    /// Lists the groups that have settings, by name.
    pub fn group_settings(&self) -> impl Iterator<Item = (&[u8], GroupSettings)> {
        self.as_full().into_iter().flat_map(Full::group_settings)
    }

    /// Lists the groups with the most elements, at most `most`, and their numbers of elements, the greatest first. Exact
    /// for up to 1,024 groups; with more, it visits 1,024 of the greatest, none of which has less than 64 elements.
    pub fn greatest_groups(&self, most: usize) -> Vec<(&[u8], usize)> {
        self.as_full().map_or(Vec::new(), |full| full.greatest_groups(most))
    }

    /// Returns whether groups may hold back elements that are due.
    #[cfg(test)]
    pub(super) fn may_hold_back(&self) -> bool {
        let groups = self.as_full().and_then(|full| full.groups.as_ref());
        groups.is_some_and(|groups| groups.may_hold_back())
    }

    /// Visits all groups after the limits of each have changed.
    #[cfg(test)]
    pub(super) fn visit_groups(&mut self) {
        if let Some(full) = self.full_mut()
            && let Some(groups) = &mut full.groups
        {
            groups.visit_all(&full.records);
        }
    }

    fn full_mut(&mut self) -> Option<&mut Full> {
        match &mut self.form {
            Form::Small(_) => None,
            Form::Full(full) => Some(full),
        }
    }

    fn as_full(&self) -> Option<&Full> {
        match &self.form {
            Form::Small(_) => None,
            Form::Full(full) => Some(full),
        }
    }
}
