//! Which queue is next: a 4-ary heap over the heads of the queues.
//!
//! The paper scans every TTL on each tick that expires something. Here the queue with the earliest
//! head is on top, so the next deadline is exact and costs one read (and that of one queue's head, if that
//! has just changed: see [`Queues`](super::queues::Queues)), and a tick costs what came due. The heap is
//! touched only when a queue's *head* changes: appending to a queue and stopping elsewhere in it leave it
//! alone. Four children share two or three cache lines and halve the depth.
//!
//! Setting and removing a head cost O(log queues), of which there are 1,025 at the most.

use super::super::memory::{Mover, allotted, push_tight, relocate, shrink};
use super::super::turn::Turn;

const CHILDREN: usize = 4;

/// A queue's number.
pub type QueueNumber = u16;

/// The number that the [timeline](super::timeline) has among the queues.
pub const TIMELINE: QueueNumber = 0;

#[derive(Clone, Copy)]
struct Head {
    turn: Turn,
    queue: QueueNumber,
}

/// The heads of all queues that are not empty.
#[derive(Clone, Default)]
pub struct Heads {
    heap: Vec<Head>,
    /// No queue but the first has an earlier head: while it is taken from, this is all that is compared. `None`
    /// when that is not known.
    rival: Option<Turn>,
    /// Where each queue stands in the heap.
    places: Vec<Option<u16>>,
}

impl Heads {
    /// Returns the earliest head.
    pub(super) fn first(&self) -> Option<(Turn, QueueNumber)> {
        self.heap.first().map(|head| (head.turn, head.queue))
    }

    /// Returns the earliest head but one.
    pub(super) fn second(&self) -> Option<(Turn, QueueNumber)> {
        let children = self.heap.get(1..)?.iter().take(CHILDREN);
        children.min_by_key(|head| head.turn).map(|head| (head.turn, head.queue))
    }

    /// Returns the head at a place of the heap.
    pub(super) fn at(&self, place: usize) -> Option<(Turn, QueueNumber)> {
        self.heap.get(place).map(|head| (head.turn, head.queue))
    }

    /// Returns the places below one in the heap, where no head is earlier.
    pub fn below(place: usize) -> std::ops::RangeInclusive<usize> {
        place * CHILDREN + 1..=place * CHILDREN + CHILDREN
    }

    /// Returns the queues whose head is due by `deadline`. Costs O(queues found), not O(queues).
    pub(super) fn due(&self, deadline: u64) -> Vec<(Turn, QueueNumber)> {
        let mut found = Vec::new();
        let mut open = vec![0];
        while let Some(place) = open.pop() {
            if let Some(head) = self.heap.get(place).filter(|head| head.turn.deadline <= deadline) {
                found.push((head.turn, head.queue));
                open.extend(Self::below(place));
            }
        }
        found
    }

    /// Says which turn a queue's head has now.
    pub(super) fn set(&mut self, queue: QueueNumber, turn: Turn) {
        let head = Head { turn, queue };
        if let Some(first) = self.heap.first_mut()
            && first.queue == queue
            && self.rival.is_some_and(|rival| turn < rival)
        {
            *first = head;
            return;
        }
        self.rival = None;
        if self.places.len() <= queue.into() {
            self.places.resize(usize::from(queue) + 1, None);
        }
        match self.places[usize::from(queue)] {
            Some(place) => {
                let place = usize::from(place);
                let sinks = turn > self.heap[place].turn;
                self.heap[place] = head;
                if sinks {
                    self.sink(place)
                } else {
                    self.rise(place)
                }
                if place == 0 {
                    self.rival = self.second().map(|second| second.0);
                }
            }
            None => {
                push_tight(&mut self.heap, head);
                self.rise(self.heap.len() - 1);
            }
        }
    }

    /// Says that a queue, which has a head, has an earlier one if this turn is earlier.
    pub(super) fn lower(&mut self, queue: QueueNumber, turn: Turn) {
        let place = self.places.get(usize::from(queue)).copied().flatten();
        if place.is_some_and(|place| turn < self.heap[usize::from(place)].turn) {
            self.set(queue, turn);
        }
    }

    /// Takes an emptied queue out.
    pub(super) fn remove(&mut self, queue: QueueNumber) {
        let place = self.places[usize::from(queue)].take().expect("the queue has a head");
        let place = usize::from(place);
        let last = self.heap.pop().expect("the heap is not empty");
        if place < self.heap.len() {
            let sinks = last.turn > self.heap[place].turn;
            self.heap[place] = last;
            if sinks { self.sink(place) } else { self.rise(place) }
        }
    }

    /// Forgets the numbers from `queues` on, which have no head, and gives back what a burst of queues took.
    pub(super) fn truncate(&mut self, queues: usize) {
        self.places.truncate(queues);
        shrink(&mut self.places);
        shrink(&mut self.heap);
    }

    pub(super) fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.heap, mover);
        relocate(&mut self.places, mover);
    }

    pub(super) fn memory(&self) -> usize {
        allotted(&self.heap) + allotted(&self.places)
    }

    fn rise(&mut self, mut place: usize) {
        let head = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent].turn <= head.turn {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, head);
    }

    fn sink(&mut self, mut place: usize) {
        let head = self.heap[place];
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(child) = children.min_by_key(|child| self.heap[*child].turn) else { break };
            if head.turn <= self.heap[child].turn {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, head);
    }

    fn put(&mut self, place: usize, head: Head) {
        self.heap[place] = head;
        // The number of queues is bounded well below 2^16.
        self.places[usize::from(head.queue)] = Some(place as u16);
    }

    /// Panics unless the heap is one, and holds the queues that `head_of` says are not empty.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self, mut head_of: impl FnMut(QueueNumber) -> Option<Turn>) {
        for (place, head) in self.heap.iter().enumerate().skip(1) {
            let parent = &self.heap[(place - 1) / CHILDREN];
            assert!(parent.turn <= head.turn, "the heap is out of order at {place}");
        }
        if let Some(rival) = self.rival {
            assert!(self.second().is_none_or(|second| rival <= second.0), "an earlier rival");
        }
        let mut placed = 0;
        for queue in 0..self.places.len() as QueueNumber {
            let place = self.places[usize::from(queue)];
            placed += usize::from(place.is_some());
            let known = place.map(|place| &self.heap[usize::from(place)]);
            assert!(known.is_none_or(|head| head.queue == queue), "queue {queue} is misplaced");
            assert_eq!(known.map(|head| head.turn), head_of(queue), "head of queue {queue}");
        }
        assert_eq!(placed, self.heap.len());
    }
}
