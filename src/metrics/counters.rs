//! What the module has done since it was loaded, or since CONFIG RESETSTAT, for INFO.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::server::info;

/// A number that grows. The server's main thread alone counts, so nothing is ordered or locked; a thread's own would cost more
/// to find than to change.
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// Elements that were put away.
pub static PUSHES: Counter = Counter::new();
/// Elements that were taken by their ids.
pub static PULLS: Counter = Counter::new();
/// Elements that were given out because they were due.
pub static POLLS: Counter = Counter::new();
/// Those of them that had been given out under a lease before.
pub static REDELIVERIES: Counter = Counter::new();
/// Elements that were delivered without anybody asking.
pub static DELIVERIES: Counter = Counter::new();
/// Elements that had been given out too often, and went where dead letters go.
pub static DEAD_LETTERS: Counter = Counter::new();
/// Deliveries that failed, and are tried again.
pub static RETRIES: Counter = Counter::new();

thread_local! {
    /// As the server counted when it was last looked at.
    static SERVER_COUNTS: Cell<[u64; 4]> = const { Cell::new([0; 4]) };
}

/// Begins to count from nothing if the server has: it does not tell modules of CONFIG RESETSTAT, but one of its
/// own counts is less than it was then. Returns whether that is so.
pub fn reset_with_server() -> bool {
    let counts = info::server_counts();
    let before = SERVER_COUNTS.replace(counts);
    let is_reset = counts.iter().zip(before).any(|(now, before)| *now < before);
    if is_reset {
        for counter in
            [&PUSHES, &PULLS, &POLLS, &REDELIVERIES, &DELIVERIES, &DEAD_LETTERS, &RETRIES]
        {
            counter.set(0);
        }
    }
    is_reset
}

/// Counts some more.
#[inline]
pub fn count(counter: &Counter, more: u64) {
    counter.set(counter.get() + more);
}
