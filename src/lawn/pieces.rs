//! A sorted list in pieces: of where blocks begin, and of leases.
//!
//! A search halves the list of pieces and then a piece, without unpredictable branches. To count the items between two keys is
//! to add up the lengths of the pieces in between; a map of the standard library would have to walk over all items. A
//! [`VecDeque`] is cheap at both ends, and moves the shorter side for what is in between.

use std::collections::VecDeque;

use super::memory::{Mover, Steps, rounded};
use super::work;

/// An item of a list, by its key. No two items have the same one.
pub(super) trait Item: Copy {
    fn key(&self) -> u128;
}

/// Consecutive items, at least one.
#[derive(Clone)]
struct Piece<T> {
    /// The key of the first item.
    first: u128,
    items: VecDeque<T>,
}

/// The number of a piece, and the number of an item in it.
pub(super) type Place = (usize, usize);

/// A sorted list in pieces of up to `MOST` items.
#[derive(Clone)]
pub(super) struct Pieces<T, const MOST: usize> {
    pieces: VecDeque<Piece<T>>,
    /// The number of items.
    pub(super) len: usize,
}

impl<T, const MOST: usize> Default for Pieces<T, MOST> {
    fn default() -> Self {
        Self { pieces: VecDeque::new(), len: 0 }
    }
}

/// Returns the most items that a piece of this length has memory for.
fn capacity_max(length: usize, most: usize) -> usize {
    most.min(length + length / 2 + 8)
}

impl<T: Item> Piece<T> {
    /// Returns the number of items before a key.
    #[inline]
    fn before(&self, key: u128) -> usize {
        // Most new items come after all others.
        if self.items.back().is_none_or(|last| last.key() < key) {
            return self.items.len();
        }
        self.items.partition_point(|item| item.key() < key)
    }
}

impl<T: Item, const MOST: usize> Pieces<T, MOST> {
    /// Returns the piece that a key belongs to: the last one that does not begin after it, or the first one.
    #[inline]
    fn piece_of(&self, key: u128) -> usize {
        if self.pieces.back().is_none_or(|last| last.first <= key) {
            return self.pieces.len().saturating_sub(1);
        }
        self.pieces.partition_point(|piece| piece.first <= key).saturating_sub(1)
    }

    #[inline]
    pub(super) fn find(&self, key: u128) -> Option<Place> {
        let number = self.piece_of(key);
        let piece = self.pieces.get(number)?;
        let place = piece.before(key);
        piece.items.get(place).filter(|item| item.key() == key)?;
        Some((number, place))
    }

    /// Returns the place of the last item whose key is this one or earlier.
    #[inline(always)]
    pub(super) fn last_to(&self, key: u128) -> Option<Place> {
        let number = self.pieces.partition_point(|piece| piece.first <= key).checked_sub(1)?;
        Some((number, self.pieces[number].items.partition_point(|item| item.key() <= key) - 1))
    }

    #[inline(always)]
    pub(super) fn get(&self, (number, place): Place) -> Option<&T> {
        self.pieces.get(number)?.items.get(place)
    }

    /// Returns the item at a place. Its key must not change.
    pub(super) fn get_mut(&mut self, (number, place): Place) -> &mut T {
        &mut self.pieces[number].items[place]
    }

    pub(super) fn place_before(&self, (number, place): Place) -> Option<Place> {
        match place.checked_sub(1) {
            Some(place) => Some((number, place)),
            None => Some((number.checked_sub(1)?, self.pieces[number - 1].items.len() - 1)),
        }
    }

    #[inline(always)]
    pub(super) fn place_behind(&self, (number, place): Place) -> Place {
        let is_last = self.pieces.get(number).is_none_or(|it| it.items.len() <= place + 1);
        if is_last { (number + 1, 0) } else { (number, place + 1) }
    }

    /// Inserts an item whose key is not there.
    pub(super) fn insert(&mut self, item: T) {
        let key = item.key();
        let mut at = self.piece_of(key);
        let is_full = self.pieces.get(at).is_none_or(|piece| piece.items.len() == MOST);
        if is_full {
            at = self.make_room(at, key);
        }
        let piece = &mut self.pieces[at];
        let (place, length) = (piece.before(key), piece.items.len());
        if length == piece.items.capacity() {
            work::move_items::<T>(length);
            piece.items.reserve_exact((length / 4).max(1).min(MOST - length));
        }
        work::move_items::<T>(place.min(length - place));
        piece.items.insert(place, item);
        piece.first = piece.first.min(key);
        self.len += 1;
        if is_full {
            // Otherwise, repeated splits of the last item of a full piece would leave a piece for each of its parts.
            self.join(at);
        }
    }

