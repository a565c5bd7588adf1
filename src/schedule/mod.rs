//! Schedules: when they occur, and what is known of each. See EVERY.
//!
//! | module | contents |
//! |---|---|
//! | this file | a schedule: what EVERY says, and what has happened since |
//! | `plan` | a plan: an interval or a cron, its occurrences, and the hash for their jitter |
//! | `zones` | time zones: the system's, or the bundled ones |
//! | `record` | a schedule as bytes: in memory, in files and in effects |
//! | `step` | what becomes of occurrences that are due |
//!
//! A *moment* is that of an occurrence, in milliseconds since the epoch. Its element has the id `name@moment`, and is stored at
//! the moment or, with JITTER, up to that much later. The schedules of a key are a lawn of their own, [`lawn::Aside`].

mod plan;
mod record;
mod step;
mod zones;

pub use plan::Plan;
pub use step::Step;
pub use zones::{is_of_system, version};

use lawn::DEADLINE_MAX;
use plan::hash;

/// The greatest length of a name, in bytes.
pub const NAME_MAX: usize = 1024;
/// The greatest length of a plan and of a zone's name, in bytes.
pub const WORD_MAX: usize = 255;
/// The time at which a schedule is visited that does not occur.
const NEVER: u64 = DEADLINE_MAX;

/// The rule for occurrences that were missed: because no primary was there, or because the key was full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Missed {
    /// The last one is stored.
    #[default]
    One,
    /// Each is stored.
    All,
    /// None is stored that is over a minute late.
    None,
}

impl Missed {
    /// Returns the word of the option.
    pub fn name(self) -> &'static [u8] {
        match self {
            Self::One => b"ONE",
            Self::All => b"ALL",
            Self::None => b"NONE",
        }
    }
}

/// An event of a schedule. Moments are in milliseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// The next occurrence. 0: there is none.
    pub next: u64,
    /// The last occurrence that was stored. 0: there is none.
    pub last: u64,
    /// By how much that was late, in milliseconds.
    pub late: u64,
    /// The number of occurrences that were missed.
    pub missed: u64,
    /// The number of occurrences that were stored.
    pub stored: u64,
    pub is_paused: bool,
}

/// A schedule. An option that is not set is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule<'a> {
    pub plan: Plan<'a>,
    pub element: &'a [u8],
    /// The group of its elements. Empty: they are in none.
    pub group: &'a [u8],
    /// The first moment at which it may occur.
    pub from: u64,
    /// The last moment at which it may occur.
    pub until: u64,
    /// The most occurrences that are stored.
    pub times: u64,
    /// The longest time by which an element is stored later than its moment, in milliseconds.
    pub jitter: u64,
    /// For how long an element may be given out, in milliseconds.
    pub within: u64,
    /// How often an element may be given out.
    pub deliveries: u16,
    pub missed: Missed,
    /// Set if nothing is stored while the last element is still there.
    pub skips_overlap: bool,
    pub state: State,
}

impl<'a> Schedule<'a> {
    /// Returns a schedule without options, of which nothing has happened yet.
    pub fn every(plan: Plan<'a>, element: &'a [u8]) -> Self {
        Self {
            plan,
            element,
            group: b"",
            from: 0,
            until: 0,
            times: 0,
            jitter: 0,
            within: 0,
            deliveries: 0,
            missed: Missed::One,
            skips_overlap: false,
            state: State::default(),
        }
    }

    /// Returns when the occurrence at a moment is stored.
    pub fn stored_at(&self, name: &[u8], moment: u64) -> u64 {
        let later = match self.jitter {
            0 => 0,
            jitter => hash(name, moment) % (jitter + 1),
        };
        moment.saturating_add(later).min(NEVER - 1)
    }

    /// Returns when the schedule is visited next.
    pub fn due(&self, name: &[u8]) -> u64 {
        match self.state.next {
            0 => NEVER,
            _ if self.state.is_paused => NEVER,
            next => self.stored_at(name, next),
        }
    }

    /// Returns the first occurrence of a new schedule, at `now` or later. 0: it never occurs.
    pub fn first(&self, now: u64) -> u64 {
        let start = match self.plan {
            Plan::Interval(ms) if self.from == 0 => now.saturating_add(ms),
            Plan::Interval(ms) => {
                let passed = now.saturating_sub(self.from).div_ceil(ms);
                self.from.saturating_add(passed.saturating_mul(ms))
            }
            Plan::Cron { .. } => {
                self.plan.after(now.max(self.from).saturating_sub(1), now).unwrap_or(NEVER)
            }
        };
        self.unless_over(start)
    }

    /// Returns the occurrence after another one. 0: there is none.
    pub fn after(&self, moment: u64, now: u64) -> u64 {
        self.unless_over(self.plan.after(moment, now).unwrap_or(NEVER))
    }

    /// Returns the first occurrence after `now`, of a schedule that goes on after a pause. 0: there is none.
    pub fn resumed(&self, now: u64) -> u64 {
        match (self.state.next, self.plan) {
            (next, _) if next == 0 || next > now => next,
            (next, Plan::Interval(ms)) => {
                self.unless_over(next.saturating_add(((now - next) / ms + 1).saturating_mul(ms)))
            }
            (_, Plan::Cron { .. }) => self.after(now, now),
        }
    }

    /// Returns whether this schedule occurs when another one does.
    pub fn occurs_as(&self, other: &Schedule<'_>) -> bool {
        self.plan == other.plan && self.from == other.from
    }

    /// Returns a moment, or 0 if it is after the end.
    pub fn unless_over(&self, moment: u64) -> u64 {
        let last = if self.until == 0 { NEVER - 1 } else { self.until.min(NEVER - 1) };
        if moment > last { 0 } else { moment }
    }
}

pub fn id(name: &[u8], moment: u64) -> Vec<u8> {
    [name, b"@", moment.to_string().as_bytes()].concat()
}

#[cfg(test)]
mod tests;
