//! From which moment lateness counts.
//!
//! That is when an element could first have been given out, as whoever asks has it; but not before this server could give
//! anything out at all: it had to load, or was a replica. And a wall clock that is set forward makes nothing late: what was
//! due before is as late as it was, and what came due by the step is due since the step.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock;

/// A wall clock that has moved by so much more or less than the monotonic clock since it was last looked has stepped. In
/// microseconds.
const STEP_US: u64 = 20_000;
/// Steps that are remembered. With one more, nothing is late that was due before the first of them.
const STEPS_MAX: usize = 8;

/// A step of the wall clock to a later time. In microseconds.
#[derive(Clone, Copy)]
struct Step {
    /// What time it was then.
    to: u64,
    by: u64,
}

impl Step {
    /// Returns when a moment of before the step would have been by the clock that it is now.
    fn shifted(self, us: u64) -> u64 {
        if us >= self.to { us } else { us.saturating_add(self.by).min(self.to) }
    }
}

/// The steps that are remembered, in order.
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

    /// Adds one. Returns the first, if there were too many.
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

    /// Takes steps back, the last ones first.
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

// What every element that is given out asks for. It is the server's main thread's alone, so nothing is ordered or locked; a
// thread's own would cost more to find than to read.
/// Nothing could be given out before, in microseconds since the epoch.
static EARLIEST_US: AtomicU64 = AtomicU64::new(0);
/// What time it was when that was last asked, by the wall clock.
static LAST_US: AtomicU64 = AtomicU64::new(0);
/// Whether any steps are remembered.
static HAS_STEPS: AtomicBool = AtomicBool::new(false);

thread_local! {
    // Commands, timers, ticks and INFO run on the server's main thread alone.
    /// How far the wall clock is ahead of the monotonic clock, in microseconds, once that was looked at.
    static AHEAD_US: Cell<Option<u64>> = const { Cell::new(None) };
    static STEPS: Cell<Steps> = const { Cell::new(Steps::NONE) };
}

/// Says that nothing could be given out until now: the server has loaded, or has become a primary.
pub fn begin() {
    EARLIEST_US.store(clock::now_us(), Ordering::Relaxed);
    AHEAD_US.set(None);
    set_steps(Steps::NONE);
    look_at_clock();
}

/// Looks whether the wall clock has stepped since this was last asked.
#[inline(never)]
pub fn look_at_clock() {
    let now_us = clock::now_us();
    let ahead_us = now_us.wrapping_sub(clock::monotonic_us());
    let earliest_us = EARLIEST_US.load(Ordering::Relaxed);
    let set_earliest = |us| EARLIEST_US.store(us, Ordering::Relaxed);
    let Some(before) = AHEAD_US.replace(Some(ahead_us)) else {
        // It is the first look. What is overdue was so before the module could give it out.
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

/// Returns for how long something has been overdue at a time that could first have been given out at that moment, both in
/// microseconds since the epoch.
#[inline]
pub fn late_us(since_us: u64, now_us: u64) -> u64 {
    // The clock may have stepped since the last tick. Then it has gone on by as much since somebody asked.
    if now_us.abs_diff(LAST_US.load(Ordering::Relaxed)) > STEP_US {
        look_at_clock();
    }
    LAST_US.store(now_us, Ordering::Relaxed);
    let since_us = if HAS_STEPS.load(Ordering::Relaxed) { shifted(since_us) } else { since_us };
    now_us.saturating_sub(since_us.max(EARLIEST_US.load(Ordering::Relaxed)))
}

/// Returns when a moment of the past would have been by the clock that it is now.
#[cold]
fn shifted(us: u64) -> u64 {
    STEPS.get().all().iter().fold(us, |us, step| step.shifted(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_due_before_a_step_is_as_late_as_it_was_and_what_came_due_by_it_is_not_late() {
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
    fn a_step_back_takes_steps_back() {
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
