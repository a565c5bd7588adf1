//! Fixed-width slots in pages, addressed by 32-bit handles.
//!
//! A general-purpose allocator needs a pointer of 8 bytes to name a record and rounds its size up;
//! here a name is 4 bytes and a slot is as wide as its class. In exchange the slab must see to two
//! things itself, and both are bounded:
//!
//! - *It grows without copying.* A page never exceeds [`PAGE_BYTES`]; only the page that is being
//!   filled grows, by doubling, so one insertion copies half a page at the worst. The table of pages
//!   is cut into shelves for the same reason.
//! - *It gives memory back.* A page goes with its last slot. Pages that stay behind half empty are
//!   emptied one slot at a time: [`Slab::sparse_slot`] names a slot to move, the owner calls
//!   [`Slab::relocate`] and mends whatever held the old handle. Only the table of pages stays as it
//!   was, a thousandth of what the slab once held.
//!
//! ```text
//!   Handle  [ page: 22 bits | slot: 10 bits ]        classes[c] ─┐ pages that have room,
//!                │              │                               ▼ as a linked list
//!   shelves[page / 256]                         page ⇄ page ⇄ page
//!     .slots[page % 256] ─▶ [ 0 | 1 | 2 | … ]   each slot `width` units wide
//!     .pages[page % 256] ─▶ used: one bit a slot
//! ```
//!
//! Insertion, removal and access are O(1); the search for a free slot reads at most 16 words of the
//! page's bit set, usually one.

use std::num::NonZeroU32;

use super::{Mover, TINY, push_tight, relocate};

/// Bytes in a full page. Small enough that a page half copied while it grows (or a fresh one faulted
/// in) costs microseconds; large enough that the table of pages is 0.1 % of the data.
const PAGE_BYTES: usize = if TINY { 512 } else { 64 * 1024 };
/// A slot's number has ten bits.
const SLOT_BITS: u32 = 10;
const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// A page's number has the other 22, less the last value, so that a handle is never all ones.
const PAGES_MAX: u32 = (1 << (32 - SLOT_BITS)) - 1;
/// Pages on one shelf: the table of pages grows by a shelf at a time.
const SHELF: usize = if TINY { 4 } else { 256 };
/// "No page" in the links between pages.
const NIL: u32 = u32::MAX;
/// Slots wider than this many units have a page to themselves.
const STEPPED: usize = 1024;
/// A class that has so many pages makes the next one at its full size: what that may waste is little beside
/// them, and nothing is copied while it fills.
const PAGES_AT_ONCE: u32 = 4;
/// How many pages with room are looked at for the emptiest one.
const CANDIDATES: usize = 32;

/// The name of a slot: a page and a place in it. Never zero, so that an `Option` of it has 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Handle(NonZeroU32);

impl Handle {
    fn new(page: u32, slot: usize) -> Self {
        debug_assert!(page < PAGES_MAX && slot < SLOTS_MAX);
        Self(NonZeroU32::MIN.saturating_add(page << SLOT_BITS | slot as u32))
    }

    fn page(self) -> u32 {
        (self.0.get() - 1) >> SLOT_BITS
    }

    fn slot(self) -> usize {
        (self.0.get() - 1) as usize & (SLOTS_MAX - 1)
    }

    /// The handle as four bytes; zero stands for none.
    pub(super) fn to_bits(handle: Option<Self>) -> u32 {
        handle.map_or(0, |handle| handle.0.get())
    }

    pub(super) fn from_bits(bits: u32) -> Option<Self> {
        NonZeroU32::new(bits).map(Self)
    }
}

/// The size class of a slot of `width` units, and the width it is rounded up to: exact up to 128
/// units, then eight steps to a doubling (12.5 % waste at the most), then a page to itself.
fn class_of(width: usize) -> (usize, usize) {
    const EXACT: usize = 128;
    const JUMBO: usize = EXACT + 8 * (STEPPED / EXACT).ilog2() as usize;
    let width = width.max(1);
    if width <= EXACT {
        (width - 1, width)
    } else if width <= STEPPED {
        let doubling = (width - 1).ilog2() as usize;
        let step = 1 << (doubling - 3);
        let rounded = width.next_multiple_of(step);
        let steps = (rounded - (1 << doubling)) / step;
        (EXACT + (doubling - 7) * 8 + steps - 1, rounded)
    } else {
        (JUMBO, width)
    }
}

