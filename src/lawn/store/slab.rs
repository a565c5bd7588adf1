//! Slots of a few units each, in pages, addressed by 32-bit handles.
//!
//! A general-purpose allocator needs a pointer of 8 bytes to name a record and rounds its size up;
//! here a name is 4 bytes and a slot is as wide as its class. In exchange the slab must see to two
//! things itself, and both are bounded:
//!
//! - *It grows without copying much.* The first page of a class doubles, up to 64 KiB; later ones
//!   are made at their full size and filled from the front. Only the table of pages is copied when it doubles: 24 bytes
//!   for each 256 KiB.
//! - *It gives memory back.* A page goes with its last slot. Pages that stay behind half empty are
//!   emptied one slot at a time: [`Slab::sparse_slot`] names a slot to move, the owner calls
//!   [`Slab::relocate`] and mends whatever held the old handle. Only the tables of pages stay as they
//!   were, a thousandth of what the slab once held.
//!
//! ```text
//!   Handle  [ page | first unit ]            classes[c] ─┐ pages that have room,
//!               │         │                              ▼ as a linked list
//!   pages[page] ─▶ [ . . [slot] . . ]        infos: page ⇄ page ⇄ page
//!                                                    │
//!                                    free: a chain through the free slots themselves
//! ```
//!
//! A handle says where the slot begins: finding it takes a shift, a mask and one read of the table, and no look at how
//! wide the slots of that page are. What only insertion and removal need lies in a table of its own. The first unit of a
//! free slot says that it is free, and which one is free after it.
//!
//! Insertion, removal and access are O(1).

use super::super::memory::{Mover, allotted, push_tight, relocate};
use super::super::tiny::TINY;
use super::handle::{Handle, Unit};
use super::shelves::Shelves;

/// Bytes in a full page. Large enough that the table of pages for a million records is in the nearest cache.
const PAGE_BYTES: usize = if TINY { 512 } else { 256 * 1024 };
/// Bytes in the first few pages of a class: no more than half of that is copied while the first of all grows.
const EARLY_BYTES: usize = if TINY { 512 } else { 64 * 1024 };
/// A class that has so many pages makes the next one at its full size: what that may waste is little beside
/// them.
const EARLY_PAGES: u32 = 4;
/// Below this a page grows by a half at a time.
const LITTLE_BYTES: usize = 16 * 1024;
/// Bytes that are made ready at once in a page that has memory.
const STRETCH_BYTES: usize = 2048;
/// "No page" in the links between pages, and "no slot" in those between free slots.
const NIL: u32 = u32::MAX;
/// How many pages with room are looked at for the emptiest one.
const CANDIDATES: usize = 32;
/// Widths up to this one have a class each.
const EXACT: usize = 128;
/// The widest slot, in units.
pub const WIDEST: usize = 1024;

/// Returns the size class of a slot of `width` units, and the width it is rounded up to: exact up to 128
/// units, then eight steps to a doubling (12.5 % waste at the most).
fn class_of(width: usize) -> (usize, usize) {
    debug_assert!((1..=WIDEST).contains(&width));
    if width <= EXACT {
        (width - 1, width)
    } else {
        let doubling = (width - 1).ilog2() as usize;
        let step = 1 << (doubling - 3);
        let rounded = width.next_multiple_of(step);
        let steps = (rounded - (1 << doubling)) / step;
        (EXACT + (doubling - 7) * 8 + steps - 1, rounded)
    }
}

/// What insertion and removal need to know of a page.
#[derive(Clone, Copy)]
struct Info {
    /// The first slot of the chain of free ones, or [`NIL`].
    free: u32,
    /// Units that are in slots, in use or free. Behind them there may be memory.
    filled: u32,
    /// Units that there can be in slots.
    capacity: u32,
    /// Units in a slot; 0 marks a page number that is vacant.
    width: u16,
    /// Slots in use.
    live: u16,
    /// Neighbours among the pages of the class that have room; `next` also links vacant numbers.
    prev: u32,
    next: u32,
    class: u8,
    /// Whether the page is among those with room.
    is_linked: bool,
}