    /// Makes room for a key in a full piece or beside it. Returns the piece that the key belongs to.
    #[cold]
    fn make_room(&mut self, at: usize, key: u128) -> usize {
        let items = match self.pieces.get_mut(at) {
            // A key after all others of a full piece leaves it behind.
            Some(Piece { items, .. }) if items.back().is_some_and(|last| key < last.key()) => {
                let later = items.split_off(MOST / 2);
                items.shrink_to_fit();
                later
            }
            _ => VecDeque::new(),
        };
        let first = items.front().map_or(key, Item::key);
        let new = (at + 1).min(self.pieces.len());
        work::move_items::<T>(items.len());
        work::move_items::<Piece<T>>(new.min(self.pieces.len() - new));
        if self.pieces.is_empty() {
            self.pieces.reserve_exact(1);
        }
        self.pieces.insert(new, Piece { first, items });
        if key < first { at } else { new }
    }

    /// Removes the item at a place.
    #[inline]
    pub(super) fn remove(&mut self, (at, place): Place) -> T {
        let Piece { first, items } = &mut self.pieces[at];
        work::move_items::<T>(place.min(items.len() - place));
        let item = items.remove(place).expect("an item");
        self.len -= 1;
        let (length, capacity) = (items.len(), items.capacity());
        if place == 0 {
            *first = items.front().map_or(*first, Item::key);
        }
        let is_sparse = length == 0 || length <= MOST / 4 && self.pieces.len() > 1;
        if is_sparse || capacity > capacity_max(length, MOST) {
            self.shrink(at);
        }
        item
    }

    /// Frees memory of a piece that has lost items, also by joining it with a neighbour.
    #[cold]
    fn shrink(&mut self, at: usize) {
        let Piece { items, .. } = &mut self.pieces[at];
        if items.is_empty() {
            work::move_items::<Piece<T>>(at.min(self.pieces.len() - at));
            self.pieces.remove(at);
            if self.pieces.len() * 4 < self.pieces.capacity() {
                self.pieces.shrink_to(self.pieces.len() * 2);
            }
            return;
        }
        if items.capacity() > capacity_max(items.len(), MOST) {
            work::move_items::<T>(items.len());
            items.shrink_to(items.len() + items.len() / 4);
        }
        if !self.join(at) && at > 0 {
            self.join(at - 1);
        }
    }

    /// Joins a piece with the next one if both together fill at most half a piece, so that neither a split nor a join
    /// follows soon. Returns whether they were joined.
    fn join(&mut self, at: usize) -> bool {
        let length = |at: usize| self.pieces.get(at).map_or(MOST, |piece| piece.items.len());
        let (one, next) = (length(at), length(at + 1));
        if one + next > MOST / 2 {
            return false;
        }
        work::move_items::<Piece<T>>(self.pieces.len() - at);
        let later = self.pieces.remove(at + 1).map(|piece| piece.items);
        work::move_items::<T>(one + next);
        let items = &mut self.pieces[at].items;
        items.reserve_exact(next);
        items.extend(later.into_iter().flatten());
        true
    }

    /// Returns the number of items from `from` on that are before `end`. O(log n), and O(1) for each piece in between.
    pub(super) fn count(&self, from: u128, end: u128) -> usize {
        if end <= from {
            return 0;
        }
        let [first, last] = [from, end].map(|key| self.piece_of(key));
        let before = |at: usize, key| self.pieces.get(at).map_or(0, |piece| piece.before(key));
        let between = self.pieces.range(first..last).map(|piece| piece.items.len());
        between.sum::<usize>() + before(last, end) - before(first, from)
    }

    /// Returns the item that comes `nth`, from 0, among those that are not before this key. Costs as much as [`Pieces::count`].
    pub(super) fn nth_from(&self, key: u128, nth: usize) -> Option<&T> {
        let first = self.piece_of(key);
        let mut at = self.pieces.get(first)?.before(key).checked_add(nth)?;
        for piece in self.pieces.range(first..) {
            match piece.items.get(at) {
                Some(item) => return Some(item),
                None => at -= piece.items.len(),
            }
        }
        None
    }

