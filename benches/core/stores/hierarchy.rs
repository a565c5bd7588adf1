//! Scheme 7 of Varghese and Lauck: a hierarchy of wheels, as the article on Ratas describes it.
//!
//! Not Ratas itself, which is C++, but the same structure, after its author's description. Eight wheels of 256 slots,
//! without bitmaps of used slots or counts of rounds; each timer is in the innermost wheel that reaches it. When a
//! wheel completes a turn, the next slot of the outer wheel is emptied into the inner ones.

use crate::lists::Lists;
use crate::named::Scheme;

const BITS: u32 = 8;
const SLOTS: u64 = 1 << BITS;
const WHEELS: u32 = 8;

pub struct Hierarchy {
    now: u64,
}

impl Hierarchy {
    /// Inserts a timer into the slot for its distance.
    fn place<T>(&self, lists: &mut Lists<(), T>, node: u32) {
        let deadline = lists.get(node).deadline;
        // The wheel is the highest digit in which the deadline differs from now.
        let differs = (deadline ^ self.now) | 1;
        let wheel = differs.ilog2() / BITS;
        let slot = deadline >> (wheel * BITS) & (SLOTS - 1);
        lists.push_back(wheel * SLOTS as u32 + slot as u32, node);
    }

    /// Runs one tick; outer wheels that complete a turn are emptied inwards.
    fn advance<T>(&mut self, lists: &mut Lists<(), T>) {
        self.now += 1;
        let turned = (self.now.trailing_zeros() / BITS).min(WHEELS - 1);
        for wheel in (1..=turned).rev() {
            let slot = self.now >> (wheel * BITS) & (SLOTS - 1);
            let list = wheel * SLOTS as u32 + slot as u32;
            while let Some(node) = lists.first(list) {
                lists.unlink(node);
                self.place(lists, node);
            }
        }
    }

    /// Returns the ticks until something may be due, at most `limit`. It checks the slots ahead on the innermost wheel
    /// one by one, and counts the end of its turn as well.
    pub fn ticks_to_next<T>(&self, lists: &Lists<(), T>, limit: u64) -> u64 {
        let to_end = SLOTS - self.now % SLOTS;
        let ahead = limit.min(to_end);
        let occupied = |ticks: &u64| lists.first(((self.now + ticks) % SLOTS) as u32).is_some();
        (1..ahead).find(occupied).unwrap_or(ahead)
    }
}

impl Scheme for Hierarchy {
    const NAME: &'static str = "hierarchy";
    const LABEL: &'static str = "7 hierarchical wheel, as Ratas describes it";
    const LISTS: usize = (WHEELS as u64 * SLOTS) as usize;
    type Extra = ();

    fn new(now: u64) -> Self {
        Self { now }
    }

    fn file<T>(&mut self, lists: &mut Lists<(), T>, node: u32, _ttl: u64) {
        self.place(lists, node);
    }

    fn pop<T>(&mut self, lists: &mut Lists<(), T>, now: u64) -> Option<u32> {
        loop {
            if let Some(node) = lists.first((self.now % SLOTS) as u32) {
                lists.unlink(node);
                return Some(node);
            }
            if self.now >= now {
                return None;
            }
            self.advance(lists);
        }
    }
}
