//! Remembered ids in the order of their moments.
//!
//! Nearly all come in that order already: each is remembered for as long as the one before. So they lie as they came, on a
//! *pile*: a list of chunks, to whose end they are added and at whose front they are forgotten. A shorter time, or a clock that
//! steps back, would bury what goes early under what goes late. Such an id goes to another pile, the one whose last moment
//! is the nearest before its own, or to a new one (patience sorting: as many piles as moments ever fell in a row). There are
//! [`PILES_MAX`] of them; past that an id lies on the pile where it is buried least, and goes when what covers it has gone.
//!
//! What is taken out of the middle leaves a hole. Two chunks that are nearly empty become one, as leaves of a B-tree do.

use super::super::memory::Mover;
use super::super::store::Shelves;
use super::super::tiny::TINY;
use super::chunk::{Chunk, Content, Entry, NIL};
use super::place::{CHUNKS_MAX, Place};

const PILES_MAX: usize = if TINY { 3 } else { 16 };

#[derive(Clone)]
struct Pile {
    /// The chunk in which the first one is; [`NIL`] if there is none.
    first: u32,
    last: u32,
    /// The latest moment that was put on it.
    latest: u64,
}

impl Pile {
    const EMPTY: Self = Self { first: NIL, last: NIL, latest: 0 };

    fn is_empty(&self) -> bool {
        self.first == NIL
    }
}

#[derive(Clone)]
pub(super) struct Piles {
    chunks: Shelves<Chunk>,
    /// The first vacant number of a chunk.
    vacant: u32,
    taken: usize,
    piles: Vec<Pile>,
    /// Bytes allocated for what is in the chunks.
    bytes: usize,
}

impl Piles {
    pub(super) fn new() -> Self {
        Self { chunks: Shelves::new(), vacant: NIL, taken: 0, piles: Vec::new(), bytes: 0 }
    }

    fn chunk(&self, number: u32) -> &Chunk {
        self.chunks.get(number as usize)
    }

    fn chunk_mut(&mut self, number: u32) -> &mut Chunk {
        self.chunks.get_mut(number as usize)
    }

