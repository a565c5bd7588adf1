//! The deadlines of a load: a few TTLs, many TTLs, or absolute deadlines.

use crate::load::{PAYLOAD, TTL_MIN, Ttls, id, mix};
use crate::store::Store;

/// The range of absolute deadlines: ten hours.
const SPAN: u64 = 36_000_000;
/// Milliseconds between ticks while everything expires.
const STEP: u64 = 10;

/// The TTLs or deadlines of the elements of a load. On the command line and in [`Measure`](crate::Measure), a number of
/// TTLs stands for it: 0 is [`Due::At`].
#[derive(Clone, Copy)]
pub enum Due {
    /// One of this many TTLs.
    After(Ttls),
    /// A random millisecond within ten hours, as an absolute deadline, as with `AT`.
    At,
}

/// Returns a random deadline.
fn deadline(element: usize, change: u64) -> u64 {
    TTL_MIN + mix(mix(element as u64) ^ change) % SPAN
}

impl Due {
    pub fn new(ttls: usize) -> Self {
        if ttls == 0 { Self::At } else { Self::After(Ttls::new(ttls)) }
    }

    /// Starts an element.
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

    /// Returns the number of milliseconds between ticks while this many elements expire. If deadlines are far apart,
    /// ten elements come due per tick, as in a load where each of a million has its own TTL.
    pub fn step(self, count: usize) -> u64 {
        match self {
            Self::After(_) => STEP,
            Self::At => (SPAN * 10 / count as u64).max(STEP),
        }
    }
}
