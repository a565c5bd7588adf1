//! Ids, each remembered until a moment.
//!
//! ```text
//!   Index: id ─▶ place            (extendible hashing, ten bytes an id; see `index`)
//!                  │
//!                  ▼
//!   Piles: [ until, id | until, id | … ] ─▶ [ … ]      chunks of 4 KiB, in the order of the moments
//! ```
//!
//! A lawn of elements without content would do the same, for 55 bytes and more where an id has 16: it can move an element
//! to any other deadline, count how often it was given out, and list what is due in an exact order. Here it is 24 and the
//! index's ten to fourteen.
//!
//! # Costs
//!
//! | operation | cost |
//! |---|---|
//! | [`Remembered::until`], [`Remembered::insert`] | O(1) |
//! | [`Remembered::remove`] | O(1); now and then the ids of two chunks that are nearly empty, some 130, are put together |
//! | [`Remembered::forget`] | O(1) for each that goes |
//! | [`Remembered::iter`] | O(piles), of which there are 16 at the most, for each |

use ahash::RandomState;

use super::super::index::{IdHash, Index};
use super::super::memory::Mover;
use super::super::store::Boxes;
use super::super::turn::DEADLINE_MAX;
use super::chunk::{Content, Entry};
use super::piles::Piles;
use super::place::Place;

/// Ids, each remembered until a moment, in milliseconds since the epoch.
#[derive(Clone)]
pub struct Remembered {
    index: Index,
    piles: Piles,
    /// Ids that are too long for a chunk.
    long: Boxes,
}

/// Returns the id of an entry.
fn id_of<'a>(long: &'a Boxes, entry: &Entry<'a>) -> &'a [u8] {
    match entry.content {
        Content::Id(id) => id,
        Content::Boxed(number) => long.get(number),
    }
}

impl Remembered {
    /// Makes one that remembers nothing yet. See [`Shared`](super::super::Shared) for the hasher.
    pub fn new(hasher: RandomState) -> Self {
        Self { index: Index::new(hasher), piles: Piles::new(), long: Boxes::new() }
    }

    /// Returns how many ids there are, also those whose time is over and which nobody has [forgotten](Self::forget) yet.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many ids are remembered at `now`. Costs O(1) for each chunk of those whose time is over.
    pub fn len_at(&self, now: u64) -> usize {
        self.len() - self.piles.over(now)
    }

    /// Returns until when an id is remembered. That moment itself may be over.
    #[inline]
    pub fn until(&self, id: &[u8]) -> Option<u64> {
        let Self { index, piles, long } = self;
        let (_, until) = index.find(index.hash(id), |handle| {
            let entry = piles.entry(Place::of(handle));
            (id_of(long, &entry) == id).then_some(entry.until)
        })?;
        Some(until)
    }

    /// Returns whether an id is remembered at `now`.
    pub fn contains(&self, id: &[u8], now: u64) -> bool {
        !self.is_empty() && self.until(id).is_some_and(|until| until > now)
    }

    /// Remembers an id until that moment, [`DEADLINE_MAX`] at the latest, whatever was known of it before. If there are
    /// as many as can be named, 16 GiB of them, one of those that go next is forgotten for it.
    pub fn insert(&mut self, id: &[u8], until: u64) {
        self.remove(id);
        if self.piles.is_full() {
            self.forget(u64::MAX, 1);
        }
        let Self { index, piles, long } = self;
        let mut content = Content::Id(id);
        if Content::is_long(id) {
            // There are fewer than 2^32 of those, or the memory of this machine would be full.
            let Some(number) = long.insert(id.to_vec()) else { return };
            content = Content::Boxed(number);
        }
        let place = piles.insert(until.min(DEADLINE_MAX), &content);
        let vacancy = index.vacancy(index.hash(id), |_| false);
        vacancy.expect("it was taken out").fill(place.handle());
    }

