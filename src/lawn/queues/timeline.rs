//! The timeline: elements that fit into no queue, in blocks of ascending ranges of ranks. Blocks are sorted against
//! each other, not within.
//!
//! A queue is cheap while its TTL repeats and its elements come in order. With a TTL for each element, or with
//! deadlines that clients choose, neither holds. A sorted set takes O(log n) for each operation under such a load, and
//! a B-tree of elements takes a cache miss per level. Here the tree has an entry for each *block* of some forty
//! elements and fits into the caches. An operation on an element changes its block, mostly without looking at other
//! elements.
//!
//! ```text
//!   ranges              from t=0        from t=700      from t=1450
//!                          │                │                │
//!                          ▼                ▼                ▼
//!   blocks              [ a c f g ]     [ k · h j · i ]     [ q m · p n o ]
//!                        the first:      any order, with blanks
//!                        sorted when it is read
//!   columns             the deadline of each, minus the start of its range: 32 bits; the TTL of each, if any has one
//! ```
//!
//! - *Insert*: find the block whose range contains the rank, and take any blank place.
//! - *Stop*: as in a queue, the record knows block and place, and a bit is cleared.
//! - *Split*: a full block is split at its median, found in the column of deadlines. Only the records that move are
//!   written, and they are prefetched together. An element that comes after all others in a full block starts a new
//!   block instead, so that ascending deadlines leave full blocks behind. The new range covers everything up to the
//!   next range, so that descending deadlines fill it. For an element that comes before all others, the block is split
//!   near its start, for descending deadlines.
//! - *Join*: a sparse block is joined with a neighbour.
//! - *Sort*: the first block is sorted when its first element is needed. From then on it behaves like the first block
//!   of a queue, and elements are taken from it in runs. An element that is inserted into it goes where it belongs, if
//!   only a few others must move.
//!
//! This is the idea of a ladder queue (Tang, Goh and Thng, 2005: sort late, and little at a time) on the ranges of a
//! B-tree: no bucket is ever wider than a block, whatever the deadlines, so no call moves more than the elements of two
//! blocks.
//!
//! The timeline is queue number 0. Its head is in the heap among those of the queues.

use super::super::rank::Rank;
use super::super::store::{Handle, Records, Spot};
use super::super::work;
use super::block::{BlockMeta, PLACES};
use super::blocks::Blocks;
use super::heads::TIMELINE;
use super::order::{DEADLINES, FAR, offset, offset_of, place_of};
use super::queues::{PredictedRange, Queues};
use super::ranges::Range;

/// The columns behind the deadlines: the lower and the upper half of the TTLs. A block has them only if one of its
/// elements needs them.
const TTLS: usize = 2;
const TTLS_HIGH: usize = 3;
/// Elements of the sorted first block that may move for an insertion. Twice as many gained nothing under the load of
/// `benches/core/units.rs`.
const MOVES_MAX: usize = PLACES / 4;
/// How far the first range begins before its first deadline, in milliseconds (4.7 hours). Ever earlier deadlines
/// rewrite the first block's column only that often.
const LEEWAY: u64 = 1 << 24;

/// Returns the number of columns for a block whose longest TTL is this.
#[inline(always)]
fn columns_for(ttl: u64) -> usize {
    match (ttl, ttl >> 32) {
        (0, _) => DEADLINES,
        (_, 0) => TTLS,
        _ => TTLS_HIGH,
    }
}

impl Blocks {
    /// Returns the TTL of an element in a block of the timeline.
    #[inline(always)]
    pub(super) fn ttl(&self, block: Handle, place: usize) -> u64 {
        match self.meta(block).columns() {
            DEADLINES => 0,
            TTLS => self.column(block, TTLS)[place].into(),
            _ => {
                let high = u64::from(self.column(block, TTLS_HIGH)[place]);
                high << 32 | u64::from(self.column(block, TTLS)[place])
            }
        }
    }

