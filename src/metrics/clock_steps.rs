//! Steps of the wall clock, and the moment since which this server gives out elements: neither counts as lateness.
//!
//! Lateness does not count from before this server could give out anything, because it was loading or was a replica. And
//! setting the wall clock forward makes no element late: an element that was due before the step keeps its lateness, and an
//! element that became due by the step is due since the step. One forward step is remembered: after another one, elements
//! due before the first are late since the first.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;

/// The wall clock has stepped if it moved by this much more or less than the monotonic clock since the last [`detect`]. In
/// microseconds.
const STEP_US: u64 = 20_000;

/// The past as the wall clock shows it now. In microseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Past {
    /// This server gave out nothing before this moment.
    earliest_us: u64,
    /// The time after the last forward step, 0 if there is none.
    step_to_us: u64,
    /// The size of that step.
    step_by_us: u64,
}

impl Past {
    /// Converts a past moment to the clock after the last step, and to the earliest moment that counts.
    #[inline]
    fn shifted(self, us: u64) -> u64 {
        let is_after = us >= self.step_to_us;
        let us = if is_after { us } else { (us + self.step_by_us).min(self.step_to_us) };
        us.max(self.earliest_us)
    }

    /// Returns the past after a step of the clock by `by_us` to `now_us`.
    fn stepped(self, by_us: i64, now_us: u64) -> Self {
        let size_us = by_us.unsigned_abs();
        if by_us > 0 {
            let step = Self { earliest_us: 0, step_to_us: now_us, step_by_us: size_us };
            let earliest_us = step.shifted(self.earliest_us.max(self.step_to_us));
            return Self { earliest_us, ..step };
        }
        let earliest_us = self.earliest_us.min(now_us);
        // A backward step undoes a forward one.
        match self.step_by_us.checked_sub(size_us) {
            None | Some(0) => Self { earliest_us, ..Self::default() },
            Some(step_by_us) => {
                let step_to_us = self.step_to_us.saturating_sub(size_us);
                Self { earliest_us, step_to_us, step_by_us }
            }
        }
    }

    fn load() -> Self {
        let [earliest_us, step_to_us, step_by_us] = &PAST;
        Self {
            earliest_us: earliest_us.load(Ordering::Relaxed),
            step_to_us: step_to_us.load(Ordering::Relaxed),
            step_by_us: step_by_us.load(Ordering::Relaxed),
        }
    }

    fn store(self) {
        let all = [self.earliest_us, self.step_to_us, self.step_by_us];
        PAST.iter().zip(all).for_each(|(stored, us)| stored.store(us, Ordering::Relaxed));
    }
}

// Read for every element that is given out. Only the server's main thread accesses them, so `Relaxed` suffices; a thread-local
// would cost more to find than to read.
/// The fields of [`Past`].
static PAST: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// The time of the last [`late_us`], in microseconds since the epoch.
static LAST_US: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Commands, timers, ticks and INFO run on the server's main thread alone.
    /// The difference between wall clock and monotonic clock at the last [`detect`], in microseconds.
    static AHEAD_US: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Records that this server gives out elements from now on, because it has loaded or has become a primary.
pub fn begin_serving() {
    Past::default().store();
    AHEAD_US.set(None);
    detect();
}

/// Detects a step of the wall clock since the last call.
#[inline(never)]
pub fn detect() {
    let now_us = clock::now_us();
    let ahead_us = now_us.wrapping_sub(clock::monotonic_us());
    let Some(before) = AHEAD_US.replace(Some(ahead_us)) else {
        // The first call. Overdue elements became due before the module could give them out.
        return Past { earliest_us: now_us, ..Past::default() }.store();
    };
    let by_us = ahead_us.wrapping_sub(before).cast_signed();
    if by_us.unsigned_abs() > STEP_US {
        Past::load().stepped(by_us, now_us).store();
    }
}

/// Returns the lateness at `now_us` of an element that could have been given out since `since_us`, both in microseconds since
/// the epoch.
#[inline]
pub fn late_us(since_us: u64, now_us: u64) -> u64 {
    // The clock may have stepped since the last cron. Then it has moved by at least a step since the last call.
    if now_us.abs_diff(LAST_US.load(Ordering::Relaxed)) > STEP_US {
        detect();
    }
    LAST_US.store(now_us, Ordering::Relaxed);
    now_us.saturating_sub(Past::load().shifted(since_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(earliest_us: u64, step_to_us: u64, step_by_us: u64) -> Past {
        Past { earliest_us, step_to_us, step_by_us }
    }

    #[test]
    fn an_element_due_before_a_step_keeps_its_lateness_and_one_due_by_it_has_none() {
        // It was 400 when it became 1,000.
        let past = past(50, 0, 0).stepped(600, 1_000);
        for (moment, shown) in [(100, 700), (300, 900), (400, 1_000), (999, 1_000), (1_001, 1_001)]
        {
            assert_eq!(past.shifted(moment), shown, "{moment}");
        }
        assert_eq!(past.shifted(0), 650, "it gave out nothing before");
    }

    #[test]
    fn a_backward_step_undoes_a_forward_step() {
        let one = past(650, 1_000, 600);
        assert_eq!(one.stepped(-200, 900), past(650, 800, 400));
        assert_eq!(one.stepped(-600, 500), past(500, 0, 0));
        assert_eq!(one.stepped(-900, 200), past(200, 0, 0));
    }

    #[test]
    fn elements_due_before_the_last_step_but_one_are_late_since_then() {
        let two = past(650, 1_000, 600).stepped(50, 2_000);
        assert_eq!([0, 900, 1_500, 1_960].map(|us| two.shifted(us)), [1_050, 1_050, 1_550, 2_000]);
    }
}
