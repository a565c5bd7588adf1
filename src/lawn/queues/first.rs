//! Which element is first of all: the heap of heads, and the heads that it has not been told of yet.

use super::super::store::{Handle, Records};
use super::super::turn::Turn;
use super::heads::{Heads, QueueNumber, TIMELINE};
use super::queues::Queues;

impl Queues {
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
        Some((turn, self.head(records, number)?))
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

    /// Returns the earliest turn in any queue. Heads must be settled.
    pub fn first_turn(&self) -> Option<Turn> {
        self.heads.first().map(|(turn, _)| turn)
    }

    /// Returns whether anything can be due at `now`: a look at the heads, of which one may say too early a turn.
    pub fn may_be_due(&self, now: u64) -> bool {
        self.heads.first().is_some_and(|(turn, _)| turn.deadline <= now)
    }

    /// Notes that a queue has lost its head, and has this block first. The turn of the next head is written in a record
    /// that nobody has read lately. To wait for that here, and to decide then where it belongs in the heap, would take
    /// most of the time of timers that are restarted in the order in which they were started. So the record is looked at
    /// when somebody wants to know which queue is first, or when many other queues have lost their heads.
    #[inline(never)]
    pub fn lost_head(&mut self, records: &mut Records, block: Handle) {
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

    /// Gives the queues that lost their heads their places in the heap.
    #[inline(always)]
    pub fn settle(&mut self, records: &mut Records) {
        if !self.unsettled.is_empty() {
            self.settle_all(records);
        }
    }

    #[inline(never)]
    fn settle_all(&mut self, records: &mut Records) {
        let numbers = std::mem::take(&mut self.unsettled);
        if numbers.len() > 1 {
            let queues = numbers.iter().filter(|number| *number != TIMELINE);
            queues.filter_map(|it| self.head(records, it)).for_each(|it| records.prefetch(it));
        }
        numbers.iter().for_each(|number| self.settle_one(records, number));
    }

    pub(super) fn settle_one(&mut self, records: &mut Records, number: QueueNumber) {
        if number == TIMELINE {
            self.sort_head(records);
        }
        if let Some(turn) = self.head_turn(records, number) {
            self.heads.set(number, turn);
        }
    }

    fn head(&self, records: &Records, number: QueueNumber) -> Option<Handle> {
        let (head, _) = self.queues[usize::from(number)].ends?;
        if self.blocks.bits(head).is_sorted {
            self.blocks.first(head)
        } else {
            self.earliest_in(records, head)
        }
    }

    pub(super) fn head_turn(&self, records: &Records, number: QueueNumber) -> Option<Turn> {
        self.head(records, number).map(|first| records.turn(first))
    }
}
