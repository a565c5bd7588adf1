//! Tokens by rank, and since when each holds: a sorted list in leaves of up to 256 entries.
//!
//! Leases that begin mostly end after all others, and most that end are among the first. A [`VecDeque`] is cheap at both
//! ends, and moves the shorter side for what is in between.
//!
//! To count the ranks between two moments is to add up the lengths of the leaves in between. A map of the standard library
//! would have to walk over all entries.

use std::collections::VecDeque;

use super::super::memory::rounded;
use super::super::rank::Rank;
use super::super::tiny::TINY;
use super::super::work;
use super::since::Since;
use super::token::Token;

/// Entries in a leaf, at most.
const MOST: usize = if TINY { 8 } else { 256 };

/// A rank, its token, and since when that holds, in 36 bytes: a deadline in two words, a push number in one and a half, the
/// moment in half of one and one, how long the element had been due in two, a token in two.
#[derive(Clone, Copy)]
struct Entry([u32; 9]);

impl Entry {
    fn new(rank: Rank, token: Token, since: Since) -> Self {
        let Since { moment: since, waited } = since.stored();
        let high = |number: u64| (number >> 32) as u32;
        Self([
            rank.deadline as u32,
            high(rank.deadline),
            rank.push as u32,
            high(rank.push) | (since as u32) << 16,
            (since >> 16) as u32,
            waited as u32,
            high(waited),
            token.number() as u32,
            high(token.number()),
        ])
    }

    fn rank(&self) -> Rank {
        let [a, b, c, d, ..] = self.0.map(u64::from);
        Rank { deadline: b << 32 | a, push: (d & 0xffff) << 32 | c }
    }

    /// Returns [`Rank::number`] of the rank.
    #[inline(always)]
    fn number(&self) -> u128 {
        self.rank().number()
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

/// Tokens by rank.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    leaves: VecDeque<Leaf>,
    /// The number of ranks.
    pub(super) len: usize,
}

/// Consecutive entries, at least one.
#[derive(Clone)]
struct Leaf {
    /// No entry is earlier, and every entry in the previous leaf is.
    from: Rank,
    entries: VecDeque<Entry>,
}

/// Returns the most entries that a leaf of this length has memory for.
fn capacity_max(length: usize) -> usize {
    MOST.min(length + length / 2 + 8)
}

impl Leaf {
    /// Returns the number of entries before a rank.
    #[inline]
    fn before(&self, rank: Rank) -> usize {
        let rank = rank.number();
        // Most leases that begin end after all others.
        if self.entries.back().is_none_or(|last| last.number() < rank) {
            return self.entries.len();
        }
        self.entries.partition_point(|entry| entry.number() < rank)
    }
}

impl Tokens {
    pub(super) fn get(&self, rank: Rank) -> Option<Token> {
        self.entry(rank).map(Entry::token)
    }

    /// Returns since when the token of a rank holds, if that is known.
    pub(super) fn since(&self, rank: Rank) -> Option<Since> {
        self.entry(rank).map(Entry::since).filter(Since::is_known)
    }

    fn entry(&self, rank: Rank) -> Option<&Entry> {
        let leaf = self.leaves.get(self.leaf_of(rank))?;
        leaf.entries.get(leaf.before(rank)).filter(|entry| entry.rank() == rank)
    }

    /// Inserts a rank that is not there.
    pub(super) fn insert(&mut self, rank: Rank, token: Token, since: Since) {
        let mut at = self.leaf_of(rank);
        let is_full = self.leaves.get(at).is_none_or(|leaf| leaf.entries.len() == MOST);
        if is_full {
            at = self.make_room(at, rank);
        }
        let leaf = &mut self.leaves[at];
        leaf.from = leaf.from.min(rank);
        let place = leaf.before(rank);
        let length = leaf.entries.len();
        if length == leaf.entries.capacity() {
            work::move_items::<Entry>(length);
            leaf.entries.reserve_exact((length / 4).max(4).min(MOST - length));
        }
        work::move_items::<Entry>(place.min(length - place));
        leaf.entries.insert(place, Entry::new(rank, token, since));
        self.len += 1;
    }

