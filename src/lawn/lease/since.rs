//! Since when an element is held.

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

    /// Returns what is stored of it.
    #[inline]
    pub(in super::super) fn stored(self) -> Self {
        Self { moment: self.moment.min(Self::MAX), waited: self.waited.min(Self::MAX) }
    }

    /// Returns the deadline that the element had before its lease, or the begin of the lease if it was not due.
    pub fn due(self) -> u64 {
        self.moment.saturating_sub(self.waited)
    }

    /// Returns whether it is known.
    pub(in super::super) fn is_known(&self) -> bool {
        self.moment > 0
    }
}
