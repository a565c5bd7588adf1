//! Consecutive deliveries that failed, and the wait before the next try.

use crate::clock;

/// The wait after a first failure. It doubles with each further one.
pub const BACK_OFF_US: u64 = 100_000;
/// The longest wait: a repair is noticed no later than this.
const BACK_OFF_MAX_US: u64 = 10_000_000;

/// Consecutive deliveries that failed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failure {
    /// How many there were.
    pub count: u32,
    /// When the first one failed, in milliseconds since the epoch.
    pub since: u64,
    /// Why the last one failed.
    pub reason: String,
    /// When the next one is tried, on the monotonic clock, in microseconds.
    pub(super) retry_us: u64,
}

impl Failure {
    /// Returns the wait after one more failure, in microseconds.
    fn back_off_us(&self) -> u64 {
        BACK_OFF_US.saturating_mul(1 << self.count.min(16)).min(BACK_OFF_MAX_US)
    }

    /// Counts one more failure. Returns the wait before the next try, in microseconds.
    pub(super) fn count_one(&mut self, reason: &str) -> u64 {
        let (wait_us, now_us) = (self.back_off_us(), clock::monotonic_us());
        if self.count == 0 {
            self.since = clock::now();
        }
        self.count = self.count.saturating_add(1);
        reason.clone_into(&mut self.reason);
        self.retry_us = now_us + wait_us;
        wait_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_ten_seconds() {
        let wait = |count| Failure { count, ..Failure::default() }.back_off_us();
        assert_eq!([0, 1, 2, 6].map(wait), [100_000, 200_000, 400_000, 6_400_000]);
        assert_eq!([7, 17, u32::MAX].map(wait), [10_000_000; 3]);
    }
}
