//! A table of tokens by the hash of an id, which grows and shrinks a little at a time.
//!
//! *Linear hashing*: the table is cut into small ones, by the lowest bits of the hash. When there is too much in them on
//! average, one of them is split in two, in turn, whichever it was that something was put into; when there is too
//! little, the last two are joined again. So nothing ever moves more than one of the small tables.

use hashbrown::HashTable;

use super::super::memory::{allotted, push_tight, rounded, shrink};
use super::super::tiny::TINY;
use super::token::Token;

/// Tokens in a part, on average, when another part is added.
const PART: usize = if TINY { 8 } else { 128 };

/// Tokens by hash.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    parts: Vec<HashTable<(u64, Token)>>,
    len: usize,
}

/// Within a part the lowest bits are all the same.
fn within(hash: u64) -> u64 {
    hash.rotate_left(32)
}

impl Tokens {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, hash: u64) -> Option<Token> {
        let part = self.parts.get(self.part_of(hash))?;
        part.find(within(hash), |entry| entry.0 == hash).map(|entry| entry.1)
    }

    /// Returns what was there before.
    pub(super) fn insert(&mut self, hash: u64, token: Token) -> Option<Token> {
        if self.len >= self.parts.len() * PART {
            self.split();
        }
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        if let Some(entry) = part.find_mut(within(hash), |entry| entry.0 == hash) {
            return Some(std::mem::replace(&mut entry.1, token));
        }
        part.insert_unique(within(hash), (hash, token), |entry| within(entry.0));
        self.len += 1;
        None
    }

    pub(super) fn remove(&mut self, hash: u64) -> Option<Token> {
        let part = self.part_of(hash);
        let part = self.parts.get_mut(part)?;
        let entry = part.find_entry(within(hash), |entry| entry.0 == hash).ok()?;
        let ((_, token), _) = entry.remove();
        self.len -= 1;
        if self.parts.len() > 1 && self.len < self.parts.len() * PART / 4 {
            self.join();
        }
        Some(token)
    }

    /// Bytes allocated, about. O(parts).
    pub(super) fn memory(&self) -> usize {
        let parts = self.parts.iter().map(|part| rounded(part.allocation_size()));
        parts.sum::<usize>() + allotted(&self.parts)
    }

    /// Allocations that freeing it takes. O(1).
    pub(super) fn allocations(&self) -> usize {
        1 + self.parts.len()
    }

    fn part_of(&self, hash: u64) -> usize {
        let count = self.parts.len();
        let doubled = count.next_power_of_two();
        let part = hash as usize & (doubled - 1);
        if part < count { part } else { part - doubled / 2 }
    }

    /// The part that was cut in two when this one came, which is not the first.
    fn origin_of(part: usize) -> usize {
        part - (1 << part.ilog2())
    }

    /// Adds a part.
    fn split(&mut self) {
        push_tight(&mut self.parts, HashTable::new());
        let last = self.parts.len() - 1;
        if last > 0 {
            let split = std::mem::take(&mut self.parts[Self::origin_of(last)]);
            self.put_back(split);
        }
    }

    /// Takes the last part away.
    fn join(&mut self) {
        let last = self.parts.pop().expect("there are two");
        self.put_back(last);
        shrink(&mut self.parts);
    }

    fn put_back(&mut self, entries: HashTable<(u64, Token)>) {
        for entry in entries {
            let part = self.part_of(entry.0);
            self.parts[part].insert_unique(within(entry.0), entry, |entry| within(entry.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_while_the_table_grows_and_shrinks() {
        let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let token = |number: u64| Token::drawn(number);
        let mut tokens = Tokens::default();
        assert_eq!((tokens.get(7), tokens.remove(7), tokens.memory()), (None, None, 0));
        const COUNT: u64 = 20_000;
        for number in 0..COUNT {
            assert_eq!(tokens.insert(hash(number), token(number)), None);
            let earlier = number / 2;
            assert_eq!(tokens.get(hash(earlier)), Some(token(earlier)));
        }
        assert_eq!(tokens.len(), COUNT as usize);
        assert_eq!(tokens.insert(hash(7), token(8)), Some(token(7)));
        assert_eq!(tokens.insert(hash(7), token(7)), Some(token(8)));
        let full = tokens.memory();
        if !TINY {
            assert!(full < 40 * COUNT as usize, "{full} bytes");
        }
        for number in 0..COUNT {
            assert_eq!(tokens.get(hash(COUNT - 1)), Some(token(COUNT - 1)));
            if number < COUNT - 1 {
                assert_eq!(tokens.remove(hash(number)), Some(token(number)));
                assert_eq!(tokens.remove(hash(number)), None);
            }
        }
        assert_eq!((tokens.len(), tokens.parts.len()), (1, 1));
        assert!(tokens.memory() * 5 < full, "{} of {full} bytes", tokens.memory());
    }
}
