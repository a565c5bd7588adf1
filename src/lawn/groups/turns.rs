//! Whose turn it is.
//!
//! Groups give in the order in which they became eligible, and one that has given its share begins anew. So the round is a list of
//! groups, each with the moment at which it came to the back. Those that become eligible as time passes are not in the list, but
//! in a tree by that moment: whose turn it is follows from the first of both. Nobody is passed over twice by the same group, and no
//! call moves more than one group. The elements without a group are a group of the list too. Nothing says when they come due, so
//! they leave the list when it is their turn and nothing of theirs is due.
//!
//! | event | function | from | to | cost |
//! |---|---|---|---|---|
//! | a group is eligible from another moment on: an element comes, goes, moves, is held or not; a limit or a pause changes | `refile` | any | `Empty` without an element, `Active` (at the back, unless it was) if it is eligible at the latest turn, else `Waiting` | O(log groups) |
//! | its turn comes | `take_turn` | `Waiting`, `Active` | `Active`, at the front, or at the back after its share | O(log groups), O(1) if it was active |
//! | the clock has stepped back | `take_turn` | `Active`, but not eligible yet | `Waiting` | O(log groups) for each of [`RETREAT_MAX`] |

use super::super::element::Group;
use super::super::rank::Rank;
use super::super::store::{Handle, Records};
use super::super::tiny::TINY;
use super::super::work;
use super::Groups;
use super::table::{GroupRecord, State};

/// The most groups that leave the round in one call because the clock has stepped back to before they are eligible.
pub const RETREAT_MAX: usize = if TINY { 1 } else { 8 };

/// The decision whose turn it is. It holds until something changes.
#[derive(Clone, Copy)]
#[must_use]
pub struct Choice {
    pub group: Group,
    /// Set if elements without a group leave the list: it was their turn, and none is due.
    drops_ungrouped: bool,
}

