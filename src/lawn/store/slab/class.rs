//! Widths of slots: the pages of each, and when one of them could be emptied.

use super::super::super::tiny::TINY;
use super::super::handle::Unit;

/// The widest slot, in units.
pub const WIDEST: usize = 1024;
/// Bytes in a full page: so large that the table of pages for a million records fits into the first-level cache.
pub(super) const PAGE_BYTES: usize = if TINY { 512 } else { 256 * 1024 };
/// Bytes in the first few pages of a class. Less than that is copied when the first page grows.
pub(super) const EARLY_BYTES: usize = if TINY { 512 } else { 64 * 1024 };
/// Widths up to this one, in units, have a class each.
pub(super) const EXACT: usize = 128;
/// "No page" in the links between pages, "no slot" in the links between free slots.
pub(super) const NIL: u32 = u32::MAX;

/// Returns the size class of a slot of `width` units, and the class's width: exact up to 128 units, then eight steps
/// per doubling (at most 12.5 % waste).
pub(super) fn class_of(width: usize) -> (usize, usize) {
    debug_assert!((1..=WIDEST).contains(&width));
    if width <= EXACT {
        (width - 1, width)
    } else {
        let doubling = (width - 1).ilog2() as usize;
        let step = 1 << (doubling - 3);
        let rounded = width.next_multiple_of(step);
        let steps = (rounded - (1 << doubling)) / step;
        (EXACT + (doubling - 7) * 8 + steps - 1, rounded)
    }
}

/// A page, as insertion and removal see it.
#[derive(Clone, Copy)]
pub(super) struct Info {
    /// The first free slot in the chain, or [`NIL`].
    pub(super) free: u32,
    /// Units in slots, used or free. The page may have more memory behind them.
    pub(super) filled: u32,
    /// The maximum of `filled`.
    pub(super) capacity: u32,
    /// Units per slot; 0 marks a vacant page number.
    pub(super) width: u16,
    /// Slots in use.
    pub(super) live: u16,
    /// Neighbours among the pages of the class that have room; `next` also links vacant numbers.
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) class: u8,
    /// Set if the page is in the list of pages with room.
    pub(super) is_linked: bool,
}

impl Info {
    pub(super) fn has_room(&self) -> bool {
        self.free != NIL || self.filled + u32::from(self.width) <= self.capacity
    }
}

/// Totals over the pages of one width.
#[derive(Clone, Copy)]
pub(super) struct Class {
    pub(super) pages: u32,
    /// Slots in use, and the number of slots that fit into these pages.
    pub(super) live: u32,
    pub(super) slots: u32,
    /// The first page with room.
    pub(super) partial: u32,
    /// With fewer slots in use, a page can be emptied into the others (or, if it is the only one, into a smaller page).
    /// Kept, because each removal compares with it. 0 while no page has room.
    pub(super) sparse_below: u32,
}

impl Class {
    pub(super) const EMPTY: Self =
        Self { pages: 0, live: 0, slots: 0, partial: NIL, sparse_below: 0 };

    pub(super) fn is_sparse(&self) -> bool {
        self.live < self.sparse_below
    }

    /// Updates the bound. The class has slots of `width` units, and a page with room whose memory has `capacity` units.
    #[cold]
    pub(super) fn update_sparse_below<T: Unit>(&mut self, width: usize, capacity: usize) {
        self.sparse_below = if self.pages == 1 {
            // Two slots less than a quarter of the memory.
            (capacity / width / 4).saturating_sub(1) as u32
        } else {
            // More than a quarter is free, and the content of the emptiest page, whatever its size, fits into the others.
            let early = slots_in::<T>(EARLY_BYTES, width) as u32;
            let is_early = self.slots <= self.pages * early;
            let largest = if is_early { early } else { slots_in::<T>(PAGE_BYTES, width) as u32 };
            (self.slots - self.slots / 4).min((self.slots + 1).saturating_sub(largest))
        };
    }
}

/// Returns the number of slots in a page of `bytes` bytes.
pub(super) fn slots_in<T: Unit>(bytes: usize, width: usize) -> usize {
    // The last unit of a page cannot be named.
    let units = (bytes.min(T::PAGE_BYTES) / size_of::<T>()).min((1 << T::BITS) - 1);
    (units / width).max(1)
}
