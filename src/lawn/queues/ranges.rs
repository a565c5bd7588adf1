//! The ranges of the blocks of the [timeline](super::timeline): a sorted list in pieces, searched without unpredictable
//! branches.
//!
//! There is one entry for some forty elements: 25,000 for a million, in pieces of up to 128 entries, with a list of the
//! pieces' first turns. A search halves each of the two lists some seven times. Within a piece it compares 32-bit
//! offsets in milliseconds: half a kilobyte in eight cache lines, of which a search reads three; 100 kB for a million
//! elements. A B-tree would be as high, but its nodes are wider, and each is searched from the left up to a point that
//! no processor can predict.

use super::super::memory::{Mover, Steps, allotted, push_tight, relocate, shrink};
use super::super::store::Handle;
use super::super::tiny::TINY;
use super::super::turn::Turn;
use super::super::work;

/// Entries per piece, at most. An insertion moves at most this many entries, and a split moves at most the list of
/// pieces: 100,000 for half a billion elements.
const PIECE: usize = if TINY { 4 } else { 128 };

/// The start of a block's range: no turn in the block is earlier, and every turn in the previous block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) from: Turn,
    pub(super) block: Handle,
}

/// Consecutive entries, at least one.
#[derive(Clone)]
struct Piece {
    /// No entry has an earlier deadline.
    base: u64,
    /// The deadline of each entry minus `base`, or [`FAR`].
    offsets: Vec<u32>,
    blocks: Vec<Handle>,
    froms: Vec<Turn>,
}

/// Stands for any offset of 2^32 - 1 milliseconds (49 days) or more.
pub(super) const FAR: u32 = u32::MAX;

/// Returns the milliseconds from a base to a deadline, or [`FAR`].
#[inline(always)]
pub(super) fn offset(deadline: u64, base: u64) -> u32 {
    u32::try_from(deadline - base).unwrap_or(FAR)
}

impl Piece {
    fn new(froms: Vec<Turn>, blocks: Vec<Handle>) -> Self {
        let mut piece = Self { base: 0, offsets: Vec::new(), blocks, froms };
        piece.measure();
        piece
    }

    /// Recomputes base and offsets.
    fn measure(&mut self) {
        self.base = self.froms.first().map_or(0, |first| first.deadline);
        self.offsets.clear();
        self.offsets.extend(self.froms.iter().map(|from| offset(from.deadline, self.base)));
    }

    fn insert(&mut self, entry: usize, Range { from, block }: Range) {
        self.count_moves(entry);
        self.froms.insert(entry, from);
        self.blocks.insert(entry, block);
        if from.deadline < self.base {
            self.measure();
        } else {
            self.offsets.insert(entry, offset(from.deadline, self.base));
        }
    }

    fn remove(&mut self, entry: usize) {
        self.count_moves(entry);
        self.froms.remove(entry);
        self.blocks.remove(entry);
        self.offsets.remove(entry);
    }

    /// Counts the entries from this one on, which move.
    fn count_moves(&self, entry: usize) {
        work::move_items::<(u32, Handle, Turn)>(self.froms.len() - entry);
    }

    fn split_off(&mut self, entry: usize) -> Self {
        self.count_moves(entry);
        self.offsets.truncate(entry);
        Self::new(self.froms.split_off(entry), self.blocks.split_off(entry))
    }

    /// Returns the entry whose range contains a turn, and the deadline where the range begins. The first entry must not
    /// begin after the turn.
    #[inline(always)]
    fn find(&self, turn: Turn) -> (usize, u64) {
        let wanted = offset(turn.deadline, self.base);
        let entry = self.offsets.partition_point(|offset| *offset <= wanted) - 1;
        let found = self.offsets[entry];
        // A range that begins in an earlier millisecond is the one; otherwise compare the complete turns.
        if found < wanted || found != FAR && self.froms[entry] <= turn {
            (entry, self.base + u64::from(found))
        } else {
            self.find_exactly(turn)
        }
    }

    #[inline(never)]
    fn find_exactly(&self, turn: Turn) -> (usize, u64) {
        let entry = self.froms.partition_point(|from| *from <= turn) - 1;
        (entry, self.froms[entry].deadline)
    }
}

