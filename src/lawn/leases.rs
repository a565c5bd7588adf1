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
//! A token of a client's own choice is also found by itself, with the ids that are held under it, so that a client
//! which has lost a reply can ask for it again.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::LazyLock;

use ahash::RandomState;

use super::tokens::Tokens;

/// The name of a lease. Below [`Token::SERVERS`] the client has chosen it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(NonZeroU64);

impl Token {
    /// Tokens from here on are drawn by the server, those below are of the clients' own choice.
    pub const SERVERS: u64 = 1 << 62;

    /// The token of that number, from 1 to 2^63 - 1.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|number| number.get() < 2 * Self::SERVERS).map(Self)
    }

    /// A token for one lease, made of random bits: that two leases have the same one is not to be expected.
    pub fn drawn(bits: u64) -> Self {
        let number = (bits % Self::SERVERS) | Self::SERVERS;
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }

    /// The token that a word stands for: the number it is, or one that is made of its bytes, the same one on every
    /// machine.
    pub fn of_word(word: &[u8]) -> Self {
        // FNV-1a, and what mixes its bits once more: words that differ in their last byte alone are far apart.
        let hash = word.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mixed = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ mixed >> 32) % Self::SERVERS;
        Self(NonZeroU64::new(mixed).unwrap_or(NonZeroU64::MIN))
    }

    pub fn number(self) -> u64 {
        self.0.get()
    }

    /// Whether a client has chosen it.
    pub fn is_chosen(self) -> bool {
        self.number() < Self::SERVERS
    }
}

/// Hashes ids: drawn at random once a process, so that nobody can choose ids that collide.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The tokens of all leases of a lawn.
#[derive(Clone, Default)]
pub(super) struct Leases {
    /// `None` while nothing is leased: most lawns never have a lease.
    held: Option<Box<Held>>,
}

#[derive(Clone, Default)]
struct Held {
    /// By the hash of the id: one that collides loses its lease, which nobody can settle then, and which runs out.
    tokens: Tokens,
    /// What is held under tokens that clients have chosen.
    chosen: BTreeMap<(Token, u64), Chosen>,
    /// Leases under such tokens so far.
    leases: u64,
}

#[derive(Clone)]
struct Chosen {
    /// The order in which they were given out.
    number: u64,
    id: Box<[u8]>,
}

impl Leases {
    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// The element of that id is held under this token from here on, or under none.
    pub(super) fn set(&mut self, id: &[u8], token: Option<Token>) {
        let Some(token) = token else { return self.forget(id) };
        let hash = HASHER.hash_one(id);
        let held = self.held.get_or_insert_default();
        let before = held.tokens.insert(hash, token);
        if let Some(before) = before.filter(|before| before.is_chosen()) {
            held.chosen.remove(&(before, hash));
        }
        if token.is_chosen() {
            held.leases += 1;
            held.chosen.insert((token, hash), Chosen { number: held.leases, id: id.into() });
        }
    }

    /// The element of that id is not held any more.
    #[inline]
    pub(super) fn forget(&mut self, id: &[u8]) {
        let Some(held) = &mut self.held else { return };
        let hash = HASHER.hash_one(id);
        if let Some(token) = held.tokens.remove(hash).filter(|token| token.is_chosen()) {
            held.chosen.remove(&(token, hash));
        }
        if held.tokens.len() == 0 {
            self.held = None;
        }
    }

    /// The token under which the element of that id is held, if it was given out.
    pub(super) fn token(&self, id: &[u8]) -> Option<Token> {
        self.held.as_ref()?.tokens.get(HASHER.hash_one(id))
    }

    /// The ids that are held under a token of a client's own choice, in the order in which they were given out.
    pub(super) fn ids(&self, token: Token) -> Vec<&[u8]> {
        let Some(held) = &self.held else { return Vec::new() };
        let mut found: Vec<_> =
            held.chosen.range((token, 0)..=(token, u64::MAX)).map(|(_, chosen)| chosen).collect();
        found.sort_unstable_by_key(|chosen| chosen.number);
        found.into_iter().map(|chosen| &chosen.id[..]).collect()
    }

    /// How many ids are written here.
    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.tokens.len())
    }

    /// Bytes allocated, about: the standard library's nodes are two thirds full under random insertion, and an id
    /// that was chosen has an allocation of its own.
    pub(super) fn memory(&self) -> usize {
        let Some(held) = &self.held else { return 0 };
        let chosen = held.chosen.len() * size_of::<((Token, u64), Chosen)>();
        let ids: usize = held.chosen.len() * 16;
        size_of::<Held>() + held.tokens.memory() + chosen * 3 / 2 + ids
    }

    /// Allocations that freeing it takes, about. O(1).
    pub(super) fn allocations(&self) -> usize {
        self.held.as_ref().map_or(0, |held| 1 + held.tokens.allocations() + held.chosen.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_token_everywhere_and_another_word_another() {
        // These numbers are in append-only files and on replicas: they must never change.
        assert_eq!(Token::of_word(b"worker-1").number(), 744_220_240_184_405_413);
        assert_eq!(Token::of_word(b"\0\xff").number(), 1_240_818_412_199_447_008);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..100_000_u32 {
            let token = Token::of_word(format!("worker-{number}").as_bytes());
            assert!(token.is_chosen() && seen.insert(token), "{number}");
        }
    }

    #[test]
    fn what_is_drawn_is_told_from_what_is_chosen() {
        for bits in [0, 1, Token::SERVERS - 1, Token::SERVERS, u64::MAX] {
            let drawn = Token::drawn(bits);
            assert!(!drawn.is_chosen());
            assert_eq!(Token::new(drawn.number()), Some(drawn));
        }
        assert!(Token::new(0).is_none() && Token::new(1 << 63).is_none());
        assert!(Token::new(1).is_some_and(Token::is_chosen));
    }

    #[test]
    fn nothing_is_left_of_what_is_forgotten() {
        let mut leases = Leases::default();
        let chosen = Token::of_word(b"mine");
        for id in [b"a", b"b", b"c"] {
            leases.set(id, Some(chosen));
        }
        leases.set(b"b", Some(Token::drawn(7)));
        assert_eq!(leases.ids(chosen), [b"a", b"c"]);
        leases.set(b"a", Some(chosen));
        assert_eq!(leases.ids(chosen), [b"c", b"a"]);
        assert_eq!(leases.token(b"b"), Some(Token::drawn(7)));
        assert!(leases.memory() > 0 && leases.allocations() > 0);
        leases.set(b"b", None);
        leases.forget(b"a");
        leases.forget(b"never");
        assert_eq!((leases.len(), leases.ids(chosen)), (1, vec![&b"c"[..]]));
        leases.forget(b"c");
        assert!(leases.is_empty() && leases.ids(chosen).is_empty());
        assert_eq!((leases.memory(), leases.allocations()), (0, 0));
    }
}
