//! Allocation helpers: sizes as the allocator rounds them, growing, shrinking and moving vectors.

use std::collections::BTreeMap;

use super::work;

/// Moves allocations to where the allocator prefers them (active defragmentation).
pub trait Mover {
    /// Returns the same items, in the same or another allocation.
    fn relocate<T>(&mut self, items: Vec<T>) -> Vec<T>;

    /// Returns the same item, in the same or another allocation.
    fn relocate_box<T>(&mut self, item: Box<T>) -> Box<T>;
}

/// Moves one vector.
pub(super) fn relocate<T>(items: &mut Vec<T>, mover: &mut impl Mover) {
    *items = mover.relocate(std::mem::take(items));
}

/// A pass over all allocations in numbered steps. It can stop after any of them, and another pass resumes there.
pub struct Steps<'a, M> {
    mover: &'a mut M,
    go_on: &'a mut dyn FnMut() -> bool,
    /// The steps before this one are skipped.
    from: usize,
    /// The number of the next step.
    at: usize,
    is_over: bool,
}

impl<'a, M: Mover> Steps<'a, M> {
    /// Starts a pass at step `from`, which goes on for as long as `go_on` returns true.
    pub fn new(from: usize, mover: &'a mut M, go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self { mover, go_on, from, at: 0, is_over: false }
    }

    /// Moves something in one step.
    pub fn one(&mut self, part: impl FnOnce(&mut M)) {
        if self.at >= self.from && !self.is_over {
            part(self.mover);
            self.is_over = !(self.go_on)();
            self.from = self.at + 1;
        }
        self.at += 1;
    }

    /// Moves something for each item, in a step each. Skips earlier steps at once.
    pub fn each<T>(&mut self, items: &mut [T], mut part: impl FnMut(&mut T, &mut M)) {
        let start = self.at;
        for (number, item) in items.iter_mut().enumerate().skip(self.from.saturating_sub(start)) {
            self.at = start + number;
            self.one(|mover| part(item, mover));
            if self.is_over {
                break;
            }
        }
        self.at = start + items.len();
    }

    /// Moves vectors that have keys, in a step for each possible key: those that come and go do not shift the others.
    pub fn each_by_key<T>(&mut self, items: &mut BTreeMap<u32, Vec<T>>) {
        let start = self.at;
        let end = start + u32::MAX as usize + 1;
        self.at = end;
        let Ok(from) = u32::try_from(self.from.saturating_sub(start)) else { return };
        if self.is_over {
            return;
        }
        for (key, item) in items.range_mut(from..) {
            self.at = start + *key as usize;
            self.one(|mover| relocate(item, mover));
            if self.is_over {
                return;
            }
        }
        self.at = end;
    }

    /// Returns the step to resume at, or `None` at the end.
    pub fn resume_at(&self) -> Option<usize> {
        self.is_over.then_some(self.from)
    }
}

/// Appends an item. The first item reserves room for one, not for the four of `Vec::push`, because most lawns are
/// small.
pub(super) fn push_tight<T>(items: &mut Vec<T>, item: T) {
    if items.is_empty() {
        items.reserve_exact(1);
    }
    if items.len() == items.capacity() {
        work::move_items::<T>(items.len());
    }
    items.push(item);
}

/// Returns the bytes that the allocator uses for a vector.
pub(super) fn allotted<T>(items: &Vec<T>) -> usize {
    rounded(items.capacity() * size_of::<T>())
}

/// Returns the bytes that a tree of the standard library takes, without the struct itself. Its nodes have room for eleven
/// items. If items were inserted in order, a node has six, and there is one more above it.
pub fn tree_bytes<T>(items: usize) -> usize {
    let leaf = 11 * size_of::<T>() + 16;
    let leaves = if items <= 11 { items.min(1) } else { items.div_ceil(7) };
    let above = if leaves > 1 { leaves.div_ceil(7) } else { 0 };
    leaves * rounded(leaf) + above * rounded(leaf + 12 * size_of::<usize>())
}

/// Shrinks a vector to twice its length if it uses less than a quarter of its capacity.
pub(super) fn shrink<T>(items: &mut Vec<T>) {
    if items.len() * 4 < items.capacity() {
        work::move_items::<T>(items.len());
        items.shrink_to(items.len() * 2);
    }
}

/// Returns the size that the allocator uses for a request of `bytes`. jemalloc has four size classes per doubling, and
/// steps of eight bytes below. The rounding matters for the smallest lawns only.
pub fn rounded(bytes: usize) -> usize {
    let doubling = bytes.saturating_sub(1).checked_ilog2().unwrap_or(0);
    bytes.next_multiple_of(1 << doubling.saturating_sub(2).max(3))
}

/// Movers for tests.
#[cfg(test)]
pub(super) mod moved {
    use super::{Mover, rounded};

    /// Moves nothing, and counts the bytes that could be moved, as the allocator rounds them.
    pub struct Count(pub usize);

    impl Mover for Count {
        fn relocate<T>(&mut self, items: Vec<T>) -> Vec<T> {
            self.0 += rounded(items.capacity() * size_of::<T>());
            items
        }

        fn relocate_box<T>(&mut self, item: Box<T>) -> Box<T> {
            self.0 += rounded(size_of::<T>());
            item
        }
    }

    /// Moves every allocation.
    pub struct MoveAll;

    impl Mover for MoveAll {
        fn relocate<T>(&mut self, items: Vec<T>) -> Vec<T> {
            let mut moved = Vec::with_capacity(items.capacity());
            moved.extend(items);
            moved
        }

        fn relocate_box<T>(&mut self, item: Box<T>) -> Box<T> {
            Box::new(*item)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_by_the_allocator() {
        let sizes = [(0, 0), (1, 8), (43, 48), (64, 64), (65, 80), (128, 128), (129, 160)];
        for (bytes, size) in sizes.into_iter().chain([(1376, 1536), (4096, 4096), (4097, 5120)]) {
            assert_eq!(rounded(bytes), size, "{bytes}");
        }
    }
}
