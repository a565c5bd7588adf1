//! A piece of a queue: 62 places for handles, and a bit for each that says whether it is taken.
//!
//! Linking the records themselves would cost a miss for each neighbour when one is stopped, and a
//! miss for each step when a queue is walked. Here a record knows its place, so that stopping it clears
//! a bit. The bits of a block lie apart from its places, side by side with those of others: 16 bytes for up to 62
//! elements, 260 kB for a million of them, which stay in the processor's caches. Where a bit is clear the handle says
//! nothing. A walk reads the handles one after the other, far ahead if it likes.
//!
//! ```text
//!   bits    [taken, queue, len, is head] [taken, …] …     one for each block of a page
//!   blocks  [prev, next, handle × 62   ] [prev, …  ] …     256 bytes each
//! ```
//!
//! A block of the [timeline](super::timeline) has columns behind that, 256 bytes each, with a number for each place.

use super::super::store::{Handle, Unit};
use super::super::tiny::TINY;
use super::heads::QueueNumber;

/// As many as make a block of 256 bytes.
pub const PLACES: usize = if TINY { 5 } else { 62 };
/// A block that comes down to this many handles is joined with a neighbour, if both together then fill no more
/// than half a block: what was just joined does not fill up at the next insertion. Few, because each is told of its new place,
/// which is a miss; with one more the places of an element cost no more than 55 bytes.
const SPARSE: u8 = PLACES as u8 / 16 + 1;
const JOINED_MAX: usize = PLACES / 2;
/// A block of the timeline is two to four times as wide, so it is sparse with four times as many: then an element's places cost
/// some 40 bytes at the most, or 55 with its TTL, where its neighbours let it be joined. When it is joined, twice as many were taken from it as are told of it.
const SPARSE_WIDE: u8 = PLACES as u8 / 4;
const JOINED_WIDE_MAX: usize = PLACES * 2 / 3;

/// A block and three columns.
pub(super) const UNITS_MAX: usize = 4;

/// What is known of a block without looking at its handles.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Bits {
    /// A bit for each place that is taken; those of higher places are later in the order.
    taken: u64,
    pub queue: QueueNumber,
    /// How many bits of `taken` are set, because not every processor can count them at once.
    len: u8,
    /// Whether no block of the queue is before this one.
    pub is_head: bool,
    /// How many blocks of the queue were made since one was listed in the directory, when this one was; as many as lie
    /// between two that are: it is listed.
    pub unlisted: u8,
    /// With so few handles it is sparse, unless it is the head.
    pub(super) sparse: u8,
    /// How many times 256 bytes it has: one, and its columns.
    pub(super) units: u8,
    /// Whether its places are in the order of the turns, as those of a queue are. Of the timeline's blocks only the first
    /// may be.
    pub is_sorted: bool,
}

/// Neighbours and handles; or a column, which has a number at each place and no neighbours.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Block {
    pub prev: Option<Handle>,
    pub next: Option<Handle>,
    /// The handles' bits, or the numbers.
    pub places: [u32; PLACES],
}

// Queues are priced at 256 bytes for 62 elements, and 16 that are wanted often.
const _: () = assert!(TINY || size_of::<Block>() == 256);
const _: () = assert!(size_of::<Bits>() == 16 && PLACES < 64);
// What was joined is not sparse, or it would be joined at every removal.
const _: () = assert!(TINY || 2 * SPARSE as usize <= JOINED_MAX);
const _: () = assert!(2 * SPARSE_WIDE as usize <= JOINED_WIDE_MAX);
// What was joined has room for as many as make a block not sparse, or it would be split again at once.
const _: () = assert!(JOINED_WIDE_MAX + SPARSE_WIDE as usize <= PLACES);

impl Default for Block {
    fn default() -> Self {
        Self { prev: None, next: None, places: [0; PLACES] }
    }
}

impl Unit for Block {
    /// 1,024 blocks of a page.
    const BITS: u32 = 10;

