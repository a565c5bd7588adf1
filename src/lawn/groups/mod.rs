//! Groups of elements that take turns.
//!
//! ```text
//!                       ┌▶ its elements by turn   (a tree, linked through their records)
//!   Entries: name ─▶ group
//!                       └▶ Round: groups that give out in turn   (a ring)   ⎫ linked through
//!                          waiting: all others, by their first elements (a tree) ⎭ the groups
//! ```
//!
//! A group whose first element is due is in the round once somebody has looked. It stays there, and keeps its place,
//! until it has nothing that was due at the latest look. So time alone never makes another element the next one.
//! Elements without a group are one group more, whose elements are not in here: it enters and leaves the round when
//! somebody looks.
//!
//! | module | contents |
//! |---|---|
//! | `entries` | the groups and their names |
//! | `treap` | sorted sets that are linked through their nodes |
//! | `round` | the ring of the groups that give in turn |
//! | `greatest` | the groups with the most elements |
//!
//! | operation | cost |
//! |---|---|
//! | to insert or remove an element | O(1) at the end of its group and for its first element, otherwise O(log elements of the group) |
//! | the first element of a group changes, in addition | O(log groups that wait) if it waits, O(1) in the round |
//! | to look whose turn it is | O(1), and O(log groups) for each of at most [`WOKEN_MAX`] groups that enter the round |

mod entries;
mod greatest;
mod round;
mod treap;

use std::collections::BTreeMap;

use ahash::RandomState;

use super::element::Group;
use super::memory::Mover;
use super::queues::Queues;
use super::store::{Handle, Links, Records};
use super::tiny::TINY;
use super::turn::Turn;
use entries::{Entries, State};
use greatest::Greatest;
use round::Round;
use treap::{Nodes, Tree};

/// The most groups that one look at the clock moves to the round.
pub const WOKEN_MAX: usize = if TINY { 3 } else { 64 };
/// The most groups that one look at the clock removes from the round because their first elements are not due. Only a
/// clock that stepped back leaves any.
pub const PASSED_MAX: usize = if TINY { 4 } else { 1024 };

/// All groups of a lawn, and the order of the elements that are in one.
#[derive(Clone)]
pub struct Groups {
    /// The elements that are in a group, whichever it is.
    pub queues: Queues,
    entries: Entries,
    /// The group of all elements that are in none.
    others: Group,
    round: Round,
    waiting: Tree,
    greatest: Greatest,
    /// The shares that differ from 1, by name.
    shares: BTreeMap<Vec<u8>, u16>,
    /// Elements, and groups that have some.
    elements: usize,
    filled: usize,
    /// The latest moment at which somebody looked. All groups of the round have an element that was due by then.
    looked_at: u64,
}

/// The elements of a group, by turn.
impl Nodes for Records {
    #[inline(always)]
    fn links(&self, node: Handle) -> Links {
        self.links(node)
    }

    #[inline(always)]
    fn set_links(&mut self, node: Handle, links: Links) {
        self.set_links(node, links);
    }

    #[inline(always)]
    fn turn(&self, node: Handle) -> Turn {
        self.turn(node)
    }

    #[inline(always)]
    fn rank(&self, node: Handle) -> u64 {
        treap::rank(self.turn(node).push, self.secret)
    }
}

impl Groups {
    /// `records` has no grouped record yet.
    pub fn new(hasher: &RandomState, records: &mut Records) -> Self {
        records.secret = hasher.hash_one("elements") | 1;
        let mut entries = Entries::new(hasher.clone(), hasher.hash_one("groups"));
        let others = entries.insert(b"").expect("there is room for the first");
        Self {
            queues: Queues::new(hasher.clone()),
            entries,
            others,
            round: Round::default(),
            waiting: Tree::default(),
            greatest: Greatest::default(),
            shares: BTreeMap::new(),
            elements: 0,
            filled: 0,
            looked_at: 0,
        }
    }

    /// Returns whether there is a group with an element or a setting.
    #[inline(always)]
    pub fn is_in_use(&self) -> bool {
        self.filled + self.shares.len() > 0
    }

    /// Returns the number of elements that are in a group.
    pub fn len(&self) -> usize {
        self.elements
    }

