//! Ids, each remembered until a moment: a lawn of elements without payload, each of which comes due when it is forgotten.
//!
//! All have the TTL 0. Ids whose moments ascend make one queue. All others are in the timeline, where an element of this
//! TTL takes a handle and a deadline, twelve bytes more than in a queue.
//!
//! An operation costs what it costs a [`Lawn`].

use super::error::StartError;
use super::lawn::Lawn;
use super::memory::Mover;
use super::turn::DEADLINE_MAX;

/// Ids, each remembered until a moment, in milliseconds since the epoch.
#[derive(Clone)]
pub struct Remembered(Lawn);

impl Remembered {
    /// Makes one that remembers nothing yet, for ids of elements of this lawn.
    pub fn beside(lawn: &Lawn) -> Self {
        Self(lawn.another())
    }

    /// Returns the number of ids, expired ones that nobody has [forgotten](Self::forget) yet included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of ids that are remembered at `now`. Costs what [`Lawn::count_due`] does.
    pub fn len_at(&self, now: u64) -> usize {
        self.len() - self.0.count_due(now)
    }

    /// Returns the moment until which an id is remembered. It may have passed.
    #[inline]
    pub fn until(&self, id: &[u8]) -> Option<u64> {
        self.0.look(id).map(|element| element.deadline)
    }

    /// Returns whether an id is remembered at `now`.
    pub fn contains(&self, id: &[u8], now: u64) -> bool {
        !self.is_empty() && self.until(id).is_some_and(|until| until > now)
    }

    /// Remembers an id until that moment, [`DEADLINE_MAX`] at the latest, whatever was known of it before. If the lawn is
    /// full, at 32 GiB, the id that would be forgotten next makes room.
    pub fn insert(&mut self, id: &[u8], until: u64) {
        let until = until.min(DEADLINE_MAX);
        // Nearly all are new.
        match self.0.start_at(id, 0, b"", until) {
            Ok(()) => {}
            Err(StartError::Exists) => _ = self.0.restart_at(id, 0, until),
            Err(StartError::Full | StartError::TooLate) => {
                self.forget(u64::MAX, 1);
                // Fails if that one had another width. Then there is no room for this id.
                _ = self.0.start_at(id, 0, b"", until);
            }
        }
    }

    /// Forgets an id. Returns the moment until which it was remembered.
    pub fn remove(&mut self, id: &[u8]) -> Option<u64> {
        let until = self.0.stop(id)?.element().deadline;
        self.shrink();
        Some(until)
    }

    /// Forgets up to `most` ids whose moment has passed at `now`, the earliest first. Returns their number.
    pub fn forget(&mut self, now: u64, most: usize) -> usize {
        let forgotten = self.0.drain(now.min(DEADLINE_MAX), most, |_, _| {});
        self.shrink();
        forgotten
    }

    /// Frees all memory once there is no id left. Most keys remember a burst and then nothing for long.
    fn shrink(&mut self) {
        if self.0.is_empty() && !self.0.is_small() {
            self.0 = self.0.another();
        }
    }

    /// Returns when the next id can be forgotten. It may be in the past.
    pub fn next(&self) -> Option<u64> {
        self.0.next_deadline()
    }

    /// Shows all ids, and until when they are remembered, in that order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.0.iter().map(|(_, element)| (element.deadline, element.id))
    }

    /// Returns whether [`Remembered::compact`] would free memory. O(1).
    pub fn is_sparse(&self) -> bool {
        self.0.is_sparse()
    }

    /// Does what [`Lawn::compact`] does.
    pub fn compact(&mut self, moves: usize) -> bool {
        self.0.compact(moves)
    }

    /// Does what [`Lawn::defrag`] does.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        self.0.defrag(from, mover, go_on)
    }

    /// Forgets all ids, and leaves their memory to the caller, to free it in steps.
    pub fn into_rest(self) -> Rest {
        Rest(self.0.into_rest())
    }

    /// Returns the bytes allocated, its own fields included. Costs what [`Lawn::memory`] does.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Returns about how many allocations dropping it will free. O(1).
    pub fn allocations(&self) -> usize {
        self.0.allocations()
    }

    /// Panics unless all parts agree with each other. For tests.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        self.0.check();
    }
}

/// The memory of ids that were all forgotten at once.
pub struct Rest(Box<dyn Iterator<Item = ()>>);

impl Rest {
    /// Frees some of it: a page, or a table of the index. Returns whether there may be more.
    pub fn free_some(&mut self) -> bool {
        self.0.next().is_some()
    }
}

#[cfg(test)]
mod tests;
