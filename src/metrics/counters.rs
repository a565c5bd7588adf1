//! What the module has done since it was loaded, or since CONFIG RESETSTAT, for INFO.

use std::cell::Cell;

use crate::server::info;

/// A number that grows, on the server's main thread.
pub type Counter = std::thread::LocalKey<Cell<u64>>;

thread_local! {
    /// Elements that were put away.
    pub static PUSHES: Cell<u64> = const { Cell::new(0) };
    /// Elements that were taken by their ids.
    pub static PULLS: Cell<u64> = const { Cell::new(0) };
    /// Elements that were given out because they were due.
    pub static POLLS: Cell<u64> = const { Cell::new(0) };
    /// Those of them that had been given out under a lease before.
    pub static REDELIVERIES: Cell<u64> = const { Cell::new(0) };
    /// Elements that were delivered without anybody asking.
    pub static DELIVERIES: Cell<u64> = const { Cell::new(0) };
    /// Elements that had been given out too often, and went where dead letters go.
    pub static DEAD_LETTERS: Cell<u64> = const { Cell::new(0) };
    /// Deliveries that failed, and are tried again.
    pub static RETRIES: Cell<u64> = const { Cell::new(0) };
}

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
pub fn count(counter: &'static Counter, more: u64) {
    counter.set(counter.get() + more);
}