    /// Returns the number of groups that have an element.
    pub fn filled(&self) -> usize {
        self.filled
    }

    pub fn find(&self, name: &[u8]) -> Option<Group> {
        self.entries.find(name)
    }

    /// Returns the group of a name. Creates it if there is none; then the caller must insert an element or set a share
    /// next, or call [`Groups::free_if_unused`]. `None` if there is no room.
    pub fn find_or_create(&mut self, name: &[u8]) -> Option<Group> {
        self.entries.find(name).or_else(|| self.entries.insert(name))
    }

    /// Frees a group without elements and settings.
    pub fn free_if_unused(&mut self, group: Group) {
        let entry = self.entries.get(group);
        if entry.len == 0 && entry.share == 1 && group != self.others {
            self.entries.remove(group);
        }
    }

    pub fn name(&self, group: Group) -> &[u8] {
        self.entries.name(group)
    }

    pub fn share(&self, group: Group) -> u16 {
        self.entries.get(group).share
    }

    pub fn set_share(&mut self, group: Group, share: u16) {
        let name = self.entries.name(group).to_vec();
        self.entries.get_mut(group).share = share.max(1);
        if share > 1 {
            self.shares.insert(name, share);
        } else {
            self.shares.remove(&name);
            self.free_if_unused(group);
        }
    }

    /// Lists the groups that have a share other than 1, by name.
    pub fn shares(&self) -> impl Iterator<Item = (&[u8], u16)> {
        self.shares.iter().map(|(name, share)| (&name[..], *share))
    }

    pub fn group_len(&self, group: Group) -> usize {
        self.entries.get(group).len as usize
    }

    /// Lists the groups with the most elements, the greatest first, and their numbers of elements.
    pub fn greatest(&self, most: usize) -> Vec<(&[u8], usize)> {
        self.greatest.list(&self.entries, most)
    }

    /// Returns the first element of a group.
    #[inline(always)]
    pub fn first(&self, group: Group) -> Option<Handle> {
        self.entries.get(group).elements.first()
    }

