//! What a value knows of its entry in the agenda.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use super::entry::Reason;
use crate::pending::overdue::OverdueSlot;

/// The reasons for which a value's present name is in the agenda, so that a write need not record it again.
///
/// The server reports that RENAME or MOVE takes a value from its name, but not the new name. A value in the agenda that
/// is not freed then has *moved*: its name is unknown until a write or a walk over the keyspace finds it. A
/// background thread may free a value, hence the atomics, which order nothing.
pub struct Tracking {
    /// A bit for each reason, and [`MOVED`]. [`Reason::Deliver`] stands for all deliveries.
    bits: AtomicU16,
    /// Set if dead letters may be stuck, so that they are retried. Only the main thread changes it.
    has_stuck: AtomicBool,
    pub slot: OverdueSlot,
}

const MOVED: u16 = 1 << Reason::COUNT;

/// The number of values that have moved.
static MOVED_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Set while a walk looks for all values, so that one whose name was never recorded also counts as moved.
static ALL_ARE_TRACKED: AtomicBool = AtomicBool::new(false);

impl Tracking {
    /// Creates the tracking of a value in no key.
    pub fn new() -> Self {
        let has_stuck = AtomicBool::new(false);
        Self { bits: AtomicU16::new(0), has_stuck, slot: OverdueSlot::new() }
    }

    /// Returns whether dead letters may be stuck.
    pub fn has_stuck(&self) -> bool {
        self.has_stuck.load(Ordering::Relaxed)
    }

    /// Records whether dead letters may be stuck.
    pub fn note_stuck(&self, has_stuck: bool) {
        self.has_stuck.store(has_stuck, Ordering::Relaxed);
    }

    /// Returns whether the present name is in the agenda for a reason.
    #[inline]
    pub fn is_noted(&self, reason: Reason) -> bool {
        self.bits() & (1 << reason as u16) != 0
    }

    /// Returns the number of reasons for which the present name is in the agenda. Deliveries count as one.
    pub fn reasons(&self) -> u32 {
        (self.bits() & !MOVED).count_ones()
    }

    /// Records that the present name is in the agenda for a reason.
    pub(super) fn note(&self, reason: Reason) {
        self.set(self.bits() | 1 << reason as u16);
    }

    /// Records whether the present name is in the agenda for deliveries. The name is known.
    pub(super) fn note_deliveries(&self, any: bool) {
        let others = self.bits() & !MOVED & !(1 << Reason::Deliver as u16);
        self.set(others | u16::from(any) << Reason::Deliver as u16);
    }

    /// Records that the present name is not in the agenda for a reason, or no longer.
    pub fn visited(&self, reason: Reason) {
        self.set(self.bits() & !(1 << reason as u16));
    }

    /// Returns whether the present name is unknown, but needed.
    pub fn has_moved(&self) -> bool {
        self.bits() & MOVED != 0
    }

    /// Records that the present name is known.
    pub fn found(&self) {
        self.set(self.bits() & !MOVED);
    }

    /// Records that the value leaves its name. Returns whether that was in the agenda.
    pub(super) fn leave(&self) -> bool {
        let was_noted = self.bits() & !MOVED != 0;
        let has_moved = was_noted || self.has_moved() || ALL_ARE_TRACKED.load(Ordering::Relaxed);
        self.set(if has_moved { MOVED } else { 0 });
        was_noted
    }

    fn bits(&self) -> u16 {
        self.bits.load(Ordering::Relaxed)
    }

    fn set(&self, bits: u16) {
        let before = self.bits();
        if before != bits {
            self.bits.store(bits, Ordering::Relaxed);
        }
        match (before & MOVED, bits & MOVED) {
            (0, MOVED) => _ = MOVED_COUNT.fetch_add(1, Ordering::Relaxed),
            (MOVED, 0) => _ = MOVED_COUNT.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Returns the number of live dehydrators that have left a recorded name, or one that might have been recorded.
pub fn moved() -> usize {
    MOVED_COUNT.load(Ordering::Relaxed)
}

/// Sets whether a walk looks for all dehydrators.
pub fn track_all(all: bool) {
    ALL_ARE_TRACKED.store(all, Ordering::Relaxed);
}
