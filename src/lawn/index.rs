//! From an id to its record: a hash table that grows and shrinks in bounded steps.
//!
//! One big table that doubles in one go stalls a server for hundreds of milliseconds at ten million
//! entries. This is extendible hashing (Fagin, Nievergelt, Pippenger and Strong, 1979) instead: a
//! directory of small tables, of which one is split when it is full and two are merged when they are
//! nearly empty. The most that one operation does is to move one table's entries, [`TABLE_MAX`].
//!
//! ```text
//!   hash of the id, 32 bits:  [ directory: top bits … | tag: 7 | bucket: 13 ]
//!                                    │                      └──────┴─▶ within the table
//!   directory  [ 0 | 0 | 1 | 2 ]  ◀──┘    a table of depth d stands in 2^(depth - d) places
//!                └───┴─┐ │   └─────────────┐
//!                tables[0] depth 1   tables[2] depth 2   …   entries: (hash, handle), 8 bytes
//! ```
//!
//! An entry holds the hash beside the handle, so that tables split, grow and merge without touching a
//! record, and a look-up touches no record but its own. The ids are not in here: each is stored once,
//! in its record. The directory itself has one place of four bytes for some thousands of entries.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;
use hashbrown::{HashTable, hash_table};

use super::slab::Handle;
use super::{Mover, TINY, relocate};

/// Bits of the hash that pick a bucket in a full table.
const BUCKET_BITS: u32 = if TINY { 5 } else { 13 };
/// Entries in a full table: seven eighths of its buckets, as hashbrown fills them. To split one costs
/// some tens of microseconds.
const TABLE_MAX: usize = (1 << BUCKET_BITS) / 8 * 7;
/// Two halves are merged at this many entries, far enough from a split that the two do not alternate.
const MERGE_MAX: usize = TABLE_MAX / 2;
/// The directory never gets deeper. With hashes that are any good it would take 2^31 entries.
const DEPTH_MAX: u32 = 20;

/// The part of an id's hash that the index uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IdHash(u32);

impl IdHash {
    /// hashbrown takes the bucket from the low bits and its tag from the top seven of 64. The
    /// directory has used up our top bits, the same for all of a table; these two come from below.
    fn spread(self) -> u64 {
        let bits = u64::from(self.0);
        bits | (bits >> BUCKET_BITS) << 57
    }
}

#[derive(Clone, Copy)]
struct Entry {
    hash: IdHash,
    handle: Handle,
}

#[derive(Clone)]
struct Table {
    entries: HashTable<Entry>,
    /// How many top bits of the hash all entries share …
    depth: u32,
    /// … and what they are, left-aligned.
    prefix: u32,
}

impl Table {
    fn insert(&mut self, entry: Entry) {
        self.entries.insert_unique(entry.hash.spread(), entry, |entry| entry.hash.spread());
    }
}

/// The place for a new entry. Nothing has changed until it is filled.
pub(super) struct Vacancy<'a> {
    place: hash_table::VacantEntry<'a, Entry>,
    hash: IdHash,
    len: &'a mut usize,
}

impl Vacancy<'_> {
    pub(super) fn fill(self, handle: Handle) {
        self.place.insert(Entry { hash: self.hash, handle });
        *self.len += 1;
    }
}

/// The index of a lawn.
#[derive(Clone)]
pub(super) struct Index {
    hasher: RandomState,
    directory: Vec<u32>,
    tables: Vec<Table>,
    depth: u32,
    len: usize,
}

impl Index {
    /// An empty index. Who knows the hasher's keys can choose ids that collide: draw them at random
    /// and keep them secret.
    pub(super) fn new(hasher: RandomState) -> Self {
        Self {
            hasher,
            directory: vec![0],
            tables: vec![Table { entries: HashTable::new(), depth: 0, prefix: 0 }],
            depth: 0,
            len: 0,
        }
    }

