//! Who holds what: the token of each lease.
//!
//! An element that is given out under a lease is held under a token until it is taken out, replaced, given back or
//! leased again. The token is written here and not with the element, so that an element which was never leased pays
//! nothing for it.
//!
//! What is written here of an id holds only for an element that was given out: each lease writes anew what it finds
//! here, and an element that was pushed since has not been given out. So what is left behind by mistake is never
//! believed; it is only memory.
//!
//! A token of a client's own choice is also found by itself, with what is held under it, so that a client which has
//! lost a reply can ask for it again.

use std::sync::LazyLock;

use ahash::RandomState;

use super::super::memory::rounded;
use super::super::turn::Turn;
use super::chosen::{Address, Chosen};
use super::token::Token;
use super::tokens::Tokens;

/// Hashes ids: drawn at random once a process, so that nobody can choose ids that collide.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The tokens of all leases of a lawn.
#[derive(Clone, Default)]
pub struct Leases {
    /// `None` while nothing is leased: most lawns never have a lease.
    held: Option<Box<Held>>,
}

#[derive(Clone, Default)]
struct Held {
    /// By the hash of the id: one that collides loses its lease, which nobody can settle then, and which runs out.
    tokens: Tokens,
    /// What is held under tokens that clients have chosen, if the lawn is full.
    chosen: Chosen,
}

impl Leases {
    /// Whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// Whether anything is listed under tokens that clients have chosen.
    #[inline]
    pub fn has_chosen(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.chosen.is_empty())
    }

    /// The element of that id, whose turn it was, if that is known, is held under this token from here on, or under
    /// none.
    pub fn set(&mut self, id: &[u8], token: Option<Token>, turn: Option<Turn>) {
        let Some(token) = token else { return self.forget(id, turn) };
        let held = self.held.get_or_insert_default();
        let before = held.tokens.insert(HASHER.hash_one(id), token);
        held.unlist(before, turn);
    }

    /// The element of that id, whose turn it was, if that is known, is not held any more.
    #[inline]
    pub fn forget(&mut self, id: &[u8], turn: Option<Turn>) {
        let Some(held) = &mut self.held else { return };
        let before = held.tokens.remove(HASHER.hash_one(id));
        held.unlist(before, turn);
        if held.tokens.len() == 0 {
            self.held = None;
        }
    }

    /// Lists what is held under a token that a client has chosen.
    pub fn list(&mut self, token: Token, address: Address) {
        if let Some(held) = &mut self.held {
            held.chosen.insert(token, address);
        }
    }

    /// The element of that id has another turn, and is held as before.
    pub fn moved(&mut self, id: &[u8], turn: Turn, address: Address) {
        let Some(token) = self.token(id) else { return };
        if let Some(held) = &mut self.held
            && held.chosen.remove(token, turn)
        {
            held.chosen.insert(token, address);
        }
    }

    /// What is listed under a token, from a turn on, in order.
    pub fn listed(&self, token: Token, turn: Turn) -> impl Iterator<Item = Address> + '_ {
        self.held.iter().flat_map(move |held| held.chosen.from(token, turn))
    }

    /// The token under which the element of that id is held, if it was given out.
    pub fn token(&self, id: &[u8]) -> Option<Token> {
        self.held.as_ref()?.tokens.get(HASHER.hash_one(id))
    }

    /// How many ids are written here.
    #[cfg(any(test, fuzzing))]
    pub fn len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.tokens.len())
    }

    /// All that is listed.
    #[cfg(any(test, fuzzing))]
    pub fn all_listed(&self) -> impl Iterator<Item = (Token, Address)> + '_ {
        self.held.iter().flat_map(|held| held.chosen.iter())
    }

    /// Bytes allocated, about. O(parts).
    pub fn memory(&self) -> usize {
        let Some(held) = &self.held else { return 0 };
        rounded(size_of::<Held>()) + held.tokens.memory() + held.chosen.memory()
    }

    /// Allocations that freeing it takes, about. O(1).
    pub fn allocations(&self) -> usize {
        let held = self.held.as_ref();
        held.map_or(0, |held| 1 + held.tokens.allocations() + held.chosen.allocations())
    }
}

impl Held {
    /// What was held under that token has another from here on, or none.
    #[inline]
    fn unlist(&mut self, token: Option<Token>, turn: Option<Turn>) {
        if let (Some(token), Some(turn)) = (token, turn)
            && token.is_chosen()
        {
            self.chosen.remove(token, turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::index::IdHash;
    use super::*;

    #[test]
    fn nothing_is_left_of_what_is_forgotten() {
        let mut leases = Leases::default();
        let chosen = Token::of_word(b"mine");
        let address = |push| Address { hash: IdHash(7), turn: Turn { deadline: 9, push } };
        let listed = |leases: &Leases| leases.listed(chosen, address(0).turn).collect::<Vec<_>>();
        for (push, id) in [b"a", b"b", b"c"].into_iter().enumerate() {
            leases.set(id, Some(chosen), None);
            leases.list(chosen, address(push as u64));
        }
        leases.set(b"b", Some(Token::drawn(7)), Some(address(1).turn));
        assert_eq!(listed(&leases), [address(0), address(2)]);
        leases.moved(b"a", address(0).turn, address(3));
        leases.moved(b"b", address(1).turn, address(4));
        assert_eq!(listed(&leases), [address(2), address(3)]);
        assert_eq!(leases.token(b"b"), Some(Token::drawn(7)));
        assert!(leases.memory() > 0 && leases.allocations() > 0);
        leases.set(b"b", None, None);
        leases.forget(b"a", Some(address(3).turn));
        leases.forget(b"never", None);
        assert_eq!((leases.len(), listed(&leases)), (1, vec![address(2)]));
        leases.forget(b"c", Some(address(2).turn));
        assert!(leases.is_empty() && listed(&leases).is_empty() && !leases.has_chosen());
        assert_eq!((leases.memory(), leases.allocations()), (0, 0));
    }
}
