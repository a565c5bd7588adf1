//! Tokens by turn, and since when each holds: a sorted list in leaves of up to 256 entries.
//!
//! Leases that begin mostly end after all others, and most that end are among the first. A [`VecDeque`] is cheap at both
//! ends, and moves the shorter side for what is in between.
//!
//! To count the turns between two moments is to add up the lengths of the leaves in between. A map of the standard library
//! would have to walk over all entries.

use std::collections::VecDeque;

use super::super::memory::rounded;
use super::super::tiny::TINY;
use super::super::turn::Turn;
use super::super::work;
use super::since::Since;
use super::token::Token;

/// Entries in a leaf, at most.
const MOST: usize = if TINY { 8 } else { 256 };

/// A turn, its token, and since when that holds, in 36 bytes: a deadline in two words, a push number in one and a half, the
/// moment in half of one and one, how long the element had been due in two, a token in two.
#[derive(Clone, Copy)]
struct Entry([u32; 9]);

impl Entry {
    fn new(turn: Turn, token: Token, since: Since) -> Self {
        let Since { moment: since, waited } = since.stored();
        let high = |number: u64| (number >> 32) as u32;
        Self([
            turn.deadline as u32,
            high(turn.deadline),
            turn.push as u32,
            high(turn.push) | (since as u32) << 16,
            (since >> 16) as u32,
            waited as u32,
            high(waited),
            token.number() as u32,
            high(token.number()),
        ])
    }

    fn turn(&self) -> Turn {
        let [a, b, c, d, ..] = self.0.map(u64::from);
        Turn { deadline: b << 32 | a, push: (d & 0xffff) << 32 | c }
    }

    /// Returns [`Turn::number`] of the turn.
    #[inline(always)]
    fn number(&self) -> u128 {
        self.turn().number()
    }

    fn token(&self) -> Token {
        let [.., low, high] = self.0.map(u64::from);
        Token::new(high << 32 | low).expect("the number of a token")
    }

    fn since(&self) -> Since {
        let [.., d, since, low, high, _, _] = self.0.map(u64::from);
        Since { moment: since << 16 | d >> 16, waited: high << 32 | low }
    }
}

/// Tokens by turn.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    leaves: VecDeque<Leaf>,
    /// The number of turns.
    pub(super) len: usize,
}

/// Consecutive entries, at least one.
#[derive(Clone)]
struct Leaf {
    /// No entry is earlier, and every entry in the previous leaf is.
    from: Turn,
    entries: VecDeque<Entry>,
}

/// Returns the most entries that a leaf of this length has memory for.
fn capacity_max(length: usize) -> usize {
    MOST.min(length + length / 2 + 8)
}

impl Leaf {
    /// Returns the number of entries before a turn.
    #[inline]
    fn before(&self, turn: Turn) -> usize {
        let turn = turn.number();
        // Most leases that begin end after all others.
        if self.entries.back().is_none_or(|last| last.number() < turn) {
            return self.entries.len();
        }
        self.entries.partition_point(|entry| entry.number() < turn)
    }
}

impl Tokens {
    pub(super) fn get(&self, turn: Turn) -> Option<Token> {
        self.entry(turn).map(Entry::token)
    }

    /// Returns since when the token of a turn holds, if that is known.
    pub(super) fn since(&self, turn: Turn) -> Option<Since> {
        self.entry(turn).map(Entry::since).filter(Since::is_known)
    }

    fn entry(&self, turn: Turn) -> Option<&Entry> {
        let leaf = self.leaves.get(self.leaf_of(turn))?;
        leaf.entries.get(leaf.before(turn)).filter(|entry| entry.turn() == turn)
    }

    /// Inserts a turn that is not there.
    pub(super) fn insert(&mut self, turn: Turn, token: Token, since: Since) {
        let mut at = self.leaf_of(turn);
        let is_full = self.leaves.get(at).is_none_or(|leaf| leaf.entries.len() == MOST);
        if is_full {
            at = self.make_room(at, turn);
        }
        let leaf = &mut self.leaves[at];
        leaf.from = leaf.from.min(turn);
        let place = leaf.before(turn);
        let length = leaf.entries.len();
        if length == leaf.entries.capacity() {
            work::move_items::<Entry>(length);
            leaf.entries.reserve_exact((length / 4).max(4).min(MOST - length));
        }
        work::move_items::<Entry>(place.min(length - place));
        leaf.entries.insert(place, Entry::new(turn, token, since));
        self.len += 1;
    }

