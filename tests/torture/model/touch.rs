//! The model of TOUCH.

use super::{DISTANCES, Dehydrator, Entry, end_within};

impl Dehydrator {
    /// Restarts the timer of the element at this index, as TOUCH does.
    pub(super) fn touch(&mut self, at: usize, ttl: u64, deadline: u64, now: u64, sequence: u64) {
        let entry = &mut self.entries[at];
        // If running leases are counted, an expired one ends by this.
        let is_over = entry.deadline <= now && deadline > now;
        let ends = self.limits.held > 0 && entry.is_held() && is_over;
        if entry.until > 0 && !entry.is_held() {
            entry.until = if entry.until >= DISTANCES {
                end_within(deadline, entry.until - DISTANCES)
            } else if entry.until >= entry.deadline {
                end_within(deadline, entry.until - entry.deadline)
            } else {
                (entry.until + deadline).saturating_sub(entry.deadline).clamp(1, DISTANCES - 1)
            };
        }
        entry.restart(if ends { 0 } else { ttl }, deadline, sequence);
    }
}

impl Entry {
    /// Returns whether it has a token, even if its lease has ended.
    pub fn is_held(&self) -> bool {
        self.token.is_some() || self.is_drawn
    }
}
