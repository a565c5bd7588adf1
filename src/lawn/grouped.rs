//! The groups of a full lawn: which element is next.

use super::element::{Group, Row};
use super::full::Full;
use super::groups::Groups;
use super::queues::Queues;
use super::store::{Handle, Records};
use super::turn::Turn;

impl Full {
    /// Returns whether groups take turns at `now`: some may have something due.
    #[inline(always)]
    pub(super) fn takes_turns(&self, now: u64) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.are_due(now))
    }

    /// Returns the groups, created if necessary, and all records.
    pub(super) fn groups_mut(&mut self) -> (&mut Groups, &mut Records) {
        let Self { groups, hasher, records, .. } = self;
        (groups.get_or_insert_with(|| Box::new(Groups::new(hasher, records))), records)
    }

    /// Returns the groups and all records, if a record is in a group.
    #[inline(always)]
    pub(super) fn groups_of(&mut self, handle: Handle) -> Option<(&mut Groups, &mut Records)> {
        let groups = self.groups.as_mut()?;
        if self.records.get(handle).is_grouped() { Some((groups, &mut self.records)) } else { None }
    }

    /// Returns the queues that have a record: those of the elements in groups, or those of all others.
    #[inline(always)]
    pub(super) fn queues_of(&mut self, handle: Handle) -> (&mut Queues, &mut Records) {
        match &mut self.groups {
            Some(groups) if self.records.get(handle).is_grouped() => {
                (&mut groups.queues, &mut self.records)
            }
            _ => (&mut self.queues, &mut self.records),
        }
    }

    /// Returns the group whose turn it is at `now`, and its first element.
    fn turn(&mut self, now: u64) -> Option<(Group, Handle)> {
        self.queues.refresh_heads(&mut self.records);
        let others = self.first_without_group(now);
        let groups = self.groups.as_mut()?;
        let group = groups.turn(&mut self.records, others.map(|first| first.0), now)?;
        let first = groups.first(&self.records, group).or(others.map(|first| first.1))?;
        Some((group, first))
    }

    /// Returns the first element without a group, if it is due at `now`.
    fn first_without_group(&self, now: u64) -> Option<(Turn, Handle)> {
        let first = self.queues.first(&self.records)?;
        if first.0.deadline <= now { Some(first) } else { None }
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
        let others = self.first_without_group(now);
        let handle = match &self.groups {
            Some(groups) if groups.are_due(now) => {
                let group = groups.next(&self.records, others.map(|first| first.0), now)?;
                groups.first(&self.records, group).or(others.map(|first| first.1))?
            }
            _ => others?.1,
        };
        Some(self.row_of(handle))
    }

    /// Counts an element as given out at `now`, in the turn of its group if it is next.
    pub fn give_turn(&mut self, id: &[u8], now: u64) {
        let Some(handle) = self.find(id).filter(|_| self.groups.is_some()) else { return };
        if self.takes_turns(now)
            && let Some((group, first)) = self.turn(now)
            && first == handle
        {
            self.groups_mut().0.give(group);
        }
        if let Some((groups, records)) = self.groups_of(handle) {
            groups.count_given(records, records.group(handle), now);
        }
    }

    pub fn pass_turn(&mut self, now: u64) {
        if self.takes_turns(now)
            && let Some((group, _)) = self.turn(now)
        {
            self.groups_mut().0.pass(group);
        }
    }
}
