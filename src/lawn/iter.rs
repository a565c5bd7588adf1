//! A walk over the elements in order of delivery, taking nothing.
//!
//! Every queue is sorted, and so is the thicket: this merges them. Only queues whose head is due in the
//! time asked for are looked at, so a walk over what is due costs nothing for what is not.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, binary_heap, btree_map};
use std::iter::Peekable;

use super::queues::Cursor;
use super::slab::Handle;
use super::thicket::Shoot;
use super::turn::Turn;
use super::{Element, Lawn};

/// Elements in order of delivery. See [`Lawn::iter`].
pub struct Iter<'a> {
    lawn: &'a Lawn,
    now: u64,
    fronts: BinaryHeap<Front>,
    thicket: Peekable<btree_map::Iter<'a, Turn, Shoot>>,
}

/// How far the walk has come in one queue.
struct Front {
    turn: Turn,
    cursor: Cursor,
}

impl<'a> Iter<'a> {
    /// The elements whose deadline is at or before `now`. O(queues among them).
    pub(super) fn new(lawn: &'a Lawn, now: u64) -> Self {
        let fronts = lawn
            .queues
            .due(&lawn.records, now)
            .map(|(turn, cursor)| Front { turn, cursor })
            .collect();
        Self { lawn, now, fronts, thicket: lawn.thicket.iter().peekable() }
    }

    fn next_queued(&mut self) -> Option<(u64, Handle)> {
        let mut front = self.fronts.peek_mut()?;
        let ttl = front.cursor.ttl;
        let (handle, next) = self.lawn.queues.at(front.cursor)?;
        let next = next.and_then(|cursor| {
            let (handle, _) = self.lawn.queues.at(cursor)?;
            let turn = self.lawn.records.turn(handle);
            (turn.deadline <= self.now).then_some(Front { turn, cursor })
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
        let wild = self.thicket.peek().map(|(turn, _)| **turn);
        let wild = wild.filter(|turn| turn.deadline <= self.now);
        let queued = self.fronts.peek().map(|front| front.turn);
        let (ttl, handle) = if wild.is_some_and(|wild| queued.is_none_or(|queued| wild < queued)) {
            self.thicket.next().map(|(_, shoot)| (shoot.ttl, shoot.handle))?
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
