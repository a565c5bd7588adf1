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
use super::block::{Blanked, View, was_at};
use super::blocks::Blocks;
use super::directory::{Directory, LISTED};
use super::heads::{Heads, QueueNumber, TIMELINE};
use super::ranges::Ranges;
use super::unsettled::Unsettled;
use super::votes::Votes;

/// TTLs that have a queue of their own at the most. The paper's systems have a few dozen; with more, their last blocks and
/// heads drive each other out of the caches.
const QUEUES_MAX: usize = if TINY { 6 } else { 1024 };
/// Queues that are begun for whatever TTL comes, …
const QUEUES_FREE: usize = if TINY { 2 } else { 16 };
/// … and elements for each one beyond, which is begun for a TTL with enough [votes](super::votes). A queue costs some 350
/// bytes, and the timeline for an element with a TTL some thirteen more than a queue.
const ELEMENTS_A_QUEUE: usize = if TINY { 4 } else { 64 };
/// Records that are read ahead: enough that they wait for memory together, few enough that they are
/// still in the nearest cache when their turn comes.
pub const AHEAD: usize = 16;
/// TTLs whose queues are remembered, as a power of two: sixteen of a few dozen would meet too often.
const RECENT_BITS: u32 = 6;

/// Returns where the queue of a TTL is remembered.
#[inline(always)]
fn recent_place(ttl: u64) -> usize {
    // Fibonacci hashing: TTLs are round numbers, which differ in their middle bits.
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
    pub(super) unread: Option<Spot>,
}

/// Where an element will be filed: see [`Queues::foresee`].
#[derive(Clone, Copy)]
pub enum Foreseen {
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
    pub(super) directory: Directory,
    /// The queues that lost their heads last: `heads` still has the turns of those, which are too early.
    pub(super) unsettled: Unsettled,
    /// Where the blocks of the timeline begin.
    pub ranges: Ranges,
    /// Elements in the timeline.
    pub(super) timed: usize,
    pub(super) votes: Votes,
    /// For some TTLs that an element was started with lately, the number that the queue had then.
    recent: [QueueNumber; 1 << RECENT_BITS],
}

