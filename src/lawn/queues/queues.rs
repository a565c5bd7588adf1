//! The blades of the lawn: one FIFO queue for each TTL, and the index over their heads.
//!
//! Elements pushed with one TTL come due in the order of pushing, so appending keeps a queue sorted
//! by turn. What breaks that rule (a clock that stepped back, a deadline given from outside) is
//! inserted by walking back from the tail, a block of 62 at a time, [`WALK_MAX`] blocks at the
//! most. What is out of order by more than that, and a TTL for which there is no queue left, is
//! refused here and goes to the [overflow](super::overflow), which is sorted whatever comes.
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
use super::block::{Blanked, Blocks, View, was_at};
use super::directory::{Directory, LISTED};
use super::heads::{Heads, QueueNumber};
use super::unsettled::Unsettled;

/// TTLs that have a queue of their own at the most. The paper's systems have a few dozen.
const QUEUES_MAX: usize = if TINY { 6 } else { 16_384 };
/// Queues that there may be in any case, …
const QUEUES_FREE: usize = if TINY { 2 } else { 1024 };
/// … and elements for each one beyond. A queue costs some 350 bytes: with so many elements to a queue
/// that is half of what they would cost in the overflow.
const ELEMENTS_A_QUEUE: usize = if TINY { 4 } else { 16 };
/// Blocks that are walked back from the tail for an element that is out of order: about a hundred
/// elements, for at most twelve cache misses to find the block and six to find the place.
const WALK_MAX: usize = if TINY { 2 } else { 4 };
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
    /// For some TTLs that an element was started with lately, the number that the queue had then.
    recent: [QueueNumber; 1 << RECENT_BITS],
}

impl Queues {
    pub fn new(hasher: RandomState) -> Self {
        Self {
            hasher,
            blocks: Blocks::new(),
            queues: Vec::new(),
            free: BTreeSet::new(),
            by_ttl: HashTable::new(),
            heads: Heads::default(),
            directory: Directory::default(),
            unsettled: Unsettled::default(),
            recent: [0; 1 << RECENT_BITS],
        }
    }

    /// Files a record in the queue of `ttl`, and returns where it stands now; to write that down is the
    /// caller's. `None` if it does not belong into a queue, or no block could be had; then nothing has
    /// changed. There are so many `elements` in the lawn.
    #[inline(always)]
    pub fn push(
        &mut self,
        records: &mut Records,
        handle: Handle,
        ttl: u64,
        turn: Turn,
        elements: usize,
    ) -> Option<Spot> {
        if let Some(spot) = self.append_lately(handle, ttl, turn) {
            return Some(spot);
        }
        self.push_anywhere(records, handle, ttl, turn, elements)
    }

