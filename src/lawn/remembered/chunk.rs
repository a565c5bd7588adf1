//! Some remembered ids, one behind the other, as they came:
//!
//! ```text
//!   until, in milliseconds after the chunk's base   4
//!   length, and what it is                          2     bit 15: it is gone; bit 14: it is in a box
//!   the id; or the number of its box                      up to a whole number of units of 4
//! ```

use super::super::memory::{Mover, allotted, relocate};
use super::super::tiny::TINY;

/// Bytes in a full chunk.
pub(super) const CHUNK_BYTES: usize = if TINY { 64 } else { 4096 };
/// Bytes in a unit: entries begin at whole ones.
pub(super) const UNIT: usize = 4;
/// A pile's first chunk begins with so many bytes, and doubles.
const FIRST_BYTES: usize = 64;

const HEAD: usize = 6;
const GONE: u16 = 1 << 15;
const BOXED: u16 = 1 << 14;
const LENGTH: u16 = BOXED - 1;
/// The longest id that lies in a chunk. A longer one has a box.
const INLINE_MAX: usize = CHUNK_BYTES / 4 - HEAD;
const _: () = assert!(INLINE_MAX <= LENGTH as usize);

/// "No chunk".
pub(super) const NIL: u32 = u32::MAX;

/// What stands for an id in a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content<'a> {
    Id(&'a [u8]),
    /// It is in the box of that number.
    Boxed(u32),
}

impl Content<'_> {
    /// Returns whether an id of that length is to have a box.
    pub(super) fn is_long(id: &[u8]) -> bool {
        id.len() > INLINE_MAX
    }

    /// Returns how many bytes it takes in a chunk.
    pub(super) fn width(&self) -> usize {
        let length = match self {
            Self::Id(id) => id.len(),
            Self::Boxed(_) => size_of::<u32>(),
        };
        (HEAD + length).next_multiple_of(UNIT)
    }
}

/// An id in a chunk.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) until: u64,
    pub(super) content: Content<'a>,
    is_gone: bool,
}

pub(super) struct Chunk {
    /// What the moments in it count from.
    base: u64,
    /// None of them was later than this.
    latest: u64,
    bytes: Vec<u8>,
    /// Where the first one is that is not gone. There is one, but in a chunk that is vacant or new.
    front: u16,
    /// Bytes of those that are not gone, and how many they are.
    live: u16,
    count: u16,
    /// Neighbours in its pile; `next` also links vacant numbers.
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) pile: u8,
}

impl Clone for Chunk {
    /// Copies it, with the memory that it has: that is counted.
    fn clone(&self) -> Self {
        let mut bytes = Vec::with_capacity(self.bytes.capacity());
        bytes.extend_from_slice(&self.bytes);
        Self { bytes, ..*self }
    }
}

impl Chunk {
    /// Makes one without memory.
    pub(super) fn vacant(next: u32) -> Self {
        let (base, latest) = (0, 0);
        Self {
            base,
            latest,
            bytes: Vec::new(),
            front: 0,
            live: 0,
            count: 0,
            prev: NIL,
            next,
            pile: 0,
        }
    }

    /// Makes an empty one for moments from `base` on. `is_first`: of its pile.
    pub(super) fn new(base: u64, pile: u8, prev: u32, is_first: bool) -> Self {
        let bytes = if is_first { FIRST_BYTES.min(CHUNK_BYTES) } else { CHUNK_BYTES };
        Self { base, bytes: Vec::with_capacity(bytes), pile, prev, ..Self::vacant(NIL) }
    }

    /// Returns whether there is room behind the others for one more.
    pub(super) fn takes(&self, until: u64, content: &Content<'_>) -> bool {
        self.covers(until) && self.bytes.len() + content.width() <= CHUNK_BYTES
    }

    fn covers(&self, until: u64) -> bool {
        until.checked_sub(self.base).is_some_and(|ms| u32::try_from(ms).is_ok())
    }