    /// Moves the list of pieces, then a piece in each step.
    pub(super) fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        let move_all = |items: &mut VecDeque<T>, mover: &mut _| {
            *items = Mover::relocate(mover, Vec::from(std::mem::take(items))).into();
        };
        steps.one(|mover| {
            self.pieces = mover.relocate(Vec::from(std::mem::take(&mut self.pieces))).into();
        });
        let pieces = self.pieces.make_contiguous();
        steps.each(pieces, |piece, mover| move_all(&mut piece.items, mover));
    }

    /// Returns the bytes allocated. O(pieces).
    pub(super) fn memory(&self) -> usize {
        let items = |piece: &Piece<T>| rounded(piece.items.capacity() * size_of::<T>());
        let pieces = rounded(self.pieces.capacity() * size_of::<Piece<T>>());
        pieces + self.pieces.iter().map(items).sum::<usize>()
    }

    /// Panics unless items are in order, and pieces are not empty, begin where they should, and waste little memory.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) {
        for Piece { first, items } in &self.pieces {
            assert_eq!(items.front().map(Item::key), Some(*first), "where a piece begins");
            let (length, capacity) = (items.len(), items.capacity());
            assert!(length <= MOST, "{length} items in a piece");
            assert!(capacity <= capacity_max(length, MOST), "memory for {capacity}, {length} used");
        }
        let keys = || self.pieces.iter().flat_map(|piece| &piece.items).map(Item::key);
        assert_eq!(keys().count(), self.len, "the number of items");
        assert!(keys().is_sorted_by(|one, next| one < next), "the order of items");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MOST: usize = 64;
    const COUNT: u64 = 20_000;

    impl Item for u128 {
        fn key(&self) -> u128 {
            *self
        }
    }

    /// Compares with a set, and checks that neighbouring pieces are joined.
    fn compare(pieces: &Pieces<u128, MOST>, set: &BTreeSet<u128>, least: usize) {
        pieces.check();
        assert_eq!(pieces.len, set.len());
        let (number, most) = (pieces.pieces.len(), pieces.len / least + 2);
        assert!(number <= most, "{number} pieces of {}", pieces.len);
        for from in (0..COUNT).step_by(97).map(u128::from).chain([1 << 40]) {
            let last = pieces.last_to(from).map(|place| *pieces.get(place).expect("an item"));
            assert_eq!(last, set.range(..=from).next_back().copied());
            assert_eq!(pieces.find(from).is_some(), set.contains(&from));
            for nth in [0, 1, 700] {
                let found = pieces.nth_from(from, nth).copied();
                assert_eq!(found, set.range(from..).nth(nth).copied(), "{from}");
            }
            for end in [from, from + 1, from + 7000, u128::MAX] {
                assert_eq!(pieces.count(from, end), set.range(from..end).count(), "{from}");
            }
        }
        let mut place = Some((0, 0)).filter(|_| pieces.len > 0);
        for item in set {
            assert_eq!(place.and_then(|place| pieces.get(place)), Some(item));
            let behind = pieces.place_behind(place.expect("an item"));
            assert_eq!(pieces.get(behind).and(pieces.place_before(behind)), {
                place.filter(|_| pieces.get(behind).is_some())
            });
            place = Some(behind);
        }
    }

    #[test]
    fn a_list_agrees_with_a_set_and_stays_dense_in_whatever_order_items_come_and_go() {
        type Order = fn(u64) -> u64;
        let orders: [(Order, usize); 5] = [
            (|it| it, MOST),
            (|it| 2 * COUNT - it, MOST / 4),
            (|it| it * 7919 % COUNT, MOST / 4),
            // Behind a full piece, before all others.
            (|it| if it < MOST as u64 { it } else { 2 * COUNT - it }, MOST / 4),
            // Between the last two.
            (|it| (1 << 40) - ((1 << 40) >> (it % 40)) + it, MOST / 4),
        ];
        for (order, least) in orders {
            let (mut pieces, mut set) = (Pieces::<_, MOST>::default(), BTreeSet::new());
            for item in (0..COUNT).map(|it| u128::from(order(it))) {
                assert!(set.insert(item));
                pieces.insert(item);
            }
            compare(&pieces, &set, least);
            // The first, the last, and then all but a tenth in another order than they came.
            let all: Vec<_> = set.iter().copied().collect();
            let ends = all[..3000].iter().chain(all[COUNT as usize - 3000..].iter().rev()).copied();
            let others = (0..COUNT).map(|it| it * 7919 % COUNT).filter(|it| it % 10 > 0);
            let gone: Vec<_> = ends.chain(others.map(|it| u128::from(order(it)))).collect();
            for (number, item) in gone.into_iter().enumerate() {
                if !set.remove(&item) {
                    continue;
                }
                let place = pieces.find(item).expect("it is there");
                assert_eq!(pieces.remove(place), item);
                if number % 5000 == 0 {
                    compare(&pieces, &set, MOST / 4);
                }
            }
            compare(&pieces, &set, MOST / 4);
            while let Some(item) = pieces.get((0, 0)).copied() {
                assert!(set.remove(&pieces.remove((0, 0))) && !set.contains(&item));
            }
            compare(&pieces, &set, MOST / 4);
            assert!(pieces.memory() < 1000);
        }
    }
}
