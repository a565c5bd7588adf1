//! The model of PURGE, and of TOUCH of many elements.

use super::{Bytes, DISTANCES, Dehydrator, Entry, Expect, REFUSED, World, end_within, int};

/// The most elements that are visited in a transaction.
const AT_ONCE_MAX: usize = 1024;

/// The elements to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    Group(Bytes),
    /// All ids that begin so.
    Prefix(Bytes),
}

impl Selection {
    fn has(&self, entry: &Entry) -> bool {
        match self {
            Self::Group(name) => entry.group == *name,
            Self::Prefix(prefix) => entry.id.starts_with(prefix),
        }
    }

    /// Returns whether a command with it is refused.
    fn is_refused(&self, it: &Dehydrator, in_transaction: bool) -> bool {
        let visits = match self {
            Self::Group(_) => it.entries.iter().filter(|entry| self.has(entry)).count(),
            Self::Prefix(_) => it.entries.len(),
        };
        in_transaction && visits > AT_ONCE_MAX
    }
}

impl Dehydrator {
    /// Returns the ids that TOUCH moves, in the order of delivery: those that are not under a live lease.
    pub fn at_rest(&self, which: &Selection, now: u64) -> Vec<Bytes> {
        let is_live = |entry: &Entry| entry.is_held() && entry.deadline > now;
        let mut all = self.ordered();
        all.retain(|entry| which.has(entry) && !is_live(entry));
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
    pub(super) fn purge(
        &mut self,
        it: &mut Dehydrator,
        which: &Selection,
        in_transaction: bool,
    ) -> Expect {
        if which.is_refused(it, in_transaction) {
            return REFUSED;
        }
        let before = it.entries.len();
        it.entries.retain(|entry| !which.has(entry));
        int((before - it.entries.len()) as u64)
    }

    /// That a deadline is already the new one does not happen: it is up to the test that time has passed.
    pub(super) fn touch_many(
        &mut self,
        it: &mut Dehydrator,
        which: &Selection,
        (ttl, deadline): (u64, u64),
        now: u64,
        in_transaction: bool,
    ) -> Expect {
        if which.is_refused(it, in_transaction) {
            return REFUSED;
        }
        let ids = it.at_rest(which, now);
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