    /// Removes a rank, if it is there, and with this token if one is given. Returns its token, and since when it held. Without ranks the list keeps
    /// its memory: the owner drops it.
    #[inline]
    pub(super) fn remove(&mut self, rank: Rank, only: Option<Token>) -> Option<(Token, Since)> {
        let at = self.leaf_of(rank);
        let leaf = self.leaves.get_mut(at)?;
        let place = leaf.before(rank);
        let found = *leaf.entries.get(place)?;
        let token = found.token();
        if found.rank() != rank || only.is_some_and(|only| only != token) {
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

    /// Returns the number of ranks from `from` on that are before `end`. O(log n), and O(1) for each leaf in between.
    pub(super) fn count(&self, from: Rank, end: Rank) -> usize {
        if end <= from {
            return 0;
        }
        let [first, last] = [from, end].map(|rank| self.leaf_of(rank));
        let before = |at: usize, rank| self.leaves.get(at).map_or(0, |leaf| leaf.before(rank));
        let between = self.leaves.range(first..last).map(|leaf| leaf.entries.len());
        between.sum::<usize>() + before(last, end) - before(first, from)
    }

    /// Returns the rank that comes `nth`, from 0, among those that are not before this one. Costs as much as [`Tokens::count`].
    pub(super) fn nth_from(&self, rank: Rank, nth: usize) -> Option<Rank> {
        let first = self.leaf_of(rank);
        let mut at = self.leaves.get(first)?.before(rank).checked_add(nth)?;
        for leaf in self.leaves.range(first..) {
            match leaf.entries.get(at) {
                Some(entry) => return Some(entry.rank()),
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

    /// Returns the leaf that a rank belongs to: the last one that does not begin after it, or the first one.
    #[inline]
    fn leaf_of(&self, rank: Rank) -> usize {
        let rank = rank.number();
        if self.leaves.back().is_none_or(|last| last.from.number() <= rank) {
            return self.leaves.len().saturating_sub(1);
        }
        self.leaves.partition_point(|leaf| leaf.from.number() <= rank).saturating_sub(1)
    }

    /// Makes room for a rank in a full leaf or beside it. Returns the leaf that the rank belongs to.
    #[cold]
    fn make_room(&mut self, at: usize, rank: Rank) -> usize {
        let entries = match self.leaves.get_mut(at) {
            // A rank after all others leaves a full leaf behind.
            Some(leaf) if leaf.entries.back().is_some_and(|last| rank < last.rank()) => {
                let later = leaf.entries.split_off(MOST / 2);
                leaf.entries.shrink_to_fit();
                later
            }
            _ => VecDeque::new(),
        };
        let from = entries.front().map_or(rank, Entry::rank);
        let new = (at + 1).min(self.leaves.len());
        work::move_items::<Entry>(entries.len());
        work::move_items::<Leaf>(new.min(self.leaves.len() - new));
        self.leaves.insert(new, Leaf { from, entries });
        if rank < from { at } else { new }
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
            entries().is_sorted_by(|one, next| one.rank() < next.rank()),
            "the order of entries"
        );
        let mut before = None;
        for leaf in &self.leaves {
            let [first, last] =
                [leaf.entries.front(), leaf.entries.back()].map(|it| it.map(Entry::rank));
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

    fn rank(deadline: u64) -> Rank {
        Rank { deadline, push: deadline % 3 }
    }

    fn since(deadline: u64) -> Since {
        Since { moment: deadline * 7, waited: deadline * 3 }
    }

    /// The list and an oracle, beside each other.
    #[derive(Default)]
    struct Both {
        tokens: Tokens,
        map: BTreeMap<Rank, Token>,
    }

    impl Both {
        fn insert(&mut self, deadline: u64) {
            let token = Token::drawn(deadline);
            if self.map.insert(rank(deadline), token).is_none() {
                self.tokens.insert(rank(deadline), token, since(deadline));
            }
        }

        fn remove(&mut self, deadline: u64) {
            let expected = self.map.remove(&rank(deadline)).map(|token| (token, since(deadline)));
            assert_eq!(self.tokens.remove(rank(deadline), None), expected);
        }

        fn check(&self, moments: impl Iterator<Item = u64>) {
            self.tokens.check();
            assert_eq!(self.tokens.len, self.map.len());
            for moment in moments {
                let (at, after) = (rank(moment), Rank::after(moment));
                assert_eq!(self.tokens.get(at), self.map.get(&at).copied(), "{moment}");
                for nth in [0, 1, moment as usize % 700] {
                    let found = self.map.range(after..).nth(nth).map(|(rank, _)| *rank);
                    assert_eq!(self.tokens.nth_from(after, nth), found, "{moment}");
                }
                for end in [at, after, Rank::LAST, Rank::after(moment + COUNT / 3)] {
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
