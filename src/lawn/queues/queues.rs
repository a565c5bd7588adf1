//! The blades of the lawn: one FIFO queue for each TTL, and the index over their heads.
//!
//! Elements pushed with one TTL come due in the order of pushing, so appending keeps a queue sorted
//! by turn. What breaks that rule (a clock that stepped back, a deadline given from outside), and what has a TTL that is
//! not worth a queue, goes to the [timeline](super::timeline), which is sorted whatever comes.
//!
//! ```text
//!   by_ttl { 1000: q0, 60000: q1 }      heads (heap): q0 @ t=5, q1 @ t=9
//!      q0  head ─▶ [ a b c · e f g h · j k l m ] ⇄ [ n o p ] ◀─ tail
//!      q1  head ─▶ [ x y ] ◀─ tail                       · a stopped element's blank
//! ```
//!
//! Appending and stopping are O(1). A queue that runs empty goes, as in the paper.

use std::collections::BTreeSet;

use ahash::RandomState;
use hashbrown::HashTable;

use super::super::memory::{push_tight, shrink};
use super::super::store::{Handle, Records, Spot};
use super::super::tiny::TINY;
use super::super::turn::Turn;
use super::block::{Blanked, BlockView, handle_at};
use super::block_index::{BLOCKS_PER_ENTRY, BlockIndex};
use super::blocks::Blocks;
use super::heads::StaleHeads;
use super::heads::{Heads, QueueNumber, TIMELINE};
use super::ranges::Ranges;
use super::votes::Votes;

/// TTLs that have a queue of their own at the most. The paper's systems have a few dozen; with more, their last blocks and
/// heads drive each other out of the caches.
const QUEUES_MAX: usize = if TINY { 6 } else { 1024 };
/// Queues that are begun for whatever TTL comes, …
const UNCONDITIONAL_QUEUES: usize = if TINY { 2 } else { 16 };
/// … and elements for each one beyond, which is begun for a TTL with enough [votes](super::votes). A queue costs some 350
/// bytes, and the timeline for an element with a TTL some thirteen more than a queue.
const ELEMENTS_PER_QUEUE: usize = if TINY { 4 } else { 64 };
/// Records that are read ahead: enough that they wait for memory together, few enough that they are
/// still in the nearest cache when their turn comes.
pub const AHEAD: usize = 16;
/// TTLs whose queues are remembered, as a power of two: sixteen of a few dozen would meet too often.
const RECENT_BITS: u32 = 6;

/// Returns where the queue of a TTL is remembered.
#[inline(always)]
fn recent_slot(ttl: u64) -> usize {
    // Fibonacci hashing: TTLs are round numbers, which differ in their middle meta.
    (ttl.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS)) as usize
}

#[derive(Clone)]
pub(super) struct Queue {
    pub(super) ttl: u64,
    /// The first and the last block; both are `None` for a number that is free.
    pub(super) ends: Option<(Handle, Handle)>,
    /// No element has a later deadline. It may be too late when the last element was stopped.
    pub(super) latest: u64,
    /// From here on nothing has been read ahead.
    pub(super) prefetched_to: Option<Spot>,
}

/// Where an element will be filed: see [`Queues::predict_slot`].
#[derive(Clone, Copy)]
pub enum PredictedSlot {
    /// Behind the last element of a queue.
    Queue(QueueNumber),
    /// In a block of the timeline, unless its TTL has a queue that was not wanted lately.
    Timeline(Option<(u64, Handle)>),
}

/// All queues of a lawn.
#[derive(Clone)]
pub struct Queues {
    /// TTLs are chosen by users, who must not be able to choose colliding ones.
    hasher: RandomState,
    pub blocks: Blocks,
    pub(super) queues: Vec<Queue>,
    /// Numbers without a queue, all below the last one with a queue.
    pub(super) free: BTreeSet<QueueNumber>,
    pub(super) by_ttl: HashTable<QueueNumber>,
    pub(super) heads: Heads,
    pub(super) directory: BlockIndex,
    /// The queues that lost their heads last: `heads` still has the turns of those, which are too early.
    pub(super) stale: StaleHeads,
    /// Where the blocks of the timeline begin.
    pub ranges: Ranges,
    /// Elements in the timeline.
    pub(super) timeline_len: usize,
    pub(super) votes: Votes,
    /// For some TTLs that an element was started with lately, the number that the queue had then.
    recent: [QueueNumber; 1 << RECENT_BITS],
}

