//! The blocks of all queues and of the timeline, with their metadata.

use std::ops::Range;

use super::super::memory::{Mover, Steps, allotted, push_tight, relocate};
use super::super::processor::prefetch;
use super::super::store::{Handle, Slab};
use super::super::work;
use super::block::{Block, BlockMeta, BlockView, PLACES, UNITS_MAX};
use super::heads::QueueNumber;

/// All blocks of a lawn.
#[derive(Clone)]
pub struct Blocks {
    pub slab: Slab<Block>,
    /// The metadata of the blocks, by page.
    page_metas: Vec<PageMeta>,
}

/// The metadata of the blocks of a page, which all have the same width.
#[derive(Clone, Default)]
struct PageMeta {
    meta: Vec<BlockMeta>,
    /// Converts the first unit of a block to the block's number in the page: 1 / width as a fraction of [`ONE`],
    /// rounded up, which is exact for all units of a page.
    reciprocal: usize,
}

const ONE: u32 = 1 << 12;

impl PageMeta {
    #[inline(always)]
    fn number(&self, unit: usize) -> usize {
        unit * self.reciprocal / ONE as usize
    }
}

impl Blocks {
    pub fn new() -> Self {
        Self { slab: Slab::new(), page_metas: Vec::new() }
    }

    /// Inserts a block with this metadata. Places and columns have arbitrary content. `None` if there is no room (see
    /// [`Slab::insert`]).
    pub fn insert(&mut self, meta: BlockMeta) -> Option<Handle> {
        let handle = self.slab.insert(meta.units.into())?;
        // It may still have the mark of a free block.
        self.slab.unit_mut(handle).places[0] = 0;
        self.put_meta(handle, meta);
        Some(handle)
    }

    fn put_meta(&mut self, handle: Handle, meta: BlockMeta) {
        let (page, unit) = (handle.page::<Block>(), handle.unit::<Block>());
        while self.page_metas.len() <= page {
            push_tight(&mut self.page_metas, PageMeta::default());
        }
        let page_meta = &mut self.page_metas[page];
        page_meta.reciprocal = ONE.div_ceil(meta.units.into()) as usize;
        let number = page_meta.number(unit);
        while page_meta.meta.len() <= number {
            push_tight(&mut page_meta.meta, BlockMeta::default());
        }
        page_meta.meta[number] = meta;
    }

    pub fn remove(&mut self, handle: Handle) {
        *self.meta_mut(handle) = BlockMeta::default();
        self.slab.remove(handle);
        self.trim(handle.page::<Block>());
    }