    /// Writes all that a block stores for an element. `columns` must be the block's number of columns and suffice for
    /// the TTL.
    #[inline(always)]
    fn write(&mut self, spot: Spot, columns: usize, handle: Handle, offset: u32, ttl: u64) {
        let place = usize::from(spot.place);
        let units = &mut self.slab.get_mut(spot.block)[..=columns];
        units[0].set_handle(place, handle);
        units[DEADLINES].places[place] = offset;
        if let Some(column) = units.get_mut(TTLS) {
            column.places[place] = ttl as u32;
        }
        if let Some(column) = units.get_mut(TTLS_HIGH) {
            column.places[place] = (ttl >> 32) as u32;
        }
    }
}

impl Queues {
    /// Returns the earliest element of an unsorted block.
    pub(super) fn earliest_in(&self, records: &Records, block: Handle) -> Option<Handle> {
        let offsets = self.blocks.column(block, DEADLINES);
        let places = || self.blocks.view(block).handles();
        let least = places().map(|(place, _)| offsets[place]).min()?;
        let mut ties = places().filter(|(place, _)| offsets[*place] == least).map(|(_, it)| it);
        let first = ties.next()?;
        ties.next().map_or(Some(first), |second| {
            let ties = [first, second].into_iter().chain(ties);
            ties.min_by_key(|handle| records.rank(*handle))
        })
    }

    /// Predicts the block for an element with this rank, and the deadline where the block's range begins. Prefetches
    /// the block.
    #[inline(never)]
    pub(super) fn predict_in_timeline(&self, rank: Rank) -> PredictedRange {
        let found = self.find_in_timeline(rank)?;
        self.blocks.prefetch(found.1);
        Some(found)
    }

    /// Returns the block whose range contains a rank, and the deadline where the range begins. `None` before the first
    /// range.
    #[inline(always)]
    fn find_in_timeline(&self, rank: Rank) -> PredictedRange {
        self.ranges.find(TIMELINE, rank).map(|range| (range.from.deadline, range.block))
    }

    /// Inserts an element and returns its spot. `predicted` may hold the prediction. Does not read the element's
    /// record, which may not be written yet.
    #[inline(always)]
    pub(super) fn push_to_timeline(
        &mut self,
        records: &mut Records,
        handle: Handle,
        ttl: u64,
        rank: Rank,
        predicted: PredictedRange,
    ) -> Option<Spot> {
        let columns = columns_for(ttl);
        let current = || self.find_in_timeline(rank);
        if predicted.is_some() {
            debug_assert_eq!(predicted, current(), "a prediction from before a change");
        }
        let (mut from, mut block) = match predicted.or_else(current) {
            Some(found) => found,
            None => self.extend_first_range(rank, columns)?,
        };
        let mut meta = *self.blocks.meta(block);
        if meta.is_full() || meta.columns() < columns {
            (from, block) = self.ensure_fits(records, rank, columns)?;
            meta = *self.blocks.meta(block);
        }
        // If the prediction were of a later range, the offset would wrap, and the order would be wrong.
        assert!(from <= rank.deadline, "a prediction from before a change");
        let offset = offset(rank.deadline, from);
        let place = if meta.is_head {
            self.place_in_head(records, block, offset, rank)
        } else {
            meta.first_blank().expect("there is room")
        };
        let spot = Spot::new(block, place);
        self.blocks.meta_mut(block).take(place);
        self.blocks.write(spot, meta.columns(), handle, offset, ttl);
        self.timeline_len += 1;
        Some(spot)
    }

    /// Makes room for one element, with `columns` columns, in the block whose range contains a rank. Returns the block,
    /// and the deadline where its range begins.
    #[inline(never)]
    fn ensure_fits(
        &mut self,
        records: &mut Records,
        rank: Rank,
        columns: usize,
    ) -> Option<(u64, Handle)> {
        let range = self.ranges.get(TIMELINE, rank);
        let (from, block) = if self.blocks.meta(range.block).is_full() {
            self.make_room(records, range, rank, columns)?
        } else {
            (range.from.deadline, range.block)
        };
        if self.blocks.meta(block).columns() < columns {
            return Some((from, self.widen(records, block, columns)?));
        }
        Some((from, block))
    }

