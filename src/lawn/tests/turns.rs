//! A model of groups that take turns, in the simplest terms: the names of groups in a list.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::GroupSettings;
use super::super::groups::{PASSED_MAX, WOKEN_MAX};

/// An element of the oracle: id, TTL, payload and deadline.
pub(super) type Stored = (Vec<u8>, u64, Vec<u8>, u64);

/// A place in the order of delivery: a deadline, and the index of an element in the order of pushing.
type Place = (u64, usize);

/// The groups of an oracle. The empty name stands for the elements without a group.
#[derive(Clone, Default)]
pub(super) struct Turns {
    /// The group of each element that has one.
    pub(super) of: HashMap<Vec<u8>, Vec<u8>>,
    pub(super) settings: BTreeMap<Vec<u8>, GroupSettings>,
    /// The limit of what each group holds. 0: none.
    pub(super) each: u64,
    /// The elements whose leases count, until they are given out again.
    held: HashSet<Vec<u8>>,
    round: Vec<Vec<u8>>,
    /// The number of elements that the first group of the round has given out.
    given: u16,
    pub(super) looked_at: u64,
    /// Whether the latest element came by a turn: elements without a group need none while no group has anything due.
    by_turn: bool,
}

impl Turns {
    pub(super) fn is_used(&self) -> bool {
        !self.of.is_empty() || !self.settings.is_empty() || self.each > 0
    }

    pub(super) fn settings(&self, group: &[u8]) -> GroupSettings {
        self.settings.get(group).copied().unwrap_or(GroupSettings::NONE)
    }

    pub(super) fn group(&self, id: &[u8]) -> &[u8] {
        self.of.get(id).map_or(&[], |group| group)
    }

    /// Notes whether an element is held, unless it never comes due.
    pub(super) fn hold(&mut self, id: &[u8], is_held: bool, deadline: u64) {
        self.held.remove(id);
        if is_held && deadline < super::super::DEADLINE_MAX {
            self.held.insert(id.to_vec());
        }
    }

    pub(super) fn is_held(&self, id: &[u8]) -> bool {
        self.held.contains(id)
    }

    /// Returns how many elements of a group may be held, if there is a limit.
    pub(super) fn held_max(&self, group: &[u8]) -> Option<u64> {
        let own = self.settings(group).limits.held;
        let max = if own > 0 { own } else { self.each };
        Some(max).filter(|max| *max > 0 && !group.is_empty())
    }

    /// Returns the elements of a group, in the order of delivery. `elements` are in the order of pushing.
    fn members(&self, elements: &[Stored], group: &[u8]) -> Vec<Place> {
        let all = elements.iter().enumerate().filter(|(_, it)| self.group(&it.0) == group);
        let mut all: Vec<_> = all.map(|(at, it)| (it.3, at)).collect();
        all.sort_unstable();
        all
    }

    /// Returns the elements of a group whose leases must end before it gives anything out.
    fn excess(&self, elements: &[Stored], group: &[u8]) -> Vec<Place> {
        let mut held = self.members(elements, group);
        held.retain(|(_, at)| self.held.contains(&elements[*at].0));
        let max =
            self.held_max(group).map_or(usize::MAX, |max| max.try_into().unwrap_or(usize::MAX));
        held.truncate((held.len() + 1).saturating_sub(max));
        held
    }

    /// Returns from when on a group gives something out.
    fn opens(&self, elements: &[Stored], group: &[u8]) -> Option<Place> {
        let last = self.excess(elements, group).pop();
        let (deadline, at) = last.or_else(|| self.members(elements, group).first().copied())?;
        Some((deadline.max(self.settings(group).paused_until), at))
    }

    /// Returns the groups that have an element, and from when on each gives something out.
    fn all_open(&self, elements: &[Stored]) -> Vec<(Place, Vec<u8>)> {
        let groups: BTreeSet<_> = elements.iter().map(|it| self.group(&it.0).to_vec()).collect();
        let opens = |group: Vec<u8>| Some((self.opens(elements, &group)?, group));
        let mut all: Vec<_> = groups.into_iter().filter_map(opens).collect();
        all.sort();
        all
    }

    /// Returns the first element that is given out, and when, if nothing changes.
    pub(super) fn first_open(&self, elements: &[Stored]) -> Option<(u64, usize)> {
        let ((deadline, _), group) = self.all_open(elements).into_iter().next()?;
        Some((deadline, self.first(elements, &group)))
    }

    /// Returns the element that a group gives out first: the first whose lease ends, if it holds as many as it may.
    fn first(&self, elements: &[Stored], group: &[u8]) -> usize {
        let excess = self.excess(elements, group);
        excess.first().unwrap_or(&self.members(elements, group)[0]).1
    }

    fn retain(&mut self, stays: impl Fn(&Self, &[u8]) -> bool) {
        let round: Vec<_> = self.round.iter().filter(|group| stays(self, group)).cloned().collect();
        if round.first() != self.round.first() {
            self.given = 0;
        }
        self.round = round;
    }

    /// Removes the groups from the round that have nothing to give any more. Called after every change of an element.
    pub(super) fn settle(&mut self, elements: &[Stored]) {
        let is_due = |it: &Self, group: &[u8]| {
            it.opens(elements, group).is_some_and(|(deadline, _)| deadline <= it.looked_at)
        };
        self.retain(|it, group| group.is_empty() || is_due(it, group));
    }

    /// Returns the index of the element whose turn it is.
    pub(super) fn next(&mut self, elements: &[Stored], now: u64) -> Option<usize> {
        let due: Vec<_> = self.all_open(elements).into_iter().filter(|it| it.0.0 <= now).collect();
        let is_due = |group: &[u8]| due.iter().any(|it| it.1 == group);
        self.by_turn =
            self.round.iter().chain(due.iter().map(|it| &it.1)).any(|group| !group.is_empty());
        if !self.by_turn {
            return due.first().map(|it| it.0.1);
        }
        let others = due.iter().find(|it| it.1.is_empty());
        let were_due = others.is_some_and(|((deadline, _), _)| *deadline <= self.looked_at);
        self.looked_at = self.looked_at.max(now);
        self.retain(|_, group| !group.is_empty() || were_due);
        for _ in 0..PASSED_MAX {
            let Some(first) = self.round.first().cloned().filter(|first| !is_due(first)) else {
                break;
            };
            self.retain(|_, group| group != first);
        }
        let woken = due.iter().map(|it| &it.1).filter(|group| !self.round.contains(group));
        let woken: Vec<_> = woken.take(WOKEN_MAX).cloned().collect();
        self.round.extend(woken);
        let first = self.round.first().filter(|first| is_due(first))?.clone();
        Some(self.first(elements, &first))
    }

    /// Counts an element that the first group of the round gives out.
    pub(super) fn give(&mut self) {
        if self.by_turn {
            self.given += 1;
            if self.given >= self.settings(&self.round[0]).share {
                self.given = 0;
                self.round.rotate_left(1);
            }
        }
    }
}
