//! From which moment lateness counts.
//!
//! That is when an element could first have been given out, as whoever asks has it; but not before this server could give
//! anything out at all: it had to load, or was a replica. And a wall clock that is set forward makes nothing late: what was
//! due before is as late as it was, and what came due by the step is due since the step.

use std::cell::{Cell, RefCell};

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

thread_local! {
    // Commands, timers, ticks and INFO run on the server's main thread alone.
    /// Nothing could be given out before, in microseconds since the epoch.
    static EARLIEST_US: Cell<u64> = const { Cell::new(0) };
    /// How far the wall clock is ahead of the monotonic clock, in microseconds, once that was looked at.
    static AHEAD_US: Cell<Option<u64>> = const { Cell::new(None) };
    /// What time it was when that was last asked, by the wall clock.
    static LAST_US: Cell<u64> = const { Cell::new(0) };
    static STEPS: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

/// Says that nothing could be given out until now: the server has loaded, or has become a primary.
pub fn begin() {
    EARLIEST_US.set(clock::now_us());
    AHEAD_US.set(None);
    STEPS.take();
    look_at_clock();
}

/// Looks whether the wall clock has stepped since this was last asked.
pub fn look_at_clock() {
    let now_us = clock::now_us();
    let ahead_us = now_us.wrapping_sub(clock::monotonic_us());
    let Some(before) = AHEAD_US.replace(Some(ahead_us)) else {
        // It is the first look. What is overdue was so before the module could give it out.
        return EARLIEST_US.set(EARLIEST_US.get().max(now_us));
    };
    let by = ahead_us.wrapping_sub(before).cast_signed();
    if by.unsigned_abs() <= STEP_US {
        return;
    }
    STEPS.with_borrow_mut(|steps| {
        if by > 0 {
            EARLIEST_US.set(Step { to: now_us, by: by.unsigned_abs() }.shifted(EARLIEST_US.get()));
            steps.push(Step { to: now_us, by: by.unsigned_abs() });
            if steps.len() > STEPS_MAX {
                EARLIEST_US.set(EARLIEST_US.get().max(steps.remove(0).to));
            }
        } else {
            take_back(steps, by.unsigned_abs());
            EARLIEST_US.set(EARLIEST_US.get().min(now_us));
        }
    });
}

/// Takes steps back, the last ones first.
fn take_back(steps: &mut Vec<Step>, mut by: u64) {
    while let Some(last) = steps.last_mut().filter(|_| by > 0) {
        if last.by > by {
            last.by -= by;
            last.to = last.to.saturating_sub(by);
            return;
        }
        by -= last.by;
        steps.pop();
    }
}

/// Returns for how long something has been overdue at a time that could first have been given out at that moment, both in
/// microseconds since the epoch.
pub fn late_us(since_us: u64, now_us: u64) -> u64 {
    // The clock may have stepped since the last tick. Then it has gone on by as much since somebody asked.
    if now_us.abs_diff(LAST_US.replace(now_us)) > STEP_US {
        look_at_clock();
    }
    now_us.saturating_sub(shifted(since_us).max(EARLIEST_US.get()))
}

/// Returns when a moment of the past would have been by the clock that it is now.
fn shifted(us: u64) -> u64 {
    STEPS.with_borrow(|steps| steps.iter().fold(us, |us, step| step.shifted(us)))
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

    #[test]
    fn a_step_back_takes_steps_back() {
        let steps = || vec![Step { to: 1_000, by: 600 }, Step { to: 2_000, by: 50 }];
        for (by, left) in [(20, &[600, 30][..]), (50, &[600]), (150, &[500]), (700, &[])] {
            let mut steps = steps();
            take_back(&mut steps, by);
            assert_eq!(steps.iter().map(|step| step.by).collect::<Vec<_>>(), left, "{by}");
        }
    }
}
