//! A table of the index: entries whose hashes begin with the same bits, in buckets of one cache line.
//!
//! ```text
//!   a bucket, 64 bytes:  [ 8 hashes | 8 handles ]
//! ```
//!
//! What does not fit into its bucket goes into the next one that has room, and each bucket that it
//! passed counts it (as in Facebook's F14): a look-up goes on only while the count says so, and
//! taking an entry out leaves no tombstone behind.
//!
//! A table has any number of buckets, not a power of two: a hash is scaled to them.

use super::super::memory::allotted;
use super::super::store::Handle;
use super::super::tiny::TINY;
use super::lanes::{self, LANES, Lanes};

/// Entries in a bucket, which fill a cache line.
const SLOTS: usize = LANES;
/// Buckets in a full table, 32 KiB; a split that is not even makes a somewhat larger one. To move all of its entries takes some ten microseconds.
pub(super) const BUCKETS_MAX: usize = if TINY { 4 } else { 512 };
/// Entries in a full table.
pub(super) const ENTRIES_MAX: usize = room(BUCKETS_MAX);

/// Entries that so many buckets take before there must be more: seven eighths, at which one entry in
/// seven is not in its own bucket. A single bucket can be full.
pub(super) const fn room(buckets: usize) -> usize {
    if buckets == 1 { SLOTS } else { buckets * (SLOTS - 1) }
}

/// How many buckets tables have. They are size classes of jemalloc, of which one in four is left out: with all of them 6.5 entries
/// would be moved for each one that an index gains, and with these it is 4.8.
const SIZES: [usize; 25] = [
    1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384,
    512,
];

/// Returns the next larger number of buckets.
pub(super) fn larger(buckets: usize) -> usize {
    let next = SIZES.iter().find(|size| **size > buckets);
    // A table that cannot be split any more.
    next.copied().unwrap_or(buckets + buckets / 4)
}

/// Returns the fewest buckets that have room for so many entries, and an eighth more.
pub(super) fn fitting(entries: usize) -> usize {
    let mut buckets = 1;
    while room(buckets) < entries + entries / 8 {
        buckets = larger(buckets);
    }
    buckets
}

/// The part of an id's hash that the index uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IdHash(pub u32);

#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) hash: IdHash,
    pub(super) handle: Handle,
}

/// Entries whose hashes begin with the same bits. The hash beside a blank handle says nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Bucket {
    hashes: [u32; SLOTS],
    /// As [`Handle::to_bits`] has them: 0 is blank.
    handles: [u32; SLOTS],
}

// A look-up is priced at one cache line.
const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// Returns the slots with that hash, blank ones perhaps among them.
    fn matches(&self, hash: IdHash) -> Lanes {
        lanes::equal(&self.hashes, hash.0)
    }

    fn blank(&self) -> Option<usize> {
        lanes::equal(&self.handles, 0).next()
    }

    fn handle(&self, slot: usize) -> Option<Handle> {
        Handle::from_bits(self.handles[slot])
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let slots = self.hashes.iter().zip(&self.handles);
        slots.filter_map(|(hash, handle)| {
            Some(Entry { hash: IdHash(*hash), handle: Handle::from_bits(*handle)? })
        })
    }
}

/// Where an entry is in its table.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The bucket where its hash belongs.
    home: usize,
    bucket: usize,
    slot: usize,
}

#[derive(Clone)]
pub(super) struct Table {
    pub(super) buckets: Vec<Bucket>,
    /// For each bucket, how many entries passed it because it was full. What has counted up to
    /// [`u8::MAX`] stays there until the table is made anew.
    pub(super) passed: Vec<u8>,
    /// Entries.
    pub(super) len: usize,
    /// With fewer entries than this the table is cut.
    pub(super) fewest: usize,
    /// How many top bits of the hash all entries share …
    pub(super) depth: u32,
    /// … and what they are, left-aligned.
    pub(super) prefix: u32,
}

impl Table {
    pub(super) fn new(buckets: usize, depth: u32, prefix: u32) -> Self {
        Self {
            buckets: vec![Bucket::default(); buckets],
            passed: vec![0; buckets],
            len: 0,
            // Far below what it held when it grew: what hovers about one size is not cut, and each entry is moved once in two
            // removals while an index empties.
            fewest: if buckets > 1 { room(buckets) / 3 } else { 0 },
            depth,
            prefix,
        }
    }

