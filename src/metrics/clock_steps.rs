//! Steps of the wall clock, and the moment since which this server gives out elements: neither counts as lateness.
//!
//! Lateness does not count from before this server could give out anything, because it was loading or was a replica. And
//! setting the wall clock forward makes no element late: an element that was due before the step keeps its lateness, and an
//! element that became due by the step is due since the step.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock;

/// The wall clock has stepped if it moved by this much more or less than the monotonic clock since the last [`detect`]. In
/// microseconds.
const STEP_US: u64 = 20_000;
/// Steps that are remembered. One more discards the first, and elements due before the first have no lateness then.
const STEPS_MAX: usize = 8;

/// A forward step of the wall clock. In microseconds.
#[derive(Clone, Copy)]
struct Step {
    /// The time after the step.
    to: u64,
    by: u64,
}

impl Step {
    /// Converts a moment before the step to the clock after it.
    fn shifted(self, us: u64) -> u64 {
        if us >= self.to { us } else { us.saturating_add(self.by).min(self.to) }
    }
}

/// The remembered steps, in order.
#[derive(Clone, Copy)]
struct Steps {
    steps: [Step; STEPS_MAX],
    count: usize,
}

impl Steps {
    const NONE: Self = Self { steps: [Step { to: 0, by: 0 }; STEPS_MAX], count: 0 };

    fn all(&self) -> &[Step] {
        &self.steps[..self.count]
    }

    /// Adds a step. If there were [`STEPS_MAX`], removes and returns the first.
    fn push(&mut self, step: Step) -> Option<Step> {
        let first = (self.count == STEPS_MAX).then(|| self.steps[0]);
        if first.is_some() {
            self.steps.rotate_left(1);
        } else {
            self.count += 1;
        }
        self.steps[self.count - 1] = step;
        first
    }

    /// Undoes steps, the last first, for a backward step by `by`.
    fn take_back(&mut self, mut by: u64) {
        while let Some(last) = self.steps[..self.count].last_mut().filter(|_| by > 0) {
            if last.by > by {
                last.by -= by;
                last.to = last.to.saturating_sub(by);
                return;
            }
            by -= last.by;
            self.count -= 1;
        }
    }
}

// Read for every element that is given out. Only the server's main thread accesses them, so `Relaxed` suffices; a thread-local
// would cost more to find than to read.
/// This server gave out nothing before this moment, in microseconds since the epoch.
static EARLIEST_US: AtomicU64 = AtomicU64::new(0);
/// The time of the last [`late_us`], in microseconds since the epoch.
static LAST_US: AtomicU64 = AtomicU64::new(0);
/// Whether any steps are remembered.
static HAS_STEPS: AtomicBool = AtomicBool::new(false);

thread_local! {
    // Commands, timers, ticks and INFO run on the server's main thread alone.
    /// The difference between wall clock and monotonic clock at the last [`detect`], in microseconds.
    static AHEAD_US: Cell<Option<u64>> = const { Cell::new(None) };
    static STEPS: Cell<Steps> = const { Cell::new(Steps::NONE) };
}

/// Records that this server gives out elements from now on, because it has loaded or has become a primary.
pub fn begin_serving() {
    EARLIEST_US.store(clock::now_us(), Ordering::Relaxed);
    AHEAD_US.set(None);
    set_steps(Steps::NONE);
    detect();
}

/// Detects a step of the wall clock since the last call.
#[inline(never)]
pub fn detect() {
    let now_us = clock::now_us();
    let ahead_us = now_us.wrapping_sub(clock::monotonic_us());
    let earliest_us = EARLIEST_US.load(Ordering::Relaxed);
    let set_earliest = |us| EARLIEST_US.store(us, Ordering::Relaxed);
    let Some(before) = AHEAD_US.replace(Some(ahead_us)) else {
        // The first call. Overdue elements became due before the module could give them out.
        return set_earliest(earliest_us.max(now_us));
    };
    let by = ahead_us.wrapping_sub(before).cast_signed();
    if by.unsigned_abs() <= STEP_US {
        return;
    }
    let mut steps = STEPS.get();
    if by > 0 {
        let step = Step { to: now_us, by: by.unsigned_abs() };
        let forgotten = steps.push(step).map_or(0, |first| first.to);
        set_earliest(step.shifted(earliest_us).max(forgotten));
    } else {
        steps.take_back(by.unsigned_abs());
        set_earliest(earliest_us.min(now_us));
    }
    set_steps(steps);
}

fn set_steps(steps: Steps) {
    HAS_STEPS.store(!steps.all().is_empty(), Ordering::Relaxed);
    STEPS.set(steps);
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
    let since_us = if HAS_STEPS.load(Ordering::Relaxed) { shifted(since_us) } else { since_us };
    now_us.saturating_sub(since_us.max(EARLIEST_US.load(Ordering::Relaxed)))
}

/// Converts a past moment to the current clock.
#[cold]
fn shifted(us: u64) -> u64 {
    STEPS.get().all().iter().fold(us, |us, step| step.shifted(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_due_before_a_step_keeps_its_lateness_and_one_due_by_it_has_none() {
        let step = Step { to: 1_000, by: 600 };
        // It was 400 when it became 1,000.
        for (moment, shown) in [(0, 600), (300, 900), (400, 1_000), (999, 1_000), (1_001, 1_001)] {
            assert_eq!(step.shifted(moment), shown, "{moment}");
        }
    }

    fn steps(all: &[Step]) -> Steps {
        all.iter().fold(Steps::NONE, |mut steps, step| {
            steps.push(*step);
            steps
        })
    }

    #[test]
    fn a_backward_step_undoes_steps() {
        let both = [Step { to: 1_000, by: 600 }, Step { to: 2_000, by: 50 }];
        for (by, left) in [(20, &[600, 30][..]), (50, &[600]), (150, &[500]), (700, &[])] {
            let mut steps = steps(&both);
            steps.take_back(by);
            assert_eq!(steps.all().iter().map(|step| step.by).collect::<Vec<_>>(), left, "{by}");
        }
    }

    #[test]
    fn with_one_step_too_many_the_first_is_forgotten() {
        let many: Vec<_> = (1..=8).map(|to| Step { to, by: 1 }).collect();
        let mut steps = steps(&many);
        assert_eq!(steps.all().len(), STEPS_MAX);
        assert_eq!(steps.push(Step { to: 9, by: 1 }).map(|first| first.to), Some(1));
        let left: Vec<_> = steps.all().iter().map(|step| step.to).collect();
        assert_eq!(left, (2..=9).collect::<Vec<_>>());
    }
}
