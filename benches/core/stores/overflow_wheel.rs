//! Scheme 4 of Varghese and Lauck with an overflow list, the remedy of a simple wheel for TTLs beyond its range.
//!
//! They describe it for simulations (section 4.2): an array of lists "with a single overflow list" of timers beyond its
//! range. When the pointer into the array completes a turn, "the overflow list is checked", and timers that are due
//! within the next turn move into the array. This, or a wheel rebuilt with more slots, is what the Lawn paper calls
//! *overflow*: the line of its last table in which a wheel costs O(n) and a Lawn does not.
//!
//! The array of a simulation holds only the current turn, so that late in a turn nearly everything overflows. Here it
//! is scheme 4's, whose slots serve the next turn as soon as they have served this one (section 5): only timers beyond
//! the range of the wheel at their start go into the list. For such timers, section 5 also suggests scheme 2, an
//! ordered list: then no turn would scan all of it, but each start would.

use crate::lists::Lists;
use crate::named::Scheme;
use crate::stores::wheel::SIMPLE;

/// The overflow list, after the lists of the slots, unordered.
const OVERFLOW: u32 = SIMPLE as u32;

pub struct OverflowWheel {
    now: u64,
}

impl OverflowWheel {
    /// Inserts a timer into its slot, or into the overflow list.
    fn place<T>(&self, lists: &mut Lists<(), T>, node: u32) {
        let deadline = lists.get(node).deadline;
        let within = deadline - self.now < SIMPLE;
        lists.push_back(if within { (deadline % SIMPLE) as u32 } else { OVERFLOW }, node);
    }

    /// Scans the whole overflow list, and moves timers that are due within the next turn. None is due earlier:
    /// everything that was inserted in the previous turn was beyond its range.
    fn turn<T>(&mut self, lists: &mut Lists<(), T>) {
        let mut next = lists.first(OVERFLOW);
        while let Some(node) = next {
            next = lists.next(node);
            if lists.get(node).deadline - self.now < SIMPLE {
                lists.unlink(node);
                self.place(lists, node);
            }
        }
    }
}

impl Scheme for OverflowWheel {
    const NAME: &'static str = "overflow-wheel";
    const LABEL: &'static str = "4 simple wheel of 65,536 ms and an overflow list";
    const LISTS: usize = SIMPLE as usize + 1;
    type Extra = ();

    fn new(now: u64) -> Self {
        Self { now }
    }

    fn file<T>(&mut self, lists: &mut Lists<(), T>, node: u32, _ttl: u64) {
        self.place(lists, node);
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
            if self.now.is_multiple_of(SIMPLE) {
                self.turn(lists);
            }
        }
    }
}
