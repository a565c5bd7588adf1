//! When the elements of a dehydrator can leave it, and how many: due, not paused, within the limits.

use super::dehydrator::{Dehydrator, STUCK};
use crate::clock;
use crate::pending::agenda::OwnWork;
use crate::policy::Policy;
use crate::server::{Error, error::Result};
use lawn::{Element, Rate};

/// Most dead letters that a request for elements skips, which bounds its time.
pub const DEAD_LETTERS_MAX: usize = 1024;

impl Dehydrator {
    /// Returns how many elements the limits allow to be given out at `now`.
    pub fn room(&self, now: u64) -> usize {
        let Some(limits) = &self.rules().limits else { return usize::MAX };
        let rate = limits.rate.as_ref().map_or(u64::MAX, |rate| rate.room(now));
        let held = match limits.held {
            0 => u64::MAX,
            held => held.saturating_sub(self.lawn.running(now) as u64),
        };
        usize::try_from(rate.min(held)).unwrap_or(usize::MAX)
    }

    /// Returns from when on the limits allow an element to be given out: 0 without limits.
    fn room_from(&self, now: u64) -> u64 {
        let Some(limits) = &self.rules().limits else { return 0 };
        let rate = limits.rate.as_ref().map_or(0, |rate| rate.next(now));
        let held = limits.held.checked_sub(1).and_then(|left| {
            self.lawn.end_of_all_but(usize::try_from(left).unwrap_or(usize::MAX), now)
        });
        held.map_or(rate, |end| end.max(rate))
    }

    /// Returns the rate that limits deliveries, if any. Dropped elements do not count.
    fn delivery_rate(&self) -> Option<&Rate> {
        self.rules().limits.as_ref().filter(|_| self.rules().policy.delivers())?.rate.as_ref()
    }

    /// Returns how many elements the limits allow to be delivered at `now`.
    pub fn deliverable(&self, now: u64) -> usize {
        let rate = self.delivery_rate();
        rate.map_or(usize::MAX, |rate| usize::try_from(rate.room(now)).unwrap_or(usize::MAX))
    }

    /// Returns when the first element is available, considering deadlines, a pause and limits.
    pub fn next(&self) -> Option<u64> {
        // Reads no clock without limits.
        let room_from =
            if self.rules().limits.is_some() { self.room_from(clock::now()) } else { 0 };
        let next = self.next_deadline()?.max(room_from);
        match self.rules().pause {
            Some(pause) => pause.end().map(|end| end.max(next)),
            None => Some(next),
        }
    }

    /// Returns the next deadline, or when a group that is held back gives out its first element. Stuck elements and groups that
    /// are paused until RESUME have none.
    pub fn next_deadline(&self) -> Option<u64> {
        let groups = self.lawn.groups().filter(|groups| groups.has_logs());
        if groups.is_some_and(|groups| groups.is_behind(clock::now())) {
            // The next look finds out what groups may give out.
            return self.lawn.iter().next().map(|(_, first)| first.deadline);
        }
        let next = self.lawn.next_deadline()?;
        let is_never = self.tracking.has_stuck() || !self.lawn.group_rules().is_empty();
        (next != STUCK || !is_never).then_some(next)
    }

    /// Returns the dehydrator's own work.
    pub fn own_work(&self, now: u64) -> OwnWork {
        let occurs = self.next_occurrence(now);
        match self.rules().pause {
            // The module ends the pause.
            Some(pause) => OwnWork {
                next: pause.end(),
                delivers: true,
                waits_for_room: false,
                expires: None,
                occurs,
            },
            None => {
                let next = self.lawn.next_deadline();
                let sends = self.sends_first(now);
                let from = match &self.rules().limits {
                    None => 0,
                    Some(_) if sends => self.delivery_rate().map_or(0, |rate| rate.next(now)),
                    Some(_) => self.room_from(now),
                };
                let is_due = matches!(next, Some(next) if next <= now);
                // What has its turn before a dead letter may not be due after a step back, and the dead letter be.
                let waits_for_turn =
                    self.rules().policy.limits_deliveries() && self.lawn.has_groups();
                let waits_for_room =
                    (from > now && is_due) || waits_for_turn || !self.lawn.group_rules().is_empty();
                // No deadline stays none.
                let next = next.max(next.and(Some(from)));
                let expires = self.lawn.first_expiry().filter(|moment| *moment != STUCK);
                OwnWork { next, delivers: sends, waits_for_room, expires, occurs }
            }
        }
    }

    /// Returns when a blocked client could be served. Fails with [`Error::DELIVERED`] if none ever can, because due elements are
    /// delivered elsewhere.
    pub fn outlook(&self) -> Result<Option<u64>> {
        match self.rules().policy {
            Policy::Send(_) => Err(Error::DELIVERED),
            // A dead letter is first. A client can be served after it is moved.
            Policy::HoldDeliveries { .. } if self.sends_first(clock::now()) => Ok(None),
            _ => Ok(self.next()),
        }
    }

    /// Returns the first elements that POLL gives out at `now`, in order: the due ones, without dead letters.
    pub fn given_out(&self, now: u64, count: usize) -> impl Iterator<Item = (u64, Element<'_>)> {
        let count = if self.rules().is_paused(now) { 0 } else { count.min(self.room(now)) };
        let policy = Some(&self.rules().policy).filter(|_| self.may_have_dead());
        let passed_over = if policy.is_some() { DEAD_LETTERS_MAX } else { 0 };
        let due = self.lawn.iter_until(now).take(count.saturating_add(passed_over));
        let is_dead =
            move |element: &Element<'_>| policy.is_some_and(|it| it.is_dead(element, now));
        due.filter(move |(_, element)| !is_dead(element)).take(count)
    }

    /// Returns whether due elements may leave in the place of being given out: exhausted or expired ones.
    #[inline]
    pub fn may_have_dead(&self) -> bool {
        self.rules().policy.limits_deliveries() || self.lawn.first_expiry().is_some()
    }

    /// Returns whether the policy sends the first element when it comes due. An expired element that is dropped leaves for
    /// another reason.
    pub fn sends_first(&self, now: u64) -> bool {
        match &self.rules().policy {
            Policy::Hold => false,
            Policy::Send(_) => true,
            limit @ Policy::HoldDeliveries { .. } => {
                // Without groups the first of all is next, due or not.
                let next = if self.lawn.has_groups() { self.lawn.next_in_turn(now) } else { None };
                let first = match next {
                    Some(row) => Some(row.element),
                    None => self.lawn.first(),
                };
                matches!(first, Some(first) if limit.is_dead(&first, now))
            }
        }
    }
}
