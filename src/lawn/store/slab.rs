//! Slots of a few units each, in pages, addressed by 32-bit handles.
//!
//! A general-purpose allocator names a record by a pointer of 8 bytes and rounds its size up. Here a name has 4 bytes,
//! and a slot is as wide as its class. In exchange the slab manages memory itself, in two bounded ways:
//!
//! - *It grows with little copying.* The first page of a class doubles, up to 64 KiB. Later pages are allocated at
//!   their full size and filled from the front. Otherwise only the tables of pages are copied when they double: 60 bytes
//!   for each 256 KiB.
//! - *It gives memory back.* A page is freed with its last slot. Half-empty pages are emptied one slot at a time:
//!   [`Slab::sparse_slot`] names a slot to move; the owner calls [`Slab::relocate`] and replaces the old handle
//!   wherever it is stored. Only the tables of pages never shrink: a thousandth of the peak.
//!
//! ```text
//!   Handle  [ page | first unit ]            classes[c] ─┐ pages that have room,
//!               │         │                              ▼ as a linked list
//!   pages[page] ─▶ [ . . [slot] . . ]        infos: page ⇄ page ⇄ page
//!                                                    │
//!                                    free: a chain through the free slots themselves
//! ```
//!
//! A handle names the first unit of a slot. To find it takes a shift, a mask and one read of the table of pages; the
//! width of the page's slots is not needed. A separate table has what only insertion and removal need. The first unit
//! of a free slot is marked as free and names the next free slot.
//!
//! Insertion, removal and access are O(1).

use super::super::memory::{Mover, Steps, allotted, push_tight, relocate};
use super::super::work;
use super::handle::{Handle, Unit};
pub use class::WIDEST;
use class::{Class, EARLY_BYTES, Info, NIL, PAGE_BYTES, class_of, slots_in};

mod class;

/// A class with this many pages allocates the next one at full size: what a full page may waste is then small in
/// comparison.
const EARLY_PAGES: u32 = 4;
/// Below this size in bytes a page grows by half instead of doubling.
const SMALL_PAGE_BYTES: usize = 16 * 1024;
/// Bytes of a page that are initialized at once.
const INIT_BYTES: usize = 2048;
/// Pages with room that are compared to find the emptiest one.
const CANDIDATES: usize = 32;
/// At least the number of classes, in words of bits.
const CLASS_WORDS: usize = 3;

/// Slots of units `T`, of any width up to [`WIDEST`].
pub struct Slab<T> {
    /// The initialized units of each page. A vacant page number has none.
    pub pages: Vec<Vec<T>>,
    infos: Vec<Info>,
    classes: Vec<Class>,
    /// The classes of which a page could be emptied when a slot of theirs was last freed, as bits. Only then can a class
    /// become one, and later insertions may fill it again.
    sparse: [u64; CLASS_WORDS],
    /// The first vacant page number.
    vacant: u32,
    /// The page that is being emptied. It is not in the list of pages with room.
    draining: u32,
    /// Fewer pages than a handle can name.
    #[cfg(test)]
    pub pages_max: usize,
}

impl<T: Unit> Clone for Slab<T> {
    /// Clones pages with their memory: the classes compare with that, and a page is filled further.
    fn clone(&self) -> Self {
        let page = |units: &Vec<T>| {
            let mut page = Vec::with_capacity(units.capacity());
            page.extend_from_slice(units);
            page
        };
        Self {
            pages: self.pages.iter().map(page).collect(),
            infos: self.infos.clone(),
            classes: self.classes.clone(),
            ..*self
        }
    }
}

impl<T: Unit> Slab<T> {
    pub fn new() -> Self {
        Self {
            pages: Vec::new(),
            infos: Vec::new(),
            classes: Vec::new(),
            sparse: [0; CLASS_WORDS],
            vacant: NIL,
            draining: NIL,
            #[cfg(test)]
            pages_max: usize::MAX,
        }
    }

