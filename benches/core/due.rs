//! When elements come due: after one of a few TTLs, after one of many, or at a moment of their own.

use crate::load::{PAYLOAD, TTL_MIN, Ttls, id, mix};
use crate::store::Store;

/// How far apart deadlines without TTLs are at the most: ten hours.
const SPAN: u64 = 36_000_000;
/// Milliseconds from one look to the next while everything expires.
const STEP: u64 = 10;

/// What the elements of a load have for TTLs and deadlines. A number of TTLs stands for it on the command line and in
/// [`Measure`](crate::Measure): 0 is [`Due::At`].
#[derive(Clone, Copy)]
pub enum Due {
    /// One of so many TTLs.
    After(Ttls),
    /// Any millisecond of ten hours, which the caller names, as by `AT`, and no TTL.
    At,
}

/// Returns a deadline at random.
fn deadline(element: usize, change: u64) -> u64 {
    TTL_MIN + mix(mix(element as u64) ^ change) % SPAN
}

impl Due {
    pub fn new(ttls: usize) -> Self {
        if ttls == 0 { Self::At } else { Self::After(Ttls::new(ttls)) }
    }

    /// Puts an element away.
    pub fn start<S: Store>(self, store: &mut S, element: usize, now: u64) {
        match self {
            Self::After(ttls) => store.start(&id(element), &PAYLOAD, ttls.of(element), now),
            Self::At => store.start_at(&id(element), &PAYLOAD, deadline(element, 0), now),
        }
    }

    /// Gives an element the same timer again: its TTL from now on, or its deadline.
    pub fn touch<S: Store>(self, store: &mut S, element: usize, now: u64) -> bool {
        match self {
            Self::After(ttls) => store.restart(&id(element), ttls.of(element), now),
            Self::At => store.restart_at(&id(element), deadline(element, 0), now),
        }
    }

    /// Gives an element another TTL, or another deadline.
    pub fn restart<S: Store>(self, store: &mut S, element: usize, now: u64) -> bool {
        match self {
            Self::After(ttls) => store.restart(&id(element), ttls.other(element), now),
            Self::At => store.restart_at(&id(element), deadline(element, 1), now),
        }
    }

    /// Returns the length of the longest timer.
    pub fn longest(self) -> u64 {
        match self {
            Self::After(ttls) => ttls.longest(),
            Self::At => TTL_MIN + SPAN - 1,
        }
    }

    /// Returns how many milliseconds are from one look to the next while so many expire. Where deadlines lie far apart
    /// as many as have ten elements come due, as in a load in which each of a million has its own TTL.
    pub fn step(self, count: usize) -> u64 {
        match self {
            Self::After(_) => STEP,
            Self::At => (SPAN * 10 / count as u64).max(STEP),
        }
    }
}
