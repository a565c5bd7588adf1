//! The totals of all dehydrators, and each one's share.

use std::sync::atomic::{AtomicUsize, Ordering};

use lawn::Counts;

/// The totals of all dehydrators, as [`totals`] returns them. A value may be freed on a background thread, hence atomics. Nothing
/// is ordered by them.
static TOTALS: [AtomicUsize; 7] = [const { AtomicUsize::new(0) }; 7];

/// Takes the census of all dehydrators, in every database: the number of dehydrators; of elements; of those that were leased at
/// least once and are still there; of those of them that are held under a token; of TTLs, counted per dehydrator; of paused
/// dehydrators; of schedules.
pub fn totals() -> [usize; 7] {
    TOTALS.each_ref().map(|total| total.load(Ordering::Relaxed))
}

/// A dehydrator's share of the census. It is not stored: each change counts before and afterwards.
#[derive(Clone, Copy, Default)]
pub struct CensusShare {
    pub counts: Counts,
    pub is_paused: bool,
    pub schedules: usize,
}

impl CensusShare {
    /// Counts a new dehydrator, whose share this is.
    pub fn add(self) {
        TOTALS[0].fetch_add(1, Ordering::Relaxed);
        Self::default().replace_by(self);
    }

    /// Removes a dehydrator, whose share this is.
    pub fn remove(self) {
        self.replace_by(Self::default());
        TOTALS[0].fetch_sub(1, Ordering::Relaxed);
    }

    /// Replaces this share in the totals by another. O(1).
    #[inline]
    pub fn replace_by(self, new: Self) {
        let (before, after) = (self.counts, new.counts);
        let changes = [
            (before.elements, after.elements),
            (before.given_out, after.given_out),
            (before.leased, after.leased),
            (before.ttls, after.ttls),
            (self.is_paused.into(), new.is_paused.into()),
            (self.schedules, new.schedules),
        ];
        for (sum, (old, new)) in TOTALS[1..].iter().zip(changes) {
            if old != new {
                // Modulo 2^64, so that a decrease is the same addition.
                sum.fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
            }
        }
    }
}
