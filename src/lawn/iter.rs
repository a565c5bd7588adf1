//! A walk over the elements in order of delivery, taking nothing.
//!
//! Every queue is sorted, and so is the overflow: this merges them. The heap of heads is opened from its top as far
//! as the walk comes, so a walk over what is due costs nothing for what is not, and its first element costs no more
//! with thousands of queues than with one.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, binary_heap, btree_map};
use std::iter::Peekable;

use super::Element;
use super::full::Full;
use super::heads::Heads;
use super::overflow::Entry;
use super::queues::Cursor;
use super::slab::Handle;
use super::turn::Turn;

/// Elements in order of delivery. See [`Full::iter_until`].
pub struct Iter<'a> {
    lawn: &'a Full,
    now: u64,
    fronts: BinaryHeap<Front>,
    overflow: Peekable<btree_map::Iter<'a, Turn, Entry>>,
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
    /// The elements whose deadline is at or before `now`.
    pub(super) fn new(lawn: &'a Full, now: u64) -> Self {
        let overflow = lawn.overflow.iter().peekable();
        let mut iter = Self { lawn, now, fronts: BinaryHeap::new(), overflow };
        iter.look_at(0);
        iter
    }

    /// Adds the queue at a place of the heap of heads, if it may have something that is due.
    fn look_at(&mut self, place: usize) {
        let found = self.lawn.queues.at_place(place);
        if let Some((turn, cursor)) = found.filter(|(turn, _)| turn.deadline <= self.now) {
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
        let head = self.lawn.queues.at(front.cursor);
        let turn = head.map(|(handle, _)| self.lawn.records.turn(handle));
        match turn.filter(|turn| turn.deadline <= self.now) {
            Some(turn) => front.turn = turn,
            None => drop(binary_heap::PeekMut::pop(front)),
        }
        Some(place)
    }

    fn next_queued(&mut self) -> Option<(u64, Handle)> {
        let mut front = self.fronts.peek_mut()?;
        let ttl = front.cursor.ttl;
        let (handle, next) = self.lawn.queues.at(front.cursor)?;
        let next = next.and_then(|cursor| {
            let (handle, _) = self.lawn.queues.at(cursor)?;
            let turn = self.lawn.records.turn(handle);
            (turn.deadline <= self.now).then_some(Front { turn, cursor, unopened: None })
        });
        match next {
            Some(next) => *front = next,
            None => drop(binary_heap::PeekMut::pop(front)),
        }
        Some((ttl, handle))
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (u64, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.open();
        let overflowing = self.overflow.peek().map(|(turn, _)| **turn);
        let overflowing = overflowing.filter(|turn| turn.deadline <= self.now);
        let queued = self.fronts.peek().map(|front| front.turn);
        let (ttl, handle) = if overflowing
            .is_some_and(|overflowing| queued.is_none_or(|queued| overflowing < queued))
        {
            self.overflow.next().map(|(_, entry)| (entry.ttl, entry.handle))?
        } else {
            self.next_queued()?
        };
        Some((ttl, self.lawn.records.get(handle).into()))
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
    /// Reversed: [`BinaryHeap`] has the greatest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.turn.cmp(&self.turn)
    }
}