    /// Adds the entries of other tables that are `wanted` to this one, which is empty and for which it has room.
    pub(super) fn fill(&mut self, others: &[&[Bucket]], wanted: impl Fn(u32) -> bool) {
        // Nothing is taken out meanwhile: no bucket need be searched for a blank.
        let mut filled = vec![0_u8; self.buckets.len()];
        for bucket in others.iter().copied().flatten() {
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
            }
        }
    }

    /// Returns the bucket where a hash belongs. Tables keep the order of hashes, so that making one anew walks
    /// both from end to end.
    pub(super) fn home(&self, hash: IdHash) -> usize {
        let below = hash.0 << self.depth;
        ((u64::from(below) * self.buckets.len() as u64) >> 32) as usize
    }

    pub(super) fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= room(self.buckets.len())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.buckets.iter().flat_map(Bucket::entries)
    }

    /// Finds the entry under this hash that `read` makes something of, and returns what that is.
    #[inline(always)]
    pub(super) fn find<R>(
        &self,
        hash: IdHash,
        read: impl FnMut(Handle) -> Option<R>,
    ) -> Option<(Place, Handle, R)> {
        self.find_from(self.home(hash), hash, read)
    }

    /// Does what [`Table::find`] does, of a hash that belongs into the bucket `home`.
    #[inline(always)]
    pub(super) fn find_from<R>(
        &self,
        home: usize,
        hash: IdHash,
        mut read: impl FnMut(Handle) -> Option<R>,
    ) -> Option<(Place, Handle, R)> {
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            for slot in bucket.matches(hash) {
                if let Some(handle) = bucket.handle(slot)
                    && let Some(found) = read(handle)
                {
                    return Some((Place { home, bucket: at, slot }, handle, found));
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

    /// Adds an entry that belongs into the bucket `home`; there must be room.
    #[inline(always)]
    pub(super) fn insert(&mut self, home: usize, entry: Entry) {
        let mut at = home;
        let slot = loop {
            match self.buckets[at].blank() {
                Some(slot) => break slot,
                None => at = self.pass(at),
            }
        };
        self.put(Place { home, bucket: at, slot }, entry);
    }

    /// Counts an entry that passes a full bucket, and returns the next one.
    fn pass(&mut self, bucket: usize) -> usize {
        self.passed[bucket] = self.passed[bucket].saturating_add(1);
        self.next(bucket)
    }

    fn put(&mut self, Place { bucket, slot, .. }: Place, entry: Entry) {
        let bucket = &mut self.buckets[bucket];
        bucket.hashes[slot % SLOTS] = entry.hash.0;
        bucket.handles[slot % SLOTS] = Handle::to_bits(Some(entry.handle));
        self.len += 1;
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, place: Place) {
        self.buckets[place.bucket].handles[place.slot % SLOTS] = 0;
        self.len -= 1;
        let mut at = place.home;
        while at != place.bucket {
            if self.passed[at] < u8::MAX {
                self.passed[at] -= 1;
            }
            at = self.next(at);
        }
    }

    /// Gives the entry at a place another handle.
    pub(super) fn replace(&mut self, place: Place, new: Handle) {
        self.buckets[place.bucket].handles[place.slot] = Handle::to_bits(Some(new));
    }

    /// Gives the table so many buckets.
    #[cold]
    pub(super) fn resize(&mut self, buckets: usize) {
        let mut new = Self::new(buckets, self.depth, self.prefix);
        new.fill(&[&self.buckets], |_| true);
        *self = new;
    }

    pub(super) fn memory(&self) -> usize {
        allotted(&self.buckets) + allotted(&self.passed)
    }

    /// Panics unless its entries and what it counts agree. `is_live` says whether a record exists.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self, mut is_live: impl FnMut(IdHash, Handle) -> bool) {
        assert_eq!(self.len, self.entries().count(), "a table's count");
        assert!(self.len <= room(self.buckets.len()), "a table is overfull");
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
