//! A table of the index: entries whose hashes begin with the same bits, in buckets of one cache line.
//!
//! ```text
//!   a bucket, 64 bytes:  [ 8 hashes | 8 handles ]
//! ```
//!
//! An entry that does not fit into its home bucket goes into the next bucket with room. Each bucket that it passes
//! counts it, as in Facebook's F14: a look-up continues only while that count is not 0, and a removal leaves no
//! tombstone.
//!
//! A table can have any number of buckets, not just powers of two: the hash is scaled to that number.

use std::ops::RangeInclusive;

use super::super::processor::{LANES, equal};
use super::super::store::Handle;
use super::super::tiny::TINY;
use super::super::work;

/// Entries in a bucket. They fill a cache line.
const SLOTS: usize = LANES;
/// Buckets of a full table, 32 KiB. An uneven split makes a somewhat larger table. Moving all its entries takes some
/// ten microseconds.
pub(super) const BUCKETS_MAX: usize = if TINY { 4 } else { 512 };
/// Entries in a full table.
pub(super) const ENTRIES_MAX: usize = capacity(BUCKETS_MAX);

/// Returns how many entries fit before the table must grow: seven eighths, at which one entry in seven is outside its
/// home bucket. A single bucket may be full.
pub(super) const fn capacity(buckets: usize) -> usize {
    if buckets == 1 { SLOTS } else { buckets * (SLOTS - 1) }
}

/// The possible numbers of buckets. They are jemalloc's size classes, without one in four: with all of them, 6.5
/// entries would be moved for each one that an index gains; with these, 4.8.
const SIZES: [usize; 25] = [
    1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384,
    512,
];

/// Returns the next larger number of buckets.
pub(super) fn next_size(buckets: usize) -> usize {
    let next = SIZES.iter().find(|size| **size > buckets);
    // A table that cannot be split further.
    next.copied().unwrap_or(buckets + buckets / 4)
}

/// Returns the smallest number of buckets with room for `entries` and an eighth more.
pub(super) fn buckets_for(entries: usize) -> usize {
    let mut buckets = 1;
    while capacity(buckets) < entries + entries / 8 {
        buckets = next_size(buckets);
    }
    buckets
}

/// The part of an id's hash that the index uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IdHash(pub u32);

#[derive(Clone, Copy)]
pub(super) struct IndexEntry {
    pub(super) hash: IdHash,
    pub(super) handle: Handle,
}

/// Eight entries. The hash beside a blank handle is meaningless.
#[derive(Clone, Copy, Default)]
pub(super) struct Bucket {
    hashes: [u32; SLOTS],
    /// Encoded by [`Handle::to_bits`]; 0 is blank.
    pub(super) handles: [u32; SLOTS],
}

// The documented cost of a look-up is one cache line.
const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    fn blank(&self) -> Option<usize> {
        equal(&self.handles, 0).next()
    }

    fn entries(&self) -> impl Iterator<Item = IndexEntry> + '_ {
        work::read_buckets(1);
        let slots = self.hashes.iter().zip(&self.handles);
        slots.filter_map(|(hash, handle)| {
            Some(IndexEntry { hash: IdHash(*hash), handle: Handle::from_bits(*handle)? })
        })
    }
}

/// The location of an entry in its table.
#[derive(Clone, Copy)]
pub(super) struct Location {
    /// The bucket where the hash belongs.
    home: usize,
    pub(super) bucket: usize,
    pub(super) slot: usize,
}

#[derive(Clone)]
pub(super) struct Table {
    pub(super) buckets: Vec<Bucket>,
    /// For each bucket, how many entries passed it because it was full. A count that has reached [`u8::MAX`] stays
    /// there until the table is rebuilt.
    pub(super) passed: Vec<u8>,
    pub(super) len: usize,
    /// With fewer entries the table is shrunk.
    pub(super) shrink_below: usize,
    /// The number of top bits that all hashes share …
    pub(super) depth: u32,
    /// … and their value, left-aligned.
    pub(super) prefix: u32,
}

impl Table {
    pub(super) fn new(buckets: usize, depth: u32, prefix: u32) -> Self {
        Self {
            buckets: vec![Bucket::default(); buckets],
            passed: vec![0; buckets],
            len: 0,
            // Far below the size at which it grew: a table whose size hovers is not shrunk, and an index that empties
            // moves each entry once in two removals.
            shrink_below: if buckets > 1 { capacity(buckets) / 3 } else { 0 },
            depth,
            prefix,
        }
    }

