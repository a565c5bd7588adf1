//! Read-only walks in the order of delivery: over one queue by [`Rest`], over all by [`Walk`].
//!
//! Every queue is sorted, and a block of the timeline is sorted when a walk enters it. [`Walk`] merges them. It opens
//! the heap of heads from its top as far as it gets, so a walk over due elements costs nothing for the others, and its
//! first element costs no more with thousands of queues than with one.
//!
//! A walk may begin in the middle. It then enters each queue whose head is before its start, at a cost that does not
//! depend on the length of the queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::super::element::Row;
use super::super::rank::Rank;
use super::super::store::{Handle, Records};
use super::block::Places;
use super::heads::{Heads, QueueNumber, TIMELINE};
use super::order::Order;
use super::queues::Queues;
use super::ranges::{self, Range};

impl Queues {
    /// Lists TTLs with numbers of elements. A TTL appears once for each block of its queue, and once for each of its
    /// elements in the timeline.
    pub fn counts(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let lengths = self.blocks.lengths().filter(|(queue, _)| *queue != TIMELINE);
        let queued = lengths.map(|(queue, length)| (self.queues[usize::from(queue)].ttl, length));
        queued.chain(self.timeline_ttls().map(|ttl| (ttl, 1)))
    }

    /// Returns the number of elements that are due at `now`. Reads six records of each queue that has due elements.
    pub fn count_due(&self, records: &Records, now: u64) -> usize {
        let is_due = |handle: Handle| records.rank(handle).deadline <= now;
        let in_queue = |number| {
            let due = self.ranges.iter(number).take_while(|range| range.from.deadline <= now);
            let (mut count, mut last) = (0, None);
            // A block is entirely due if the range of the next one begins at a moment that is.
            for range in due {
                count +=
                    last.replace(range).map_or(0, |it: Range| self.blocks.meta(it.block).len());
            }
            let in_last = |last: Range| {
                if number == TIMELINE {
                    return self.count_due_in_range(records, last, now);
                }
                let view = self.blocks.view(last.block);
                view.last_that(is_due).map_or(0, |it| view.meta.count_to(it))
            };
            count + last.map_or(0, in_last)
        };
        self.heads.due(now).into_iter().map(|(_, number)| in_queue(number)).sum()
    }
}

/// The rest of a queue or of the timeline: iterates over TTLs and records.
struct Rest<'a> {
    queues: &'a Queues,
    records: &'a Records,
    number: QueueNumber,
    /// The TTL of the queue. Unused in the timeline.
    ttl: u64,
    block: Handle,
    /// The ranges behind the block.
    ranges: ranges::Iter<'a>,
    /// The places of the block that come next; in the timeline [`Rest::order`] has them.
    places: Places,
    order: Option<Box<Order>>,
}

impl<'a> Rest<'a> {
    /// Returns the rest of a queue from a rank on.
    fn new(
        queues: &'a Queues,
        records: &'a Records,
        number: QueueNumber,
        start: Rank,
    ) -> Option<Self> {
        let ttl = queues.queues.get(usize::from(number))?.ttl;
        let mut ranges = queues.ranges.iter_from(number, start);
        let block = ranges.next()?.block;
        let places = Places::default();
        let mut rest = Self { queues, records, number, ttl, block, ranges, places, order: None };
        rest.enter(block);
        if start > Rank::FIRST {
            rest.skip_to(start);
        }
        Some(rest)
    }

    /// Skips the elements of the block before a rank.
    fn skip_to(&mut self, rank: Rank) {
        let view = self.queues.blocks.view(self.block);
        let is_earlier = |handle: Handle| self.records.rank(handle) < rank;
        if let Some(order) = &mut self.order {
            order.skip_earlier(|place| view.at(place).is_some_and(is_earlier));
        } else {
            let from = view.last_that(is_earlier).map_or(0, |earlier| earlier + 1);
            self.places = view.meta.places_from(from);
        }
    }

