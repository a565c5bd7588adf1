//! Time that the bench's own thread has spent on a processor: what others do on the machine meanwhile
//! is left out, what they do to the caches is not.

use rustix::time::{ClockId, clock_gettime};

/// A stopwatch that runs while this thread does. Reading it takes some hundred nanoseconds.
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

    /// Nanoseconds since it was started.
    pub fn ns(self) -> f64 {
        (thread_ns() - self.0) as f64
    }

    /// Nanoseconds since it was started, or since the last lap.
    pub fn lap(&mut self) -> i64 {
        let before = std::mem::replace(&mut self.0, thread_ns());
        self.0 - before
    }
}
