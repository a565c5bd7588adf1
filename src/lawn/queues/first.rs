//! The first element of all queues: reads the heap of heads and keeps it up to date, late.

use super::super::processor::prefetch;
use super::super::rank::Rank;
use super::super::store::{Handle, Records};
use super::super::tiny::TINY;
use super::heads::{Heads, QueueNumber, TIMELINE};
use super::queues::Queues;

/// Stale heads at most. A query reads all of them, which takes some microseconds.
const STALE_MAX: usize = if TINY { 2 } else { 16 };

impl Queues {
    /// Returns the queue with the earliest head, and its TTL. The heads must be up to date.
    pub fn earliest(&self) -> Option<(QueueNumber, u64)> {
        let (_, number) = self.heads.at(0)?;
        Some((number, self.queues[usize::from(number)].ttl))
    }

    /// Returns the first block of a queue, if the number still belongs to a queue with this TTL that is not empty.
    pub fn first_block(&self, number: QueueNumber, ttl: u64) -> Option<Handle> {
        let queue = self.queues.get(usize::from(number)).filter(|queue| queue.ttl == ttl)?;
        queue.ends.map(|ends| ends.0)
    }

    pub fn prefetch_second_block(&self, number: QueueNumber) {
        if let Some((head, tail)) = self.queues[usize::from(number)].ends
            && head != tail
            && let Some(second) = self.ranges.iter(number).nth(1)
        {
            prefetch(self.blocks.slab.unit(second.block));
        }
    }

    /// Returns the rank of the second-earliest head. The heads must be up to date.
    pub fn second_rank(&self) -> Option<Rank> {
        self.heads.second().map(|(rank, _)| rank)
    }

    /// Returns the earliest rank in any queue, and its record.
    pub fn first(&self, records: &Records) -> Option<(Rank, Handle)> {
        let (mut rank, mut number) = self.heads.at(0)?;
        if !self.stale.is_empty() {
            (rank, number) = self.first_with_stale(records)?;
        }
        Some((rank, self.head(records, number)?))
    }

    /// Returns the earliest head while some ranks in the heap are stale, that is, too early. A head below a stale one
    /// may come first.
    fn first_with_stale(&self, records: &Records) -> Option<(Rank, QueueNumber)> {
        let mut first: Option<(Rank, QueueNumber)> = None;
        // The heap indices to examine: the top, and those below stale heads, of which there are few.
        let mut open = vec![0];
        while let Some(index) = open.pop() {
            let Some((mut rank, number)) = self.heads.at(index) else { continue };
            if first.is_some_and(|first| first.0 <= rank) {
                continue;
            }
            if self.queues[usize::from(number)].is_stale {
                open.extend(Heads::below(index));
                rank = self.head_rank(records, number)?;
            }
            if first.is_none_or(|first| rank < first.0) {
                first = Some((rank, number));
            }
        }
        first
    }

    /// Returns the earliest deadline in any queue. Perhaps too early while the first head is stale.
    pub fn first_deadline(&self) -> Option<u64> {
        Some(self.heads.at(0)?.0.deadline)
    }

    /// Marks the head of a queue as stale, given the queue's first block. The rank of the next head is in a record that
    /// is probably not in the cache. Waiting for it here, to restore the heap at once, would take most of the time of
    /// timers that are restarted in the order in which they were started. So the record is read when the first queue is
    /// asked for, or when many other queues have lost their heads.
    #[inline(never)]
    pub fn head_removed(&mut self, records: &mut Records, block: Handle) {
        let view = self.blocks.view(block);
        let number = view.meta.queue;
        // Timers that are restarted or stopped in sequence need this record next, and so does the refresh.
        if let Some(head) = view.first() {
            records.prefetch(head);
        }
        self.add_stale(records, number);
    }

    /// Records that the rank of a queue in the heap is too early.
    #[inline(always)]
    pub(super) fn add_stale(&mut self, records: &mut Records, number: QueueNumber) {
        if std::mem::replace(&mut self.queues[usize::from(number)].is_stale, true) {
            return;
        }
        if self.stale.len() == STALE_MAX {
            let oldest = self.stale.remove(0);
            self.refresh_one(records, oldest);
        }
        self.stale.push(number);
    }

    /// Restores the heap: reads the ranks of all stale heads.
    #[inline(always)]
    pub fn refresh_heads(&mut self, records: &mut Records) {
        if !self.stale.is_empty() {
            self.refresh_all(records);
        }
    }

    #[inline(never)]
    fn refresh_all(&mut self, records: &mut Records) {
        let mut numbers = std::mem::take(&mut self.stale);
        if numbers.len() > 1 {
            let queues = numbers.iter().filter(|number| **number != TIMELINE);
            queues.filter_map(|it| self.head(records, *it)).for_each(|it| records.prefetch(it));
        }
        // The list keeps its memory.
        numbers.drain(..).for_each(|number| self.refresh_one(records, number));
        self.stale = numbers;
    }

    pub(super) fn refresh_one(&mut self, records: &mut Records, number: QueueNumber) {
        if number == TIMELINE {
            self.sort_head(records);
        }
        self.queues[usize::from(number)].is_stale = false;
        if let Some(rank) = self.head_rank(records, number) {
            self.heads.set(number, rank);
        }
    }

    fn head(&self, records: &Records, number: QueueNumber) -> Option<Handle> {
        let (head, _) = self.queues[usize::from(number)].ends?;
        if self.blocks.meta(head).is_sorted {
            self.blocks.view(head).first()
        } else {
            self.earliest_in(records, head)
        }
    }

    pub(super) fn head_rank(&self, records: &Records, number: QueueNumber) -> Option<Rank> {
        self.head(records, number).map(|first| records.rank(first))
    }
}
