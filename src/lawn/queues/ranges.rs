//! Where each block of a queue or of the [timeline](super::timeline) begins: one sorted list for all of them, in pieces.
//!
//! A block's *range* begins at a rank: no rank in the block is earlier, and every rank in the block before it is. So the
//! list is the order of the blocks, has the neighbours of a block, and finds the block of a rank. A range may begin before
//! the first element that is left in its block.
//!
//! There is one entry for a block of some forty to sixty elements: 25,000 for a million, in pieces of up to 64 entries, with
//! a list of the pieces' first keys. A search halves each of the two lists some seven times. Within a piece it compares 32-bit
//! offsets in milliseconds, without unpredictable branches: a quarter of a kilobyte in four cache lines, of which a search reads
//! three. A B-tree would be as high, but its nodes are wider, and each is searched from the left up to a point that no
//! processor can predict.

use super::super::memory::{Mover, Steps, allotted, push_tight, relocate, shrink};
use super::super::rank::Rank;
use super::super::store::Handle;
use super::super::tiny::TINY;
use super::super::work;
use super::heads::QueueNumber;
use super::order::FAR;

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

#[inline(always)]
fn key(queue: QueueNumber, Rank { deadline, push }: Rank) -> Key {
    let push = push.min(Rank::PUSHES - 1);
    Key::from(queue) << 112 | Key::from(deadline) << 48 | Key::from(push)
}

/// Returns the milliseconds from one key to a later one, or [`FAR`].
#[inline(always)]
fn offset(key: Key, base: Key) -> u32 {
    u32::try_from((key >> 48) - (base >> 48)).unwrap_or(FAR)
}

fn queue_of(key: Key) -> QueueNumber {
    (key >> 112) as QueueNumber
}

fn rank_of(key: Key) -> Rank {
    Rank { deadline: (key >> 48) as u64, push: key as u64 % Rank::PUSHES }
}

/// Consecutive entries, at least one.
#[derive(Clone)]
struct Piece {
    /// No key is earlier.
    base: Key,
    /// The milliseconds from `base` to each key, or [`FAR`], also for another queue.
    offsets: Vec<u32>,
    keys: Vec<Key>,
    blocks: Vec<Handle>,
}

impl Piece {
    fn new(keys: Vec<Key>, blocks: Vec<Handle>) -> Self {
        let mut piece = Self { base: 0, offsets: Vec::new(), keys, blocks };
        piece.measure();
        piece
    }

    /// Recomputes base and offsets.
    fn measure(&mut self) {
        self.base = self.keys[0];
        self.offsets.clear();
        self.offsets.extend(self.keys.iter().map(|key| offset(*key, self.base)));
    }

    /// Returns the entry of the last key at or before this one. The first must not be behind it.
    #[inline(always)]
    fn find(&self, key: Key) -> usize {
        let wanted = offset(key, self.base);
        let entry = self.offsets.partition_point(|offset| *offset <= wanted) - 1;
        // Other keys in the same millisecond, or far away, may be behind this one.
        if self.offsets[entry] < wanted || self.keys[entry] <= key {
            entry
        } else {
            self.find_exactly(key)
        }
    }

    #[inline(never)]
    fn find_exactly(&self, key: Key) -> usize {
        self.keys.partition_point(|it| *it <= key) - 1
    }

    fn insert(&mut self, entry: usize, key: Key, block: Handle) {
        self.count_moves(entry);
        self.keys.insert(entry, key);
        self.blocks.insert(entry, block);
        if key < self.base {
            self.measure();
        } else {
            self.offsets.insert(entry, offset(key, self.base));
        }
    }

    fn remove(&mut self, entry: usize) {
        self.count_moves(entry);
        self.keys.remove(entry);
        self.blocks.remove(entry);
        self.offsets.remove(entry);
    }

    /// Counts the entries from this one on, which move.
    fn count_moves(&self, entry: usize) {
        work::move_items::<(u32, Key, Handle)>(self.keys.len() - entry);
    }

    fn split_off(&mut self, entry: usize) -> Self {
        self.count_moves(entry);
        self.offsets.truncate(entry);
        Self::new(self.keys.split_off(entry), self.blocks.split_off(entry))
    }
}

/// The ranges of all blocks of a lawn.
#[derive(Clone, Default)]
pub struct Ranges {
    /// The first key of each piece.
    firsts: Vec<Key>,
    pieces: Vec<Piece>,
}

impl Ranges {
    /// Returns the piece and the entry of the last key at or before this one.
    #[inline(always)]
    fn place(&self, key: Key) -> Option<(usize, usize)> {
        let number = self.firsts.partition_point(|first| *first <= key).checked_sub(1)?;
        Some((number, self.pieces[number].find(key)))
    }

