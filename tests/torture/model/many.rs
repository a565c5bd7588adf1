//! The model of PURGE, and of TOUCH of a group.

use super::{Bytes, DISTANCES, Dehydrator, Entry, Expect, World, end_within, int};

impl Dehydrator {
    /// Returns the ids that TOUCH moves, in the order of delivery: those that are not under a live lease. A ttl of 0 moves
    /// nothing that is due.
    fn at_rest(&self, group: &Bytes, ttl: u64, now: u64) -> Vec<Bytes> {
        let stays = |entry: &Entry| match entry.deadline > now {
            true => entry.is_held(),
            false => ttl == 0,
        };
        let mut all = self.ordered();
        all.retain(|entry| entry.group == *group && !stays(entry));
        all.into_iter().map(|entry| entry.id.clone()).collect()
    }

    /// Restarts the timer of the element at this index, as TOUCH does.
    pub(super) fn touch(&mut self, at: usize, ttl: u64, deadline: u64, now: u64, sequence: u64) {
        let limits_held = self.enforced(&self.entries[at].group).0 > 0;
        let entry = &mut self.entries[at];
        // If running leases are counted, an expired one ends by this.
        let is_over = entry.deadline <= now && deadline > now;
        let ends = (self.limits.held > 0 || limits_held) && entry.is_held() && is_over;
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

impl World {
    pub(super) fn purge(it: &mut Dehydrator, group: &Bytes) -> Expect {
        let before = it.entries.len();
        it.entries.retain(|entry| entry.group != *group);
        int((before - it.entries.len()) as u64)
    }

    /// That a deadline is already about the new one does not happen: it is up to the test.
    pub(super) fn touch_group(
        &mut self,
        it: &mut Dehydrator,
        group: &Bytes,
        (ttl, deadline): (u64, u64),
        now: u64,
    ) -> Expect {
        let ids = it.at_rest(group, ttl, now);
        for id in &ids {
            let at = it.find(id).expect("it is there");
            it.touch(at, ttl, deadline, now, self.next());
            it.settle_turns();
        }
        int(ids.len() as u64)
    }
}

impl Entry {
    /// Returns whether it has a token, even if its lease has ended.
    pub fn is_held(&self) -> bool {
        self.token.is_some() || self.is_drawn
    }
}