    /// Does what [`Queues::push`] does for nearly all elements: for those whose queue was wanted lately, and has a place
    /// for them at its end. `None` for all others; then nothing has changed.
    #[inline(always)]
    pub fn append_lately(&mut self, handle: Handle, ttl: u64, turn: Turn) -> Option<Spot> {
        let number = self.recent[recent_place(ttl)];
        let queue = self.queues.get_mut(usize::from(number))?;
        if queue.ttl != ttl || turn.deadline < queue.latest {
            return None;
        }
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
        ttl: u64,
        turn: Turn,
        elements: usize,
    ) -> Option<Spot> {
        let Some(number) = self.find(ttl) else {
            let enough = QUEUES_FREE + elements / ELEMENTS_A_QUEUE;
            let may_start = self.len() < enough.min(QUEUES_MAX);
            return if may_start { self.start_queue(handle, ttl, turn) } else { None };
        };
        self.recent[recent_place(ttl)] = number;
        let queue = &self.queues[usize::from(number)];
        if turn.deadline < queue.latest {
            let (_, tail) = queue.ends.expect("a queue in the table is not empty");
            let last = self.blocks.view(tail).last().expect("a block is not empty");
            let latest = records.turn(last).deadline;
            self.queues[usize::from(number)].latest = latest;
            if turn.deadline < latest {
                return self.insert_behind(records, number, handle, turn);
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
        self.blocks.bits_mut(spot.block).remove(spot.place)
    }

    /// Puts in order the block of a place that was [blanked](Queues::blank), and which is empty or sparse by now. The
    /// record that was there still has the turn that it had.
    #[inline(never)]
    pub fn removed(&mut self, records: &mut Records, spot: Spot) {
        let bits = *self.blocks.bits(spot.block);
        if bits.is_empty() {
            let left = self.blocks.left_at(spot.block, spot.place);
            self.directory.unlist(&mut self.blocks, records, spot.block, left);
            self.drop_block(spot.block);
        } else if bits.is_sparse() && !bits.is_head {
            // The first block will be empty soon, and is at most one to a queue.
            self.join(records, spot.block);
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
        let (number, is_empty, is_listed) = (bits.queue, bits.is_empty(), bits.unlisted == LISTED);
        if !self.unsettled.has(number) {
            // Heads were settled before the run, and no other queue has lost one.
            self.unsettled.add(number);
        }
        if is_empty {
            if is_listed {
                self.directory.remove_first(number, spot.block);
            }
            self.drop_block(spot.block);
            if self.queues.get(usize::from(number)).is_none_or(|queue| queue.ends.is_none()) {
                self.queue_ended(number);
            }
        }
    }

    /// Returns the queue with the earliest head: its number, its TTL and its first block. Heads must be settled.
    pub fn earliest(&self) -> Option<(QueueNumber, u64, Handle)> {
        let (_, number) = self.heads.first()?;
        let queue = &self.queues[usize::from(number)];
        Some((number, queue.ttl, queue.ends?.0))
    }

    /// Returns the first block of a queue that may have ended, if it is still the one of this TTL.
    pub fn first_block(&self, number: QueueNumber, ttl: u64) -> Option<Handle> {
        let queue = self.queues.get(usize::from(number)).filter(|queue| queue.ttl == ttl)?;
        queue.ends.map(|ends| ends.0)
    }

    /// Returns the turn of the earliest head of any other queue. Heads must be settled.
    pub fn rival(&self) -> Option<Turn> {
        self.heads.second().map(|(turn, _)| turn)
    }

    /// Returns the earliest turn in any queue, and the record that has it.
    pub fn first(&self, records: &Records) -> Option<(Turn, Handle)> {
        let (mut turn, mut number) = self.heads.first()?;
        if !self.unsettled.is_empty() {
            (turn, number) = self.first_of_unsettled(records)?;
        }
        let (head, _) = self.queues[usize::from(number)].ends?;
        Some((turn, self.blocks.first(head)?))
    }

    /// Returns the earliest head while some turns in the heap are too early: what is below those may come first.
    fn first_of_unsettled(&self, records: &Records) -> Option<(Turn, QueueNumber)> {
        let mut first: Option<(Turn, QueueNumber)> = None;
        // The places below one that is unsettled, of which there are few.
        let mut open = vec![0];
        while let Some(place) = open.pop() {
            let Some((mut turn, number)) = self.heads.at(place) else { continue };
            if first.is_some_and(|first| first.0 <= turn) {
                continue;
            }
            if self.unsettled.has(number) {
                open.extend(Heads::below(place));
                turn = self.head_turn(records, number)?;
            }
            if first.is_none_or(|first| turn < first.0) {
                first = Some((turn, number));
            }
        }
        first
    }

    /// Returns whether anything can be due at `now`: a look at the heads, of which one may say too early a turn.
    pub fn may_be_due(&self, now: u64) -> bool {
        self.heads.first().is_some_and(|(turn, _)| turn.deadline <= now)
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

    /// Returns how many TTLs have a queue.
    pub fn len(&self) -> usize {
        self.by_ttl.len()
    }

    /// Returns the TTL of the queue that a record stands in.
    pub fn ttl(&self, spot: Spot) -> u64 {
        self.queues[usize::from(self.blocks.bits(spot.block).queue)].ttl
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

    /// Inserts an element that belongs before the last of its queue: rule 5 of the design.
    fn insert_behind(
        &mut self,
        records: &mut Records,
        number: QueueNumber,
        handle: Handle,
        turn: Turn,
    ) -> Option<Spot> {
        let (head, tail) = self.queues[usize::from(number)].ends.expect("a queue with a block");
        let mut block = tail;
        for _ in 0..WALK_MAX {
            let first = self.blocks.first(block).expect("a block is not empty");
            if block == head || records.turn(first) < turn {
                return self.insert_into(records, block, handle, turn);
            }
            let prev = self.blocks.block(block).prev;
            block = prev.expect("only the head has no block before it");
        }
        None
    }

    fn insert_into(
        &mut self,
        records: &mut Records,
        mut block: Handle,
        handle: Handle,
        turn: Turn,
    ) -> Option<Spot> {
        let view = self.blocks.view(block);
        let (queue, is_full) = (view.bits.queue, view.bits.is_full());
        let behind = view.last_that(|other| records.turn(other) < turn);
        let is_first = behind.is_none() && view.bits.is_head;
        if let Some(next) = view.block.next
            && self.directory.forget(&mut self.blocks, records, next)
        {
            // It may be listed at an earlier turn than it begins with by now, and this element be between the two.
            self.directory.list(&mut self.blocks, records, next);
        }
        if is_first {
            // It may be before the turn at which the block is listed.
            self.directory.forget(&mut self.blocks, records, block);
        }
        if is_full {
            let later = self.split(records, block)?;
            if behind.is_some_and(|behind| self.blocks.view(later).at(behind).is_some()) {
                block = later;
            }
        }
        let (place, moved) =
            self.blocks.insert_behind(block, behind, handle).expect("there is a blank");
        let view = self.blocks.view(block);
        for (place, handle) in view.handles_from(moved.start).take_while(|it| it.0 < moved.end) {
            records.set_spot(handle, Some(Spot::new(block, place)));
        }
        if is_first {
            self.heads.set(queue, turn);
        }
        Some(Spot::new(block, place))
    }

    /// Puts the later half of a full block into a new one behind it, which is returned. `None` if none
    /// could be had; then nothing has changed.
    fn split(&mut self, records: &mut Records, block: Handle) -> Option<Handle> {
        let new = self.blocks.split(block)?;
        let later = self.blocks.view(new);
        let (queue, next) = (later.bits.queue, later.block.next);
        for (place, handle) in later.handles() {
            records.set_spot(handle, Some(Spot::new(new, place)));
        }
        match next {
            Some(next) => self.blocks.block_mut(next).prev = Some(new),
            None => {
                let ends = self.queues[usize::from(queue)].ends.as_mut();
                ends.expect("a queue with a block").1 = new;
            }
        }
        let first = self.blocks.first(new).expect("half a block");
        self.directory.count_unlisted(&mut self.blocks, block, new, records.turn(first));
        Some(new)
    }

    /// Unlinks an empty block and frees it, and its queue with the last one.
    #[inline(never)]
    fn drop_block(&mut self, handle: Handle) {
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
        if entry.ends.is_none() {
            let hash = self.hasher.hash_one(entry.ttl);
            let found = self.by_ttl.find_entry(hash, |number| *number == queue);
            found.expect("a queue is in the table").remove();
            self.free.insert(queue);
        }
    }

    /// Forgets numbers at the end that have no queue, and gives back what many queues took.
    fn shorten(&mut self) {
        let last = self.queues.iter().rposition(|queue| queue.ends.is_some());
        let length = last.map_or(0, |last| last + 1);
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
            records.set_spot(handle, Some(Spot::new(target, place)));
        }
        self.drop_block(handle);
    }

    /// Notes that a queue has lost its head, and has this block first. The turn of the next head is written in a record
    /// that nobody has read lately. To wait for that here, and to decide then where it belongs in the heap, would take
    /// most of the time of timers that are restarted in the order in which they were started. So the record is looked at
    /// when somebody wants to know which queue is first, or when many other queues have lost their heads.
    #[inline(never)]
    pub fn lost_head(&mut self, records: &Records, block: Handle) {
        let view = self.blocks.view(block);
        let number = view.bits.queue;
        // Timers that are restarted or stopped in turn need its record next, and whoever settles it does.
        if let Some(head) = view.first() {
            records.prefetch(head);
        }
        if !self.unsettled.has(number)
            && let Some(oldest) = self.unsettled.add(number)
        {
            self.settle_one(records, oldest);
        }
    }

    /// Ends a queue that has lost its last element.
    #[cold]
    fn queue_ended(&mut self, number: QueueNumber) {
        self.unsettled.remove(number);
        self.heads.remove(number);
        self.shorten();
    }

    /// Gives the queues that lost their heads their places in the heap.
    #[inline(always)]
    pub fn settle(&mut self, records: &Records) {
        if !self.unsettled.is_empty() {
            self.settle_all(records);
        }
    }

    #[inline(never)]
    fn settle_all(&mut self, records: &Records) {
        let numbers = std::mem::take(&mut self.unsettled);
        if numbers.len() > 1 {
            numbers.iter().filter_map(|it| self.head(it)).for_each(|it| records.prefetch(it));
        }
        numbers.iter().for_each(|number| self.settle_one(records, number));
    }

    fn settle_one(&mut self, records: &Records, number: QueueNumber) {
        if let Some(turn) = self.head_turn(records, number) {
            self.heads.set(number, turn);
        }
    }

    fn head(&self, number: QueueNumber) -> Option<Handle> {
        let (head, _) = self.queues[usize::from(number)].ends?;
        self.blocks.first(head)
    }

    pub(super) fn head_turn(&self, records: &Records, number: QueueNumber) -> Option<Turn> {
        self.head(number).map(|first| records.turn(first))
    }
}