impl Queues {
    pub fn new(hasher: RandomState) -> Self {
        // No element is late enough to be appended to the timeline.
        let timeline = Queue { ttl: u64::MAX, ends: None, latest: u64::MAX, unread: None };
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
            directory: Directory::default(),
            unsettled: Unsettled::default(),
            ranges: Ranges::default(),
            timed: 0,
            votes: Votes::default(),
            recent: [TIMELINE; 1 << RECENT_BITS],
        }
    }

    /// Returns where an element will be filed, unless something else changes before: looked up beforehand, so that other memory
    /// that it takes can be waited for meanwhile. `else_ask` is called if this asks for memory.
    #[inline(always)]
    pub fn foresee(&self, ttl: u64, turn: Turn, else_ask: impl FnOnce()) -> Foreseen {
        let number = self.recent[recent_place(ttl)];
        let queue = self.queues.get(usize::from(number));
        if queue.is_some_and(|queue| queue.ttl == ttl && queue.latest <= turn.deadline) {
            return Foreseen::Queue(number);
        }
        else_ask();
        Foreseen::Timeline(self.foresee_in_timeline(turn))
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
        foreseen: Foreseen,
    ) -> Spot {
        let range = match foreseen {
            Foreseen::Queue(number) => match self.append_foreseen(number, handle, turn) {
                Some(spot) => return spot,
                None => None,
            },
            Foreseen::Timeline(range) => range,
        };
        self.push_anywhere(records, handle, (ttl, turn), elements, range)
    }

    /// Does what [`Queues::push`] does for nearly all elements: for those whose queue was foreseen, and has a place for them at
    /// its end. `None` for all others; then nothing has changed.
    #[inline(always)]
    pub fn append_foreseen(
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
    fn push_anywhere(
        &mut self,
        records: &mut Records,
        handle: Handle,
        (ttl, turn): (u64, Turn),
        elements: usize,
        range: Option<(u64, Handle)>,
    ) -> Spot {
        let spot = match self.find(ttl) {
            Some(number) => self.push_to(records, number, handle, turn),
            None => {
                let enough = QUEUES_FREE + elements / ELEMENTS_A_QUEUE;
                let may_start = self.len() < QUEUES_FREE
                    || self.len() < enough.min(QUEUES_MAX)
                        && self.votes.vote(self.hasher.hash_one(ttl), elements);
                if may_start { self.start_queue(handle, ttl, turn) } else { None }
            }
        };
        let spot = spot.or_else(|| self.put(records, handle, ttl, turn, range));
        // A block has a place for as many as a page of records at least, and there are as many pages of both.
        spot.expect("there are fewer blocks than records")
    }

    /// Appends an element to a queue, if it comes after all others of it.
    fn push_to(
        &mut self,
        records: &Records,
        number: QueueNumber,
        handle: Handle,
        turn: Turn,
    ) -> Option<Spot> {
        let queue = &mut self.queues[usize::from(number)];
        self.recent[recent_place(queue.ttl)] = number;
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
            Blanked::Quietly => {}
            Blanked::Head => self.lost_head(records, spot.block),
            Blanked::Disorder => self.removed(records, spot),
        }
    }

    /// Blanks the place of a record. What comes of it is the caller's to see to.
    #[inline(always)]
    pub fn blank(&mut self, spot: Spot) -> Blanked {
        let bits = self.blocks.bits_mut(spot.block);
        self.timed -= usize::from(bits.queue == TIMELINE);
        bits.remove(spot.place)
    }

    /// Puts in order the block of a place that was [blanked](Queues::blank), and which is empty or sparse by now. The
    /// record that was there still has the turn that it had.
    #[inline(never)]
    pub fn removed(&mut self, records: &mut Records, spot: Spot) {
        let bits = *self.blocks.bits(spot.block);
        if bits.is_empty() {
            let left = self.blocks.left_at(spot.block, spot.place);
            if bits.queue == TIMELINE {
                self.ranges.remove(records.turn(left.expect("a block had an element")));
            } else {
                self.directory.unlist(&mut self.blocks, records, spot.block, left);
            }
            self.drop_block(spot.block);
        } else if bits.is_sparse() && !bits.is_head {
            // The first block will be empty soon, and is at most one to a queue.
            if bits.queue == TIMELINE {
                self.join_ranges(records, spot.block);
            } else {
                self.join(records, spot.block);
            }
        }
        if bits.is_head {
            match self.queues[usize::from(bits.queue)].ends {
                Some((head, _)) => self.lost_head(records, head),
                None => self.queue_ended(bits.queue),
            }
        }
    }

    /// Takes the head of a queue out, which is at `spot`. The heap is told of the next head when it is asked: a run of
    /// heads costs one change of it.
    #[inline(always)]
    pub fn take_head(&mut self, spot: Spot) {
        let bits = self.blocks.bits_mut(spot.block);
        bits.remove(spot.place);
        self.timed -= usize::from(bits.queue == TIMELINE);
        let (number, is_empty, is_listed) = (bits.queue, bits.is_empty(), bits.unlisted == LISTED);
        if !self.unsettled.has(number) {
            // Heads were settled before the run, and no other queue has lost one.
            self.unsettled.add(number);
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
                self.queue_ended(number);
            }
        }
    }

    /// Returns the next few handles of the queue with the earliest head, unless they have been asked for before.
    pub fn unread(&mut self) -> Option<[Option<Handle>; AHEAD]> {
        let (_, number) = self.heads.first()?;
        let queue = &mut self.queues[usize::from(number)];
        let (head, _) = queue.ends?;
        let block = self.blocks.view(head);
        let first = block.bits.first_place()?;
        if queue.unread.is_some_and(|it| it.block == head && first < it.place.into()) {
            return None;
        }
        let mut ahead = [None; AHEAD];
        for (next, (place, handle)) in ahead.iter_mut().zip(block.handles_from(first)) {
            *next = Some(handle);
            queue.unread = Some(Spot::new(head, place + 1));
        }
        Some(ahead)
    }

    /// Returns the TTL of an element, which its queue has or, in the timeline, it alone.
    pub fn ttl(&self, spot: Spot) -> u64 {
        match self.blocks.bits(spot.block).queue {
            TIMELINE => self.blocks.ttl(spot.block, spot.place.into()),
            number => self.queues[usize::from(number)].ttl,
        }
    }

    /// Returns how many elements are in no queue.
    pub fn timed(&self) -> usize {
        self.timed
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
        let queue = Queue { ttl, ends: Some((block, block)), latest: turn.deadline, unread: None };
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
        self.recent[recent_place(ttl)] = number;
        self.blocks.bits_mut(block).queue = number;
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
                self.directory.count_unlisted(&mut self.blocks, tail, new, turn);
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
        let View { bits, block } = self.blocks.view(handle);
        let (queue, prev, next) = (bits.queue, block.prev, block.next);
        self.blocks.remove(handle);
        if let Some(prev) = prev {
            self.blocks.block_mut(prev).next = next;
        }
        if let Some(next) = next {
            self.blocks.block_mut(next).prev = prev;
            self.blocks.bits_mut(next).is_head = prev.is_none();
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
    fn shorten(&mut self) {
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
        let View { bits, block } = view;
        let fits = |other: &Handle| self.blocks.bits(*other).can_join(bits);
        let Some(target) = block.next.filter(fits).or(block.prev.filter(fits)) else { return };
        // Their records will be told, and nobody has looked at them lately.
        view.handles().for_each(|(_, handle)| records.prefetch(handle));
        self.directory.list_joined(&mut self.blocks, records, handle, target);
        let before = self.blocks.join(target, handle);
        let joined = self.blocks.view(target).handles();
        for (place, handle) in joined.filter(|(at, it)| was_at(&before, *at) != Some(*it)) {
            records.set_spot(handle, Spot::new(target, place));
        }
        self.drop_block(handle);
    }

    /// Ends a queue that has lost its last element.
    #[cold]
    fn queue_ended(&mut self, number: QueueNumber) {
        self.unsettled.remove(number);
        self.heads.remove(number);
        self.shorten();
    }

    /// Takes note that a block has moved: its neighbours, and the records in it, point to where it was.
    pub(super) fn block_moved(&mut self, records: &mut Records, new: Handle) {
        let View { bits, block } = self.blocks.view(new);
        let (queue, prev, next) = (bits.queue, block.prev, block.next);
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
