//! What has gone from a dehydrator and is not taken again yet: the ids that it remembers. See REMEMBER.
//!
//! An id is in the lawn or remembered, and never both: what is put away is remembered no more.

use crate::pending::compaction::Mark;
use crate::pending::fading;
use lawn::{Lawn, Mover, Remembered, rounded};

/// Ids that are forgotten for each one that is remembered: more than one, so that there are fewer and fewer whose time is
/// over.
pub(super) const FORGOTTEN: usize = 3;

/// The ids that a dehydrator remembers, if it does.
#[derive(Default)]
pub struct Past(Option<Box<Kept>>);

struct Kept {
    ids: Remembered,
    /// Whether it has been noted that there is something to forget.
    mark: Mark,
}

impl Past {
    /// Returns the ids, if there are any.
    pub fn ids(&self) -> Option<&Remembered> {
        self.0.as_ref().map(|kept| &kept.ids)
    }

    /// Returns them to be changed, if there are any.
    pub fn ids_mut(&mut self) -> Option<&mut Remembered> {
        self.0.as_mut().map(|kept| &mut kept.ids)
    }

    /// Returns whether an id is remembered.
    pub fn contains(&self, id: &[u8], now: u64) -> bool {
        self.ids().is_some_and(|ids| ids.contains(id, now))
    }

    /// Forgets an id.
    #[inline]
    pub fn forget(&mut self, id: &[u8]) {
        self.ids_mut().map(|ids| ids.remove(id));
    }

    /// Remembers an id until that moment.
    pub fn remember(&mut self, lawn: &Lawn, id: &[u8], until: u64, now: u64) {
        let ids = self.ids_of(lawn);
        ids.insert(id, until);
        ids.forget(now, FORGOTTEN);
    }

    /// Returns the ids of what has left this lawn, to add some.
    pub fn ids_of(&mut self, lawn: &Lawn) -> &mut Remembered {
        let new = || Box::new(Kept { ids: Remembered::beside(lawn), mark: Mark::none() });
        &mut self.0.get_or_insert_with(new).ids
    }

    /// Forgets all: they are freed bit by bit.
    pub fn clear(&mut self) {
        self.0.take().into_iter().for_each(|kept| fading::discard(kept.ids.into_rest()));
    }

    /// Notes when there is something to forget, under the name that the value has: its database and its key.
    #[inline]
    pub fn note<'a>(&self, name: impl FnOnce() -> (i32, &'a [u8])) {
        if self.0.is_some() {
            let (db, key) = name();
            self.note_from(db, key, 0);
        }
    }

    /// Notes that too, after it was looked at: what is over by `now` is not put off.
    pub fn note_from(&self, db: i32, key: &[u8], now: u64) {
        if let Some(Kept { ids, mark }) = self.0.as_deref()
            && !mark.is_noted()
            && let Some(next) = ids.next()
        {
            let at = if next <= now { now } else { next.saturating_add(fading::LATER) };
            fading::note(mark, db, key, at);
        }
    }

    /// Says that the value was looked at, by the name that was noted.
    pub fn looked_at(&self) {
        self.0.iter().for_each(|kept| kept.mark.looked_at());
    }

    /// Says that the value has left the name that it had.
    pub fn moved(&self) {
        self.0.iter().for_each(|kept| kept.mark.moved());
    }

    /// Returns whether [`Past::compact`] would free memory.
    pub fn is_sparse(&self) -> bool {
        self.ids().is_some_and(Remembered::is_sparse)
    }

    /// Gives memory back: see [`Remembered::compact`].
    pub fn compact(&mut self, moves: usize) -> bool {
        self.ids_mut().is_some_and(|ids| ids.compact(moves))
    }

    /// Lets `mover` move its allocations: see [`Remembered::defrag`].
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        let mut kept = self.0.take()?;
        if from == 0 {
            kept = mover.relocate_box(kept);
        }
        self.0.insert(kept).ids.defrag(from, mover, go_on)
    }

    /// Returns the bytes allocated.
    pub fn memory(&self) -> usize {
        let Some(kept) = &self.0 else { return 0 };
        rounded(size_of::<Kept>()) + kept.ids.memory() - size_of::<Remembered>()
    }

    /// Returns about how many allocations dropping it will free.
    pub fn allocations(&self) -> usize {
        self.ids().map_or(0, |ids| 1 + ids.allocations())
    }
}

impl From<Option<Remembered>> for Past {
    fn from(ids: Option<Remembered>) -> Self {
        Self(ids.map(|ids| Box::new(Kept { ids, mark: Mark::none() })))
    }
}

impl Clone for Past {
    /// Makes another one, which has not been noted.
    fn clone(&self) -> Self {
        self.ids().cloned().into()
    }
}
