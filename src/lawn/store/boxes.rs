//! Byte strings that are too long for a page, each in an allocation of its own, by number.

use super::super::memory::{ChunkedVec, Mover, allotted, relocate};

#[derive(Clone)]
enum BoxSlot {
    Taken(Vec<u8>),
    /// The next vacant number.
    Vacant(Option<u32>),
}

/// Byte strings by number.
#[derive(Clone)]
pub struct Boxes {
    slots: ChunkedVec<BoxSlot>,
    vacant: Option<u32>,
    taken: usize,
    /// Bytes allocated for the byte strings.
    bytes: usize,
}

impl Boxes {
    pub fn new() -> Self {
        Self { slots: ChunkedVec::new(), vacant: None, taken: 0, bytes: 0 }
    }

    /// Stores bytes and returns their number. `None` when all 2^32 numbers are in use.
    pub fn insert(&mut self, bytes: Vec<u8>) -> Option<u32> {
        let number = match self.vacant {
            Some(number) => number,
            None => u32::try_from(self.slots.len()).ok()?,
        };
        self.taken += 1;
        self.bytes += allotted(&bytes);
        if self.vacant.is_some() {
            let slot = self.slots.get_mut(number as usize);
            let BoxSlot::Vacant(next) = std::mem::replace(slot, BoxSlot::Taken(bytes)) else {
                unreachable!("a vacant box is taken");
            };
            self.vacant = next;
        } else {
            self.slots.push(BoxSlot::Taken(bytes));
        }
        Some(number)
    }

    pub fn get(&self, number: u32) -> &[u8] {
        match self.slots.get(number as usize) {
            BoxSlot::Taken(bytes) => bytes,
            BoxSlot::Vacant(_) => panic!("box {number} is vacant"),
        }
    }

    pub fn remove(&mut self, number: u32) {
        let slot = self.slots.get_mut(number as usize);
        let BoxSlot::Taken(bytes) = std::mem::replace(slot, BoxSlot::Vacant(self.vacant)) else {
            panic!("box {number} is freed twice");
        };
        self.vacant = Some(number);
        self.taken -= 1;
        self.bytes -= allotted(&bytes);
        if self.taken == 0 {
            *self = Self::new();
        }
    }

    /// Returns whether all boxes are vacant.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns the number of boxes, including vacant ones.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Moves the list of boxes.
    pub fn defrag(&mut self, mover: &mut impl Mover) {
        self.slots.defrag(mover);
    }

    /// Moves the bytes of a box.
    pub fn defrag_box(&mut self, number: usize, mover: &mut impl Mover) {
        if let BoxSlot::Taken(bytes) = self.slots.get_mut(number) {
            relocate(bytes, mover);
        }
    }

    /// Takes the list apart, to free some hundreds of boxes at a time.
    pub fn into_chunks(self) -> impl Iterator<Item = impl Sized> {
        self.slots.into_chunks()
    }

    /// Returns the bytes allocated, without the struct itself. O(chunks).
    pub fn memory(&self) -> usize {
        self.bytes + self.slots.memory()
    }

    /// Returns roughly how many allocations dropping it frees. O(1).
    pub fn allocations(&self) -> usize {
        self.taken
    }

    /// Panics unless the counts and the chain of vacant boxes agree. Returns the number of boxes in use.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) -> usize {
        let taken = |slot: &&BoxSlot| matches!(slot, BoxSlot::Taken(_));
        assert_eq!(self.slots.iter().filter(taken).count(), self.taken);
        let next = |number: &u32| match self.slots.get(*number as usize) {
            BoxSlot::Vacant(next) => *next,
            BoxSlot::Taken(_) => panic!("box {number} is taken and vacant"),
        };
        let vacant = std::iter::successors(self.vacant, next).take(self.slots.len() + 1).count();
        assert_eq!(self.taken + vacant, self.slots.len());
        self.taken
    }
}
