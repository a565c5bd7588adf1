//! Maintenance of a full lawn: freeing memory, moving allocations, measuring, checking.

use super::full::Full;
use super::memory::{Mover, Steps, tree_bytes};
#[cfg(any(test, feature = "checks"))]
use super::rank::{DEADLINE_MAX, Start};
use super::store::Handle;

impl Full {
    pub fn is_sparse(&self) -> bool {
        self.records.slab.is_sparse()
            || self.queues.blocks.slab.is_sparse()
            || self.groups.as_ref().is_some_and(|groups| groups.is_sparse())
    }

    pub fn compact(&mut self, moves: usize) -> bool {
        let mut done = 0;
        while done < moves {
            done += if let Some(old) = self.records.sparse() {
                let hash = self.index.hash(self.records.get(old).id());
                let Some(new) = self.records.relocate(old) else { return false };
                self.replace_handle(hash, old, new);
                1
            } else if let Some(updated) = self.queues.compact(&mut self.records) {
                updated
            } else if let Some(groups) = &mut self.groups
                && let Some(updated) = groups.compact(&mut self.records)
            {
                updated
            } else {
                return false;
            };
        }
        true
    }

    /// Moves the lawn's allocations, a page or a table in each step.
    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        self.records.slab.defrag(steps);
        self.queues.defrag(steps);
        self.index.defrag(steps);
        self.groups.iter_mut().for_each(|groups| groups.defrag(steps));
        self.records.defrag_beside(steps);
    }

    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.records.memory()
            + self.index.memory()
            + self.queues.memory()
            + self.leases.memory()
            + tree_bytes::<(u64, Handle)>(self.expiries.len())
            + self.groups.as_ref().map_or(0, |groups| groups.memory())
    }

    pub fn allocations(&self) -> usize {
        // A thousand elements share about one in the index and the queues.
        self.records.allocations()
            + self.len() / 1000
            + self.leases.allocations()
            + self.expiries.len() / 7
            + self.groups.as_ref().map_or(0, |groups| groups.allocations())
    }

    /// Panics unless all parts agree: every record is in the index once, under its id, and in one queue or the
    /// timeline, in order. For tests.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        self.index.check(|hash, handle| {
            let record = self.records.get(handle);
            hash == self.index.hash(record.id()) && self.find(record.id()) == Some(handle)
        });
        let queued = self.queues.check(&self.records);
        let queued = queued + self.groups.as_ref().map_or(0, |it| it.check(&self.records));
        assert_eq!(queued, self.len(), "index and order disagree");
        let mut handles = Vec::new();
        self.index.scan(0, usize::MAX, |handle| handles.push(handle));
        let records = self.records.check(handles.iter().copied());
        assert_eq!(records, self.len(), "records and index disagree");
        let all = self.rows(Start::FIRST, DEADLINE_MAX);
        let delivered = all.filter(|row| row.element.deliveries > 0).count();
        assert_eq!(self.delivered, delivered, "elements under a lease");
        let expiries = handles.iter().filter_map(|handle| Some((self.expiry(*handle)?, *handle)));
        assert_eq!(self.expiries, expiries.collect(), "what expires");
        let given_out = handles.into_iter().map(|handle| (self.records.get(handle), handle));
        let given_out = given_out.filter(|(record, _)| record.deliveries() > 0);
        self.leases.check(given_out.map(|(record, handle)| (record.rank(), handle)));
    }
}
