//! Where each block of a queue or of the [timeline](super::timeline) begins: one sorted list for all of them, in pieces.
//!
//! A block's *range* begins at a rank: no rank in the block is earlier, and every rank in the block before it is. So the
//! list is the order of the blocks, has the neighbours of a block, and finds the block of a rank. A range may begin before
//! the first element that is left in its block.
//!
//! There is one entry for a block of some forty to sixty elements: 25,000 for a million, in pieces of up to 64. A search
//! halves the list of pieces and then a piece, without unpredictable branches. A B-tree would be as high, but each of its
//! nodes is searched from the left up to a point that no processor can predict: a restart in the timeline takes a sixth
//! more instructions.

use super::super::memory::{Mover, Steps, allotted, push_tight, relocate, shrink};
use super::super::rank::Rank;
use super::super::store::Handle;
use super::super::tiny::TINY;
use super::super::work;
use super::heads::QueueNumber;

/// Entries per piece, at most. An insertion moves at most this many entries, and a split moves at most the list of
/// pieces: 200,000 for half a billion elements.
const PIECE: usize = if TINY { 4 } else { 64 };

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

/// A queue, a deadline and a push number as one number.
type Key = u128;

/// Where a range begins, and its block.
type Entry = (Key, Handle);

#[inline(always)]
fn key(queue: QueueNumber, Rank { deadline, push }: Rank) -> Key {
    let push = push.min(Rank::PUSHES - 1);
    Key::from(queue) << 112 | Key::from(deadline) << 48 | Key::from(push)
}

/// Consecutive entries, at least one.
#[derive(Clone)]
struct Piece {
    /// The first key.
    first: Key,
    entries: Vec<Entry>,
}

/// A piece, and one of its entries.
type Place = (usize, usize);

/// The ranges of all blocks of a lawn.
#[derive(Clone, Default)]
pub struct Ranges {
    pieces: Vec<Piece>,
}

impl Ranges {
    /// Returns the place of the last key at or before this one.
    #[inline(always)]
    fn place(&self, key: Key) -> Option<Place> {
        let number = self.pieces.partition_point(|piece| piece.first <= key).checked_sub(1)?;
        Some((number, self.pieces[number].entries.partition_point(|entry| entry.0 <= key) - 1))
    }

    #[inline(always)]
    fn at(&self, (number, entry): Place, of: QueueNumber) -> Option<Range> {
        let (key, block) = *self.pieces.get(number)?.entries.get(entry)?;
        let from = Rank { deadline: (key >> 48) as u64, push: key as u64 % Rank::PUSHES };
        ((key >> 112) as QueueNumber == of).then_some(Range { from, block })
    }

    /// Returns the range of a queue that contains a rank. `None` before the first one.
    #[inline(always)]
    pub(super) fn find(&self, queue: QueueNumber, rank: Rank) -> Option<Range> {
        self.at(self.place(key(queue, rank))?, queue)
    }

    /// Returns the range that contains the rank of an element.
    pub(super) fn get(&self, queue: QueueNumber, rank: Rank) -> Range {
        self.find(queue, rank).expect("a rank is in a range")
    }

    /// Iterates over the ranges of a queue in order, from the one that contains a rank, or else the first.
    pub(super) fn iter_from(&self, queue: QueueNumber, rank: Rank) -> Iter<'_> {
        let mut place = self.place(key(queue, rank)).unwrap_or((0, 0));
        if self.at(place, queue).is_none() {
            place = self.behind(place);
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
        let place = self.place(key(queue, rank)).expect("a rank is in a range");
        let before = match place {
            (0, 0) => None,
            (number, 0) => self.at((number - 1, self.pieces[number - 1].entries.len() - 1), queue),
            (number, entry) => self.at((number, entry - 1), queue),
        };
        let range = self.at(place, queue).expect("a rank is in a range");
        Around { before, range, behind: self.at(self.behind(place), queue) }
    }

    /// Returns the place behind this one.
    #[inline(always)]
    fn behind(&self, (number, entry): Place) -> Place {
        let is_last = self.pieces.get(number).is_none_or(|it| it.entries.len() <= entry + 1);
        if is_last { (number + 1, 0) } else { (number, entry + 1) }
    }

    /// Inserts a range. No other range of the queue may begin at the same rank.
    pub(super) fn insert(&mut self, queue: QueueNumber, Range { from, block }: Range) {
        let key = key(queue, from);
        let (number, entry) = match self.place(key) {
            Some((piece, entry)) => (piece, entry + 1),
            None => (0, 0),
        };
        let Some(Piece { first, entries }) = self.pieces.get_mut(number) else {
            return push_tight(&mut self.pieces, Piece { first: key, entries: vec![(key, block)] });
        };
        work::move_items::<Entry>(entries.len() - entry);
        entries.insert(entry, (key, block));
        *first = key.min(*first);
        if entries.len() > PIECE {
            // Where ranges are inserted one behind the other, full pieces stay behind.
            let entries = entries.split_off(entry.max(PIECE / 2));
            work::move_items::<Entry>(entries.len());
            work::move_items::<Piece>(self.pieces.len() - number);
            self.pieces.insert(number + 1, Piece { first: entries[0].0, entries });
            // Otherwise, repeated splits of the last block of a full piece would leave a piece for each of its parts.
            self.join(number + 1);
        }
    }

