//! From an id to its record: a hash table that grows and shrinks in bounded steps.
//!
//! A single table that doubles stalls a server for hundreds of milliseconds at ten million entries. This is extendible
//! hashing (Fagin, Nievergelt, Pippenger and Strong, 1979) instead: a directory of small tables. A full table is split,
//! and two that are nearly empty are merged. One operation moves at most the entries of a few tables, up to
//! [`ENTRIES_MAX`] each.
//!
//! ```text
//!   hash of the id, 32 bits:  [ directory: top bits … | bucket: the bits below ]
//!                                    │                      └─▶ scaled to the table's buckets
//!   directory  [ 0 | 0 | 1 | 2 ]  ◀──┘    a table of depth d has 2^(depth - d) entries
//!                └───┴─┐ │   └─────────────┐
//!                tables[0] depth 1   tables[2] depth 2   …
//!
//!   a bucket, 64 bytes:  [ 8 hashes | 8 handles ]
//! ```
//!
//! # Why not hashbrown
//!
//! hashbrown takes two cache misses per look-up in cold memory, one for its tags and one for the entry, and it doubles.
//! Here tags and entries share a cache line, in which eight hashes are compared at once. A table can have any number of
//! buckets, so a large one grows by at most a quarter of its size and stays more than two thirds full: ten bytes an
//! element instead of up to twenty, because all tables of a directory fill up at the same time.
//!
//! An entry that does not fit into its bucket goes into another one: see [`Table`].
//!
//! An entry stores the hash beside the handle, so that tables split, grow and merge without reading records, and a
//! look-up reads only its own record. The ids are stored once, in the records. The directory has one entry of four
//! bytes for some thousands of entries.

mod table;

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;

use super::memory::{Mover, Steps, allotted, push_tight, relocate, shrink};
use super::processor::prefetch;
use super::store::Handle;
use super::work;

pub use table::IdHash;
use table::{ENTRIES_MAX, IndexEntry, Table, buckets_for, next_size};

/// Two tables are merged if together they have at most this many entries: far enough from a split that the two do not
/// alternate.
const MERGED_MAX: usize = ENTRIES_MAX / 2;
/// The maximum depth of the directory. With a good hash it takes 2^31 entries to get there.
const DEPTH_MAX: u32 = 20;

/// A position for a new entry, valid until the index changes.
#[must_use]
pub struct Vacancy {
    table: usize,
    /// The bucket where the hash belongs.
    home: usize,
    hash: IdHash,
}

#[derive(Clone)]
pub struct Index {
    hasher: RandomState,
    directory: Vec<u32>,
    tables: Vec<Table>,
    depth: u32,
    /// The number of entries.
    pub len: usize,
}

impl Index {
    /// Creates an empty index. A client that knows the hasher's keys can choose ids that collide: draw the keys at
    /// random and keep them secret.
    pub fn new(hasher: RandomState) -> Self {
        Self { hasher, directory: vec![0], tables: vec![Table::new(1, 0, 0)], depth: 0, len: 0 }
    }

    #[inline(always)]
    pub fn hash(&self, id: &[u8]) -> IdHash {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(id);
        IdHash(hasher.finish() as u32)
    }

    /// Finds the handle under this hash for which `is_it` returns true.
    #[inline(always)]
    pub fn find(&self, hash: IdHash, is_it: impl FnMut(Handle) -> bool) -> Option<Handle> {
        let table = &self.tables[self.table_of(hash)];
        let (_, handle) = table.find(table.home(hash), hash, is_it)?;
        Some(handle)
    }

    /// Makes room for a new entry, which [`Index::fill`] inserts. `None` if there is a handle under this hash for which
    /// `is_it` returns true.
    #[inline(always)]
    pub fn vacancy(&mut self, hash: IdHash, is_it: impl FnMut(Handle) -> bool) -> Option<Vacancy> {
        let mut number = self.table_of(hash);
        let table = &self.tables[number];
        let mut home = table.home(hash);
        if table.find(home, hash, is_it).is_some() {
            return None;
        }
        if table.is_full() {
            number = self.make_room(number, hash);
            home = self.tables[number].home(hash);
        }
        Some(Vacancy { table: number, home, hash })
    }

    /// Inserts an entry.
    #[inline(always)]
    pub fn fill(&mut self, Vacancy { table, home, hash }: Vacancy, handle: Handle) {
        self.tables[table].insert(home, IndexEntry { hash, handle });
        self.len += 1;
    }

    #[inline(always)]
    pub fn prefetch(&self, hash: IdHash) {
        let table = &self.tables[self.table_of(hash)];
        prefetch(&table.buckets[table.home(hash)]);
    }

    /// Removes the entry under this hash for which `is_it` returns true, and returns its handle.
    #[inline(always)]
    pub fn remove(&mut self, hash: IdHash, is_it: impl FnMut(Handle) -> bool) -> Option<Handle> {
        let number = self.table_of(hash);
        let table = &mut self.tables[number];
        let (location, handle) = table.find(table.home(hash), hash, is_it)?;
        table.remove(location);
        self.len -= 1;
        if table.len < table.shrink_below {
            self.shrink(number);
        }
        Some(handle)
    }

