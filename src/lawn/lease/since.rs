//! Since when an element is held, and how many are since each second.
//!
//! A count for each second in which a lease began that still holds takes little memory whether many leases begin at once or
//! some are held for days. So the first is known to a second.

use std::collections::BTreeMap;

/// When a lease began, and for how long the element had been due then. Renewing the lease does not change it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Since {
    /// Milliseconds since the epoch, below 2^48. 0: nobody knows.
    pub moment: u64,
    /// In milliseconds, below 2^48.
    pub waited: u64,
}

impl Since {
    /// Nobody knows.
    pub const UNKNOWN: Self = Self { moment: 0, waited: 0 };
    /// The greatest number that is stored: a moment in the year 10889.
    const MAX: u64 = (1 << 48) - 1;

    /// Returns that a lease began at `moment`, of an element with this deadline.
    #[inline]
    pub(in super::super) fn new(moment: u64, deadline: u64) -> Self {
        let moment = moment.min(Self::MAX);
        Self { moment, waited: moment.saturating_sub(deadline) }
    }

    #[inline]
    pub(in super::super) fn stored(self) -> Self {
        Self { moment: self.moment.min(Self::MAX), waited: self.waited.min(Self::MAX) }
    }

    /// Returns the deadline that the element had before its lease, or the begin of the lease if it was not due.
    pub fn due(self) -> u64 {
        self.moment.saturating_sub(self.waited)
    }

    pub(in super::super) fn is_known(&self) -> bool {
        self.moment > 0
    }
}

/// The number of elements that are held, by the second in which that began.
#[derive(Clone, Default)]
pub(super) struct Ages(BTreeMap<u32, u32>);

/// Returns the second of a moment in milliseconds. After the year 2106 all are the same.
fn second_of(since: u64) -> u32 {
    u32::try_from(since / 1000).unwrap_or(u32::MAX)
}

fn end_of(second: u32) -> u64 {
    u64::from(second) * 1000 + 999
}

/// Returns the end of the second of a moment, both in milliseconds.
pub fn end_of_second(since: u64) -> u64 {
    end_of(second_of(since))
}

impl Ages {
    /// Counts an element that is held since a moment. 0: nobody knows since when.
    pub(super) fn insert(&mut self, since: u64) {
        if since > 0 {
            *self.0.entry(second_of(since)).or_default() += 1;
        }
    }

    /// Undoes [`Ages::insert`].
    pub(super) fn remove(&mut self, since: u64) {
        let second = second_of(since);
        if since > 0
            && let Some(count) = self.0.get_mut(&second)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&second);
            }
        }
    }

    /// Returns the end of the second in which the first began, in milliseconds since the epoch.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first_key_value().map(|(second, _)| end_of(*second))
    }

    /// Returns the bytes allocated, roughly.
    pub(super) fn memory(&self) -> usize {
        // The standard library's nodes are half full if each new entry is the last.
        self.0.len() * size_of::<(u32, u32)>() * 2
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self, all: impl Iterator<Item = u64>) {
        let mut expected = Self::default();
        all.for_each(|since| expected.insert(since));
        assert_eq!(self.0, expected.0, "since when elements are held");
    }
}