    /// Iterates over a group's elements, from a turn on.
    pub fn elements<'a>(
        &self,
        records: &'a Records,
        group: Group,
        from: Turn,
    ) -> impl Iterator<Item = Handle> + 'a {
        let first = self.entries.get(group).elements.from(records, from);
        std::iter::successors(first, |node| treap::next(records, *node))
    }

    /// Inserts a record into its group.
    pub fn insert(&mut self, records: &mut Records, record: Handle) {
        let group = group_of(records, record);
        self.put(records, group, record);
        self.count(group, 1);
        if self.first(group) == Some(record) {
            self.settle(records, group);
        }
    }

    /// Removes a record from its group.
    pub fn remove(&mut self, records: &mut Records, record: Handle) {
        let group = group_of(records, record);
        let was_first = self.lift(records, record);
        self.count(group, -1);
        if was_first {
            self.settle(records, group);
        }
    }

    /// Removes a record from its group's order before it gets another turn. The caller must call [`Groups::refile`] with
    /// the result after that.
    pub fn lift(&mut self, records: &mut Records, record: Handle) -> bool {
        let elements = &mut self.entries.get_mut(group_of(records, record)).elements;
        let was_first = elements.first() == Some(record);
        elements.remove(records, record);
        was_first
    }

    /// Inserts a record with a new turn.
    pub fn refile(&mut self, records: &mut Records, record: Handle, was_first: bool) {
        let group = group_of(records, record);
        self.put(records, group, record);
        if was_first || self.first(group) == Some(record) {
            self.settle(records, group);
        }
    }

    fn put(&mut self, records: &mut Records, group: Group, record: Handle) {
        self.entries.get_mut(group).elements.insert(records, record);
    }

    fn count(&mut self, group: Group, change: i32) {
        let entry = self.entries.get_mut(group);
        let before = entry.len;
        entry.len = before.wrapping_add_signed(change);
        self.filled += usize::from(before == 0);
        self.filled -= usize::from(entry.len == 0);
        self.elements = self.elements.wrapping_add_signed(change as isize);
        self.greatest.update(entry, group);
    }

    /// Replaces a record's handle. The new record has the turn and the links of the old one, which may be gone.
    pub fn replace(&mut self, records: &mut Records, old: Handle, new: Handle) {
        let entry = self.entries.get_mut(group_of(records, new));
        entry.elements.replace(records, old, new);
    }

    /// Moves a group whose first element has changed to where it belongs, and frees it if it is not used.
    fn settle(&mut self, records: &Records, group: Group) {
        let entry = self.entries.get(group);
        let first = entry.elements.first().map(|first| records.turn(first));
        match entry.state {
            State::InRound if first.is_some_and(|first| first.deadline <= self.looked_at) => return,
            State::InRound => self.round.leave(&mut self.entries, group),
            State::Waits if Some(entry.waits_until) == first => return,
            State::Waits => self.waiting.remove(&mut self.entries, group.0),
            State::Idle => {}
        }
        self.wait(group, first);
        self.free_if_unused(group);
    }

    /// Lets a group wait for its first element, if it has one.
    fn wait(&mut self, group: Group, first: Option<Turn>) {
        let entry = self.entries.get_mut(group);
        entry.state = State::Idle;
        if let Some(first) = first {
            (entry.state, entry.waits_until) = (State::Waits, first);
            self.waiting.insert(&mut self.entries, group.0);
        }
    }

    /// Returns whether a group may have something to give at `now`. If not, elements without a group need no turns.
    #[inline(always)]
    pub fn are_due(&self, now: u64) -> bool {
        let first = self.waiting.first();
        !self.round.has_only(self.others)
            || first.is_some_and(|first| self.entries.turn(first).deadline <= now)
    }

    /// Returns the group whose turn it is at `now`. `others` is the turn of the first element without a group, if that is
    /// due. `None` if nothing is due, or for now because [`PASSED_MAX`] groups were passed over.
    pub fn turn(&mut self, records: &Records, others: Option<Turn>, now: u64) -> Option<Group> {
        let is_in_round = self.entries.get(self.others).state == State::InRound;
        let stays = is_in_round && self.was_due(others);
        if is_in_round && !stays {
            self.round.leave(&mut self.entries, self.others);
        }
        self.looked_at = self.looked_at.max(now);
        for _ in 0..PASSED_MAX {
            let Some(front) = self.round.front() else { break };
            let Some(first) = self.first_not_due(records, front, now) else { break };
            self.round.leave(&mut self.entries, front);
            self.wait(front, Some(first));
        }
        self.wake(others.filter(|_| !stays), now);
        self.round.front().filter(|front| self.first_not_due(records, *front, now).is_none())
    }

    /// Returns whether the first element without a group was due at the latest look. If not, they have left the round.
    fn was_due(&self, others: Option<Turn>) -> bool {
        others.is_some_and(|first| first.deadline <= self.looked_at)
    }

    /// Returns the turn of a group's first element if that is not due.
    fn first_not_due(&self, records: &Records, group: Group, now: u64) -> Option<Turn> {
        let first = self.first(group).map(|first| records.turn(first));
        first.filter(|first| first.deadline > now)
    }

    /// Moves groups whose first elements are due to the end of the round, in the order of these.
    fn wake(&mut self, mut others: Option<Turn>, now: u64) {
        for _ in 0..WOKEN_MAX {
            let first = self.waiting.first().map(|first| (self.entries.turn(first), Group(first)));
            let first = first.filter(|(turn, _)| turn.deadline <= now);
            let is_others = |it: &mut Turn| first.is_none_or(|(turn, _)| *it < turn);
            let group = if others.take_if(is_others).is_some() {
                self.others
            } else if let Some((_, group)) = first {
                self.waiting.remove(&mut self.entries, group.0);
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
        let is_due = |group: &Group| match self.first(*group) {
            Some(first) => records.turn(first).deadline <= now,
            None => others.is_some(),
        };
        // As `turn` does, pass over a bounded number of groups, and let nobody overtake the next one.
        let round = self.round.iter(&self.entries);
        let stays = |group: &Group| *group != self.others || self.was_due(others);
        let round = round.filter(stays).enumerate();
        let mut round = round.skip_while(|(at, group)| *at < PASSED_MAX && !is_due(group));
        if let Some((_, group)) = round.next() {
            return is_due(&group).then_some(group);
        }
        let first = self.waiting.first().map(|first| (self.entries.turn(first), Group(first)));
        let first = first.filter(|(turn, _)| turn.deadline <= now);
        let others = others.map(|turn| (turn, self.others));
        first.into_iter().chain(others).min_by_key(|it| it.0).map(|it| it.1)
    }

    /// Returns whether any group has a setting.
    pub fn has_settings(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Counts an element that the group at the front of the round gives out. The group goes to the end once it has given
    /// out its share.
    pub fn give(&mut self, group: Group) {
        let entry = self.entries.get_mut(group);
        entry.given = entry.given.saturating_add(1);
        if entry.given >= entry.share {
            self.round.leave(&mut self.entries, group);
            self.round.enter(&mut self.entries, group);
        }
    }

    pub fn is_sparse(&self) -> bool {
        self.queues.blocks.slab.is_sparse() || self.entries.is_sparse()
    }

    /// Moves a block or a name. Returns the number of records updated, at least 1.
    pub fn compact(&mut self, records: &mut Records) -> Option<usize> {
        self.queues.compact(records).or_else(|| self.entries.compact().map(|()| 1))
    }

    /// Returns the number of steps of [`Groups::defrag`].
    pub fn defrag_steps(&self) -> usize {
        self.entries.defrag_steps() + self.queues.defrag_steps()
    }

    /// Moves some allocations.
    pub fn defrag(&mut self, step: usize, mover: &mut impl Mover) {
        match step.checked_sub(self.entries.defrag_steps()) {
            None => self.entries.defrag(step, mover),
            Some(step) => self.queues.defrag_step(step, mover),
        }
    }

    /// Returns the bytes allocated, with those of the groups themselves. O(pages).
    pub fn memory(&self) -> usize {
        let shares = self.shares.keys().map(|name| name.capacity() + 50).sum::<usize>();
        size_of::<Self>()
            + self.queues.memory()
            + self.entries.memory()
            + self.greatest.memory()
            + shares
    }

    /// Returns roughly how many allocations dropping them frees. O(1).
    pub fn allocations(&self) -> usize {
        1 + self.queues.allocations()
            + self.entries.allocations()
            + self.greatest.allocations()
            + self.shares.len()
    }

    /// Panics unless groups, round and waiting groups are consistent with the records. Returns the number of elements.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, records: &Records) -> usize {
        let (mut elements, mut filled, mut waits, mut in_round) = (0, 0, 0, 0);
        self.entries.check();
        for group in self.entries.all() {
            let entry = self.entries.get(group);
            let len = entry.elements.check(records);
            let mut all = self.elements(records, group, Turn::FIRST);
            assert!(all.all(|it| records.get(it).group() == Some(group)), "an element's group");
            assert_eq!(entry.len as usize, len, "the length of a group");
            let share = self.shares.get(self.name(group)).copied().unwrap_or(1);
            assert_eq!(entry.share, share, "a share");
            (elements, filled) = (elements + len, filled + usize::from(len > 0));
            waits += usize::from(entry.state == State::Waits);
            in_round += usize::from(entry.state == State::InRound);
            if group == self.others {
                assert!(len == 0 && entry.state != State::Waits, "the elements without a group");
                continue;
            }
            assert!(share > 1 || len > 0, "an unused group");
            let first = entry.elements.first().map(|first| records.turn(first));
            match entry.state {
                State::Idle => assert_eq!(first, None, "a group that waits for nothing"),
                State::Waits => {
                    assert_eq!(first, Some(entry.waits_until), "what a group waits for")
                }
                State::InRound => {
                    assert!(
                        first.is_some_and(|first| first.deadline <= self.looked_at),
                        "{first:?}"
                    );
                }
            }
        }
        assert_eq!((self.elements, self.filled), (elements, filled), "counters");
        assert_eq!(self.waiting.check(&self.entries), waits, "groups that wait");
        assert_eq!(self.round.check(&self.entries), in_round, "groups of the round");
        assert!(self.shares.keys().all(|name| self.find(name).is_some()), "a lost share");
        self.greatest.check(&self.entries);
        assert_eq!(self.queues.check(records), elements, "groups and order disagree");
        elements
    }
}

#[inline(always)]
fn group_of(records: &Records, record: Handle) -> Group {
    records.group(record)
}
