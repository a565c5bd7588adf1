//! A list that grows a shelf at a time: nothing is moved but the list of shelves.

use super::super::memory::{Mover, allotted, push_tight, relocate};
use super::super::tiny::TINY;

/// Items on a shelf.
const SHELF: usize = if TINY { 4 } else { 256 };

/// Items by number.
#[derive(Clone)]
pub struct Shelves<T> {
    shelves: Vec<Vec<T>>,
    len: usize,
}

impl<T> Shelves<T> {
    pub fn new() -> Self {
        Self { shelves: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub fn get(&self, number: usize) -> &T {
        &self.shelves[number / SHELF][number % SHELF]
    }

    #[inline(always)]
    pub fn get_mut(&mut self, number: usize) -> &mut T {
        &mut self.shelves[number / SHELF][number % SHELF]
    }

    /// Adds an item behind the others.
    pub fn push(&mut self, item: T) {
        if self.len.is_multiple_of(SHELF) {
            // The first shelf grows as a vector does, from one place on: most lawns are small.
            let places = if self.len == 0 { 1 } else { SHELF };
            push_tight(&mut self.shelves, Vec::with_capacity(places));
        }
        let last = self.shelves.last_mut().expect("there is a shelf with room");
        last.push(item);
        self.len += 1;
    }

    #[cfg(any(test, feature = "checks"))]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.shelves.iter().flatten()
    }

    pub fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.shelves, mover);
        self.shelves.iter_mut().for_each(|shelf| relocate(shelf, mover));
    }

    /// Takes it apart, to be freed a shelf at a time.
    pub fn into_shelves(self) -> impl Iterator<Item = Vec<T>> {
        self.shelves.into_iter()
    }

    /// Returns the bytes allocated, its own fields apart. O(shelves).
    pub fn memory(&self) -> usize {
        self.shelves.iter().map(allotted).sum::<usize>() + allotted(&self.shelves)
    }
}