    pub(super) fn hash(&self, id: &[u8]) -> IdHash {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(id);
        IdHash(hasher.finish() as u32)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The handle under this hash whose record `is_it`.
    pub(super) fn find(
        &self,
        hash: IdHash,
        mut is_it: impl FnMut(Handle) -> bool,
    ) -> Option<Handle> {
        let entries = &self.tables[self.table_of(hash)].entries;
        let found = entries.find(hash.spread(), |entry| entry.hash == hash && is_it(entry.handle));
        found.map(|entry| entry.handle)
    }

    /// The place for a new entry, or `None` if there is a handle under this hash whose record `is_it`.
    pub(super) fn vacancy(
        &mut self,
        hash: IdHash,
        mut is_it: impl FnMut(Handle) -> bool,
    ) -> Option<Vacancy<'_>> {
        let mut table = self.table_of(hash);
        while self.tables[table].entries.len() >= TABLE_MAX && self.tables[table].depth < DEPTH_MAX
        {
            self.split(table);
            table = self.table_of(hash);
        }
        let is_entry = |entry: &Entry| entry.hash == hash && is_it(entry.handle);
        let spread = |entry: &Entry| entry.hash.spread();
        match self.tables[table].entries.entry(hash.spread(), is_entry, spread) {
            hash_table::Entry::Occupied(_) => None,
            hash_table::Entry::Vacant(place) => Some(Vacancy { place, hash, len: &mut self.len }),
        }
    }

    /// Takes out the entry under this hash whose record `is_it`.
    pub(super) fn remove(
        &mut self,
        hash: IdHash,
        mut is_it: impl FnMut(Handle) -> bool,
    ) -> Option<Handle> {
        let number = self.table_of(hash);
        let entries = &mut self.tables[number].entries;
        let entry = entries
            .find_entry(hash.spread(), |entry| entry.hash == hash && is_it(entry.handle))
            .ok()?;
        let (Entry { handle, .. }, _) = entry.remove();
        self.len -= 1;
        // A table of which less than a third is used is cut to half: two thirds are used then, and it
        // grows again at seven eighths, so that hovering about one size does not cost a cut each time.
        if entries.num_buckets() >= 64 && entries.len() * 3 < entries.num_buckets() {
            entries.shrink_to(entries.len() * 5 / 4, |entry| entry.hash.spread());
        }
        self.merge(number);
        Some(handle)
    }

    /// The entry of a record that has moved, or was replaced, points to the new place.
    pub(super) fn replace(&mut self, hash: IdHash, old: Handle, new: Handle) {
        let number = self.table_of(hash);
        let entry =
            self.tables[number].entries.find_mut(hash.spread(), |entry| entry.handle == old);
        entry.expect("a stored record is in the index").handle = new;
    }