    /// Forgets an id. Returns until when it was remembered.
    pub fn remove(&mut self, id: &[u8]) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let Self { index, piles, long } = self;
        let (handle, until) = index.remove(index.hash(id), |handle| {
            let entry = piles.entry(Place::of(handle));
            (id_of(long, &entry) == id).then_some(entry.until)
        })?;
        let place = Place::of(handle);
        self.free(place);
        let Self { index, piles, long } = self;
        piles.merge(place.chunk, |old, new, content| {
            let hash = hash_of(index, long, content);
            index.replace(hash, old.handle(), new.handle());
        });
        Some(until)
    }

    /// Forgets up to `most` ids whose time is over at `now`. Returns how many.
    pub fn forget(&mut self, now: u64, most: usize) -> usize {
        let mut count = 0;
        while count < most
            && let Some((place, entry)) = self.piles.firsts().min_by_key(|(_, entry)| entry.until)
            && entry.until <= now
        {
            let hash = hash_of(&self.index, &self.long, entry.content);
            self.index.remove_handle(hash, place.handle());
            self.free(place);
            count += 1;
        }
        count
    }

    /// Returns when there is something to forget, or was.
    pub fn next(&self) -> Option<u64> {
        self.piles.firsts().map(|(_, entry)| entry.until).min()
    }

    /// Frees what is out of the index already.
    fn free(&mut self, place: Place) {
        if let Content::Boxed(number) = self.piles.entry(place).content {
            self.long.remove(number);
        }
        self.piles.remove(place);
    }

    /// Shows all ids, and until when they are remembered: in that order, but for what lies [buried](super::piles).
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut piles: Vec<_> = self.piles.each().map(Iterator::peekable).collect();
        let in_order = std::iter::from_fn(move || {
            let nexts = piles.iter_mut().filter_map(|pile| Some((pile.peek()?.1.until, pile)));
            nexts.min_by_key(|(until, _)| *until)?.1.next()
        });
        in_order.map(|(_, entry)| (entry.until, id_of(&self.long, &entry)))
    }

    /// Lets `mover` move the allocations, beginning with step `from`, while `go_on` says so. Returns the step to carry on
    /// with, or `None` at the end.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        mut go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        if from == 0 {
            self.index.defrag(mover);
            self.piles.defrag(mover);
            self.long.defrag(mover);
        }
        let chunks = self.piles.numbers();
        let tables = chunks + self.index.tables();
        let last = tables + self.long.len();
        for step in from..last {
            if step < chunks {
                self.piles.defrag_chunk(step, mover);
            } else if step < tables {
                self.index.defrag_table(step - chunks, mover);
            } else {
                self.long.defrag_box(step - tables, mover);
            }
            if !go_on() {
                return Some(step + 1);
            }
        }
        None
    }

    /// Forgets all, and leaves it to the caller to free that in steps.
    pub fn into_rest(self) -> Rest {
        let Self { index, piles, long } = self;
        let rest = index.into_tables().map(drop).chain(piles.into_shelves().map(drop));
        Rest(Box::new(rest.chain(long.into_shelves().map(drop))))
    }

    /// Returns the bytes allocated, its own fields included. Costs O(tables), one for some thousands of ids.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.index.memory() + self.piles.memory() + self.long.memory()
    }

    /// Returns about how many allocations dropping it will free. O(1).
    pub fn allocations(&self) -> usize {
        self.index.allocations() + self.piles.allocations() + self.long.allocations()
    }

    /// Panics unless all parts agree with each other: each id is in the index once, and where that says. For tests.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        self.index.check(|hash, handle| {
            let entry = self.piles.entry(Place::of(handle));
            let id = id_of(&self.long, &entry);
            hash == self.index.hash(id) && self.until(id) == Some(entry.until)
        });
        assert_eq!(self.piles.check(), self.len(), "piles and index disagree");
        for (place, entry) in self.piles.each().flatten() {
            let hash = self.index.hash(id_of(&self.long, &entry));
            let found = self.index.find(hash, |it| (it == place.handle()).then_some(()));
            assert!(found.is_some(), "what lies at {place:?} is not in the index");
        }
        let is_boxed = |(_, entry): &(Place, Entry<'_>)| matches!(entry.content, Content::Boxed(_));
        let boxed = self.piles.each().flatten().filter(is_boxed).count();
        assert_eq!(self.long.check(), boxed, "boxes");
    }
}

/// What is left of ids that were all forgotten at once.
pub struct Rest(Box<dyn Iterator<Item = ()>>);

impl Rest {
    /// Frees some of it: a table of the index, or some hundreds of chunks. Returns whether there may be more.
    pub fn free_some(&mut self) -> bool {
        self.0.next().is_some()
    }
}

fn hash_of(index: &Index, long: &Boxes, content: Content<'_>) -> IdHash {
    index.hash(match content {
        Content::Id(id) => id,
        Content::Boxed(number) => long.get(number),
    })
}

#[cfg(test)]
mod tests;