    #[inline(always)]
    fn at(&self, (number, entry): (usize, usize), of: QueueNumber) -> Option<Range> {
        let piece = self.pieces.get(number)?;
        let key = *piece.keys.get(entry)?;
        (queue_of(key) == of).then(|| Range { from: rank_of(key), block: piece.blocks[entry] })
    }

    /// Returns the range of a queue that contains a rank. `None` before the first one.
    #[inline(always)]
    pub(super) fn find(&self, queue: QueueNumber, rank: Rank) -> Option<Range> {
        let key = key(queue, rank);
        let number = self.firsts.partition_point(|first| *first <= key).checked_sub(1)?;
        let piece = &self.pieces[number];
        let entry = piece.find(key);
        let (from, block) = (piece.keys[entry], piece.blocks[entry]);
        (queue_of(from) == queue).then(|| Range { from: rank_of(from), block })
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
        self.around_place(queue, self.place(key(queue, rank)).expect("a rank is in a range"))
    }

    fn around_place(&self, queue: QueueNumber, place: (usize, usize)) -> Around {
        let before = match place {
            (0, 0) => None,
            (number, 0) => self.at((number - 1, self.pieces[number - 1].keys.len() - 1), queue),
            (number, entry) => self.at((number, entry - 1), queue),
        };
        let range = self.at(place, queue).expect("a rank is in a range");
        Around { before, range, behind: self.at(self.behind(place), queue) }
    }

    /// Returns the place behind this one.
    #[inline(always)]
    fn behind(&self, (number, entry): (usize, usize)) -> (usize, usize) {
        let is_last = self.pieces.get(number).is_none_or(|it| it.keys.len() <= entry + 1);
        if is_last { (number + 1, 0) } else { (number, entry + 1) }
    }

    /// Inserts a range. No other range of the queue may begin at the same rank.
    pub(super) fn insert(&mut self, queue: QueueNumber, Range { from, block }: Range) {
        let key = key(queue, from);
        let (number, entry) = match self.place(key) {
            Some((piece, entry)) => (piece, entry + 1),
            None => (0, 0),
        };
        let Some(piece) = self.pieces.get_mut(number) else {
            push_tight(&mut self.firsts, key);
            return push_tight(&mut self.pieces, Piece::new(vec![key], vec![block]));
        };
        piece.insert(entry, key, block);
        self.firsts[number] = piece.keys[0];
        if piece.keys.len() > PIECE {
            // Where ranges are inserted one behind the other, full pieces stay behind.
            let later = piece.split_off(entry.max(PIECE / 2));
            work::move_items::<(Key, Piece)>(self.pieces.len() - number);
            self.firsts.insert(number + 1, later.keys[0]);
            self.pieces.insert(number + 1, later);
            // Otherwise, repeated splits of the last block of a full piece would leave a piece for each of its parts.
            self.join(number + 1);
        }
    }

    /// Removes the range that contains a rank. Returns it, and its neighbours.
    pub(super) fn remove(&mut self, queue: QueueNumber, rank: Rank) -> Around {
        let (number, entry) = self.place(key(queue, rank)).expect("a rank is in a range");
        let around = self.around_place(queue, (number, entry));
        let piece = &mut self.pieces[number];
        piece.remove(entry);
        let Some(first) = piece.keys.first() else {
            work::move_items::<(Key, Piece)>(self.pieces.len() - number);
            self.pieces.remove(number);
            self.firsts.remove(number);
            shrink(&mut self.pieces);
            shrink(&mut self.firsts);
            return around;
        };
        self.firsts[number] = *first;
        if !self.join(number)
            && let Some(before) = number.checked_sub(1)
        {
            self.join(before);
        }
        around
    }

    /// Joins a piece with the next one if both together fill at most half a piece, so that neither a split nor a join
    /// follows soon. Returns whether they were joined.
    fn join(&mut self, number: usize) -> bool {
        let both = self.pieces.get(number..number + 2);
        let fit = both.is_some_and(|both| {
            both.iter().map(|piece| piece.keys.len()).sum::<usize>() <= PIECE / 2
        });
        if fit {
            work::move_items::<(Key, Piece)>(self.pieces.len() - number);
            let other = self.pieces.remove(number + 1);
            other.count_moves(0);
            self.firsts.remove(number + 1);
            let piece = &mut self.pieces[number];
            piece.keys.extend(other.keys);
            piece.blocks.extend(other.blocks);
            piece.measure();
        }
        fit
    }

    /// Replaces the block of the range that contains a rank.
    pub(super) fn replace(&mut self, queue: QueueNumber, rank: Rank, new: Handle) {
        let (number, entry) = self.place(key(queue, rank)).expect("a rank is in a range");
        self.pieces[number].blocks[entry] = new;
    }