    /// Removes the entry of a handle. Panics if there is none.
    #[inline(always)]
    pub fn remove_handle(&mut self, hash: IdHash, handle: Handle) {
        self.remove(hash, |it| it == handle).expect("a filed record is in the index");
    }

    /// Replaces a handle in its entry.
    pub fn replace(&mut self, hash: IdHash, old: Handle, new: Handle) {
        let number = self.table_of(hash);
        let table = &mut self.tables[number];
        let found = table.find(table.home(hash), hash, |it| it == old);
        let (location, _) = found.expect("a stored record is in the index");
        table.buckets[location.bucket].handles[location.slot] = new.bits();
    }

    /// Shows about `count` handles in the order of their hashes, from hash `cursor` on. Returns the hash to resume at,
    /// or 0 at the end. Hashes are constant, so splits, growth and merges between calls do not matter.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Handle)) -> u64 {
        const END: u64 = 1 << 32;
        let mut from = cursor;
        let mut shown = 0;
        while from < END && shown < count {
            let table = &self.tables[self.table_of(IdHash(from as u32))];
            let width = END >> table.depth;
            let table_end = u64::from(table.prefix) + width;
            // The range of hashes that should hold the remaining entries.
            let wanted = (count - shown) as u128 * u128::from(width);
            let hashes = wanted.div_ceil(table.len.max(1) as u128);
            let to = u64::try_from(hashes)
                .map_or(table_end, |hashes| from.saturating_add(hashes).min(table_end));
            let homes = table.home(IdHash(from as u32))..=table.home(IdHash((to - 1) as u32));
            for entry in table.entries_of(homes) {
                if (from..to).contains(&u64::from(entry.hash.0)) {
                    show(entry.handle);
                    shown += 1;
                }
            }
            from = to;
            // To look for the last few would read the same buckets again.
            if shown > 0 && to < table_end {
                break;
            }
        }
        if from < END { from } else { 0 }
    }

    /// Moves the directory and the list of tables, then a table in each step.
    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        steps.one(|mover| {
            relocate(&mut self.directory, mover);
            relocate(&mut self.tables, mover);
        });
        steps.each(&mut self.tables, |table, mover| {
            relocate(&mut table.buckets, mover);
            relocate(&mut table.passed, mover);
        });
    }

    /// Returns the bytes allocated. O(tables).
    pub fn memory(&self) -> usize {
        let tables = self.tables.iter().map(|it| allotted(&it.buckets) + allotted(&it.passed));
        tables.sum::<usize>() + allotted(&self.tables) + allotted(&self.directory)
    }

    fn table_of(&self, hash: IdHash) -> usize {
        // Computed in 64 bits because a shift of a `u32` by 32, at depth 0, would overflow.
        let entry = u64::from(hash.0) << self.depth >> 32;
        self.directory[entry as usize] as usize
    }

    /// Returns the directory entries of a table.
    fn directory_range(&self, number: usize) -> std::ops::Range<usize> {
        let Table { depth, prefix, .. } = self.tables[number];
        let first = (u64::from(prefix) << self.depth >> 32) as usize;
        first..first + (1 << (self.depth - depth))
    }

    /// Makes room in a full table for one more entry with this hash. Returns the table to insert into.
    #[cold]
    fn make_room(&mut self, mut number: usize, hash: IdHash) -> usize {
        while self.tables[number].is_full() {
            let Table { depth, len, .. } = self.tables[number];
            if len >= ENTRIES_MAX && depth < DEPTH_MAX {
                self.split(number);
                number = self.table_of(hash);
            } else {
                let buckets = self.tables[number].buckets.len();
                self.tables[number].resize(next_size(buckets));
            }
        }
        number
    }

    /// Splits a full table by the next bit of its hashes.
    fn split(&mut self, number: usize) {
        let table = &mut self.tables[number];
        if table.depth == self.depth {
            work::move_items::<u32>(self.directory.len());
            self.directory = self.directory.iter().flat_map(|entry| [*entry; 2]).collect();
            self.depth += 1;
        }
        let depth = table.depth + 1;
        let bit = 1 << (32 - depth);
        let is_high = |hash: u32| hash & bit != 0;
        let highs = table.entries().filter(|entry| is_high(entry.hash.0)).count();
        let mut high = Table::new(buckets_for(highs), depth, table.prefix | bit);
        high.fill(&[&table.buckets], is_high);
        let mut low = Table::new(buckets_for(table.len - highs), depth, table.prefix);
        low.fill(&[&table.buckets], |hash| !is_high(hash));
        *table = low;
        let other = self.tables.len();
        push_tight(&mut self.tables, high);
        for entry in self.directory_range(other) {
            self.directory[entry] = other as u32;
        }
    }

    /// Shrinks a table that has few entries left, and merges it if possible.
    #[cold]
    fn shrink(&mut self, number: usize) {
        let table = &mut self.tables[number];
        table.resize(buckets_for(table.len));
        self.merge(number);
    }

    /// Merges a table with its buddy, the other half of a former split, for as long as both are small.
    fn merge(&mut self, mut number: usize) {
        while self.tables[number].len <= MERGED_MAX / 2 && self.tables[number].depth > 0 {
            let Table { depth, prefix, len, .. } = self.tables[number];
            let bit = 1 << (32 - depth);
            let buddy = self.table_of(IdHash(prefix ^ bit));
            let together = len + self.tables[buddy].len;
            if self.tables[buddy].depth != depth || together > MERGED_MAX {
                return;
            }
            for entry in self.directory_range(buddy) {
                self.directory[entry] = number as u32;
            }
            let mut merged = Table::new(buckets_for(together), depth - 1, prefix & !bit);
            let halves = [number, buddy].map(|half| &self.tables[half].buckets[..]);
            merged.fill(&halves, |_| true);
            self.tables[number] = merged;
            number = self.remove_table(buddy, number);
            self.halve_directory();
        }
    }

    /// Drops an empty table. The last table takes its number. Returns the number of table `kept` after that.
    fn remove_table(&mut self, number: usize, kept: usize) -> usize {
        let last = self.tables.len() - 1;
        if number != last {
            for entry in self.directory_range(last) {
                self.directory[entry] = number as u32;
            }
        }
        self.tables.swap_remove(number);
        shrink(&mut self.tables);
        if kept == last { number } else { kept }
    }

    /// Halves the directory if it is at least twice as long as the list of tables and no table needs its last bit.
    fn halve_directory(&mut self) {
        let needless = |pair: &[u32]| pair[0] == pair[1];
        if self.directory.len() >= 2 * self.tables.len()
            && self.directory.chunks_exact(2).all(needless)
        {
            work::move_items::<u32>(self.directory.len());
            self.directory = self.directory.iter().step_by(2).copied().collect();
            self.depth -= 1;
        }
    }

    /// Panics unless directory, tables and counts agree. `is_live` returns whether a record exists.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, mut is_live: impl FnMut(IdHash, Handle) -> bool) {
        assert_eq!(self.directory.len(), 1 << self.depth, "directory");
        assert_eq!(self.len, self.tables.iter().map(|table| table.len).sum::<usize>());
        let mut covered = 0;
        for (number, table) in self.tables.iter().enumerate() {
            let entries = self.directory_range(number);
            covered += entries.len();
            assert!(self.directory[entries].iter().all(|entry| *entry as usize == number));
            table.check(&mut is_live);
        }
        assert_eq!(covered, self.directory.len(), "directory entries that belong to no table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        Index::new(RandomState::with_seeds(1, 2, 3, 4))
    }

    fn insert(index: &mut Index, hash: IdHash, handle: Handle) {
        let vacancy = index.vacancy(hash, |it| it == handle).expect("it is not there yet");
        index.fill(vacancy, handle);
    }

    fn find(index: &Index, hash: IdHash, handle: Handle) -> Option<Handle> {
        index.find(hash, |it| it == handle)
    }

    fn remove(index: &mut Index, hash: IdHash, handle: Handle) -> Option<Handle> {
        index.remove(hash, |it| it == handle)
    }

    fn handle(number: u32) -> Handle {
        Handle::from_bits(number + 1).expect("not zero")
    }
    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn hashes_that_share_their_top_bits_only_make_the_directory_deep() {
        let mut index = index();
        for number in 0..30_000 {
            insert(&mut index, IdHash(number), handle(number));
        }
        index.check(|_, _| true);
        for number in 0..30_000 {
            assert_eq!(find(&index, IdHash(number), handle(number)), Some(handle(number)));
            assert!(remove(&mut index, IdHash(number), handle(number)).is_some());
        }
        index.check(|_, _| true);
    }

    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn a_nearly_empty_table_does_not_merge_with_a_full_one() {
        let mut index = index();
        // Spread evenly over all hashes.
        let hash = |number: u32| IdHash(number.wrapping_mul(0x9e37_79b9));
        (0..6000).for_each(|number| insert(&mut index, hash(number), handle(number)));
        assert_eq!(index.tables.len(), 2);
        for number in (0..6000).filter(|number| hash(*number).0 >> 31 == 0) {
            remove(&mut index, hash(number), handle(number)).expect("it was added");
        }
        assert_eq!(index.tables.len(), 2, "thousands of entries were moved for one");
        index.check(|_, _| true);
    }

    #[test]
    fn equal_hashes_are_distinguished_by_their_records() {
        let mut index = index();
        for number in 0..10_000 {
            insert(&mut index, IdHash(7), handle(number));
        }
        index.check(|_, _| true);
        assert_eq!(find(&index, IdHash(7), handle(9_999)), Some(handle(9_999)));
        assert_eq!(remove(&mut index, IdHash(7), handle(5_000)), Some(handle(5_000)));
        assert_eq!(find(&index, IdHash(7), handle(5_000)), None);
    }
}
