//! Groups of elements that take turns.
//!
//! ```text
//!                       ┌▶ its elements by turn   (a tree, linked through their records)
//!   Entries: name ─▶ group
//!                       └▶ Round: groups that give out in turn   (a ring)   ⎫ linked through
//!                          waiting: all others, by their first elements (a tree) ⎭ the groups
//! ```
//!
//! A *look* is a call that asks whose turn it is. A group enters the round at the first look at which its first element is
//! due. It stays there, and keeps its place, until it has nothing that was due at the latest look. So time alone never makes
//! another element the next one.
//! Elements without a group are one group more, whose elements are not in here: it enters and leaves the round when
//! somebody looks.
//!
//! A group that is paused, has as many elements held as it may, or gave out as many as it may in a time, waits for the end
//! of the pause, of a lease or of that time, though it has something due. So each group has two trees, of what is held and
//! of the rest.
//!
//! | module | contents |
//! |---|---|
//! | `entries` | the groups and their names |
//! | `treap` | sorted sets that are linked through their nodes |
//! | `round` | the ring of the groups that give in turn |
//! | `greatest` | the groups with the most elements |
//! | `settings` | the shares, limits and pauses of groups, as values |
//! | `set` | setting them |
//! | `rates` | the rate limits of groups: which holds for a group, and from when on it may give again |
//! | `logs` | the log behind a rate limit: when each group gave out how many elements |
//! | `turns` | whose turn it is, and from when on a group gives |
//!
//! | operation | cost |
//! |---|---|
//! | to insert or remove an element | O(1) at the end of its group and for its first element, otherwise O(log elements of the group) |
//! | the first element of a group changes, in addition | O(log groups that wait) if it waits, O(1) in the round |
//! | to look whose turn it is | O(1), and O(log groups) for each of at most [`WOKEN_MAX`] groups that enter the round |
//! | to set what each group may hold | O(1); later looks visit the groups that wait, [`VISITED_MAX`] at a time |

mod entries;
mod greatest;
mod logs;
mod rates;
mod round;
mod set;
mod settings;
mod treap;
mod turns;

use std::collections::BTreeMap;

use ahash::RandomState;

use super::element::Group;
use super::memory::{Mover, Steps, rounded, tree_bytes};
use super::queues::Queues;
use super::store::{Handle, Links, Records};
use super::tiny::TINY;
use super::turn::Turn;
use entries::{Entries, Entry, State};
use greatest::Greatest;
use logs::Logs;
use round::Round;
pub use settings::{Enforced, GroupLimits, GroupSettings};
use treap::{Nodes, Tree};

/// The most groups that one look at the clock moves to the round.
pub const WOKEN_MAX: usize = if TINY { 3 } else { 64 };
/// The most groups that one look at the clock removes from the round because their first elements are not due. Only a
/// clock that stepped back leaves any.
pub const PASSED_MAX: usize = if TINY { 4 } else { 1024 };

/// The most groups of which one call finds out anew what they wait for, after what each may hold has changed.
pub const VISITED_MAX: usize = if TINY { 4 } else { 1024 };
/// The most logs that are adapted at once to a limit that has changed. If there are more, each is adapted when its group is
/// visited. Then two copies of a lawn may count differently if the limit changes again before that: one drops what had left
/// a shorter window in between.
pub const FITTED_MAX: usize = if TINY { 3 } else { 1024 };
/// The entries of logs that one look adapts to a new limit.
const ADAPTED_MAX: usize = if TINY { 8 } else { 16 * 1024 };
/// The most leases of a group that one call compares: more than one only if the group has more elements held than it may.
const LEASES_MAX: u32 = 256;

