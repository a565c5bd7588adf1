//! What memory vectors take, give back, and where an allocator would rather have them.

/// Moves allocations to where the allocator would rather have them.
pub trait Mover {
    /// Returns the same items, here or elsewhere.
    fn relocate<T>(&mut self, items: Vec<T>) -> Vec<T>;

    /// Returns the same item, here or elsewhere.
    fn relocate_box<T>(&mut self, item: Box<T>) -> Box<T>;
}

/// Moves one vector.
pub(super) fn relocate<T>(items: &mut Vec<T>, mover: &mut impl Mover) {
    *items = mover.relocate(std::mem::take(items));
}

/// Adds an item. The first one gets one place, not the four that a vector begins with: most lawns are small.
pub(super) fn push_tight<T>(items: &mut Vec<T>, item: T) {
    if items.is_empty() {
        items.reserve_exact(1);
    }
    items.push(item);
}

/// Returns the bytes that an allocator sets aside for a vector.
pub(super) fn allotted<T>(items: &Vec<T>) -> usize {
    rounded(items.capacity() * size_of::<T>())
}

/// Gives back half of a vector's memory or more, if it uses less than a quarter.
pub(super) fn shrink<T>(items: &mut Vec<T>) {
    if items.len() * 4 < items.capacity() {
        items.shrink_to(items.len() * 2);
    }
}

/// Returns what an allocator sets aside for so many bytes: jemalloc has four size classes to a doubling, and steps of eight bytes
/// below. It makes a difference to the smallest lawns alone.
pub fn rounded(bytes: usize) -> usize {
    let doubling = bytes.saturating_sub(1).checked_ilog2().unwrap_or(0);
    bytes.next_multiple_of(1 << doubling.saturating_sub(2).max(3))
}

/// Moves everything that can be moved, a few steps at a time.
#[cfg(test)]
pub(super) mod moved {
    use super::Mover;

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

    /// Calls `part` with where it left off, until nothing is left, and lets it take so many steps each time.
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
    fn sizes_are_those_of_an_allocator() {
        let sizes = [(0, 0), (1, 8), (43, 48), (64, 64), (65, 80), (128, 128), (129, 160)];
        for (bytes, size) in sizes.into_iter().chain([(1376, 1536), (4096, 4096), (4097, 5120)]) {
            assert_eq!(rounded(bytes), size, "{bytes}");
        }
    }
}