impl Queues {
    pub fn new(hasher: RandomState) -> Self {
        // No element is late enough to be appended to the timeline.
        let timeline = Queue { ttl: u64::MAX, ends: None, latest: u64::MAX, prefetched_to: None };
        // Most lawns that are just large enough for all this have one TTL.
        let mut queues = Vec::with_capacity(2);
        queues.push(timeline);
        Self {
            hasher,
            blocks: Blocks::new(),
            queues,
            free: BTreeSet::new(),
            by_ttl: HashTable::new(),
            heads: Heads::default(),
            directory: BlockIndex::default(),
            stale: StaleHeads::default(),
            ranges: Ranges::default(),
            timeline_len: 0,
            votes: Votes::default(),
            recent: [TIMELINE; 1 << RECENT_BITS],
        }
    }

    /// Returns where an element will be filed, unless something else changes before: looked up beforehand, so that other memory
    /// that it takes can be waited for meanwhile. `prefetch_index` is called if this asks for memory.
    #[inline(always)]
    pub fn predict_slot(
        &self,
        ttl: u64,
        turn: Turn,
        prefetch_index: impl FnOnce(),
    ) -> PredictedSlot {
        let number = self.recent[recent_slot(ttl)];
        let queue = self.queues.get(usize::from(number));
        if queue.is_some_and(|queue| queue.ttl == ttl && queue.latest <= turn.deadline) {
            return PredictedSlot::Queue(number);
        }
        prefetch_index();
        PredictedSlot::Timeline(self.predict_in_timeline(turn))
    }

    /// Files a record in the queue of `ttl` or in the timeline, and returns where it stands now; to write that down is the
    /// caller's. There are so many `elements` in the lawn.
    #[inline(always)]
    pub fn push(
        &mut self,
        records: &mut Records,
        handle: Handle,
        (ttl, turn): (u64, Turn),
        elements: usize,
        predicted: PredictedSlot,
    ) -> Spot {
        let range = match predicted {
            PredictedSlot::Queue(number) => match self.append_predicted(number, handle, turn) {
                Some(spot) => return spot,
                None => None,
            },
            PredictedSlot::Timeline(range) => range,
        };
        self.push_slow(records, handle, (ttl, turn), elements, range)
    }

    /// Does what [`Queues::push`] does for nearly all elements: for those whose queue was predicted, and has a place for them at
    /// its end. `None` for all others; then nothing has changed.
    #[inline(always)]
    pub fn append_predicted(
        &mut self,
        number: QueueNumber,
        handle: Handle,
        turn: Turn,
    ) -> Option<Spot> {
        let queue = &mut self.queues[usize::from(number)];
        let (_, tail) = queue.ends?;
        let place = self.blocks.append(tail, handle)?;
        queue.latest = turn.deadline;
        Some(Spot::new(tail, place))
    }

    /// Does what [`Queues::push`] does for any element.
    #[inline(never)]
    fn push_slow(
        &mut self,
        records: &mut Records,
        handle: Handle,
        (ttl, turn): (u64, Turn),
        elements: usize,
        range: Option<(u64, Handle)>,
    ) -> Spot {
        let spot = match self.find(ttl) {
            Some(number) => self.push_to_queue(records, number, handle, turn),
            None => {
                let enough = UNCONDITIONAL_QUEUES + elements / ELEMENTS_PER_QUEUE;
                let may_start = self.len() < UNCONDITIONAL_QUEUES
                    || self.len() < enough.min(QUEUES_MAX)
                        && self.votes.vote(self.hasher.hash_one(ttl), elements);
                if may_start { self.start_queue(handle, ttl, turn) } else { None }
            }
        };
        let spot = spot.or_else(|| self.push_to_timeline(records, handle, ttl, turn, range));
        // A block has a place for as many as a page of records at least, and there are as many pages of both.
        spot.expect("there are fewer blocks than records")
    }

    /// Appends an element to a queue, if it comes after all others of it.
    fn push_to_queue(
        &mut self,
        records: &Records,
        number: QueueNumber,
        handle: Handle,
        turn: Turn,
    ) -> Option<Spot> {
        let queue = &mut self.queues[usize::from(number)];
        self.recent[recent_slot(queue.ttl)] = number;
        if turn.deadline < queue.latest {
            let (_, tail) = queue.ends.expect("a queue in the table is not empty");
            let last = self.blocks.view(tail).last().expect("a block is not empty");
            queue.latest = records.turn(last).deadline;
            if turn.deadline < queue.latest {
                return None;
            }
        }
        self.append(number, handle, turn)
    }

    /// Takes a record out of its place.
    #[inline(always)]
    pub fn remove(&mut self, records: &mut Records, spot: Spot) {
        match self.blank(spot) {
            Blanked::Unchanged => {}
            Blanked::HeadRemoved => self.head_removed(records, spot.block),
            Blanked::NeedsRepair => self.repair_block(records, spot),
        }
    }

