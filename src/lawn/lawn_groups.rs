//! The groups of a lawn. A lawn that gets one is converted to the full form.

use super::element::StartError;
use super::element::{Element, Group, Row};
use super::full::Full;
use super::groups::{GroupLimits, GroupRules, GroupSettings, Groups, GroupsMut};
use super::lawn::{Form, Lawn, Rows, Taken};
use super::queues::Walk;
use super::rank::{DEADLINE_MAX, Rank, Start};

impl Lawn {
    /// Starts an element as [`Lawn::start`] does, in the group of this name, of at most [`GROUP_NAME_MAX`] bytes. An
    /// empty name is no group. Fails with [`StartError`]; then nothing has changed.
    ///
    /// [`GROUP_NAME_MAX`]: super::GROUP_NAME_MAX
    #[inline]
    pub fn start_in_group(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: Option<&[u8]>,
    ) -> Result<(), StartError> {
        match group.filter(|name| !name.is_empty()) {
            None => self.start(ttl, new),
            Some(name) if self.is_small() => self.start_small(ttl, new, Some(name)),
            Some(name) => self.put(name, new, |full, group| full.insert(ttl, new, Some(group))),
        }
    }

    /// Replaces an element as [`Lawn::replace`] does, by one in this group. Fails with [`StartError`], but not
    /// [`StartError::Exists`]; then nothing has changed.
    #[inline]
    pub fn replace_in_group(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: Option<&[u8]>,
    ) -> Result<(), StartError> {
        match group.filter(|name| !name.is_empty()) {
            None => self.replace(ttl, new),
            Some(name) if self.is_small() => self.replace_small(ttl, new, Some(name)),
            Some(name) => self.put(name, new, |full, group| full.replace(ttl, new, Some(group))),
        }
    }

    /// Puts an element into the group of this name, which is created for it.
    #[inline(never)]
    pub(super) fn put(
        &mut self,
        group: &[u8],
        new: &Element<'_>,
        put: impl FnOnce(&mut Full, Group) -> Result<(), StartError>,
    ) -> Result<(), StartError> {
        if new.deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        let full = self.full();
        let group = full.groups_mut().0.find_or_create(group).ok_or(StartError::Full)?;
        put(full, group).inspect_err(|_| full.groups_mut().0.free_if_unused(group))
    }

    /// Returns the name of an element's group.
    pub fn group_name(&self, group: Group) -> &[u8] {
        match &self.form {
            Form::Small(small) => small.group().unwrap_or_default(),
            Form::Full(full) => full.groups.as_ref().map_or(&[], |it| it.table.name(group)),
        }
    }

    /// Returns the only group that a small lawn has, and the number of its elements.
    fn small_group(&self) -> Option<(&[u8], usize)> {
        let Form::Small(small) = &self.form else { return None };
        small.group().map(|name| (name, small.len())).filter(|(_, len)| *len > 0)
    }

    /// Returns whether elements are given out in turns: there is a group with an element or a setting. O(1).
    #[inline]
    pub fn has_groups(&self) -> bool {
        self.small_group().is_some() || self.groups().is_some_and(Groups::is_in_use)
    }

