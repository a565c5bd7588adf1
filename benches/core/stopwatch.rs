//! The CPU time of the bench's own thread. It excludes other load on the machine, but not its effect on the caches.

use rustix::time::{ClockId, clock_gettime};

/// A stopwatch that runs while this thread does. Reading it takes about a hundred nanoseconds.
#[derive(Clone, Copy)]
pub struct Stopwatch(i64);

fn thread_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

impl Stopwatch {
    pub fn start() -> Self {
        Self(thread_ns())
    }

    /// Returns the nanoseconds since the start.
    pub fn ns(self) -> f64 {
        (thread_ns() - self.0) as f64
    }

    /// Returns the nanoseconds since the start or the last lap.
    pub fn lap(&mut self) -> i64 {
        let before = std::mem::replace(&mut self.0, thread_ns());
        self.0 - before
    }
}