    fn set_free(&mut self, next: u32) {
        // No block has itself, or one that cannot be, before it.
        (self.prev, self.next) = (Handle::from_bits(u32::MAX), Handle::from_bits(next));
    }

    fn free(&self) -> Option<u32> {
        (Handle::to_bits(self.prev) == u32::MAX).then(|| Handle::to_bits(self.next))
    }
}

impl Block {
    #[inline(always)]
    pub fn handle(&self, place: usize) -> Option<Handle> {
        Handle::from_bits(self.places[place])
    }

    #[inline(always)]
    pub fn set_handle(&mut self, place: usize, handle: Handle) {
        self.places[place] = Handle::to_bits(Some(handle));
    }
}

/// Returns the places from this one on.
fn from(place: usize) -> u64 {
    u64::MAX.unbounded_shl(place as u32)
}

/// Returns the place of the lowest bit.
fn lowest(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

/// Returns the place of the highest bit.
fn highest(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.ilog2() as usize)
}

impl Bits {
    /// Makes the bits of an empty block of a queue.
    pub fn new(queue: QueueNumber) -> Self {
        Self { queue, sparse: SPARSE, units: 1, is_sorted: true, ..Self::default() }
    }

    /// Makes the bits of an empty block with so many columns.
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

    /// Returns whether this block is so empty that it should be joined with a neighbour.
    pub fn is_sparse(&self) -> bool {
        self.len <= self.sparse
    }

    pub fn can_join(&self, other: &Self) -> bool {
        let most = if self.units == 1 { JOINED_MAX } else { JOINED_WIDE_MAX };
        self.len() + other.len() <= most
    }

    /// Returns the first place that is taken.
    #[inline(always)]
    pub fn first_place(&self) -> Option<usize> {
        lowest(self.taken)
    }

    /// Returns the first place that is taken, from `place` on.
    #[inline(always)]
    pub fn first_from(&self, place: usize) -> Option<usize> {
        lowest(self.taken & from(place))
    }

    /// Returns the last place that is taken.
    pub fn last_place(&self) -> Option<usize> {
        highest(self.taken)
    }

    /// Returns the first place that is blank.
    pub fn first_blank(&self) -> Option<usize> {
        lowest(!self.taken & !from(PLACES))
    }

    /// Returns the last of the places that are taken which `is_earlier`, if all of those come before all others.
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

    /// Returns the nearest blank places before and from this one on.
    pub fn blanks_about(&self, place: usize) -> (Option<usize>, Option<usize>) {
        let blank = !self.taken & !from(PLACES);
        (highest(blank & !from(place)), lowest(blank & from(place)))
    }

    /// Takes a place that is blank.
    pub fn take(&mut self, place: usize) {
        debug_assert!(place < PLACES && !self.is_taken(place), "a place is taken twice");
        self.taken |= 1 << place;
        self.len += 1;
    }

    /// Takes the first so many places, and no others.
    pub fn take_first(&mut self, length: usize) {
        self.taken = !from(length);
        self.len = length as u8;
    }

    /// Leaves a place that is taken, whatever comes of it.
    pub fn leave(&mut self, place: u8) {
        self.taken &= !(1 << place);
        self.len -= 1;
    }