    /// Iterates over the blocks' queues and numbers of elements. Reads 16 bytes per block.
    pub fn lengths(&self) -> impl Iterator<Item = (QueueNumber, usize)> + '_ {
        let taken = self
            .page_metas
            .iter()
            .flat_map(|page_meta| &page_meta.meta)
            .filter(|meta| !meta.is_empty());
        taken.map(|meta| (meta.queue, meta.len()))
    }

    /// Frees the metadata of a page that was freed.
    fn trim(&mut self, page: usize) {
        match self.slab.pages.get(page) {
            None => self.page_metas = Vec::new(),
            Some(units) if units.is_empty() => self.page_metas[page] = PageMeta::default(),
            Some(_) => {}
        }
    }

    #[inline(always)]
    pub fn meta(&self, handle: Handle) -> &BlockMeta {
        let page_meta = &self.page_metas[handle.page::<Block>()];
        &page_meta.meta[page_meta.number(handle.unit::<Block>())]
    }

    #[inline(always)]
    pub fn meta_mut(&mut self, handle: Handle) -> &mut BlockMeta {
        let page_meta = &mut self.page_metas[handle.page::<Block>()];
        let number = page_meta.number(handle.unit::<Block>());
        &mut page_meta.meta[number]
    }

    #[inline(always)]
    pub fn view(&self, handle: Handle) -> BlockView<'_> {
        BlockView { meta: self.meta(handle), block: self.slab.unit(handle) }
    }

    /// Appends a handle behind all others and returns its place. `None` if the last place is taken.
    #[inline(always)]
    pub fn append(&mut self, block: Handle, handle: Handle) -> Option<usize> {
        let place = self.meta_mut(block).append()?;
        self.slab.unit_mut(block).set_handle(place, handle);
        Some(place)
    }

    /// Returns a column of a block. Columns are numbered from 1.
    #[inline(always)]
    pub fn column(&self, block: Handle, column: usize) -> &[u32; PLACES] {
        &self.slab.get(block)[column].places
    }

    /// Prefetches a block for writing, and its metadata.
    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        let page_meta = &self.page_metas[handle.page::<Block>()];
        prefetch(&page_meta.meta[page_meta.number(handle.unit::<Block>())]);
        // The address translation of the block's page takes longest; places and columns share it.
        prefetch(self.slab.unit(handle));
    }

    /// Copies the handles of `other`, a neighbour, into `target`; `is_earlier` tells whether `target` precedes it. Returns
    /// the old content of `target`. `other` does not change.
    pub fn join(&mut self, target: Handle, other: Handle, is_earlier: bool) -> (BlockMeta, Block) {
        let view = self.view(target);
        let before = (*view.meta, *view.block);
        let (meta, block) = view.joined(self.view(other), is_earlier);
        work::move_items::<Block>(1);
        *self.meta_mut(target) = meta;
        *self.slab.unit_mut(target) = block;
        before
    }

    /// Moves the content of `places`, which must be all taken places, to the first places, in this order.
    pub fn permute(&mut self, block: Handle, places: impl ExactSizeIterator<Item = usize> + Clone) {
        let units = self.meta(block).units.into();
        work::move_items::<Block>(units);
        for unit in &mut self.slab.get_mut(block)[..units] {
            let old = unit.places;
            for (new, place) in unit.places.iter_mut().zip(places.clone()) {
                *new = old[place];
            }
        }
        self.meta_mut(block).take_first(places.len());
    }

    /// Blanks `place` by moving everything between it and the place `blank`, which becomes taken. Returns the places
    /// where the moved elements are now.
    pub fn make_blank(&mut self, block: Handle, place: usize, blank: usize) -> Range<usize> {
        let (moved, to) =
            if blank < place { (blank + 1..place + 1, blank) } else { (place..blank, place + 1) };
        let units = self.meta(block).units.into();
        work::move_items::<u32>(units * moved.len());
        for unit in &mut self.slab.get_mut(block)[..units] {
            unit.places.copy_within(moved.clone(), to);
        }
        let meta = self.meta_mut(block);
        meta.take(blank);
        meta.vacate(place as u8);
        to..to + moved.len()
    }

    /// Moves a block if that helps to free a page. Returns its old handle and its new one.
    #[must_use = "the block has another name"]
    pub fn compact(&mut self) -> Option<(Handle, Handle)> {
        let old = self.slab.sparse_slot()?;
        let meta = *self.meta(old);
        let new = self.slab.relocate(old)?;
        self.put_meta(new, meta);
        *self.meta_mut(old) = BlockMeta::default();
        self.trim(old.page::<Block>());
        Some((old, new))
    }

    /// Moves a block to where it has room for `columns` columns. New columns are filled with 0. Returns the new handle.
    /// `None` if there is no room; then nothing has changed.
    #[must_use = "the block has another name"]
    pub fn widen(&mut self, old: Handle, columns: usize) -> Option<Handle> {
        let mut meta = *self.meta(old);
        let mut units = [Block::default(); UNITS_MAX];
        let had = usize::from(meta.units);
        units[..had].copy_from_slice(&self.slab.get(old)[..had]);
        meta.units = 1 + columns as u8;
        let new = self.insert(meta)?;
        let width = usize::from(meta.units);
        work::move_items::<Block>(width);
        self.slab.get_mut(new)[..width].copy_from_slice(&units[..width]);
        self.remove(old);
        Some(new)
    }

    /// Moves pages, and then their metadata.
    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        self.slab.defrag(steps);
        steps.one(|mover| relocate(&mut self.page_metas, mover));
        steps.each(&mut self.page_metas, |page_meta, mover| relocate(&mut page_meta.meta, mover));
    }

    /// Returns the bytes allocated, without the struct itself. O(pages).
    pub fn memory(&self) -> usize {
        let meta = self.page_metas.iter().map(|page_meta| allotted(&page_meta.meta));
        self.slab.memory() + meta.sum::<usize>() + allotted(&self.page_metas)
    }

    /// Panics unless pages are consistent. Returns the number of blocks.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) -> usize {
        self.slab.check();
        self.slab.len()
    }
}
