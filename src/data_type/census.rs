//! The totals of all dehydrators, and each one's share.

use std::sync::atomic::{AtomicUsize, Ordering};

use lawn::Counts;

/// The totals of all dehydrators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Census {
    pub dehydrators: usize,
    pub elements: usize,
    /// Elements that were leased at least once and are still there.
    pub given_out: usize,
    /// Elements of `given_out` that are held under a token.
    pub leased: usize,
    /// TTLs, counted per dehydrator.
    pub ttls: usize,
    /// Paused dehydrators.
    pub paused: usize,
}

// A value may be freed on a background thread, hence atomics. Nothing is ordered by them.
static DEHYDRATORS: AtomicUsize = AtomicUsize::new(0);
static ELEMENTS: AtomicUsize = AtomicUsize::new(0);
static GIVEN_OUT: AtomicUsize = AtomicUsize::new(0);
static LEASED: AtomicUsize = AtomicUsize::new(0);
static TTLS: AtomicUsize = AtomicUsize::new(0);
static PAUSED: AtomicUsize = AtomicUsize::new(0);

impl Census {
    /// Takes the census of all dehydrators, in every database.
    pub fn of_all() -> Self {
        Self {
            dehydrators: DEHYDRATORS.load(Ordering::Relaxed),
            elements: ELEMENTS.load(Ordering::Relaxed),
            given_out: GIVEN_OUT.load(Ordering::Relaxed),
            leased: LEASED.load(Ordering::Relaxed),
            ttls: TTLS.load(Ordering::Relaxed),
            paused: PAUSED.load(Ordering::Relaxed),
        }
    }
}

/// A dehydrator's share of the census. It is not stored: each change counts before and afterwards.
#[derive(Clone, Copy, Default)]
pub struct CensusShare {
    pub counts: Counts,
    pub is_paused: bool,
}

impl CensusShare {
    /// Counts a new dehydrator, whose share this is.
    pub fn add(self) {
        DEHYDRATORS.fetch_add(1, Ordering::Relaxed);
        Self::default().replace_by(self);
    }

    /// Removes a dehydrator, whose share this is.
    pub fn remove(self) {
        self.replace_by(Self::default());
        DEHYDRATORS.fetch_sub(1, Ordering::Relaxed);
    }

    /// Replaces this share in the totals by another. O(1).
    #[inline]
    pub fn replace_by(self, new: Self) {
        let (before, after) = (self.counts, new.counts);
        for (sum, old, new) in [
            (&ELEMENTS, before.elements, after.elements),
            (&GIVEN_OUT, before.given_out, after.given_out),
            (&LEASED, before.leased, after.leased),
            (&TTLS, before.ttls, after.ttls),
            (&PAUSED, self.is_paused.into(), new.is_paused.into()),
        ] {
            if old != new {
                // Modulo 2^64, so that a decrease is the same addition.
                sum.fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
            }
        }
    }
}
