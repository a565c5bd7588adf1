//! When the elements of a full lawn are too late to be given out.
//!
//! An element with [`Bounds::until`](super::Bounds::until) expires at that moment or when it is due, whichever is later.
//! So the moment follows from the record alone, and changes with its deadline: a lease or a back-off that runs longer
//! than that postpones it. Elements without that bound are not in here.

use std::collections::BTreeSet;

use super::store::Handle;

/// Records by the moment at which they expire.
#[derive(Clone, Default)]
pub struct Expiries(BTreeSet<(u64, Handle)>);

impl Expiries {
    /// Returns whether no element can expire, as in most lawns.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Inserts a record that expires at a moment. O(log n).
    pub fn insert(&mut self, moment: u64, record: Handle) {
        self.0.insert((moment, record));
    }

    /// Removes a record that was to expire at a moment. O(log n).
    pub fn remove(&mut self, moment: u64, record: Handle) {
        self.0.remove(&(moment, record));
    }

    /// Returns when the first record expires.
    pub fn first(&self) -> Option<u64> {
        self.0.first().map(|(moment, _)| *moment)
    }

    /// Lists the records that have expired at `now`, in order.
    pub fn until(&self, now: u64) -> impl Iterator<Item = Handle> + '_ {
        self.0.iter().take_while(move |(moment, _)| *moment <= now).map(|(_, record)| *record)
    }

    /// Returns the bytes allocated, roughly.
    pub fn memory(&self) -> usize {
        // The standard library's nodes are about two thirds full.
        self.0.len() * size_of::<(u64, Handle)>() * 3 / 2
    }

    /// Returns roughly how many allocations dropping it frees. O(1).
    pub fn allocations(&self) -> usize {
        self.0.len() / 7
    }

    /// Panics unless it lists these records.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, expected: impl Iterator<Item = (u64, Handle)>) {
        let mut expected: Vec<_> = expected.collect();
        expected.sort_unstable();
        assert!(self.0.iter().eq(&expected), "what expires");
    }
}
