//! Groups of elements that take turns.
//!
//! ```text
//!                     ┌▶ its elements by rank, those that are held by themselves   (two trees, linked through records)
//!   Table: name ─▶ group
//!                     └▶ waiting or active: all groups by when they may give       (two trees) ⎫ linked through
//!                        Round: the active ones in the order of their turns        (a list)    ⎭ the groups
//! ```
//!
//! A group is *eligible* from when its first element is due, it is not *blocked* by its pause or its rate, and it has room for
//! one more lease. That moment is always known, and each group with an element is filed by it, so the next deadline of all is
//! the first of two trees.
//!
//! The states of a group, and the only two functions that change them, are in the table of [`turns`].
//!
//! | module | contents |
//! |---|---|
//! | `table` | the groups and their names |
//! | `treap` | sorted sets that are linked through their nodes |
//! | `turns` | whose turn it is; filing a group |
//! | `round` | the list of the groups that give in turn |
//! | `held` | what a group holds, and the limit of that |
//! | `limits` | setting limits, and bringing groups to what is set |
//! | `rules` | the shares, limits and pauses that are set for groups, by name |
//! | `logs` | the log behind a rate limit: when each group gave out how many elements |
//! | `greatest` | the groups with the most elements |
//!
//! | operation | cost |
//! |---|---|
//! | to insert or remove an element | O(1) at the end of its group and for its first element, otherwise O(log elements of the group); if the first changes, also O(log groups) |
//! | to decide whose turn it is | O(1) |
//! | to set the limits of each group | O(log groups) for each of the groups that a call [fits](GroupsMut::fit_some) |

mod greatest;
mod held;
mod limits;
mod logs;
mod round;
mod rules;
mod table;
mod treap;
mod turns;

use ahash::RandomState;

use super::element::Group;
use super::memory::{Mover, Steps};
use super::queues::Queues;
use super::rank::Rank;
use super::store::{Handle, RIGHT, Records};
use super::tiny::TINY;
use super::work;
use greatest::Greatest;
#[cfg(test)]
pub use limits::FIT_WORK;
pub use limits::GroupsMut;
use logs::Logs;
use round::Round;
pub use rules::{Enforced, GroupLimits, GroupRules, GroupSettings};
use table::{GroupRecord, State, Table};
use treap::Tree;
pub use turns::Choice;
#[cfg(test)]
pub use turns::RETREAT_MAX;

/// The most elements of a group that moves so that memory can be given back.
const MOVED_MAX: u32 = if TINY { 6 } else { 1024 };

/// All groups of a lawn, and the order of the elements that are in one.
#[derive(Clone)]
pub struct Groups {
    /// The elements that are in a group, whichever it is.
    pub(super) queues: Queues,
    pub(super) table: Table,
    /// The group of all elements that are in none. It is in no tree, and mostly in the round.
    ungrouped: Group,
    round: Round,
    /// The group whose turn has begun, and the number of elements that it has given in it.
    turn: Option<(Group, u16)>,
    /// The moment of the latest turn.
    latest: u64,
    active: Tree,
    waiting: Tree,
    pub(super) greatest: Greatest,
    pub(super) rules: GroupRules,
    /// The cursor of the table from which on groups may not have the limits that are set.
    fit_from: Option<u64>,
    logs: Logs,
    /// Elements that are in a group, and groups that have some.
    pub(super) elements: usize,
    pub(super) filled: usize,
}

impl Groups {
    /// `records` has no grouped record yet.
    #[cold]
    pub fn new(hasher: &RandomState, records: &mut Records) -> Box<Self> {
        records.secret = hasher.hash_one("elements") | 1;
        let mut table = Table::new(hasher.clone(), hasher.hash_one("groups"));
        let ungrouped = table.insert(b"").expect("there is room for the first");
        Box::new(Self {
            queues: Queues::new(hasher.clone()),
            table,
            ungrouped,
            round: Round::default(),
            turn: None,
            latest: 0,
            active: Tree::default(),
            waiting: Tree::default(),
            greatest: Greatest::default(),
            rules: GroupRules::NONE,
            fit_from: None,
            logs: Logs::default(),
            elements: 0,
            filled: 0,
        })
    }

