//! The ids that a dehydrator remembers after their elements were removed, so that they are not added again: see
//! REMEMBER.
//!
//! An id is in the lawn or remembered, never both: storing an element forgets its id.

use crate::pending::compaction::Mark;
use crate::pending::id_expiry;
use lawn::{Lawn, Mover, Remembered, rounded};

/// Expired ids to forget for each id that is remembered: more than one, so that expired ids get fewer.
pub(super) const FORGOTTEN_PER_ID: usize = 3;

/// The ids that a dehydrator remembers, if any.
#[derive(Default)]
pub struct RememberedIds(Option<Box<MarkedIds>>);

struct MarkedIds {
    ids: Remembered,
    /// Whether the expiry of the ids is recorded in [`id_expiry`].
    mark: Mark,
}

impl RememberedIds {
    /// Returns the ids, if there are any.
    pub fn ids(&self) -> Option<&Remembered> {
        self.0.as_ref().map(|marked| &marked.ids)
    }

    /// Returns the ids for a change, if there are any.
    pub fn ids_mut(&mut self) -> Option<&mut Remembered> {
        self.0.as_mut().map(|marked| &mut marked.ids)
    }

    /// Remembers an id until `until`, and forgets a few expired ones.
    pub fn remember(&mut self, lawn: &Lawn, id: &[u8], until: u64, now: u64) {
        let ids = self.ids_of(lawn);
        ids.insert(id, until);
        ids.forget(now, FORGOTTEN_PER_ID);
    }

    /// Returns the ids beside this lawn, for adding some. Creates the set if needed.
    pub fn ids_of(&mut self, lawn: &Lawn) -> &mut Remembered {
        let new = || Box::new(MarkedIds { ids: Remembered::beside(lawn), mark: Mark::none() });
        &mut self.0.get_or_insert_with(new).ids
    }

    /// Forgets all ids. They are freed gradually.
    pub fn clear(&mut self) {
        self.0.take().into_iter().for_each(|marked| id_expiry::discard(marked.ids.into_rest()));
    }

    /// Records when the ids expire, under the value's database and key.
    #[inline]
    pub fn note<'a>(&self, name: impl FnOnce() -> (i32, &'a [u8])) {
        if self.0.is_some() {
            let (db, key) = name();
            self.note_from(db, key, 0);
        }
    }

    /// Records when the ids expire, after a visit at `now`: ids that are expired by then are visited at once.
    pub fn note_from(&self, db: i32, key: &[u8], now: u64) {
        if let Some(MarkedIds { ids, mark }) = self.0.as_deref()
            && !mark.is_noted()
            && let Some(next) = ids.next()
        {
            let at = if next <= now { now } else { next.saturating_add(id_expiry::DELAY_MS) };
            id_expiry::note(mark, db, key, at);
        }
    }

    /// Clears the mark after a visit by the recorded name.
    pub fn visited(&self) {
        self.0.iter().for_each(|marked| marked.mark.visited());
    }

    /// Clears the mark: the value has left its name.
    pub fn clear_mark(&self) {
        self.0.iter().for_each(|marked| marked.mark.clear());
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
        let mut marked = self.0.take()?;
        if from == 0 {
            marked = mover.relocate_box(marked);
        }
        self.0.insert(marked).ids.defrag(from, mover, go_on)
    }

    /// Returns the allocated bytes.
    pub fn memory(&self) -> usize {
        let Some(marked) = &self.0 else { return 0 };
        rounded(size_of::<MarkedIds>()) + marked.ids.memory() - size_of::<Remembered>()
    }

    /// Returns the approximate number of allocations that dropping frees.
    pub fn allocations(&self) -> usize {
        self.ids().map_or(0, |ids| 1 + ids.allocations())
    }
}

impl From<Option<Remembered>> for RememberedIds {
    fn from(ids: Option<Remembered>) -> Self {
        Self(ids.map(|ids| Box::new(MarkedIds { ids, mark: Mark::none() })))
    }
}

impl Clone for RememberedIds {
    /// Returns a copy whose expiry is not recorded.
    fn clone(&self) -> Self {
        self.ids().cloned().into()
    }
}