    #[inline]
    pub(super) fn entry(&self, place: Place) -> Entry<'_> {
        self.chunk(place.chunk).entry(place.unit)
    }

    /// Returns whether there may be no room for one more: there are as many chunks as can be named, and another may be
    /// needed.
    pub(super) fn is_full(&self) -> bool {
        self.taken >= CHUNKS_MAX
    }

    /// Adds one more. There must be room.
    pub(super) fn insert(&mut self, until: u64, content: &Content<'_>) -> Place {
        let pile = self.pile_for(until);
        let last = self.piles[pile].last;
        let chunk = if last != NIL && self.chunk(last).takes(until, content) {
            last
        } else {
            self.add_chunk(until, pile)
        };
        let filled = self.chunk_mut(chunk);
        let before = filled.memory();
        let unit = filled.push(until, content);
        let after = filled.memory();
        self.bytes += after - before;
        let pile = &mut self.piles[pile];
        pile.latest = pile.latest.max(until);
        Place { chunk, unit }
    }

    /// Returns the pile to put this moment on.
    fn pile_for(&mut self, until: u64) -> usize {
        let piles = || self.piles.iter().enumerate().filter(|(_, pile)| !pile.is_empty());
        let below = piles().filter(|(_, pile)| pile.latest <= until);
        if let Some((number, _)) = below.max_by_key(|(_, pile)| pile.latest) {
            return number;
        }
        if let Some(number) = self.piles.iter().position(Pile::is_empty) {
            return number;
        }
        if self.piles.len() < PILES_MAX {
            self.piles.reserve_exact(1);
            self.piles.push(Pile::EMPTY);
            return self.piles.len() - 1;
        }
        let least = piles().min_by_key(|(_, pile)| pile.latest);
        least.expect("there are piles").0
    }

    /// Adds a chunk for moments from `base` on to the end of a pile.
    fn add_chunk(&mut self, base: u64, pile: usize) -> u32 {
        let last = self.piles[pile].last;
        let new = Chunk::new(base, pile as u8, last, last == NIL);
        self.bytes += new.memory();
        self.taken += 1;
        let number = if self.vacant == NIL {
            self.chunks.push(new);
            self.chunks.len() as u32 - 1
        } else {
            let number = self.vacant;
            self.vacant = std::mem::replace(self.chunk_mut(number), new).next;
            number
        };
        if last == NIL {
            self.piles[pile] = Pile { first: number, last: number, latest: base };
        } else {
            self.chunk_mut(last).next = number;
            self.piles[pile].last = number;
        }
        number
    }

    /// Takes one out, and its chunk if that is empty then.
    pub(super) fn remove(&mut self, place: Place) {
        let chunk = self.chunk_mut(place.chunk);
        chunk.remove(place.unit);
        if chunk.is_empty() {
            drop(self.free_chunk(place.chunk));
        }
    }

    /// Takes a chunk out of its pile. Returns what was in it.
    fn free_chunk(&mut self, number: u32) -> Chunk {
        let vacant = Chunk::vacant(self.vacant);
        let chunk = std::mem::replace(self.chunk_mut(number), vacant);
        self.vacant = number;
        self.taken -= 1;
        self.bytes -= chunk.memory();
        let pile = usize::from(chunk.pile);
        match chunk.prev {
            NIL => self.piles[pile].first = chunk.next,
            prev => self.chunk_mut(prev).next = chunk.next,
        }
        match chunk.next {
            NIL => self.piles[pile].last = chunk.prev,
            next => self.chunk_mut(next).prev = chunk.prev,
        }
        if self.taken == 0 {
            *self = Self::new();
        }
        chunk
    }

    /// Puts a chunk from which something was taken together with a neighbour, if both are nearly empty. Tells of each that
    /// is elsewhere now where it was, where it is, and what it is.
    pub(super) fn merge(&mut self, number: u32, mut moved: impl FnMut(Place, Place, Content<'_>)) {
        // It may have gone.
        let is_there = self.taken > 0 && !self.chunk(number).is_empty();
        if !is_there || !self.chunk(number).is_sparse() {
            return;
        }
        let &Chunk { prev, next, .. } = self.chunk(number);
        for (left, right) in [(number, next), (prev, number)] {
            if left == NIL || right == NIL {
                continue;
            }
            let Some(both) = self.chunk(left).with(self.chunk(right)) else { continue };
            let gone = self.free_chunk(right);
            let before = std::mem::replace(self.chunk_mut(left), both);
            self.bytes -= before.memory();
            self.bytes += self.chunk(left).memory();
            let places = [(left, &before), (right, &gone)].into_iter();
            let places = places.flat_map(|(chunk, entries)| {
                entries.entries().map(move |(unit, _)| Place { chunk, unit })
            });
            for (old, (unit, entry)) in places.zip(self.chunk(left).entries()) {
                moved(old, Place { chunk: left, unit }, entry.content);
            }
            return;
        }
    }

    /// Returns the first of each pile.
    pub(super) fn firsts(&self) -> impl Iterator<Item = (Place, Entry<'_>)> {
        let chunks = self.piles.iter().map(|pile| pile.first).filter(|first| *first != NIL);
        chunks.filter_map(|chunk| {
            let (unit, entry) = self.chunk(chunk).first()?;
            Some((Place { chunk, unit }, entry))
        })
    }

    /// Shows all of each pile, in the order in which they will go.
    pub(super) fn each(&self) -> impl Iterator<Item = impl Iterator<Item = (Place, Entry<'_>)>> {
        self.piles.iter().map(move |pile| {
            let there = |chunk: u32| Some(chunk).filter(|chunk| *chunk != NIL);
            let next = move |at: &u32| there(self.chunk(*at).next);
            std::iter::successors(there(pile.first), next).flat_map(move |chunk| {
                let entries = self.chunk(chunk).entries();
                entries.map(move |(unit, entry)| (Place { chunk, unit }, entry))
            })
        })
    }

    /// Returns how many there are whose time is over at `now`, but for what is buried. Costs O(1) for each chunk of them.
    pub(super) fn over(&self, now: u64) -> usize {
        let mut over = 0;
        for pile in &self.piles {
            let mut at = pile.first;
            while at != NIL {
                let chunk = self.chunk(at);
                let is_over = |(_, entry): &(u32, Entry<'_>)| entry.until <= now;
                let count = if chunk.latest() <= now {
                    chunk.len()
                } else {
                    chunk.entries().take_while(is_over).count()
                };
                over += count;
                at = if count == chunk.len() { chunk.next } else { NIL };
            }
        }
        over
    }

    /// Moves the lists.
    pub(super) fn defrag(&mut self, mover: &mut impl Mover) {
        self.chunks.defrag(mover);
    }

    /// Returns how many numbers of chunks there are.
    pub(super) fn numbers(&self) -> usize {
        self.chunks.len()
    }

    /// Moves what is in a chunk.
    pub(super) fn defrag_chunk(&mut self, number: usize, mover: &mut impl Mover) {
        self.chunks.get_mut(number).defrag(mover);
    }

    /// Takes it apart, to be freed some hundreds of chunks at a time.
    pub(super) fn into_shelves(self) -> impl Iterator<Item = impl Sized> {
        self.chunks.into_shelves()
    }

    /// Returns the bytes allocated, its own fields apart. O(chunks / 256).
    pub(super) fn memory(&self) -> usize {
        self.bytes + self.chunks.memory() + super::super::memory::allotted(&self.piles)
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub(super) fn allocations(&self) -> usize {
        self.taken
    }

    /// Panics unless lists, counts and order agree. Returns how many ids there are.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) -> usize {
        let (mut taken, mut bytes, mut ids) = (0, 0, 0);
        for (number, pile) in self.piles.iter().enumerate() {
            let (mut before, mut at) = (NIL, pile.first);
            while at != NIL {
                let chunk = self.chunk(at);
                chunk.check();
                assert!(!chunk.is_empty(), "an empty chunk was not freed");
                assert_eq!((usize::from(chunk.pile), chunk.prev), (number, before));
                taken += 1;
                bytes += chunk.memory();
                (before, at) = (at, chunk.next);
            }
            assert_eq!(pile.last, before, "the last of a pile");
        }
        assert_eq!((self.taken, self.bytes), (taken, bytes), "chunks, and bytes of them");
        for pile in self.each() {
            ids += pile.count();
        }
        let next = |at: &u32| Some(self.chunk(*at).next).filter(|next| *next != NIL);
        let vacant = Some(self.vacant).filter(|first| *first != NIL);
        let vacant = std::iter::successors(vacant, next).take(self.numbers() + 1).count();
        assert_eq!(taken + vacant, self.numbers(), "numbers of chunks");
        ids
    }
}
