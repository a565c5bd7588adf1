//! Limits, and the log of a limit of rate.
//!
//! What a window gives out counts for its length, and in long windows up to a thousandth longer. So there are two answers: what
//! is certainly forbidden, and what is certainly allowed.

/// What is set for a group, or for each. 0: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    pub share: u64,
    pub length: u64,
    pub held: u64,
    /// The number, and the window in milliseconds.
    pub rate: (u64, u64),
    /// When its pause ends.
    pub pause: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { share: 1, length: 0, held: 0, rate: (0, 0), pause: None }
    }
}

/// The limits of a whole dehydrator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    pub length: u64,
    pub held: u64,
    pub rate: (u64, u64),
    /// In milliseconds.
    pub remember: u64,
    pub log: Log,
}

impl Limits {
    pub fn is_any(&self) -> bool {
        self.length > 0 || self.held > 0 || self.rate.0 > 0 || self.remember > 0
    }
}

/// The moments at which elements were given out: those that certainly count, and those that may count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log {
    certain: Vec<u64>,
    possible: Vec<u64>,
    /// The module has seen that the clock was set back, to this moment: what seems to be later counts as of it.
    seen: Option<u64>,
}

impl Log {
    pub fn give(&mut self, (most, per): (u64, u64), now: u64) {
        if most == 0 {
            return;
        }
        let granule = per.div_ceil(1024).max(1);
        // What left the window long ago is forgotten.
        if self.certain.len() > 64 {
            self.certain.retain(|at| at + per > now);
            self.possible.retain(|at| at.saturating_add(per) > now);
        }
        // What is heard of now may have happened up to a millisecond ago.
        let [certain, possible] = [now.saturating_sub(1), now.next_multiple_of(granule)];
        self.certain.iter_mut().for_each(|at| *at = (*at).min(certain));
        self.possible.iter_mut().for_each(|at| *at = (*at).min(possible));
        self.seen = None;
        self.certain.push(certain);
        self.possible.push(possible);
    }

    /// Changes the limit. What has left the old window may be forgotten.
    pub fn change(&mut self, before: (u64, u64), after: (u64, u64), now: u64) {
        if after.0 == 0 {
            *self = Self::default();
            return;
        }
        self.certain.retain(|at| at + before.1 > now);
        let granule = after.1.div_ceil(1024).max(1);
        self.possible.iter_mut().for_each(|at| *at = at.next_multiple_of(granule));
    }

    /// Notes that the clock was set back from `before` to `now`: no element was given out later than that. What had left the
    /// window by then may count again, or not.
    pub fn set_back(&mut self, (_, per): (u64, u64), before: u64, now: u64) {
        self.certain.retain(|at| at.saturating_add(per) > before);
        self.certain.iter_mut().for_each(|at| *at = (*at).min(now));
    }

    /// Notes that the module looks at the log.
    pub fn look(&mut self, (most, per): (u64, u64), now: u64) {
        let now = now.next_multiple_of(per.div_ceil(1024).max(1));
        let is_ahead = self.possible.last().is_some_and(|at| *at > now);
        if most > 0 && is_ahead && self.seen.is_none_or(|seen| seen > now) {
            self.seen = Some(now);
        }
    }

    /// Notes that another server goes on, which has seen no step of the clock.
    pub fn load(&mut self) {
        self.seen = None;
    }

    /// Returns the moments that certainly count, and those that may, with a bound for each.
    fn moments(&self) -> [(&[u64], u64); 2] {
        [(&self.certain, u64::MAX), (&self.possible, self.seen.unwrap_or(u64::MAX))]
    }

    /// Returns from when on another one may go, at the earliest and at the latest.
    pub fn next(&self, (most, per): (u64, u64)) -> [u64; 2] {
        if most == 0 {
            return [0, 0];
        }
        self.moments().map(|(log, seen)| {
            let last = log.len().checked_sub(most as usize);
            last.map_or(0, |at| log[at].min(seen).saturating_add(per))
        })
    }

    /// Returns how many may go at `now`: at most, and at least.
    pub fn room(&self, (most, per): (u64, u64), now: u64) -> [u64; 2] {
        if most == 0 {
            return [u64::MAX; 2];
        }
        self.moments().map(|(log, seen)| {
            let counts = |at: &&u64| (**at).min(seen).saturating_add(per) > now;
            most.saturating_sub(log.iter().rev().take_while(counts).count() as u64)
        })
    }
}