    /// Moves the lists of pieces, then a piece in each step.
    pub(super) fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        steps.one(|mover| {
            relocate(&mut self.firsts, mover);
            relocate(&mut self.pieces, mover);
        });
        steps.each(&mut self.pieces, |piece, mover| {
            relocate(&mut piece.keys, mover);
            relocate(&mut piece.blocks, mover);
            relocate(&mut piece.offsets, mover);
        });
    }

    /// Returns the bytes allocated. O(pieces): one piece for some thousands of elements.
    pub(super) fn memory(&self) -> usize {
        let pieces = self.pieces.iter();
        let pieces =
            pieces.map(|it| allotted(&it.keys) + allotted(&it.blocks) + allotted(&it.offsets));
        pieces.sum::<usize>() + allotted(&self.firsts) + allotted(&self.pieces)
    }

    /// Panics unless pieces are in order and not empty. Returns the number of ranges.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) -> usize {
        assert_eq!(self.firsts.len(), self.pieces.len());
        for (first, piece) in self.firsts.iter().zip(&self.pieces) {
            assert_eq!(piece.keys.first(), Some(first), "where a piece begins");
            assert!(piece.keys.len() <= PIECE && piece.keys.len() == piece.blocks.len());
            let offsets = piece.keys.iter().map(|key| offset(*key, piece.base));
            assert!(offsets.eq(piece.offsets.iter().copied()), "the offsets of a piece");
        }
        let keys = || self.pieces.iter().flat_map(|piece| &piece.keys);
        assert!(keys().is_sorted_by(|one, next| one < next), "the order of ranges");
        keys().count()
    }
}

/// Iterates over ranges of a queue, in order.
#[derive(Clone)]
pub(super) struct Iter<'a> {
    ranges: &'a Ranges,
    queue: QueueNumber,
    /// The piece and the entry that are next.
    place: (usize, usize),
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

    const MANY: usize = 40 * PIECE;
    const QUEUE: QueueNumber = 7;

    fn range(deadline: u64) -> Range {
        let block = Handle::from_bits(deadline as u32 | 1).expect("not zero");
        Range { from: Rank { deadline, push: 0 }, block }
    }

    /// Panics unless any two neighbours together fill more than half a piece.
    fn check_pieces(ranges: &Ranges, what: &str) {
        let (pieces, count) = (ranges.pieces.len(), ranges.check());
        let most = 2 * (count / (PIECE / 2 + 1)) + 1;
        assert!(pieces <= most, "{what}: {pieces} pieces for {count} ranges");
    }

    #[test]
    fn ascending_ranges_fill_pieces() {
        let mut ranges = Ranges::default();
        ranges.insert(QUEUE, range(1 << 40));
        (0..MANY as u64).for_each(|from| ranges.insert(QUEUE, range(from)));
        ranges.check();
        assert!(ranges.pieces.len() <= 2 * MANY / PIECE + 1, "{} pieces", ranges.pieces.len());
        let mut ranges = Ranges::default();
        (0..MANY as u64).for_each(|from| ranges.insert(QUEUE, range(from)));
        ranges.check();
        assert_eq!(ranges.pieces.len(), MANY / PIECE);
    }

    #[test]
    fn no_two_small_pieces_stay_side_by_side() {
        // Insert before all others, and between a full piece and what follows it.
        for full in [0, PIECE as u64] {
            let mut ranges = Ranges::default();
            (0..full).for_each(|from| ranges.insert(QUEUE, range(from)));
            for from in 0..MANY as u64 {
                ranges.insert(QUEUE, range((1 << 40) - from));
                check_pieces(&ranges, "descending");
            }
        }
    }

    #[test]
    fn pieces_that_empty_are_joined() {
        let mut ranges = Ranges::default();
        (0..MANY as u64).for_each(|from| ranges.insert(QUEUE, range(from)));
        // Joined with the piece before it, because the next one is full.
        for from in (1..PIECE as u64).chain(PIECE as u64 + 1..2 * PIECE as u64) {
            ranges.remove(QUEUE, Rank { deadline: from, push: 0 });
        }
        assert_eq!(ranges.pieces.len(), MANY / PIECE - 1);
        for from in (1..PIECE as u64).chain(PIECE as u64 + 1..2 * PIECE as u64) {
            ranges.insert(QUEUE, range(from));
        }
        // Removed in another order than inserted.
        for from in (0..MANY as u64).map(|number| number * 7919 % MANY as u64) {
            if from % 10 == 3 {
                continue;
            }
            ranges.remove(QUEUE, Rank { deadline: from, push: 0 });
            check_pieces(&ranges, "emptied");
        }
        for from in (0..MANY as u64).filter(|from| from % 10 == 3) {
            let found = ranges.get(QUEUE, Rank { deadline: from + 1, push: 7 });
            assert_eq!(found, range(from));
        }
        assert_eq!(ranges.check(), MANY / 10);
        for from in (0..MANY as u64).filter(|from| from % 10 == 3) {
            ranges.remove(QUEUE, Rank { deadline: from, push: 0 });
        }
        assert_eq!((ranges.pieces.len(), ranges.first(QUEUE)), (0, None));
    }
}
