//! What is held under tokens that clients have chosen, in the order of delivery: what a client that has lost a reply is
//! replied from.

use std::collections::BTreeMap;

use super::super::store::Handle;
use super::super::turn::Turn;
use super::token::Token;

/// Records by token and turn.
#[derive(Clone, Default)]
pub(super) struct Chosen {
    records: BTreeMap<(Token, Turn), Handle>,
}

impl Chosen {
    /// Lists a record, or another one in the place of that with this token and this turn.
    pub(super) fn insert(&mut self, token: Token, turn: Turn, record: Handle) {
        self.records.insert((token, turn), record);
    }

    /// Forgets a record that is listed.
    pub(super) fn remove(&mut self, token: Token, turn: Turn) {
        self.records.remove(&(token, turn)).expect("what is held is listed");
    }

    /// Lists what is held under a token from a turn on, in order. O(log n) for all of what is before that.
    pub(super) fn from(&self, token: Token, turn: Turn) -> impl Iterator<Item = Handle> + '_ {
        let range = self.records.range((token, turn)..=(token, Turn::LAST));
        range.map(|(_, record)| *record)
    }

    /// Returns the bytes allocated, about: the standard library's nodes hold up to eleven entries. They are half full when
    /// what is put in is the last each time, and two thirds otherwise. O(1).
    pub(super) fn memory(&self) -> usize {
        self.records.len() * size_of::<((Token, Turn), Handle)>() * 7 / 4
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub(super) fn allocations(&self) -> usize {
        self.records.len() / 7
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) fn get(&self, token: Token, turn: Turn) -> Option<Handle> {
        self.records.get(&(token, turn)).copied()
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}
