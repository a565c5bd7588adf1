//! The reasons for a visit, and the clock that each follows.

/// Why the module visits a dehydrator of its own accord.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// An element comes due that is delivered or announced, or a pause ends. In milliseconds since the epoch.
    Deliver,
    /// Due elements wait for room within limits until [`Reason::Deliver`]. If the wall clock steps back, room may come much
    /// earlier. So the name is visited when the time is *before* this one, at which it was recorded, in milliseconds since
    /// the epoch.
    HeldBack,
    /// A delivery failed. In microseconds on the monotonic clock, which never steps.
    Retry,
    /// Stuck dead letters are retried, while other elements go on. In microseconds on the monotonic clock.
    Stuck,
    /// An element is too late to be given out. In milliseconds since the epoch.
    Expire,
    /// Remembered ids expire, or pauses of groups end. In milliseconds since the epoch.
    Forget,
    /// There is memory to give back since this time, in microseconds on the monotonic clock.
    Compact,
}

/// The present time on both clocks, in microseconds.
#[derive(Clone, Copy)]
pub struct Moment {
    pub wall_us: u64,
    pub monotonic_us: u64,
}

impl Reason {
    pub(super) const COUNT: usize = 7;

    /// The reasons of [`background::delivery`](crate::background).
    pub const DELIVERY: [Self; 5] =
        [Self::Deliver, Self::HeldBack, Self::Retry, Self::Stuck, Self::Expire];

    /// The reasons of the cron, on replicas too.
    pub const UPKEEP: [Self; 2] = [Self::Forget, Self::Compact];

    /// Returns whether visits are on the wall clock, in milliseconds, and not on the monotonic clock, in microseconds.
    fn is_by_wall(self) -> bool {
        matches!(self, Self::Deliver | Self::HeldBack | Self::Expire | Self::Forget)
    }

    /// Returns the time of a visit in `us` microseconds.
    pub(super) fn at(self, us: u64, now: Moment) -> u64 {
        if self.is_by_wall() { (now.wall_us + us) / 1000 } else { now.monotonic_us + us }
    }

    /// Returns the time until a visit recorded for `at`, in microseconds: negative if it is overdue.
    pub(super) fn until_us(self, at: u64, now: Moment) -> i64 {
        let (at_us, now_us) = match self.is_by_wall() {
            true => (at.saturating_mul(1000), now.wall_us),
            false => (at, now.monotonic_us),
        };
        let until_us = i64::try_from(at_us).unwrap_or(i64::MAX).saturating_sub_unsigned(now_us);
        match self {
            Self::HeldBack if until_us > 0 => -until_us,
            Self::HeldBack => i64::MAX,
            _ => until_us,
        }
    }
}
