//! From an id to its record: a hash table that grows and shrinks in bounded steps.
//!
//! One big table that doubles in one go stalls a server for hundreds of milliseconds at ten million
//! entries. This is extendible hashing (Fagin, Nievergelt, Pippenger and Strong, 1979) instead: a
//! directory of small tables, of which one is split when it is full and two are merged when they are
//! nearly empty. The most that one operation does is to move some tables' entries, of [`ENTRIES_MAX`] each.
//!
//! ```text
//!   hash of the id, 32 bits:  [ directory: top bits … | bucket: the bits below ]
//!                                    │                      └─▶ scaled to the table's buckets
//!   directory  [ 0 | 0 | 1 | 2 ]  ◀──┘    a table of depth d stands in 2^(depth - d) places
//!                └───┴─┐ │   └─────────────┐
//!                tables[0] depth 1   tables[2] depth 2   …
//!
//!   a bucket, 64 bytes:  [ 8 hashes | 8 handles ]
//! ```
//!
//! # Why not the best table there is
//!
//! hashbrown answers with two misses where memory is cold, one for its tags and one for the entry, and
//! doubles. Here both are one cache line, in which eight hashes are compared at once; and a table has
//! any number of buckets, so that a large one grows by a quarter of its size at the most and is more than two thirds
//! full while it grows: ten bytes an element instead of up to twenty, as all tables of a directory fill up at the
//! same time.
//!
//! What does not fit into its bucket goes into another one: see [`Table`].
//!
//! An entry holds the hash beside the handle, so that tables split, grow and merge without touching a
//! record, and a look-up touches no record but its own. The ids are not in here: each is stored once,
//! in its record. The directory itself has one place of four bytes for some thousands of entries.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;

use super::super::memory::{Mover, allotted, relocate};
use super::super::processor::prefetch;
use super::super::store::Handle;
use super::table::{ENTRIES_MAX, Entry, IdHash, Table, fitting, larger};

/// Two halves are merged at this many entries, far enough from a split that the two do not alternate.
const MERGED_MAX: usize = ENTRIES_MAX / 2;
/// The directory never gets deeper. With hashes that are any good it would take 2^31 entries.
const DEPTH_MAX: u32 = 20;

/// The place for a new entry. Nothing has changed until it is filled.
pub struct Vacancy<'a> {
    table: &'a mut Table,
    /// The bucket where the hash belongs.
    home: usize,
    hash: IdHash,
    len: &'a mut usize,
}

impl Vacancy<'_> {
    pub fn fill(self, handle: Handle) {
        self.table.insert(self.home, Entry { hash: self.hash, handle });
        *self.len += 1;
    }
}

/// The index of a lawn.
#[derive(Clone)]
pub struct Index {
    hasher: RandomState,
    directory: Vec<u32>,
    tables: Vec<Table>,
    depth: u32,
    len: usize,
}

impl Index {
    /// Makes an empty index. Who knows the hasher's keys can choose ids that collide: draw them at random
    /// and keep them secret.
    pub fn new(hasher: RandomState) -> Self {
        Self { hasher, directory: vec![0], tables: vec![Table::new(1, 0, 0)], depth: 0, len: 0 }
    }

    #[inline(always)]
    pub fn hash(&self, id: &[u8]) -> IdHash {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(id);
        IdHash(hasher.finish() as u32)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Finds the handle under this hash whose record `read` makes something of, and what that is: a record is read once to see
    /// whether it is the one, and for whatever else is wanted of it.
    #[inline(always)]
    pub fn find<R>(
        &self,
        hash: IdHash,
        read: impl FnMut(Handle) -> Option<R>,
    ) -> Option<(Handle, R)> {
        let found = self.tables[self.table_of(hash)].find(hash, read);
        found.map(|(_, handle, found)| (handle, found))
    }

    /// Returns the place for a new entry, or `None` if there is a handle under this hash whose record `is_it`.
    #[inline(always)]
    pub fn vacancy(
        &mut self,
        hash: IdHash,
        mut is_it: impl FnMut(Handle) -> bool,
    ) -> Option<Vacancy<'_>> {
        let mut number = self.table_of(hash);
        let table = &self.tables[number];
        let mut home = table.home(hash);
        if table.find_from(home, hash, |handle| is_it(handle).then_some(())).is_some() {
            return None;
        }
        if table.is_full() {
            number = self.make_room(number, hash);
            home = self.tables[number].home(hash);
        }
        Some(Vacancy { table: &mut self.tables[number], home, hash, len: &mut self.len })
    }