    /// Returns whether there is a group with an element or a setting.
    #[inline(always)]
    pub fn is_in_use(&self) -> bool {
        self.filled > 0 || !self.rules.is_empty()
    }

    /// Returns the group of a name. Creates it if there is none; then the caller must insert an element, or call
    /// [`Groups::free_if_unused`]. `None` if there is no room.
    #[inline(always)]
    pub fn find_or_create(&mut self, name: &[u8]) -> Option<Group> {
        self.table.find(name).or_else(|| self.create(name))
    }

    #[inline(never)]
    fn create(&mut self, name: &[u8]) -> Option<Group> {
        let group = self.table.insert(name)?;
        self.table.get_mut(group).has_settings = self.rules.of(name) != GroupSettings::NONE;
        self.table.get_mut(group).held_max = self.limits(group).held_max();
        Some(group)
    }

    /// Frees a group without elements and log.
    pub fn free_if_unused(&mut self, group: Group) {
        let record = self.table.get(group);
        if record.len == 0 && !record.has_log && group != self.ungrouped {
            self.table.remove(group);
        }
    }

    /// Returns the element of a group that is given out first. Of a group that holds as many as it may, that is the first
    /// whose lease ends: so the work of a client that died is done before that which waits behind it.
    #[inline(always)]
    pub fn first(&self, records: &Records, group: Group) -> Option<Handle> {
        let record = self.table.get(group);
        if record.makes_room.is_some() {
            return record.held.first();
        }
        match (record.elements.first(), record.held.first()) {
            (Some(one), Some(held)) if records.rank(held) < records.rank(one) => Some(held),
            (one, held) => one.or(held),
        }
    }

