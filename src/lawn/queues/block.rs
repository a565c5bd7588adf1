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

use std::ops::Range;

use super::super::memory::{Mover, allotted, push_tight, relocate};
use super::super::processor::prefetch;
use super::super::store::{Handle, Slab, Unit};
use super::super::tiny::TINY;
use super::heads::QueueNumber;

/// As many as make a block of 256 bytes.
pub const PLACES: usize = if TINY { 5 } else { 62 };
/// A block that comes down to this many handles is joined with a neighbour, if both together then fill no more
/// than half a block: what was just joined does not fill up at the next insertion. Few, because each is told of its new place,
/// which is a miss; with one more the places of an element cost no more than 55 bytes.
const SPARSE: u8 = PLACES as u8 / 16 + 1;
const JOINED_MAX: usize = PLACES / 2;

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
}

/// Neighbours and handles.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Block {
    pub prev: Option<Handle>,
    pub next: Option<Handle>,
    places: [Option<Handle>; PLACES],
}

// Queues are priced at 256 bytes for 62 elements, and 16 that are wanted often.
const _: () = assert!(TINY || size_of::<Block>() == 256);
const _: () = assert!(size_of::<Bits>() == 16 && PLACES < 64);
// What was joined is not sparse, or it would be joined at every removal.
const _: () = assert!(TINY || 2 * SPARSE as usize <= JOINED_MAX);

impl Default for Block {
    fn default() -> Self {
        Self { prev: None, next: None, places: [None; PLACES] }
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
    /// Makes the bits of an empty block.
    pub fn new(queue: QueueNumber) -> Self {
        Self { queue, ..Self::default() }
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
        self.len <= SPARSE
    }

    pub fn can_join(&self, other: &Self) -> bool {
        self.len() + other.len() <= JOINED_MAX
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
    fn last_place(&self) -> Option<usize> {
        highest(self.taken)
    }

    /// Returns how many places are taken, up to this one.
    pub fn count_to(&self, place: usize) -> usize {
        (self.taken & !from(place + 1)).count_ones() as usize
    }

    fn is_taken(&self, place: usize) -> bool {
        self.taken >> place & 1 == 1
    }

    /// Takes the place behind all others, unless the last one is taken.
    #[inline(always)]
    fn append(&mut self) -> Option<usize> {
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
        } else if self.len <= SPARSE {
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
        self.block.places[place].filter(|_| self.bits.is_taken(place))
    }

    pub fn first(self) -> Option<Handle> {
        self.bits.first_place().and_then(|place| self.block.places[place])
    }

    pub fn last(self) -> Option<Handle> {
        self.bits.last_place().and_then(|place| self.block.places[place])
    }

    /// Places and handles, in order, from `place` on.
    pub fn handles_from(self, place: usize) -> impl Iterator<Item = (usize, Handle)> + 'a {
        let places = std::iter::successors(self.bits.first_from(place), move |place| {
            self.bits.first_from(place + 1)
        });
        places.filter_map(move |place| Some((place, self.block.places[place]?)))
    }

    /// Places and handles, in order.
    pub fn handles(self) -> impl Iterator<Item = (usize, Handle)> + 'a {
        self.handles_from(0)
    }

    /// Returns the last place whose handle `is_earlier`, if all of those come before all others.
    pub fn last_that(self, mut is_earlier: impl FnMut(Handle) -> bool) -> Option<usize> {
        let taken = self.bits.taken;
        let (mut low, mut high) = (0, PLACES);
        loop {
            let open = taken & from(low) & !from(high);
            let middle = usize::midpoint(low, high);
            let place = lowest(open & from(middle)).or_else(|| highest(open));
            let Some(place) = place else { break };
            if self.block.places[place].is_some_and(&mut is_earlier) {
                low = place + 1;
            } else {
                high = place;
            }
        }
        highest(taken & !from(low))
    }