impl Info {
    fn has_room(&self) -> bool {
        self.free != NIL || self.filled + u32::from(self.width) <= self.capacity
    }
}

/// What is known of all the pages of one width.
#[derive(Clone, Copy)]
struct Class {
    pages: u32,
    /// Slots in use, and how many there can be in these pages.
    live: u32,
    slots: u32,
    /// The first page that has room.
    partial: u32,
}

impl Class {
    const EMPTY: Self = Self { pages: 0, live: 0, slots: 0, partial: NIL };
}

/// A store of slots of `T`, each as wide as was asked for.
#[derive(Clone)]
pub struct Slab<T> {
    /// The content of each page, as far as it has been in use, now or before.
    pages: Vec<Vec<T>>,
    infos: Shelves<Info>,
    classes: Vec<Class>,
    /// The first vacant page number.
    vacant: u32,
    /// The page that is being emptied: it is not among those with room.
    leaving: u32,
}

impl<T: Unit> Slab<T> {
    pub fn new() -> Self {
        Self {
            pages: Vec::new(),
            infos: Shelves::new(),
            classes: Vec::new(),
            vacant: NIL,
            leaving: NIL,
        }
    }

    /// Returns a slot, and what lies behind it in its page: who knows what is in a slot knows where it ends,
    /// and need not look that up.
    ///
    /// What finds a slot is inlined whatever the compiler thinks of its length: every operation does it several
    /// times, and calling it costs as much as doing it.
    #[inline(always)]
    pub fn get(&self, handle: Handle) -> &[T] {
        &self.pages[handle.page::<T>()][handle.unit::<T>()..]
    }

    /// Does what [`Slab::get`] does.
    #[inline(always)]
    pub fn get_mut(&mut self, handle: Handle) -> &mut [T] {
        &mut self.pages[handle.page::<T>()][handle.unit::<T>()..]
    }

    /// Returns the first unit of a slot.
    #[inline(always)]
    pub fn unit(&self, handle: Handle) -> &T {
        &self.pages[handle.page::<T>()][handle.unit::<T>()]
    }

    /// Does what [`Slab::unit`] does.
    #[inline(always)]
    pub fn unit_mut(&mut self, handle: Handle) -> &mut T {
        &mut self.pages[handle.page::<T>()][handle.unit::<T>()]
    }

    /// Takes a slot of at least `width` units, [`WIDEST`] at the most, whose content is whatever was there before: the owner
    /// must write its first unit. `None` when there are as many pages as a handle can name.
    #[inline(always)]
    pub fn insert(&mut self, width: usize) -> Option<Handle> {
        let (class, width) = class_of(width);
        let partial = self.classes.get(class).map_or(NIL, |class| class.partial);
        let number = if partial == NIL { self.open_page(class, width)? } else { partial };
        let info = self.infos.get_mut(number as usize);
        let units = &mut self.pages[number as usize];
        let unit = info.free;
        let unit = if unit == NIL {
            let unit = info.filled;
            info.filled += width as u32;
            if info.filled as usize > units.len() {
                stretch(units, info.filled as usize, info.capacity as usize);
            }
            unit
        } else {
            info.free = units[unit as usize].free().expect("a slot in the chain is free");
            unit
        };
        info.live += 1;
        self.classes[class].live += 1;
        if !info.has_room() {
            self.unlink(number);
        }
        Some(Handle::new::<T>(number, unit))
    }

    /// Frees a slot, and its page with the last one. One empty page of a class is kept while no
    /// other has room, so that a load which hovers at the edge does not allocate at every step.
    #[inline(always)]
    pub fn remove(&mut self, handle: Handle) {
        let number = handle.page::<T>();
        let unit = &mut self.pages[number][handle.unit::<T>()];
        assert!(unit.free().is_none(), "a slot is freed twice");
        let info = self.infos.get_mut(number);
        unit.set_free(info.free);
        info.free = handle.unit::<T>() as u32;
        info.live -= 1;
        self.classes[usize::from(info.class)].live -= 1;
        if info.live == 0 || !info.is_linked {
            self.removed(number as u32);
        }
    }

