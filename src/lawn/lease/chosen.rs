//! What is held under tokens that clients have chosen, in the order of delivery: what a client that has lost a reply is
//! replied from.
//!
//! It lists the lawns that are full alone. A small one is walked instead, which is little.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::super::index::IdHash;
use super::super::turn::Turn;
use super::token::Token;

/// What finds an element wherever its record lies: the hash of its id, and its turn, which is no other's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    pub hash: IdHash,
    pub turn: Turn,
}

/// Elements by token and turn.
#[derive(Clone, Default)]
pub(super) struct Chosen {
    hashes: BTreeMap<(Token, Turn), IdHash>,
}

impl Chosen {
    pub(super) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    pub(super) fn insert(&mut self, token: Token, Address { hash, turn }: Address) {
        self.hashes.insert((token, turn), hash);
    }

    /// Returns whether it was there.
    pub(super) fn remove(&mut self, token: Token, turn: Turn) -> bool {
        self.hashes.remove(&(token, turn)).is_some()
    }

    /// What is held under a token from a turn on, in order. O(log n) for all of what is before that.
    pub(super) fn from(&self, token: Token, turn: Turn) -> impl Iterator<Item = Address> + '_ {
        let range: RangeInclusive<_> = (token, turn)..=(token, Turn::LAST);
        self.hashes.range(range).map(|((_, turn), hash)| Address { hash: *hash, turn: *turn })
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (Token, Address)> + '_ {
        self.hashes
            .iter()
            .map(|((token, turn), hash)| (*token, Address { hash: *hash, turn: *turn }))
    }

    /// Bytes allocated, about: the standard library's nodes hold up to eleven entries. They are half full when what is
    /// put in is the last each time, and two thirds otherwise. O(1).
    pub(super) fn memory(&self) -> usize {
        self.hashes.len() * size_of::<((Token, Turn), IdHash)>() * 7 / 4
    }

    /// Allocations that freeing it takes, about. O(1).
    pub(super) fn allocations(&self) -> usize {
        self.hashes.len() / 7
    }
}