    /// Asks for what a look-up of this hash will read first.
    #[inline(always)]
    pub fn prefetch(&self, hash: IdHash) {
        let table = &self.tables[self.table_of(hash)];
        prefetch(&table.buckets[table.home(hash)]);
    }

    /// Takes out the entry under this hash whose record `read` makes something of.
    #[inline(always)]
    pub fn remove<R>(
        &mut self,
        hash: IdHash,
        read: impl FnMut(Handle) -> Option<R>,
    ) -> Option<(Handle, R)> {
        let number = self.table_of(hash);
        let table = &mut self.tables[number];
        let (place, handle, found) = table.find(hash, read)?;
        table.remove(place);
        self.len -= 1;
        if table.len < table.fewest {
            self.cut(number);
        }
        Some((handle, found))
    }

    /// Takes out the entry of a record that is there.
    #[inline(always)]
    pub fn remove_handle(&mut self, hash: IdHash, handle: Handle) {
        let removed = self.remove(hash, |it| (it == handle).then_some(()));
        removed.expect("a filed record is in the index");
    }

    /// Points the entry of a record that has moved, or was replaced, to the new place.
    pub fn replace(&mut self, hash: IdHash, old: Handle, new: Handle) {
        let number = self.table_of(hash);
        let table = &mut self.tables[number];
        let found = table.find(hash, |it| (it == old).then_some(()));
        let (place, ..) = found.expect("a stored record is in the index");
        table.replace(place, new);
    }

    /// Shows about `count` handles in the order of their hashes, from hash `cursor` on, and returns
    /// the hash to carry on with, or 0 at the end. Hashes do not change, so what splits, grows and
    /// merges meanwhile makes no difference.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Handle)) -> u64 {
        const END: u64 = 1 << 32;
        let mut from = cursor;
        let mut shown = 0;
        while from < END && shown < count {
            let table = &self.tables[self.table_of(IdHash(from as u32))];
            let width = END >> table.depth;
            let table_end = u64::from(table.prefix) + width;
            // As many hashes as should hold what is still wanted.
            let wanted = (count - shown) as u128 * u128::from(width);
            let hashes = wanted.div_ceil(table.len.max(1) as u128);
            let to = u64::try_from(hashes)
                .map_or(table_end, |hashes| from.saturating_add(hashes).min(table_end));
            for entry in table.entries() {
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

    /// Moves the directory and the list of tables.
    pub fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.directory, mover);
        relocate(&mut self.tables, mover);
    }

    /// Returns how many tables there are.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Moves a table.
    pub fn defrag_table(&mut self, number: usize, mover: &mut impl Mover) {
        relocate(&mut self.tables[number].buckets, mover);
        relocate(&mut self.tables[number].passed, mover);
    }

    /// Takes it apart, to be freed a table at a time.
    pub fn into_tables(self) -> impl Iterator<Item = impl Sized> {
        self.tables.into_iter()
    }

