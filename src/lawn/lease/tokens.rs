//! Tokens by rank, and since when each holds: a sorted list.

use super::super::pieces::{Item, Pieces};
use super::super::rank::Rank;
use super::super::tiny::TINY;
use super::since::Since;
use super::token::Token;

/// A rank, its token, and since when that holds, in 36 bytes: a deadline in two words, a push number in one and a half, the
/// moment in half of one and one, how long the element had been due in two, a token in two.
#[derive(Clone, Copy)]
struct Entry([u32; 9]);

impl Item for Entry {
    /// Returns [`Rank::number`] of the rank.
    #[inline(always)]
    fn key(&self) -> u128 {
        self.rank().number()
    }
}

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
pub(super) struct Tokens(Pieces<Entry, { if TINY { 8 } else { 256 } }>);

impl Tokens {
    /// Returns the number of ranks.
    pub(super) fn len(&self) -> usize {
        self.0.len
    }

    pub(super) fn get(&self, rank: Rank) -> Option<Token> {
        self.entry(rank).map(Entry::token)
    }

    /// Returns since when the token of a rank holds, if that is known.
    pub(super) fn since(&self, rank: Rank) -> Option<Since> {
        self.entry(rank).map(Entry::since).filter(Since::is_known)
    }

    fn entry(&self, rank: Rank) -> Option<&Entry> {
        self.0.get(self.0.find(rank.number())?)
    }

    pub(super) fn insert(&mut self, rank: Rank, token: Token, since: Since) {
        self.0.insert(Entry::new(rank, token, since));
    }

    /// Removes a rank, if it is there, and with this token if one is given. Returns its token, and since when it held.
    #[inline]
    pub(super) fn remove(&mut self, rank: Rank, only: Option<Token>) -> Option<(Token, Since)> {
        let place = self.0.find(rank.number())?;
        let found = *self.0.get(place)?;
        if only.is_some_and(|only| only != found.token()) {
            return None;
        }
        self.0.remove(place);
        Some((found.token(), found.since()))
    }

    /// Returns the number of ranks from `from` on that are before `end`: see [`Pieces::count`].
    pub(super) fn count(&self, from: Rank, end: Rank) -> usize {
        self.0.count(from.number(), end.number())
    }

    /// Returns the rank that comes `nth`, from 0, among those that are not before this one.
    pub(super) fn nth_from(&self, rank: Rank, nth: usize) -> Option<Rank> {
        self.0.nth_from(rank.number(), nth).map(Entry::rank)
    }

    /// Returns the bytes allocated. O(n / 256).
    pub(super) fn memory(&self) -> usize {
        self.0.memory()
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) {
        self.0.check();
    }
}
