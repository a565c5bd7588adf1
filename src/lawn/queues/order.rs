//! The order within a block of the [timeline](super::timeline), computed on demand.

use super::super::rank::Rank;
use super::super::store::{Handle, Records};
use super::block::PLACES;
use super::blocks::Blocks;

/// The column of deadlines, each as the offset from the start of the block's range.
pub(super) const DEADLINES: usize = 1;

/// Stands for any offset of 2^32 - 1 milliseconds (49 days) or more.
pub(super) const FAR: u32 = u32::MAX;

/// Returns the milliseconds from a base to a deadline, or [`FAR`].
#[inline(always)]
pub(super) fn offset(deadline: u64, base: u64) -> u32 {
    u32::try_from(deadline - base).unwrap_or(FAR)
}

#[inline(always)]
pub(super) fn key_of(offset: u32, place: usize) -> u64 {
    u64::from(offset) << 8 | place as u64
}

#[inline(always)]
pub(super) fn place_of(key: u64) -> usize {
    usize::from(key as u8)
}

#[inline(always)]
pub(super) fn offset_of(key: u64) -> u32 {
    (key >> 8) as u32
}

impl Blocks {
    /// Returns a number for each element, and how many there are: the offset in the high bits, the place in the low ones.
    /// Sorting the numbers sorts the elements, except for ties.
    pub(super) fn sort_keys(&self, block: Handle) -> ([u64; PLACES], usize) {
        let mut keys = [0; PLACES];
        let meta = self.meta(block);
        let offsets = self.column(block, DEADLINES);
        for (key, place) in keys.iter_mut().zip(meta.places_from(0)) {
            *key = key_of(offsets[place], place);
        }
        (keys, meta.len())
    }

    pub(super) fn rank(&self, records: &Records, block: Handle, place: usize) -> Rank {
        records.rank(self.view(block).at(place).expect("a taken place"))
    }

    /// Sorts elements of a block by their ranks. Reads only the records of ties.
    pub(super) fn sort(&self, records: &Records, block: Handle, keys: &mut [u64]) {
        keys.sort_unstable();
        let ties = keys.chunk_by_mut(|one, other| offset_of(*one) == offset_of(*other));
        for ties in ties.filter(|ties| ties.len() > 1) {
            let mut ranks = [(Rank::FIRST, 0); PLACES];
            let ranks = &mut ranks[..ties.len()];
            for (rank, key) in ranks.iter_mut().zip(&*ties) {
                *rank = (self.rank(records, block, place_of(*key)), *key);
            }
            ranks.sort_unstable();
            ties.iter_mut().zip(ranks).for_each(|(key, rank)| *key = rank.1);
        }
    }

    /// Returns the places of a block in the order of ranks.
    pub(super) fn order(&self, records: &Records, block: Handle) -> Order {
        let (mut keys, len) = self.sort_keys(block);
        if !self.meta(block).is_sorted {
            self.sort(records, block, &mut keys[..len]);
        }
        Order { places: keys.map(|key| key as u8), len, at: 0 }
    }
}

/// Iterates over the places of a block in the order of ranks.
pub(super) struct Order {
    places: [u8; PLACES],
    len: usize,
    at: usize,
}

impl Order {
    /// Skips the places for which `is_earlier` is true. All of these must precede all others.
    pub(super) fn skip_earlier(&mut self, mut is_earlier: impl FnMut(usize) -> bool) {
        self.at = self.places[..self.len].partition_point(|place| is_earlier((*place).into()));
    }
}

impl Iterator for Order {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let place = *self.places[..self.len].get(self.at)?;
        self.at += 1;
        Some(place.into())
    }
}
