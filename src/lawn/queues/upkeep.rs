//! Maintenance of the queues: freeing memory, moving allocations, measuring, checking.

use super::super::memory::{Mover, Steps, allotted, relocate, rounded};
use super::super::store::Records;
#[cfg(any(test, feature = "checks"))]
use super::super::store::Spot;
use super::block_index::BLOCKS_PER_ENTRY;
use super::heads::{QueueNumber, TIMELINE};
#[cfg(any(test, feature = "checks"))]
use super::order::DEADLINES;
use super::queues::Queues;
#[cfg(any(test, feature = "checks"))]
use super::ranges::{Range, offset};

impl Queues {
    /// Moves a block if that helps to free a page. Returns the number of records updated.
    pub fn compact(&mut self, records: &mut Records) -> Option<usize> {
        let new = self.blocks.compact()?;
        self.block_moved(records, new);
        let meta = *self.blocks.meta(new);
        if meta.queue == TIMELINE {
            let first = self.blocks.view(new).first().expect("a block is not empty");
            self.ranges.replace(records.turn(first), new);
        }
        if meta.since_indexed == BLOCKS_PER_ENTRY {
            let first = self.blocks.view(new).first().expect("a block is not empty");
            self.block_index.replace(meta.queue, records.turn(first), new);
        }
        Some(meta.len())
    }

    /// Moves all allocations but the table of TTLs and the nodes of the block index: hashbrown and the standard library
    /// give no access to them.
    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        steps.one(|mover| {
            relocate(&mut self.queues, mover);
            self.heads.defrag(mover);
            self.votes.defrag(mover);
        });
        self.blocks.defrag(steps);
        self.ranges.defrag(steps);
    }

    /// Returns the bytes allocated. O(pages of blocks).
    pub fn memory(&self) -> usize {
        self.blocks.memory()
            + allotted(&self.queues)
            + self.free.len() * size_of::<QueueNumber>() * 3
            + rounded(self.by_ttl.allocation_size())
            + self.heads.memory()
            + self.block_index.memory()
            + self.ranges.memory()
            + self.votes.memory()
    }

    /// Panics unless every queue and the timeline are in order, linked both ways, and consistent with their records.
    /// Returns the number of records.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, records: &Records) -> usize {
        let (mut count, mut blocks, mut indexed) = (0, 0, 0);
        self.ranges.check();
        let mut ranges = self.ranges.iter().peekable();
        for (number, queue) in (0..).zip(&self.queues) {
            let in_timeline = number == TIMELINE;
            let Some((head, tail)) = queue.ends else {
                assert!(in_timeline || self.free.contains(&number), "a lost queue number");
                continue;
            };
            assert!(in_timeline || self.find(queue.ttl) == Some(number), "TTL {}", queue.ttl);
            let (mut at, mut prev, mut last) = (Some(head), None, None);
            while let Some(handle) = at {
                let view = self.blocks.view(handle);
                assert_eq!((view.block.prev, view.meta.queue), (prev, number), "links");
                assert_eq!(view.meta.is_head, prev.is_none(), "which block is the first");
                assert_eq!(view.handles().count(), view.meta.len(), "a place without a handle");
                let turns = || view.handles().map(|(_, handle)| records.turn(handle));
                let first = turns().min().expect("a block is not empty");
                let from = if in_timeline {
                    let range = ranges.next().expect("each block has a range");
                    self.check_range(records, range);
                    assert_eq!(range.block, handle, "the block of a range");
                    assert!(ranges.peek().is_none_or(|next| turns().all(|turn| turn < next.from)));
                    Some(range.from)
                } else {
                    assert!(view.meta.is_sorted, "an unsorted queue");
                    let entry = self.block_index.indexed_turn(number, first, handle);
                    let is_indexed = view.meta.since_indexed == BLOCKS_PER_ENTRY;
                    assert_eq!(entry.is_some(), is_indexed, "a block of the index");
                    indexed += usize::from(is_indexed);
                    entry
                };
                assert!(from.is_none_or(|from| last < Some(from) && from <= first), "{from:?}");
                assert!(last < Some(first), "{last:?} before {first:?}");
                assert!(!view.meta.is_sorted || turns().is_sorted(), "the order in a block");
                last = turns().max();
                for (place, handle_in) in view.handles() {
                    let spot = Spot::new(handle, place);
                    assert_eq!(records.get(handle_in).spot(), spot, "a record's spot");
                    count += 1;
                }
                blocks += 1;
                (prev, at) = (Some(handle), view.block.next);
            }
            assert_eq!(prev, Some(tail), "the last block is not the tail");
            assert!(last.is_some_and(|last| last.deadline <= queue.latest), "latest is too early");
        }
        assert!(ranges.next().is_none(), "a range without a block");
        assert_eq!(self.timeline_ttls().count(), self.timeline_len, "elements of the timeline");
        assert_eq!(blocks, self.blocks.check(), "blocks outside of queues");
        let counted = self.counts().map(|(_, length)| length).sum::<usize>();
        assert_eq!(counted, count, "lengths of blocks");
        assert_eq!(indexed, self.block_index.len(), "entries of the block index");
        assert_eq!(self.by_ttl.len() + self.free.len() + 1, self.queues.len());
        let mut heads = self.heads.clone();
        for number in self.stale.iter() {
            let turn = self.head_turn(records, number).expect("a stale head has a head");
            heads.set(number, turn);
        }
        heads.check(|number| {
            self.queues.get(usize::from(number)).and_then(|_| self.head_turn(records, number))
        });
        count
    }

    /// Panics unless the columns of a block of the timeline and its range agree.
    #[cfg(any(test, feature = "checks"))]
    fn check_range(&self, records: &Records, Range { from, block }: Range) {
        let view = self.blocks.view(block);
        let is_stale = self.stale.contains(TIMELINE);
        assert!(view.meta.is_head || !view.meta.is_sorted, "only the first block is sorted");
        assert!(view.meta.is_sorted || !view.meta.is_head || is_stale, "an unsorted head");
        for (place, handle) in view.handles() {
            let offset = offset(records.turn(handle).deadline, from.deadline);
            assert_eq!(self.blocks.column(block, DEADLINES)[place], offset, "a deadline");
        }
    }
}
