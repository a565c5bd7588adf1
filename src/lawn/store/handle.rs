//! The name of a slot, and what slots are made of.

use std::num::NonZeroU32;

/// What slots are made of. The owner may write anything into a slot that it has, but for what marks the first unit of a free one.
pub trait Unit: Copy + Default {
    /// How many bits of a handle name a unit in its page. All others name the page.
    const BITS: u32;

    /// Marks the first unit of a slot that is free; `next` is the one that is free after it.
    fn set_free(&mut self, next: u32);

    /// Returns what was given to [`Unit::set_free`], unless the owner has written the unit since.
    fn free(&self) -> Option<u32>;
}

/// The name of a slot: a page and a unit in it. Never zero, so that an `Option` of it has 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle(NonZeroU32);

impl Handle {
    /// No slot's, for a list that is not filled yet.
    pub const PLACEHOLDER: Self = Self(NonZeroU32::MAX);

    /// Units are counted from the end, so that it is the last one of the first page that would be zero: no slot begins there.
    pub(super) fn new<T: Unit>(page: u32, unit: u32) -> Self {
        let mask = (1 << T::BITS) - 1;
        debug_assert!(u64::from(page) < Self::pages::<T>() && unit < mask);
        Self(NonZeroU32::new(page << T::BITS | (mask ^ unit)).expect("no slot has the last unit"))
    }

    /// Returns how many pages there can be: the last number is no page's, so that it can stand for none.
    pub(super) const fn pages<T: Unit>() -> u64 {
        (1 << (32 - T::BITS)) - 1
    }

    #[inline(always)]
    pub fn page<T: Unit>(self) -> usize {
        (self.0.get() >> T::BITS) as usize
    }

    #[inline(always)]
    pub fn unit<T: Unit>(self) -> usize {
        (!self.0.get() & ((1 << T::BITS) - 1)) as usize
    }

    /// Returns the handle as four bytes; zero stands for none.
    #[inline(always)]
    pub fn to_bits(handle: Option<Self>) -> u32 {
        handle.map_or(0, |handle| handle.0.get())
    }

    #[inline(always)]
    pub fn from_bits(bits: u32) -> Option<Self> {
        NonZeroU32::new(bits).map(Self)
    }
}
