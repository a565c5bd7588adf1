//! What is set for a group: its share of a turn, its limits, and a pause.

use super::super::turn::DEADLINE_MAX;

/// The limits of a group. 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupLimits {
    /// The most elements. The lawn does not enforce it.
    pub length: u64,
    /// The most elements under a live lease: with as many, the group gives nothing out.
    pub held: u64,
    /// The most elements given out in any `per` milliseconds.
    pub rate: u64,
    pub per: u64,
}

impl GroupLimits {
    pub const NONE: Self = Self { length: 0, held: 0, rate: 0, per: 0 };

    /// Returns the limit of what is given out in a time: a number of elements, and a number of milliseconds.
    pub(super) fn rate(&self) -> Option<(u64, u64)> {
        (self.rate > 0).then_some((self.rate, self.per))
    }
}

/// Which limits of groups hold: that of what is held, and that of what is given out in a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enforced {
    pub held: bool,
    pub rate: bool,
}

/// The settings of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupSettings {
    /// Elements to give out in one turn, from 1 on.
    pub share: u16,
    /// The group's own limits. Where there is none, that of each group holds.
    pub limits: GroupLimits,
    /// Nothing is given out before this moment, in milliseconds since the epoch. 0: the group is not paused.
    pub paused_until: u64,
}

impl GroupSettings {
    /// The settings of a group for which nothing was set.
    pub const NONE: Self = Self { share: 1, limits: GroupLimits::NONE, paused_until: 0 };

    /// Returns whether they have a pause that ends.
    pub(super) fn ends(&self) -> bool {
        (1..DEADLINE_MAX).contains(&self.paused_until)
    }
}
