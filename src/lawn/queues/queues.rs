//! One FIFO queue for each frequent TTL, and the heap over their heads.
//!
//! Elements that are pushed with one TTL come due in the order of pushing, so appending keeps a queue sorted by rank.
//! Elements that break this rule (after the clock stepped back, or with a deadline given from outside), and elements
//! whose TTL is too rare for a queue, go to the [timeline](super::timeline), which accepts any order.
//!
//! ```text
//!   by_ttl { 1000: q0, 60000: q1 }      heads (heap): q0 @ t=5, q1 @ t=9
//!      q0  head ─▶ [ a b c · e f g h · j k l m ] ⇄ [ n o p ] ◀─ tail
//!      q1  head ─▶ [ x y ] ◀─ tail                       · the blank of a stopped element
//! ```
//!
//! Appending and stopping are O(1). An empty queue is dropped, as in the paper.

use std::collections::BTreeSet;

use ahash::RandomState;
use hashbrown::HashTable;

use super::super::memory::{push_tight, shrink};
use super::super::rank::Rank;
use super::super::store::{Handle, Records, Spot};
use super::super::tiny::TINY;
use super::super::work;
use super::block::{Blanked, BlockMeta, BlockView};
use super::blocks::Blocks;
use super::heads::{Heads, QueueNumber, TIMELINE};
use super::ranges::{Around, Range, Ranges};
use super::votes::Votes;

/// TTLs with a queue, at most. The paper's systems have a few dozen. With more, their last blocks and heads evict each
/// other from the caches.
const QUEUES_MAX: usize = if TINY { 6 } else { 1024 };
/// The first queues are created for any TTL …
const UNCONDITIONAL_QUEUES: usize = if TINY { 2 } else { 16 };
/// … and one more for each [`ELEMENTS_PER_QUEUE`] elements, for a TTL with enough [votes](super::votes). A queue costs
/// some 350 bytes; an element with a TTL costs some 13 bytes more in the timeline than in a queue.
const ELEMENTS_PER_QUEUE: usize = if TINY { 4 } else { 64 };
/// Records to prefetch at once: enough for their cache misses to overlap, few enough to stay in the first-level cache
/// until they are used.
pub const AHEAD: usize = 16;
/// The number of cached TTLs, as a power of two. With sixteen, a few dozen TTLs would collide too often.
const RECENT_BITS: u32 = 7;

/// Returns the cache slot of a TTL.
#[inline(always)]
fn recent_slot(ttl: u64) -> usize {
    // Fibonacci hashing: TTLs are round numbers, which differ in their middle bits.
    (ttl.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS)) as usize
}

#[derive(Clone)]
pub(super) struct Queue {
    pub(super) ttl: u64,
    /// The first and the last block. `None` for a free number.
    pub(super) ends: Option<(Handle, Handle)>,
    /// No element has a later deadline. May be too late once the last element was stopped, and by a millisecond since push
    /// numbers have started over.
    pub(super) latest: u64,
    /// Handles before this spot were prefetched.
    pub(super) prefetched_to: Option<Spot>,
    /// Set while the queue is in [`Queues::stale`].
    pub(super) is_stale: bool,
}

/// The block of the timeline that an element is likely to be inserted into, and the deadline where the block's range
/// begins: see [`Queues::predict_range`].
pub type PredictedRange = Option<(u64, Handle)>;

/// All queues of a lawn.
#[derive(Clone)]
pub struct Queues {
    /// Clients choose TTLs and must not be able to choose colliding ones.
    hasher: RandomState,
    pub blocks: Blocks,
    pub(super) queues: Vec<Queue>,
    /// Free queue numbers, all below the highest one in use.
    pub(super) free: BTreeSet<QueueNumber>,
    pub(super) by_ttl: HashTable<QueueNumber>,
    pub(super) heads: Heads,
    /// The queues whose turns in `heads` are stale, that is, too early; oldest first.
    pub(super) stale: Vec<QueueNumber>,
    /// Where each block begins.
    pub ranges: Ranges,
    /// Elements in the timeline.
    pub timeline_len: usize,
    pub(super) votes: Votes,
    /// A cache of queue numbers by TTL. An entry may be out of date.
    recent: [QueueNumber; 1 << RECENT_BITS],
}

