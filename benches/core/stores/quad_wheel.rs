//! Scheme 7 again, from crates.io: `hierarchical_hash_wheel_timer`, four wheels and an overflow.
//!
//! Its wheel cannot remove an entry before its time, and neither can its own cancellable variant, which keeps the
//! entries in a table and leaves a dangling reference in the wheel. So does this one, with a stamp per insertion, and
//! the same table of ids as all others.

use std::time::Duration;

use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::quad_wheel::{QuadWheelWithOverflow, no_prune};

use crate::lists::Lists;
use crate::named::Scheme;

pub struct QuadWheel {
    wheel: QuadWheelWithOverflow<(u32, u32)>,
    /// Elements that came due at `now` and are not taken yet, last first.
    due: Vec<(u32, u32)>,
    now: u64,
    stamp: u32,
}

impl Scheme for QuadWheel {
    const NAME: &'static str = "quad-wheel";
    const LABEL: &'static str = "7 hierarchical_hash_wheel_timer";
    type Extra = u32;

    fn new(now: u64) -> Self {
        let wheel = QuadWheelWithOverflow::new(no_prune);
        Self { wheel, due: Vec::new(), now, stamp: 0 }
    }

    fn file<T>(&mut self, lists: &mut Lists<u32, T>, node: u32, _ttl: u64) {
        self.stamp += 1;
        let entry = lists.get_mut(node);
        entry.extra = self.stamp;
        let delay = Duration::from_millis(entry.deadline - self.now);
        let filed = self.wheel.insert_with_delay((node, self.stamp), delay);
        assert!(filed.is_ok(), "the wheel does not take it");
    }

    fn unfile<T>(&mut self, lists: &mut Lists<u32, T>, node: u32) {
        lists.get_mut(node).extra = 0;
    }

    fn pop<T>(&mut self, lists: &mut Lists<u32, T>, now: u64) -> Option<u32> {
        loop {
            while let Some((node, stamp)) = self.due.pop() {
                if lists.get(node).extra == stamp {
                    return Some(node);
                }
            }
            if self.now >= now {
                return None;
            }
            let ahead = now - self.now - 1;
            let skip = match self.wheel.can_skip() {
                Skip::Empty => ahead,
                Skip::Millis(ticks) => ahead.min(ticks.into()),
                Skip::None => 0,
            };
            if skip > 0 {
                self.wheel.skip(skip as u32);
            }
            self.now += skip + 1;
            self.due = self.wheel.tick();
            self.due.reverse();
        }
    }
}