/// The ranges of all blocks of the timeline.
#[derive(Clone, Default)]
pub struct Ranges {
    /// The first turn of each piece.
    firsts: Vec<Turn>,
    pieces: Vec<Piece>,
}

impl Ranges {
    /// Returns the piece and the entry whose range contains a turn, and the deadline where the range begins. `None`
    /// before the first range.
    #[inline(always)]
    fn place(&self, turn: Turn) -> Option<(usize, usize, u64)> {
        let last = turn.number();
        let number = self.firsts.partition_point(|first| first.number() <= last).checked_sub(1)?;
        let (entry, deadline) = self.pieces[number].find(turn);
        Some((number, entry, deadline))
    }

    /// Returns the block whose range contains a turn, and the deadline where the range begins. `None` before the first
    /// range.
    #[inline(always)]
    pub(super) fn find(&self, turn: Turn) -> Option<(u64, Handle)> {
        let (number, entry, deadline) = self.place(turn)?;
        Some((deadline, self.pieces[number].blocks[entry]))
    }

    /// Returns the range that contains a turn.
    pub(super) fn get(&self, turn: Turn) -> Range {
        let (number, entry, _) = self.place(turn).expect("a turn is in a range");
        let piece = &self.pieces[number];
        Range { from: piece.froms[entry], block: piece.blocks[entry] }
    }

    pub(super) fn first(&self) -> Option<Range> {
        let piece = self.pieces.first()?;
        Some(Range { from: piece.froms[0], block: piece.blocks[0] })
    }