impl Queues {
    pub fn new(hasher: RandomState) -> Self {
        // With this `latest`, no element is ever appended to the timeline.
        let timeline = Queue {
            ttl: u64::MAX,
            ends: None,
            latest: u64::MAX,
            prefetched_to: None,
            is_stale: false,
        };
        // Most lawns just above the small form have one TTL.
        let mut queues = Vec::with_capacity(2);
        queues.push(timeline);
        Self {
            hasher,
            blocks: Blocks::new(),
            queues,
            free: BTreeSet::new(),
            by_ttl: HashTable::new(),
            heads: Heads::default(),
            stale: Vec::new(),
            ranges: Ranges::default(),
            timeline_len: 0,
            votes: Votes::default(),
            recent: [TIMELINE; 1 << RECENT_BITS],
        }
    }

    /// Predicts where in the timeline an element will be inserted, so that its memory can be fetched early. `None` if it
    /// probably belongs to a queue. Valid until the next change. `prefetch_index` is called if the prediction has to wait
    /// for memory itself.
    ///
    /// A queue is not predicted: to read it before the index would delay both.
    #[inline(always)]
    pub fn predict_range(
        &self,
        ttl: u64,
        rank: Rank,
        prefetch_index: impl FnOnce(),
    ) -> PredictedRange {
        if self.timeline_len == 0 || self.recent_queue(ttl, rank).is_some() {
            return None;
        }
        prefetch_index();
        self.predict_in_timeline(rank)
    }

    /// Returns the number of the cached queue of `ttl`, if it accepts an element with this rank at its tail.
    #[inline(always)]
    fn recent_queue(&self, ttl: u64, rank: Rank) -> Option<QueueNumber> {
        let number = self.recent[recent_slot(ttl)];
        let queue = self.queues.get(usize::from(number))?;
        (queue.ttl == ttl && queue.latest <= rank.deadline).then_some(number)
    }

    /// Inserts a record into the queue of `ttl` or into the timeline, and returns its spot. The caller must store the
    /// spot in the record. `elements` is the number of elements in the lawn.
    #[inline(always)]
    pub fn push(
        &mut self,
        records: &mut Records,
        handle: Handle,
        (ttl, rank): (u64, Rank),
        elements: usize,
        predicted: PredictedRange,
    ) -> Spot {
        match self.append_recent(handle, ttl, rank, predicted) {
            Some(spot) => spot,
            None => self.push_slow(records, handle, (ttl, rank), elements, predicted),
        }
    }

    /// Appends a record to the cached queue of `ttl`: the fast path of [`Queues::push`], taken by nearly all elements.
    /// `None` if there is no such queue, or its tail block is full; then nothing has changed.
    #[inline(always)]
    pub fn append_recent(
        &mut self,
        handle: Handle,
        ttl: u64,
        rank: Rank,
        predicted: PredictedRange,
    ) -> Option<Spot> {
        if predicted.is_some() {
            return None;
        }
        let number = self.recent_queue(ttl, rank)?;
        let queue = &mut self.queues[usize::from(number)];
        let (_, tail) = queue.ends?;
        let place = self.blocks.append(tail, handle)?;
        queue.latest = rank.deadline;
        Some(Spot::new(tail, place))
    }

