//! Handles, which name slots, and the units that slots consist of.

use std::num::NonZeroU32;

/// The unit that slots consist of. The owner of a slot may write anything into it, except the mark of a free slot into
/// its first unit.
pub trait Unit: Copy + Default {
    /// The bits of a handle that name a unit in its page. The other bits name the page.
    const BITS: u32;
    /// The most bytes of a page.
    const PAGE_BYTES: usize = usize::MAX;
    /// Set if every slot can be moved. If not, a page may be [kept](super::Slab::keep_page) that should be emptied.
    const ALL_MOVE: bool = true;

    /// Marks the first unit of a free slot. `next` is the next free slot.
    fn set_free(&mut self, next: u32);

    /// Returns the value that [`Unit::set_free`] stored, unless the owner has overwritten the unit.
    fn free(&self) -> Option<u32>;
}

/// The name of a slot: a page and a unit in it. Never zero, so that `Option<Handle>` has 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(NonZeroU32);

impl Handle {
    /// Names no slot. For lists that are not filled yet.
    pub const PLACEHOLDER: Self = Self(NonZeroU32::MAX);

    /// Numbers the units from the end of a page, so that only the last unit of the first page would get 0. No slot
    /// begins there.
    pub(super) fn new<T: Unit>(page: u32, unit: u32) -> Self {
        let mask = (1 << T::BITS) - 1;
        debug_assert!(u64::from(page) < Self::pages::<T>() && unit < mask);
        Self(NonZeroU32::new(page << T::BITS | (mask ^ unit)).expect("no slot has the last unit"))
    }

    /// Returns the maximum number of pages. The last page number stays unused and means "none".
    pub(super) const fn pages<T: Unit>() -> u64 {
        (1 << (32 - T::BITS)) - 1
    }

    /// Names the unit that is this many units further back in the page.
    #[inline(always)]
    pub(super) fn behind(self, units: usize) -> Self {
        // Units are numbered from the end.
        Self(NonZeroU32::new(self.0.get() - units as u32).expect("no slot has the last unit"))
    }

    /// Names the unit that is this many units further to the front of the page.
    #[inline(always)]
    pub(super) fn before(self, units: usize) -> Self {
        Self(self.0.saturating_add(units as u32))
    }

    #[inline(always)]
    pub fn page<T: Unit>(self) -> usize {
        (self.0.get() >> T::BITS) as usize
    }

    #[inline(always)]
    pub fn unit<T: Unit>(self) -> usize {
        (!self.0.get() & ((1 << T::BITS) - 1)) as usize
    }

    /// Returns the handle as four bytes; 0 means `None`.
    #[inline(always)]
    pub fn to_bits(handle: Option<Self>) -> u32 {
        handle.map_or(0, Self::bits)
    }

    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0.get()
    }

    #[inline(always)]
    pub fn from_bits(bits: u32) -> Option<Self> {
        Some(Self(NonZeroU32::new(bits)?))
    }
}
