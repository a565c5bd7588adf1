//! Schemes 4 to 6 of Varghese and Lauck: one wheel. Scheme 7 is in `hierarchy.rs` and `quad_wheel.rs`; the overflow
//! list of scheme 4 is in `overflow_wheel.rs`.

use crate::lists::Lists;
use crate::named::Scheme;

/// Slots of the simple wheel: the longest TTL in milliseconds, a little over a minute.
pub const SIMPLE: u64 = 1 << 16;
/// Slots of the hashed wheels, a quarter of that: with a million timers, about sixty per slot.
const HASHED: u64 = 1 << 14;

/// Scheme 4: one slot per tick, up to a longest TTL.
pub struct Simple {
    now: u64,
}

impl Scheme for Simple {
    const NAME: &'static str = "simple-wheel";
    const LABEL: &'static str = "4 simple wheel of 65,536 ms";
    const MAX_TTL: u64 = SIMPLE - 1;
    const LISTS: usize = SIMPLE as usize;
    type Extra = ();

    fn new(now: u64) -> Self {
        Self { now }
    }

    fn file<T>(&mut self, lists: &mut Lists<(), T>, node: u32, ttl: u64) {
        assert!(ttl <= Self::MAX_TTL, "the wheel overflows");
        lists.push_back((lists.get(node).deadline % SIMPLE) as u32, node);
    }

    fn pop<T>(&mut self, lists: &mut Lists<(), T>, now: u64) -> Option<u32> {
        loop {
            if let Some(node) = lists.first((self.now % SIMPLE) as u32) {
                lists.unlink(node);
                return Some(node);
            }
            if self.now >= now {
                return None;
            }
            self.now += 1;
        }
    }
}

/// Scheme 5: deadlines share slots modulo the size of the wheel, and each slot is a sorted list.
pub struct HashedSorted {
    now: u64,
}

impl Scheme for HashedSorted {
    const NAME: &'static str = "hashed-sorted";
    const LABEL: &'static str = "5 hashed wheel, sorted lists";
    const LISTS: usize = HASHED as usize;
    type Extra = ();

    fn new(now: u64) -> Self {
        Self { now }
    }

    fn file<T>(&mut self, lists: &mut Lists<(), T>, node: u32, _ttl: u64) {
        lists.insert_sorted((lists.get(node).deadline % HASHED) as u32, node);
    }

    fn pop<T>(&mut self, lists: &mut Lists<(), T>, now: u64) -> Option<u32> {
        loop {
            let first = lists.first((self.now % HASHED) as u32);
            if let Some(node) = first.filter(|node| lists.get(*node).deadline <= self.now) {
                lists.unlink(node);
                return Some(node);
            }
            if self.now >= now {
                return None;
            }
            self.now += 1;
        }
    }
}

/// Scheme 6: like 5, with unsorted lists. A tick checks all timers of a slot.
///
/// The paper keeps a count of rounds with each timer. Comparing the deadline is equivalent, and writes nothing.
pub struct HashedUnsorted {
    cursor: Option<u32>,
    now: u64,
}

impl Scheme for HashedUnsorted {
    const NAME: &'static str = "hashed-unsorted";
    const LABEL: &'static str = "6 hashed wheel, unsorted lists";
    const LISTS: usize = HASHED as usize;
    type Extra = ();

    fn new(now: u64) -> Self {
        Self { cursor: None, now }
    }

    fn file<T>(&mut self, lists: &mut Lists<(), T>, node: u32, _ttl: u64) {
        lists.push_back((lists.get(node).deadline % HASHED) as u32, node);
    }

    fn pop<T>(&mut self, lists: &mut Lists<(), T>, now: u64) -> Option<u32> {
        loop {
            while let Some(node) = self.cursor {
                self.cursor = lists.next(node);
                if lists.get(node).deadline <= self.now {
                    lists.unlink(node);
                    return Some(node);
                }
            }
            if self.now >= now {
                return None;
            }
            self.now += 1;
            self.cursor = lists.first((self.now % HASHED) as u32);
        }
    }
}