    /// Iterates over a group's elements, from a rank on.
    pub fn elements<'a>(
        &self,
        records: &'a Records,
        group: Group,
        from: Rank,
    ) -> impl Iterator<Item = Handle> + use<'a> {
        self.outside(records, group, (Rank::FIRST, from), Rank::LAST)
    }

    /// Iterates over the elements of a group whose ranks are not in a gap, and that are under no lease which ends at `held_end` or
    /// later. O(log n) to begin, and those between cost nothing.
    pub fn outside<'a>(
        &self,
        records: &'a Records,
        group: Group,
        (begin, end): (Rank, Rank),
        held_end: Rank,
    ) -> impl Iterator<Item = Handle> + use<'a> {
        let GroupRecord { elements, held, .. } = *self.table.get(group);
        let around = |tree, last: Rank| {
            walk(records, tree, Rank::FIRST, begin.min(last)).chain(walk(records, tree, end, last))
        };
        merge(records, around(elements, Rank::LAST), around(held, held_end))
    }

    /// Inserts a record that is not held into its group.
    #[inline(never)]
    pub fn insert(&mut self, records: &mut Records, group: Group, record: Handle, rank: Rank) {
        let Self { table, greatest, filled, elements, .. } = self;
        let it = table.get_mut(group);
        it.elements.insert(records, record, rank);
        it.len += 1;
        *filled += usize::from(it.len == 1);
        *elements += 1;
        greatest.update(group, it.len - 1, it.len);
        if it.elements.first() == Some(record) || it.held_max > 0 {
            self.refile(records, group);
        }
    }

    /// Removes a record from its group.
    #[inline(never)]
    pub fn remove(&mut self, records: &mut Records, record: Handle) {
        let decides = self.take_out(records, record);
        let group = records.group(record);
        let it = self.table.get_mut(group);
        it.len -= 1;
        self.filled -= usize::from(it.len == 0);
        self.elements -= 1;
        self.greatest.update(group, it.len + 1, it.len);
        if decides {
            self.refile(records, group);
        }
    }

    /// Removes a record from its group's order before it gets another rank. The caller must call [`Groups::put_back`] with
    /// the result after that.
    #[must_use]
    pub fn take_out(&mut self, records: &mut Records, record: Handle) -> bool {
        let (group, is_held) = (records.group(record), records.is_held(record));
        let decides = self.decides(group, record);
        self.unlink(records, group, record, is_held);
        decides
    }

    /// Inserts a record with a new rank. `is_held`: its element is held from now on, and counts as such.
    pub fn put_back(
        &mut self,
        records: &mut Records,
        record: Handle,
        is_held: bool,
        decides: bool,
    ) {
        records.mark_held(record, is_held);
        let group = records.group(record);
        self.link(records, group, record, is_held);
        if decides || self.decides(group, record) {
            self.refile(records, group);
        }
    }

    /// Moves a record to those of its group that are held, or to the others.
    pub fn hold(&mut self, records: &mut Records, record: Handle, is_held: bool) {
        if records.is_held(record) != is_held {
            let decides = self.take_out(records, record);
            self.put_back(records, record, is_held, decides);
        }
    }

    /// Returns whether it can depend on a record when its group is eligible.
    #[inline(always)]
    fn decides(&self, group: Group, record: Handle) -> bool {
        let GroupRecord { elements, held, held_max, .. } = self.table.get(group);
        elements.first() == Some(record) || held.first() == Some(record) || *held_max > 0
    }

    /// Replaces a record's handle. The new record has the rank and the links of the old one, which may be gone.
    pub fn replace(&mut self, records: &mut Records, old: Handle, new: Handle) {
        let (group, is_held) = (records.group(new), records.is_held(new));
        let record = self.table.get_mut(group);
        record.tree(is_held).replace(records, old, new);
        if record.makes_room == Some(old) {
            record.makes_room = Some(new);
        }
    }

    pub fn is_sparse(&self) -> bool {
        self.queues.blocks.slab.is_sparse() || self.table.is_sparse()
    }

    /// Moves a block, a name or a group. Returns the number of records updated, at least 1.
    pub fn compact(&mut self, records: &mut Records) -> Option<usize> {
        let moved = self.queues.compact(records).or_else(|| self.table.compact_names().map(|()| 1));
        moved.or_else(|| {
            let group = Group(self.table.slab.sparse_slot()?);
            if self.table.get(group).len <= MOVED_MAX {
                return self.relocate(records, group);
            }
            self.table.slab.keep_page();
            Some(1)
        })
    }

    /// Moves a group, so that a page can be freed. Returns the number of records updated. `None` if there is no room.
    fn relocate(&mut self, records: &mut Records, old: Group) -> Option<usize> {
        let new = self.table.relocate(old)?;
        match self.table.get(new).state {
            _ if old == self.ungrouped => self.ungrouped = new,
            State::Empty => {}
            State::Waiting => self.waiting.replace(&mut self.table, old.0, new.0),
            State::Active => self.active.replace(&mut self.table, old.0, new.0),
        }
        self.round.rename(old, new);
        self.turn = self.turn.map(|(group, given)| (if group == old { new } else { group }, given));
        self.greatest.rename(self.table.get(new).len, old, new);
        self.logs.rename(old, new);
        let elements: Vec<_> = self.elements(records, new, Rank::FIRST).collect();
        work::step(elements.len());
        elements.iter().for_each(|record| records.rename_group(*record, new));
        Some(1 + elements.len())
    }

    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        self.table.defrag(steps);
        self.queues.defrag(steps);
    }

    /// Returns the bytes allocated, with those of the groups themselves. O(pages).
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.queues.memory()
            + self.table.memory()
            + self.greatest.memory()
            + self.logs.memory()
            + self.rules.memory()
    }

    /// Returns how many allocations dropping them frees, without those that many elements share. O(1).
    pub fn allocations(&self) -> usize {
        self.rules.allocations() + self.logs.len()
    }

    /// Panics unless groups, round and trees are consistent with the records. Returns the number of elements.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, records: &Records) -> usize {
        let (all, round) = (self.table.all(), self.round.check(&self.table));
        let lens: Vec<_> = all.iter().map(|group| self.check_group(records, *group)).collect();
        let filled = lens.iter().filter(|len| **len > 0).count();
        assert_eq!((self.elements, self.filled), (lens.iter().sum(), filled), "counters");
        // Each group with an element is in one of the trees; those of one are in the round too.
        let [waiting, active] = [&self.waiting, &self.active].map(|tree| tree.check(&self.table));
        assert_eq!(waiting + active, filled, "groups that are not filed");
        let is_active = |it: &Group| self.table.get(*it).state == State::Active;
        assert!(round.iter().all(is_active), "the round");
        let without_group = usize::from(round.contains(&self.ungrouped));
        assert_eq!(round.len() - without_group, active, "the round");
        let logged = all.iter().filter(|it| self.table.get(**it).has_log).count();
        assert_eq!(self.logs.len(), logged, "logs");
        self.table.check();
        self.rules.check();
        self.greatest.check(&self.table);
        self.logs.check();
        assert_eq!(self.queues.check(records), self.elements, "groups and order disagree");
        self.elements
    }

    /// Panics unless a group is consistent with its elements and its limits. Returns the number of elements.
    #[cfg(any(test, feature = "checks"))]
    fn check_group(&self, records: &Records, group: Group) -> usize {
        let record = self.table.get(group);
        let [rest, held] = [record.elements, record.held].map(|it| it.check(records));
        let len = rest + held;
        let all: Vec<_> = self.elements(records, group, Rank::FIRST).collect();
        assert!(all.iter().all(|it| records.group(*it) == group), "an element's group");
        assert!(all.is_sorted_by_key(|it| records.rank(*it)), "the order of two trees");
        let marked: Vec<_> = all.into_iter().filter(|it| records.is_held(*it)).collect();
        assert_eq!((record.len as usize, record.held_len as usize), (len, held), "lengths");
        assert_eq!(marked.len(), held, "what is held");
        let place = held.checked_sub(record.held_max as usize).filter(|_| record.held_max > 0);
        assert_eq!(record.makes_room, place.map(|place| marked[place]), "what makes room");
        let has_settings = self.rules.of(self.table.name(group)) != GroupSettings::NONE;
        assert_eq!(record.has_settings, has_settings, "settings");
        let rate = self.logs.get(group).map(|log| (log.max(), log.per()));
        assert_eq!(record.has_log, rate.is_some(), "a log");
        if self.fit_from.is_none() {
            let limits = self.limits(group);
            assert_eq!(record.held_max, limits.held_max(), "the limit of what is held");
            assert!(rate.is_none() || rate == limits.rate(), "a limit of rate");
        }
        if group != self.ungrouped {
            assert!(record.has_log || len > 0, "an unused group");
            let eligible = (record.state != State::Empty).then_some(record.eligible);
            assert_eq!(self.eligible_from(records, group), eligible, "when it is eligible");
        }
        len
    }
}

/// Iterates over the nodes of a tree from a rank on, up to another one.
fn walk(records: &Records, tree: Tree, from: Rank, end: Rank) -> impl Iterator<Item = Handle> {
    let nodes = tree.from(records, from);
    let nodes = std::iter::successors(nodes, |node| treap::neighbour(records, *node, RIGHT));
    nodes.take_while(move |node| records.rank(*node) < end)
}

/// Merges records that are sorted by rank.
fn merge(
    records: &Records,
    one: impl Iterator<Item = Handle>,
    other: impl Iterator<Item = Handle>,
) -> impl Iterator<Item = Handle> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if records.rank(*second) < records.rank(*first) => other.next(),
        (None, _) => other.next(),
        _ => one.next(),
    })
}
