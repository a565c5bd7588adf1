//! A lawn beside another one, which most keys do not have: of ids, each remembered until a moment, or of schedules, each visited at
//! a moment. Elements of remembered ids have no payload.
//!
//! All have the TTL 0. Elements whose moments ascend make one queue. All others are in the timeline, where an element of this
//! TTL takes a handle and a deadline, twelve bytes more than in a queue.
//!
//! An operation costs what it costs a [`Lawn`].

use super::element::{Element, Row};
use super::error::StartError;
use super::lawn::Lawn;
use super::memory::{Mover, rounded};
use super::rank::{DEADLINE_MAX, Start};

/// Ids, each with a moment in milliseconds since the epoch, and perhaps a payload. `None` without ids: most keys remember none,
/// or a burst and then nothing for long.
#[derive(Clone, Default)]
pub struct Aside(Option<Box<Lawn>>);

impl Aside {
    /// Returns the number of ids, expired ones that nobody has [forgotten](Self::forget) yet included.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ids| ids.len())
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of ids that are remembered at `now`. Costs what [`Lawn::count_due`] does.
    pub fn len_at(&self, now: u64) -> usize {
        self.0.as_ref().map_or(0, |ids| ids.len() - ids.count_due(now))
    }

    /// Returns the moment until which an id is remembered. It may have passed.
    #[inline]
    pub fn until(&self, id: &[u8]) -> Option<u64> {
        self.0.as_ref()?.look(id).map(|element| element.deadline)
    }

    /// Returns whether an id is remembered at `now`.
    #[inline]
    pub fn contains(&self, id: &[u8], now: u64) -> bool {
        self.until(id).is_some_and(|until| until > now)
    }

    /// Remembers an id until that moment, [`DEADLINE_MAX`] at the latest, whatever was known of it before. If the lawn of
    /// ids is full, at 32 GiB, the id that would be forgotten next makes room. `beside` is a lawn with the same `Shared`.
    pub fn insert(&mut self, beside: &Lawn, id: &[u8], until: u64) {
        let until = until.min(DEADLINE_MAX);
        let ids = self.0.get_or_insert_with(|| Box::new(beside.another()));
        // Nearly all are new.
        match ids.start_at(id, 0, b"", until) {
            Ok(()) => {}
            Err(StartError::Exists) => _ = ids.restart_at(id, 0, until),
            Err(StartError::Full | StartError::TooLate) => {
                ids.drain(DEADLINE_MAX, 1, |_, _| {});
                // Fails if that one had another width. Then there is no room for this id.
                _ = ids.start_at(id, 0, b"", until);
            }
        }
    }

    /// Forgets an id. Returns the moment until which it was remembered.
    pub fn remove(&mut self, id: &[u8]) -> Option<u64> {
        let until = self.0.as_mut()?.stop(id)?.element().deadline;
        self.shrink();
        Some(until)
    }

    /// Forgets up to `most` ids whose moment has passed at `now`, the earliest first. Returns their number.
    pub fn forget(&mut self, now: u64, most: usize) -> usize {
        let Some(ids) = &mut self.0 else { return 0 };
        let forgotten = ids.drain(now.min(DEADLINE_MAX), most, |_, _| {});
        self.shrink();
        forgotten
    }

    /// Frees all memory once there is no id left.
    fn shrink(&mut self) {
        self.0.take_if(|ids| ids.is_empty());
    }

    /// Returns when the next id can be forgotten, or is visited. It may be in the past.
    pub fn next(&self) -> Option<u64> {
        self.0.as_ref()?.next_deadline()
    }

    /// Returns the payload of an id.
    pub fn payload(&self, id: &[u8]) -> Option<&[u8]> {
        self.0.as_ref()?.look(id).map(|element| element.payload)
    }

    /// Sets the moment and the payload of an id. `beside` is a lawn with the same `Shared`.
    ///
    /// # Errors
    ///
    /// [`StartError::Full`]; then nothing has changed.
    pub fn set(
        &mut self,
        beside: &Lawn,
        id: &[u8],
        payload: &[u8],
        moment: u64,
    ) -> Result<(), StartError> {
        let lawn = self.0.get_or_insert_with(|| Box::new(beside.another()));
        let set = lawn.replace(0, &Element::new(id, payload, moment.min(DEADLINE_MAX)));
        self.shrink();
        set
    }

    /// Sets the moment of an id, if it is there.
    pub fn postpone(&mut self, id: &[u8], moment: u64) {
        self.0.as_mut().into_iter().for_each(|lawn| _ = lawn.restart_at(id, 0, moment));
    }

    /// Returns the first id whose moment has come at `now`, and its payload.
    pub fn due(&self, now: u64) -> Option<(&[u8], &[u8])> {
        let (_, element) = self.0.as_ref()?.iter_until(now).next()?;
        Some((element.id, element.payload))
    }

    /// Shows the ids and their payloads from `start` on, in the order of their moments.
    pub fn rows(&self, start: Start) -> impl Iterator<Item = Row<'_>> {
        self.0.iter().flat_map(move |lawn| lawn.rows(start, DEADLINE_MAX))
    }

    /// Shows all ids and their payloads, in the order of their moments.
    pub fn payloads(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.rows(Start::FIRST).map(|row| (row.element.id, row.element.payload))
    }

    /// Shows all ids, and until when they are remembered, in that order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let ids = self.0.iter().flat_map(|ids| ids.iter());
        ids.map(|(_, element)| (element.deadline, element.id))
    }

    /// Returns whether [`Aside::compact`] would free memory. O(1).
    pub fn is_sparse(&self) -> bool {
        self.0.as_ref().is_some_and(|ids| ids.is_sparse())
    }

    /// Does what [`Lawn::compact`] does.
    pub fn compact(&mut self, moves: usize) -> bool {
        self.0.as_mut().is_some_and(|ids| ids.compact(moves))
    }

    /// Does what [`Lawn::defrag`] does.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        let mut ids = self.0.take()?;
        if from == 0 {
            ids = mover.relocate_box(ids);
        }
        self.0.insert(ids).defrag(from, mover, go_on)
    }

    /// Returns the bytes allocated. Costs what [`Lawn::memory`] does.
    pub fn memory(&self) -> usize {
        let own = rounded(size_of::<Lawn>()) - size_of::<Lawn>();
        self.0.as_ref().map_or(0, |ids| own + ids.memory())
    }

    /// Returns about how many allocations dropping it will free. O(1).
    pub fn allocations(&self) -> usize {
        self.0.as_ref().map_or(0, |ids| 1 + ids.allocations())
    }

    /// Panics unless all parts agree with each other. For tests.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        assert!(self.0.as_ref().is_none_or(|ids| !ids.is_empty()), "it has no ids");
        self.0.iter().for_each(|ids| ids.check());
    }
}

#[cfg(test)]
mod tests;