    /// Returns a blank place of the first block for an element with this rank. In a sorted block this is the place
    /// where the element belongs. If too many others would have to move, the block is marked as unsorted instead, to be
    /// sorted when needed.
    #[inline(never)]
    fn place_in_head(
        &mut self,
        records: &mut Records,
        block: Handle,
        offset: u32,
        rank: Rank,
    ) -> usize {
        self.heads.lower(TIMELINE, rank);
        let meta = *self.blocks.meta(block);
        if meta.is_sorted {
            if let Some(place) = self.make_place(records, block, offset, rank) {
                return place;
            }
            self.blocks.meta_mut(block).is_sorted = false;
            // The rank in the heap is at or before the first element, as stale ranks must be.
            self.add_stale(records, TIMELINE);
        }
        meta.first_blank().expect("there is room")
    }

    /// Opens a place where an element with this rank belongs in a sorted block, by moving at most [`MOVES_MAX`] others.
    /// `None` if more would have to move.
    fn make_place(
        &mut self,
        records: &mut Records,
        block: Handle,
        offset: u32,
        rank: Rank,
    ) -> Option<usize> {
        let meta = *self.blocks.meta(block);
        let offsets = self.blocks.column(block, DEADLINES);
        let last = meta.last_that(|place| {
            offsets[place] < offset
                || offsets[place] == offset && self.blocks.rank(records, block, place) < rank
        });
        let behind = last.map(|last| last + 1).or(meta.first_place()).unwrap_or(0);
        let (before, from) = meta.blanks_about(behind);
        let before = before.map(|blank| (behind - 1 - blank, behind - 1, blank));
        let from = from.map(|blank| (blank - behind, behind, blank));
        let (moves, place, blank) = before.into_iter().chain(from).min()?;
        if moves > MOVES_MAX {
            return None;
        }
        for moved in self.blocks.make_blank(block, place, blank) {
            let handle = self.blocks.view(block).at(moved).expect("a taken place");
            records.set_spot(handle, Spot::new(block, moved));
        }
        Some(place)
    }

    /// Extends the first range to a rank before all ranges, and returns its block and start. Without any range, creates
    /// one, with a block of `columns` columns.
    #[cold]
    fn extend_first_range(&mut self, rank: Rank, columns: usize) -> Option<(u64, Handle)> {
        let from = Rank { deadline: rank.deadline.saturating_sub(LEEWAY), push: 0 };
        if let Some(Range { from: later, block }) = self.ranges.first(TIMELINE) {
            self.ranges.remove(TIMELINE, later);
            self.shift(block, later.deadline - from.deadline);
            self.ranges.insert(TIMELINE, Range { from, block });
            return Some((from.deadline, block));
        }
        let mut meta = BlockMeta::wide(TIMELINE, columns);
        meta.is_sorted = true;
        let block = self.insert_block(meta, from)?;
        self.heads.set(TIMELINE, rank);
        Some((from.deadline, block))
    }

    /// Adds `by` milliseconds to the offsets of a block whose range now begins that much earlier.
    fn shift(&mut self, block: Handle, by: u64) {
        let by = u32::try_from(by).unwrap_or(FAR);
        let offsets = &mut self.blocks.slab.get_mut(block)[DEADLINES].places;
        offsets.iter_mut().for_each(|offset| *offset = offset.saturating_add(by));
    }

