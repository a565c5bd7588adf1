//! The tokens of all leases of a full lawn.
//!
//! An element that is given out under a lease is held under a token until it is taken out, replaced, given back or leased
//! again. The token is stored here and not in the record, so that an element that was never leased pays nothing for it: a
//! removal looks here only if the record says that the element was given out.
//!
//! Tokens are kept by rank, which identifies an element as well as its record does, and tells when the lease expires. So
//! the live leases are those after a moment, and are counted without visiting each of them, whichever way the clock steps.

use std::collections::BTreeMap;

use super::super::memory::rounded;
use super::super::rank::{DEADLINE_MAX, Rank};
use super::super::store::Handle;
use super::since::{Ages, Since};
use super::token::Token;
use super::tokens::Tokens;

/// Tokens, by rank.
#[derive(Clone, Default)]
pub struct Leases {
    /// `None` while nothing is held: most lawns never have a lease.
    held: Option<Box<Held>>,
}

#[derive(Clone, Default)]
struct Held {
    tokens: Tokens,
    /// Without those that never come due: stuck ones.
    ages: Ages,
    /// The records that are held under tokens which clients chose, in the order of delivery: a client that has lost a
    /// reply is replied from these.
    chosen: BTreeMap<(Token, Rank), Handle>,
}

impl Leases {
    /// Returns whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// Returns the number of records that are held.
    pub fn len(&self) -> usize {
        let Some(held) = &self.held else { return 0 };
        held.tokens.len()
    }

    /// Holds a record, whose rank is now `rank`, under this token or under none. `before` is the rank that it had, if it
    /// may have been held. `since`: when that began; `None`: as before.
    pub fn set(
        &mut self,
        record: Handle,
        token: Option<Token>,
        (before, rank): (Option<Rank>, Rank),
        since: Option<Since>,
    ) {
        match (token, before) {
            (Some(token), before) => {
                let held = self.held.get_or_insert_default();
                let was = before.and_then(|before| held.remove(before, None));
                let since = since.or(was.map(|(_, since)| since)).unwrap_or_default();
                held.insert(record, token, rank, since);
            }
            (None, Some(before)) => _ = self.end(before, None),
            (None, None) => {}
        }
    }

    /// Stops holding the record of that rank, if it is held under this token, if one is given. Returns whether it was held.
    #[inline]
    pub fn end(&mut self, rank: Rank, only: Option<Token>) -> bool {
        let Some(held) = &mut self.held else { return false };
        let is_held = held.remove(rank, only).is_some();
        if held.tokens.len() == 0 {
            self.held = None;
        }
        is_held
    }

    /// Records that the element with this rank is in another record. It is held as before.
    pub fn replace(&mut self, new: Handle, rank: Rank) {
        if let Some(held) = &mut self.held
            && let Some(token) = held.tokens.get(rank).filter(|token| token.is_chosen())
        {
            held.chosen.insert((token, rank), new);
        }
    }

    /// Returns the token under which the record of that rank is held.
    pub fn token(&self, rank: Rank) -> Option<Token> {
        self.held.as_ref()?.tokens.get(rank)
    }

    /// Returns since when the record of that rank is held, if that is known.
    pub fn since(&self, rank: Rank) -> Option<Since> {
        self.held.as_ref()?.tokens.since(rank)
    }

    /// Returns since when the first of all records is held, up to a second too late. Stuck ones do not count.
    pub fn oldest(&self) -> Option<u64> {
        self.held.as_ref()?.ages.first()
    }

    /// Lists the records that are held under a token that a client chose, in order from a rank on. O(log n) to begin.
    pub fn listed(&self, token: Token, from: Rank) -> impl Iterator<Item = Handle> + '_ {
        let chosen = self.held.as_ref().map(|held| &held.chosen);
        let range = chosen.map(|chosen| chosen.range((token, from)..=(token, Rank::LAST)));
        range.into_iter().flatten().map(|(_, record)| *record)
    }

    /// Returns the number of live leases: their deadline is after `now`, and is not [`DEADLINE_MAX`].
    pub fn running(&self, now: u64) -> usize {
        self.held.as_ref().map_or(0, |held| held.tokens.count(Rank::after(now), NEVER))
    }

    /// Returns when all but `left` of those have expired, of which there are more.
    pub fn end_of_all_but(&self, left: usize, now: u64) -> Option<u64> {
        let nth = self.running(now).checked_sub(left)?.checked_sub(1)?;
        let rank = self.held.as_ref()?.tokens.nth_from(Rank::after(now), nth);
        rank.map(|rank| rank.deadline)
    }

    /// Returns the bytes allocated, roughly. O(n / 256).
    pub fn memory(&self) -> usize {
        let Some(held) = &self.held else { return 0 };
        // The standard library's nodes are half full if each new entry is the last, and two thirds otherwise.
        let chosen = held.chosen.len() * size_of::<((Token, Rank), Handle)>() * 7 / 4;
        rounded(size_of::<Held>()) + held.tokens.memory() + held.ages.memory() + chosen
    }

    /// Returns roughly how many allocations dropping it frees. O(1).
    pub fn allocations(&self) -> usize {
        self.held.as_ref().map_or(0, |held| 1 + held.tokens.len() / 256 + held.chosen.len() / 7)
    }

    /// Panics unless what is held was given out, and is listed if it should be. `given_out` is all that was.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, given_out: impl Iterator<Item = (Rank, Handle)>) {
        let Some(held) = &self.held else { return };
        held.tokens.check();
        let (mut count, mut chosen, mut moments) = (0, 0, Vec::new());
        for (rank, record) in given_out {
            let Some(token) = held.tokens.get(rank) else { continue };
            let listed = token.is_chosen().then_some(record);
            assert_eq!(
                held.chosen.get(&(token, rank)).copied(),
                listed,
                "what is listed under {token:?}"
            );
            let since = held.tokens.since(rank).unwrap_or_default();
            moments.extend((rank < NEVER).then_some(since.moment));
            count += 1;
            chosen += usize::from(token.is_chosen());
        }
        held.ages.check(moments.into_iter());
        assert!(count > 0, "nothing is held");
        assert_eq!(held.tokens.len(), count, "what is held and what was given out");
        assert_eq!(held.chosen.len(), chosen, "what is listed and what is held");
    }
}

/// The first rank that never comes due.
const NEVER: Rank = Rank { deadline: DEADLINE_MAX, push: 0 };

impl Held {
    fn insert(&mut self, record: Handle, token: Token, rank: Rank, since: Since) {
        self.tokens.insert(rank, token, since);
        if rank < NEVER {
            self.ages.insert(since.moment);
        }
        if token.is_chosen() {
            self.chosen.insert((token, rank), record);
        }
    }

    #[inline]
    fn remove(&mut self, rank: Rank, only: Option<Token>) -> Option<(Token, Since)> {
        let (token, since) = self.tokens.remove(rank, only)?;
        if rank < NEVER {
            self.ages.remove(since.moment);
        }
        if token.is_chosen() {
            self.chosen.remove(&(token, rank));
        }
        Some((token, since))
    }
}
