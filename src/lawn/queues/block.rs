//! A piece of a queue: 64 places for handles, and a bit for each place that is taken.
//!
//! Linking the records themselves would cost a cache miss for each neighbour of a removed element, and for each step of
//! a walk. Here a record knows its place, and removing it clears a bit. The metadata of the blocks lies side by side,
//! apart from their places: 16 bytes for up to 64 elements, 250 kB for a million, which stay in the processor's caches.
//! Where a bit is clear, the handle is meaningless. A walk reads handles in sequence and can prefetch far ahead.
//!
//! ```text
//!   metas   [taken, queue, len, is head] [taken, …] …     one for each block of a page
//!   blocks  [handle × 64               ] [handle, …] …     256 bytes each
//! ```
//!
//! A block of the [timeline](super::timeline) has columns behind the handles, 256 bytes each, with a number for each
//! place.

use super::super::store::{Handle, Unit};
use super::super::tiny::TINY;
use super::heads::QueueNumber;

/// Places of a block: a bit each in a number.
pub const PLACES: usize = if TINY { 5 } else { 64 };
/// A block with at most this many handles is joined with a neighbour if both together fill at most half a block, so
/// that the joined block does not fill up at the next insertion. The limit is low because every handle that moves costs
/// a cache miss to update its record. Blocks with one handle more cost at most 55 bytes per element.
const SPARSE: u8 = (PLACES as u8).div_ceil(16);
const JOINED_MAX: usize = PLACES / 2;
/// The limit for blocks of the timeline, which are two to four times as wide: with four times as many handles, an
/// element costs at most some 40 bytes in blocks, or 55 with its TTL, wherever a neighbour can be joined. By then, at
/// least twice as many elements were removed as must move.
const SPARSE_WIDE: u8 = PLACES as u8 / 4;
const JOINED_WIDE_MAX: usize = PLACES * 2 / 3;

/// A block and three columns, in units of 256 bytes.
pub(super) const UNITS_MAX: usize = 4;

/// The metadata of a block: all that most operations need, without reading its handles.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BlockMeta {
    /// A bit for each place that is taken. In a sorted block, higher places are later in the order.
    taken: u64,
    pub queue: QueueNumber,
    /// The number of bits in `taken`, stored because not every processor can count bits in one instruction.
    len: u8,
    /// Set if this is the first block of its queue.
    pub is_head: bool,
    /// With at most this many handles the block is sparse, unless it is the head.
    pub(super) sparse: u8,
    /// The width of the block in units of 256 bytes: one, and one for each column.
    pub(super) units: u8,
    /// Set if the places are in the order of ranks. Always true in a queue; in the timeline at most for the first
    /// block.
    pub is_sorted: bool,
}

/// A block's handles, or a column of numbers.
#[derive(Clone, Copy)]
pub struct Block {
    /// Handles as [`Handle::to_bits`] encodes them, or numbers.
    pub places: [u32; PLACES],
}

// The documented cost of a queue assumes 256 bytes for 64 elements, and 16 bytes that are read often.
const _: () = assert!(TINY || size_of::<Block>() == 256);
const _: () = assert!(size_of::<BlockMeta>() == 16 && PLACES <= 64);
// A joined block is not sparse, or it would be joined again at every removal.
const _: () = assert!(TINY || 2 * SPARSE as usize <= JOINED_MAX);
const _: () = assert!(2 * SPARSE_WIDE as usize <= JOINED_WIDE_MAX);
// A joined block has room for a sparse block's worth of elements, or it would be split again at once.
const _: () = assert!(JOINED_WIDE_MAX + SPARSE_WIDE as usize <= PLACES);

impl Default for Block {
    fn default() -> Self {
        Self { places: [0; PLACES] }
    }
}

impl Unit for Block {
    /// 1,024 blocks per page.
    const BITS: u32 = 10;

    fn set_free(&mut self, next: u32) {
        // The mark of a free block: `u32::MAX` names no record.
        (self.places[0], self.places[1]) = (u32::MAX, next);
    }

    fn free(&self) -> Option<u32> {
        (self.places[0] == u32::MAX).then_some(self.places[1])
    }
}

