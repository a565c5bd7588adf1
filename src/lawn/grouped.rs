//! The groups of a full lawn: which element is next, and the elements of one group.

use super::element::{Element, Group, Row};
use super::error::StartError;
use super::full::{Full, next_turn};
use super::groups::{Enforced, GroupLimits, GroupSettings, Groups};
use super::index::IdHash;
use super::queues::{Queues, Walk};
use super::rate::Rate;
use super::store::{Handle, Records, Spot};
use super::turn::{DEADLINE_MAX, Start, Turn};

impl Full {
    #[inline(never)]
    pub fn start_in_group(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: &[u8],
    ) -> Result<(), StartError> {
        let group = self.groups_mut().find_or_create(group).ok_or(StartError::Full)?;
        let started = self.insert(ttl, new, Some(group));
        started.inspect_err(|_| self.groups_mut().free_if_unused(group))
    }

    pub fn replace_in_group(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: &[u8],
    ) -> Result<(), StartError> {
        let hash = self.index.hash(new.id);
        let Some(old) = self.find_hashed(hash, new.id) else {
            return self.start_in_group(ttl, new, group);
        };
        if new.deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        let group = self.groups_mut().find_or_create(group).ok_or(StartError::Full)?;
        let done = self.exchange(hash, old, ttl, &Element { group: Some(group), ..*new });
        done.inspect_err(|_| self.groups_mut().free_if_unused(group))
    }