    /// Blanks the place of a record. What comes of it is the caller's to see to.
    #[inline(always)]
    pub fn blank(&mut self, spot: Spot) -> Blanked {
        let meta = self.blocks.meta_mut(spot.block);
        self.timeline_len -= usize::from(meta.queue == TIMELINE);
        meta.remove(spot.place)
    }

    /// Puts in order the block of a place that was [blanked](Queues::blank), and which is empty or sparse by now. The
    /// record that was there still has the turn that it had.
    #[inline(never)]
    pub fn repair_block(&mut self, records: &mut Records, spot: Spot) {
        let meta = *self.blocks.meta(spot.block);
        if meta.is_empty() {
            let left = self.blocks.vacated_handle(spot.block, spot.place);
            if meta.queue == TIMELINE {
                self.ranges.remove(records.turn(left.expect("a block had an element")));
            } else {
                self.directory.remove_block(&mut self.blocks, records, spot.block, left);
            }
            self.drop_block(spot.block);
        } else if meta.is_sparse() && !meta.is_head {
            // The first block will be empty soon, and is at most one to a queue.
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

    /// Takes the head of a queue out, which is at `spot`. The heap is told of the next head when it is asked: a run of
    /// heads costs one change of it.
    #[inline(always)]
    pub fn remove_head(&mut self, spot: Spot) {
        let meta = self.blocks.meta_mut(spot.block);
        meta.remove(spot.place);
        self.timeline_len -= usize::from(meta.queue == TIMELINE);
        let (number, is_empty, is_listed) =
            (meta.queue, meta.is_empty(), meta.since_indexed == BLOCKS_PER_ENTRY);
        if !self.stale.contains(number) {
            // Heads were settled before the run, and no other queue has lost one.
            self.stale.push(number);
        }
        if is_empty {
            if is_listed {
                self.directory.remove_first(number, spot.block);
            }
            if number == TIMELINE
                && let Some(first) = self.ranges.first()
            {
                self.ranges.remove(first.from);
            }
            self.drop_block(spot.block);
            if self.queues.get(usize::from(number)).is_none_or(|queue| queue.ends.is_none()) {
                self.remove_queue(number);
            }
        }
    }

    /// Returns the next few handles of the queue with the earliest head, unless they have been asked for before.
    pub fn handles_to_prefetch(&mut self) -> Option<[Option<Handle>; AHEAD]> {
        let (_, number) = self.heads.first()?;
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

    /// Returns the TTL of an element, which its queue has or, in the timeline, it alone.
    pub fn ttl(&self, spot: Spot) -> u64 {
        match self.blocks.meta(spot.block).queue {
            TIMELINE => self.blocks.ttl(spot.block, spot.place.into()),
            number => self.queues[usize::from(number)].ttl,
        }
    }

    /// Returns how many elements are in no queue.
    pub fn timeline_len(&self) -> usize {
        self.timeline_len
    }

    /// Returns how many TTLs have a queue.
    pub fn len(&self) -> usize {
        self.by_ttl.len()
    }

    /// Takes note that a record has moved, or was replaced by one with the same turn.
    pub fn replace(&mut self, spot: Spot, new: Handle) {
        self.blocks.replace(spot.block, spot.place, new);
    }

    pub(super) fn find(&self, ttl: u64) -> Option<QueueNumber> {
        let is_it = |number: &QueueNumber| self.queues[usize::from(*number)].ttl == ttl;
        self.by_ttl.find(self.hasher.hash_one(ttl), is_it).copied()
    }

    fn start_queue(&mut self, handle: Handle, ttl: u64, turn: Turn) -> Option<Spot> {
        // The number is known when there is room.
        let block = self.blocks.insert_empty(0, None)?;
        let queue =
            Queue { ttl, ends: Some((block, block)), latest: turn.deadline, prefetched_to: None };
        // The lowest first, so that the list of queues can become short again.
        let number = if let Some(number) = self.free.pop_first() {
            self.queues[usize::from(number)] = queue;
            number
        } else {
            push_tight(&mut self.queues, queue);
            (self.queues.len() - 1) as QueueNumber
        };
        let (hasher, queues) = (&self.hasher, &self.queues);
        let rehash = |number: &QueueNumber| hasher.hash_one(queues[usize::from(*number)].ttl);
        self.by_ttl.insert_unique(hasher.hash_one(ttl), number, rehash);
        self.heads.set(number, turn);
        self.recent[recent_slot(ttl)] = number;
        self.blocks.meta_mut(block).queue = number;
        let place = self.blocks.append(block, handle)?;
        Some(Spot::new(block, place))
    }

    /// Adds an element whose turn comes after all others of its queue.
    fn append(&mut self, number: QueueNumber, handle: Handle, turn: Turn) -> Option<Spot> {
        let (head, tail) = self.queues[usize::from(number)].ends.expect("a queue with a block");
        let (block, place) = match self.blocks.append(tail, handle) {
            Some(place) => (tail, place),
            None => {
                let new = self.blocks.insert_empty(number, Some(tail))?;
                let place = self.blocks.append(new, handle)?;
                self.blocks.block_mut(tail).next = Some(new);
                self.queues[usize::from(number)].ends = Some((head, new));
                self.directory.add_block(&mut self.blocks, tail, new, turn);
                (new, place)
            }
        };
        let queue = &mut self.queues[usize::from(number)];
        queue.latest = turn.deadline;
        Some(Spot::new(block, place))
    }

    /// Unlinks an empty block and frees it, and its queue with the last one.
    #[inline(never)]
    pub(super) fn drop_block(&mut self, handle: Handle) {
        let BlockView { meta, block } = self.blocks.view(handle);
        let (queue, prev, next) = (meta.queue, block.prev, block.next);
        self.blocks.remove(handle);
        if let Some(prev) = prev {
            self.blocks.block_mut(prev).next = next;
        }
        if let Some(next) = next {
            self.blocks.block_mut(next).prev = prev;
            self.blocks.meta_mut(next).is_head = prev.is_none();
        }
        let entry = &mut self.queues[usize::from(queue)];
        let (head, tail) = entry.ends.expect("a queue with a block");
        entry.ends = match (prev, next) {
            (None, None) => None,
            (None, Some(next)) => Some((next, tail)),
            (Some(prev), None) => Some((head, prev)),
            (Some(_), Some(_)) => Some((head, tail)),
        };
        if entry.ends.is_none() && queue != TIMELINE {
            let hash = self.hasher.hash_one(entry.ttl);
            let found = self.by_ttl.find_entry(hash, |number| *number == queue);
            found.expect("a queue is in the table").remove();
            self.free.insert(queue);
        }
    }

    /// Forgets numbers at the end that have no queue, and gives back what many queues took.
    fn shrink_tables(&mut self) {
        let last = self.queues.iter().rposition(|queue| queue.ends.is_some());
        // The timeline stays.
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
            self.by_ttl.shrink_to(self.by_ttl.len() * 2, rehash);
        }
    }

    /// Puts a sparse block's handles into a neighbour that has room for them. At most half a block's
    /// records are told of their new place, a small part of those that were stopped to make it sparse.
    #[inline(never)]
    fn join(&mut self, records: &mut Records, handle: Handle) {
        let view = self.blocks.view(handle);
        let BlockView { meta, block } = view;
        let fits = |other: &Handle| self.blocks.meta(*other).can_join(meta);
        let Some(target) = block.next.filter(fits).or(block.prev.filter(fits)) else { return };
        // Their records will be told, and nobody has looked at them lately.
        view.handles().for_each(|(_, handle)| records.prefetch(handle));
        self.directory.join_blocks(&mut self.blocks, records, handle, target);
        let before = self.blocks.join(target, handle);
        let joined = self.blocks.view(target).handles();
        for (place, handle) in joined.filter(|(at, it)| handle_at(&before, *at) != Some(*it)) {
            records.set_spot(handle, Spot::new(target, place));
        }
        self.drop_block(handle);
    }

    /// Ends a queue that has lost its last element.
    #[cold]
    fn remove_queue(&mut self, number: QueueNumber) {
        self.stale.remove(number);
        self.heads.remove(number);
        self.shrink_tables();
    }

    /// Takes note that a block has moved: its neighbours, and the records in it, point to where it was.
    pub(super) fn block_moved(&mut self, records: &mut Records, new: Handle) {
        let BlockView { meta, block } = self.blocks.view(new);
        let (queue, prev, next) = (meta.queue, block.prev, block.next);
        let ends = self.queues[usize::from(queue)].ends.as_mut();
        let ends = ends.expect("a queue with a block");
        match prev {
            None => ends.0 = new,
            Some(prev) => self.blocks.block_mut(prev).next = Some(new),
        }
        match next {
            None => ends.1 = new,
            Some(next) => self.blocks.block_mut(next).prev = Some(new),
        }
        for (place, handle) in self.blocks.view(new).handles() {
            records.set_spot(handle, Spot::new(new, place));
        }
    }
}