    /// Puts the handles of two blocks together, with the bits and the links of this one, which is the earlier or the
    /// later of them.
    /// The handles of this one stay where they are, if the others fit before or behind them.
    fn joined(self, other: Self, is_earlier: bool) -> (Bits, Block) {
        let (first, last) = (self.bits.first_place(), self.bits.last_place());
        let room = match is_earlier {
            true => last.map(|last| last + 1..PLACES),
            false => first.map(|first| first.saturating_sub(other.bits.len())..first),
        };
        let (mut bits, mut block) = (*self.bits, *self.block);
        if let Some(room) = room.filter(|room| room.len() >= other.bits.len()) {
            for (place, (_, handle)) in room.zip(other.handles()) {
                block.places[place] = Some(handle);
                bits.taken |= 1 << place;
                bits.len += 1;
            }
            return (bits, block);
        }
        (bits.taken, bits.len, block.places) = (0, 0, [None; PLACES]);
        let (earlier, later) = if is_earlier { (self, other) } else { (other, self) };
        for (_, handle) in earlier.handles().chain(later.handles()) {
            let place = bits.append().expect("both fit into one");
            block.places[place] = Some(handle);
        }
        (bits, block)
    }
}

/// All blocks of a lawn.
#[derive(Clone)]
pub struct Blocks {
    slab: Slab<Block>,
    /// For each page of blocks, the bits of each.
    bits: Vec<Vec<Bits>>,
}

impl Blocks {
    pub fn new() -> Self {
        Self { slab: Slab::new(), bits: Vec::new() }
    }

    /// Adds a block, with the places that are taken in it. `None` if there is no room (see [`Slab::insert`]).
    pub fn insert(&mut self, bits: Bits, block: Block) -> Option<Handle> {
        let handle = self.slab.insert(1)?;
        *self.slab.unit_mut(handle) = block;
        let (page, unit) = (handle.page::<Block>(), handle.unit::<Block>());
        while self.bits.len() <= page {
            push_tight(&mut self.bits, Vec::new());
        }
        let line = &mut self.bits[page];
        while line.len() <= unit {
            push_tight(line, Bits::default());
        }
        line[unit] = bits;
        Some(handle)
    }

    /// Adds an empty block of a queue, behind `prev`.
    pub fn insert_empty(&mut self, queue: QueueNumber, prev: Option<Handle>) -> Option<Handle> {
        let bits = Bits { is_head: prev.is_none(), ..Bits::new(queue) };
        self.insert(bits, Block { prev, ..Block::default() })
    }

    pub fn remove(&mut self, handle: Handle) {
        *self.bits_mut(handle) = Bits::default();
        self.slab.remove(handle);
        self.trim(handle.page::<Block>());
    }

