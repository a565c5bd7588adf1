//! The heads of the queues, in a 4-ary heap.
//!
//! The paper scans every TTL on each tick that expires something. Here the queue with the earliest head is on top: the
//! next deadline is exact and costs one read (and one more of a queue's head, if that has just changed: see
//! [`Queues::head_removed`](super::queues::Queues::head_removed)), and a tick costs what came due. The heap changes
//! only when a queue's *head* changes; an append, or a removal elsewhere in the queue, leaves it alone. Four children
//! share two or three cache lines and halve the depth.
//!
//! Setting and removing a head cost O(log queues); there are at most 1,025.

use super::super::memory::{Mover, allotted, push_tight, relocate, shrink};
use super::super::rank::Rank;

const CHILDREN: usize = 4;

pub type QueueNumber = u16;

/// The queue number of the [timeline](super::timeline).
pub const TIMELINE: QueueNumber = 0;

/// The rank of the head of a queue, and the queue.
type Head = (Rank, QueueNumber);

/// The heads of all queues that are not empty.
#[derive(Clone, Default)]
pub struct Heads {
    heap: Vec<Head>,
    /// The heap index of each queue.
    indices: Vec<Option<u16>>,
}

impl Heads {
    pub(super) fn second(&self) -> Option<Head> {
        let children = self.heap.get(1..)?.iter().take(CHILDREN);
        children.min_by_key(|head| head.0).copied()
    }

    /// Returns the head at a heap index. The earliest one is at 0.
    pub(super) fn at(&self, index: usize) -> Option<Head> {
        self.heap.get(index).copied()
    }

    /// Returns the heap indices of the children, whose heads are no earlier.
    pub fn below(index: usize) -> std::ops::RangeInclusive<usize> {
        index * CHILDREN + 1..=index * CHILDREN + CHILDREN
    }

    /// Returns the queues whose head is due at `deadline`. O(queues found), not O(queues).
    pub(super) fn due(&self, deadline: u64) -> Vec<Head> {
        let mut found = Vec::new();
        let mut open = vec![0];
        while let Some(index) = open.pop() {
            if let Some(head) = self.at(index).filter(|head| head.0.deadline <= deadline) {
                found.push(head);
                open.extend(Self::below(index));
            }
        }
        found
    }

    /// Sets the rank of a queue's head.
    pub(super) fn set(&mut self, queue: QueueNumber, rank: Rank) {
        let head = (rank, queue);
        if self.indices.len() <= queue.into() {
            self.indices.resize(usize::from(queue) + 1, None);
        }
        match self.indices[usize::from(queue)] {
            Some(index) => self.replace(index.into(), head),
            None => {
                push_tight(&mut self.heap, head);
                self.rise(self.heap.len() - 1);
            }
        }
    }

    /// Lowers the rank of a queue's head to `rank`, if that is earlier. The queue must have a head.
    pub(super) fn lower(&mut self, queue: QueueNumber, rank: Rank) {
        let index = self.indices.get(usize::from(queue)).copied().flatten();
        if index.is_some_and(|index| rank < self.heap[usize::from(index)].0) {
            self.set(queue, rank);
        }
    }

    /// Removes an empty queue.
    pub(super) fn remove(&mut self, queue: QueueNumber) {
        let index = self.indices[usize::from(queue)].take().expect("the queue has a head");
        let index = usize::from(index);
        let last = self.heap.pop().expect("the heap is not empty");
        if index < self.heap.len() {
            self.replace(index, last);
        }
    }

    /// Replaces the head at a heap index, and moves the new one to where it belongs.
    fn replace(&mut self, index: usize, head: Head) {
        let sinks = head.0 > self.heap[index].0;
        self.heap[index] = head;
        if sinks { self.sink(index) } else { self.rise(index) }
    }

    /// Drops the numbers from `queues` on, which have no head, and frees what a burst of queues allocated.
    pub(super) fn truncate(&mut self, queues: usize) {
        self.indices.truncate(queues);
        shrink(&mut self.indices);
        shrink(&mut self.heap);
    }

    pub(super) fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.heap, mover);
        relocate(&mut self.indices, mover);
    }

    pub(super) fn memory(&self) -> usize {
        allotted(&self.heap) + allotted(&self.indices)
    }

    fn rise(&mut self, mut index: usize) {
        let head = self.heap[index];
        while index > 0 {
            let parent = (index - 1) / CHILDREN;
            if self.heap[parent].0 <= head.0 {
                break;
            }
            self.put(index, self.heap[parent]);
            index = parent;
        }
        self.put(index, head);
    }

    fn sink(&mut self, mut index: usize) {
        let head = self.heap[index];
        loop {
            let first = index * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(child) = children.min_by_key(|child| self.heap[*child].0) else { break };
            if head.0 <= self.heap[child].0 {
                break;
            }
            self.put(index, self.heap[child]);
            index = child;
        }
        self.put(index, head);
    }

    fn put(&mut self, index: usize, head: Head) {
        self.heap[index] = head;
        // There are far fewer than 2^16 queues.
        self.indices[usize::from(head.1)] = Some(index as u16);
    }

    /// Panics unless the heap is ordered and has exactly the heads that `head_of` returns.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self, mut head_of: impl FnMut(QueueNumber) -> Option<Rank>) {
        for (index, head) in self.heap.iter().enumerate().skip(1) {
            let parent = &self.heap[(index - 1) / CHILDREN];
            assert!(parent.0 <= head.0, "the heap is out of order at {index}");
        }
        let mut placed = 0;
        for queue in 0..self.indices.len() as QueueNumber {
            let index = self.indices[usize::from(queue)];
            placed += usize::from(index.is_some());
            let known = index.map(|index| self.heap[usize::from(index)]);
            assert!(known.is_none_or(|head| head.1 == queue), "queue {queue} is misplaced");
            assert_eq!(known.map(|head| head.0), head_of(queue), "head of queue {queue}");
        }
        assert_eq!(placed, self.heap.len());
    }
}