impl Groups {
    /// Returns the group that is the first to become eligible, or became so first, and when.
    #[inline(always)]
    pub fn first_eligible(&self) -> Option<(Rank, Group)> {
        let first = |it: Handle| (self.table.get(Group(it)).eligible, Group(it));
        match (self.active.first().map(first), self.waiting.first().map(first)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Returns whether a group is eligible at `now`. If not, elements without a group need no turns.
    #[inline(always)]
    pub fn are_due(&self, now: u64) -> bool {
        self.first_eligible().is_some_and(|(rank, _)| rank.deadline <= now)
    }

    /// Decides whose turn it is at `now`. `ungrouped`: the rank of the first element without a group, if that is due.
    pub fn choose(&self, ungrouped: Option<Rank>, now: u64) -> Option<Choice> {
        let is_ungrouped = |group: Group| group == self.ungrouped;
        let eligible = |group: Group| match is_ungrouped(group) {
            true => ungrouped,
            false => Some(self.table.get(group).eligible).filter(|it| it.deadline <= now),
        };
        // A turn that has begun goes on.
        if let Some((group, _)) = self.turn.filter(|it| eligible(it.0).is_some()) {
            return Some(Choice { group, drops_ungrouped: false });
        }
        let mut front = self.round.front();
        // Those without a group are in the list as of now if their first came due since.
        let drops_ungrouped = front.is_some_and(is_ungrouped)
            && ungrouped.is_none_or(|rank| rank.deadline > self.entered(self.ungrouped, now));
        if drops_ungrouped {
            front = self.table.get(self.ungrouped).behind.map(Group);
        }
        let front = front.filter(|front| eligible(*front).is_some());
        let is_out = drops_ungrouped || self.table.get(self.ungrouped).state != State::Active;
        let joins =
            self.waiting.first().map(Group).into_iter().chain(is_out.then_some(self.ungrouped));
        let joins = joins.filter_map(|it| Some((eligible(it)?, it))).min_by_key(|it| it.0);
        let group = match (front, joins) {
            (Some(front), Some((rank, _))) if self.entered(front, now) < rank.deadline => front,
            (_, Some((_, group))) => group,
            (Some(front), None) => front,
            // The clock has stepped back. The oldest is next.
            (None, None) => self.first_eligible().filter(|it| it.0.deadline <= now)?.1,
        };
        Some(Choice { group, drops_ungrouped })
    }

    /// Returns when a group got its place in the list.
    fn entered(&self, group: Group, now: u64) -> u64 {
        let ago = (now as u32).wrapping_sub(self.table.get(group).entered);
        // Half of the span is the future, in which the clock was before it stepped back.
        now.saturating_add_signed(-i64::from(ago as i32))
    }

    /// Lets the chosen group give one element at `now`. After its share, or if its turn `is_over`, it goes to the back.
    pub fn take_turn(&mut self, choice: Choice, now: u64, is_over: bool) {
        let Choice { group, drops_ungrouped } = choice;
        if drops_ungrouped {
            self.round.remove(&mut self.table, self.ungrouped);
            self.table.get_mut(self.ungrouped).state = State::Waiting;
        }
        self.latest = now;
        let is_active = self.table.get(group).state == State::Active;
        if !is_active && group != self.ungrouped {
            self.waiting.remove(&mut self.table, group.0);
            let eligible = self.table.get(group).eligible;
            self.active.insert(&mut self.table, group.0, eligible);
        }
        if is_active && self.round.front() != Some(group) {
            self.round.remove(&mut self.table, group);
        }
        if self.round.front() != Some(group) {
            self.round.push_front(&mut self.table, group);
        }
        if !is_active {
            // Those without a group are not filed.
            let record = self.table.get_mut(group);
            let since = if group == self.ungrouped { now } else { record.eligible.deadline };
            (record.state, record.entered) = (State::Active, since as u32);
        }
        let given = self.turn.filter(|it| it.0 == group).map_or(0, |it| it.1).saturating_add(1);
        self.turn = Some((group, given));
        if is_over || given >= self.own(group).share {
            self.turn = None;
            self.round.remove(&mut self.table, group);
            self.round.push_back(&mut self.table, group, now);
        }
        self.retreat();
    }

    /// Removes some groups from the round that are not eligible yet, because the clock has stepped back.
    fn retreat(&mut self) {
        for _ in 0..RETREAT_MAX {
            let last = self.active.last().map(Group);
            let is_early = |it: &Group| self.table.get(*it).eligible.deadline > self.latest;
            let Some(last) = last.filter(is_early) else { return };
            work::step(1);
            self.active.remove(&mut self.table, last.0);
            self.round.remove(&mut self.table, last);
            self.turn = self.turn.filter(|it| it.0 != last);
            self.table.get_mut(last).state = State::Waiting;
            let eligible = self.table.get(last).eligible;
            self.waiting.insert(&mut self.table, last.0, eligible);
        }
    }

    /// Returns the names of the groups of the round in their order.
    #[cfg(any(test, debug_assertions))]
    pub fn round(&self) -> Vec<&[u8]> {
        self.round.check(&self.table).into_iter().map(|group| self.table.name(group)).collect()
    }

    /// Returns from when on a group is eligible. `None`: it has no element.
    #[inline(always)]
    pub(super) fn eligible_from(&self, records: &Records, group: Group) -> Option<Rank> {
        let record = self.table.get(group);
        let rank = match record.makes_room {
            Some(lease) => records.rank(lease),
            None => records.rank(self.first(records, group)?),
        };
        Some(Rank { deadline: rank.deadline.max(self.blocked_until(group)), ..rank })
    }

    /// Files a group by when it is eligible, after a change. Frees it if it is not used. Returns whether anything has changed.
    pub(super) fn refile(&mut self, records: &Records, group: Group) -> bool {
        let eligible = self.eligible_from(records, group);
        let GroupRecord { state: before, eligible: was, .. } = *self.table.get(group);
        if eligible == (before != State::Empty).then_some(was) {
            self.free_if_unused(group);
            return false;
        }
        work::step(1);
        match before {
            State::Empty => {}
            State::Waiting => self.waiting.remove(&mut self.table, group.0),
            State::Active => self.active.remove(&mut self.table, group.0),
        }
        // One that waited and was eligible keeps its place.
        let keeps = before == State::Waiting && was.deadline <= self.latest;
        let state = match eligible {
            None => State::Empty,
            Some(rank) if rank.deadline <= self.latest => State::Active,
            Some(_) => State::Waiting,
        };
        match (before == State::Active, state == State::Active) {
            (true, false) => {
                self.round.remove(&mut self.table, group);
                self.turn = self.turn.filter(|it| it.0 != group);
            }
            (false, true) if keeps => self.round.insert(&mut self.table, group, was.deadline),
            (false, true) => self.round.push_back(&mut self.table, group, self.latest),
            _ => {}
        }
        let record = self.table.get_mut(group);
        record.state = state;
        if let Some(eligible) = eligible {
            record.eligible = eligible;
            let tree = if state == State::Active { &mut self.active } else { &mut self.waiting };
            tree.insert(&mut self.table, group.0, eligible);
        } else {
            self.free_if_unused(group);
        }
        true
    }
}
