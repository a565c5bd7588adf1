//! Maintenance of the queues: freeing memory, moving allocations, measuring, checking.

use super::super::memory::{Mover, Steps, allotted, relocate, rounded};
use super::super::store::Records;
#[cfg(any(test, feature = "checks"))]
use super::super::store::Spot;
use super::heads::QueueNumber;
#[cfg(any(test, feature = "checks"))]
use super::heads::TIMELINE;
#[cfg(any(test, feature = "checks"))]
use super::order::{DEADLINES, offset};
use super::queues::Queues;
#[cfg(any(test, feature = "checks"))]
use super::ranges::Range;

impl Queues {
    /// Moves a block if that helps to free a page. Returns the number of records updated.
    pub fn compact(&mut self, records: &mut Records) -> Option<usize> {
        let (old, new) = self.blocks.compact()?;
        self.block_moved(records, old, new);
        Some(self.blocks.meta(new).len())
    }

    /// Moves all allocations but the table of TTLs, to which hashbrown gives no access.
    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        steps.one(|mover| {
            relocate(&mut self.queues, mover);
            relocate(&mut self.stale, mover);
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
            + allotted(&self.stale)
            + self.free.len() * size_of::<QueueNumber>() * 3
            + rounded(self.by_ttl.allocation_size())
            + self.heads.memory()
            + self.ranges.memory()
            + self.votes.memory()
    }

    /// Panics unless every queue and the timeline are in order, and consistent with their records.
    /// Returns the number of records.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, records: &Records) -> usize {
        let (mut count, mut blocks) = (0, 0);
        for (number, queue) in (0..).zip(&self.queues) {
            let in_timeline = number == TIMELINE;
            let Some((head, tail)) = queue.ends else {
                assert!(in_timeline || self.free.contains(&number), "a lost queue number");
                continue;
            };
            assert!(in_timeline || self.find(queue.ttl) == Some(number), "TTL {}", queue.ttl);
            let mut last = None;
            let mut ranges = self.ranges.iter(number).peekable();
            assert_eq!(ranges.peek().map(|range| range.block), Some(head), "the first block");
            while let Some(range) = ranges.next() {
                let Range { from, block: handle } = range;
                let view = self.blocks.view(handle);
                assert_eq!(view.meta.queue, number, "the queue of a block");
                assert_eq!(view.meta.is_head, handle == head, "which block is the first");
                assert_eq!(ranges.peek().is_none(), handle == tail, "which block is the last");
                assert_eq!(view.handles().count(), view.meta.len(), "a place without a handle");
                let ranks = || view.handles().map(|(_, handle)| records.rank(handle));
                let first = ranks().min().expect("a block is not empty");
                if in_timeline {
                    self.check_range(records, range);
                } else {
                    assert!(view.meta.is_sorted, "an unsorted queue");
                }
                assert!(last < Some(from) && from <= first, "{from:?}");
                assert!(last < Some(first), "{last:?} before {first:?}");
                assert!(!view.meta.is_sorted || ranks().is_sorted(), "the order in a block");
                last = ranks().max();
                for (place, handle_in) in view.handles() {
                    let spot = Spot::new(handle, place);
                    assert_eq!(records.get(handle_in).spot(), spot, "a record's spot");
                    count += 1;
                }
                blocks += 1;
            }
            assert!(last.is_some_and(|last| last.deadline <= queue.latest), "latest is too early");
        }
        assert_eq!(self.timeline_ttls().count(), self.timeline_len, "elements of the timeline");
        assert_eq!(blocks, self.blocks.check(), "blocks outside of queues");
        let counted = self.counts().map(|(_, length)| length).sum::<usize>();
        assert_eq!(counted, count, "lengths of blocks");
        assert_eq!(blocks, self.ranges.check(), "ranges without a queue");
        assert_eq!(self.by_ttl.len() + self.free.len() + 1, self.queues.len());
        let stale = (0..).zip(&self.queues).filter(|(_, it)| it.is_stale);
        let stale = stale.map(|(number, _)| number).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(stale, self.stale.iter().copied().collect(), "stale heads");
        let mut heads = self.heads.clone();
        for number in &self.stale {
            let rank = self.head_rank(records, *number).expect("a stale head has a head");
            heads.set(*number, rank);
        }
        heads.check(|number| {
            self.queues.get(usize::from(number)).and_then(|_| self.head_rank(records, number))
        });
        count
    }

    /// Panics unless the columns of a block of the timeline and its range agree.
    #[cfg(any(test, feature = "checks"))]
    fn check_range(&self, records: &Records, Range { from, block }: Range) {
        let view = self.blocks.view(block);
        let is_stale = self.stale.contains(&TIMELINE);
        assert!(view.meta.is_head || !view.meta.is_sorted, "only the first block is sorted");
        assert!(view.meta.is_sorted || !view.meta.is_head || is_stale, "an unsorted head");
        for (place, handle) in view.handles() {
            let offset = offset(records.rank(handle).deadline, from.deadline);
            assert_eq!(self.blocks.column(block, DEADLINES)[place], offset, "a deadline");
        }
    }
}