    /// Removes a turn, if it is there, and with this token if one is given. Returns its token, and since when it held. Without turns the list keeps
    /// its memory: the owner drops it.
    #[inline]
    pub(super) fn remove(&mut self, turn: Turn, only: Option<Token>) -> Option<(Token, Since)> {
        let at = self.leaf_of(turn);
        let leaf = self.leaves.get_mut(at)?;
        let place = leaf.before(turn);
        let found = *leaf.entries.get(place)?;
        let token = found.token();
        if found.turn() != turn || only.is_some_and(|only| only != token) {
            return None;
        }
        work::move_items::<Entry>(place.min(leaf.entries.len() - place));
        leaf.entries.remove(place);
        self.len -= 1;
        let (length, capacity) = (leaf.entries.len(), leaf.entries.capacity());
        if self.len > 0 && (capacity > capacity_max(length) || length == 0) {
            self.shrink(at);
        }
        Some((token, found.since()))
    }

    /// Returns the number of turns from `from` on that are before `end`. O(log n), and O(1) for each leaf in between.
    pub(super) fn count(&self, from: Turn, end: Turn) -> usize {
        if end <= from {
            return 0;
        }
        let [first, last] = [from, end].map(|turn| self.leaf_of(turn));
        let before = |at: usize, turn| self.leaves.get(at).map_or(0, |leaf| leaf.before(turn));
        let between = self.leaves.range(first..last).map(|leaf| leaf.entries.len());
        between.sum::<usize>() + before(last, end) - before(first, from)
    }

    /// Returns the turn that comes `nth`, from 0, among those that are not before this one. Costs as much as [`Tokens::count`].
    pub(super) fn nth_from(&self, turn: Turn, nth: usize) -> Option<Turn> {
        let first = self.leaf_of(turn);
        let mut at = self.leaves.get(first)?.before(turn).checked_add(nth)?;
        for leaf in self.leaves.range(first..) {
            match leaf.entries.get(at) {
                Some(entry) => return Some(entry.turn()),
                None => at -= leaf.entries.len(),
            }
        }
        None
    }

    /// Returns the bytes allocated. O(leaves).
    pub(super) fn memory(&self) -> usize {
        let entries = |leaf: &Leaf| rounded(leaf.entries.capacity() * size_of::<Entry>());
        let leaves = rounded(self.leaves.capacity() * size_of::<Leaf>());
        leaves + self.leaves.iter().map(entries).sum::<usize>()
    }

    /// Returns the leaf that a turn belongs to: the last one that does not begin after it, or the first one.
    #[inline]
    fn leaf_of(&self, turn: Turn) -> usize {
        let turn = turn.number();
        if self.leaves.back().is_none_or(|last| last.from.number() <= turn) {
            return self.leaves.len().saturating_sub(1);
        }
        self.leaves.partition_point(|leaf| leaf.from.number() <= turn).saturating_sub(1)
    }

    /// Makes room for a turn in a full leaf or beside it. Returns the leaf that the turn belongs to.
    #[cold]
    fn make_room(&mut self, at: usize, turn: Turn) -> usize {
        let entries = match self.leaves.get_mut(at) {
            // A turn after all others leaves a full leaf behind.
            Some(leaf) if leaf.entries.back().is_some_and(|last| turn < last.turn()) => {
                let later = leaf.entries.split_off(MOST / 2);
                leaf.entries.shrink_to_fit();
                later
            }
            _ => VecDeque::new(),
        };
        let from = entries.front().map_or(turn, Entry::turn);
        let new = (at + 1).min(self.leaves.len());
        work::move_items::<Entry>(entries.len());
        work::move_items::<Leaf>(new.min(self.leaves.len() - new));
        self.leaves.insert(new, Leaf { from, entries });
        if turn < from { at } else { new }
    }

    /// Frees memory of a leaf that has lost entries: joins it with a neighbour if both together fill at most half a leaf.
    #[cold]
    fn shrink(&mut self, at: usize) {
        let length = |at: usize| self.leaves.get(at).map_or(MOST, |leaf| leaf.entries.len());
        let mut earlier = [Some(at), at.checked_sub(1)].into_iter().flatten();
        let mut at = at;
        if let Some(earlier) = earlier.find(|it| length(*it) + length(it + 1) <= MOST / 2) {
            let later = self.leaves.remove(earlier + 1).map(|leaf| leaf.entries);
            self.leaves[earlier].entries.extend(later.into_iter().flatten());
            at = earlier;
        }
        let entries = &mut self.leaves[at].entries;
        work::move_items::<Entry>(entries.len());
        entries.shrink_to(entries.len() + entries.len() / 4);
        if entries.is_empty() {
            self.leaves.remove(at);
        }
        if self.leaves.len() * 4 < self.leaves.capacity() {
            self.leaves.shrink_to(self.leaves.len() * 2);
        }
    }

