//! The groups themselves, and their names.
//!
//! ```text
//!   Index: hash of the name ─▶ GroupRecord  (88 bytes)  ─▶ its name: group, length, bytes  (8 bytes more than the name)
//! ```
//!
//! All three grow in bounded steps, and give memory back as elements do.

use ahash::RandomState;

use super::super::element::Group;
use super::super::index::Index;
use super::super::memory::{Mover, Steps};
use super::super::rank::Rank;
use super::super::store::{
    GROUP_MARK, Granule, HELD_MARK, Handle, Links, Nodes, Slab, Unit, are_equal,
};
use super::treap::Tree;

/// Where a group is filed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum State {
    /// It has no element.
    #[default]
    Empty,
    /// Among those that are not in the round, by [`GroupRecord::eligible`].
    Waiting,
    /// In the round; and, by [`GroupRecord::eligible`], among those of the round.
    Active,
}

/// A group.
#[derive(Clone, Copy, Default)]
pub struct GroupRecord {
    /// From when on the group may give: the rank of its first element or, at its limit of what it holds, of the lease whose
    /// end makes room; not while it is blocked.
    pub eligible: Rank,
    /// The elements that are not held.
    pub elements: Tree,
    /// The elements that are held under a lease, until they are given out again.
    pub held: Tree,
    pub held_len: u32,
    /// The most elements that are held, 0 without a limit: what is set for the group, or was, see [`super::limits`].
    pub held_max: u32,
    /// Of `held`, the element at place `held_max` from the end: when its lease ends, the group has room for one more. `None`: it
    /// has room.
    pub makes_room: Option<Handle>,
    /// The number of all elements.
    pub len: u32,
    /// Its neighbours in the tree of its state.
    pub links: Links,
    /// Its neighbours in the round.
    pub ahead: Option<Handle>,
    pub behind: Option<Handle>,
    /// `None` in a free slot.
    name: Option<Handle>,
    /// When it got its place in the round, in milliseconds since the epoch, modulo 2^32.
    pub entered: u32,
    pub state: State,
    /// Set if anything is set for the group.
    pub has_settings: bool,
    /// Set if the group has a log of what it gave out, so that it exists without elements.
    pub has_log: bool,
}

impl GroupRecord {
    /// Returns the order of the elements that are held, or of the others.
    #[inline(always)]
    pub fn tree(&mut self, is_held: bool) -> &mut Tree {
        if is_held { &mut self.held } else { &mut self.elements }
    }
}

impl Unit for GroupRecord {
    const BITS: u32 = 8;
    /// A page that cannot be emptied, because a large group is in it, keeps little.
    const PAGE_BYTES: usize = 16 * 1024;
    const ALL_MOVE: bool = false;

    fn set_free(&mut self, next: u32) {
        (self.name, self.len) = (None, next);
    }

    fn free(&self) -> Option<u32> {
        self.name.is_none().then_some(self.len)
    }
}

/// The group, the length of the name, and two bytes of 0, so that a name is never taken for a free slot.
const NAME_HEADER: usize = 8;

/// All groups of a lawn.
#[derive(Clone)]
pub struct Table {
    pub slab: Slab<GroupRecord>,
    names: Slab<Granule>,
    index: Index,
    secret: u64,
}

impl Table {
    pub fn new(hasher: RandomState, secret: u64) -> Self {
        Self { slab: Slab::new(), names: Slab::new(), index: Index::new(hasher), secret }
    }

    #[inline(always)]
    pub fn get(&self, group: Group) -> &GroupRecord {
        self.slab.unit(group.0)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, group: Group) -> &mut GroupRecord {
        self.slab.unit_mut(group.0)
    }

    #[inline(always)]
    pub fn name(&self, group: Group) -> &[u8] {
        let bytes = self.names.get(self.get(group).name.expect("a group has a name"));
        let (header, name) = bytes.as_flattened().split_at(NAME_HEADER);
        &name[..u16::from_le_bytes([header[4], header[5]]).into()]
    }

    // Compiled once, so that the comparison is inlined.
    #[inline(never)]
    pub fn find(&self, name: &[u8]) -> Option<Group> {
        let is_it = |it| {
            let own = self.name(Group(it));
            own.len() == name.len() && are_equal(own, name)
        };
        self.index.find(self.index.hash(name), is_it).map(Group)
    }