    /// Puts a page in order in which a slot was freed: it had no room before, is being emptied, or is empty now.
    #[cold]
    fn removed(&mut self, number: u32) {
        let info = self.info(number);
        if !info.is_linked && number != self.leaving {
            self.link(number);
        }
        if info.live == 0 {
            let info = self.info(number);
            let is_alone = info.prev == NIL && info.next == NIL;
            if number == self.leaving || !is_alone {
                self.close_page(number);
            }
        }
    }

    /// Returns whether [`Slab::sparse_slot`] would name a slot. O(classes).
    pub fn is_sparse(&self) -> bool {
        self.leaving != NIL || self.sparse_class().is_some()
    }

    /// Returns a slot that should move so that a page can be given back, or `None` when the slab is dense:
    /// each class is at least three quarters full, but for less than one page's worth. Costs
    /// O(classes), of which there are at most 152, and a look at free slots of the page, each once while
    /// the page is emptied.
    pub fn sparse_slot(&mut self) -> Option<Handle> {
        loop {
            if self.leaving == NIL {
                let sparse = self.sparse_class()?;
                let number = self.emptiest(sparse);
                self.unlink(number);
                if self.info(number).live == 0 {
                    self.close_page(number);
                    continue;
                }
                self.leaving = number;
            }
            // From the end: what is free there is cut off, and not looked at again.
            let (number, width) = (self.leaving, u32::from(self.info(self.leaving).width));
            let info = self.infos.get_mut(number as usize);
            // Nothing is put into this page any more.
            info.free = NIL;
            while info.filled > 0 {
                let unit = info.filled - width;
                if self.pages[number as usize][unit as usize].free().is_none() {
                    return Some(Handle::new::<T>(number, unit));
                }
                info.filled = unit;
            }
            unreachable!("a page without a slot in use was not closed");
        }
    }

    /// Moves a slot's content to another slot of its class. `None` if there is no room for it.
    pub fn relocate(&mut self, handle: Handle) -> Option<Handle> {
        let width = usize::from(self.info(handle.page::<T>() as u32).width);
        let target = self.insert(width)?;
        // Two pages of one table cannot both be borrowed: the source is lent out meanwhile.
        let source = std::mem::take(&mut self.pages[handle.page::<T>()]);
        self.get_mut(target)[..width].copy_from_slice(&source[handle.unit::<T>()..][..width]);
        self.pages[handle.page::<T>()] = source;
        self.remove(handle);
        Some(target)
    }

    /// Returns how many page numbers there are.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns whether a page number has no page.
    pub fn is_vacant(&self, page: usize) -> bool {
        self.infos.get(page).width == 0
    }