    /// Makes room for an element with this rank, in a full block or beside it. Returns the block to insert into, and
    /// the deadline where its range begins.
    fn make_room(
        &mut self,
        records: &mut Records,
        range: Range,
        rank: Rank,
        columns: usize,
    ) -> Option<(u64, Handle)> {
        let Range { from, block } = range;
        let (mut keys, _) = self.blocks.sort_keys(block);
        let keys = &mut keys;
        let offset = offset(rank.deadline, from.deadline);
        let latest = keys.iter().copied().max().map_or(0, offset_of);
        let is_earlier = |key: &u64| {
            offset_of(*key) < offset || self.blocks.rank(records, block, place_of(*key)) < rank
        };
        if latest < offset || latest == offset && keys.iter().all(is_earlier) {
            let ranks = || keys.iter().map(|key| self.blocks.rank(records, block, place_of(*key)));
            let last = match latest {
                FAR => ranks().map(|rank| rank.deadline).max()?,
                latest => from.deadline + u64::from(latest),
            };
            // The new range covers everything up to the next one. Otherwise deadlines that descend to here would start
            // a block each.
            let from = Rank::after(last).min(rank);
            // A block that was started here before and is still sparse is joined with the one behind it.
            let next = self.ranges.around(TIMELINE, range.from).behind;
            if let Some(next) = next.filter(|next| self.blocks.meta(next.block).is_sparse()) {
                self.join_ranges(records, next.block);
            }
            let new = self.insert_block(BlockMeta::wide(TIMELINE, columns), from)?;
            return Some((from.deadline, new));
        }
        // For descending deadlines, leave the earlier block nearly empty.
        let comes_first = keys.iter().all(|key| offset < offset_of(*key));
        let earlier = if comes_first { PLACES / 16 + 1 } else { PLACES / 2 };
        let (boundary, later) = self.divide(records, range, keys, earlier);
        let later = &keys[later..];
        let mut longest = 0;
        for key in later {
            let place = place_of(*key);
            self.blocks.view(block).at(place).into_iter().for_each(|it| records.prefetch(it));
            longest = self.blocks.ttl(block, place).max(longest);
        }
        let new = self.insert_block(BlockMeta::wide(TIMELINE, columns_for(longest)), boundary)?;
        let new = Range { from: boundary, block: new };
        self.move_elements(records, range, new, later);
        later.iter().for_each(|key| self.blocks.meta_mut(block).vacate(place_of(*key) as u8));
        let Range { from, block } = if rank < boundary { range } else { new };
        Some((from.deadline, block))
    }

    /// Partitions the elements of a full block: about `middle` of them, half or only a few, become the earlier part.
    /// Returns the rank that separates the parts, and the index of the first later key.
    fn divide(
        &self,
        records: &Records,
        Range { from, block }: Range,
        keys: &mut [u64; PLACES],
        middle: usize,
    ) -> (Rank, usize) {
        let (_, parting, _) = keys.select_nth_unstable(middle);
        let parting = offset_of(*parting);
        // Split between two milliseconds, if the parts get about the right size.
        for parting in [Some(parting), parting.checked_add(1)].into_iter().flatten() {
            let earlier = keys.iter().filter(|key| offset_of(**key) < parting).count();
            if (middle.div_ceil(2)..=middle + middle / 2).contains(&earlier) {
                keys.select_nth_unstable(earlier);
                let deadline = from.deadline + u64::from(parting);
                return (Rank { deadline, push: 0 }, earlier);
            }
        }
        // Split within a millisecond, by the ranks in the records.
        self.blocks.sort(records, block, keys);
        (self.blocks.rank(records, block, place_of(keys[middle])), middle)
    }

    /// Moves some elements of a block to blank places of another one, which must have enough places and columns, and
    /// updates their records.
    fn move_elements(&mut self, records: &mut Records, source: Range, target: Range, keys: &[u64]) {
        let mut meta = *self.blocks.meta(target.block);
        for key in keys {
            let (from, to) = (place_of(*key), meta.first_blank().expect("there is room"));
            let handle = self.blocks.view(source.block).at(from).expect("a taken place");
            // The exact deadline of a far element is only in its record.
            let deadline = match offset_of(*key) {
                FAR => records.rank(handle).deadline,
                offset => source.from.deadline + u64::from(offset),
            };
            let offset = offset(deadline, target.from.deadline);
            let ttl = self.blocks.ttl(source.block, from);
            meta.take(to);
            let spot = Spot::new(target.block, to);
            work::move_items::<u32>(1 + meta.columns());
            self.blocks.write(spot, meta.columns(), handle, offset, ttl);
            records.set_spot(handle, spot);
        }
        *self.blocks.meta_mut(target.block) = meta;
    }