    /// Inserts the entries of other tables that are `wanted` into this one, which must be empty and have room.
    pub(super) fn fill(&mut self, others: &[&[Bucket]], wanted: impl Fn(u32) -> bool) {
        // The table has no gaps while it is filled, so no bucket needs to be searched for a blank.
        let mut filled = vec![0_u8; self.buckets.len()];
        for bucket in others.iter().copied().flatten() {
            work::read_buckets(1);
            for slot in 0..SLOTS {
                let (hash, handle) = (bucket.hashes[slot], bucket.handles[slot]);
                if handle == 0 || !wanted(hash) {
                    continue;
                }
                let mut at = self.home(IdHash(hash));
                while usize::from(filled[at]) == SLOTS {
                    at = self.pass(at);
                }
                let slot = usize::from(filled[at]) % SLOTS;
                filled[at] += 1;
                let bucket = &mut self.buckets[at];
                bucket.hashes[slot] = hash;
                bucket.handles[slot] = handle;
                self.len += 1;
                work::move_items::<IndexEntry>(1);
            }
        }
    }

    /// Returns the home bucket of a hash. Buckets are in the order of hashes, so that a rebuild walks both tables from
    /// end to end.
    pub(super) fn home(&self, hash: IdHash) -> usize {
        let below = hash.0 << self.depth;
        ((u64::from(below) * self.buckets.len() as u64) >> 32) as usize
    }

    pub(super) fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= capacity(self.buckets.len())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = IndexEntry> + '_ {
        self.buckets.iter().flat_map(Bucket::entries)
    }

    /// Iterates over the buckets where hashes with these home buckets are: these, and those behind them for as long as
    /// entries passed the bucket before. Also shows entries with other home buckets.
    pub(super) fn entries_of(
        &self,
        homes: RangeInclusive<usize>,
    ) -> impl Iterator<Item = IndexEntry> + '_ {
        let (first, last) = homes.into_inner();
        let behind = std::iter::successors(Some(last), move |at| {
            let next = self.next(*at);
            (self.passed[*at] > 0 && next != first).then_some(next)
        });
        (first..last).chain(behind).flat_map(|at| self.buckets[at].entries())
    }

    /// Finds the entry under this hash, whose home bucket is given, for which `is_it` returns true.
    #[inline(always)]
    pub(super) fn find(
        &self,
        home: usize,
        hash: IdHash,
        mut is_it: impl FnMut(Handle) -> bool,
    ) -> Option<(Location, Handle)> {
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            work::read_buckets(1);
            // Some slots with this hash may be blank.
            for slot in equal(&bucket.hashes, hash.0) {
                if let Some(handle) = Handle::from_bits(bucket.handles[slot])
                    && is_it(handle)
                {
                    return Some((Location { home, bucket: at, slot }, handle));
                }
            }
            if self.passed[at] == 0 {
                return None;
            }
            at = self.next(at);
            if at == home {
                return None;
            }
        }
    }

    /// Inserts an entry, given its home bucket. There must be room.
    #[inline(always)]
    pub(super) fn insert(&mut self, home: usize, entry: IndexEntry) {
        let mut at = home;
        let slot = loop {
            work::read_buckets(1);
            match self.buckets[at].blank() {
                Some(slot) => break slot,
                None => at = self.pass(at),
            }
        };
        let bucket = &mut self.buckets[at];
        bucket.hashes[slot % SLOTS] = entry.hash.0;
        bucket.handles[slot % SLOTS] = entry.handle.bits();
        self.len += 1;
    }

    /// Counts an entry that passes a full bucket. Returns the next bucket.
    fn pass(&mut self, bucket: usize) -> usize {
        self.passed[bucket] = self.passed[bucket].saturating_add(1);
        self.next(bucket)
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, location: Location) {
        self.buckets[location.bucket].handles[location.slot % SLOTS] = 0;
        self.len -= 1;
        let mut at = location.home;
        while at != location.bucket {
            if self.passed[at] < u8::MAX {
                self.passed[at] -= 1;
            }
            at = self.next(at);
        }
    }

    /// Rebuilds the table with this number of buckets.
    #[cold]
    pub(super) fn resize(&mut self, buckets: usize) {
        let mut new = Self::new(buckets, self.depth, self.prefix);
        new.fill(&[&self.buckets], |_| true);
        *self = new;
    }

    /// Panics unless entries and counts agree. `is_live` returns whether a record exists.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self, mut is_live: impl FnMut(IdHash, Handle) -> bool) {
        assert_eq!(self.len, self.entries().count(), "a table's count");
        assert!(self.len <= capacity(self.buckets.len()), "a table is overfull");
        let mut passed = vec![0; self.buckets.len()];
        for (number, bucket) in self.buckets.iter().enumerate() {
            for entry in bucket.entries() {
                let mut at = self.home(entry.hash);
                while at != number {
                    passed[at] += 1;
                    at = self.next(at);
                }
                let shared = (u64::from(entry.hash.0 ^ self.prefix) << self.depth) >> 32;
                assert_eq!(shared, 0, "an entry is in the wrong table");
                assert!(is_live(entry.hash, entry.handle), "an entry without a record");
            }
        }
        for (counted, passed) in self.passed.iter().zip(passed) {
            let counted = usize::from(*counted);
            assert!(counted == passed || counted == u8::MAX.into(), "entries that passed");
        }
    }
}
