//! A walk over the elements in order of delivery, taking nothing.
//!
//! Every queue is sorted, and so is the timeline, a block of it when the walk comes there: this merges them. The heap of heads is opened from its top as far
//! as the walk comes, so a walk over what is due costs nothing for what is not, and its first element costs no more
//! with thousands of queues than with one.
//!
//! A walk may also begin in the middle. Then each queue whose head is before its beginning is entered there, which
//! costs the same however long the queue is.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, binary_heap};

use super::super::element::{Element, Row};
use super::super::store::{Handle, Records};
use super::super::turn::Turn;
use super::heads::Heads;
use super::queues::Queues;
use super::walk::Cursor;

/// Elements in order of delivery.
pub struct Iter<'a> {
    records: &'a Records,
    queues: &'a Queues,
    /// No element whose turn is before this one is shown.
    start: Turn,
    now: u64,
    fronts: BinaryHeap<Front>,
}

/// How far the walk has come in one queue.
struct Front {
    turn: Turn,
    cursor: Cursor,
    /// The queue's place in the heap of heads, while the places below it are not looked at. Until then `turn` may be
    /// earlier than that of its head.
    unopened: Option<usize>,
}

impl<'a> Iter<'a> {
    /// Returns the elements whose turn is `start` or later, and whose deadline is at or before `now`.
    pub fn new(records: &'a Records, queues: &'a Queues, start: Turn, now: u64) -> Self {
        let mut iter = Self { records, queues, start, now, fronts: BinaryHeap::new() };
        iter.enter();
        iter
    }

    /// Enters the queues whose heads are before the beginning, and looks at those below them in the heap.
    fn enter(&mut self) {
        // Most walks begin at the first element of all.
        if self.start == Turn::FIRST {
            return self.look_at(0);
        }
        let mut places = vec![0];
        while let Some(place) = places.pop() {
            let head = self.queues.turn_at_place(place);
            let Some(turn) = head.filter(|turn| turn.deadline <= self.now) else { continue };
            if turn >= self.start {
                self.look_at(place);
                continue;
            }
            places.extend(Heads::below(place));
            let found = self.queues.seek_at_place(self.records, place, self.start);
            if let Some((turn, cursor)) = found.filter(|(turn, _)| turn.deadline <= self.now) {
                self.fronts.push(Front { turn, cursor, unopened: None });
            }
        }
    }

    /// Adds the queue at a place of the heap of heads, if it may have something that is due.
    fn look_at(&mut self, place: usize) {
        let turn = self.queues.turn_at_place(place);
        if turn.is_none_or(|turn| turn.deadline > self.now) {
            return;
        }
        if let Some((turn, cursor)) = self.queues.at_place(self.records, place) {
            self.fronts.push(Front { turn, cursor, unopened: Some(place) });
        }
    }

    /// Looks below the places that come first, until the first front is known to be first.
    fn open(&mut self) {
        while let Some(place) = self.open_first() {
            Heads::below(place).for_each(|below| self.look_at(below));
        }
    }

    /// Gives the first front its true turn, unless it has it, and returns its place in the heap of heads.
    fn open_first(&mut self) -> Option<usize> {
        let mut front = self.fronts.peek_mut()?;
        let place = front.unopened.take()?;
        let head = self.queues.at(&front.cursor);
        let turn = head.map(|(_, handle)| self.records.turn(handle));
        match turn.filter(|turn| turn.deadline <= self.now) {
            Some(turn) => front.turn = turn,
            None => drop(binary_heap::PeekMut::pop(front)),
        }
        Some(place)
    }

    /// Returns the next element's TTL, and its record.
    fn advance(&mut self) -> Option<(u64, Handle)> {
        self.open();
        let mut front = self.fronts.peek_mut()?;
        let shown = self.queues.at(&front.cursor)?;
        let next = self.queues.step(self.records, &mut front.cursor);
        let turn = next.map(|handle| self.records.turn(handle));
        match turn.filter(|turn| turn.deadline <= self.now) {
            Some(turn) => front.turn = turn,
            None => drop(binary_heap::PeekMut::pop(front)),
        }
        Some(shown)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (u64, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (ttl, handle) = self.advance()?;
        Some((ttl, self.records.get(handle).into()))
    }
}

/// Elements in order of delivery, each with its place in that order.
pub struct Rows<'a>(pub Iter<'a>);

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        let (ttl, handle) = self.0.advance()?;
        let record = self.0.records.get(handle);
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
    /// Compares the other way round: [`BinaryHeap`] has the greatest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.turn.cmp(&self.turn)
    }
}