impl Block {
    #[inline(always)]
    pub fn handle(&self, place: usize) -> Option<Handle> {
        Handle::from_bits(self.places[place])
    }

    #[inline(always)]
    pub fn set_handle(&mut self, place: usize, handle: Handle) {
        self.places[place] = handle.bits();
    }
}

/// Returns the bits from this place on.
fn from(place: usize) -> u64 {
    u64::MAX.unbounded_shl(place as u32)
}

fn lowest(bits: u64) -> Option<usize> {
    if bits == 0 { None } else { Some(bits.trailing_zeros() as usize) }
}

fn highest(bits: u64) -> Option<usize> {
    if bits == 0 { None } else { Some(bits.ilog2() as usize) }
}

impl BlockMeta {
    /// Returns the metadata of an empty block of a queue.
    pub fn new(queue: QueueNumber) -> Self {
        Self { queue, sparse: SPARSE, units: 1, is_sorted: true, ..Self::default() }
    }

    /// Returns the metadata of an empty block with this many columns.
    pub fn wide(queue: QueueNumber, columns: usize) -> Self {
        Self { queue, sparse: SPARSE_WIDE, units: 1 + columns as u8, ..Self::default() }
    }

    pub fn columns(&self) -> usize {
        usize::from(self.units) - 1
    }

    pub fn len(&self) -> usize {
        self.len.into()
    }

    pub fn is_full(&self) -> bool {
        self.len() == PLACES
    }

    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns whether the block has so few handles that it should be joined with a neighbour.
    pub fn is_sparse(&self) -> bool {
        self.len <= self.sparse
    }

    pub fn can_join(&self, other: &Self) -> bool {
        let most = if self.units == 1 { JOINED_MAX } else { JOINED_WIDE_MAX };
        self.len() + other.len() <= most
    }

    #[inline(always)]
    pub fn first_place(&self) -> Option<usize> {
        lowest(self.taken)
    }

    pub fn last_place(&self) -> Option<usize> {
        highest(self.taken)
    }

    pub fn first_blank(&self) -> Option<usize> {
        lowest(!self.taken & !from(PLACES))
    }

    /// Returns the last taken place for which `is_earlier` is true. All places for which it is true must precede all
    /// others.
    pub fn last_that(&self, mut is_earlier: impl FnMut(usize) -> bool) -> Option<usize> {
        let (mut low, mut high) = (0, PLACES);
        loop {
            let open = self.taken & from(low) & !from(high);
            let middle = usize::midpoint(low, high);
            let place = lowest(open & from(middle)).or_else(|| highest(open));
            let Some(place) = place else { break };
            if is_earlier(place) {
                low = place + 1;
            } else {
                high = place;
            }
        }
        highest(self.taken & !from(low))
    }

    /// Returns the nearest blank place before this one, and the nearest at or behind it.
    pub fn blanks_about(&self, place: usize) -> (Option<usize>, Option<usize>) {
        let blank = !self.taken & !from(PLACES);
        (highest(blank & !from(place)), lowest(blank & from(place)))
    }

    /// Marks a blank place as taken.
    pub fn take(&mut self, place: usize) {
        debug_assert!(place < PLACES && !self.is_taken(place), "a place is taken twice");
        self.taken |= 1 << place;
        self.len += 1;
    }

    /// Marks the first `length` places as taken, and all others as blank.
    pub fn take_first(&mut self, length: usize) {
        self.taken = !from(length);
        self.len = length as u8;
    }

    /// Marks a taken place as blank, without the checks of [`BlockMeta::remove`].
    pub fn vacate(&mut self, place: u8) {
        self.taken &= !(1 << place);
        self.len -= 1;
    }

    /// Iterates over the taken places at and behind `place`, in order.
    #[inline(always)]
    pub fn places_from(&self, place: usize) -> Places {
        Places(self.taken & from(place))
    }

    /// Returns the number of taken places up to and including this one.
    pub fn count_to(&self, place: usize) -> usize {
        (self.taken & !from(place + 1)).count_ones() as usize
    }

    pub fn is_taken(&self, place: usize) -> bool {
        self.taken >> place & 1 == 1
    }

