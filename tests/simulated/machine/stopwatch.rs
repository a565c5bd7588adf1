//! Measures the time of the processor that a pass takes: other processes may have the processor meanwhile.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a pass may take that is not looked at, and how old the last look at the processor's time may be when one begins:
/// each look is a call of the system, which takes as long as a short pass.
const SHORT: Duration = Duration::from_millis(10);

thread_local! {
    /// When the processor's time was looked at last, and what it was.
    static LAST: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
}

pub struct Stopwatch {
    began: Instant,
    /// The processor's time then, or up to [`SHORT`] before.
    before_ns: u64,
    is_exact: bool,
}

impl Stopwatch {
    /// `is_exact`: looks at the processor's time whenever it starts and stops.
    pub fn start(is_exact: bool) -> Self {
        let began = Instant::now();
        if is_exact {
            return Self { began, before_ns: processor_ns(), is_exact };
        }
        let known = LAST.get().filter(|(at, _)| began.duration_since(*at) < SHORT);
        let (_, before_ns) = known.unwrap_or_else(|| (began, processor_ns()));
        if known.is_none() {
            LAST.set(Some((began, before_ns)));
        }
        Self { began, before_ns, is_exact }
    }

    /// Returns how long it took, in nanoseconds: of the processor, and up to [`SHORT`] too much, unless it took less than that.
    pub fn ns(&self) -> u64 {
        let took = self.began.elapsed();
        if took < SHORT && !self.is_exact {
            took.as_nanos() as u64
        } else {
            processor_ns().saturating_sub(self.before_ns)
        }
    }
}

/// Returns the time of the processor that this thread has taken, in nanoseconds.
fn processor_ns() -> u64 {
    let mut spent = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut spent) };
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}
