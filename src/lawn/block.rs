//! A piece of a queue: 59 places for handles, and a bit for each that says whether it is taken.
//!
//! Linking the records themselves would cost a miss for each neighbour when one is stopped, and a
//! miss for each step when a queue is walked. Here a record knows its place, so that stopping it clears
//! a bit and touches one cache line, of which there is one for up to 59 elements: those of a million
//! lie in the processor's caches. Where a bit is clear the handle says nothing. A walk reads the
//! handles one after the other, far ahead if it likes.

use std::ops::Range;

use super::TINY;
use super::slab::Handle;

/// As many as make a block of 256 bytes: four cache lines, the first of which has the bits.
pub(super) const PLACES: usize = if TINY { 5 } else { 59 };
/// A block that comes down to this many handles is joined with a neighbour, if both together then fill no more
/// than half a block: what was just joined does not fill up at the next insertion.
const SPARSE: usize = PLACES / 7 + 1;
const JOINED_MAX: usize = PLACES / 2;

/// One block of a queue. In this order, so that all that stopping needs is in the first cache line.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Block {
    /// A bit for each place that is taken; those of higher places are later in the order.
    taken: u64,
    pub(super) prev: Option<Handle>,
    pub(super) next: Option<Handle>,
    pub(super) queue: u16,
    /// How many bits of `taken` are set, because not every processor can count them at once.
    len: u8,
    places: [Option<Handle>; PLACES],
}

// Queues are priced at 256 bytes for 59 elements.
const _: () = assert!(TINY || size_of::<Block>() == 256);
const _: () = assert!(PLACES < 64 && std::mem::offset_of!(Block, places) < 64);
// What was joined is not sparse, or it would be joined at every removal.
const _: () = assert!(TINY || 2 * SPARSE <= JOINED_MAX);

impl Default for Block {
    fn default() -> Self {
        Self { taken: 0, prev: None, next: None, queue: 0, len: 0, places: [None; PLACES] }
    }
}

/// The places from this one on.
fn from(place: usize) -> u64 {
    u64::MAX.unbounded_shl(place as u32)
}

/// The place of the lowest bit.
fn lowest(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

/// The place of the highest bit.
fn highest(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.ilog2() as usize)
}

impl Block {
    /// An empty block of a queue, between these neighbours.
    pub(super) fn new(queue: u16, prev: Option<Handle>, next: Option<Handle>) -> Self {
        Self { prev, next, queue, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == PLACES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// The handle at a place.
    pub(super) fn at(&self, place: usize) -> Option<Handle> {
        self.places[place].filter(|_| self.taken >> place & 1 == 1)
    }

    pub(super) fn first(&self) -> Option<Handle> {
        lowest(self.taken).and_then(|place| self.places[place])
    }

    pub(super) fn last(&self) -> Option<Handle> {
        highest(self.taken).and_then(|place| self.places[place])
    }

    /// The first place that is taken.
    pub(super) fn first_place(&self) -> Option<usize> {
        lowest(self.taken)
    }

    /// The first place that is taken, from `place` on.
    pub(super) fn first_from(&self, place: usize) -> Option<usize> {
        lowest(self.taken & from(place))
    }

    /// Places and handles, in order, from `place` on.
    pub(super) fn handles_from(&self, place: usize) -> impl Iterator<Item = (usize, Handle)> + '_ {
        let after = |place: &usize| self.first_from(place + 1);
        let places = std::iter::successors(self.first_from(place), after);
        places.filter_map(|place| Some((place, self.places[place]?)))
    }

    /// Places and handles, in order.
    pub(super) fn handles(&self) -> impl Iterator<Item = (usize, Handle)> + '_ {
        self.handles_from(0)
    }

    /// The last place whose handle `is_earlier`, if all of those come before all others.
    pub(super) fn last_that(&self, mut is_earlier: impl FnMut(Handle) -> bool) -> Option<usize> {
        let (mut low, mut high) = (0, PLACES);
        loop {
            let open = self.taken & from(low) & !from(high);
            let middle = usize::midpoint(low, high);
            let place = lowest(open & from(middle)).or_else(|| highest(open));
            let Some(place) = place else { break };
            if self.places[place].is_some_and(&mut is_earlier) {
                low = place + 1;
            } else {
                high = place;
            }
        }
        highest(self.taken & !from(low))
    }

    /// How many places are taken, up to this one.
    pub(super) fn count_to(&self, place: usize) -> usize {
        (self.taken & !from(place + 1)).count_ones() as usize
    }

    /// Adds a handle behind all others and returns its place, unless the last place is taken.
    pub(super) fn append(&mut self, handle: Handle) -> Option<usize> {
        let end = u64::BITS - self.taken.leading_zeros();
        let place = end as usize;
        *self.places.get_mut(place)? = Some(handle);
        self.taken |= 1 << place;
        self.len += 1;
        Some(place)
    }

    /// Blanks a place.
    pub(super) fn remove(&mut self, place: usize) {
        assert!(self.taken >> place & 1 == 1, "a place is blanked twice");
        self.taken &= !(1 << place);
        self.len -= 1;
    }

    /// A record has moved, or was replaced.
    pub(super) fn replace(&mut self, place: usize, new: Handle) {
        self.places[place] = Some(new);
    }

    /// Puts a handle behind the one at `behind` (or before all, if that is `None`), moving those between
    /// there and the nearest blank. Returns its place, and the range of places that were written. `None` if there
    /// is no blank.
    pub(super) fn insert(
        &mut self,
        behind: Option<usize>,
        handle: Handle,
    ) -> Option<(usize, Range<usize>)> {
        let place = behind.map_or(0, |behind| behind + 1);
        let blanks = !self.taken & !from(PLACES);
        let above = lowest(blanks & from(place));
        let below = highest(blanks & !from(place));
        let is_below = match (below, above) {
            (Some(below), Some(above)) => place - below < above - place,
            (below, _) => below.is_some(),
        };
        let (place, written) = if is_below {
            let below = below?;
            self.places.copy_within(below + 1..place, below);
            (place - 1, below..place)
        } else {
            let above = above?;
            self.places.copy_within(place..above, place + 1);
            (place, place..above + 1)
        };
        self.places[place] = Some(handle);
        self.taken |= from(written.start) & !from(written.end);
        self.len += 1;
        Some((place, written))
    }

    /// The later half of this full block, which is called `own`, for the block `new` behind it.
    pub(super) fn split_off(&mut self, own: Handle, new: Handle) -> Self {
        let later = self.taken & from(PLACES / 2);
        let len = later.count_ones() as u8;
        let half = Self { taken: later, len, prev: Some(own), ..*self };
        self.taken &= !later;
        self.len -= len;
        self.next = Some(new);
        half
    }

    /// Whether this block is so empty that it should be joined with a neighbour.
    pub(super) fn is_sparse(&self) -> bool {
        self.len() <= SPARSE
    }

    pub(super) fn can_join(&self, other: &Self) -> bool {
        self.len() + other.len() <= JOINED_MAX
    }

    /// Both blocks' handles, from the first place on, with this one's links.
    pub(super) fn joined(&self, earlier: &Self, later: &Self) -> Self {
        let mut joined = Self::new(self.queue, self.prev, self.next);
        for (_, handle) in earlier.handles().chain(later.handles()) {
            joined.append(handle);
        }
        joined
    }
}
