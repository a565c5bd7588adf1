//! What is set for groups, by name: shares of a turn, limits, and pauses. A group need not exist for that.

use std::collections::{BTreeMap, BTreeSet};

use super::super::memory::{rounded, tree_bytes};
use super::super::rank::DEADLINE_MAX;

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

    /// Returns these limits and, where there is none, that of `each`.
    #[must_use]
    pub fn or(self, each: Self) -> Self {
        let or = |own, each| if own > 0 { own } else { each };
        let Self { rate, per, .. } = if self.rate > 0 { self } else { each };
        Self { length: or(self.length, each.length), held: or(self.held, each.held), rate, per }
    }

    /// Returns the most elements under a live lease, as a group's record has it.
    pub(super) fn held_max(self) -> u32 {
        self.held.try_into().unwrap_or(u32::MAX)
    }

    /// Returns the limit of what is given out in a time: a number of elements, and a number of milliseconds.
    pub fn rate(self) -> Option<(u64, u64)> {
        (self.rate > 0).then_some((self.rate, self.per))
    }
}

/// Which limits of groups hold: that of what is held, and that of what is given out in a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enforced {
    pub held: bool,
    pub rate: bool,
}

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

    /// Returns when the pause ends, if there is one that does.
    fn pause_end(&self) -> Option<u64> {
        Some(self.paused_until).filter(|end| (1..DEADLINE_MAX).contains(end))
    }
}

/// The settings of a lawn's groups.
#[derive(Clone)]
pub struct GroupRules {
    by_name: BTreeMap<Vec<u8>, GroupSettings>,
    /// The names of paused groups by the ends of their pauses, in milliseconds since the epoch.
    pauses: BTreeSet<(u64, Vec<u8>)>,
    /// The limits of each group that has none of its own. They do not hold for elements without a group.
    pub each: GroupLimits,
    pub(super) enforced: Enforced,
}

impl GroupRules {
    pub(in super::super) const NONE: Self = Self {
        by_name: BTreeMap::new(),
        pauses: BTreeSet::new(),
        each: GroupLimits::NONE,
        enforced: Enforced { held: true, rate: true },
    };

    /// Returns whether nothing is set for any group. O(1).
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.each == GroupLimits::NONE
    }

    /// Returns whether the length of a group may be limited. O(1).
    #[inline(always)]
    pub fn may_limit_length(&self) -> bool {
        self.each.length > 0 || !self.by_name.is_empty()
    }

    /// Returns what is set for the group of this name. The empty name stands for all elements without a group, which can only
    /// have a share.
    pub fn of(&self, name: &[u8]) -> GroupSettings {
        self.by_name.get(name).copied().unwrap_or(GroupSettings::NONE)
    }

    /// Lists the groups for which something is set, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], GroupSettings)> {
        self.by_name.iter().map(|(name, settings)| (&name[..], *settings))
    }

    /// Returns the limits that hold for the group of this name.
    pub fn limits(&self, name: &[u8]) -> GroupLimits {
        if name.is_empty() { GroupLimits::NONE } else { self.holding(self.of(name).limits) }
    }

    /// Returns the limits that hold for a group with these of its own.
    #[inline(always)]
    pub(super) fn holding(&self, own: GroupLimits) -> GroupLimits {
        let mut limits = own.or(self.each);
        limits.held = if self.enforced.held { limits.held } else { 0 };
        limits.rate = if self.enforced.rate { limits.rate } else { 0 };
        limits
    }

    /// Changes what is set for a group. [`GroupSettings::NONE`] removes its settings.
    pub(super) fn set(&mut self, name: &[u8], settings: GroupSettings) {
        let before = if settings == GroupSettings::NONE {
            self.by_name.remove(name)
        } else {
            self.by_name.insert(name.to_vec(), settings)
        };
        if let Some(end) = before.and_then(|before| before.pause_end()) {
            self.pauses.remove(&(end, name.to_vec()));
        }
        self.pauses.extend(settings.pause_end().map(|end| (end, name.to_vec())));
    }

    /// Returns when the first pause ends, in milliseconds since the epoch. O(1).
    pub(super) fn first_end(&self) -> Option<u64> {
        self.pauses.first().map(|(end, _)| *end)
    }

    /// Lists the groups whose pauses are over at `now`, in the order of their ends. Their elements are given out, but their
    /// settings have the pauses until the owner removes them.
    pub fn ended_pauses(&self, now: u64) -> impl Iterator<Item = &[u8]> {
        let ended = self.pauses.iter().take_while(move |(end, _)| *end <= now);
        ended.map(|(_, name)| &name[..])
    }

    /// Returns the number of allocations, about.
    pub(super) fn allocations(&self) -> usize {
        self.by_name.len() + self.pauses.len()
    }

    /// Returns the bytes allocated. O(settings).
    pub(super) fn memory(&self) -> usize {
        let paused = self.pauses.iter().map(|(_, name)| name);
        let names = self.by_name.keys().chain(paused).map(|name| rounded(name.capacity()));
        names.sum::<usize>()
            + tree_bytes::<(Vec<u8>, GroupSettings)>(self.by_name.len())
            + tree_bytes::<(u64, Vec<u8>)>(self.pauses.len())
    }

    /// Panics unless each pause that ends is in order.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) {
        let paused =
            self.by_name.iter().filter_map(|(name, it)| Some((it.pause_end()?, name.clone())));
        assert_eq!(self.pauses, paused.collect(), "pauses");
    }
}