    /// Returns the units from a slot to the end of its page. The owner knows from the content where the slot ends, so
    /// its width need not be looked up.
    ///
    /// The accessors are always inlined: every operation calls them several times, and a call costs as much as the
    /// access.
    #[inline(always)]
    pub fn get(&self, handle: Handle) -> &[T] {
        &self.pages[handle.page::<T>()][handle.unit::<T>()..]
    }

    /// Returns the units from `units` in front of a handle to the end of its page.
    #[inline(always)]
    pub fn before(&self, handle: Handle, units: usize) -> &[T] {
        &self.pages[handle.page::<T>()][handle.unit::<T>() - units..]
    }

    /// Does what [`Slab::before`] does, mutably.
    #[inline(always)]
    pub fn before_mut(&mut self, handle: Handle, units: usize) -> &mut [T] {
        &mut self.pages[handle.page::<T>()][handle.unit::<T>() - units..]
    }

    /// Returns the units from a slot to the end of its page, mutably.
    #[inline(always)]
    pub fn get_mut(&mut self, handle: Handle) -> &mut [T] {
        &mut self.pages[handle.page::<T>()][handle.unit::<T>()..]
    }

    /// Returns the first unit of a slot.
    #[inline(always)]
    pub fn unit(&self, handle: Handle) -> &T {
        &self.pages[handle.page::<T>()][handle.unit::<T>()]
    }

    /// Returns the first unit of a slot, mutably.
    #[inline(always)]
    pub fn unit_mut(&mut self, handle: Handle) -> &mut T {
        &mut self.pages[handle.page::<T>()][handle.unit::<T>()]
    }