    /// Creates a group. The name must be new. `None` if there is no room.
    pub fn insert(&mut self, name: &[u8]) -> Option<Group> {
        let units = (NAME_HEADER + name.len()).div_ceil(size_of::<Granule>());
        let slot = self.names.insert(units)?;
        let handle = self.slab.insert(1)?;
        let bytes = self.names.get_mut(slot).as_flattened_mut();
        bytes[..4].copy_from_slice(&handle.bits().to_le_bytes());
        bytes[4..NAME_HEADER].copy_from_slice(&(name.len() as u32).to_le_bytes());
        bytes[NAME_HEADER..][..name.len()].copy_from_slice(name);
        *self.slab.unit_mut(handle) = GroupRecord { name: Some(slot), ..GroupRecord::default() };
        // Records have room for the handles of a quarter of a billion groups.
        if handle.bits() & (GROUP_MARK | HELD_MARK) != 0 {
            self.names.remove(slot);
            self.slab.remove(handle);
            return None;
        }
        let vacancy = self.index.vacancy(self.index.hash(name), |_| false);
        self.index.fill(vacancy.expect("no entry is the same"), handle);
        Some(Group(handle))
    }

    pub fn remove(&mut self, group: Group) {
        let hash = self.index.hash(self.name(group));
        self.index.remove_handle(hash, group.0);
        self.names.remove(self.get(group).name.expect("a group has a name"));
        self.slab.remove(group.0);
    }

    pub fn len(&self) -> usize {
        self.index.len
    }

    pub fn all(&self) -> Vec<Group> {
        self.some(0, usize::MAX).0
    }

    /// Lists about `count` groups from a cursor on, and returns the next cursor, 0 at the end. Whatever comes and goes between
    /// calls, each group that stays is listed once.
    pub fn some(&self, cursor: u64, count: usize) -> (Vec<Group>, u64) {
        let mut some = Vec::with_capacity(count.min(self.len()));
        let next = self.index.scan(cursor, count, |handle| some.push(Group(handle)));
        (some, next)
    }

    pub fn is_sparse(&self) -> bool {
        self.names.is_sparse() || self.slab.is_sparse()
    }

    /// Moves a group. Its neighbours in the round know it then, those in a tree do not. Returns where it is now. `None` if there
    /// is no room.
    pub fn relocate(&mut self, Group(old): Group) -> Option<Group> {
        let hash = self.index.hash(self.name(Group(old)));
        let new = self.slab.relocate(old)?;
        self.index.replace(hash, old, new);
        let record = *self.slab.unit(new);
        let name = record.name.expect("a group has a name");
        self.names.get_mut(name).as_flattened_mut()[..4].copy_from_slice(&new.bits().to_le_bytes());
        record.ahead.into_iter().for_each(|it| self.slab.unit_mut(it).behind = Some(new));
        record.behind.into_iter().for_each(|it| self.slab.unit_mut(it).ahead = Some(new));
        Some(Group(new))
    }

    /// Moves a name if that helps to free a page.
    pub fn compact_names(&mut self) -> Option<()> {
        let new = self.names.sparse_slot().and_then(|old| self.names.relocate(old))?;
        let [a, b, c, d, ..] = *self.names.unit(new);
        let group = Handle::from_bits(u32::from_le_bytes([a, b, c, d])).expect("a name's group");
        self.slab.unit_mut(group).name = Some(new);
        Some(())
    }

    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        self.slab.defrag(steps);
        self.names.defrag(steps);
        self.index.defrag(steps);
    }

    /// Returns the bytes allocated. O(pages).
    pub fn memory(&self) -> usize {
        self.slab.memory() + self.names.memory() + self.index.memory()
    }

    /// Panics unless entries, names and index agree.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        self.slab.check();
        self.names.check();
        let is_it = |hash, handle| hash == self.index.hash(self.name(Group(handle)));
        self.index.check(|hash, handle| {
            is_it(hash, handle) && self.find(self.name(Group(handle))) == Some(Group(handle))
        });
        assert_eq!((self.slab.len(), self.names.len()), (self.len(), self.len()), "a lost group");
    }
}

/// The groups that wait, or those of the round, by when they may give.
impl Nodes for Table {
    fn link(&self, node: Handle, which: usize) -> Option<Handle> {
        self.slab.unit(node).links[which]
    }

    fn set_link(&mut self, node: Handle, which: usize, other: Option<Handle>) {
        self.slab.unit_mut(node).links[which] = other;
    }

    fn set_links(&mut self, node: Handle, links: Links) {
        self.slab.unit_mut(node).links = links;
    }

    fn rank_and_links(&self, node: Handle) -> (Rank, Links) {
        let GroupRecord { eligible, links, .. } = *self.slab.unit(node);
        (eligible, links)
    }

    fn secret(&self) -> u64 {
        self.secret
    }
}