/// The content of a page: what every access reads, and therefore apart from what only changes of it need.
#[derive(Clone)]
struct Slots<T> {
    /// The slots that have been in use, now or before, one after the other.
    units: Vec<T>,
    /// Units in a slot; 0 marks a page number that is vacant.
    width: u32,
}

impl<T: Copy + Default> Slots<T> {
    fn new(width: usize) -> Self {
        Self { units: Vec::new(), width: width as u32 }
    }

    /// Slots that there is memory for.
    fn room(&self) -> usize {
        self.units.capacity() / self.width as usize
    }

    /// Makes one slot more, and has memory for as many again as there are, but no more than `capacity`.
    fn grow(&mut self, capacity: u16) {
        let units = self.units.len() + self.width as usize;
        if units > self.units.capacity() {
            let slots = (2 * self.units.len() / self.width as usize).clamp(1, capacity.into());
            self.reserve(slots);
        }
        self.units.resize(units, T::default());
    }

    /// Has memory for so many slots.
    #[cold]
    fn reserve(&mut self, slots: usize) {
        let units = slots * self.width as usize;
        self.units.reserve_exact(units - self.units.len());
    }
}

/// Which slots of a page are free, and its place among the others.
#[derive(Clone)]
struct Page {
    /// One bit for each slot: in use or free. Words are added as slots are.
    used: Vec<u64>,
    /// Slots in use, and how many there can be.
    live: u16,
    capacity: u16,
    /// The size class of its slots.
    class: u8,
    /// The first word of `used` that may have a free bit.
    hint: u8,
    /// Neighbours among the pages of the class that have room; `next` also links vacant numbers.
    prev: u32,
    next: u32,
}

impl Page {
    fn new(class: usize, capacity: usize) -> Self {
        Self {
            used: Vec::new(),
            live: 0,
            capacity: capacity as u16,
            // There are 153 at the most.
            class: class as u8,
            hint: 0,
            prev: NIL,
            next: NIL,
        }
    }

    /// A number without a page.
    fn vacant(next: u32) -> Self {
        Self { next, ..Self::new(0, 0) }
    }

    fn is_full(&self) -> bool {
        self.live == self.capacity
    }

    /// Takes the first free slot.
    fn take_slot(&mut self) -> usize {
        let mut word = self.hint as usize;
        while self.used.get(word).is_some_and(|bits| *bits == u64::MAX) {
            word += 1;
        }
        if word == self.used.len() {
            push_tight(&mut self.used, 0);
        }
        let slot = word * 64 + self.used[word].trailing_ones() as usize;
        self.used[word] |= 1 << (slot % 64);
        // A page has at most 1,024 slots, so 16 words.
        self.hint = word as u8;
        self.live += 1;
        slot
    }

    fn release_slot(&mut self, slot: usize) {
        let word = slot / 64;
        assert!(self.is_used(slot), "slot {slot} is freed twice");
        self.used[word] &= !(1 << (slot % 64));
        self.hint = self.hint.min(word as u8);
        self.live -= 1;
    }

    fn is_used(&self, slot: usize) -> bool {
        self.used[slot / 64] & 1 << (slot % 64) != 0
    }

    fn first_used(&self) -> Option<usize> {
        let word = self.used.iter().position(|bits| *bits != 0)?;
        Some(word * 64 + self.used[word].trailing_zeros() as usize)
    }
}

fn page_capacity<T>(width: usize) -> usize {
    match width {
        1..=STEPPED => (PAGE_BYTES / (width * size_of::<T>())).clamp(1, SLOTS_MAX),
        _ => 1,
    }
}

/// What is known of all the pages of one width.
#[derive(Clone, Copy)]
struct Class {
    pages: u32,
    /// Slots in use.
    live: u32,
    /// The first page that has room.
    partial: u32,
}

impl Class {
    const EMPTY: Self = Self { pages: 0, live: 0, partial: NIL };
}

