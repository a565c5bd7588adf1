//! The model of groups that take turns, in the simplest terms: the names of groups in a list.
//!
//! The order of two moments within a grain is that of their sequence numbers. That a look and a later push are never within
//! the same millisecond is up to the test.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{GroupLimits, Settings};
use super::rates::Log;
use super::{Bytes, Dehydrator, Entry, MAX, Policy};

/// Whose turn it is. The empty name stands for the elements without a group.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Turns {
    /// What is set for single groups, and for each.
    pub settings: BTreeMap<Bytes, Settings>,
    pub each: Settings,
    /// What groups gave out, if that is limited.
    pub logs: BTreeMap<Bytes, Log>,
    round: Vec<Bytes>,
    /// The number of elements that the first group of the round has given out.
    given: u64,
    /// The latest time at which somebody looked, and the sequence number then.
    looked_at: (u64, u64),
}

/// From when on a group gives something out, and what.
pub struct Opening {
    /// The moment, and the sequence number of what has set it.
    pub at: (u64, u64),
    /// The sequence number of the element that it waits for.
    behind: u64,
    /// The id of the element that it gives out.
    first: Bytes,
}

impl Turns {
    /// Begins a new round, as after a load.
    pub fn restart(&mut self) {
        let Self { settings, each, logs, .. } = std::mem::take(self);
        *self = Self { settings, each, logs, ..Self::default() };
    }

    /// Returns the limits that are set for a group: its own, or those of each.
    pub fn limits_of(&self, group: &Bytes) -> GroupLimits {
        if group.is_empty() {
            return GroupLimits::default();
        }
        let own = self.settings.get(group).copied().unwrap_or_default();
        let limit = |own: u64, each: u64| if own > 0 { own } else { each };
        GroupLimits {
            length: limit(own.length, self.each.length),
            held: limit(own.held, self.each.held),
            rate: if own.rate.0 > 0 { own.rate } else { self.each.rate },
        }
    }