    /// Returns the element that [`Lawn::drain`] and [`Lawn::lease_due`] take next at `now`. Without groups that is the
    /// first of all, if it is due, and with groups the first of the group whose turn it is.
    #[inline]
    pub fn next_in_turn(&self, now: u64) -> Option<Row<'_>> {
        match &self.form {
            Form::Small(small) => small.rows(0, now).next(),
            Form::Full(full) => full.next_in_turn(now),
        }
    }

    /// Iterates over the due elements in the order in which they are given out, as far as it is known: with groups only the
    /// next one is, because giving it out decides whose turn is next.
    pub fn due_in_turn(&self, now: u64) -> impl Iterator<Item = Row<'_>> {
        let takes_turns = self.groups().is_some_and(|groups| groups.are_due(now));
        let next = if takes_turns { self.next_in_turn(now) } else { None };
        let all = if takes_turns { None } else { Some(self.rows_without_group(Rank::FIRST, now)) };
        next.into_iter().chain(all.into_iter().flatten())
    }

    /// Takes an element out as [`Lawn::stop`] does. It counts as given out at `now`.
    pub fn stop_in_turn(&mut self, id: &[u8], now: u64) -> Option<Taken<'_>> {
        if let Form::Full(full) = &mut self.form {
            full.give_turn(id, now);
        }
        self.stop(id)
    }

    /// Changes what is set for a group. [`GroupSettings::NONE`] removes its settings. The empty name stands for all
    /// elements without a group, which can only have a share.
    pub fn set_group(&mut self, group: &[u8], settings: GroupSettings) {
        if settings != self.group_rules().of(group) {
            let (groups, records) = self.full().groups_mut();
            GroupsMut { groups, records }.set(group, settings);
        }
    }

    #[inline]
    pub fn group_rules(&self) -> &GroupRules {
        static NONE: GroupRules = GroupRules::NONE;
        self.groups().map_or(&NONE, |groups| &groups.rules)
    }

    /// Changes the limits of each group that has none of its own. They do not hold for the elements without a group.
    pub fn set_each_group(&mut self, limits: GroupLimits) {
        if limits != self.group_rules().each {
            let (groups, records) = self.full().groups_mut();
            GroupsMut { groups, records }.set_each(limits);
        }
    }

    /// Returns all groups. `None`: there are none, or the lawn is small. Then nothing is set for the only one that it may have.
    #[inline]
    pub fn groups(&self) -> Option<&Groups> {
        let Form::Full(full) = &self.form else { return None };
        full.groups.as_deref()
    }

    /// Does what [`Lawn::groups`] does, to change what is set for them.
    #[inline]
    pub fn groups_mut(&mut self) -> Option<GroupsMut<'_>> {
        let Form::Full(full) = &mut self.form else { return None };
        Some(GroupsMut { groups: full.groups.as_deref_mut()?, records: &full.records })
    }

    /// Returns the number of groups that have an element.
    pub fn group_count(&self) -> usize {
        let of_small = self.small_group().is_some().into();
        self.groups().map_or(of_small, |groups| groups.filled)
    }

    /// Returns the number of elements of a group. `None`: of those without a group.
    pub fn group_len(&self, group: Option<&[u8]>) -> usize {
        if let Some((name, len)) = self.small_group() {
            return if group == Some(name) { len } else { 0 };
        }
        let groups = self.groups();
        match group {
            None => self.len() - groups.map_or(0, |groups| groups.elements),
            Some(name) => self
                .group(name)
                .map_or(0, |(_, groups, group)| groups.table.get(group).len as usize),
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
        let from = start.rank();
        // All elements of a small lawn are in one group or in none.
        let is_all = group.is_none() && self.small_group().is_none();
        let all = is_all.then(|| self.rows_without_group(from, end));
        let members = group.map(|name| self.members(name, (Rank::FIRST, from), Rank::LAST));
        let until_end = move |row: &Row<'_>| row.element.deadline <= end;
        all.into_iter().flatten().chain(members.into_iter().flatten().take_while(until_end))
    }

    /// Returns the group of this name, with the groups and the form that they are in.
    fn group(&self, name: &[u8]) -> Option<(&Full, &Groups, Group)> {
        let Form::Full(full) = &self.form else { return None };
        let groups = full.groups.as_deref()?;
        Some((full, groups, groups.table.find(name)?))
    }

    /// Iterates over the elements of no group, or over all of a small lawn.
    fn rows_without_group(&self, from: Rank, end: u64) -> Rows<'_> {
        match &self.form {
            Form::Small(small) => Rows::Small(small.rows(from.deadline, end)),
            Form::Full(full) => Rows::Full(Walk::new(&full.records, [&full.queues], from, end)),
        }
    }

    /// Iterates over the elements of a group whose deadlines are not from `from` to `until`, and that are under no lease which
    /// ends after `now`: those that move if the whole group is to come due then.
    pub fn group_at_rest(
        &self,
        group: &[u8],
        (from, until): (u64, u64),
        now: u64,
    ) -> impl Iterator<Item = Row<'_>> {
        let gap = (Rank { deadline: from, push: 0 }, Rank::after(until));
        self.members(group, gap, Rank::after(now))
    }

    /// Iterates over the elements of a group as [`Groups::outside`] does.
    fn members(
        &self,
        name: &[u8],
        gap: (Rank, Rank),
        held_end: Rank,
    ) -> impl Iterator<Item = Row<'_>> {
        let is_all = self.small_group().is_some_and(|it| it.0 == name);
        let is_outside = move |row: &Row<'_>| {
            let Row { element, .. } = row;
            let is_held = (held_end.deadline..DEADLINE_MAX).contains(&element.deadline)
                && self.token(element).is_some();
            !(gap.0.deadline..gap.1.deadline).contains(&element.deadline) && !is_held
        };
        let small = is_all.then(|| self.rows(Start::FIRST, DEADLINE_MAX));
        let full = self.group(name).into_iter().flat_map(move |(full, groups, group)| {
            let members = groups.outside(&full.records, group, gap, held_end);
            members.map(|it| full.row_of(it))
        });
        small.into_iter().flatten().filter(is_outside).chain(full)
    }

    /// Returns whether a lease that has ended may be extended at `now`, as far as the limit of the group is concerned that
    /// the element is in, if any.
    pub fn group_has_room(&self, element: &Element<'_>, now: u64) -> bool {
        let (Form::Full(full), Some(group)) = (&self.form, element.group) else { return true };
        full.groups.as_ref().is_none_or(|groups| groups.has_room(&full.records, group, now))
    }

    /// Lists the groups with the most elements, at most `most`, and their numbers of elements, the greatest first. Exact
    /// for up to 1,024 groups; with more, it visits 1,024 of the greatest, none of which has less than 64 elements.
    pub fn greatest_groups(&self, most: usize) -> Vec<(&[u8], usize)> {
        let of_small = || self.small_group().into_iter().take(most).collect();
        self.groups().map_or_else(of_small, |groups| groups.greatest.list(&groups.table, most))
    }

    /// Returns the names of the groups of the round in their order. The empty name stands for the elements without a group.
    #[cfg(any(test, debug_assertions))]
    pub fn round(&self) -> Vec<&[u8]> {
        self.groups().map_or(Vec::new(), Groups::round)
    }

    /// Returns the limit of what a group holds, under which it is filed.
    #[cfg(test)]
    pub(super) fn held_max(&self, name: &[u8]) -> u64 {
        self.group(name).map_or(0, |(_, groups, group)| groups.table.get(group).held_max.into())
    }
}
