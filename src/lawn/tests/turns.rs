//! A model of groups that take turns, in the simplest terms: the names of groups in a list.

use std::collections::{BTreeMap, HashMap};

use super::super::groups::{PASSED_MAX, WOKEN_MAX};

/// An element of the oracle: id, TTL, payload and deadline.
pub(super) type Stored = (Vec<u8>, u64, Vec<u8>, u64);

/// The groups of an oracle. The empty name stands for the elements without a group.
#[derive(Clone, Default)]
pub(super) struct Turns {
    /// The group of each element that has one.
    pub(super) of: HashMap<Vec<u8>, Vec<u8>>,
    pub(super) shares: BTreeMap<Vec<u8>, u16>,
    round: Vec<Vec<u8>>,
    /// The number of elements that the first group of the round has given out.
    given: u16,
    looked_at: u64,
    /// Whether the latest element came by a turn: elements without a group need none while no group has anything due.
    by_turn: bool,
}

impl Turns {
    pub(super) fn is_used(&self) -> bool {
        !self.of.is_empty() || !self.shares.is_empty()
    }

    pub(super) fn share(&self, group: &[u8]) -> u16 {
        self.shares.get(group).copied().unwrap_or(1)
    }

    pub(super) fn group(&self, id: &[u8]) -> &[u8] {
        self.of.get(id).map_or(&[], |group| group)
    }

    /// Returns the index of each group's first element. `elements` are in the order of pushing.
    fn heads(&self, elements: &[Stored]) -> BTreeMap<Vec<u8>, usize> {
        let mut heads = BTreeMap::<Vec<u8>, usize>::new();
        for (at, (id, .., deadline)) in elements.iter().enumerate() {
            let group = self.group(id);
            match heads.get_mut(group) {
                Some(head) if elements[*head].3 <= *deadline => {}
                Some(head) => *head = at,
                None => _ = heads.insert(group.to_vec(), at),
            }
        }
        heads
    }

    fn retain(&mut self, stays: impl Fn(&[u8]) -> bool) {
        let first = self.round.first().cloned();
        self.round.retain(|group| stays(group));
        if first.as_ref() != self.round.first() {
            self.given = 0;
        }
    }

    /// Removes the groups from the round that have nothing due any more. Called after every change of an element.
    pub(super) fn settle(&mut self, elements: &[Stored]) {
        if !self.round.iter().all(|group| group.is_empty()) {
            let (heads, until) = (self.heads(elements), self.looked_at);
            let is_due = |group: &[u8]| heads.get(group).is_some_and(|at| elements[*at].3 <= until);
            self.retain(|group| group.is_empty() || is_due(group));
        }
    }

    /// Returns the index of the element whose turn it is.
    pub(super) fn next(&mut self, elements: &[Stored], now: u64) -> Option<usize> {
        let heads = self.heads(elements);
        let is_due = |group: &[u8]| heads.get(group).is_some_and(|at| elements[*at].3 <= now);
        self.by_turn =
            self.round.iter().chain(heads.keys().filter(|it| is_due(it))).any(|it| !it.is_empty());
        if !self.by_turn {
            return heads.get(&b""[..]).copied().filter(|at| elements[*at].3 <= now);
        }
        let were_due =
            heads.get(&b""[..]).is_some_and(|at| elements[*at].3 <= self.looked_at.min(now));
        self.looked_at = self.looked_at.max(now);
        self.retain(|group| !group.is_empty() || were_due);
        for _ in 0..PASSED_MAX {
            let Some(first) = self.round.first().cloned().filter(|first| !is_due(first)) else {
                break;
            };
            self.retain(|group| group != first);
        }
        let waits = |group: &Vec<u8>| is_due(group) && !self.round.contains(group);
        let mut waiting: Vec<_> = heads.iter().filter(|(group, _)| waits(group)).collect();
        waiting.sort_by_key(|(_, at)| (elements[**at].3, **at));
        let woken = waiting.into_iter().map(|(group, _)| group.clone());
        self.round.extend(woken.take(WOKEN_MAX));
        let first = self.round.first().filter(|first| is_due(first))?;
        Some(heads[first])
    }

    /// Counts an element that the first group of the round gives out.
    pub(super) fn give(&mut self) {
        if self.by_turn {
            self.given += 1;
            if self.given >= self.share(&self.round[0]) {
                self.given = 0;
                self.round.rotate_left(1);
            }
        }
    }
}
