//! What becomes of occurrences that are due.

use super::{Missed, Plan, Schedule};

/// The most occurrences that one step passes over: some hundred microseconds.
const PASSED_MAX: u64 = 128;
/// With MISSED NONE, an occurrence is stored that is at most so late, in milliseconds.
const MOST_LATE: u64 = 60_000;

/// The next event of a schedule. `next`: the occurrence after that, 0 if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// An element comes due at `deadline`, for the occurrence at `moment`. It is stored `late` milliseconds after its deadline.
    Stored { moment: u64, deadline: u64, late: u64, next: u64 },
    /// Some occurrences are missed.
    Missed { count: u64, next: u64 },
}

impl Schedule<'_> {
    /// Returns what happens at `now`, if the schedule is due. There may be more to do afterwards. `overlaps`: the element of the
    /// last occurrence is still there.
    pub fn step(&self, name: &[u8], now: u64, overlaps: bool) -> Option<Step> {
        if self.due(name) > now {
            return None;
        }
        let moment = self.state.next;
        if self.skips_overlap && overlaps {
            let (count, last) = self.pass(name, now, true);
            return Some(Step::Missed { count: count + 1, next: self.after(last, now) });
        }
        if self.missed != Missed::All {
            let (count, last) = self.pass(name, now, false);
            if count > 0 {
                return Some(Step::Missed { count, next: last });
            }
        }
        let deadline = self.stored_at(name, moment);
        let (late, next) = (now - deadline, self.after(moment, now));
        if self.missed == Missed::None && late > MOST_LATE && self.is_over(moment, now) {
            return Some(Step::Missed { count: 1, next });
        }
        let is_last = self.times > 0 && self.state.stored + 1 >= self.times;
        Some(Step::Stored { moment, deadline, late, next: if is_last { 0 } else { next } })
    }

    /// Returns whether the time of an occurrence is over: otherwise it has only waited for one before it, of a greater jitter.
    fn is_over(&self, moment: u64, now: u64) -> bool {
        moment.saturating_add(self.jitter) < now
    }

    /// Passes over occurrences behind which there is another that is due at `now`. Returns how many, and the one after them.
    fn pass(&self, name: &[u8], now: u64, overlaps: bool) -> (u64, u64) {
        let moment = self.state.next;
        let (mut count, mut last) = (0, moment);
        if let Plan::Interval(ms) = self.plan {
            // All of these are due, whatever their jitter.
            let end = now.saturating_sub(self.jitter);
            let end = if self.until > 0 { end.min(self.until) } else { end };
            count = end.saturating_sub(moment) / ms;
            last = moment + count * ms;
        }
        for _ in 0..PASSED_MAX {
            let next = self.after(last, now);
            let may_pass = overlaps || self.is_over(last, now);
            if next == 0 || !may_pass || self.stored_at(name, next) > now {
                break;
            }
            (count, last) = (count + 1, next);
        }
        (count, last)
    }

    /// Records what has happened.
    pub fn apply(&mut self, step: Step) {
        match step {
            Step::Stored { moment, late, next, .. } => {
                (self.state.last, self.state.late, self.state.next) = (moment, late, next);
                self.state.stored += 1;
            }
            Step::Missed { count, next } => {
                self.state.missed = self.state.missed.saturating_add(count);
                self.state.next = next;
            }
        }
    }
}
