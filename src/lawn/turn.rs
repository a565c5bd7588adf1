//! When an element's turn comes: its deadline, then the order of pushing.

/// The latest deadline there is: 2^63 - 1, so that it stays a number in every client's language.
pub const DEADLINE_MAX: u64 = i64::MAX as u64;

/// A place in the order of delivery. Comparing two turns is the whole of that order: the earlier
/// deadline first, and of equal deadlines the one that was pushed first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turn {
    /// Milliseconds since the epoch, up to [`DEADLINE_MAX`].
    pub deadline: u64,
    /// How many pushes the lawn had seen before. 48 bits: nine years of a million pushes a second
    /// into one lawn; past that, elements with equal deadlines may swap.
    pub push: u64,
}

impl Turn {
    /// A lawn's counter of pushes wraps here.
    pub const PUSHES: u64 = 1 << 48;
    /// Before all others.
    pub const FIRST: Self = Self { deadline: 0, push: 0 };
    /// After all others.
    pub const LAST: Self = Self { deadline: u64::MAX, push: u64::MAX };

    /// Returns the first turn after all whose deadline is `now` or before.
    pub fn after(now: u64) -> Self {
        Self { deadline: now.saturating_add(1), push: 0 }
    }
}

/// Where a walk in the order of delivery begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    pub deadline: u64,
    /// Behind the element with this deadline and this number, whether it is there or not. `None`: before all with
    /// this deadline.
    pub behind: Option<u64>,
}
