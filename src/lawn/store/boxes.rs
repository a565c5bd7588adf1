//! What is too long for a page: byte strings with an allocation each, by number.

use super::super::memory::{Mover, allotted, relocate};
use super::shelves::Shelves;

#[derive(Clone)]
enum Place {
    Taken(Vec<u8>),
    /// The number of the place that is vacant after this one.
    Vacant(Option<u32>),
}

/// Byte strings by number.
#[derive(Clone)]
pub struct Boxes {
    places: Shelves<Place>,
    vacant: Option<u32>,
    taken: usize,
    /// Bytes allocated for what is in the places.
    bytes: usize,
}

impl Boxes {
    pub fn new() -> Self {
        Self { places: Shelves::new(), vacant: None, taken: 0, bytes: 0 }
    }

    /// Puts bytes away under a number. `None` when there are 2^32.
    pub fn insert(&mut self, bytes: Vec<u8>) -> Option<u32> {
        let number = match self.vacant {
            Some(number) => number,
            None => u32::try_from(self.places.len()).ok()?,
        };
        self.taken += 1;
        self.bytes += allotted(&bytes);
        if self.vacant.is_some() {
            let place = self.places.get_mut(number as usize);
            let Place::Vacant(next) = std::mem::replace(place, Place::Taken(bytes)) else {
                unreachable!("a vacant place is taken");
            };
            self.vacant = next;
        } else {
            self.places.push(Place::Taken(bytes));
        }
        Some(number)
    }

    pub fn get(&self, number: u32) -> &[u8] {
        match self.places.get(number as usize) {
            Place::Taken(bytes) => bytes,
            Place::Vacant(_) => panic!("box {number} is vacant"),
        }
    }

    pub fn remove(&mut self, number: u32) {
        let place = self.places.get_mut(number as usize);
        let Place::Taken(bytes) = std::mem::replace(place, Place::Vacant(self.vacant)) else {
            panic!("box {number} is freed twice");
        };
        self.vacant = Some(number);
        self.taken -= 1;
        self.bytes -= allotted(&bytes);
        if self.taken == 0 {
            *self = Self::new();
        }
    }

    /// Returns whether nothing is in a box.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns how many numbers there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Moves the list of places.
    pub fn defrag(&mut self, mover: &mut impl Mover) {
        self.places.defrag(mover);
    }

    /// Moves what is in a place.
    pub fn defrag_box(&mut self, number: usize, mover: &mut impl Mover) {
        if let Place::Taken(bytes) = self.places.get_mut(number) {
            relocate(bytes, mover);
        }
    }

    /// Takes it apart, to be freed some hundreds at a time.
    pub fn into_shelves(self) -> impl Iterator<Item = impl Sized> {
        self.places.into_shelves()
    }

    /// Returns the bytes allocated, its own fields apart. O(shelves).
    pub fn memory(&self) -> usize {
        self.bytes + self.places.memory()
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub fn allocations(&self) -> usize {
        self.taken
    }

    /// Panics unless counts and the chain of vacant places agree. Returns how many boxes there are.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) -> usize {
        let taken = |place: &&Place| matches!(place, Place::Taken(_));
        assert_eq!(self.places.iter().filter(taken).count(), self.taken);
        let next = |number: &u32| match self.places.get(*number as usize) {
            Place::Vacant(next) => *next,
            Place::Taken(_) => panic!("box {number} is taken and vacant"),
        };
        let vacant = std::iter::successors(self.vacant, next).take(self.places.len() + 1).count();
        assert_eq!(self.taken + vacant, self.places.len());
        self.taken
    }
}
