//! A model of groups that take turns, in the simplest terms: the names of groups in a list.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::groups::{FITTED_MAX, PASSED_MAX, WOKEN_MAX};
use super::super::{Enforced, GroupLimits, GroupSettings, Rate};

/// An element of the oracle: id, TTL, payload and deadline.
pub(super) type Stored = (Vec<u8>, u64, Vec<u8>, u64);

/// A place in the order of delivery: a deadline, and the index of an element in the order of pushing.
type Place = (u64, usize);

/// The groups of an oracle. The empty name stands for the elements without a group.
#[derive(Clone)]
pub(super) struct Turns {
    /// The group of each element that has one.
    pub(super) of: HashMap<Vec<u8>, Vec<u8>>,
    pub(super) settings: BTreeMap<Vec<u8>, GroupSettings>,
    /// The limits of each group.
    pub(super) each: GroupLimits,
    pub(super) enforced: Enforced,
    /// The logs of what groups gave out under limits of rate.
    pub(super) logs: BTreeMap<Vec<u8>, Rate>,
    /// The time of the latest look.
    clock: u64,
    /// The elements whose leases count, until they are given out again.
    held: HashSet<Vec<u8>>,
    round: Vec<Vec<u8>>,
    /// The number of elements that the first group of the round has given out.
    given: u16,
    pub(super) looked_at: u64,
    /// Set if the latest element came by a turn: elements without a group need none while no group has anything due.
    by_turn: bool,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            of: HashMap::new(),
            settings: BTreeMap::new(),
            each: GroupLimits::NONE,
            enforced: Enforced { held: true, rate: true },
            logs: BTreeMap::new(),
            clock: 0,
            held: HashSet::new(),
            round: Vec::new(),
            given: 0,
            looked_at: 0,
            by_turn: false,
        }
    }
}

impl Turns {
    pub(super) fn is_used(&self) -> bool {
        !self.of.is_empty() || !self.settings.is_empty() || self.each != GroupLimits::NONE
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
        let max = if own > 0 { own } else { self.each.held };
        Some(max).filter(|max| *max > 0 && !group.is_empty() && self.enforced.held)
    }

    /// Returns the limit of what a group gives out in a time.
    pub(super) fn rate(&self, group: &[u8]) -> Option<(u64, u64)> {
        let own = self.settings(group).limits;
        let limits = if own.rate > 0 { own } else { self.each };
        (limits.rate > 0 && !group.is_empty() && self.enforced.rate)
            .then_some((limits.rate, limits.per))
    }

    /// Adapts all logs to limits that have changed, if there are few.
    pub(super) fn adapt_few(&mut self) {
        if self.logs.len() <= FITTED_MAX {
            self.adapt_those(self.logs.keys().cloned().collect());
        }
    }

    /// Adapts the logs of groups that have elements to limits that have changed.
    fn adapt(&mut self) {
        let fits =
            |(group, log): &(&Vec<u8>, &Rate)| self.rate(group) == Some((log.max(), log.per()));
        let stale = self.logs.iter().filter(|it| !fits(it)).map(|(group, _)| group);
        let has_elements = |group: &&Vec<u8>| self.of.values().any(|of| of == *group);
        self.adapt_those(stale.filter(has_elements).cloned().collect());
    }

    pub(super) fn adapt_those(&mut self, groups: HashSet<Vec<u8>>) {
        for group in groups {
            match (self.logs.remove(&group), self.rate(&group)) {
                (Some(log), Some((max, per))) if (log.max(), log.per()) != (max, per) => {
                    self.logs.insert(group, log.changed(max, per));
                }
                (log, Some(_)) => self.logs.extend(log.map(|log| (group, log))),
                (_, None) => {}
            }
        }
    }

    /// Records what a group gave out. Returns whether its rate is limited.
    pub(super) fn record(&mut self, group: &[u8], moment: u64, count: u64) -> bool {
        let Some((max, per)) = self.rate(group) else { return false };
        let log = self.logs.remove(group).unwrap_or_else(|| Rate::new(max, per));
        let is_same = (log.max(), log.per()) == (max, per);
        let mut log = if is_same { log } else { log.changed(max, per) };
        log.record(moment, count);
        self.logs.insert(group.to_vec(), log);
        self.clock = self.clock.max(moment);
        true
    }

    /// Returns whether the clock has stepped back, where groups may hold back elements.
    pub(super) fn is_behind(&self, now: u64) -> bool {
        let holds_back = |it: &GroupLimits| it.held > 0 || it.rate > 0;
        let restrains = |it: &GroupSettings| holds_back(&it.limits) || it.paused_until > 0;
        let may_hold_back = holds_back(&self.each) || self.settings.values().any(restrains);
        now < self.clock && (may_hold_back || !self.logs.is_empty())
    }

    /// Notes that the clock may have stepped back.
    pub(super) fn step_back(&mut self, now: u64) {
        if self.is_behind(now) {
            self.clock = now;
        }
    }

    /// Removes the logs that are over.
    pub(super) fn forget(&mut self, now: u64) {
        self.logs.retain(|_, log| !log.is_over(now));
    }

