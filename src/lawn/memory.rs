//! Allocation helpers: sizes as the allocator rounds them, growing, shrinking and moving vectors.

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

/// Appends an item. The first item reserves room for one, not for the four of `Vec::push`, because most lawns are
/// small.
pub(super) fn push_tight<T>(items: &mut Vec<T>, item: T) {
    if items.is_empty() {
        items.reserve_exact(1);
    }
    items.push(item);
}

/// Returns the bytes that the allocator uses for a vector.
pub(super) fn allotted<T>(items: &Vec<T>) -> usize {
    rounded(items.capacity() * size_of::<T>())
}

/// Shrinks a vector to twice its length if it uses less than a quarter of its capacity.
pub(super) fn shrink<T>(items: &mut Vec<T>) {
    if items.len() * 4 < items.capacity() {
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

    /// Calls `part` with the step to resume at until it is done, and allows `steps` steps per call.
    pub fn in_steps(
        steps: usize,
        mut part: impl FnMut(usize, &mut MoveAll, &mut dyn FnMut() -> bool) -> Option<usize>,
    ) {
        let mut next = Some(0);
        while let Some(from) = next {
            let mut left = steps;
            next = part(from, &mut MoveAll, &mut || {
                left -= 1;
                left > 0
            });
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