    /// Returns the bytes allocated. O(tables).
    pub fn memory(&self) -> usize {
        self.tables.iter().map(Table::memory).sum::<usize>()
            + allotted(&self.tables)
            + allotted(&self.directory)
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub fn allocations(&self) -> usize {
        2 * self.tables.len() + 2
    }

    fn table_of(&self, hash: IdHash) -> usize {
        // A shift by 32 would overflow: depth 0 has one table.
        let place = u64::from(hash.0) << self.depth >> 32;
        self.directory[place as usize] as usize
    }

    /// Returns the places of a table in the directory.
    fn places(&self, number: usize) -> std::ops::Range<usize> {
        let Table { depth, prefix, .. } = self.tables[number];
        let first = (u64::from(prefix) << self.depth >> 32) as usize;
        first..first + (1 << (self.depth - depth))
    }

    /// Sees to it that the full table has room for one more of this hash, and returns the table where
    /// that is.
    #[cold]
    fn make_room(&mut self, mut number: usize, hash: IdHash) -> usize {
        while self.tables[number].is_full() {
            let Table { depth, len, .. } = self.tables[number];
            if len >= ENTRIES_MAX && depth < DEPTH_MAX {
                self.split(number);
                number = self.table_of(hash);
            } else {
                let buckets = self.tables[number].buckets.len();
                self.tables[number].resize(larger(buckets));
            }
        }
        number
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
        let is_high = |hash: u32| hash & bit != 0;
        let highs = table.entries().filter(|entry| is_high(entry.hash.0)).count();
        let mut high = Table::new(fitting(highs), depth, table.prefix | bit);
        high.fill(&[&table.buckets], is_high);
        let mut low = Table::new(fitting(table.len - highs), depth, table.prefix);
        low.fill(&[&table.buckets], |hash| !is_high(hash));
        *table = low;
        let other = self.tables.len();
        self.tables.push(high);
        for place in self.places(other) {
            self.directory[place] = other as u32;
        }
    }

    /// Gives back what a table that has few entries left does not need.
    #[cold]
    fn cut(&mut self, number: usize) {
        let table = &mut self.tables[number];
        table.resize(fitting(table.len));
        self.merge(number);
    }

    /// Puts a table and the other half of what was split together again, while both are small.
    fn merge(&mut self, mut number: usize) {
        while self.tables[number].len <= MERGED_MAX / 2 && self.tables[number].depth > 0 {
            let Table { depth, prefix, len, .. } = self.tables[number];
            let bit = 1 << (32 - depth);
            let buddy = self.table_of(IdHash(prefix ^ bit));
            let together = len + self.tables[buddy].len;
            if self.tables[buddy].depth != depth || together > MERGED_MAX {
                return;
            }
            for place in self.places(buddy) {
                self.directory[place] = number as u32;
            }
            let mut merged = Table::new(fitting(together), depth - 1, prefix & !bit);
            let halves = [number, buddy].map(|half| &self.tables[half].buckets[..]);
            merged.fill(&halves, |_| true);
            self.tables[number] = merged;
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
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, mut is_live: impl FnMut(IdHash, Handle) -> bool) {
        assert_eq!(self.directory.len(), 1 << self.depth, "directory");
        assert_eq!(self.len, self.tables.iter().map(|table| table.len).sum::<usize>());
        let mut covered = 0;
        for (number, table) in self.tables.iter().enumerate() {
            let places = self.places(number);
            covered += places.len();
            assert!(self.directory[places].iter().all(|place| *place as usize == number));
            table.check(&mut is_live);
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

    fn find(index: &Index, hash: IdHash, handle: Handle) -> Option<Handle> {
        index.find(hash, |it| (it == handle).then_some(())).map(|found| found.0)
    }

    fn remove(index: &mut Index, hash: IdHash, handle: Handle) -> Option<Handle> {
        index.remove(hash, |it| (it == handle).then_some(())).map(|found| found.0)
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
                .map(|table| table.buckets.len())
                .max()
                .max(Some(largest))
                .unwrap_or(0);
            if number % 10_007 == 0 {
                index.check(|_, _| true);
            }
        }
        assert!(largest <= super::super::table::BUCKETS_MAX, "a table of {largest} buckets");
        let full = index.memory();
        for number in 0..ids {
            let hash = index.hash(&number.to_le_bytes());
            assert_eq!(find(&index, hash, handle(number)), Some(handle(number)));
        }
        for number in 0..ids - 1 {
            let hash = index.hash(&number.to_le_bytes());
            assert_eq!(remove(&mut index, hash, handle(number)), Some(handle(number)));
            assert_eq!(remove(&mut index, hash, handle(number)), None);
            if number % 10_007 == 0 {
                index.check(|_, _| true);
            }
        }
        index.check(|_, _| true);
        assert_eq!((index.len(), index.tables.len(), index.directory.len()), (1, 1, 1));
        assert!(index.memory() * 100 < full, "{} of {full} bytes are left", index.memory());
        assert!(index.tables.capacity() <= 4, "places for {} tables", index.tables.capacity());
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
    fn what_is_left_of_a_table_does_not_join_a_full_one() {
        let mut index = index();
        // Evenly over all hashes.
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
                        remove(&mut index, hash, handle(gone)).expect("it was added");
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
        assert_eq!(find(&index, IdHash(7), handle(9_999)), Some(handle(9_999)));
        assert_eq!(remove(&mut index, IdHash(7), handle(5_000)), Some(handle(5_000)));
        assert_eq!(find(&index, IdHash(7), handle(5_000)), None);
    }
}
