//! What the module has done since it was loaded, for INFO.

use std::cell::Cell;

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
    /// Deliveries that failed, and are tried again.
    pub static RETRIES: Cell<u64> = const { Cell::new(0) };
}

/// Counts some more.
pub fn count(counter: &'static Counter, more: u64) {
    counter.set(counter.get() + more);
}