    /// Called before push numbers start over: elements with the deadline of a queue's last one no longer follow it.
    pub fn start_over(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.latest = queue.latest.saturating_add(1));
    }

    /// The slow path of [`Queues::push`], for any element.
    #[inline(never)]
    fn push_slow(
        &mut self,
        records: &mut Records,
        handle: Handle,
        (ttl, rank): (u64, Rank),
        elements: usize,
        predicted: PredictedRange,
    ) -> Spot {
        let spot = match self.find(ttl) {
            Some(number) => self.push_to_queue(records, number, handle, rank),
            None => {
                let enough = UNCONDITIONAL_QUEUES + elements / ELEMENTS_PER_QUEUE;
                let may_start = self.len() < UNCONDITIONAL_QUEUES
                    || self.len() < enough.min(QUEUES_MAX)
                        && self.votes.vote(self.hasher.hash_one(ttl), elements);
                if may_start { self.start_queue(handle, ttl, rank) } else { None }
            }
        };
        let spot = spot.or_else(|| self.push_to_timeline(records, handle, ttl, rank, predicted));
        // A block holds several records on average, so the records run out of handles first.
        spot.expect("there are fewer blocks than records")
    }

    /// Inserts a record into the timeline, wherever its rank is among the others, and returns its spot.
    pub fn push_out_of_order(
        &mut self,
        records: &mut Records,
        handle: Handle,
        ttl: u64,
        rank: Rank,
    ) -> Spot {
        let spot = self.push_to_timeline(records, handle, ttl, rank, None);
        spot.expect("there are fewer blocks than records")
    }

    /// Appends an element to a queue. `None` if it does not come after all others there.
    fn push_to_queue(
        &mut self,
        records: &Records,
        number: QueueNumber,
        handle: Handle,
        rank: Rank,
    ) -> Option<Spot> {
        let queue = &mut self.queues[usize::from(number)];
        self.recent[recent_slot(queue.ttl)] = number;
        if rank.deadline < queue.latest {
            let (_, tail) = queue.ends.expect("a queue in the table is not empty");
            let last = self.blocks.view(tail).last().expect("a block is not empty");
            let last = records.rank(last);
            if rank < last {
                // Since push numbers started over, the next one in the last one's millisecond is too early, too.
                queue.latest = last.deadline + u64::from(rank.push < last.push);
                return None;
            }
        }
        let (_, tail) = queue.ends.expect("a queue in the table is not empty");
        queue.latest = rank.deadline;
        if let Some(place) = self.blocks.append(tail, handle) {
            return Some(Spot::new(tail, place));
        }
        let new = self.insert_block(BlockMeta::new(number), rank)?;
        let place = self.blocks.append(new, handle)?;
        Some(Spot::new(new, place))
    }

    /// Removes a record from its queue or from the timeline.
    #[inline(always)]
    pub fn remove(&mut self, records: &mut Records, spot: Spot) {
        match self.blank(spot) {
            Blanked::Unchanged => {}
            Blanked::HeadRemoved => self.head_removed(records, spot.block),
            Blanked::NeedsRepair => self.repair_block(records, spot),
        }
    }

    /// Blanks a record's place. The caller must act on the result.
    #[inline(always)]
    pub fn blank(&mut self, spot: Spot) -> Blanked {
        let meta = self.blocks.meta_mut(spot.block);
        self.timeline_len -= usize::from(meta.queue == TIMELINE);
        meta.remove(spot.place)
    }

    /// Repairs a block that is empty or sparse after a place was [blanked](Queues::blank). The record must still have
    /// its old rank.
    #[inline(never)]
    pub fn repair_block(&mut self, records: &mut Records, spot: Spot) {
        let meta = *self.blocks.meta(spot.block);
        if meta.is_empty() {
            let left = self.blocks.slab.unit(spot.block).handle(spot.place.into());
            let rank = records.rank(left.expect("a block had an element"));
            self.drop_block(meta.queue, rank);
        } else if meta.is_sparse() && !meta.is_head {
            // The first block will be empty soon, and there is only one per queue.
            if meta.queue == TIMELINE {
                self.join_ranges(records, spot.block);
            } else {
                self.join(records, spot.block);
            }
        }
        if meta.is_head {
            match self.queues[usize::from(meta.queue)].ends {
                Some((head, _)) => self.head_removed(records, head),
                None => self.remove_queue(meta.queue),
            }
        }
    }

    /// Removes the head of a queue, which is at `spot` and has this rank. The heap is updated on demand, once for a run of removals.
    #[inline(always)]
    pub fn remove_head(&mut self, spot: Spot, rank: Rank) {
        let meta = self.blocks.meta_mut(spot.block);
        // A head block is never sparse, and what is to be done is done below.
        _ = meta.remove(spot.place);
        self.timeline_len -= usize::from(meta.queue == TIMELINE);
        let (number, is_empty) = (meta.queue, meta.is_empty());
        if !std::mem::replace(&mut self.queues[usize::from(number)].is_stale, true) {
            self.stale.push(number);
        }
        // The heap was up to date before the run, and no other queue has lost its head since.
        debug_assert_eq!(self.stale, [number], "the heap was not up to date");
        if is_empty {
            self.drop_block(number, rank);
            if self.queues.get(usize::from(number)).is_none_or(|queue| queue.ends.is_none()) {
                self.remove_queue(number);
            }
        }
    }

    /// Returns the next few handles of the queue with the earliest head, unless they were returned before.
    pub fn handles_to_prefetch(&mut self) -> Option<[Option<Handle>; AHEAD]> {
        let (_, number) = self.heads.at(0)?;
        let queue = &mut self.queues[usize::from(number)];
        let (head, _) = queue.ends?;
        let block = self.blocks.view(head);
        let first = block.meta.first_place()?;
        if queue.prefetched_to.is_some_and(|it| it.block == head && first < it.place.into()) {
            return None;
        }
        let mut ahead = [None; AHEAD];
        for (next, (place, handle)) in ahead.iter_mut().zip(block.handles_from(first)) {
            *next = Some(handle);
            queue.prefetched_to = Some(Spot::new(head, place + 1));
        }
        Some(ahead)
    }

    /// Returns the TTL of an element: that of its queue or, in the timeline, its own.
    pub fn ttl(&self, spot: Spot) -> u64 {
        match self.blocks.meta(spot.block).queue {
            TIMELINE => self.blocks.ttl(spot.block, spot.place.into()),
            number => self.queues[usize::from(number)].ttl,
        }
    }

    /// Returns the number of queues.
    pub fn len(&self) -> usize {
        self.by_ttl.len()
    }

    /// Returns the number of TTLs: of queues, and of elements in the timeline, each of which counts as one.
    pub fn ttls(&self) -> usize {
        self.by_ttl.len() + self.timeline_len
    }

    /// Replaces the handle of a record that was moved or replaced. The rank must be the same.
    pub fn replace(&mut self, spot: Spot, new: Handle) {
        self.blocks.slab.unit_mut(spot.block).set_handle(spot.place.into(), new);
    }

    pub(super) fn find(&self, ttl: u64) -> Option<QueueNumber> {
        let is_it = |number: &QueueNumber| self.queues[usize::from(*number)].ttl == ttl;
        self.by_ttl.find(self.hasher.hash_one(ttl), is_it).copied()
    }

    fn start_queue(&mut self, handle: Handle, ttl: u64, rank: Rank) -> Option<Spot> {
        let queue =
            Queue { ttl, ends: None, latest: rank.deadline, prefetched_to: None, is_stale: false };
        // Lowest first, so that the list of queues can shrink.
        let number = if let Some(number) = self.free.pop_first() {
            self.queues[usize::from(number)] = queue;
            number
        } else {
            push_tight(&mut self.queues, queue);
            (self.queues.len() - 1) as QueueNumber
        };
        let Some(block) = self.insert_block(BlockMeta::new(number), rank) else {
            self.free.insert(number);
            return None;
        };
        let (hasher, queues) = (&self.hasher, &self.queues);
        let rehash = |number: &QueueNumber| hasher.hash_one(queues[usize::from(*number)].ttl);
        let grows = self.by_ttl.len() == self.by_ttl.capacity();
        work::move_items::<QueueNumber>(if grows { self.by_ttl.len() } else { 0 });
        self.by_ttl.insert_unique(hasher.hash_one(ttl), number, rehash);
        self.heads.set(number, rank);
        self.recent[recent_slot(ttl)] = number;
        let place = self.blocks.append(block, handle)?;
        Some(Spot::new(block, place))
    }

    /// Inserts an empty block whose range begins at this rank. In a queue it must be the last one.
    pub(super) fn insert_block(&mut self, mut meta: BlockMeta, from: Rank) -> Option<Handle> {
        let ends = &mut self.queues[usize::from(meta.queue)].ends;
        meta.is_head = ends.is_none();
        let block = self.blocks.insert(meta)?;
        self.ranges.insert(meta.queue, Range { from, block });
        let (head, tail) = ends.unwrap_or((block, block));
        let is_last = meta.queue != TIMELINE
            || self.ranges.last(TIMELINE).is_some_and(|it| it.block == block);
        *ends = Some((head, if is_last { block } else { tail }));
        Some(block)
    }

    /// Frees an empty block whose range contains this rank, and its queue with the last block.
    #[inline(never)]
    pub(super) fn drop_block(&mut self, queue: QueueNumber, rank: Rank) {
        let Around { before, range, behind } = self.ranges.remove(queue, rank);
        self.blocks.remove(range.block);
        let entry = &mut self.queues[usize::from(queue)];
        let (head, tail) = entry.ends.as_mut().expect("a queue with a block");
        match (before, behind) {
            (Some(_), Some(_)) => {}
            (Some(before), None) => *tail = before.block,
            (None, Some(behind)) => {
                *head = behind.block;
                self.blocks.meta_mut(behind.block).is_head = true;
            }
            (None, None) => {
                entry.ends = None;
                if queue != TIMELINE {
                    let hash = self.hasher.hash_one(entry.ttl);
                    let found = self.by_ttl.find_entry(hash, |number| *number == queue);
                    found.expect("a queue is in the table").remove();
                    self.free.insert(queue);
                }
            }
        }
    }

    /// Returns the range of a block that has an element, and the one beside it that `fits`, preferably the next one.
    pub(super) fn to_join(
        &self,
        records: &Records,
        block: Handle,
        fits: impl Fn(&BlockMeta) -> bool,
    ) -> Option<(Range, Range)> {
        let view = self.blocks.view(block);
        let rank = records.rank(view.first().expect("a block is not empty"));
        let Around { before, range, behind } = self.ranges.around(view.meta.queue, rank);
        let fits = |range: &Range| fits(self.blocks.meta(range.block));
        Some((range, behind.filter(fits).or(before.filter(fits))?))
    }

    /// Moves the handles of a sparse block, not the first, to a neighbour with room. At most half a block of records is
    /// updated, few compared with the removals that made the block sparse.
    #[inline(never)]
    fn join(&mut self, records: &mut Records, block: Handle) {
        let view = self.blocks.view(block);
        let number = view.meta.queue;
        // These records are about to be updated, and are probably not in the cache.
        view.handles().for_each(|(_, handle)| records.prefetch(handle));
        let fits = |other: &BlockMeta| other.can_join(view.meta);
        let Some((source, target)) = self.to_join(records, block, fits) else { return };
        let is_earlier = target.from < source.from;
        let (meta, block) = self.blocks.join(target.block, source.block, is_earlier);
        let before = BlockView { meta: &meta, block: &block };
        for (place, handle) in self.blocks.view(target.block).handles() {
            if before.at(place) != Some(handle) {
                records.set_spot(handle, Spot::new(target.block, place));
            }
        }
        self.drop_joined(number, source, target);
    }

    /// Frees a block, not the first, whose elements are in its neighbour `target` now.
    pub(super) fn drop_joined(&mut self, queue: QueueNumber, source: Range, target: Range) {
        if target.from < source.from {
            return self.drop_block(queue, source.from);
        }
        self.ranges.remove(queue, target.from);
        self.ranges.replace(queue, source.from, target.block);
        self.blocks.remove(source.block);
    }

    /// Removes a queue that has lost its last element. Drops free numbers at the end, and frees what many queues allocated.
    #[cold]
    fn remove_queue(&mut self, number: QueueNumber) {
        if std::mem::take(&mut self.queues[usize::from(number)].is_stale) {
            self.stale.retain(|it| *it != number);
        }
        self.heads.remove(number);
        let last = self.queues.iter().rposition(|queue| queue.ends.is_some());
        // The timeline always stays.
        let length = last.map_or(1, |last| last + 1);
        if length < self.queues.len() {
            self.queues.truncate(length);
            drop(self.free.split_off(&(length as QueueNumber)));
            shrink(&mut self.queues);
        }
        self.heads.truncate(self.queues.len());
        if self.by_ttl.len() * 8 < self.by_ttl.capacity() {
            let (hasher, queues) = (&self.hasher, &self.queues);
            let rehash = |number: &QueueNumber| hasher.hash_one(queues[usize::from(*number)].ttl);
            work::move_items::<QueueNumber>(self.by_ttl.len());
            self.by_ttl.shrink_to(self.by_ttl.len() * 2, rehash);
        }
    }

    /// Updates everything that refers to a block that has moved and has elements: its range, its queue, and their records.
    pub(super) fn block_moved(&mut self, records: &mut Records, old: Handle, new: Handle) {
        let view = self.blocks.view(new);
        let first = view.first().expect("a block is not empty");
        self.ranges.replace(view.meta.queue, records.rank(first), new);
        let ends = self.queues[usize::from(view.meta.queue)].ends.as_mut();
        let ends = ends.expect("a queue with a block");
        for end in [&mut ends.0, &mut ends.1] {
            *end = if *end == old { new } else { *end };
        }
        for (place, handle) in view.handles() {
            records.set_spot(handle, Spot::new(new, place));
        }
    }
}
