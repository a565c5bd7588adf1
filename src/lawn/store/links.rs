//! What a record has in front of its header if its element is in a group: the group, and links to other records of it.
//! They are nodes of the tree that orders the group's elements.
//!
//! ```text
//!   0      4                       8       12       16
//!   ├──────┼───────────────────────┼───────┼────────┼────────┄
//!   │ left │ group, top 2 bits set │ right │ parent │ header
//!   └──────┴───────────────────────┴───────┴────────┴────────┄
//!     u32    u32                     u32     u32
//! ```
//!
//! The third bit of the group is set if the element is held: then it is in the tree of those of its group.

use super::super::element::Group;
use super::super::rank::Rank;
use super::handle::Handle;
use super::records::{GROUP_MARK, GROUP_UNITS, Granule, Records};

/// The neighbours of a node in a sorted set that is linked through its nodes: at [`LEFT`], [`RIGHT`] and [`PARENT`].
pub type Links = [Option<Handle>; 3];

pub const LEFT: usize = 0;
pub const RIGHT: usize = 1;
pub const PARENT: usize = 2;

/// Where the nodes of sorted sets are.
pub trait Nodes {
    fn link(&self, node: Handle, which: usize) -> Option<Handle>;
    fn set_link(&mut self, node: Handle, which: usize, other: Option<Handle>);
    fn set_links(&mut self, node: Handle, links: Links);
    /// Returns the node's place in the order, which must not change while the node is in a set, and its links.
    fn rank_and_links(&self, node: Handle) -> (Rank, Links);
    /// Returns a random number, always the same one.
    fn secret(&self) -> u64;
}

/// The bit of the group that says that the element is held.
pub const HELD_MARK: u32 = 0x2000_0000;

/// The offset of each link.
const LINKS: [usize; 3] = [0, 8, 12];
const GROUP: usize = 4;
const FRONT: usize = GROUP_UNITS * size_of::<Granule>();

fn read(front: &[u8; FRONT], at: usize) -> u32 {
    u32::from_le_bytes(*front[at..].first_chunk().expect("four bytes"))
}

fn write(front: &mut [u8; FRONT], at: usize, bits: u32) {
    front[at..at + 4].copy_from_slice(&bits.to_le_bytes());
}

/// The elements of a group, by rank.
impl Nodes for Records {
    #[inline(always)]
    fn link(&self, node: Handle, which: usize) -> Option<Handle> {
        Handle::from_bits(read(self.front(node), LINKS[which]))
    }

    #[inline(always)]
    fn set_link(&mut self, node: Handle, which: usize, other: Option<Handle>) {
        write(self.front_mut(node), LINKS[which], Handle::to_bits(other));
    }

    #[inline(always)]
    fn set_links(&mut self, node: Handle, links: Links) {
        let front = self.front_mut(node);
        for (at, link) in LINKS.into_iter().zip(links) {
            write(front, at, Handle::to_bits(link));
        }
    }

    /// Reads both at once, because a search needs both of each record that it passes.
    #[inline(always)]
    fn rank_and_links(&self, node: Handle) -> (Rank, Links) {
        let units: &[Granule; GROUP_UNITS + 2] =
            self.slab.before(node, GROUP_UNITS).first_chunk().expect("a slot has more");
        let [left, right, deadline, push] = units.map(u64::from_le_bytes);
        let links = [left as u32, right as u32, (right >> 32) as u32].map(Handle::from_bits);
        (Rank { deadline, push: push & (Rank::PUSHES - 1) }, links)
    }

    #[inline(always)]
    fn secret(&self) -> u64 {
        self.secret
    }
}

impl Records {
    /// Returns a record to [relocate](Records::relocate) so that a page can be freed.
    pub fn sparse(&mut self) -> Option<Handle> {
        let slot = self.slab.sparse_slot()?;
        let is_grouped = u64::from_le_bytes(*self.slab.unit(slot)) >> 63 == 1;
        Some(if is_grouped { slot.behind(GROUP_UNITS) } else { slot })
    }

    #[inline(always)]
    fn front(&self, handle: Handle) -> &[u8; FRONT] {
        let units = self.slab.before(handle, GROUP_UNITS).as_flattened();
        units.first_chunk().expect("a slot has more")
    }

    #[inline(always)]
    fn front_mut(&mut self, handle: Handle) -> &mut [u8; FRONT] {
        let units = self.slab.before_mut(handle, GROUP_UNITS).as_flattened_mut();
        units.first_chunk_mut().expect("a slot has more")
    }

    #[inline(always)]
    pub fn group(&self, handle: Handle) -> Group {
        let group = read(self.front(handle), GROUP);
        Group(Handle::from_bits(group & !(GROUP_MARK | HELD_MARK)).expect("a group"))
    }

    /// Sets the new handle of the group that a record is in.
    pub fn rename_group(&mut self, handle: Handle, Group(group): Group) {
        let front = self.front_mut(handle);
        let marks = read(front, GROUP) & (GROUP_MARK | HELD_MARK);
        write(front, GROUP, group.bits() | marks);
    }

    /// Returns whether a record that is in a group is marked as held.
    #[inline(always)]
    pub fn is_held(&self, handle: Handle) -> bool {
        read(self.front(handle), GROUP) & HELD_MARK != 0
    }

    /// Marks a record that is in a group as held, or as not held.
    #[inline(always)]
    pub fn mark_held(&mut self, handle: Handle, is_held: bool) {
        let front = self.front_mut(handle);
        let mark = if is_held { HELD_MARK } else { 0 };
        write(front, GROUP, read(front, GROUP) & !HELD_MARK | mark);
    }

    /// Copies what a record has in front of its header to another one.
    pub fn copy_front(&mut self, from: Handle, to: Handle) {
        *self.front_mut(to) = *self.front(from);
    }

    /// Sets the group of a record that has no links yet.
    #[inline(always)]
    pub(super) fn put_group(&mut self, handle: Handle, Group(group): Group) {
        let front = self.front_mut(handle);
        front.fill(0);
        write(front, GROUP, group.bits() | GROUP_MARK);
    }
}
