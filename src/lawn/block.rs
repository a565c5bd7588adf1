//! A piece of a queue: thirteen handles in one cache line.
//!
//! Linking the records themselves would cost a miss for each neighbour when one is stopped, and a
//! miss for each step when a queue is walked. In blocks, stopping blanks a place in one line, and a
//! walk reads twelve handles ahead. A record knows its block but not its place in it, so handles may
//! shift within a block without telling anybody.

use super::slab::Handle;

/// Three words of links and counts leave this many words of a 64-byte line.
const PLACES: usize = 13;
/// Two neighbours are joined when this many handles remain in both, so that blocks stay half full on
/// average, and a block that was just joined does not fill up at the next insertion.
const JOINED_MAX: usize = 9;

/// The handles of a block, in order, without the blanks between them.
#[derive(Clone, Copy)]
pub(super) struct Handles {
    items: [Option<Handle>; PLACES + 1],
    len: usize,
}

impl Handles {
    /// There are never more.
    pub(super) const MAX: usize = PLACES + 1;

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Handle> {
        self.items[..self.len].iter().copied().flatten()
    }
}

/// One block of a queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Block {
    pub(super) prev: Option<Handle>,
    pub(super) next: Option<Handle>,
    pub(super) queue: u16,
    /// Places that have been used; those after it are blank.
    end: u8,
    /// Places that are not blank.
    live: u8,
    places: [Option<Handle>; PLACES],
}

impl Block {
    /// An empty block of a queue, between these neighbours.
    pub(super) fn new(queue: u16, prev: Option<Handle>, next: Option<Handle>) -> Self {
        Self { prev, next, queue, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.live.into()
    }

    pub(super) fn first(&self) -> Option<Handle> {
        self.places.iter().copied().flatten().next()
    }

    pub(super) fn last(&self) -> Option<Handle> {
        self.places.iter().copied().flatten().next_back()
    }

    pub(super) fn handles(&self) -> Handles {
        let mut handles = Handles { items: [None; PLACES + 1], len: 0 };
        for place in self.places[..self.end.into()].iter().filter(|place| place.is_some()) {
            handles.items[handles.len] = *place;
            handles.len += 1;
        }
        handles
    }

    /// Adds a handle behind all others, unless the last place is taken.
    pub(super) fn append(&mut self, handle: Handle) -> bool {
        let Some(place) = self.places.get_mut(usize::from(self.end)) else { return false };
        *place = Some(handle);
        self.end += 1;
        self.live += 1;
        true
    }

    /// Puts a handle where `before` others precede it. A full block keeps its first half; the second
    /// half is returned and belongs into a new block behind this one.
    pub(super) fn insert(&mut self, before: usize, handle: Handle) -> Option<Handles> {
        let mut handles = self.handles();
        handles.items.copy_within(before..handles.len, before + 1);
        handles.items[before] = Some(handle);
        handles.len += 1;
        if handles.len <= PLACES {
            self.refill(&handles.items[..handles.len]);
            return None;
        }
        let (kept, moved) = handles.items.split_at(handles.len.div_ceil(2));
        self.refill(kept);
        let mut second = Handles { items: [None; PLACES + 1], len: moved.len() };
        second.items[..moved.len()].copy_from_slice(moved);
        Some(second)
    }

    /// Blanks a handle's place.
    pub(super) fn remove(&mut self, handle: Handle) {
        let place = self.places.iter().position(|place| *place == Some(handle));
        self.places[place.expect("a record's block holds it")] = None;
        self.live -= 1;
        // Blanks at the end can be used again.
        while self.end > 0 && self.places[usize::from(self.end) - 1].is_none() {
            self.end -= 1;
        }
    }

    /// A record has moved, or was replaced.
    pub(super) fn replace(&mut self, old: Handle, new: Handle) {
        let place = self.places.iter_mut().find(|place| **place == Some(old));
        *place.expect("a record's block holds it") = Some(new);
    }

    /// Whether this block is so empty that it should be joined with a neighbour.
    pub(super) fn is_sparse(&self) -> bool {
        self.len() <= JOINED_MAX / 3
    }

    pub(super) fn can_join(&self, other: &Self) -> bool {
        self.len() + other.len() <= JOINED_MAX
    }

    /// Takes in the handles of `earlier`, which precede its own.
    pub(super) fn prepend(&mut self, earlier: &Handles) {
        let mut together = *earlier;
        for handle in self.handles().iter() {
            together.items[together.len] = Some(handle);
            together.len += 1;
        }
        self.refill(&together.items[..together.len]);
    }

    /// Takes in the handles of `later`, which follow its own.
    pub(super) fn extend(&mut self, later: &Handles) {
        let mut together = self.handles();
        for handle in later.iter() {
            together.items[together.len] = Some(handle);
            together.len += 1;
        }
        self.refill(&together.items[..together.len]);
    }

    fn refill(&mut self, handles: &[Option<Handle>]) {
        self.places = [None; PLACES];
        self.places[..handles.len()].copy_from_slice(handles);
        self.end = handles.len() as u8;
        self.live = self.end;
    }
}

// Queues are priced at one cache line for thirteen elements.
const _: () = assert!(size_of::<Block>() == 64);