    /// Removes the range that contains a rank. Returns it, and its neighbours.
    pub(super) fn remove(&mut self, queue: QueueNumber, rank: Rank) -> Around {
        let around = self.around(queue, rank);
        let (number, entry) = self.place(key(queue, rank)).expect("a rank is in a range");
        let Piece { first, entries } = &mut self.pieces[number];
        work::move_items::<Entry>(entries.len() - entry);
        entries.remove(entry);
        if let Some(entry) = entries.first() {
            *first = entry.0;
            if !self.join(number) && number > 0 {
                self.join(number - 1);
            }
        } else {
            work::move_items::<Piece>(self.pieces.len() - number);
            self.pieces.remove(number);
            shrink(&mut self.pieces);
        }
        around
    }

    /// Joins a piece with the next one if both together fill at most half a piece, so that neither a split nor a join
    /// follows soon. Returns whether they were joined.
    fn join(&mut self, number: usize) -> bool {
        let Some([one, next]) = self.pieces.get_mut(number..number + 2) else { return false };
        let fit = one.entries.len() + next.entries.len() <= PIECE / 2;
        if fit {
            work::move_items::<Entry>(next.entries.len());
            one.entries.append(&mut next.entries);
            work::move_items::<Piece>(self.pieces.len() - number);
            self.pieces.remove(number + 1);
        }
        fit
    }

    /// Replaces the block of the range that contains a rank.
    pub(super) fn replace(&mut self, queue: QueueNumber, rank: Rank, new: Handle) {
        let (number, entry) = self.place(key(queue, rank)).expect("a rank is in a range");
        self.pieces[number].entries[entry].1 = new;
    }

    /// Moves the list of pieces, then a piece in each step.
    pub(super) fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        steps.one(|mover| relocate(&mut self.pieces, mover));
        steps.each(&mut self.pieces, |piece, mover| relocate(&mut piece.entries, mover));
    }

    /// Returns the bytes allocated. O(pieces): one piece for some thousands of elements.
    pub(super) fn memory(&self) -> usize {
        let pieces = self.pieces.iter().map(|piece| allotted(&piece.entries));
        pieces.sum::<usize>() + allotted(&self.pieces)
    }

    /// Panics unless pieces are in order and not empty. Returns the number of ranges.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) -> usize {
        for Piece { first, entries } in &self.pieces {
            assert_eq!(entries.first().map(|it| it.0), Some(*first), "where a piece begins");
            assert!(entries.len() <= PIECE, "{} entries in a piece", entries.len());
        }
        let keys = || self.pieces.iter().flat_map(|piece| &piece.entries).map(|it| it.0);
        assert!(keys().is_sorted_by(|one, next| one < next), "the order of ranges");
        keys().count()
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
        self.place = self.ranges.behind(self.place);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u64 = 40 * PIECE as u64;
    const QUEUE: QueueNumber = 7;

    fn range(deadline: u64) -> Range {
        let block = Handle::from_bits(deadline as u32 | 1).expect("not zero");
        Range { from: Rank { deadline, push: 0 }, block }
    }

    /// Whatever the order, two neighbours together fill more than half a piece; full pieces stay behind ascending ranges.
    #[test]
    fn pieces_are_filled_and_joined_in_whatever_order_ranges_come_and_go() {
        let orders: [(fn(u64) -> u64, usize); 4] = [
            (|it| it, PIECE),
            (|it| (1 << 40) - it, PIECE / 4),
            (|it| it * 7919 % MANY, PIECE / 4),
            // Before all others, behind a full piece.
            (|it| if it < PIECE as u64 { it } else { (1 << 40) - it }, PIECE / 4),
        ];
        for (order, least) in orders {
            let mut ranges = Ranges::default();
            let check = |ranges: &Ranges, left: u64, least: usize| {
                let (pieces, most) = (ranges.pieces.len(), left as usize / least + 2);
                assert_eq!(ranges.check(), left as usize);
                assert!(pieces <= most, "{pieces} pieces for {left}");
            };
            (0..MANY).for_each(|it| ranges.insert(QUEUE, range(order(it))));
            check(&ranges, MANY, least);
            // In another order than they came, but for a tenth.
            for it in (0..MANY).map(|it| it * 7919 % MANY).filter(|it| it % 10 > 0) {
                ranges.remove(QUEUE, Rank { deadline: order(it), push: 7 });
            }
            check(&ranges, MANY / 10, PIECE / 4);
            for it in (0..MANY).filter(|it| it % 10 == 0) {
                let deadline = order(it);
                assert_eq!(ranges.get(QUEUE, Rank { deadline, push: 7 }), range(deadline));
                ranges.remove(QUEUE, range(deadline).from);
            }
            assert_eq!((ranges.pieces.len(), ranges.first(QUEUE)), (0, None));
        }
    }
}
