//! Event counters since the module was loaded, or since CONFIG RESETSTAT.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::server::info;

/// A number. Only the server's main thread changes it, so `Relaxed` suffices; a thread-local would cost more to find than to
/// change.
pub struct Counter(AtomicU64);

impl Counter {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.get() + more, Ordering::Relaxed);
    }

    pub(super) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// Elements stored.
pub static PUSHES: Counter = Counter::new();
/// Elements taken by id.
pub static PULLS: Counter = Counter::new();
/// Due elements given to clients.
pub static POLLS: Counter = Counter::new();
/// The part of [`POLLS`] that had been leased before.
pub static REDELIVERIES: Counter = Counter::new();
/// Elements delivered by a policy.
pub static DELIVERIES: Counter = Counter::new();
/// Elements moved as dead letters, after too many leases.
pub static DEAD_LETTERS: Counter = Counter::new();
/// Elements that were too late to be given out, and so were moved as dead letters or dropped.
pub static EXPIRED: Counter = Counter::new();
/// Failed deliveries to be retried.
pub static RETRIES: Counter = Counter::new();
/// Elements stored by schedules.
pub static OCCURRENCES: Counter = Counter::new();
/// Occurrences of schedules that were missed.
pub static MISSED: Counter = Counter::new();

thread_local! {
    /// The server's counts at the last [`reset_with_server`].
    static SERVER_COUNTS: Cell<[u64; 4]> = const { Cell::new([0; 4]) };
    /// The sum of the counters then.
    static SUM: Cell<u64> = const { Cell::new(0) };
}

const ALL: [&Counter; 10] = [
    &PUSHES,
    &PULLS,
    &POLLS,
    &REDELIVERIES,
    &DELIVERIES,
    &DEAD_LETTERS,
    &EXPIRED,
    &RETRIES,
    &OCCURRENCES,
    &MISSED,
];

fn sum() -> u64 {
    ALL.map(Counter::get).iter().sum()
}

/// Returns whether a counter has changed since the last [`reset_with_server`].
pub fn have_changed() -> bool {
    sum() != SUM.get()
}

/// Resets the counters if CONFIG RESETSTAT has reset the server's. No event reports that; but one of the server's counts is
/// lower than before. Returns whether the counters were reset.
pub fn reset_with_server() -> bool {
    let counts = info::server_counts();
    let before = SERVER_COUNTS.replace(counts);
    let is_reset = counts.iter().zip(before).any(|(now, before)| *now < before);
    if is_reset {
        ALL.iter().for_each(|counter| counter.set(0));
    }
    SUM.set(sum());
    is_reset
}