    /// Continues with the first element of a block.
    fn enter(&mut self, block: Handle) {
        self.block = block;
        if self.number == TIMELINE {
            self.order = Some(Box::new(self.queues.blocks.order(self.records, block)));
        } else {
            self.places = self.queues.blocks.meta(block).places_from(0);
        }
    }
}

impl Iterator for Rest<'_> {
    type Item = (u64, Handle);

    fn next(&mut self) -> Option<(u64, Handle)> {
        let blocks = &self.queues.blocks;
        loop {
            let next = match &mut self.order {
                Some(order) => order.next(),
                None => self.places.next(),
            };
            let Some(place) = next else {
                let next = self.ranges.next()?.block;
                self.enter(next);
                continue;
            };
            let in_timeline = self.number == TIMELINE;
            let ttl = if in_timeline { blocks.ttl(self.block, place) } else { self.ttl };
            return Some((ttl, blocks.slab.unit(self.block).handle(place)?));
        }
    }
}

/// Elements in the order of delivery.
pub struct Walk<'a> {
    records: &'a Records,
    now: u64,
    fronts: Vec<Front<'a>>,
    /// The ranks of the fronts that have elements to show, each with its front's index.
    ranks: BinaryHeap<Reverse<(Rank, usize)>>,
}

/// The walk's position in one queue.
struct Front<'a> {
    /// The next element.
    next: (u64, Handle),
    rest: Rest<'a>,
    /// The queue's index in the heap of heads, until its children there are examined. Until then its rank may be
    /// too early.
    unexamined: Option<usize>,
}

impl<'a> Walk<'a> {
    /// Starts a walk over the elements of all these queues from rank `start` on whose deadline is at or before `now`.
    pub fn new(
        records: &'a Records,
        all: impl IntoIterator<Item = &'a Queues>,
        start: Rank,
        now: u64,
    ) -> Self {
        let mut walk = Self { records, now, fronts: Vec::new(), ranks: BinaryHeap::new() };
        for queues in all {
            walk.enter(queues, 0, start);
        }
        walk
    }

    /// Enters the queue at a heap index, if it may have elements to show. If its head is before the start, also enters
    /// those below it in the heap.
    fn enter(&mut self, queues: &'a Queues, index: usize, start: Rank) {
        let Some((rank, number)) = queues.heads.at(index) else { return };
        if rank.deadline > self.now {
            return;
        }
        let begins_before = rank < start;
        let from = if begins_before { start } else { Rank::FIRST };
        let Some(mut rest) = Rest::new(queues, self.records, number, from) else { return };
        if begins_before {
            // The heap has six levels at most.
            for below in Heads::below(index) {
                self.enter(queues, below, start);
            }
        }
        let Some(next) = rest.next() else { return };
        let (rank, unexamined) =
            if begins_before { (self.records.rank(next.1), None) } else { (rank, Some(index)) };
        if rank.deadline <= self.now {
            self.ranks.push(Reverse((rank, self.fronts.len())));
            self.fronts.push(Front { next, rest, unexamined });
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        loop {
            let mut first = self.ranks.peek_mut()?;
            let front = &mut self.fronts[first.0.1];
            let (queues, unexamined) = (front.rest.queues, front.unexamined.take());
            let (ttl, shown) = front.next;
            // The rank of a front becomes exact before it is shown, and then that of its next element.
            let next = if unexamined.is_some() { Some(front.next) } else { front.rest.next() };
            match next {
                Some(next) if self.records.rank(next.1).deadline <= self.now => {
                    (front.next, first.0.0) = (next, self.records.rank(next.1));
                    drop(first);
                }
                _ => _ = PeekMut::pop(first),
            }
            let Some(index) = unexamined else {
                let record = self.records.get(shown);
                return Some(Row { ttl, element: record.into(), number: Some(record.rank().push) });
            };
            // Those below it in the heap may be earlier than all others.
            for below in Heads::below(index) {
                self.enter(queues, below, Rank::FIRST);
            }
        }
    }
}
