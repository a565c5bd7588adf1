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

/// The neighbours of a node in a sorted set that is linked through its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Links {
    pub left: Option<Handle>,
    pub right: Option<Handle>,
    pub parent: Option<Handle>,
}

/// The bit of the group that says that the element is held.
pub const HELD_MARK: u32 = 0x2000_0000;

fn halves(unit: Granule) -> (u32, u32) {
    let bits = u64::from_le_bytes(unit);
    (bits as u32, (bits >> 32) as u32)
}

fn unit(low: u32, high: u32) -> Granule {
    (u64::from(high) << 32 | u64::from(low)).to_le_bytes()
}

fn links_of([first, second]: [Granule; GROUP_UNITS]) -> Links {
    let ((left, _), (right, parent)) = (halves(first), halves(second));
    let [left, right, parent] = [left, right, parent].map(Handle::from_bits);
    Links { left, right, parent }
}

impl Records {
    /// Returns a record to [relocate](Records::relocate) so that a page can be freed.
    pub fn sparse(&mut self) -> Option<Handle> {
        let slot = self.slab.sparse_slot()?;
        let is_grouped = u64::from_le_bytes(*self.slab.unit(slot)) >> 63 == 1;
        Some(if is_grouped { slot.behind(GROUP_UNITS) } else { slot })
    }

    #[inline(always)]
    fn front(&self, handle: Handle) -> &[Granule; GROUP_UNITS] {
        let units = self.slab.before(handle, GROUP_UNITS);
        units.first_chunk().expect("a slot has more")
    }

    #[inline(always)]
    fn front_mut(&mut self, handle: Handle) -> &mut [Granule; GROUP_UNITS] {
        let units = self.slab.before_mut(handle, GROUP_UNITS);
        units.first_chunk_mut().expect("a slot has more")
    }

    /// Returns the group of a record that is in one.
    #[inline(always)]
    pub fn group(&self, handle: Handle) -> Group {
        let (_, group) = halves(self.front(handle)[0]);
        Group(Handle::from_bits(group & !(GROUP_MARK | HELD_MARK)).expect("a group"))
    }

    /// Sets the new handle of the group that a record is in.
    pub fn rename_group(&mut self, handle: Handle, Group(group): Group) {
        let front = self.front_mut(handle);
        let (left, old) = halves(front[0]);
        front[0] = unit(left, group.bits() | old & (GROUP_MARK | HELD_MARK));
    }

    /// Returns whether a record that is in a group is marked as held.
    #[inline(always)]
    pub fn is_held(&self, handle: Handle) -> bool {
        halves(self.front(handle)[0]).1 & HELD_MARK != 0
    }

    /// Marks a record that is in a group as held, or as not held.
    #[inline(always)]
    pub fn mark_held(&mut self, handle: Handle, is_held: bool) {
        let front = self.front_mut(handle);
        let (left, group) = halves(front[0]);
        let mark = if is_held { HELD_MARK } else { 0 };
        front[0] = unit(left, group & !HELD_MARK | mark);
    }

    /// Copies what a record has in front of its header to another one.
    pub fn copy_front(&mut self, from: Handle, to: Handle) {
        *self.front_mut(to) = *self.front(from);
    }

    /// Sets the group of a record that has no links yet.
    pub(super) fn put_group(&mut self, handle: Handle, Group(group): Group) {
        let group = group.bits() | GROUP_MARK;
        *self.front_mut(handle) = [unit(0, group), Granule::default()];
    }

    /// Returns the links of a record that is in a group.
    #[inline(always)]
    pub fn links(&self, handle: Handle) -> Links {
        links_of(*self.front(handle))
    }

    /// Returns the rank and the links of a record that is in a group: reads them at once, because a search needs both of
    /// each record that it passes.
    #[inline(always)]
    pub fn rank_and_links(&self, handle: Handle) -> (Rank, Links) {
        let units: &[Granule; GROUP_UNITS + 2] =
            self.slab.before(handle, GROUP_UNITS).first_chunk().expect("a slot has more");
        let [first, second, deadline, push] = *units;
        let push = u64::from_le_bytes(push) & (Rank::PUSHES - 1);
        (Rank { deadline: u64::from_le_bytes(deadline), push }, links_of([first, second]))
    }

    /// Changes the links of a record that is in a group.
    #[inline(always)]
    pub fn change_links(&mut self, handle: Handle, change: impl FnOnce(&mut Links)) {
        let front = self.front_mut(handle);
        let (mut links, (_, group)) = (links_of(*front), halves(front[0]));
        change(&mut links);
        let [left, right, parent] = [links.left, links.right, links.parent].map(Handle::to_bits);
        *front = [unit(left, group), unit(right, parent)];
    }
}
