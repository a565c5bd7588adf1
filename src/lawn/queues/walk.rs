//! Read-only walks in the order of delivery: over one queue by a [`Cursor`], over all by [`Walk`].
//!
//! Every queue is sorted, and a block of the timeline is sorted when a walk enters it. [`Walk`] merges them. It opens
//! the heap of heads from its top as far as it gets, so a walk over due elements costs nothing for the others, and its
//! first element costs no more with thousands of queues than with one.
//!
//! A walk may begin in the middle. It then enters each queue whose head is before its start, at a cost that does not
//! depend on the length of the queue.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::super::element::Row;
use super::super::store::{Handle, Records};
use super::super::turn::Turn;
use super::block::BlockView;
use super::heads::{Heads, QueueNumber, TIMELINE};
use super::order::Order;
use super::queues::{Queue, Queues};

/// A position in a queue or in the timeline.
pub struct Cursor {
    /// The TTL of the queue. Unused in the timeline.
    ttl: u64,
    block: Handle,
    place: usize,
    /// The order of the current block, in the timeline only.
    order: Option<Box<Order>>,
}

impl Queues {
    /// Lists TTLs with numbers of elements. A TTL appears once for each block of its queue, and once for each of its
    /// elements in the timeline.
    pub fn counts(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let lengths = self.blocks.lengths().filter(|(queue, _)| *queue != TIMELINE);
        let queued = lengths.map(|(queue, length)| (self.queues[usize::from(queue)].ttl, length));
        queued.chain(self.timeline_ttls().map(|ttl| (ttl, 1)))
    }

    /// Returns the number of elements that are due at `now`. Reads one record of each block that has due elements, and
    /// six of the last such block.
    pub fn count_due(&self, records: &Records, now: u64) -> usize {
        let is_due = |handle: Handle| records.turn(handle).deadline <= now;
        let in_queue = |head: Handle| {
            let blocks = std::iter::successors(Some(self.blocks.view(head)), |view| {
                let next = view.block.next.map(|next| self.blocks.view(next));
                next.filter(|next| next.first().is_some_and(is_due))
            });
            // A block is entirely due if the first element of the next one is.
            let mut count = 0;
            let mut last = None;
            for view in blocks {
                count += last.replace(view).map_or(0, |before: BlockView<'_>| before.meta.len());
            }
            let in_last =
                |last: BlockView<'_>| last.last_that(is_due).map_or(0, |it| last.meta.count_to(it));
            count + last.map_or(0, in_last)
        };
        let queues = self.heads.due(now).into_iter().filter(|(_, number)| *number != TIMELINE);
        let heads = queues.filter_map(|(_, number)| {
            let (head, _) = self.queues[usize::from(number)].ends?;
            self.blocks.first(head).filter(|first| is_due(*first)).map(|_| head)
        });
        heads.map(in_queue).sum::<usize>() + self.count_due_in_timeline(records, now)
    }

    /// Returns a cursor at the first element of a queue.
    fn cursor(&self, records: &Records, number: QueueNumber) -> Option<Cursor> {
        let Queue { ttl, ends, .. } = self.queues[usize::from(number)];
        let (head, _) = ends?;
        if number == TIMELINE {
            return self.enter(records, head);
        }
        let place = self.blocks.meta(head).first_place()?;
        Some(Cursor { ttl, block: head, place, order: None })
    }

    /// Returns a cursor at the first element of a block of the timeline.
    fn enter(&self, records: &Records, block: Handle) -> Option<Cursor> {
        let order = Box::new(self.blocks.order(records, block));
        Some(Cursor { ttl: 0, block, place: order.place()?, order: Some(order) })
    }

    /// Returns a cursor at the first element of a queue whose turn is `turn` or later. Walks a few blocks, however long
    /// the queue is.
    fn seek(&self, records: &Records, number: QueueNumber, turn: Turn) -> Option<Cursor> {
        if number == TIMELINE {
            return self.seek_in_timeline(records, turn);
        }
        let Queue { ttl, ends, latest, .. } = self.queues[usize::from(number)];
        let (head, _) = ends.filter(|_| latest >= turn.deadline)?;
        let is_earlier = |handle: Handle| records.turn(handle) < turn;
        let mut block = self.block_index.last(number, turn).unwrap_or(head);
        while let Some(next) = self.blocks.block(block).next
            && self.blocks.first(next).is_some_and(is_earlier)
        {
            block = next;
        }
        let view = self.blocks.view(block);
        let from = view.last_that(is_earlier).map_or(0, |earlier| earlier + 1);
        let (block, place) = match view.meta.first_from(from) {
            Some(place) => (block, place),
            None => {
                let next = view.block.next?;
                (next, self.blocks.meta(next).first_place()?)
            }
        };
        Some(Cursor { ttl, block, place, order: None })
    }

    fn seek_in_timeline(&self, records: &Records, turn: Turn) -> Option<Cursor> {
        let (head, _) = self.queues[usize::from(TIMELINE)].ends?;
        let block = self.ranges.find(turn).map_or(head, |(_, block)| block);
        let view = self.blocks.view(block);
        let mut order = Box::new(self.blocks.order(records, block));
        order.skip(|place| view.at(place).is_some_and(|handle| records.turn(handle) < turn));
        match order.place() {
            Some(place) => Some(Cursor { ttl: 0, block, place, order: Some(order) }),
            None => self.enter(records, view.block.next?),
        }
    }

    /// Returns the TTL and the record at a cursor.
    pub fn at(&self, cursor: &Cursor) -> Option<(u64, Handle)> {
        let handle = self.blocks.view(cursor.block).at(cursor.place)?;
        let in_timeline = cursor.order.is_some();
        let ttl =
            if in_timeline { self.blocks.ttl(cursor.block, cursor.place) } else { cursor.ttl };
        Some((ttl, handle))
    }

    /// Advances a cursor to the next element, if there is one, and returns its record.
    pub fn step(&self, records: &Records, cursor: &mut Cursor) -> Option<Handle> {
        let view = self.blocks.view(cursor.block);
        if let Some(order) = &mut cursor.order {
            order.step();
            match order.place() {
                Some(place) => cursor.place = place,
                None => *cursor = self.enter(records, view.block.next?)?,
            }
        } else {
            match view.meta.first_from(cursor.place + 1) {
                Some(place) => cursor.place = place,
                None => {
                    cursor.block = view.block.next?;
                    cursor.place = self.blocks.meta(cursor.block).first_place()?;
                }
            }
        }
        self.at(cursor).map(|(_, handle)| handle)
    }
}

/// Elements in the order of delivery.
pub struct Walk<'a> {
    records: &'a Records,
    queues: &'a Queues,
    now: u64,
    fronts: BinaryHeap<Front>,
}