    /// Allocates a slot of at least `width` units, up to [`WIDEST`]. The content is arbitrary, and the owner must write
    /// the first unit. `None` when all page numbers of a handle are in use.
    #[inline(always)]
    pub fn insert(&mut self, width: usize) -> Option<Handle> {
        let (class, width) = class_of(width);
        let number = match self.classes.get(class) {
            Some(class) if class.partial != NIL => class.partial,
            _ => self.open_page(class, width)?,
        };
        let info = &mut self.infos[number as usize];
        let units = &mut self.pages[number as usize];
        let unit = info.free;
        let unit = if unit == NIL {
            let unit = info.filled;
            info.filled += width as u32;
            if info.filled as usize > units.len() {
                extend_page(units, info.filled as usize, info.capacity as usize);
                self.classes[class].update_sparse_below::<T>(width, units.capacity());
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

    /// Frees a slot, and its page with the last slot. A class keeps one empty page while no other page has room, so
    /// that a load at the edge does not allocate at every step.
    #[inline(always)]
    pub fn remove(&mut self, handle: Handle) {
        let number = handle.page::<T>();
        let unit = &mut self.pages[number][handle.unit::<T>()];
        assert!(unit.free().is_none(), "a slot is freed twice");
        let info = &mut self.infos[number];
        unit.set_free(info.free);
        info.free = handle.unit::<T>() as u32;
        info.live -= 1;
        let class = usize::from(info.class);
        self.classes[class].live -= 1;
        if info.live == 0 || !info.is_linked {
            self.repair_page(number as u32);
        }
        let is_sparse = u64::from(self.classes.get(class).is_some_and(Class::is_sparse));
        let word = &mut self.sparse[class / 64];
        *word = *word & !(1 << (class % 64)) | is_sparse << (class % 64);
    }

    /// Updates the lists after a slot was freed in a page that was full, is being emptied, or is empty now.
    #[cold]
    fn repair_page(&mut self, number: u32) {
        let info = self.info(number);
        if !info.is_linked && number != self.draining {
            self.link(number);
        }
        if info.live == 0 {
            let info = self.info(number);
            let is_alone = info.prev == NIL && info.next == NIL;
            if number == self.draining || !is_alone {
                self.close_page(number);
            }
        }
    }

    /// Returns whether [`Slab::sparse_slot`] would name a slot. O(classes that were sparse).
    pub fn is_sparse(&self) -> bool {
        self.draining != NIL || self.sparse_class().is_some()
    }

    /// Returns a slot to move so that a page can be freed. `None` when the slab is dense, that is, when each class is
    /// at least three quarters full or has less than a page to spare. O(classes that were sparse), of which there are
    /// at most 152, and a scan over the page's free slots, each visited once while the page is emptied.
    pub fn sparse_slot(&mut self) -> Option<Handle> {
        loop {
            if self.draining == NIL {
                let sparse = self.sparse_class()?;
                let with_room = self.list(self.classes[sparse].partial).take(CANDIDATES);
                let number = with_room.min_by_key(|number| self.info(*number).live)?;
                self.unlink(number);
                if self.info(number).live == 0 {
                    self.close_page(number);
                    continue;
                }
                self.draining = number;
            }
            // Scan from the end: free slots there are cut off and not visited again.
            let (number, width) = (self.draining, u32::from(self.info(self.draining).width));
            let info = &mut self.infos[number as usize];
            // No slot is allocated in this page any more.
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

    /// Lets the page be that is being emptied, because a slot of it cannot move. Its class does not count as sparse until
    /// another slot of it is freed. O(slots of the page).
    pub fn keep_page(&mut self) {
        let number = std::mem::replace(&mut self.draining, NIL);
        if number == NIL {
            return;
        }
        let Info { filled, width, class, .. } = self.info(number);
        let mut free = NIL;
        for unit in (0..filled).step_by(width.into()) {
            let slot = &mut self.pages[number as usize][unit as usize];
            if slot.free().is_some() {
                slot.set_free(free);
                free = unit;
            }
        }
        self.info_mut(number).free = free;
        if self.info(number).has_room() {
            self.link(number);
        }
        self.sparse[usize::from(class) / 64] &= !(1 << (class % 64));
    }

    /// Moves a slot's content to another slot of its class, and returns that. `None` if there is no room.
    #[must_use = "the slot has another name"]
    pub fn relocate(&mut self, handle: Handle) -> Option<Handle> {
        let width = usize::from(self.info(handle.page::<T>() as u32).width);
        let target = self.insert(width)?;
        // Two pages of one table cannot both be borrowed mutably, so take the source out for the copy.
        let source = std::mem::take(&mut self.pages[handle.page::<T>()]);
        work::move_items::<T>(width);
        self.get_mut(target)[..width].copy_from_slice(&source[handle.unit::<T>()..][..width]);
        self.pages[handle.page::<T>()] = source;
        self.remove(handle);
        Some(target)
    }

    /// Moves the tables of pages and classes, then a page in each step.
    pub fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        steps.one(|mover| {
            relocate(&mut self.classes, mover);
            relocate(&mut self.pages, mover);
            relocate(&mut self.infos, mover);
        });
        steps.each(&mut self.pages, relocate);
    }

    /// Returns the number of slots in use.
    #[cfg(any(test, feature = "checks"))]
    pub fn len(&self) -> usize {
        self.classes.iter().map(|class| class.live as usize).sum()
    }

    /// Returns the bytes allocated, without the struct itself. O(pages).
    pub fn memory(&self) -> usize {
        let units = self.pages.iter().map(allotted);
        units.sum::<usize>()
            + allotted(&self.pages)
            + allotted(&self.infos)
            + allotted(&self.classes)
    }

    /// Returns roughly how many allocations dropping it frees. O(1).
    pub fn allocations(&self) -> usize {
        self.classes.iter().map(|class| class.pages as usize).sum::<usize>() + 3
    }

    fn info(&self, number: u32) -> Info {
        self.infos[number as usize]
    }

    fn info_mut(&mut self, number: u32) -> &mut Info {
        &mut self.infos[number as usize]
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
        #[cfg(test)]
        if number as usize >= self.pages_max {
            return None;
        }
        let bytes = if before < EARLY_PAGES { EARLY_BYTES } else { PAGE_BYTES };
        let slots = slots_in::<T>(bytes, width);
        let capacity = slots * width;
        let mut units = Vec::new();
        // The only page of a class grows as it fills, so that a few slots take little memory. A page that is being
        // emptied does not count, because it is about to go.
        let is_draining =
            self.draining != NIL && usize::from(self.info(self.draining).class) == class;
        if before > u32::from(is_draining) {
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
            // At most 152.
            class: class as u8,
            is_linked: false,
        };
        if self.vacant == NIL {
            push_tight(&mut self.pages, units);
            push_tight(&mut self.infos, info);
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

    /// Frees a page without slots in use, and makes its number vacant.
    #[cold]
    fn close_page(&mut self, number: u32) {
        let info = self.info(number);
        if info.is_linked {
            self.unlink(number);
        }
        if self.draining == number {
            self.draining = NIL;
        }
        let class = &mut self.classes[usize::from(info.class)];
        class.pages -= 1;
        class.slots -= info.capacity / u32::from(info.width);
        self.pages[number as usize] = Vec::new();
        let vacant = std::mem::replace(&mut self.vacant, number);
        *self.info_mut(number) =
            Info { free: NIL, filled: 0, capacity: 0, width: 0, next: vacant, ..info };
        self.info_mut(number).is_linked = false;
        // Without pages, no page number is worth keeping.
        if self.classes.iter().all(|class| class.pages == 0) {
            *self = Self::new();
        } else {
            self.update_sparse_below(usize::from(info.class));
        }
    }

    /// Inserts a page at the front of the pages with room.
    #[cold]
    fn link(&mut self, number: u32) {
        let class = usize::from(self.info(number).class);
        let next = std::mem::replace(&mut self.classes[class].partial, number);
        let info = self.info_mut(number);
        (info.prev, info.next, info.is_linked) = (NIL, next, true);
        if next != NIL {
            self.info_mut(next).prev = number;
        }
        self.update_sparse_below(class);
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

    /// Iterates over a list of page numbers.
    fn list(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let known = |number: u32| (number != NIL).then_some(number);
        std::iter::successors(known(first), move |number| known(self.info(*number).next))
    }

    /// Returns the first sparse class. Each time, the class loses a page or shrinks to a quarter, so that repeated calls
    /// end.
    #[inline(always)]
    fn sparse_class(&self) -> Option<usize> {
        // This is asked after every command that removes, and usually there is none.
        for (word, bits) in self.sparse.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let class = 64 * word + bits.trailing_zeros() as usize;
                if self.classes.get(class).is_some_and(Class::is_sparse) {
                    return Some(class);
                }
                bits &= bits - 1;
            }
        }
        None
    }

    /// Updates what a class compares with, after its pages have changed.
    fn update_sparse_below(&mut self, class: usize) {
        let partial = self.classes[class].partial;
        if partial == NIL {
            self.classes[class].sparse_below = 0;
        } else {
            let width = usize::from(self.info(partial).width);
            let capacity = self.pages[partial as usize].capacity();
            self.classes[class].update_sparse_below::<T>(width, capacity);
        }
    }
}

/// Initializes more units of a page, up to `needed` or further.
#[inline(never)]
fn extend_page<T: Unit>(units: &mut Vec<T>, needed: usize, capacity: usize) {
    if needed > units.capacity() {
        // Grow small pages by half only: every lawn slightly above the small form pays for unused memory.
        let is_little = units.len() * size_of::<T>() < SMALL_PAGE_BYTES;
        let more = if is_little { units.len() / 2 } else { units.len() };
        let room = (units.len() + more).clamp(needed, capacity);
        work::move_items::<T>(units.len());
        units.reserve_exact(room - units.len());
    }
    let most = (units.len() + INIT_BYTES / size_of::<T>()).min(units.capacity());
    units.resize(most.max(needed), T::default());
}

#[cfg(any(test, feature = "checks"))]
mod check;
#[cfg(test)]
mod tests;