    /// Shows about `count` handles in the order of their hashes, from hash `cursor` on, and returns
    /// the hash to carry on with, or 0 at the end. Hashes do not change, so what splits, grows and
    /// merges meanwhile makes no difference.
    pub(super) fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Handle)) -> u64 {
        const END: u64 = 1 << 32;
        let mut from = cursor;
        let mut shown = 0;
        while from < END && shown < count {
            let table = &self.tables[self.table_of(IdHash(from as u32))];
            let width = END >> table.depth;
            let table_end = u64::from(table.prefix) + width;
            // As many hashes as should hold what is still wanted.
            let wanted = (count - shown) as u128 * u128::from(width);
            let hashes = wanted.div_ceil(table.entries.len().max(1) as u128);
            let to = u64::try_from(hashes)
                .map_or(table_end, |hashes| from.saturating_add(hashes).min(table_end));
            for entry in &table.entries {
                if (from..to).contains(&u64::from(entry.hash.0)) {
                    show(entry.handle);
                    shown += 1;
                }
            }
            from = to;
            // A second look at one table would cost as much as the first: little is enough.
            if shown > 0 && to < table_end {
                break;
            }
        }
        if from < END { from } else { 0 }
    }

    /// Moves the directory and the list of tables. The tables themselves are hashbrown's.
    pub(super) fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.directory, mover);
        relocate(&mut self.tables, mover);
    }

    /// Bytes allocated. O(tables).
    pub(super) fn memory(&self) -> usize {
        let entries: usize = self.tables.iter().map(|table| table.entries.allocation_size()).sum();
        entries
            + self.tables.capacity() * size_of::<Table>()
            + self.directory.capacity() * size_of::<u32>()
    }

    /// Allocations that freeing it takes, about. O(1).
    pub(super) fn allocations(&self) -> usize {
        self.tables.len() + 2
    }

    fn table_of(&self, hash: IdHash) -> usize {
        // A shift by 32 would overflow: depth 0 has one table.
        let place = u64::from(hash.0) << self.depth >> 32;
        self.directory[place as usize] as usize
    }

    /// The places of a table in the directory.
    fn places(&self, number: usize) -> std::ops::Range<usize> {
        let Table { depth, prefix, .. } = self.tables[number];
        let first = (u64::from(prefix) << self.depth >> 32) as usize;
        first..first + (1 << (self.depth - depth))
    }

    /// Divides a full table by the next bit of its entries' hashes.
    fn split(&mut self, number: usize) {
        let table = &mut self.tables[number];
        if table.depth == self.depth {
            self.directory = self.directory.iter().flat_map(|place| [*place; 2]).collect();
            self.depth += 1;
        }
        let depth = table.depth + 1;
        let bit = 1 << (32 - depth);
        let half = |prefix| Table {
            entries: HashTable::with_capacity(table.entries.len() / 2),
            depth,
            prefix,
        };
        let (mut low, mut high) = (half(table.prefix), half(table.prefix | bit));
        for entry in table.entries.drain() {
            let side = if entry.hash.0 & bit == 0 { &mut low } else { &mut high };
            side.insert(entry);
        }
        *table = low;
        let other = self.tables.len();
        self.tables.push(high);
        for place in self.places(other) {
            self.directory[place] = other as u32;
        }
    }

    /// Puts a table and the other half of what was split together again, while both are small.
    fn merge(&mut self, mut number: usize) {
        while self.tables[number].entries.len() <= MERGE_MAX / 2 && self.tables[number].depth > 0 {
            let Table { depth, prefix, .. } = self.tables[number];
            let bit = 1 << (32 - depth);
            let buddy = self.table_of(IdHash(prefix ^ bit));
            let together = self.tables[number].entries.len() + self.tables[buddy].entries.len();
            if self.tables[buddy].depth != depth || together > MERGE_MAX {
                return;
            }
            for place in self.places(buddy) {
                self.directory[place] = number as u32;
            }
            let entries = std::mem::take(&mut self.tables[buddy].entries);
            let table = &mut self.tables[number];
            table.depth -= 1;
            table.prefix &= !bit;
            table.entries.reserve(entries.len(), |entry| entry.hash.spread());
            entries.into_iter().for_each(|entry| table.insert(entry));
            number = self.forget(buddy, number);
            self.halve_directory();
        }
    }

    /// Drops an empty table; the last one takes its number. Returns the number `kept` has now.
    fn forget(&mut self, number: usize, kept: usize) -> usize {
        let last = self.tables.len() - 1;
        if number != last {
            for place in self.places(last) {
                self.directory[place] = number as u32;
            }
        }
        self.tables.swap_remove(number);
        if self.tables.len() * 4 < self.tables.capacity() {
            self.tables.shrink_to(self.tables.len() * 2);
        }
        if kept == last { number } else { kept }
    }

    /// Halves the directory when it is twice as long as there are tables and none needs it.
    fn halve_directory(&mut self) {
        let needless = |pair: &[u32]| pair[0] == pair[1];
        if self.directory.len() >= 2 * self.tables.len()
            && self.directory.chunks_exact(2).all(needless)
        {
            self.directory = self.directory.iter().step_by(2).copied().collect();
            self.depth -= 1;
        }
    }

    /// Panics unless directory, tables and count agree. `is_live` says whether a record exists.
    #[cfg(any(test, fuzzing))]
    pub(super) fn check(&self, mut is_live: impl FnMut(IdHash, Handle) -> bool) {
        assert_eq!(self.directory.len(), 1 << self.depth, "directory");
        assert_eq!(self.len, self.tables.iter().map(|table| table.entries.len()).sum::<usize>());
        let mut covered = 0;
        for (number, table) in self.tables.iter().enumerate() {
            let places = self.places(number);
            covered += places.len();
            assert!(self.directory[places].iter().all(|place| *place as usize == number));
            for entry in &table.entries {
                let shared = (u64::from(entry.hash.0 ^ table.prefix) << table.depth) >> 32;
                assert_eq!(shared, 0, "an entry is in the wrong table");
                assert!(is_live(entry.hash, entry.handle), "an entry without a record");
            }
        }
        assert_eq!(covered, self.directory.len(), "places that belong to no table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        Index::new(RandomState::with_seeds(1, 2, 3, 4))
    }

    fn insert(index: &mut Index, hash: IdHash, handle: Handle) {
        index.vacancy(hash, |it| it == handle).expect("it is not there yet").fill(handle);
    }

    fn handle(number: u32) -> Handle {
        Handle::from_bits(number + 1).expect("not zero")
    }

    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn grows_and_shrinks_by_one_small_table_at_a_time() {
        let mut index = index();
        let ids = 200_000_u32;
        let mut largest = 0;
        for number in 0..ids {
            let hash = index.hash(&number.to_le_bytes());
            insert(&mut index, hash, handle(number));
            largest = index
                .tables
                .iter()
                .map(|table| table.entries.num_buckets())
                .max()
                .max(Some(largest))
                .unwrap_or(0);
            if number % 10_007 == 0 {
                index.check(|_, _| true);
            }
        }
        assert!(largest <= 1 << BUCKET_BITS, "a table of {largest} buckets");
        let full = index.memory();
        for number in 0..ids {
            let hash = index.hash(&number.to_le_bytes());
            assert_eq!(index.find(hash, |it| it == handle(number)), Some(handle(number)));
        }
        for number in 0..ids - 1 {
            let hash = index.hash(&number.to_le_bytes());
            assert_eq!(index.remove(hash, |it| it == handle(number)), Some(handle(number)));
            assert_eq!(index.remove(hash, |it| it == handle(number)), None);
            if number % 10_007 == 0 {
                index.check(|_, _| true);
            }
        }
        index.check(|_, _| true);
        assert_eq!((index.len(), index.tables.len(), index.directory.len()), (1, 1, 1));
        assert!(index.memory() * 100 < full, "{} of {full} bytes are left", index.memory());
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
            assert_eq!(index.find(IdHash(number), |it| it == handle(number)), Some(handle(number)));
            assert!(index.remove(IdHash(number), |it| it == handle(number)).is_some());
        }
        index.check(|_, _| true);
    }

    #[test]
    fn a_scan_shows_what_stays_exactly_once_while_the_index_grows_and_shrinks() {
        for count in [1, 10, 1000, usize::MAX] {
            let mut index = index();
            let add = |index: &mut Index, number: u32| {
                let hash = index.hash(&number.to_le_bytes());
                insert(index, hash, handle(number));
            };
            let stay = 3000;
            (0..stay).for_each(|number| add(&mut index, number));
            let mut seen = vec![0; stay as usize];
            let mut cursor = 0;
            let mut other = stay;
            loop {
                cursor = index.scan(cursor, count, |shown| {
                    let number = Handle::to_bits(Some(shown)) - 1;
                    if number < stay {
                        seen[number as usize] += 1;
                    }
                });
                if cursor == 0 {
                    break;
                }
                // It grows to ten times its size and shrinks again, over and over.
                const MORE: u32 = 27_000;
                for _ in 0..200 {
                    if ((other - stay) / MORE).is_multiple_of(2) {
                        add(&mut index, other);
                    } else {
                        let gone = other - MORE;
                        let hash = index.hash(&gone.to_le_bytes());
                        index.remove(hash, |it| it == handle(gone)).expect("it was added");
                    }
                    other += 1;
                }
            }
            assert!(seen.iter().all(|times| *times == 1), "with a count of {count}");
        }
    }

    #[test]
    fn equal_hashes_are_told_apart_by_their_records() {
        let mut index = index();
        for number in 0..10_000 {
            insert(&mut index, IdHash(7), handle(number));
        }
        index.check(|_, _| true);
        assert_eq!(index.find(IdHash(7), |it| it == handle(9_999)), Some(handle(9_999)));
        assert_eq!(index.remove(IdHash(7), |it| it == handle(5_000)), Some(handle(5_000)));
        assert_eq!(index.find(IdHash(7), |it| it == handle(5_000)), None);
    }
}
