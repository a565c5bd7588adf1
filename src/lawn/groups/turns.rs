//! Whose turn it is, and from when on a group gives something out.

use super::super::element::Group;
use super::super::store::{Handle, Records};
use super::super::turn::Turn;
use super::entries::{Entry, State};
use super::treap::{self, Nodes};
use super::{ADAPTED_MAX, Groups, LEASES_MAX, PASSED_MAX, VISITED_MAX, WOKEN_MAX};

impl Groups {
    /// Returns whether groups may hold back elements that are due: they are paused, or have limits.
    #[inline(always)]
    pub fn may_hold_back(&self) -> bool {
        self.restrained > 0 || self.each.held > 0 || self.each.rate > 0 || self.visit_from.is_some()
    }

    /// Returns the number of leases of a group that must end before it gives something out. 0: it has room for one more.
    #[inline(always)]
    pub(super) fn excess(&self, group: Group) -> u32 {
        match self.held_max(group) {
            0 => 0,
            max => (self.entries.get(group).held_len + 1).saturating_sub(max),
        }
    }

    /// Returns whether a group has room at `now` for one more element that is held. Exact, unless it has many more elements
    /// held than it may: then `false`.
    pub fn has_room(&self, records: &Records, group: Group, now: u64) -> bool {
        let last = self.last_excess(records, group);
        let has_ended = |last| records.turn(last).deadline <= now;
        self.excess(group) <= LEASES_MAX && last.is_none_or(has_ended)
    }

    /// Returns the last of the leases of a group that must end before it has room for one more.
    fn last_excess(&self, records: &Records, group: Group) -> Option<Handle> {
        let next = |node: Option<Handle>| treap::next(records, node?);
        let excess = self.excess(group);
        let first = self.entries.get(group).held.first().filter(|_| excess > 0);
        (1..excess.min(LEASES_MAX)).fold(first, |node, _| next(node))
    }

    /// Returns the turn from which on a group gives something out, if nothing changes. `None`: it has no element. If it
    /// has many more elements held than it may, that is a turn before which it gives out nothing.
    pub(super) fn opens(&self, records: &Records, group: Group) -> Option<Turn> {
        let last = self.last_excess(records, group);
        let turn = records.turn(last.or_else(|| self.first(records, group))?);
        let Entry { paused_until, has_log, .. } = *self.entries.get(group);
        let rate = if has_log { self.logs.next(group, self.clock) } else { 0 };
        Some(Turn { deadline: turn.deadline.max(paused_until).max(rate), ..turn })
    }

    /// Returns the first element that is given out, and from when on, where groups may hold elements back. Exact but for
    /// what is due, and for groups that [`Groups::look_again`] has to visit.
    pub fn opens_first(&self, records: &Records) -> Option<(Turn, Handle)> {
        if self.visit_from.is_some() {
            return self.queues.first(records);
        }
        let round = self.round.iter(&self.entries).filter(|group| *group != self.others);
        // If the clock has stepped back, what was due at the latest look may not be.
        let due_at = self.looked_at.min(self.clock);
        let (mut found, mut round) = (None, round.enumerate());
        while let Some((at, group)) = round.next()
            && found.is_none_or(|(turn, _): (Turn, _)| turn.deadline > due_at)
        {
            if at == PASSED_MAX {
                // The groups behind these may have something to give. Looks find out, PASSED_MAX groups at a time.
                return self.queues.first(records);
            }
            found = found.into_iter().chain(Some((self.opens(records, group)?, group))).min();
        }
        let first = self.first_waiting();
        let (turn, group) = found.into_iter().chain(first).min()?;
        Some((turn, self.first(records, group)?))
    }

    /// Visits some of the groups that may not know what they wait for, because what each may hold has changed.
    pub fn look_again(&mut self, records: &Records) {
        let (mut visited, mut adapted) = (0, 0);
        while visited < VISITED_MAX && adapted < ADAPTED_MAX {
            let Some(from) = self.visit_from else { return };
            let next = self.waiting.from(&self.entries, from);
            let turn = next.map(|group| self.entries.turn(group));
            self.visit_from = turn.map(|turn| Turn { push: turn.push + 1, ..turn });
            if let Some(group) = next.map(Group) {
                adapted += self.fit_rate(group);
                self.settle(records, group);
            }
            visited += 1;
        }
    }

    /// Visits all groups after what each may hold has changed: at once if they are few, or else with the looks to come.
    pub(super) fn visit(&mut self, records: &Records) {
        self.visit_from = Some(Turn::FIRST);
        if self.entries.len() <= VISITED_MAX {
            self.visit_all(records);
        }
    }

    /// Visits all groups, and those of the round as well.
    pub fn visit_all(&mut self, records: &Records) {
        while self.visit_from.is_some() {
            self.look_again(records);
        }
        let round: Vec<_> = self.round.iter(&self.entries).collect();
        for group in round {
            if group != self.others {
                self.settle(records, group);
            }
        }
    }

    /// Returns whether a group may have something to give at `now`. If not, elements without a group need no turns.
    #[inline(always)]
    pub fn are_due(&self, now: u64) -> bool {
        let first = self.waiting.first();
        !self.round.has_only(self.others)
            || self.visit_from.is_some()
            || self.is_behind(now)
            || first.is_some_and(|first| self.entries.turn(first).deadline <= now)
    }

