//! Scheme 4 of Varghese and Lauck with an overflow list: what a simple wheel does about TTLs beyond its
//! reach.
//!
//! They describe it where they write about simulations (section 4.2): an array of lists "with a single
//! overflow list" of timers beyond its range. When the pointer into the array comes round, "the overflow
//! list is checked", and what is due within the turn that begins moves into the array. This, or a wheel
//! built anew with more slots, is what the Lawn paper calls *overflow*: the line of its last table in
//! which a wheel costs O(n) and a Lawn does not.
//!
//! A simulation's array holds the turn under way and nothing else, so that late in a turn nearly
//! everything overflows. This one is scheme 4's, whose slots serve the next turn as soon as they have
//! served this one (section 5): only what is beyond the wheel's reach when it is filed goes into the
//! list. For such timers section 5 names scheme 2, an ordered list, as well: no turn would look through
//! all of it, but each start would.

use crate::lists::Lists;
use crate::named::Scheme;
use crate::stores::wheel::SIMPLE;

/// The list behind those of the slots, in no order.
const OVERFLOW: u32 = SIMPLE as u32;

pub struct OverflowWheel {
    now: u64,
}

impl OverflowWheel {
    /// Puts a timer into its slot, or into the overflow list.
    fn place<T>(&self, lists: &mut Lists<(), T>, node: u32) {
        let deadline = lists.get(node).deadline;
        let within = deadline - self.now < SIMPLE;
        lists.push_back(if within { (deadline % SIMPLE) as u32 } else { OVERFLOW }, node);
    }

    /// Looks through the whole overflow list and moves what is due within the turn that begins. Nothing
    /// in it is due earlier: whatever was filed in the turn that has ended was out of that one's reach.
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
