//! Where each block of a queue or of the [timeline](super::timeline) begins: one sorted list for all of them, in pieces.
//!
//! A block's *range* begins at a rank: no rank in the block is earlier, and every rank in the block before it is. So the
//! list is the order of the blocks, has the neighbours of a block, and finds the block of a rank. A range may begin before
//! the first element that is left in its block.
//!
//! There is one entry for a block of some forty to sixty elements: 25,000 for a million, in [pieces](Pieces) of up to 64: an
//! insertion moves at most this many entries, and a split moves at most the list of pieces, 200,000 for half a billion elements.
//! A B-tree would be as high, but each of its nodes is searched from the left up to a point that no processor can predict: a
//! restart in the timeline takes a sixth more instructions.

use super::super::memory::{Mover, Steps};
use super::super::pieces::{Item, Pieces, Place};
use super::super::rank::Rank;
use super::super::store::Handle;
use super::super::tiny::TINY;
use super::heads::QueueNumber;

/// A block, and the rank where its range begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) from: Rank,
    pub(super) block: Handle,
}

/// A range, and the ranges of the same queue before and behind it.
pub(super) struct Around {
    pub(super) before: Option<Range>,
    pub(super) range: Range,
    pub(super) behind: Option<Range>,
}

/// Where a range begins, and its block.
#[derive(Clone, Copy)]
struct Entry(u128, Handle);

impl Item for Entry {
    #[inline(always)]
    fn key(&self) -> u128 {
        self.0
    }
}

#[inline(always)]
fn key(queue: QueueNumber, Rank { deadline, push }: Rank) -> u128 {
    let push = push.min(Rank::PUSHES - 1);
    u128::from(queue) << 112 | u128::from(deadline) << 48 | u128::from(push)
}

/// The ranges of all blocks of a lawn.
#[derive(Clone, Default)]
pub struct Ranges(Pieces<Entry, { if TINY { 4 } else { 64 } }>);

impl Ranges {
    #[inline(always)]
    fn at(&self, place: Place, of: QueueNumber) -> Option<Range> {
        let Entry(key, block) = *self.0.get(place)?;
        let from = Rank { deadline: (key >> 48) as u64, push: key as u64 % Rank::PUSHES };
        ((key >> 112) as QueueNumber == of).then_some(Range { from, block })
    }

    /// Returns the place of the range that contains the rank of an element.
    fn place(&self, queue: QueueNumber, rank: Rank) -> Place {
        self.0.last_to(key(queue, rank)).expect("a rank is in a range")
    }

    /// Returns the range of a queue that contains a rank. `None` before the first one.
    #[inline(always)]
    pub(super) fn find(&self, queue: QueueNumber, rank: Rank) -> Option<Range> {
        self.at(self.0.last_to(key(queue, rank))?, queue)
    }

    /// Returns the range that contains the rank of an element.
    pub(super) fn get(&self, queue: QueueNumber, rank: Rank) -> Range {
        self.find(queue, rank).expect("a rank is in a range")
    }

    /// Iterates over the ranges of a queue in order, from the one that contains a rank, or else the first.
    pub(super) fn iter_from(&self, queue: QueueNumber, rank: Rank) -> Iter<'_> {
        let mut place = self.0.last_to(key(queue, rank)).unwrap_or((0, 0));
        if self.at(place, queue).is_none() {
            place = self.0.place_behind(place);
        }
        Iter { ranges: self, queue, place }
    }

    /// Iterates over the ranges of a queue, in order.
    pub(super) fn iter(&self, queue: QueueNumber) -> Iter<'_> {
        self.iter_from(queue, Rank::FIRST)
    }

    pub(super) fn first(&self, queue: QueueNumber) -> Option<Range> {
        self.iter(queue).next()
    }

    pub(super) fn last(&self, queue: QueueNumber) -> Option<Range> {
        self.find(queue, Rank::LAST)
    }

    /// Returns the range that contains the rank of an element, and its neighbours.
    pub(super) fn around(&self, queue: QueueNumber, rank: Rank) -> Around {
        let place = self.place(queue, rank);
        let before = self.0.place_before(place).and_then(|before| self.at(before, queue));
        let range = self.at(place, queue).expect("a rank is in a range");
        Around { before, range, behind: self.at(self.0.place_behind(place), queue) }
    }

    /// Inserts a range. No other range of the queue may begin at the same rank.
    pub(super) fn insert(&mut self, queue: QueueNumber, Range { from, block }: Range) {
        self.0.insert(Entry(key(queue, from), block));
    }

    /// Removes the range that contains a rank. Returns it, and its neighbours.
    pub(super) fn remove(&mut self, queue: QueueNumber, rank: Rank) -> Around {
        let around = self.around(queue, rank);
        self.0.remove(self.place(queue, rank));
        around
    }

    /// Replaces the block of the range that contains a rank.
    pub(super) fn replace(&mut self, queue: QueueNumber, rank: Rank, new: Handle) {
        self.0.get_mut(self.place(queue, rank)).1 = new;
    }

    pub(super) fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        self.0.defrag(steps);
    }

    /// Returns the bytes allocated. O(pieces): one piece for some thousands of elements.
    pub(super) fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Panics unless ranges are in order. Returns their number.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) -> usize {
        self.0.check();
        self.0.len
    }
}

/// Iterates over ranges of a queue, in order.
#[derive(Clone)]
pub(super) struct Iter<'a> {
    ranges: &'a Ranges,
    queue: QueueNumber,
    /// The place that is next.
    place: Place,
}

impl Iterator for Iter<'_> {
    type Item = Range;

    fn next(&mut self) -> Option<Range> {
        let next = self.ranges.at(self.place, self.queue)?;
        self.place = self.ranges.0.place_behind(self.place);
        Some(next)
    }
}