/// Some pages, by number.
#[derive(Clone)]
struct Shelf<T> {
    slots: Vec<Slots<T>>,
    pages: Vec<Page>,
}

/// A store of slots of `T`, each as wide as was asked for.
#[derive(Clone)]
pub(super) struct Slab<T> {
    shelves: Vec<Shelf<T>>,
    classes: Vec<Class>,
    /// The first vacant page number.
    vacant: u32,
    /// The page that is being emptied: it is not among those with room.
    leaving: u32,
}

impl<T: Copy + Default> Slab<T> {
    pub(super) fn new() -> Self {
        Self { shelves: Vec::new(), classes: Vec::new(), vacant: NIL, leaving: NIL }
    }

    /// A slot, and what lies behind it in its page: who knows what is in a slot knows where it ends,
    /// and need not look that up.
    ///
    /// What finds a slot is inlined whatever the compiler thinks of its length: every operation does it several
    /// times, and calling it costs as much as doing it.
    #[inline(always)]
    pub(super) fn get(&self, handle: Handle) -> &[T] {
        let Slots { units, width } = self.slots(handle.page());
        &units[handle.slot() * *width as usize..]
    }

    /// As [`Slab::get`].
    #[inline(always)]
    pub(super) fn get_mut(&mut self, handle: Handle) -> &mut [T] {
        let Slots { units, width } = self.slots_mut(handle.page());
        &mut units[handle.slot() * *width as usize..]
    }

    /// As [`Slab::get`], of a slab whose slots are all one unit wide.
    #[inline(always)]
    pub(super) fn unit(&self, handle: Handle) -> &T {
        &self.slots(handle.page()).units[handle.slot()]
    }

    /// As [`Slab::unit`].
    #[inline(always)]
    pub(super) fn unit_mut(&mut self, handle: Handle) -> &mut T {
        &mut self.slots_mut(handle.page()).units[handle.slot()]
    }

