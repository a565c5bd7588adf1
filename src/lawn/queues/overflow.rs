//! What fits into no queue: elements with rare TTLs, and those far out of order.
//!
//! A queue for each TTL is cheap while TTLs repeat. With a TTL for each element, as the paper says
//! itself, they do not, and a queue for each would cost more memory than the element. A sorted set
//! would take such a load at O(log n); so does this: a B-tree by turn. It is as exact as the queues,
//! and its first turn is read like any queue's head.

use std::collections::BTreeMap;

use super::super::store::Handle;
use super::super::turn::Turn;

/// An element in the overflow: its TTL is written nowhere else.
#[derive(Clone, Copy)]
pub struct Entry {
    pub ttl: u64,
    pub handle: Handle,
}

/// Elements that are in no queue, by turn.
#[derive(Clone, Default)]
pub struct Overflow {
    entries: BTreeMap<Turn, Entry>,
}

impl Overflow {
    pub fn insert(&mut self, turn: Turn, ttl: u64, handle: Handle) {
        let before = self.entries.insert(turn, Entry { ttl, handle });
        debug_assert!(before.is_none(), "two elements have the turn {turn:?}");
    }

    pub fn remove(&mut self, turn: Turn) {
        self.entries.remove(&turn).expect("a record without a block is in the overflow");
    }

    pub fn first(&self) -> Option<(Turn, Handle)> {
        self.entries.first_key_value().map(|(turn, entry)| (*turn, entry.handle))
    }

    /// Returns the first entry.
    pub fn first_entry(&self) -> Option<(Turn, Entry)> {
        self.entries.first_key_value().map(|(turn, entry)| (*turn, *entry))
    }

    /// Returns whether anything is due at `now`.
    pub fn is_due(&self, now: u64) -> bool {
        self.entries.first_key_value().is_some_and(|(turn, _)| turn.deadline <= now)
    }

    /// Takes note that a record has moved, or was replaced by one with the same turn.
    pub fn replace(&mut self, turn: Turn, new: Handle) {
        self.entries.get_mut(&turn).expect("a record without a block is in the overflow").handle =
            new;
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns how many are due at `now`. O(due).
    pub fn count_due(&self, now: u64) -> usize {
        self.entries.keys().take_while(|turn| turn.deadline <= now).count()
    }

    pub fn iter(&self) -> std::collections::btree_map::Iter<'_, Turn, Entry> {
        self.entries.iter()
    }

    /// Shows the entries from a turn on.
    pub fn iter_from(&self, turn: Turn) -> std::collections::btree_map::Range<'_, Turn, Entry> {
        self.entries.range(turn..)
    }

    /// Returns the entry of that turn.
    pub fn get(&self, turn: Turn) -> Option<&Entry> {
        self.entries.get(&turn)
    }

    /// Returns the bytes allocated, about: the standard library's nodes hold up to eleven entries and are two
    /// thirds full under random insertion. O(1).
    pub fn memory(&self) -> usize {
        self.entries.len() * (size_of::<Turn>() + size_of::<Entry>() + 2) * 3 / 2
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub fn allocations(&self) -> usize {
        self.entries.len() / 7
    }
}
