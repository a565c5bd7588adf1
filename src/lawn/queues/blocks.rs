//! All blocks of a lawn, of the queues and of the timeline, each with its bits.

use std::ops::Range;

use super::super::memory::{Mover, allotted, push_tight, relocate};
use super::super::processor::prefetch;
use super::super::store::{Handle, Slab};
use super::block::{Bits, Block, PLACES, UNITS_MAX, View};
use super::heads::QueueNumber;

/// All blocks of a lawn.
#[derive(Clone)]
pub struct Blocks {
    slab: Slab<Block>,
    /// For each page of blocks, the bits of each.
    lines: Vec<Line>,
}

/// The bits of the blocks of a page. These are equally wide.
#[derive(Clone, Default)]
struct Line {
    bits: Vec<Bits>,
    /// What makes of a unit the number of the block: a fraction of [`WHOLE`], rounded up, which is exact for any unit of a page.
    share: usize,
}

const WHOLE: u32 = 1 << 12;

impl Line {
    #[inline(always)]
    fn number(&self, unit: usize) -> usize {
        unit * self.share / WHOLE as usize
    }
}

impl Blocks {
    pub fn new() -> Self {
        Self { slab: Slab::new(), lines: Vec::new() }
    }

    /// Adds a block with these bits. What is in its places and columns is whatever was there before. `None` if there is no room
    /// (see [`Slab::insert`]).
    pub fn insert(
        &mut self,
        bits: Bits,
        prev: Option<Handle>,
        next: Option<Handle>,
    ) -> Option<Handle> {
        let handle = self.slab.insert(bits.units.into())?;
        let block = self.slab.unit_mut(handle);
        (block.prev, block.next) = (prev, next);
        self.put_bits(handle, bits);
        Some(handle)
    }

    fn put_bits(&mut self, handle: Handle, bits: Bits) {
        let (page, unit) = (handle.page::<Block>(), handle.unit::<Block>());
        while self.lines.len() <= page {
            push_tight(&mut self.lines, Line::default());
        }
        let line = &mut self.lines[page];
        line.share = WHOLE.div_ceil(bits.units.into()) as usize;
        let number = line.number(unit);
        while line.bits.len() <= number {
            push_tight(&mut line.bits, Bits::default());
        }
        line.bits[number] = bits;
    }

    /// Adds an empty block of a queue, behind `prev`.
    pub fn insert_empty(&mut self, queue: QueueNumber, prev: Option<Handle>) -> Option<Handle> {
        let mut bits = Bits::new(queue);
        bits.is_head = prev.is_none();
        self.insert(bits, prev, None)
    }

    pub fn remove(&mut self, handle: Handle) {
        *self.bits_mut(handle) = Bits::default();
        self.slab.remove(handle);
        self.trim(handle.page::<Block>());
    }

