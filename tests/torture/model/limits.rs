//! The model of limits, as simple as possible.

use super::{Dehydrator, Entry, MAX, Policy};

/// See LIMIT; 0 is none.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    pub length: u64,
    pub held: u64,
    /// The number, the window in milliseconds, and the deliveries.
    pub rate: Option<(u64, u64, Given)>,
    /// In milliseconds.
    pub remember: u64,
}

/// The times and sizes of deliveries.
pub type Given = Vec<(u64, u64)>;

impl Limits {
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    pub fn give(&mut self, now: u64, count: u64) {
        if let Some((_, _, given)) = self.rate.as_mut().filter(|_| count > 0) {
            given.push((now, count));
        }
    }

    fn rate_room(&self, now: u64) -> u64 {
        self.rate.as_ref().map_or(MAX, |(most, per, given)| {
            let counts = given.iter().filter(|(at, _)| at + per > now).map(|(_, count)| count);
            most.saturating_sub(counts.sum())
        })
    }
}

impl Entry {
    fn runs(&self, now: u64) -> bool {
        let runs = self.deadline > now && self.deadline < MAX;
        runs && (self.token.is_some() || self.is_drawn)
    }
}

impl Dehydrator {
    /// Returns whether an id is refused because it was completed recently.
    pub fn remembers(&self, id: &[u8], now: u64) -> bool {
        self.remembered.get(id).is_some_and(|until| *until > now)
    }

    /// Remembers an id that was settled, taken or delivered.
    pub fn done(&mut self, id: &[u8], now: u64) {
        if self.limits.remember > 0 {
            let until = now.saturating_add(self.limits.remember).min(MAX);
            self.remembered.insert(id.to_vec(), until);
        }
    }

    /// Returns whether there is no room for another element.
    pub fn is_full(&self) -> bool {
        let most = self.limits.length;
        most > 0 && self.entries.len() as u64 >= most
    }

    pub fn held_room(&self, now: u64) -> u64 {
        let running = self.entries.iter().filter(|entry| entry.runs(now)).count() as u64;
        if self.limits.held == 0 { MAX } else { self.limits.held.saturating_sub(running) }
    }

    /// Returns how many may be delivered.
    pub fn room(&self, now: u64) -> u64 {
        self.held_room(now).min(self.limits.rate_room(now))
    }

    /// Returns how many may be delivered when all windows have ended.
    pub fn room_at_last(&self) -> u64 {
        let held = if self.limits.held == 0 { MAX } else { self.limits.held };
        held.min(self.limits.rate.as_ref().map_or(MAX, |(most, ..)| *most))
    }

    /// Returns how many the server may deliver, and whether they count.
    pub fn deliverable(&self, now: u64) -> u64 {
        let counts = !matches!(self.policy, Policy::Hold | Policy::Limit(..) | Policy::Drop);
        if counts { self.limits.rate_room(now) } else { MAX }
    }

    /// Returns when capacity is free.
    pub fn room_from(&self, now: u64) -> u64 {
        let rate = self.limits.rate.as_ref().map_or(0, |(_, per, given)| {
            let ends = given.iter().map(|(at, _)| at + per);
            let is_enough = |end: &u64| self.limits.rate_room(*end) > 0;
            if self.limits.rate_room(now) > 0 {
                0
            } else {
                ends.filter(is_enough).min().unwrap_or(0)
            }
        });
        let running = self.entries.iter().filter(|entry| entry.runs(now)).map(|it| it.deadline);
        let held = if self.held_room(now) > 0 { 0 } else { running.min().unwrap_or(0) };
        rate.max(held)
    }
}
