//! The name of a lease.

use std::num::NonZeroU64;

/// The name of a lease. Below [`Token::SERVERS`] the client has chosen it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(NonZeroU64);

impl Token {
    /// Tokens from here on are drawn by the server, those below are of the clients' own choice.
    pub const SERVERS: u64 = 1 << 62;

    /// Returns the token of that number, from 1 to 2^63 - 1.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|number| number.get() < 2 * Self::SERVERS).map(Self)
    }

    /// Returns a token for one lease, made of random bits: that two leases have the same one is not to be expected.
    pub fn drawn(bits: u64) -> Self {
        let number = (bits % Self::SERVERS) | Self::SERVERS;
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the token that a word stands for: a hash of its bytes, digits or not, the same on every machine.
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

    /// Returns whether a client has chosen it.
    pub fn is_chosen(self) -> bool {
        self.0.get() < Self::SERVERS
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
}