    /// Counts the elements of each block, with the queue whose they are. Reads no block, but sixteen bytes of each.
    pub fn lengths(&self) -> impl Iterator<Item = (QueueNumber, usize)> + '_ {
        let taken = self.lines.iter().flat_map(|line| &line.bits).filter(|bits| !bits.is_empty());
        taken.map(|bits| (bits.queue, bits.len()))
    }

    /// Gives back the bits of a page that has gone.
    fn trim(&mut self, page: usize) {
        if self.slab.pages() == 0 {
            self.lines = Vec::new();
        } else if self.slab.is_vacant(page) {
            self.lines[page] = Line::default();
        }
    }

    #[inline(always)]
    pub fn bits(&self, handle: Handle) -> &Bits {
        let line = &self.lines[handle.page::<Block>()];
        &line.bits[line.number(handle.unit::<Block>())]
    }

    #[inline(always)]
    pub fn bits_mut(&mut self, handle: Handle) -> &mut Bits {
        let line = &mut self.lines[handle.page::<Block>()];
        let number = line.number(handle.unit::<Block>());
        &mut line.bits[number]
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
        self.block(handle).handle(place.into())
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
        self.slab.unit_mut(block).set_handle(place, handle);
        Some(place)
    }

    /// Takes note that a record has moved, or was replaced.
    pub fn replace(&mut self, block: Handle, place: u8, new: Handle) {
        self.slab.unit_mut(block).set_handle(place.into(), new);
    }

    /// Returns the numbers of a column, which is 1 or more.
    #[inline(always)]
    pub fn column(&self, block: Handle, column: usize) -> &[u32; PLACES] {
        &self.slab.get(block)[column].places
    }

    /// Returns a block and so many columns.
    #[inline(always)]
    pub fn units_mut(&mut self, block: Handle, columns: usize) -> &mut [Block] {
        &mut self.slab.get_mut(block)[..=columns]
    }

    /// Asks for a block that will be written soon, and for its bits.
    #[inline(always)]
    pub fn prefetch_wide(&self, handle: Handle) {
        let line = &self.lines[handle.page::<Block>()];
        prefetch(&line.bits[line.number(handle.unit::<Block>())]);
        // The nearest page of memory, where its places and columns are, is what takes the longest to find.
        prefetch(self.slab.unit(handle));
    }

    /// Does what [`Blocks::column`] does.
    #[inline(always)]
    pub fn column_mut(&mut self, block: Handle, column: usize) -> &mut [u32; PLACES] {
        &mut self.slab.get_mut(block)[column].places
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

    /// Puts what is at these places, which are all that are taken, into the first ones.
    pub fn permute(&mut self, block: Handle, places: impl ExactSizeIterator<Item = usize> + Clone) {
        let units = self.bits(block).units.into();
        for unit in &mut self.slab.get_mut(block)[..units] {
            let old = unit.places;
            for (new, place) in unit.places.iter_mut().zip(places.clone()) {
                *new = old[place];
            }
        }
        self.bits_mut(block).take_first(places.len());
    }

    /// Makes a place blank by moving all that is between it and a blank one, which takes the last of it. Returns the places of
    /// what was moved.
    pub fn make_blank(&mut self, block: Handle, place: usize, blank: usize) -> Range<usize> {
        let (moved, to) =
            if blank < place { (blank + 1..place + 1, blank) } else { (place..blank, place + 1) };
        let units = self.bits(block).units.into();
        for unit in &mut self.slab.get_mut(block)[..units] {
            unit.places.copy_within(moved.clone(), to);
        }
        let bits = self.bits_mut(block);
        bits.take(blank);
        bits.leave(place as u8);
        to..to + moved.len()
    }

    /// Moves a block, if that helps to give memory back. Returns where it is now.
    pub fn compact(&mut self) -> Option<Handle> {
        let old = self.slab.sparse_slot()?;
        let bits = *self.bits(old);
        let new = self.slab.relocate(old)?;
        self.put_bits(new, bits);
        *self.bits_mut(old) = Bits::default();
        self.trim(old.page::<Block>());
        Some(new)
    }

    /// Moves a block to where there is room for so many columns. What is in those that it did not have is 0. Returns where it is
    /// now. `None` if there is no room; then nothing has changed.
    pub fn widen(&mut self, old: Handle, columns: usize) -> Option<Handle> {
        let mut bits = *self.bits(old);
        let mut units = [Block::default(); UNITS_MAX];
        let had = usize::from(bits.units);
        units[..had].copy_from_slice(&self.slab.get(old)[..had]);
        bits.units = 1 + columns as u8;
        let new = self.insert(bits, None, None)?;
        let width = usize::from(bits.units);
        self.slab.get_mut(new)[..width].copy_from_slice(&units[..width]);
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
        relocate(&mut self.lines, mover);
    }

    /// Returns how many page numbers there are.
    pub fn pages(&self) -> usize {
        self.slab.pages()
    }

    /// Moves a page.
    pub fn defrag_page(&mut self, number: usize, mover: &mut impl Mover) {
        self.slab.defrag_page(number, mover);
        relocate(&mut self.lines[number].bits, mover);
    }

    /// Takes it apart, to be freed a page at a time.
    pub fn into_pages(self) -> impl Iterator<Item = impl Sized> {
        self.slab.into_pages()
    }

    /// Returns the bytes allocated, its own fields apart. O(pages).
    pub fn memory(&self) -> usize {
        let bits = self.lines.iter().map(|line| allotted(&line.bits));
        self.slab.memory() + bits.sum::<usize>() + allotted(&self.lines)
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub fn allocations(&self) -> usize {
        2 * self.slab.allocations()
    }

    /// Panics unless pages are in order. Returns how many blocks there are.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) -> usize {
        self.slab.check();
        self.slab.len()
    }
}