    /// Moves a block that has elements to where it has room for `columns` columns. Returns its new handle.
    #[cold]
    fn widen(&mut self, records: &mut Records, block: Handle, columns: usize) -> Option<Handle> {
        self.blocks.view(block).handles().for_each(|(_, handle)| records.prefetch(handle));
        let new = self.blocks.widen(block, columns)?;
        self.block_moved(records, block, new);
        Some(new)
    }

    /// Sorts the first block of the timeline, if necessary.
    #[inline(always)]
    pub fn sort_head(&mut self, records: &mut Records) {
        if let Some((head, _)) = self.queues[usize::from(TIMELINE)].ends
            && !self.blocks.meta(head).is_sorted
        {
            self.sort_block(records, head);
        }
    }

    #[inline(never)]
    fn sort_block(&mut self, records: &mut Records, block: Handle) {
        self.blocks.view(block).handles().for_each(|(_, handle)| records.prefetch(handle));
        let (mut keys, len) = self.blocks.sort_keys(block);
        let keys = &mut keys[..len];
        self.blocks.sort(records, block, keys);
        self.blocks.permute(block, keys.iter().map(|key| place_of(*key)));
        for (place, handle) in self.blocks.view(block).handles() {
            if place_of(keys[place]) != place {
                records.set_spot(handle, Spot::new(block, place));
            }
        }
        self.blocks.meta_mut(block).is_sorted = true;
    }

    /// Joins a sparse block, which must not be the first, with a neighbour that is not the first either. Updates at
    /// most two thirds of a block of records, usually a quarter.
    pub(super) fn join_ranges(&mut self, records: &mut Records, sparse: Handle) {
        let meta = self.blocks.meta(sparse);
        let fits = |other: &BlockMeta| !other.is_head && other.can_join(meta);
        let Some((sparse, other)) = self.to_join(records, sparse, fits) else { return };
        // The block that stays must have enough columns for both.
        let is_wider = meta.columns() > self.blocks.meta(other.block).columns();
        let (mut target, source) = if is_wider { (sparse, other) } else { (other, sparse) };
        self.blocks.view(source.block).handles().for_each(|(_, handle)| records.prefetch(handle));
        let before = target;
        if source.from < target.from {
            self.shift(target.block, target.from.deadline - source.from.deadline);
            target.from = source.from;
        }
        let (keys, len) = self.blocks.sort_keys(source.block);
        self.move_elements(records, source, target, &keys[..len]);
        self.drop_joined(TIMELINE, source, before);
    }

    /// Returns the number of elements of a block of the timeline that are due at `now`. Reads only records whose deadlines
    /// are far from the start of the range.
    pub(super) fn count_due_in_range(&self, records: &Records, range: Range, now: u64) -> usize {
        let Range { from, block } = range;
        let offsets = self.blocks.column(block, DEADLINES);
        let is_due = |(place, handle): &(usize, Handle)| match offsets[*place] {
            FAR => records.rank(*handle).deadline <= now,
            offset => from.deadline + u64::from(offset) <= now,
        };
        self.blocks.view(block).handles().filter(is_due).count()
    }

    /// Iterates over the TTLs of all elements in the timeline.
    pub(super) fn timeline_ttls(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter(TIMELINE).flat_map(move |Range { block, .. }| {
            self.blocks.meta(block).places_from(0).map(move |place| self.blocks.ttl(block, place))
        })
    }
}