    /// Takes the place behind all taken ones, unless the last place is taken.
    #[inline(always)]
    pub(super) fn append(&mut self) -> Option<usize> {
        // The place above the highest bit.
        let place = (u64::BITS - self.taken.leading_zeros()) as usize;
        if place >= PLACES {
            return None;
        }
        self.taken |= 1 << place;
        self.len += 1;
        Some(place)
    }

    /// Blanks a taken place, and returns what the caller must do next.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: u8) -> Blanked {
        let bit = 1_u64.wrapping_shl(place.into());
        assert!(self.taken & bit != 0, "a place is blanked twice");
        self.taken &= !bit;
        self.len -= 1;
        if self.is_head {
            match self.taken {
                0 => Blanked::NeedsRepair,
                // The first block will be empty soon, and there is only one per queue, so it is never sparse.
                taken if taken & (bit - 1) == 0 => Blanked::HeadRemoved,
                _ => Blanked::Unchanged,
            }
        } else if self.len <= self.sparse {
            Blanked::NeedsRepair
        } else {
            Blanked::Unchanged
        }
    }
}

/// Places that are still to come, as bits.
#[derive(Clone, Copy, Default)]
pub struct Places(u64);

impl Iterator for Places {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let place = lowest(self.0)?;
        self.0 &= self.0 - 1;
        Some(place)
    }
}

/// The state of a block after a place was blanked.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blanked {
    /// Nothing else has to change.
    Unchanged,
    /// The queue has lost its head: call [`Queues::head_removed`](super::Queues::head_removed).
    HeadRemoved,
    /// The block is empty or sparse: call [`Queues::repair_block`](super::Queues::repair_block).
    NeedsRepair,
}

/// A block with its metadata, read-only.
#[derive(Clone, Copy)]
pub struct BlockView<'a> {
    pub meta: &'a BlockMeta,
    pub block: &'a Block,
}

impl<'a> BlockView<'a> {
    pub fn at(self, place: usize) -> Option<Handle> {
        if self.meta.is_taken(place) { self.block.handle(place) } else { None }
    }

    pub fn first(self) -> Option<Handle> {
        self.block.handle(self.meta.first_place()?)
    }

    pub fn last(self) -> Option<Handle> {
        self.block.handle(self.meta.last_place()?)
    }

    /// Iterates over places and handles, in order, from `place` on.
    pub fn handles_from(self, place: usize) -> impl Iterator<Item = (usize, Handle)> + 'a {
        let places = self.meta.places_from(place);
        places.filter_map(move |place| Some((place, self.block.handle(place)?)))
    }

    /// Iterates over places and handles, in order.
    pub fn handles(self) -> impl Iterator<Item = (usize, Handle)> + 'a {
        self.handles_from(0)
    }

    /// Returns the last place whose handle `is_earlier`. All such handles must precede all others.
    pub fn last_that(self, mut is_earlier: impl FnMut(Handle) -> bool) -> Option<usize> {
        self.meta.last_that(|place| self.block.handle(place).is_some_and(&mut is_earlier))
    }

    /// Joins two neighbouring blocks, and returns the result with the metadata of this one. `is_earlier`
    /// tells whether this one precedes `other`. The handles of this block keep their places if the others fit before or
    /// behind them.
    pub(super) fn joined(self, other: Self, is_earlier: bool) -> (BlockMeta, Block) {
        let (first, last) = (self.meta.first_place(), self.meta.last_place());
        let room = match is_earlier {
            true => last.map(|last| last + 1..PLACES),
            false => first.map(|first| first.saturating_sub(other.meta.len())..first),
        };
        let (mut meta, mut block) = (*self.meta, *self.block);
        if let Some(room) = room.filter(|room| room.len() >= other.meta.len()) {
            for (place, (_, handle)) in room.zip(other.handles()) {
                block.set_handle(place, handle);
                meta.take(place);
            }
            return (meta, block);
        }
        (meta.taken, meta.len) = (0, 0);
        let (earlier, later) = if is_earlier { (self, other) } else { (other, self) };
        for (_, handle) in earlier.handles().chain(later.handles()) {
            let place = meta.append().expect("both fit into one");
            block.set_handle(place, handle);
        }
        (meta, block)
    }
}