    /// Iterates over all ranges, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.pieces.iter().flat_map(|piece| {
            let entries = piece.froms.iter().zip(&piece.blocks);
            entries.map(|(from, block)| Range { from: *from, block: *block })
        })
    }

    /// Inserts a range. No other range may begin at the same turn.
    pub(super) fn insert(&mut self, range: Range) {
        let (number, entry) = match self.place(range.from) {
            Some((piece, entry, _)) => (piece, entry + 1),
            None => (0, 0),
        };
        let Some(piece) = self.pieces.get_mut(number) else {
            push_tight(&mut self.firsts, range.from);
            return push_tight(&mut self.pieces, Piece::new(vec![range.from], vec![range.block]));
        };
        piece.insert(entry, range);
        self.firsts[number] = piece.froms[0];
        if piece.froms.len() > PIECE {
            // With ascending deadlines, split off nothing, so that full pieces stay behind.
            let later = piece.split_off(if entry == PIECE { PIECE } else { PIECE / 2 });
            work::move_items::<(Turn, Piece)>(self.pieces.len() - number);
            self.firsts.insert(number + 1, later.froms[0]);
            self.pieces.insert(number + 1, later);
            // Otherwise, repeated splits of the last block of a full piece would leave a piece for each of its parts.
            self.join(number + 1);
        }
    }

    /// Removes the range that contains a turn.
    pub(super) fn remove(&mut self, turn: Turn) {
        let (number, entry, _) = self.place(turn).expect("a turn is in a range");
        let piece = &mut self.pieces[number];
        piece.remove(entry);
        let Some(first) = piece.froms.first() else {
            work::move_items::<(Turn, Piece)>(self.pieces.len() - number);
            self.pieces.remove(number);
            self.firsts.remove(number);
            shrink(&mut self.pieces);
            return shrink(&mut self.firsts);
        };
        self.firsts[number] = *first;
        if !self.join(number)
            && let Some(before) = number.checked_sub(1)
        {
            self.join(before);
        }
    }

    /// Joins a piece with the next one if both together fill at most half a piece, so that neither a split nor a join
    /// follows soon. Returns whether they were joined.
    fn join(&mut self, number: usize) -> bool {
        let both = self.pieces.get(number..number + 2);
        let fit = both.is_some_and(|both| {
            both.iter().map(|piece| piece.froms.len()).sum::<usize>() <= PIECE / 2
        });
        if fit {
            work::move_items::<(Turn, Piece)>(self.pieces.len() - number);
            let other = self.pieces.remove(number + 1);
            other.count_moves(0);
            self.firsts.remove(number + 1);
            let piece = &mut self.pieces[number];
            piece.froms.extend(other.froms);
            piece.blocks.extend(other.blocks);
            piece.measure();
        }
        fit
    }

    /// Replaces the block whose range contains a turn.
    pub(super) fn replace(&mut self, turn: Turn, new: Handle) {
        let (piece, entry, _) = self.place(turn).expect("a turn is in a range");
        self.pieces[piece].blocks[entry] = new;
    }

    /// Moves the lists of pieces, then a piece in each step.
    pub(super) fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        steps.one(|mover| {
            relocate(&mut self.firsts, mover);
            relocate(&mut self.pieces, mover);
        });
        steps.each(&mut self.pieces, |piece, mover| {
            relocate(&mut piece.froms, mover);
            relocate(&mut piece.blocks, mover);
            relocate(&mut piece.offsets, mover);
        });
    }

    /// Returns the bytes allocated. O(pieces): one piece for some thousands of elements.
    pub(super) fn memory(&self) -> usize {
        let pieces = self.pieces.iter();
        let pieces =
            pieces.map(|it| allotted(&it.froms) + allotted(&it.blocks) + allotted(&it.offsets));
        pieces.sum::<usize>() + allotted(&self.firsts) + allotted(&self.pieces)
    }

    /// Panics unless pieces are in order and not empty. Returns the number of ranges.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) -> usize {
        assert_eq!(self.firsts.len(), self.pieces.len());
        for (first, piece) in self.firsts.iter().zip(&self.pieces) {
            assert_eq!(piece.froms.first(), Some(first), "where a piece begins");
            assert!(piece.froms.len() <= PIECE && piece.froms.len() == piece.blocks.len());
            let offsets = piece.froms.iter().map(|from| offset(from.deadline, piece.base));
            assert!(offsets.eq(piece.offsets.iter().copied()), "the offsets of a piece");
        }
        assert!(self.iter().zip(self.iter().skip(1)).all(|(one, next)| one.from < next.from));
        self.iter().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 40 * PIECE;

    fn range(deadline: u64) -> Range {
        let block = Handle::from_bits(deadline as u32 | 1).expect("not zero");
        Range { from: Turn { deadline, push: 0 }, block }
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
        ranges.insert(range(1 << 40));
        (0..MANY as u64).for_each(|from| ranges.insert(range(from)));
        ranges.check();
        assert!(ranges.pieces.len() <= 2 * MANY / PIECE + 1, "{} pieces", ranges.pieces.len());
        let mut ranges = Ranges::default();
        (0..MANY as u64).for_each(|from| ranges.insert(range(from)));
        ranges.check();
        assert_eq!(ranges.pieces.len(), MANY / PIECE);
    }

    #[test]
    fn no_two_small_pieces_stay_side_by_side() {
        // Insert before all others, and between a full piece and what follows it.
        for full in [0, PIECE as u64] {
            let mut ranges = Ranges::default();
            (0..full).for_each(|from| ranges.insert(range(from)));
            for from in 0..MANY as u64 {
                ranges.insert(range((1 << 40) - from));
                check_pieces(&ranges, "descending");
            }
        }
    }

    #[test]
    fn pieces_that_empty_are_joined() {
        let mut ranges = Ranges::default();
        (0..MANY as u64).for_each(|from| ranges.insert(range(from)));
        // Joined with the piece before it, because the next one is full.
        for from in (1..PIECE as u64).chain(PIECE as u64 + 1..2 * PIECE as u64) {
            ranges.remove(Turn { deadline: from, push: 0 });
        }
        assert_eq!(ranges.pieces.len(), MANY / PIECE - 1);
        for from in (1..PIECE as u64).chain(PIECE as u64 + 1..2 * PIECE as u64) {
            ranges.insert(range(from));
        }
        // Removed in another order than inserted.
        for from in (0..MANY as u64).map(|number| number * 7919 % MANY as u64) {
            if from % 10 == 3 {
                continue;
            }
            ranges.remove(Turn { deadline: from, push: 0 });
            check_pieces(&ranges, "emptied");
        }
        for from in (0..MANY as u64).filter(|from| from % 10 == 3) {
            let found = ranges.get(Turn { deadline: from + 1, push: 7 });
            assert_eq!(found, range(from));
        }
        assert_eq!(ranges.check(), MANY / 10);
        for from in (0..MANY as u64).filter(|from| from % 10 == 3) {
            ranges.remove(Turn { deadline: from, push: 0 });
        }
        assert_eq!((ranges.pieces.len(), ranges.first()), (0, None));
    }
}
