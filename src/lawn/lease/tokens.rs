//! A table of tokens by record, which grows and shrinks a little at a time.
//!
//! *Linear hashing*: the table is cut into small ones, by the lowest bits of the hash. When there is too much in them on
//! average, one of them is split in two, in turn, whichever it was that something was put into; when there is too
//! little, the last two are joined again. So nothing ever moves more than one of the small tables.

use std::sync::LazyLock;

use ahash::RandomState;
use hashbrown::HashTable;

use super::super::memory::{allotted, push_tight, rounded, shrink};
use super::super::store::Handle;
use super::super::tiny::TINY;
use super::token::Token;

/// Tokens in a part, on average, when another part is added.
const PART: usize = if TINY { 8 } else { 128 };

/// Hashes handles: drawn at random once a process. Who may choose what is leased chooses handles as well.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Tokens by record.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    parts: Vec<HashTable<(Handle, Token)>>,
    len: usize,
}

fn hash(record: Handle) -> u64 {
    HASHER.hash_one(Handle::to_bits(Some(record)))
}

/// Turns a hash round: within a part the lowest bits are all the same.
fn within(hash: u64) -> u64 {
    hash.rotate_left(32)
}

impl Tokens {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, record: Handle) -> Option<Token> {
        let hash = hash(record);
        let part = self.parts.get(self.part_of(hash))?;
        part.find(within(hash), |entry| entry.0 == record).map(|entry| entry.1)
    }

    /// Writes the token of a record, in the place of the one that it had.
    pub(super) fn insert(&mut self, record: Handle, token: Token) {
        if self.len >= self.parts.len() * PART {
            self.split();
        }
        let hash = hash(record);
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        if let Some(entry) = part.find_mut(within(hash), |entry| entry.0 == record) {
            entry.1 = token;
            return;
        }
        part.insert_unique(within(hash), (record, token), rehash);
        self.len += 1;
    }

    /// Takes the token of a record out.
    pub(super) fn remove(&mut self, record: Handle) -> Option<Token> {
        let hash = hash(record);
        let part = self.part_of(hash);
        let part = self.parts.get_mut(part)?;
        let entry = part.find_entry(within(hash), |entry| entry.0 == record).ok()?;
        let ((_, token), _) = entry.remove();
        self.len -= 1;
        if self.parts.len() > 1 && self.len < self.parts.len() * PART / 4 {
            self.join();
        }
        Some(token)
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, Token)> + '_ {
        self.parts.iter().flatten().copied()
    }

    /// Returns the bytes allocated, about. O(parts).
    pub(super) fn memory(&self) -> usize {
        let parts = self.parts.iter().map(|part| rounded(part.allocation_size()));
        parts.sum::<usize>() + allotted(&self.parts)
    }

    /// Returns how many allocations freeing it takes. O(1).
    pub(super) fn allocations(&self) -> usize {
        1 + self.parts.len()
    }

    fn part_of(&self, hash: u64) -> usize {
        let count = self.parts.len();
        let doubled = count.next_power_of_two();
        let part = hash as usize & (doubled - 1);
        if part < count { part } else { part - doubled / 2 }
    }

    /// Names the part that was cut in two when this one came, which is not the first.
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

    fn put_back(&mut self, entries: HashTable<(Handle, Token)>) {
        for entry in entries {
            let hash = hash(entry.0);
            let part = self.part_of(hash);
            self.parts[part].insert_unique(within(hash), entry, rehash);
        }
    }
}

fn rehash(entry: &(Handle, Token)) -> u64 {
    within(hash(entry.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_while_the_table_grows_and_shrinks() {
        let record = |number: u64| Handle::from_bits(number as u32 + 1).expect("not zero");
        let token = |number: u64| Token::drawn(number);
        let mut tokens = Tokens::default();
        assert_eq!(
            (tokens.get(record(7)), tokens.remove(record(7)), tokens.memory()),
            (None, None, 0)
        );
        const COUNT: u64 = 20_000;
        for number in 0..COUNT {
            tokens.insert(record(number), token(number));
            let earlier = number / 2;
            assert_eq!(tokens.get(record(earlier)), Some(token(earlier)));
        }
        assert_eq!(tokens.len(), COUNT as usize);
        tokens.insert(record(7), token(8));
        assert_eq!((tokens.get(record(7)), tokens.len()), (Some(token(8)), COUNT as usize));
        tokens.insert(record(7), token(7));
        assert_eq!(tokens.iter().count(), COUNT as usize);
        let full = tokens.memory();
        if !TINY {
            assert!(full < 40 * COUNT as usize, "{full} bytes");
        }
        for number in 0..COUNT {
            assert_eq!(tokens.get(record(COUNT - 1)), Some(token(COUNT - 1)));
            if number < COUNT - 1 {
                assert_eq!(tokens.remove(record(number)), Some(token(number)));
                assert_eq!(tokens.remove(record(number)), None);
            }
        }
        assert_eq!((tokens.len(), tokens.parts.len()), (1, 1));
        assert!(tokens.memory() * 5 < full, "{} of {full} bytes", tokens.memory());
    }
}