/// The walk's position in one queue.
struct Front {
    turn: Turn,
    cursor: Cursor,
    /// The queue's index in the heap of heads, until its children there are examined. Until then `turn` may be too
    /// early.
    unexamined: Option<usize>,
}

impl<'a> Walk<'a> {
    /// Starts a walk over the elements from turn `start` on whose deadline is at or before `now`.
    pub fn new(records: &'a Records, queues: &'a Queues, start: Turn, now: u64) -> Self {
        let mut walk = Self { records, queues, now, fronts: BinaryHeap::new() };
        // Most walks begin at the very first element.
        if start == Turn::FIRST {
            walk.add_queue(0);
            return walk;
        }
        // Enter the queues whose heads are before the start, and examine their children in the heap.
        let mut indices = vec![0];
        while let Some(index) = indices.pop() {
            let Some((turn, number)) = queues.heads.at(index) else { continue };
            if turn >= start {
                walk.add_queue(index);
            } else if turn.deadline <= now {
                indices.extend(Heads::below(index));
                walk.push(queues.seek(records, number, start));
            }
        }
        walk
    }

    /// Adds the queue at a heap index, if it may have elements to show.
    fn add_queue(&mut self, index: usize) {
        if let Some((turn, number)) = self.queues.heads.at(index)
            && turn.deadline <= self.now
            && let Some(cursor) = self.queues.cursor(self.records, number)
        {
            self.fronts.push(Front { turn, cursor, unexamined: Some(index) });
        }
    }

    /// Adds a queue whose children are examined already, at this cursor, if it has elements to show from there on.
    fn push(&mut self, cursor: Option<Cursor>) {
        if let Some(cursor) = cursor
            && let Some((_, handle)) = self.queues.at(&cursor)
        {
            let turn = self.records.turn(handle);
            if turn.deadline <= self.now {
                self.fronts.push(Front { turn, cursor, unexamined: None });
            }
        }
    }

    /// Corrects the turn of the first front and returns its heap index, unless that is done already.
    fn correct_first(&mut self) -> Option<usize> {
        let mut front = self.fronts.peek_mut()?;
        let index = front.unexamined.take()?;
        let (_, head) = self.queues.at(&front.cursor)?;
        move_to(front, Some(head), self.records, self.now);
        Some(index)
    }
}

/// Moves the first front to the turn of this record, or removes the front if it has no more elements to show.
fn move_to(mut front: PeekMut<'_, Front>, record: Option<Handle>, records: &Records, now: u64) {
    match record {
        Some(record) if records.turn(record).deadline <= now => front.turn = records.turn(record),
        _ => _ = PeekMut::pop(front),
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        // Until the first front is certain to be first.
        while let Some(index) = self.correct_first() {
            for below in Heads::below(index) {
                self.add_queue(below);
            }
        }
        let mut front = self.fronts.peek_mut()?;
        let (ttl, shown) = self.queues.at(&front.cursor)?;
        let next = self.queues.step(self.records, &mut front.cursor);
        move_to(front, next, self.records, self.now);
        let record = self.records.get(shown);
        Some(Row { ttl, element: record.into(), number: Some(record.turn().push) })
    }
}

impl PartialEq for Front {
    fn eq(&self, other: &Self) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Front {}

impl PartialOrd for Front {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Front {
    /// Reversed, because [`BinaryHeap`] has the greatest item on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.turn.cmp(&self.turn)
    }
}
