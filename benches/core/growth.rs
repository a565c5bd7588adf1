//! The slowest single start while a store grows to its full size.
//!
//! It runs twice in one process. The first time, every page is new and causes a page fault, which takes the kernel, and
//! a hypervisor below it, some time. The second time, the allocator has kept the pages, and the remaining cost is the
//! store's own.

use crate::load::{PAYLOAD, Ttls, id};
use crate::stopwatch::Stopwatch;
use crate::store::Store;

/// A start that takes more nanoseconds counts as slow.
const SLOW: i64 = 500_000;

fn grow<S: Store>(timers: usize, ttls: Ttls) -> ((i64, usize), usize) {
    let mut store = S::new(0);
    let mut slowest = (0, 0);
    let mut slow = 0;
    let mut stopwatch = Stopwatch::start();
    for element in 0..timers {
        store.start(&id(element), &PAYLOAD, ttls.of(element), 0);
        let ns = stopwatch.lap();
        slowest = slowest.max((ns, element));
        slow += usize::from(ns > SLOW);
    }
    (slowest, slow)
}

pub fn run<S: Store>(timers: usize, ttls: usize, say: &mut dyn FnMut(&str, f64)) {
    let ttls = Ttls::new(ttls);
    for memory in ["fresh", "known"] {
        let ((ns, element), slow) = grow::<S>(timers, ttls);
        say(&format!("{memory}: slowest start"), ns as f64 / 1e6);
        say(&format!("{memory}: at element"), element as f64);
        say(&format!("{memory}: slow starts"), slow as f64);
    }
}
