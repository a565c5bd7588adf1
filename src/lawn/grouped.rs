//! The groups of a full lawn: which element is next.

use super::element::Row;
use super::full::Full;
use super::groups::{Choice, Groups, GroupsMut};
use super::queues::Queues;
use super::rank::Rank;
use super::store::{Handle, Records};

impl Full {
    /// Returns whether groups take turns at `now`: some may give something.
    #[inline(always)]
    pub(super) fn takes_turns(&self, now: u64) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.are_due(now))
    }

    /// Returns the groups, created if necessary, and all records.
    #[inline(always)]
    pub(super) fn groups_mut(&mut self) -> (&mut Groups, &mut Records) {
        let Self { groups, hasher, records, .. } = self;
        (groups.get_or_insert_with(|| Groups::new(hasher, records)), records)
    }

    /// Returns the groups and all records, if a record is in a group.
    #[inline(always)]
    pub(super) fn groups_of(&mut self, handle: Handle) -> Option<(&mut Groups, &mut Records)> {
        let groups = self.groups.as_mut()?;
        if self.records.get(handle).is_grouped() { Some((groups, &mut self.records)) } else { None }
    }

    /// Returns the queues that have a record: those of the elements in groups, or those of the elements without one.
    #[inline(always)]
    pub(super) fn queues_of(&mut self, handle: Handle) -> (&mut Queues, &mut Records) {
        match &mut self.groups {
            Some(groups) if self.records.get(handle).is_grouped() => {
                (&mut groups.queues, &mut self.records)
            }
            _ => (&mut self.queues, &mut self.records),
        }
    }

    /// Returns the element that is next at `now`, and the decision whose turn it is, if groups take turns.
    pub(super) fn choose(&self, now: u64) -> Option<(Handle, Option<Choice>)> {
        let ungrouped = self.queues.first(&self.records).filter(|it| it.0.deadline <= now);
        match &self.groups {
            Some(groups) if groups.are_due(now) => {
                let choice = groups.choose(ungrouped.map(|first| first.0), now)?;
                let first = groups.first(&self.records, choice.group);
                Some((first.or(ungrouped.map(|first| first.1))?, Some(choice)))
            }
            _ => Some((ungrouped?.1, None)),
        }
    }

    /// Counts the element that is next as given out at `now`, in the turn of its group.
    pub(super) fn take_turn(&mut self, choice: Choice, now: u64) {
        if let Some(groups) = &mut self.groups {
            groups.take_turn(choice, now, false);
            GroupsMut { groups, records: &self.records }.count_given(choice.group, now);
        }
    }

    /// Returns the first element of the group whose turn it is at `now`, which is about to be given out.
    #[inline(never)]
    pub(super) fn take_next(&mut self, now: u64) -> Option<Handle> {
        self.queues.refresh_heads(&mut self.records);
        let (first, choice) = self.choose(now)?;
        choice.into_iter().for_each(|choice| self.take_turn(choice, now));
        Some(first)
    }

    pub fn next_in_turn(&self, now: u64) -> Option<Row<'_>> {
        self.choose(now).map(|(first, _)| self.row_of(first))
    }

    /// Counts an element as given out at `now`, in the turn of its group if it is next.
    pub fn give_turn(&mut self, id: &[u8], now: u64) {
        let Some(handle) = self.find(id).filter(|_| self.groups.is_some()) else { return };
        match self.choose(now) {
            Some((first, Some(choice))) if first == handle => self.take_turn(choice, now),
            _ => {
                if let Some((groups, records)) = self.groups_of(handle) {
                    let group = records.group(handle);
                    GroupsMut { groups, records }.count_given(group, now);
                }
            }
        }
    }

    /// Returns the first element that is given out, and from when on.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<(Rank, Handle)> {
        let first = self.queues.first(&self.records);
        let Some(groups) = &self.groups else { return first };
        let eligible =
            groups.first_eligible().filter(|it| first.is_none_or(|first| it.0 < first.0));
        let Some((rank, group)) = eligible else { return first };
        Some((rank, groups.first(&self.records, group)?))
    }
}
