//! What may leave a dehydrator at a moment, for being due, and what has to.

use super::dehydrator::{Dehydrator, Entry, Policy};
use super::group::Opening;
use super::{Bytes, Fault, Promise};

/// The dead letters that a POLL moves at most, or that were moved just before.
const DEAD_AT_ONCE: usize = 500;

impl Dehydrator {
    /// Returns a group with an element to give out at `now`, if the whole has room.
    pub fn gives(&self, now: u64) -> Option<&Entry> {
        if self.is_paused(now) || self.room(now)[1] == 0 {
            return None;
        }
        self.open(now).map(|it| it.1).find(|entry| self.is_alive(entry, now))
    }

    /// Returns whether there are so many dead letters that a POLL stops before all are moved.
    pub fn has_many_dead(&self, now: u64) -> bool {
        let leave = |it: &&Entry| self.policy.sends(it) || it.is_late(now);
        self.policy.holds() && self.entries.values().filter(leave).count() > DEAD_AT_ONCE
    }

    /// Checks that an element may leave for being due: to a client, or to a destination.
    fn check(&self, id: &[u8], now: u64, to_client: bool) -> Result<&Entry, Fault> {
        let entry = self.entries.get(id).ok_or_else(|| {
            Promise::Unknown.broken(format!("{} is not there", id.escape_ascii()))
        })?;
        let fails = |promise: Promise, what: &str| {
            Err(promise.broken(format!("{what}: {entry:?}, now {now}")))
        };
        if entry.deadline > now {
            return fails(
                if entry.token.is_some() { Promise::Twice } else { Promise::Early },
                "is not due",
            );
        }
        if self.is_paused(now) {
            return fails(Promise::Pause, "its dehydrator is paused");
        }
        let is_dead = self.policy.holds() && self.policy.sends(entry);
        if to_client && is_dead {
            return fails(Promise::Dead, "is a dead letter");
        }
        if to_client && entry.is_late(now) {
            return fails(Promise::End, "has expired");
        }
        if !to_client && entry.is_late(now) {
            return Ok(entry);
        }
        if !to_client && !self.policy.sends(entry) {
            return fails(Promise::Dead, "is no dead letter");
        }
        let opening = self.opening(&entry.group).expect("its group has something");
        let is_first = [opening.first, opening.other].contains(&entry.place());
        if !is_first {
            return fails(
                Promise::Order,
                &format!("is not the first of its group, {:?} is", opening.first),
            );
        }
        // Dead letters use up no rate.
        let at = if is_dead { 0 } else { opening.earliest };
        if at > now {
            return fails(Promise::GroupLimit, &format!("its group gives nothing out before {at}"));
        }
        if to_client || !self.policy.holds() && self.policy != Policy::Drop {
            let room = if to_client {
                self.room(now)
            } else {
                self.limits.log.room(self.limits.rate, now)
            };
            if room[0] == 0 {
                return fails(Promise::Limit, "there is no room");
            }
        }
        self.check_turn(entry, opening, now)?;
        Ok(entry)
    }

    /// Checks that a group does not wait longer than others take to give out their shares twice.
    fn check_turn(&self, entry: &Entry, opening: Opening, now: u64) -> Result<(), Fault> {
        let before = self.polls.partition_point(|poll| poll.0 <= opening.latest);
        let group = &self.groups[&entry.group];
        let since = self.polls.get(before).map_or(self.given, |poll| poll.1).max(group.changed);
        let waited = self.given - since;
        // Groups that are empty by now had a turn too.
        let least = self.most_groups as u64;
        let is_long = |shares: u64| waited > 2 * shares.max(least) + 64;
        // Each has a share of one at least, and to add them up takes long.
        if is_long(0) && is_long(self.groups.values().map(|it| it.settings.share).sum()) {
            return Err(
                Promise::Turns.broken(format!("{entry:?} waited for {waited} others, now {now}"))
            );
        }
        Ok(())
    }

    /// Counts an element under the limits of rate.
    fn count_under_rates(&mut self, group: &Bytes, now: u64) {
        self.given += 1;
        self.limits.log.give(self.limits.rate, now);
        let rate = self.enforced(group).1;
        if rate.0 > 0 && !group.is_empty() {
            self.counted = self.counted.max(now + 1);
            self.groups.entry(group.clone()).or_default().log.give(rate, now);
            self.file(group);
        }
    }

    /// Gives an element to a client.
    pub fn give(&mut self, id: &[u8], now: u64) -> Result<Entry, Fault> {
        self.check(id, now, true)?;
        let entry = self.remove(id).expect("it is there");
        self.count_under_rates(&entry.group, now);
        Ok(entry)
    }

    /// Removes an element that leaves by itself, to a destination or to nowhere.
    pub fn send(&mut self, id: &[u8], now: u64) -> Result<Entry, Fault> {
        let is_late = self.check(id, now, false)?.is_late(now);
        let entry = self.remove(id).expect("it is there");
        // It may have kept its group from giving out others. And a mass of them leaves step by step.
        self.aged_from = self.aged_from.max(now);
        self.touched = self.touched.max(now);
        if !is_late && !self.policy.holds() {
            if self.policy != Policy::Drop {
                self.count_under_rates(&entry.group, now);
            }
            self.done(id, [now, now]);
        }
        Ok(entry)
    }

    /// Returns an element that should have been moved to its destination at `now`.
    pub fn owed(&self, now: u64) -> Option<&Entry> {
        if self.is_paused(now) {
            return None;
        }
        if let Some(first) = self.ends.first().filter(|it| it.0 <= now) {
            return Some(&self.entries[&first.2]);
        }
        if self.policy.holds() {
            // Whose turn it is decides, unless all that may give something out begin with dead letters.
            let lives = |(group, at): (&Bytes, _)| {
                !self.policy.sends(&self.entries[&self.groups[group].members[&at]])
            };
            let may_live = |group: &Bytes| {
                let opening = self.opening(group).filter(|it| it.earliest <= now);
                opening.is_some_and(|it| [it.first, it.other].iter().any(|at| lives((group, *at))))
            };
            let first = self.open(now).map(|it| it.1).next()?;
            return (self.policy.sends(first) && !self.groups.keys().any(may_live))
                .then_some(first);
        }
        let room = self.limits.log.room(self.limits.rate, now)[1];
        self.open(now).map(|it| it.1).next().filter(|_| room > 0)
    }
}