    /// Returns the group whose turn it is at `now`. `others` is the turn of the first element without a group, if that is
    /// due. `None` if nothing is due, or for now because [`PASSED_MAX`] groups or [`LEASES_MAX`] leases were passed over.
    pub fn turn(&mut self, records: &mut Records, others: Option<Turn>, now: u64) -> Option<Group> {
        self.note_clock(now);
        self.clock = now;
        self.look_again(records);
        let is_in_round = self.entries.get(self.others).state == State::InRound;
        let stays = is_in_round && self.was_due(others);
        if is_in_round && !stays {
            self.round.leave(&mut self.entries, self.others);
        }
        self.looked_at = self.looked_at.max(now);
        for _ in 0..PASSED_MAX {
            let Some(front) = self.round.front() else { break };
            self.fit_rate(front);
            let Some(opens) = self.opens_later(records, front, now) else { break };
            self.round.leave(&mut self.entries, front);
            self.wait(front, Some(opens));
        }
        self.wake(records, others.filter(|_| !stays), now);
        let front = self.round.front()?;
        let is_open = self.opens_later(records, front, now).is_none();
        (is_open && self.knows_room(records, front)).then_some(front)
    }

    /// Returns the group that is the first to give something out among those that wait, and when.
    fn first_waiting(&self) -> Option<(Turn, Group)> {
        self.waiting.first().map(|first| (self.entries.turn(first), Group(first)))
    }

    /// Returns whether the first element without a group was due at the latest look. If not, they have left the round.
    fn was_due(&self, others: Option<Turn>) -> bool {
        others.is_some_and(|first| first.deadline <= self.looked_at)
    }

    /// Returns the turn from which on a group gives something out, if that is after `now`.
    fn opens_later(&self, records: &Records, group: Group, now: u64) -> Option<Turn> {
        self.opens(records, group).filter(|turn| turn.deadline > now)
    }

    /// Returns whether a group whose first [`LEASES_MAX`] leases have ended, if so many must end, has room. If more must end,
    /// those count no more, and the next look goes on from there.
    fn knows_room(&mut self, records: &mut Records, group: Group) -> bool {
        if self.excess(group) <= LEASES_MAX {
            return true;
        }
        for _ in 0..LEASES_MAX {
            let entry = self.entries.get_mut(group);
            let ended = entry.held.first().expect("the group holds more than it may");
            entry.held.remove(records, ended);
            entry.held_len -= 1;
            records.mark_held(ended, false);
            entry.elements.insert(records, ended);
        }
        false
    }

    /// Moves groups that give something out at `now` to the end of the round, in the order of what they waited for.
    fn wake(&mut self, records: &Records, mut others: Option<Turn>, now: u64) {
        for _ in 0..WOKEN_MAX {
            let first = self.first_waiting();
            let first = first.filter(|(turn, _)| turn.deadline <= now);
            let is_others = |it: &mut Turn| first.is_none_or(|(turn, _)| *it < turn);
            let group = if others.take_if(is_others).is_some() {
                self.others
            } else if let Some((_, group)) = first {
                self.waiting.remove(&mut self.entries, group.0);
                if let Some(opens) = self.opens_later(records, group, now) {
                    // What each may hold has changed, and this group was not visited since.
                    self.wait(group, Some(opens));
                    continue;
                }
                group
            } else {
                return;
            };
            self.round.enter(&mut self.entries, group);
        }
    }

    /// Returns the group that [`Groups::turn`] would return, and moves none. `others` is the first turn of the elements
    /// without a group, if it is due at `now`.
    pub fn next(&self, records: &Records, others: Option<Turn>, now: u64) -> Option<Group> {
        let is_due = |group: &Group| match self.opens(records, *group) {
            Some(opens) => opens.deadline <= now,
            None => others.is_some(),
        };
        let has_room = |group: &Group| self.excess(*group) <= LEASES_MAX;
        // As `turn` does, pass over a bounded number of groups, and let nobody overtake the next one.
        let round = self.round.iter(&self.entries);
        let stays = |group: &Group| *group != self.others || self.was_due(others);
        let round = round.filter(stays).enumerate();
        let mut round = round.skip_while(|(at, group)| *at < PASSED_MAX && !is_due(group));
        if let Some((_, group)) = round.next() {
            return Some(group).filter(is_due).filter(has_room);
        }
        let first = self.first_waiting();
        let first = first.filter(|(turn, _)| turn.deadline <= now);
        let others = others.map(|turn| (turn, self.others));
        let first = first.into_iter().chain(others).min_by_key(|it| it.0).map(|it| it.1);
        first.filter(is_due).filter(has_room)
    }

    /// Counts an element that the group at the front of the round gives out, in its turn. The group goes to the end once it
    /// has given out its share.
    pub fn give(&mut self, group: Group) {
        let entry = self.entries.get_mut(group);
        entry.given = entry.given.saturating_add(1);
        if entry.given >= entry.share {
            self.pass(group);
        }
    }

    /// Moves a group of the round to its end.
    pub fn pass(&mut self, group: Group) {
        self.round.leave(&mut self.entries, group);
        self.round.enter(&mut self.entries, group);
    }
}