    /// Replaces an element by one in another place: the new or the old one is in a group. The new element is inserted
    /// first, so that its group keeps its place in the round.
    pub(super) fn exchange(
        &mut self,
        hash: IdHash,
        old: Handle,
        ttl: u64,
        new: &Element<'_>,
    ) -> Result<(), StartError> {
        let Element { id, payload, deadline, bounds, group, .. } = *new;
        let reservation = self.records.reserve(id, payload, bounds, group.is_some());
        let reservation = reservation.ok_or(StartError::Full)?;
        let (new, turn) = (reservation.handle, next_turn(&mut self.pushes, deadline));
        let elements = self.len();
        let groups = self.groups.as_mut().filter(|_| group.is_some());
        let queues = groups.map_or(&mut self.queues, |groups| &mut groups.queues);
        let spot = queues.push(&mut self.records, new, (ttl, turn), elements, None);
        self.records.write(reservation, id, payload, (bounds, group), (turn, spot));
        if group.is_some() {
            self.file_in_group(new);
        }
        self.index.replace(hash, old, new);
        let record = self.records.get(old);
        self.remove_from_queues(old, record.spot(), record.deliveries());
        self.records.remove(old);
        self.has_bounded |= !bounds.is_none();
        if let Some(moment) = bounds.expiry(deadline) {
            self.expiries.insert((moment, new));
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn file_in_group(&mut self, handle: Handle) {
        let groups = self.groups.as_mut().expect("the group exists");
        groups.insert(&mut self.records, handle);
    }

    /// Removes a record from the order of its group and from that of all groups.
    #[inline(never)]
    pub(super) fn remove_from_group(&mut self, handle: Handle, spot: Spot) {
        let groups = self.groups.as_mut().expect("the group exists");
        groups.queues.remove(&mut self.records, spot);
        groups.remove(&mut self.records, handle);
    }

    /// Returns whether elements are given out in turns.
    #[inline(always)]
    pub fn has_groups(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.is_in_use())
    }

    /// Returns whether groups take turns at `now`: some may have something due.
    #[inline(always)]
    pub(super) fn takes_turns(&self, now: u64) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.are_due(now))
    }

    /// Returns the groups, which exist: an element is in one.
    pub(super) fn groups(&self) -> &Groups {
        self.groups.as_ref().expect("a grouped record has a group")
    }

    /// Returns the groups, created if necessary.
    pub(super) fn groups_mut(&mut self) -> &mut Groups {
        let Self { groups, hasher, records, .. } = self;
        groups.get_or_insert_with(|| Box::new(Groups::new(hasher, records)))
    }

    /// Returns the group whose turn it is at `now`, and its first element.
    fn turn(&mut self, now: u64) -> Option<(Group, Handle)> {
        let is_due = |turn: &Turn| turn.deadline <= now;
        let others =
            self.queues.first_deadline().filter(|deadline| *deadline <= now).and_then(|_| {
                self.queues.refresh_heads(&mut self.records);
                self.queues.first(&self.records).filter(|(turn, _)| is_due(turn))
            });
        let groups = self.groups.as_mut()?;
        let group = groups.turn(&mut self.records, others.map(|first| first.0), now)?;
        let first = groups.first(&self.records, group).or(others.map(|first| first.1))?;
        Some((group, first))
    }

    /// Returns the first element of the group whose turn it is at `now`, which is about to be given out.
    #[inline(never)]
    pub(super) fn take_turn(&mut self, now: u64) -> Option<Handle> {
        let (group, first) = self.turn(now)?;
        if let Some(groups) = &mut self.groups {
            groups.give(group);
            groups.count_given(&self.records, group, now);
        }
        Some(first)
    }

    pub fn next_in_turn(&self, now: u64) -> Option<Row<'_>> {
        let others = self.queues.first(&self.records).filter(|(turn, _)| turn.deadline <= now);
        let handle = if self.takes_turns(now) {
            let group = self.groups().next(&self.records, others.map(|first| first.0), now)?;
            self.groups().first(&self.records, group).or(others.map(|first| first.1))?
        } else {
            others?.1
        };
        Some(self.row_of(self.records.get(handle)))
    }

    /// Counts an element as given out at `now`, in the turn of its group if it is next.
    pub fn give_turn(&mut self, id: &[u8], now: u64) {
        let Some(handle) = self.find(id).filter(|_| self.groups.is_some()) else { return };
        if self.takes_turns(now)
            && let Some((group, first)) = self.turn(now)
            && first == handle
        {
            self.groups_mut().give(group);
        }
        if let Some(groups) = &mut self.groups
            && self.records.get(handle).is_grouped()
        {
            groups.count_given(&self.records, self.records.group(handle), now);
        }
    }

    pub fn pass_turn(&mut self, now: u64) {
        if self.takes_turns(now)
            && let Some((group, _)) = self.turn(now)
        {
            self.groups_mut().pass(group);
        }
    }

    pub fn set_group(&mut self, name: &[u8], settings: GroupSettings) {
        self.groups_mut();
        if let Some(groups) = &mut self.groups
            && let Some(group) = groups.find_or_create(name)
        {
            groups.set(&self.records, group, settings);
        }
    }

    pub fn settings_of(&self, name: &[u8]) -> GroupSettings {
        self.group(name).map_or(GroupSettings::NONE, |(groups, group)| groups.settings(group))
    }

    pub fn set_each_group(&mut self, limits: GroupLimits) {
        self.groups_mut();
        if let Some(groups) = &mut self.groups {
            groups.set_each(&self.records, limits);
        }
    }

    pub fn enforce(&mut self, enforced: Enforced) {
        if let Some(groups) = &mut self.groups {
            groups.enforce(&self.records, enforced);
        }
    }

    /// Records that a group gave out elements. Returns whether its rate is limited.
    pub fn record_given(&mut self, name: &[u8], moment: u64, count: u64) -> bool {
        self.change_group(name, |groups, records, group| {
            groups.record(records, group, moment, count)
        })
    }

    /// Sets the log of a group. Returns whether its rate has the limit of the log.
    pub fn set_log(&mut self, name: &[u8], log: Rate) -> bool {
        self.change_group(name, |groups, records, group| {
            let is_its = groups.rate(group) == Some((log.max(), log.per()));
            if is_its {
                groups.set_log(records, group, log);
            }
            is_its
        })
    }

    /// Changes a group, which may have no element.
    fn change_group(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut Groups, &Records, Group) -> bool,
    ) -> bool {
        let Some(groups) = &mut self.groups else { return false };
        let Some(group) = groups.find_or_create(name) else { return false };
        let is_changed = change(groups, &self.records, group);
        groups.free_if_unused(group);
        is_changed
    }

    /// Returns the groups whose elements counted under a limit of rate since the last call, and how many.
    pub fn take_counted(&mut self) -> Vec<(Vec<u8>, u64)> {
        let counts = |groups: &&mut Box<Groups>| groups.has_counted();
        let Some(groups) = self.groups.as_mut().filter(counts) else { return Vec::new() };
        let counted = groups.take_counted().into_iter();
        counted.map(|(group, count)| (groups.name(group).to_vec(), count)).collect()
    }

    pub fn rate_of(&self, name: &[u8]) -> Option<(u64, u64)> {
        let groups = self.groups.as_ref()?;
        match groups.find(name) {
            Some(group) => groups.rate(group),
            None => groups.rate_of_each(),
        }
    }

    pub fn forget_rates(&mut self, now: u64, most: usize) -> bool {
        let groups = self.groups.as_mut();
        groups.is_some_and(|groups| groups.forget_rates(&self.records, now, most))
    }

    fn group(&self, name: &[u8]) -> Option<(&Groups, Group)> {
        let groups = self.groups.as_ref()?;
        Some((groups, groups.find(name)?))
    }

    pub fn group_len(&self, name: Option<&[u8]>) -> usize {
        match name {
            Some(name) => self.group(name).map_or(0, |(groups, group)| groups.group_len(group)),
            None => self.len() - self.groups.as_ref().map_or(0, |groups| groups.len()),
        }
    }

    pub fn group_rows(
        &self,
        name: Option<&[u8]>,
        start: Start,
        end: u64,
    ) -> impl Iterator<Item = Row<'_>> {
        let from = start.turn();
        let others = name.is_none().then(|| Walk::new(&self.records, &self.queues, from, end));
        let group = name.and_then(|name| self.group(name));
        let handles =
            group.into_iter().flat_map(move |(it, group)| it.elements(&self.records, group, from));
        let rows = handles.map(|handle| self.row_of(self.records.get(handle)));
        let rows = rows.take_while(move |row| row.element.deadline <= end);
        others.into_iter().flatten().chain(rows)
    }

    pub fn group_at_rest(
        &self,
        name: &[u8],
        deadline: u64,
        now: u64,
    ) -> impl Iterator<Item = Row<'_>> {
        let handles = self
            .group(name)
            .map(|(groups, group)| groups.at_rest(&self.records, group, deadline, now));
        handles.into_iter().flatten().map(|handle| self.row_of(self.records.get(handle)))
    }

    pub fn group_has_room(&self, group: Group, now: u64) -> bool {
        self.groups().has_room(&self.records, group, now)
    }

    pub fn group_settings(&self) -> impl Iterator<Item = (&[u8], GroupSettings)> {
        self.groups.iter().flat_map(|groups| groups.all_settings())
    }

    pub fn greatest_groups(&self, most: usize) -> Vec<(&[u8], usize)> {
        self.groups.as_ref().map_or(Vec::new(), |groups| groups.greatest(most))
    }

    /// Returns the queues that have a record: those of the elements in groups, or those of all others.
    #[inline(always)]
    pub(super) fn queues_of(&mut self, handle: Handle) -> (&mut Queues, &mut Records) {
        let is_grouped = self.groups.is_some() && self.records.get(handle).is_grouped();
        match &mut self.groups {
            Some(groups) if is_grouped => (&mut groups.queues, &mut self.records),
            _ => (&mut self.queues, &mut self.records),
        }
    }
}