    /// Returns the places that are taken, in order.
    pub fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let mut taken = self.taken;
        std::iter::from_fn(move || {
            let place = lowest(taken)?;
            taken &= taken - 1;
            Some(place)
        })
    }

    /// Returns how many places are taken, up to this one.
    pub fn count_to(&self, place: usize) -> usize {
        (self.taken & !from(place + 1)).count_ones() as usize
    }

    pub fn is_taken(&self, place: usize) -> bool {
        self.taken >> place & 1 == 1
    }

    /// Takes the place behind all others, unless the last one is taken.
    #[inline(always)]
    pub(super) fn append(&mut self) -> Option<usize> {
        // Behind the highest bit; the bit added below it stands for none.
        let place = (self.taken << 1 | 1).ilog2();
        if place as usize >= PLACES {
            return None;
        }
        self.taken |= 1 << place;
        self.len += 1;
        Some(place as usize)
    }

    /// Blanks a place.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: u8) -> Blanked {
        let bit = 1_u64.wrapping_shl(place.into());
        assert!(self.taken & bit != 0, "a place is blanked twice");
        self.taken &= !bit;
        self.len -= 1;
        if self.is_head {
            match self.taken {
                0 => Blanked::Disorder,
                // The first block will be empty soon, and is at most one to a queue: it is never sparse.
                taken if taken & (bit - 1) == 0 => Blanked::Head,
                _ => Blanked::Quietly,
            }
        } else if self.len <= self.sparse {
            Blanked::Disorder
        } else {
            Blanked::Quietly
        }
    }
}

/// What comes of blanking a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blanked {
    /// Nothing.
    Quietly,
    /// The queue has lost its head: see [`Queues::lost_head`](super::Queues::lost_head).
    Head,
    /// The block is empty or sparse: see [`Queues::removed`](super::Queues::removed).
    Disorder,
}

/// A block to be looked at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub bits: &'a Bits,
    pub block: &'a Block,
}

impl<'a> View<'a> {
    /// Returns the handle at a place.
    pub fn at(self, place: usize) -> Option<Handle> {
        self.block.handle(place).filter(|_| self.bits.is_taken(place))
    }

    pub fn first(self) -> Option<Handle> {
        self.bits.first_place().and_then(|place| self.block.handle(place))
    }

    pub fn last(self) -> Option<Handle> {
        self.bits.last_place().and_then(|place| self.block.handle(place))
    }

    /// Places and handles, in order, from `place` on.
    pub fn handles_from(self, place: usize) -> impl Iterator<Item = (usize, Handle)> + 'a {
        let places = std::iter::successors(self.bits.first_from(place), move |place| {
            self.bits.first_from(place + 1)
        });
        places.filter_map(move |place| Some((place, self.block.handle(place)?)))
    }

    /// Places and handles, in order.
    pub fn handles(self) -> impl Iterator<Item = (usize, Handle)> + 'a {
        self.handles_from(0)
    }

    /// Returns the last place whose handle `is_earlier`, if all of those come before all others.
    pub fn last_that(self, mut is_earlier: impl FnMut(Handle) -> bool) -> Option<usize> {
        self.bits.last_that(|place| self.block.handle(place).is_some_and(&mut is_earlier))
    }

    /// Puts the handles of two blocks together, with the bits and the links of this one, which is the earlier or the
    /// later of them.
    /// The handles of this one stay where they are, if the others fit before or behind them.
    pub(super) fn joined(self, other: Self, is_earlier: bool) -> (Bits, Block) {
        let (first, last) = (self.bits.first_place(), self.bits.last_place());
        let room = match is_earlier {
            true => last.map(|last| last + 1..PLACES),
            false => first.map(|first| first.saturating_sub(other.bits.len())..first),
        };
        let (mut bits, mut block) = (*self.bits, *self.block);
        if let Some(room) = room.filter(|room| room.len() >= other.bits.len()) {
            for (place, (_, handle)) in room.zip(other.handles()) {
                block.set_handle(place, handle);
                bits.take(place);
            }
            return (bits, block);
        }
        (bits.taken, bits.len) = (0, 0);
        let (earlier, later) = if is_earlier { (self, other) } else { (other, self) };
        for (_, handle) in earlier.handles().chain(later.handles()) {
            let place = bits.append().expect("both fit into one");
            block.set_handle(place, handle);
        }
        (bits, block)
    }
}

/// Returns the handles of a block, and where they were before it was changed.
pub fn was_at(before: &(Bits, Block), place: usize) -> Option<Handle> {
    View { bits: &before.0, block: &before.1 }.at(place)
}