    /// Counts the elements of each block, with the queue whose they are. Reads no block, but sixteen bytes of each.
    pub fn lengths(&self) -> impl Iterator<Item = (QueueNumber, usize)> + '_ {
        let taken = self.bits.iter().flatten().filter(|bits| !bits.is_empty());
        taken.map(|bits| (bits.queue, bits.len()))
    }

    /// Gives back the bits of a page that has gone.
    fn trim(&mut self, page: usize) {
        if self.slab.pages() == 0 {
            self.bits = Vec::new();
        } else if self.slab.is_vacant(page) {
            self.bits[page] = Vec::new();
        }
    }

    #[inline(always)]
    pub fn bits(&self, handle: Handle) -> &Bits {
        &self.bits[handle.page::<Block>()][handle.unit::<Block>()]
    }

    #[inline(always)]
    pub fn bits_mut(&mut self, handle: Handle) -> &mut Bits {
        &mut self.bits[handle.page::<Block>()][handle.unit::<Block>()]
    }

    pub fn block(&self, handle: Handle) -> &Block {
        self.slab.unit(handle)
    }

    pub fn block_mut(&mut self, handle: Handle) -> &mut Block {
        self.slab.unit_mut(handle)
    }

    #[inline(always)]
    pub fn view(&self, handle: Handle) -> View<'_> {
        View { bits: self.bits(handle), block: self.slab.unit(handle) }
    }

    /// Returns the first handle of a block.
    pub fn first(&self, handle: Handle) -> Option<Handle> {
        self.view(handle).first()
    }

    /// Returns what was at a place that has just been blanked.
    pub fn left_at(&self, handle: Handle, place: u8) -> Option<Handle> {
        self.block(handle).places[usize::from(place)]
    }

    /// Asks for a block that will be read soon, from its first handle on.
    pub fn prefetch(&self, handle: Handle) {
        let view = self.view(handle);
        if let Some(first) = view.bits.first_place() {
            prefetch(&view.block.places[first]);
        }
    }

    /// Adds a handle behind all others and returns its place, unless the last place is taken.
    #[inline(always)]
    pub fn append(&mut self, block: Handle, handle: Handle) -> Option<usize> {
        let place = self.bits_mut(block).append()?;
        self.slab.unit_mut(block).places[place] = Some(handle);
        Some(place)
    }

    /// Takes note that a record has moved, or was replaced.
    pub fn replace(&mut self, block: Handle, place: u8, new: Handle) {
        self.slab.unit_mut(block).places[usize::from(place)] = Some(new);
    }

    /// Puts a handle behind the one at `behind` (or before all, if that is `None`), moving those between
    /// there and the nearest blank. Returns its place, and the range of places that were written. `None` if there
    /// is no blank.
    pub fn insert_behind(
        &mut self,
        block: Handle,
        behind: Option<usize>,
        handle: Handle,
    ) -> Option<(usize, Range<usize>)> {
        let taken = self.bits(block).taken;
        let places = &mut self.slab.unit_mut(block).places;
        let place = behind.map_or(0, |behind| behind + 1);
        let blanks = !taken & !from(PLACES);
        let above = lowest(blanks & from(place));
        let below = highest(blanks & !from(place));
        let is_below = match (below, above) {
            (Some(below), Some(above)) => place - below < above - place,
            (below, _) => below.is_some(),
        };
        let (place, written) = if is_below {
            let below = below?;
            places.copy_within(below + 1..place, below);
            (place - 1, below..place)
        } else {
            let above = above?;
            places.copy_within(place..above, place + 1);
            (place, place..above + 1)
        };
        places[place] = Some(handle);
        let bits = self.bits_mut(block);
        bits.taken |= from(written.start) & !from(written.end);
        bits.len += 1;
        Some((place, written))
    }

    /// Puts the later half of a full block into a new one behind it, which is returned. `None` if none
    /// could be had; then nothing has changed.
    pub fn split(&mut self, block: Handle) -> Option<Handle> {
        let View { bits, block: old } = self.view(block);
        let taken = bits.taken & from(PLACES / 2);
        let later = Bits { taken, len: taken.count_ones() as u8, is_head: false, ..*bits };
        let new = self.insert(later, Block { prev: Some(block), ..*old })?;
        let earlier = self.bits_mut(block);
        earlier.taken &= !later.taken;
        earlier.len -= later.len;
        self.block_mut(block).next = Some(new);
        Some(new)
    }

    /// Puts the handles of `other`, a neighbour, into `target`, and returns what was in that. The other one stays as it is.
    pub fn join(&mut self, target: Handle, other: Handle) -> (Bits, Block) {
        let view = self.view(target);
        let is_earlier = view.block.next == Some(other);
        let before = (*view.bits, *view.block);
        let (bits, block) = view.joined(self.view(other), is_earlier);
        *self.bits_mut(target) = bits;
        *self.block_mut(target) = block;
        before
    }

    /// Moves a block, if that helps to give memory back. Returns where it is now.
    pub fn compact(&mut self) -> Option<Handle> {
        let old = self.slab.sparse_slot()?;
        let View { bits, block } = self.view(old);
        let (bits, block) = (*bits, *block);
        let new = self.insert(bits, block)?;
        self.remove(old);
        Some(new)
    }

    /// Returns whether [`Blocks::compact`] would move a block.
    pub fn is_sparse(&self) -> bool {
        self.slab.is_sparse()
    }

    /// Moves the tables of pages.
    pub fn defrag(&mut self, mover: &mut impl Mover) {
        self.slab.defrag(mover);
        relocate(&mut self.bits, mover);
    }

    /// Returns how many page numbers there are.
    pub fn pages(&self) -> usize {
        self.slab.pages()
    }

    /// Moves a page.
    pub fn defrag_page(&mut self, number: usize, mover: &mut impl Mover) {
        self.slab.defrag_page(number, mover);
        relocate(&mut self.bits[number], mover);
    }

    /// Returns the bytes allocated, its own fields apart. O(pages).
    pub fn memory(&self) -> usize {
        self.slab.memory() + self.bits.iter().map(allotted).sum::<usize>() + allotted(&self.bits)
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub fn allocations(&self) -> usize {
        2 * self.slab.allocations()
    }

    /// Panics unless pages are in order. Returns how many blocks there are.
    #[cfg(any(test, fuzzing))]
    pub fn check(&self) -> usize {
        self.slab.check();
        self.slab.len()
    }
}

/// Returns the handles of a block, and where they were before it was changed.
pub fn was_at(before: &(Bits, Block), place: usize) -> Option<Handle> {
    View { bits: &before.0, block: &before.1 }.at(place)
}
