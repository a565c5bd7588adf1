//! The groups themselves, and their names.
//!
//! ```text
//!   Index: hash of the name ─▶ Entry  (88 bytes)  ─▶ its name: entry, length, bytes  (8 bytes more than the name)
//! ```
//!
//! All three grow in bounded steps. An entry does not move, because the records of all its elements have its handle: a
//! page of entries is freed with the last of them.

use ahash::RandomState;

use super::super::element::Group;
use super::super::index::Index;
use super::super::memory::{Mover, Steps};
use super::super::store::{GROUP_MARK, Granule, HELD_MARK, Handle, Links, Slab, Unit};
use super::super::turn::Turn;
use super::treap::{Nodes, Tree, rank};

/// Where a group is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum State {
    /// It has no element.
    #[default]
    Idle,
    /// It waits until [`Entry::waits_until`].
    Waits,
    /// It is in the round.
    InRound,
}

/// A group.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The turn of the element that the group waits for, or of the lease that makes room. At the end of its pause, if it
    /// is paused for longer.
    pub waits_until: Turn,
    /// Nothing is given out before this moment.
    pub paused_until: u64,
    /// The elements that are not held.
    pub elements: Tree,
    /// The elements that are held under a lease, until they are given out again.
    pub held: Tree,
    pub held_len: u32,
    /// The group's own limit of what it holds, or 0.
    pub held_max: u32,
    /// The number of all elements.
    pub len: u32,
    /// Its neighbours among the groups that wait, or in the round.
    pub links: Links,
    /// `None` in a free slot.
    name: Option<Handle>,
    /// The size under which it is listed, or 0.
    pub listed: u32,
    /// Elements to give out in one turn.
    pub share: u16,
    /// Elements given out in the current turn.
    pub given: u16,
    pub state: State,
    /// Set if the group has settings, so that it exists without elements.
    pub has_settings: bool,
    /// Set if the group has a log of what it gave out, so that it exists without elements.
    pub has_log: bool,
}

impl Entry {
    /// Returns the order of the elements that are held, or of the others.
    #[inline(always)]
    pub fn tree(&mut self, is_held: bool) -> &mut Tree {
        if is_held { &mut self.held } else { &mut self.elements }
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            waits_until: Turn::LAST,
            paused_until: 0,
            elements: Tree::default(),
            held: Tree::default(),
            held_len: 0,
            held_max: 0,
            len: 0,
            links: Links::default(),
            name: None,
            listed: 0,
            share: 1,
            given: 0,
            state: State::Idle,
            has_settings: false,
            has_log: false,
        }
    }
}

impl Unit for Entry {
    const BITS: u32 = 13;

    fn set_free(&mut self, next: u32) {
        (self.name, self.len) = (None, next);
    }

    fn free(&self) -> Option<u32> {
        self.name.is_none().then_some(self.len)
    }
}

/// The entry, the length of the name, and two bytes of 0, so that a name is never taken for a free slot.
const NAME_HEADER: usize = 8;

/// All groups of a lawn.
#[derive(Clone)]
pub struct Entries {
    slab: Slab<Entry>,
    names: Slab<Granule>,
    index: Index,
    secret: u64,
}

impl Entries {
    pub fn new(hasher: RandomState, secret: u64) -> Self {
        Self { slab: Slab::new(), names: Slab::new(), index: Index::new(hasher), secret }
    }

    #[inline(always)]
    pub fn get(&self, group: Group) -> &Entry {
        self.slab.unit(group.0)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, group: Group) -> &mut Entry {
        self.slab.unit_mut(group.0)
    }

    pub fn name(&self, group: Group) -> &[u8] {
        let bytes = self.names.get(self.get(group).name.expect("a group has a name"));
        let (header, name) = bytes.as_flattened().split_at(NAME_HEADER);
        &name[..u16::from_le_bytes([header[4], header[5]]).into()]
    }

    pub fn find(&self, name: &[u8]) -> Option<Group> {
        self.index.find(self.index.hash(name), |it| self.name(Group(it)) == name).map(Group)
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
        *self.slab.unit_mut(handle) = Entry { name: Some(slot), ..Entry::default() };
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

    /// Lists all groups.
    pub fn all(&self) -> Vec<Group> {
        let mut all = Vec::with_capacity(self.len());
        self.index.scan(0, usize::MAX, |handle| all.push(Group(handle)));
        all
    }

    pub fn is_sparse(&self) -> bool {
        self.names.is_sparse()
    }

    /// Moves a name if that helps to free a page.
    pub fn compact(&mut self) -> Option<()> {
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

/// The groups that wait, by what they wait for.
impl Nodes for Entries {
    fn links(&self, node: Handle) -> Links {
        self.slab.unit(node).links
    }

    fn set_links(&mut self, node: Handle, links: Links) {
        self.slab.unit_mut(node).links = links;
    }

    fn turn(&self, node: Handle) -> Turn {
        self.slab.unit(node).waits_until
    }

    fn rank(&self, node: Handle) -> u64 {
        rank(node.bits().into(), self.secret)
    }
}
