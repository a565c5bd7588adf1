//! Elements that come due in no known order: sorted part by part, when their time comes.
//!
//! A heap of all would wait for memory at every step: in a storm there are millions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{MS, Time};

/// The duration of a part.
const PART: Time = 64 * MS;

pub struct Later<Entry> {
    /// The later parts, unsorted.
    parts: BTreeMap<Time, Vec<Entry>>,
    /// The earliest part, sorted: everything before `until`.
    soon: BinaryHeap<Reverse<Entry>>,
    until: Time,
}

impl<Entry: Ord> Default for Later<Entry> {
    fn default() -> Self {
        Self { parts: BTreeMap::new(), soon: BinaryHeap::new(), until: 0 }
    }
}

impl<Entry: Ord> Later<Entry> {
    pub fn push(&mut self, at: Time, entry: Entry) {
        if at < self.until {
            self.soon.push(Reverse(entry));
        } else {
            self.parts.entry(at / PART).or_default().push(entry);
        }
    }

    /// Returns the earliest wanted entry. Drops unwanted ones before it.
    pub fn first(&mut self, is_wanted: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        loop {
            while self.soon.peek().is_some_and(|Reverse(entry)| !is_wanted(entry)) {
                self.soon.pop();
            }
            if !self.soon.is_empty() {
                return self.soon.peek().map(|Reverse(entry)| entry);
            }
            let (part, entries) = self.parts.pop_first()?;
            self.until = (part + 1) * PART;
            self.soon.extend(entries.into_iter().map(Reverse));
        }
    }

    pub fn pop(&mut self) -> Option<Entry> {
        self.soon.pop().map(|Reverse(entry)| entry)
    }
}
