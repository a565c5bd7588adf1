//! A steady state: a tick each millisecond, and each timer that fires starts again.
//!
//! TTLs are spread evenly below 1,000 seconds, so a million timers make two per tick for any number of TTLs. The cost
//! of the tick itself is part of the figure. The store is filled as if it had run forever: waiting timers have longer
//! TTLs than started ones, in proportion, and are at a random point within them.

use crate::load::{Dice, PAYLOAD, id};
use crate::stopwatch::Stopwatch;
use crate::store::Store;

const LONGEST: u64 = 1_000_000;
const TICKS: u64 = 25_000;
/// Nanoseconds after which the bench gives up on a store that has not done its ticks.
const PATIENCE: f64 = 5e8;

pub fn run<S: Store>(timers: usize, ttls: usize, say: &mut dyn FnMut(&str, f64)) {
    if LONGEST > S::MAX_TTL {
        return;
    }
    let mut dice = Dice::new(7);
    let step = LONGEST / ttls as u64;
    let mut starts: Vec<(u64, u64)> = (0..timers)
        .map(|_| {
            let long = (dice.below(1 << 52) as f64 / (1_u64 << 52) as f64).sqrt();
            let ttl = (1 + (long * ttls as f64) as u64).min(ttls as u64) * step;
            (LONGEST - dice.below(ttl), ttl)
        })
        .collect();
    starts.sort_unstable();

    let mut store = S::new(0);
    for (element, (now, ttl)) in starts.into_iter().enumerate() {
        store.expire(now, &mut |_, _| panic!("an element is early"));
        store.start(&id(element), &PAYLOAD, ttl, now);
    }
    store.expire(LONGEST, &mut |_, _| panic!("an element is early"));

    let mut fired = 0;
    let stopwatch = Stopwatch::start();
    let mut now = LONGEST;
    while now < LONGEST + TICKS {
        now += 1;
        fired += store.rearm(now, &mut || (1 + dice.below(ttls as u64)) * step);
        if now.is_multiple_of(16) && stopwatch.ns() > PATIENCE {
            break;
        }
    }
    say("fire", stopwatch.ns() / fired.max(1) as f64);
    say("fired a tick", fired as f64 / (now - LONGEST) as f64);
}