    /// Panics unless entries are in order, and leaves are not empty, begin where they should, and waste little memory.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) {
        let entries = || self.leaves.iter().flat_map(|leaf| &leaf.entries);
        assert_eq!(entries().count(), self.len, "the number of entries");
        assert!(
            entries().is_sorted_by(|one, next| one.turn() < next.turn()),
            "the order of entries"
        );
        let mut before = None;
        for leaf in &self.leaves {
            let [first, last] =
                [leaf.entries.front(), leaf.entries.back()].map(|it| it.map(Entry::turn));
            assert!(first.map_or(self.len == 0, |first| leaf.from <= first), "where a leaf begins");
            assert!(before < Some(leaf.from) && leaf.entries.len() <= MOST, "leaves overlap");
            let (length, capacity) = (leaf.entries.len(), leaf.entries.capacity());
            assert!(capacity <= capacity_max(length), "memory for {capacity}, {length} used");
            before = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const COUNT: u64 = if TINY { 2000 } else { 60_000 };

    fn turn(deadline: u64) -> Turn {
        Turn { deadline, push: deadline % 3 }
    }

    fn since(deadline: u64) -> Since {
        Since { moment: deadline * 7, waited: deadline * 3 }
    }

    /// The list and an oracle, beside each other.
    #[derive(Default)]
    struct Both {
        tokens: Tokens,
        map: BTreeMap<Turn, Token>,
    }

    impl Both {
        fn insert(&mut self, deadline: u64) {
            let token = Token::drawn(deadline);
            if self.map.insert(turn(deadline), token).is_none() {
                self.tokens.insert(turn(deadline), token, since(deadline));
            }
        }

        fn remove(&mut self, deadline: u64) {
            let expected = self.map.remove(&turn(deadline)).map(|token| (token, since(deadline)));
            assert_eq!(self.tokens.remove(turn(deadline), None), expected);
        }

        fn check(&self, moments: impl Iterator<Item = u64>) {
            self.tokens.check();
            assert_eq!(self.tokens.len, self.map.len());
            for moment in moments {
                let (at, after) = (turn(moment), Turn::after(moment));
                assert_eq!(self.tokens.get(at), self.map.get(&at).copied(), "{moment}");
                for nth in [0, 1, moment as usize % 700] {
                    let found = self.map.range(after..).nth(nth).map(|(turn, _)| *turn);
                    assert_eq!(self.tokens.nth_from(after, nth), found, "{moment}");
                }
                for end in [at, after, Turn::LAST, Turn::after(moment + COUNT / 3)] {
                    let count = self.map.range(after..end.max(after)).count();
                    assert_eq!(self.tokens.count(after, end), count, "{moment}");
                }
            }
        }

        /// Returns the bytes that each entry takes.
        fn each(&self) -> usize {
            self.tokens.memory() / self.tokens.len
        }
    }

    #[test]
    fn every_count_is_right_while_the_list_grows_and_shrinks_at_its_ends() {
        let mut both = Both::default();
        both.check([0, 5].into_iter());
        for deadline in 1..=COUNT {
            both.insert(deadline);
            both.remove(deadline + 1);
        }
        both.check((0..COUNT + 2).step_by(COUNT as usize / 50));
        if !TINY {
            assert!(both.each() <= 44, "{} bytes each, in order", both.each());
        }
        // The oldest end first, then those that began last.
        (1..=COUNT / 2).for_each(|deadline| both.remove(deadline));
        both.check((0..COUNT + 2).step_by(COUNT as usize / 50));
        (COUNT / 2 + 8..=COUNT).rev().for_each(|deadline| both.remove(deadline));
        both.check(0..COUNT / 2 + 9);
        (COUNT / 2..COUNT / 2 + 8).for_each(|deadline| both.remove(deadline));
        both.check([0, COUNT].into_iter());
        assert!(both.tokens.memory() < 16 * size_of::<Entry>());
    }

    #[test]
    fn an_entry_takes_no_more_than_documented_in_whatever_order_leases_begin_and_end() {
        let mixed = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30;
        let mut both = Both::default();
        for number in 0..COUNT {
            both.insert(mixed(number));
            // All leaves fill evenly, so unused memory shows only soon after they were split.
            if number % 500 == 0 {
                both.tokens.check();
            }
        }
        both.check((0..COUNT).step_by(COUNT as usize / 50).map(mixed));
        if !TINY {
            assert!(both.each() <= 47, "{} bytes each, in no order", both.each());
        }
        for left in [COUNT / 2, COUNT / 4, COUNT / 8, COUNT / 64, 30] {
            (left..COUNT).for_each(|number| both.remove(mixed(number)));
            both.check((0..COUNT).step_by(COUNT as usize / 50).map(mixed));
            if !TINY {
                assert!(both.each() <= 72, "{} bytes each of {left}", both.each());
            }
        }
    }
}
