//! The order of delivery: by deadline, then in the order of pushing. What was put first comes before all with its deadline.

/// The latest possible deadline: 2^63 - 1, which every client's language can represent.
pub const DEADLINE_MAX: u64 = i64::MAX as u64;

/// A place in the order of delivery. Comparing two ranks is the complete order: the earlier deadline first; for equal
/// deadlines, the element that was pushed first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Rank {
    /// Milliseconds since the epoch, up to [`DEADLINE_MAX`].
    pub deadline: u64,
    /// Counts up with each push into the lawn, from [`Rank::PUSHES_FROM`] on, and from there down with each element that is put
    /// first. Each way lasts four years at a million a second. Then its numbers start over: an element comes before (after, if it was put first)
    /// those with the same deadline from before that.
    pub push: u64,
}

impl Rank {
    /// The first push number. Lower ones are of elements that were put first.
    pub const PUSHES_FROM: u64 = 1 << 47;
    /// Push numbers start over here.
    pub const PUSHES: u64 = 1 << 48;
    /// Before all other ranks.
    pub const FIRST: Self = Self { deadline: 0, push: 0 };
    /// After all other ranks.
    pub const LAST: Self = Self { deadline: u64::MAX, push: u64::MAX };

    /// Returns the rank as one number, in the same order: two of these are compared without an unpredictable branch.
    #[inline(always)]
    pub(super) fn number(self) -> u128 {
        u128::from(self.deadline) << 64 | u128::from(self.push)
    }

    /// Returns the first rank whose deadline is after `now`.
    pub fn after(now: u64) -> Self {
        Self { deadline: now.saturating_add(1), push: 0 }
    }
}

/// The place in the order of delivery where an iteration starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    pub deadline: u64,
    /// Start after the element with this deadline and row number, which need not exist. `None`: start before all
    /// elements with this deadline.
    pub behind: Option<u64>,
}

impl Start {
    /// The first element.
    pub const FIRST: Self = Self { deadline: 0, behind: None };

    /// Returns the first rank to show.
    pub(super) fn rank(self) -> Rank {
        // Push numbers are below 2^48, so the next number never wraps.
        let push = self.behind.map_or(0, |number| number.saturating_add(1));
        Rank { deadline: self.deadline, push }
    }
}