    /// Takes a slot of at least `width` units, whose content is whatever was there before. `None`
    /// when there are as many pages as a handle can name (256 GiB, or four million slots above
    /// 1,024 units).
    pub(super) fn insert(&mut self, width: usize) -> Option<Handle> {
        let (class, width) = class_of(width);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, Class::EMPTY);
        }
        let number = match self.classes[class].partial {
            NIL => self.open_page(class, width)?,
            number => number,
        };
        let page = self.page_mut(number);
        let slot = page.take_slot();
        let (full, capacity) = (page.is_full(), page.capacity);
        let slots = self.slots_mut(number);
        if (slot + 1) * width > slots.units.len() {
            slots.grow(capacity);
        }
        self.classes[class].live += 1;
        if full {
            self.unlink(number);
        }
        Some(Handle::new(number, slot))
    }

    /// Frees a slot, and its page with the last one. One empty page of a class is kept while no
    /// other has room, so that a load which hovers at the edge does not allocate at every step.
    pub(super) fn remove(&mut self, handle: Handle) {
        let number = handle.page();
        let leaving = self.leaving;
        let page = self.page_mut(number);
        let was_full = page.is_full();
        page.release_slot(handle.slot());
        let empty = page.live == 0;
        let class = usize::from(page.class);
        self.classes[class].live -= 1;
        if was_full && number != leaving {
            self.link(number);
        }
        if empty {
            let page = self.page(number);
            let alone = page.prev == NIL && page.next == NIL;
            if number == leaving || page.capacity == 1 || !alone {
                self.close_page(number);
            }
        }
    }

    /// Whether [`Slab::sparse_slot`] would name a slot. O(classes).
    pub(super) fn is_sparse(&self) -> bool {
        self.leaving != NIL || self.sparse_class().is_some()
    }

    /// A slot that should move so that a page can be given back, or `None` when the slab is dense:
    /// each class is at least three quarters full, but for less than one page's worth. Costs
    /// O(classes), of which there are at most 153.
    pub(super) fn sparse_slot(&mut self) -> Option<Handle> {
        if self.leaving == NIL {
            let sparse = self.sparse_class()?;
            let number = self.emptiest(sparse);
            self.unlink(number);
            if self.page(number).live == 0 {
                self.close_page(number);
                return self.sparse_slot();
            }
            self.leaving = number;
        }
        let slot = self.page(self.leaving).first_used()?;
        Some(Handle::new(self.leaving, slot))
    }

    /// Moves a slot's content to another slot of its class. `None` if there is no room for it.
    pub(super) fn relocate(&mut self, handle: Handle) -> Option<Handle> {
        let width = self.slots(handle.page()).width as usize;
        let target = self.insert(width)?;
        // Two pages of one table cannot both be borrowed: the source is lent out meanwhile.
        let source = std::mem::take(&mut self.slots_mut(handle.page()).units);
        self.get_mut(target)[..width].copy_from_slice(&source[handle.slot() * width..][..width]);
        self.slots_mut(handle.page()).units = source;
        self.remove(handle);
        Some(target)
    }

    /// How many page numbers there are.
    pub(super) fn pages(&self) -> usize {
        self.shelves.last().map_or(0, |last| (self.shelves.len() - 1) * SHELF + last.pages.len())
    }

    /// Moves the tables of pages and classes.
    pub(super) fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.classes, mover);
        relocate(&mut self.shelves, mover);
        for shelf in &mut self.shelves {
            relocate(&mut shelf.slots, mover);
            relocate(&mut shelf.pages, mover);
        }
    }

    /// Moves a page.
    pub(super) fn defrag_page(&mut self, number: usize, mover: &mut impl Mover) {
        let shelf = &mut self.shelves[number / SHELF];
        relocate(&mut shelf.slots[number % SHELF].units, mover);
        relocate(&mut shelf.pages[number % SHELF].used, mover);
    }

    /// Slots in use.
    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.classes.iter().map(|class| class.live as usize).sum()
    }

    /// Bytes allocated, the slab's own fields apart. O(pages).
    pub(super) fn memory(&self) -> usize {
        let shelf = |shelf: &Shelf<T>| {
            let units = shelf.slots.iter().map(|slots| slots.units.capacity() * size_of::<T>());
            let used = shelf.pages.iter().map(|page| page.used.capacity() * 8);
            units.chain(used).sum::<usize>()
                + shelf.slots.capacity() * size_of::<Slots<T>>()
                + shelf.pages.capacity() * size_of::<Page>()
        };
        self.shelves.iter().map(shelf).sum::<usize>()
            + self.shelves.capacity() * size_of::<Shelf<T>>()
            + self.classes.capacity() * size_of::<Class>()
    }

    /// Allocations that freeing it takes, about. O(1).
    pub(super) fn allocations(&self) -> usize {
        self.classes.iter().map(|class| 2 * class.pages as usize).sum::<usize>() + 2
    }

    #[inline(always)]
    fn slots(&self, number: u32) -> &Slots<T> {
        &self.shelves[number as usize / SHELF].slots[number as usize % SHELF]
    }

    #[inline(always)]
    fn slots_mut(&mut self, number: u32) -> &mut Slots<T> {
        &mut self.shelves[number as usize / SHELF].slots[number as usize % SHELF]
    }

    fn page(&self, number: u32) -> &Page {
        &self.shelves[number as usize / SHELF].pages[number as usize % SHELF]
    }

    fn page_mut(&mut self, number: u32) -> &mut Page {
        &mut self.shelves[number as usize / SHELF].pages[number as usize % SHELF]
    }

    fn class_of_page(&self, number: u32) -> usize {
        self.page(number).class.into()
    }

    fn open_page(&mut self, class: usize, width: usize) -> Option<u32> {
        let capacity = page_capacity::<T>(width);
        let (page, mut slots) = (Page::new(class, capacity), Slots::new(width));
        if self.classes[class].pages >= PAGES_AT_ONCE {
            slots.reserve(capacity);
        }
        let number = match self.vacant {
            NIL => {
                if self.shelves.last().is_none_or(|shelf| shelf.pages.len() == SHELF) {
                    // The first shelf starts with one place: most dehydrators are small.
                    let places = if self.shelves.is_empty() { 1 } else { SHELF };
                    let (slots, pages) = (Vec::with_capacity(places), Vec::with_capacity(places));
                    push_tight(&mut self.shelves, Shelf { slots, pages });
                }
                let before = (self.shelves.len() - 1) * SHELF;
                let shelf = self.shelves.last_mut()?;
                let number = u32::try_from(before + shelf.pages.len()).ok()?;
                if number >= PAGES_MAX {
                    return None;
                }
                shelf.slots.push(slots);
                shelf.pages.push(page);
                number
            }
            number => {
                self.vacant = self.page(number).next;
                *self.slots_mut(number) = slots;
                *self.page_mut(number) = page;
                number
            }
        };
        self.classes[class].pages += 1;
        self.link(number);
        Some(number)
    }

    /// Gives a page's memory back and its number to the vacant ones.
    fn close_page(&mut self, number: u32) {
        let class = self.class_of_page(number);
        if self.leaving == number {
            self.leaving = NIL;
        } else if self.is_linked(number) {
            self.unlink(number);
        }
        self.classes[class].pages -= 1;
        let vacant = self.vacant;
        *self.slots_mut(number) = Slots::new(0);
        *self.page_mut(number) = Page::vacant(vacant);
        self.vacant = number;
    }

    /// The pages of a list, from `first` on.
    fn list(&self, first: u32) -> impl Iterator<Item = u32> {
        let exists = |number| (number != NIL).then_some(number);
        std::iter::successors(exists(first), move |number| exists(self.page(*number).next))
    }

    fn is_linked(&self, number: u32) -> bool {
        let page = self.page(number);
        page.prev != NIL || self.classes[self.class_of_page(number)].partial == number
    }

    /// Puts a page first among those of its class that have room.
    fn link(&mut self, number: u32) {
        let class = self.class_of_page(number);
        let next = std::mem::replace(&mut self.classes[class].partial, number);
        if next != NIL {
            self.page_mut(next).prev = number;
        }
        let page = self.page_mut(number);
        page.prev = NIL;
        page.next = next;
    }

    fn unlink(&mut self, number: u32) {
        let class = self.class_of_page(number);
        let page = self.page_mut(number);
        let prev = std::mem::replace(&mut page.prev, NIL);
        let next = std::mem::replace(&mut page.next, NIL);
        match prev {
            NIL => self.classes[class].partial = next,
            prev => self.page_mut(prev).next = next,
        }
        if next != NIL {
            self.page_mut(next).prev = prev;
        }
    }

    /// The first class of which a page can be emptied into the others (or, if it is the only one,
    /// into a smaller one). Each time that is done the class loses a page or shrinks to a quarter, so
    /// asking again comes to an end.
    fn sparse_class(&self) -> Option<usize> {
        self.classes.iter().position(|class| {
            let Class { pages, live, partial } = *class;
            if partial == NIL {
                return false;
            }
            if pages == 1 {
                return self.slots(partial).room() >= 4 * live as usize + 8;
            }
            let per_page = u64::from(self.page(partial).capacity);
            let capacity = u64::from(pages) * per_page;
            let free = capacity - u64::from(live);
            free >= per_page && 4 * free > capacity
        })
    }

    /// The page with the fewest slots in use among the first few that have room.
    fn emptiest(&self, class: usize) -> u32 {
        let first = self.classes[class].partial;
        self.list(first)
            .take(CANDIDATES)
            .min_by_key(|number| self.page(*number).live)
            .unwrap_or(first)
    }

    /// Panics unless counts, bit sets and lists agree.
    #[cfg(any(test, fuzzing))]
    pub(super) fn check(&self) {
        let mut seen = vec![Class::EMPTY; self.classes.len()];
        let mut vacant = 0;
        let mut with_room = 0;
        for number in 0..self.pages() as u32 {
            let (page, width) = (self.page(number), self.slots(number).width as usize);
            if width == 0 {
                vacant += 1;
                continue;
            }
            assert_eq!(usize::from(page.class), class_of(width).0, "page {number}");
            let class = &mut seen[usize::from(page.class)];
            let live: u32 = page.used.iter().map(|bits| bits.count_ones()).sum();
            assert_eq!(live, u32::from(page.live), "page {number}: bits and count disagree");
            assert!(page.live <= page.capacity, "page {number} is overfull");
            assert!(page.used[..usize::from(page.hint)].iter().all(|bits| *bits == u64::MAX));
            class.pages += 1;
            class.live += live;
            let has_room = !page.is_full() && number != self.leaving;
            assert_eq!(has_room, self.is_linked(number), "page {number} is in the wrong list");
            with_room += usize::from(has_room);
        }
        for (class, seen) in self.classes.iter().zip(&seen) {
            assert_eq!((class.pages, class.live), (seen.pages, seen.live));
            with_room -= self.list(class.partial).count();
        }
        assert_eq!(with_room, 0, "a page with room is in no list");
        assert_eq!(self.list(self.vacant).count(), vacant, "vacant pages");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_rounded_up_by_an_eighth_at_most_and_classes_are_dense() {
        let mut last = (0, 1);
        for width in 1..=1024 {
            let (class, rounded) = class_of(width);
            assert!(rounded >= width && rounded * 8 <= width * 9 + 7, "{width} becomes {rounded}");
            assert!(class == last.0 || class == last.0 + 1, "class {class} after {}", last.0);
            assert_eq!(class == last.0, rounded == last.1, "{width}: class and width differ");
            assert_eq!(class_of(rounded), (class, rounded), "rounding is not idempotent");
            last = (class, rounded);
        }
        assert_eq!(class_of(1025), (last.0 + 1, 1025));
    }

    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn a_page_goes_with_its_last_slot() {
        let mut slab = Slab::<u64>::new();
        let handles: Vec<_> = (0..100_000).map(|_| slab.insert(13).expect("room")).collect();
        let full = slab.memory();
        assert!(full < 100_000 * 13 * 8 * 102 / 100, "{full} bytes");
        for handle in &handles[1..] {
            slab.remove(*handle);
        }
        slab.check();
        assert!(slab.memory() < 256 * 1024, "{} bytes for one slot", slab.memory());
    }

    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn pages_left_sparse_are_emptied_into_each_other_without_losing_a_slot() {
        let mut slab = Slab::<u64>::new();
        let handles: Vec<_> = (0..50_000).map(|_| slab.insert(4).expect("room")).collect();
        let mut kept = Vec::new();
        for (value, handle) in handles.into_iter().enumerate() {
            if value % 16 == 3 {
                slab.get_mut(handle)[..4].fill(value as u64);
                kept.push((value as u64, handle));
            } else {
                slab.remove(handle);
            }
        }
        let before = slab.memory();
        let mut moves = 0;
        while let Some(handle) = slab.sparse_slot() {
            let target = slab.relocate(handle).expect("room");
            let entry = kept.iter_mut().find(|entry| entry.1 == handle).expect("a live slot");
            entry.1 = target;
            moves += 1;
            if moves % 64 == 0 {
                slab.check();
            }
        }
        slab.check();
        assert!(moves <= kept.len(), "{moves} moves of {} slots", kept.len());
        for (value, handle) in &kept {
            assert_eq!(slab.get(*handle)[..4], [*value; 4]);
        }
        assert!(slab.memory() * 6 < before, "{} of {before} bytes are left", slab.memory());
    }

    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn the_last_page_shrinks_too() {
        let mut slab = Slab::<u64>::new();
        let handles: Vec<_> = (0..200).map(|_| slab.insert(4).expect("room")).collect();
        for handle in &handles[5..] {
            slab.remove(*handle);
        }
        while let Some(handle) = slab.sparse_slot() {
            slab.relocate(handle).expect("room");
        }
        slab.check();
        assert_eq!(slab.len(), 5);
        assert!(slab.memory() < 1024, "{} bytes for five slots", slab.memory());
    }

    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn a_wide_slot_has_a_page_to_itself_and_takes_it_along() {
        let mut slab = Slab::<u64>::new();
        let wide = slab.insert(100_000).expect("room");
        assert!(slab.get(wide).len() >= 100_000);
        slab.remove(wide);
        slab.check();
        assert!(slab.memory() < 4096, "{} bytes are left", slab.memory());
    }
}
