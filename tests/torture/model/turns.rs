//! The model of groups that take turns, in the simplest terms: the names of groups in a list.
//!
//! The order of two moments within a grain is that of their sequence numbers. That a look and a later push are never within
//! the same millisecond is up to the test.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Settings;
use super::{Bytes, Dehydrator, Entry};

/// Whose turn it is. The empty name stands for the elements without a group.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Turns {
    /// What is set for single groups, and for each.
    pub settings: BTreeMap<Bytes, Settings>,
    pub each: Settings,
    round: Vec<Bytes>,
    /// The number of elements that the first group of the round has given out.
    given: u64,
    /// The latest time at which somebody looked, and the sequence number then.
    looked_at: (u64, u64),
}

impl Turns {
    /// Begins a new round, as after a load.
    pub fn restart(&mut self) {
        let settings = std::mem::take(&mut self.settings);
        *self = Self { settings, each: self.each, ..Self::default() };
    }

    /// Sets what holds for a group.
    pub fn set(&mut self, group: &Bytes, settings: Settings) {
        self.settings.remove(group);
        let is_any = settings != Settings::default();
        self.settings.extend(is_any.then(|| (group.clone(), settings)));
    }

    /// Removes groups from the round. The next one has given out nothing of its share.
    fn retain(&mut self, stays: impl Fn(&Bytes) -> bool) {
        let first = self.round.first().cloned();
        self.round.retain(stays);
        if first.as_ref() != self.round.first() {
            self.given = 0;
        }
    }

    /// Counts an element that the first group of the round gives out.
    fn give(&mut self) {
        let Some(first) = self.round.first() else { return };
        self.given += 1;
        if self.given >= self.settings.get(first).map_or(1, |it| it.share) {
            self.given = 0;
            self.round.rotate_left(1);
        }
    }
}

impl Dehydrator {
    /// Returns whether there is a group with an element, or anything is set for groups.
    pub fn has_groups(&self) -> bool {
        self.has_settings() || self.entries.iter().any(|entry| !entry.group.is_empty())
    }

    /// Returns the groups that have elements, with their numbers of elements, the greatest first.
    pub fn groups(&self) -> Vec<(&Bytes, usize)> {
        let names: BTreeSet<_> = self.entries.iter().map(|entry| &entry.group).collect();
        let length =
            |name: &Bytes| self.entries.iter().filter(|entry| entry.group == *name).count();
        let named = names.into_iter().filter(|name| !name.is_empty());
        let mut all: Vec<_> = named.map(|name| (name, length(name))).collect();
        all.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
        all
    }

    /// Returns the first element of each group.
    fn heads(&self) -> BTreeMap<&Bytes, &Entry> {
        let mut heads = BTreeMap::<_, &Entry>::new();
        for entry in &self.entries {
            let head = heads.entry(&entry.group).or_insert(entry);
            if entry.turn() < head.turn() {
                *head = entry;
            }
        }
        heads
    }

    /// Removes the groups from the round that have nothing due any more. Called after every change of an element.
    pub fn settle_turns(&mut self) {
        if self.turns.round.iter().all(Vec::is_empty) {
            return;
        }
        let (mut turns, heads) = (std::mem::take(&mut self.turns), self.heads());
        let looked_at = turns.looked_at;
        let was_due = |group: &Bytes| heads.get(group).is_some_and(|head| head.turn() <= looked_at);
        turns.retain(|group| group.is_empty() || was_due(group));
        self.turns = turns;
    }

    /// Returns the element whose turn it is, and whether it came by a turn: elements without a group need none while no group
    /// has anything due. Groups enter the round by that.
    fn look(&self, turns: &mut Turns, now: u64, sequence: u64) -> Option<(Bytes, bool)> {
        let mut due = self.heads();
        due.retain(|_, head| head.deadline <= now);
        let head_of = |group: &Bytes| due.get(group).map(|head| head.id.clone());
        if due.keys().copied().chain(&turns.round).all(Vec::is_empty) {
            return Some((head_of(&Vec::new())?, false));
        }
        // Those without a group leave as a group does that has nothing that was due at the latest look.
        let before = turns.looked_at;
        let stays = |group: &Bytes| due.get(group).is_some_and(|head| head.turn() <= before);
        turns.retain(|group| !group.is_empty() || stays(group));
        turns.looked_at = before.max((now, sequence));
        // Those whose elements are not due, because the clock was set back.
        while let Some(first) = turns.round.first().cloned().filter(|it| !due.contains_key(it)) {
            turns.retain(|group| *group != first);
        }
        let mut woken: Vec<_> = due.iter().collect();
        woken.retain(|(group, _)| !turns.round.contains(group));
        woken.sort_by_key(|(_, head)| head.turn());
        turns.round.extend(woken.into_iter().map(|(group, _)| (*group).clone()));
        Some((head_of(turns.round.first()?)?, true))
    }

    /// Returns the element whose turn it is, and changes nothing.
    pub fn next_in_turn(&self, now: u64) -> Option<Bytes> {
        Some(self.look(&mut self.turns.clone(), now, 0)?.0)
    }

    /// Returns the element whose turn it is, and counts it as given out by its group. The caller takes it or leases it, and
    /// then calls [`Dehydrator::settle_turns`].
    pub fn give_in_turn(&mut self, now: u64, sequence: u64) -> Option<Bytes> {
        let mut turns = std::mem::take(&mut self.turns);
        let next = self.look(&mut turns, now, sequence);
        if next.as_ref().is_some_and(|(_, by_turn)| *by_turn) {
            turns.give();
        }
        self.turns = turns;
        Some(next?.0)
    }
}

impl Entry {
    /// Returns the place in the order of delivery.
    pub fn turn(&self) -> (u64, u64) {
        (self.deadline, self.sequence)
    }
}