    /// Returns the limits that hold under a policy: of what is held, and of what is given out.
    pub fn enforced(&self, group: &Bytes, policy: &Policy) -> (u64, (u64, u64)) {
        let GroupLimits { held, rate, .. } = self.limits_of(group);
        let held = if policy.holds() { held } else { 0 };
        (held, if *policy == Policy::Drop { (0, 0) } else { rate })
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

    /// Returns the elements of each group that has some, in the order of delivery.
    fn members(&self) -> BTreeMap<&Bytes, Vec<&Entry>> {
        let mut members = BTreeMap::<_, Vec<_>>::new();
        for entry in self.ordered() {
            members.entry(&entry.group).or_default().push(entry);
        }
        members
    }

    /// Returns from when on each group gives something out: when the pause is over, the rate allows it, and enough leases have
    /// ended. The first of those comes first then.
    pub fn openings(&self) -> BTreeMap<&Bytes, Opening> {
        let opening = |(group, members): (_, Vec<&Entry>)| {
            let held: Vec<_> = members.iter().copied().filter(|it| it.counts_as_held()).collect();
            let most = self.enforced(group).0 as usize;
            let excess = if most > 0 { (held.len() + 1).saturating_sub(most) } else { 0 };
            let [first, last] = match excess {
                0 => [members[0]; 2],
                excess => [held[0], held[excess - 1]],
            };
            let pause = self.settings(group).pause;
            let pause = pause.map(|pause| (pause.end, pause.set.unwrap_or(last.sequence)));
            let rate = self.turns.logs.get(group).map_or(0, Log::next);
            let at = last.turn().max(pause.unwrap_or_default()).max((rate, 0));
            (group, Opening { at, behind: last.sequence, first: first.id.clone() })
        };
        self.members().into_iter().map(opening).collect()
    }

    /// Returns whether a group gives something out at `now`.
    pub fn is_open(&self, now: u64) -> bool {
        self.openings().values().any(|it| it.at.0 <= now)
    }

    /// Counts the groups that have something due and wait for leases, for their rate, and for the end of a pause.
    pub fn held_back(&self, now: u64) -> [usize; 3] {
        let mut counts = [0; 3];
        for (group, members) in self.members() {
            if members[0].deadline > now {
                continue;
            }
            let running = members.iter().filter(|it| it.counts_as_held() && it.deadline > now);
            let most = self.enforced(group).0 as usize;
            counts[0] += usize::from(most > 0 && running.count() >= most);
            counts[1] += usize::from(self.turns.logs.get(group).is_some_and(|it| it.next() > now));
            counts[2] += usize::from(self.paused_until(group, now).is_some());
        }
        counts
    }

    /// Removes the groups from the round that have nothing to give any more. Called after every change of an element.
    pub fn settle_turns(&mut self) {
        if self.turns.round.iter().all(Vec::is_empty) {
            return;
        }
        let (openings, turns) = (self.openings(), &self.turns);
        let was_due =
            |group: &Bytes| openings.get(group).is_some_and(|it| it.at <= turns.looked_at);
        let stays = |it: &Bytes| it.is_empty() || was_due(it);
        let staying: Vec<_> = turns.round.iter().filter(|group| stays(group)).cloned().collect();
        self.turns.retain(|group| staying.contains(group));
    }

    /// Returns the element whose turn it is, and whether it came by a turn: elements without a group need none while no group
    /// has anything due. Groups enter the round by that.
    fn look(&self, turns: &mut Turns, now: u64, sequence: u64) -> Option<(Bytes, bool)> {
        let mut due = self.openings();
        due.retain(|_, opening| opening.at.0 <= now);
        let first_of = |group: &Bytes| due.get(group).map(|opening| opening.first.clone());
        if due.keys().copied().chain(&turns.round).all(Vec::is_empty) {
            return Some((first_of(&Vec::new())?, false));
        }
        // Those without a group leave as a group does that has nothing that was due at the latest look.
        let before = turns.looked_at;
        let stays = |group: &Bytes| due.get(group).is_some_and(|opening| opening.at <= before);
        turns.retain(|group| !group.is_empty() || stays(group));
        turns.looked_at = before.max((now, sequence));
        // Those that have nothing to give, because the clock was set back, or limits have changed.
        while let Some(first) = turns.round.first().cloned().filter(|it| !due.contains_key(it)) {
            turns.retain(|group| *group != first);
        }
        let mut woken: Vec<_> = due.iter().collect();
        woken.retain(|(group, _)| !turns.round.contains(group));
        woken.sort_by_key(|(_, opening)| (opening.at, opening.behind));
        turns.round.extend(woken.into_iter().map(|(group, _)| (*group).clone()));
        Some((first_of(turns.round.first()?)?, true))
    }

    /// Returns the element whose turn it is, and changes nothing.
    pub fn next_in_turn(&self, now: u64) -> Option<Bytes> {
        Some(self.look(&mut self.turns.clone(), now, 0)?.0)
    }

    /// Returns the element whose turn it is, and counts it as given out by its group. The caller takes it or leases it, and
    /// then calls [`Dehydrator::settle_turns`]. `real`: the time of the server's clock.
    pub fn give_in_turn(&mut self, now: u64, real: u64, sequence: u64) -> Option<Bytes> {
        let mut turns = self.turns.clone();
        let next = self.look(&mut turns, now, sequence);
        let by_turn = next.as_ref().is_some_and(|(_, by_turn)| *by_turn);
        let group = turns.round.first().filter(|_| by_turn).cloned();
        if by_turn {
            turns.give();
        }
        self.turns = turns;
        group.map(|group| self.give_of_group(&group, real, 1));
        Some(next?.0)
    }

    /// Returns the time of the latest look.
    pub fn looked_at(&self) -> u64 {
        self.turns.looked_at.0
    }
}

impl Entry {
    /// Returns the place in the order of delivery.
    pub fn turn(&self) -> (u64, u64) {
        (self.deadline, self.sequence)
    }

    /// Returns whether it counts under a limit of what its group holds, until it is given out again.
    fn counts_as_held(&self) -> bool {
        self.is_held() && self.deadline < MAX
    }
}