    /// Adds one more. Returns in which unit it begins.
    pub(super) fn push(&mut self, until: u64, content: &Content<'_>) -> u32 {
        debug_assert!(self.takes(until, content));
        let (at, width) = (self.bytes.len(), content.width());
        if at + width > self.bytes.capacity() {
            let bytes = (at + width).next_power_of_two().min(CHUNK_BYTES);
            self.bytes.reserve_exact(bytes - at);
        }
        let (flags, number);
        let bytes = match content {
            Content::Id(id) => {
                flags = id.len() as u16;
                *id
            }
            Content::Boxed(boxed) => {
                flags = BOXED | size_of::<u32>() as u16;
                number = boxed.to_le_bytes();
                &number[..]
            }
        };
        self.bytes.extend_from_slice(&((until - self.base) as u32).to_le_bytes());
        self.bytes.extend_from_slice(&flags.to_le_bytes());
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(at + width, 0);
        self.latest = self.latest.max(until);
        self.live += width as u16;
        self.count += 1;
        (at / UNIT) as u32
    }

    pub(super) fn entry(&self, unit: u32) -> Entry<'_> {
        self.entry_at(unit as usize * UNIT)
    }

    fn entry_at(&self, at: usize) -> Entry<'_> {
        let entry = &self.bytes[at..];
        let (ms, rest) = entry.split_first_chunk().expect("a head");
        let (flags, rest) = rest.split_first_chunk().expect("a head");
        let flags = u16::from_le_bytes(*flags);
        let bytes = &rest[..usize::from(flags & LENGTH)];
        let content = match bytes.first_chunk() {
            Some(number) if flags & BOXED != 0 => Content::Boxed(u32::from_le_bytes(*number)),
            _ => Content::Id(bytes),
        };
        let until = self.base + u64::from(u32::from_le_bytes(*ms));
        Entry { until, content, is_gone: flags & GONE != 0 }
    }

    /// Takes out the one that begins in that unit.
    pub(super) fn remove(&mut self, unit: u32) {
        let at = unit as usize * UNIT;
        self.live -= self.entry_at(at).content.width() as u16;
        self.count -= 1;
        self.bytes[at + HEAD - 1] |= (GONE >> 8) as u8;
        while let Some(entry) = self.front().filter(|entry| entry.is_gone) {
            self.front += entry.content.width() as u16;
        }
    }

    fn front(&self) -> Option<Entry<'_>> {
        (usize::from(self.front) < self.bytes.len()).then(|| self.entry_at(self.front.into()))
    }

    /// Returns the first one, and its unit.
    pub(super) fn first(&self) -> Option<(u32, Entry<'_>)> {
        Some((u32::from(self.front) / UNIT as u32, self.front()?))
    }

    /// Shows those that are not gone, each with its unit.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, Entry<'_>)> {
        let mut at = usize::from(self.front);
        let all = std::iter::from_fn(move || {
            let entry = (at < self.bytes.len()).then(|| self.entry_at(at))?;
            let unit = (at / UNIT) as u32;
            at += entry.content.width();
            Some((unit, entry))
        });
        all.filter(|(_, entry)| !entry.is_gone)
    }

    /// Returns a moment that none of them is later than.
    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.count.into()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns whether most of it is gone, or not filled.
    pub(super) fn is_sparse(&self) -> bool {
        usize::from(self.live) < CHUNK_BYTES / 3
    }

    /// Returns a chunk with what is in this one and in `next`, if there is room for that: a quarter stays free, or what
    /// comes and goes would have them put together again and again.
    pub(super) fn with(&self, next: &Self) -> Option<Self> {
        if usize::from(self.live) + usize::from(next.live) > CHUNK_BYTES * 3 / 4 {
            return None;
        }
        let moments = || [self, next].into_iter().flat_map(Self::entries);
        let base = moments().map(|(_, entry)| entry.until).min()?;
        let mut both = Self::new(base, self.pile, self.prev, false);
        both.next = next.next;
        if !moments().all(|(_, entry)| both.covers(entry.until)) {
            return None;
        }
        moments().for_each(|(_, entry)| _ = both.push(entry.until, &entry.content));
        Some(both)
    }

    pub(super) fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.bytes, mover);
    }

    /// Returns the bytes allocated for what is in it.
    pub(super) fn memory(&self) -> usize {
        allotted(&self.bytes)
    }

    /// Panics unless what it counts is true.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) {
        let live: usize = self.entries().map(|(_, entry)| entry.content.width()).sum();
        assert_eq!(usize::from(self.live), live, "bytes in use");
        assert_eq!(self.len(), self.entries().count(), "how many there are");
        assert!(self.front().is_none_or(|entry| !entry.is_gone), "the front is gone");
    }
}