    /// Moves the tables of pages and classes.
    pub fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.classes, mover);
        relocate(&mut self.pages, mover);
        self.infos.defrag(mover);
    }

    /// Moves a page.
    pub fn defrag_page(&mut self, number: usize, mover: &mut impl Mover) {
        relocate(&mut self.pages[number], mover);
    }

    /// Takes it apart, to be freed a page at a time.
    pub fn into_pages(self) -> impl Iterator<Item = impl Sized> {
        self.pages.into_iter()
    }

    /// Returns how many slots are in use.
    #[cfg(any(test, feature = "checks"))]
    pub fn len(&self) -> usize {
        self.classes.iter().map(|class| class.live as usize).sum()
    }

    /// Returns the bytes allocated, the slab's own fields apart. O(pages).
    pub fn memory(&self) -> usize {
        let units = self.pages.iter().map(allotted);
        units.sum::<usize>() + allotted(&self.pages) + self.infos.memory() + allotted(&self.classes)
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub fn allocations(&self) -> usize {
        self.classes.iter().map(|class| class.pages as usize).sum::<usize>() + 3
    }

    fn info(&self, number: u32) -> Info {
        *self.infos.get(number as usize)
    }

    fn info_mut(&mut self, number: u32) -> &mut Info {
        self.infos.get_mut(number as usize)
    }

    #[cold]
    fn open_page(&mut self, class: usize, width: usize) -> Option<u32> {
        if self.classes.len() <= class {
            self.classes.reserve_exact(class + 1 - self.classes.len());
            self.classes.resize(class + 1, Class::EMPTY);
        }
        let before = self.classes[class].pages;
        let number = if self.vacant == NIL { self.pages.len() as u32 } else { self.vacant };
        if u64::from(number) >= Handle::pages::<T>() {
            return None;
        }
        let bytes = if before < EARLY_PAGES { EARLY_BYTES } else { PAGE_BYTES };
        let slots = slots_in::<T>(bytes, width);
        let capacity = slots * width;
        let mut units = Vec::new();
        // The only page of a class grows as it is filled, so that few slots take little. When it is emptied, that is into
        // another one which is then the only one.
        let is_leaving = self.leaving != NIL && usize::from(self.info(self.leaving).class) == class;
        if before > u32::from(is_leaving) {
            units.reserve_exact(capacity);
        }
        let info = Info {
            free: NIL,
            filled: 0,
            capacity: capacity as u32,
            width: width as u16,
            live: 0,
            prev: NIL,
            next: NIL,
            // There are 152 at the most.
            class: class as u8,
            is_linked: false,
        };
        if self.vacant == NIL {
            push_tight(&mut self.pages, units);
            self.infos.push(info);
        } else {
            self.vacant = self.info(number).next;
            self.pages[number as usize] = units;
            *self.info_mut(number) = info;
        }
        self.classes[class].pages += 1;
        self.classes[class].slots += slots as u32;
        self.link(number);
        Some(number)
    }

    /// Frees a page without slots in use and makes its number vacant.
    #[cold]
    fn close_page(&mut self, number: u32) {
        let info = self.info(number);
        if info.is_linked {
            self.unlink(number);
        }
        if self.leaving == number {
            self.leaving = NIL;
        }
        let class = &mut self.classes[usize::from(info.class)];
        class.pages -= 1;
        class.slots -= info.capacity / u32::from(info.width);
        self.pages[number as usize] = Vec::new();
        let vacant = std::mem::replace(&mut self.vacant, number);
        *self.info_mut(number) =
            Info { free: NIL, filled: 0, capacity: 0, width: 0, next: vacant, ..info };
        self.info_mut(number).is_linked = false;
        // Without any page there is nothing to keep numbers for.
        if self.classes.iter().all(|class| class.pages == 0) {
            *self = Self::new();
        }
    }

    /// Puts a page before the others that have room.
    #[cold]
    fn link(&mut self, number: u32) {
        let class = usize::from(self.info(number).class);
        let next = std::mem::replace(&mut self.classes[class].partial, number);
        let info = self.info_mut(number);
        (info.prev, info.next, info.is_linked) = (NIL, next, true);
        if next != NIL {
            self.info_mut(next).prev = number;
        }
    }

    #[cold]
    fn unlink(&mut self, number: u32) {
        let info = self.info_mut(number);
        let (prev, next) = (info.prev, info.next);
        (info.prev, info.next, info.is_linked) = (NIL, NIL, false);
        let class = usize::from(info.class);
        match prev {
            NIL => self.classes[class].partial = next,
            prev => self.info_mut(prev).next = next,
        }
        if next != NIL {
            self.info_mut(next).prev = prev;
        }
    }

    /// Returns the numbers of a list, from this one on.
    fn list(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let known = |number: u32| (number != NIL).then_some(number);
        std::iter::successors(known(first), move |number| known(self.info(*number).next))
    }

    /// Returns the first class of which a page can be emptied into the others (or, if it is the only one,
    /// into a smaller one). Each time that is done the class loses a page or shrinks to a quarter, so
    /// asking again comes to an end.
    fn sparse_class(&self) -> Option<usize> {
        self.classes.iter().position(|class| {
            let Class { pages, live, slots, partial } = *class;
            if partial == NIL {
                return false;
            }
            let width = usize::from(self.info(partial).width);
            if pages == 1 {
                let room = self.pages[partial as usize].capacity() / width;
                return room >= 4 * live as usize + 8;
            }
            // What is in the emptiest page, however large that is, must fit into the others.
            let early = slots_in::<T>(EARLY_BYTES, width) as u32;
            let largest =
                if slots > pages * early { slots_in::<T>(PAGE_BYTES, width) as u32 } else { early };
            let free = slots - live;
            free >= largest && u64::from(free) * 4 > u64::from(slots)
        })
    }

    /// Returns the page with the fewest slots in use among the first few that have room.
    fn emptiest(&self, class: usize) -> u32 {
        let first = self.classes[class].partial;
        self.list(first)
            .take(CANDIDATES)
            .min_by_key(|number| self.info(*number).live)
            .unwrap_or(first)
    }

    /// Panics unless counts, chains and lists agree.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        let mut seen = vec![Class::EMPTY; self.classes.len()];
        let mut vacant = 0;
        let mut with_room = 0;
        assert_eq!(self.infos.len(), self.pages.len());
        for (number, info) in (0..).zip(self.infos.iter()) {
            let units = &self.pages[number as usize];
            if info.width == 0 {
                assert!(units.is_empty(), "a vacant page has memory");
                vacant += 1;
                continue;
            }
            let width = usize::from(info.width);
            assert_eq!(class_of(width), (usize::from(info.class), width), "page {number}");
            assert!(info.filled <= info.capacity && info.filled as usize <= units.len());
            let slots = (0..info.filled).step_by(width);
            let free = slots.filter(|unit| units[*unit as usize].free().is_some());
            let free: std::collections::BTreeSet<_> = free.collect();
            let filled = info.filled as usize / width;
            assert_eq!(usize::from(info.live) + free.len(), filled, "page {number}: slots in use");
            if number != self.leaving {
                let next = |unit: &u32| units[*unit as usize].free().expect("a free slot");
                let known = |unit: u32| (unit != NIL).then_some(unit);
                let chain = std::iter::successors(known(info.free), |unit| known(next(unit)));
                let chain: Vec<_> = chain.take(free.len() + 1).collect();
                assert_eq!(chain.len(), free.len(), "page {number}: the chain of free slots");
                assert!(chain.iter().all(|unit| free.contains(unit)));
            }
            let class = &mut seen[usize::from(info.class)];
            class.pages += 1;
            class.live += u32::from(info.live);
            class.slots += info.capacity / u32::from(info.width);
            let is_listed = info.has_room() && number != self.leaving;
            assert_eq!(is_listed, info.is_linked, "page {number} is in the wrong list");
            with_room += usize::from(is_listed);
        }
        for (class, seen) in self.classes.iter().zip(&seen) {
            let counts = |class: &Class| (class.pages, class.live, class.slots);
            assert_eq!(counts(class), counts(seen));
            with_room -= self.list(class.partial).count();
        }
        assert_eq!(with_room, 0, "a page with room is in no list");
        assert_eq!(self.list(self.vacant).count(), vacant, "vacant pages");
    }
}

/// Returns how many slots there are in a page of so many bytes.
fn slots_in<T: Unit>(bytes: usize, width: usize) -> usize {
    // The last unit of a page has no number.
    let units = (bytes / size_of::<T>()).min((1 << T::BITS) - 1);
    (units / width).max(1)
}

/// Makes more units of a page ready, `needed` at least.
#[inline(never)]
fn stretch<T: Unit>(units: &mut Vec<T>, needed: usize, capacity: usize) {
    if needed > units.capacity() {
        // By a half while that is little: what is not used is paid by every lawn that is a little too large to be small.
        let is_little = units.len() * size_of::<T>() < LITTLE_BYTES;
        let more = if is_little { units.len() / 2 } else { units.len() };
        let room = (units.len() + more).clamp(needed, capacity);
        units.reserve_exact(room - units.len());
    }
    let most = (units.len() + STRETCH_BYTES / size_of::<T>()).min(units.capacity());
    units.resize(most.max(needed), T::default());
}

#[cfg(test)]
mod tests;