/// All groups of a lawn, and the order of the elements that are in one.
#[derive(Clone)]
pub struct Groups {
    /// The elements that are in a group, whichever it is.
    pub queues: Queues,
    pub entries: Entries,
    /// The group of all elements that are in none.
    others: Group,
    round: Round,
    waiting: Tree,
    pub greatest: Greatest,
    /// The settings of the groups that have any, by name.
    pub settings: BTreeMap<Vec<u8>, GroupSettings>,
    /// The limits of each group that has none of its own. They do not hold for elements without a group.
    pub each: GroupLimits,
    enforced: Enforced,
    /// Groups that are paused or have a limit of what they hold.
    restrained: usize,
    /// After `each` has changed, groups that wait for this turn or a later one may not know yet what they wait for.
    visit_from: Option<Turn>,
    pub logs: Logs,
    /// The time of the latest look. It may have stepped back.
    clock: u64,
    /// Elements that are in a group, and groups that have some.
    pub elements: usize,
    pub filled: usize,
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

    #[inline(always)]
    fn look(&self, node: Handle) -> (Turn, Links) {
        self.turn_and_links(node)
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
            settings: BTreeMap::new(),
            each: GroupLimits::NONE,
            enforced: Enforced { held: true, rate: true },
            restrained: 0,
            visit_from: None,
            logs: Logs::default(),
            clock: 0,
            elements: 0,
            filled: 0,
            looked_at: 0,
        }
    }

    /// Returns whether there is a group with an element or a setting.
    #[inline(always)]
    pub fn is_in_use(&self) -> bool {
        self.filled > 0 || self.has_settings()
    }

    /// Returns the group of a name. Creates it if there is none; then the caller must insert an element or set a share
    /// next, or call [`Groups::free_if_unused`]. `None` if there is no room.
    pub fn find_or_create(&mut self, name: &[u8]) -> Option<Group> {
        self.entries.find(name).or_else(|| self.entries.insert(name))
    }

    /// Frees a group without elements, settings and log.
    pub fn free_if_unused(&mut self, group: Group) {
        let entry = self.entries.get(group);
        if entry.len == 0 && !entry.has_settings && !entry.has_log && group != self.others {
            self.entries.remove(group);
        }
    }

    /// Returns the element of a group that is given out first. Of a group that holds as many as it may, that is the first
    /// whose lease ends: so the work of a client that died is done before that which waits behind it.
    #[inline(always)]
    pub fn first(&self, records: &Records, group: Group) -> Option<Handle> {
        let entry = self.entries.get(group);
        if self.excess(group) > 0 {
            return entry.held.first();
        }
        match (entry.elements.first(), entry.held.first()) {
            (Some(one), Some(held)) if records.turn(held) < records.turn(one) => Some(held),
            (one, held) => one.or(held),
        }
    }

    /// Iterates over a group's elements, from a turn on.
    pub fn elements<'a>(
        &self,
        records: &'a Records,
        group: Group,
        from: Turn,
    ) -> impl Iterator<Item = Handle> + 'a {
        let entry = self.entries.get(group);
        let mut next = [entry.elements, entry.held].map(|tree| tree.from(records, from));
        std::iter::from_fn(move || {
            let is_held = match next {
                [Some(one), Some(held)] => records.turn(held) < records.turn(one),
                [one, _] => one.is_none(),
            };
            let next = &mut next[usize::from(is_held)];
            let found = (*next)?;
            *next = treap::next(records, found);
            Some(found)
        })
    }

    /// Iterates over the elements of a group that have another deadline than this one, and are under no lease that ends
    /// after `now`. O(log n) to begin.
    pub fn at_rest<'a>(
        &self,
        records: &'a Records,
        group: Group,
        deadline: u64,
        now: u64,
    ) -> impl Iterator<Item = Handle> + 'a {
        let Entry { elements, held, .. } = *self.entries.get(group);
        let walk = |tree: Tree, from, end| {
            let nodes = tree.from(records, from);
            let nodes = std::iter::successors(nodes, |node| treap::next(records, *node));
            nodes.take_while(move |node| records.turn(*node) < end)
        };
        let same = Turn { deadline, push: 0 };
        let before = walk(elements, Turn::FIRST, same);
        let ended = walk(held, Turn::FIRST, Turn::after(now));
        let ended = ended.filter(move |node| records.turn(*node).deadline != deadline);
        let others = before.chain(walk(elements, Turn::after(deadline), Turn::LAST));
        let (mut others, mut ended) = (others.peekable(), ended.peekable());
        std::iter::from_fn(move || match (others.peek(), ended.peek()) {
            (Some(one), Some(other)) if records.turn(*other) < records.turn(*one) => ended.next(),
            (None, _) => ended.next(),
            _ => others.next(),
        })
    }

    /// Inserts a record that is not held into its group.
    #[inline(never)]
    pub fn insert(&mut self, records: &mut Records, record: Handle) {
        let group = records.group(record);
        self.entries.get_mut(group).elements.insert(records, record);
        self.count(group, 1);
        if self.concerns(group, record) {
            self.settle(records, group);
        }
    }

    /// Removes a record from its group.
    #[inline(never)]
    pub fn remove(&mut self, records: &mut Records, record: Handle) {
        let concerns = self.lift(records, record);
        let group = records.group(record);
        self.count(group, -1);
        if concerns {
            self.settle(records, group);
        }
    }

    /// Removes a record from its group's order before it gets another turn. The caller must call [`Groups::refile`] with
    /// the result after that.
    pub fn lift(&mut self, records: &mut Records, record: Handle) -> bool {
        let (group, is_held) = (records.group(record), records.is_held(record));
        let concerns = self.concerns(group, record);
        let entry = self.entries.get_mut(group);
        entry.held_len -= u32::from(is_held);
        entry.tree(is_held).remove(records, record);
        concerns
    }

    /// Inserts a record with a new turn. `is_held`: its element is held from now on, and counts as such.
    pub fn refile(&mut self, records: &mut Records, record: Handle, is_held: bool, concerns: bool) {
        records.mark_held(record, is_held);
        let group = records.group(record);
        let entry = self.entries.get_mut(group);
        entry.held_len += u32::from(is_held);
        entry.tree(is_held).insert(records, record);
        if concerns || self.concerns(group, record) {
            self.settle(records, group);
        }
    }

    /// Moves a record to those of its group that are held, or to the others.
    pub fn hold(&mut self, records: &mut Records, record: Handle, is_held: bool) {
        if records.is_held(record) != is_held {
            let concerns = self.lift(records, record);
            self.refile(records, record, is_held, concerns);
        }
    }

    /// Returns whether it depends on a record what its group waits for.
    #[inline(always)]
    fn concerns(&self, group: Group, record: Handle) -> bool {
        let Entry { elements, held, .. } = self.entries.get(group);
        elements.first() == Some(record) || held.first() == Some(record) || self.held_max(group) > 0
    }

    #[inline(always)]
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
        let (group, is_held) = (records.group(new), records.is_held(new));
        self.entries.get_mut(group).tree(is_held).replace(records, old, new);
    }

    /// Moves a group to where it belongs after a change, and frees it if it is not used.
    fn settle(&mut self, records: &Records, group: Group) {
        self.fit_rate(group);
        let opens = self.opens(records, group);
        let entry = self.entries.get(group);
        match entry.state {
            State::InRound if opens.is_some_and(|it| it.deadline <= self.looked_at) => return,
            State::InRound => self.round.leave(&mut self.entries, group),
            State::Waits if Some(entry.waits_until) == opens => return,
            State::Waits => self.waiting.remove(&mut self.entries, group.0),
            State::Idle => {}
        }
        self.wait(group, opens);
        self.free_if_unused(group);
    }

    /// Lets a group wait for a turn, if there is one to wait for.
    fn wait(&mut self, group: Group, opens: Option<Turn>) {
        let entry = self.entries.get_mut(group);
        entry.state = State::Idle;
        if let Some(turn) = opens {
            (entry.state, entry.waits_until) = (State::Waits, turn);
            self.waiting.insert(&mut self.entries, group.0);
        }
    }

    pub fn is_sparse(&self) -> bool {
        self.queues.blocks.slab.is_sparse() || self.entries.is_sparse()
    }

    /// Moves a block or a name. Returns the number of records updated, at least 1.
    pub fn compact(&mut self, records: &mut Records) -> Option<usize> {
        self.queues.compact(records).or_else(|| self.entries.compact().map(|()| 1))
    }

    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        self.entries.defrag(steps);
        self.queues.defrag(steps);
    }

    /// Returns the bytes allocated, with those of the groups themselves. O(pages).
    pub fn memory(&self) -> usize {
        let names = self.settings.keys().map(|name| rounded(name.capacity())).sum::<usize>();
        let settings = names + tree_bytes::<(Vec<u8>, GroupSettings)>(self.settings.len());
        size_of::<Self>()
            + self.queues.memory()
            + self.entries.memory()
            + self.greatest.memory()
            + self.logs.memory()
            + settings
    }

    /// Returns how many allocations dropping them frees, without those that many elements share. O(1).
    pub fn allocations(&self) -> usize {
        self.settings.len() + self.logs.by_group.len()
    }

    /// Panics unless groups, round and waiting groups are consistent with the records. Returns the number of elements.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, records: &Records) -> usize {
        let (mut elements, mut filled, mut restrained) = (0, 0, 0);
        let (mut waits, mut in_round, mut logged) = (0, 0, 0);
        self.entries.check();
        for group in self.entries.all() {
            let entry = self.entries.get(group);
            let [waits_for_turn, held] = [entry.elements, entry.held].map(|it| it.check(records));
            let len = waits_for_turn + held;
            let all: Vec<_> = self.elements(records, group, Turn::FIRST).collect();
            assert!(all.iter().all(|it| records.group(*it) == group), "an element's group");
            assert!(all.is_sorted_by_key(|it| records.turn(*it)), "the order of two trees");
            let marked = all.iter().filter(|it| records.is_held(**it)).count();
            assert_eq!((all.len(), marked), (len, held), "what is held");
            assert_eq!((entry.len as usize, entry.held_len as usize), (len, held), "lengths");
            let settings = self.settings(self.entries.name(group));
            assert_eq!(entry.has_settings, settings != GroupSettings::NONE, "settings");
            assert_eq!((entry.share, entry.paused_until), (settings.share, settings.paused_until));
            assert_eq!(u64::from(entry.held_max), settings.limits.held.min(u32::MAX.into()));
            (elements, filled) = (elements + len, filled + usize::from(len > 0));
            restrained += usize::from(settings.restrains());
            waits += usize::from(entry.state == State::Waits);
            in_round += usize::from(entry.state == State::InRound);
            logged += usize::from(entry.has_log);
            if group == self.others {
                assert!(len == 0 && entry.state != State::Waits, "the elements without a group");
                continue;
            }
            assert!(entry.has_settings || entry.has_log || len > 0, "an unused group");
            let opens = self.opens(records, group);
            match entry.state {
                State::Idle => assert_eq!(opens, None, "a group that waits for nothing"),
                State::Waits => assert!(
                    Some(entry.waits_until) == opens
                        || self.visit_from.is_some_and(|from| from <= entry.waits_until),
                    "what a group waits for"
                ),
                // It may have had room for more when it entered.
                State::InRound => {
                    let was_due = |it: Handle| records.turn(it).deadline <= self.looked_at;
                    assert!(all.iter().copied().any(was_due), "a group in the round");
                }
            }
        }
        assert_eq!(
            (self.elements, self.filled, self.restrained),
            (elements, filled, restrained),
            "counters"
        );
        assert_eq!(self.waiting.check(&self.entries), waits, "groups that wait");
        assert_eq!(self.round.check(&self.entries), in_round, "groups of the round");
        let is_known = |name: &Vec<u8>| self.entries.find(name).is_some();
        assert!(self.settings.keys().all(is_known), "lost settings");
        self.greatest.check(&self.entries);
        self.logs.check();
        assert_eq!(self.logs.by_group.len(), logged, "logs");
        assert_eq!(self.queues.check(records), elements, "groups and order disagree");
        elements
    }
}