    /// Returns the logs that count, as the limits are now.
    pub(super) fn logs(&self, now: u64) -> Vec<(&[u8], Rate)> {
        let log = |(group, log): (&'_ Vec<u8>, &Rate)| {
            let (max, per) = self.rate(group)?;
            Some(log.changed(max, per))
        };
        let all = self.logs.iter();
        let all = all.filter_map(|it| Some((&it.0[..], log(it)?)));
        all.filter(|(_, log)| !log.is_over(now)).collect()
    }

    /// Returns the elements of each group that has one, in the order of delivery. `elements` are in the order of pushing.
    fn groups<'a>(&'a self, elements: &'a [Stored]) -> BTreeMap<&'a [u8], Vec<Place>> {
        let mut groups = BTreeMap::<&[u8], Vec<Place>>::new();
        for (at, (id, .., deadline)) in elements.iter().enumerate() {
            groups.entry(self.group(id)).or_default().push((*deadline, at));
        }
        groups.values_mut().for_each(|members| members.sort_unstable());
        groups
    }

    /// Returns the elements of a group whose leases must end before it gives anything out.
    fn excess(&self, elements: &[Stored], group: &[u8], members: &[Place]) -> Vec<Place> {
        let Some(max) = self.held_max(group) else { return Vec::new() };
        let is_held = |(_, at): &&Place| self.held.contains(&elements[*at].0);
        let mut held: Vec<_> = members.iter().filter(is_held).copied().collect();
        held.truncate((held.len() + 1).saturating_sub(max.try_into().unwrap_or(usize::MAX)));
        held
    }

    /// Returns from when on each group gives something out, in that order, and the index of its first element: the first
    /// whose lease ends, if it holds as many as it may.
    fn all_open(&self, elements: &[Stored]) -> Vec<(Place, usize, Vec<u8>)> {
        let opens = |(group, members): (&[u8], Vec<Place>)| {
            let excess = self.excess(elements, group, &members);
            let (deadline, at) = *excess.last().unwrap_or(&members[0]);
            let first = excess.first().unwrap_or(&members[0]).1;
            let rate = self.logs.get(group).map_or(0, |log| log.next(self.clock));
            let from = deadline.max(self.settings(group).paused_until).max(rate);
            ((from, at), first, group.to_vec())
        };
        let mut all: Vec<_> = self.groups(elements).into_iter().map(opens).collect();
        all.sort();
        all
    }

    /// Returns the first element that is given out, and when, if nothing changes.
    pub(super) fn first_open(&self, elements: &[Stored]) -> Option<(u64, usize)> {
        let ((deadline, _), first, _) = self.all_open(elements).into_iter().next()?;
        Some((deadline, first))
    }

    fn retain(&mut self, stays: impl Fn(&[u8]) -> bool) {
        let round: Vec<_> = self.round.iter().filter(|group| stays(group)).cloned().collect();
        if round.first() != self.round.first() {
            self.given = 0;
        }
        self.round = round;
    }

    /// Removes the groups from the round that have nothing to give any more. Called after every change of an element.
    pub(super) fn settle(&mut self, elements: &[Stored]) {
        self.adapt();
        if self.round.iter().all(|group| group.is_empty()) {
            return;
        }
        let until = self.looked_at;
        let due = self.all_open(elements).into_iter().filter(|it| it.0.0 <= until);
        let due: HashSet<_> = due.map(|it| it.2).collect();
        self.retain(|group| group.is_empty() || due.contains(group));
    }

    /// Returns the index of the element whose turn it is.
    pub(super) fn next(&mut self, elements: &[Stored], now: u64) -> Option<usize> {
        self.adapt();
        let due: Vec<_> = self.all_open(elements).into_iter().filter(|it| it.0.0 <= now).collect();
        let is_due = |group: &[u8]| due.iter().any(|it| it.2 == group);
        self.by_turn =
            self.round.iter().chain(due.iter().map(|it| &it.2)).any(|group| !group.is_empty())
                || self.is_behind(now);
        if !self.by_turn {
            return due.first().map(|it| it.0.1);
        }
        self.clock = now;
        let others = due.iter().find(|it| it.2.is_empty());
        let were_due = others.is_some_and(|((deadline, _), ..)| *deadline <= self.looked_at);
        self.looked_at = self.looked_at.max(now);
        self.retain(|group| !group.is_empty() || were_due);
        for _ in 0..PASSED_MAX {
            let Some(first) = self.round.first().cloned().filter(|first| !is_due(first)) else {
                break;
            };
            self.retain(|group| group != first);
        }
        let woken = due.iter().map(|it| &it.2).filter(|group| !self.round.contains(group));
        let woken: Vec<_> = woken.take(WOKEN_MAX).cloned().collect();
        self.round.extend(woken);
        let first = self.round.first()?;
        due.iter().find(|it| it.2 == *first).map(|it| it.1)
    }

    /// Counts an element that the first group of the round gives out. Returns the group if its rate is limited.
    pub(super) fn give(&mut self, now: u64) -> Option<Vec<u8>> {
        let mut counted = None;
        if self.by_turn {
            let group = self.round[0].clone();
            counted = Some(group.clone()).filter(|_| self.record(&group, now, 1));
            self.given += 1;
            if self.given >= self.settings(&self.round[0]).share {
                self.given = 0;
                self.round.rotate_left(1);
            }
        }
        counted
    }
}
