//! The ids that a dehydrator remembers after their elements were removed, so that they are not added again: see
//! REMEMBER.
//!
//! An id is in the lawn or remembered, never both: storing an element forgets its id.

use crate::pending::waste;
use lawn::{Lawn, Mover, Remembered, rounded};

/// Expired ids to forget for each id that is remembered: more than one, so that expired ids get fewer.
pub(super) const FORGOTTEN_PER_ID: usize = 3;

/// The ids that a dehydrator remembers, if any.
#[derive(Clone, Default)]
pub struct RememberedIds(Option<Box<Remembered>>);

impl RememberedIds {
    /// Returns the ids, if there are any.
    pub fn ids(&self) -> Option<&Remembered> {
        self.0.as_deref()
    }

    /// Returns the ids for a change, if there are any.
    pub fn ids_mut(&mut self) -> Option<&mut Remembered> {
        self.0.as_deref_mut()
    }

    /// Remembers an id until `until`, and forgets a few expired ones.
    pub fn remember(&mut self, lawn: &Lawn, id: &[u8], until: u64, now: u64) {
        let ids = self.ids_of(lawn);
        ids.insert(id, until);
        ids.forget(now, FORGOTTEN_PER_ID);
    }

    /// Returns the ids beside this lawn, for adding some. Creates the set if needed.
    pub fn ids_of(&mut self, lawn: &Lawn) -> &mut Remembered {
        self.0.get_or_insert_with(|| Box::new(Remembered::beside(lawn)))
    }

    /// Forgets all ids. They are freed gradually.
    pub fn clear(&mut self) {
        if let Some(ids) = self.0.take() {
            let mut rest = ids.into_rest();
            waste::discard(move || rest.free_some());
        }
    }

    /// Returns whether [`RememberedIds::compact`] would free memory.
    pub fn is_sparse(&self) -> bool {
        self.ids().is_some_and(Remembered::is_sparse)
    }

    /// Gives memory back: see [`Remembered::compact`].
    pub fn compact(&mut self, moves: usize) -> bool {
        self.ids_mut().is_some_and(|ids| ids.compact(moves))
    }

    /// Lets `mover` move the allocations: see [`Remembered::defrag`].
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

    /// Returns the allocated bytes.
    pub fn memory(&self) -> usize {
        let own = rounded(size_of::<Remembered>()) - size_of::<Remembered>();
        self.ids().map_or(0, |ids| own + ids.memory())
    }

    /// Returns the approximate number of allocations that dropping frees.
    pub fn allocations(&self) -> usize {
        self.ids().map_or(0, |ids| 1 + ids.allocations())
    }
}

impl From<Option<Remembered>> for RememberedIds {
    fn from(ids: Option<Remembered>) -> Self {
        Self(ids.map(Box::new))
    }
}
