//! A slot for each value, of four bytes: in which second its first element could first have been given out.
//!
//! ```text
//!   SHELVES: 512 ─▶ shelf: 1,024 ─▶ page: 60 rows of 64 slots, 16 KiB
//! ```
//!
//! A slot's number has the place in the page in its lowest twelve bits, and the page in those above, so that it is found by
//! shifts: some numbers are nobody's.
//!
//! Slots are taken and written by the main thread alone. A value may be freed on another one, and its slot with it, so slots
//! are atomics, and a page never goes once it is there: what a million keys took, 4 MiB, is kept for the next million.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing can be given out, and no time changes that.
pub const NEVER: u32 = u32::MAX;

/// Slots in a row.
pub const ROW: usize = 64;
/// Rows in a page: with all else it takes no more than 16 KiB.
pub const ROWS: usize = 60;
const PAGE: usize = ROW * ROWS;
/// Bits of a slot's number that are its place in its page.
const PLACE_BITS: u32 = 12;
const SHELF: usize = 1024;
/// Enough for numbers of 31 bits.
const SHELVES_MAX: usize = 512;

/// Pages at which one looks for a free slot before there is another page.
const LOOKS: usize = 16;

pub struct Page {
    seconds: [AtomicU32; PAGE],
    /// No slot of each row has less. The main thread's.
    bounds: [AtomicU32; ROWS],
    /// Which slots of each row are taken.
    taken: [AtomicU64; ROWS],
    free: AtomicU32,
}

type Shelf = [OnceLock<Box<Page>>; SHELF];

static SHELVES: [OnceLock<Box<Shelf>>; SHELVES_MAX] = [const { OnceLock::new() }; SHELVES_MAX];

thread_local! {
    /// How many pages there are.
    static PAGES: Cell<usize> = const { Cell::new(0) };
    /// The page and the row in which a slot was found free last.
    static FOUND: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

impl Page {
    fn new() -> Box<Self> {
        Box::new(Self {
            seconds: [const { AtomicU32::new(NEVER) }; PAGE],
            bounds: [const { AtomicU32::new(NEVER) }; ROWS],
            taken: [const { AtomicU64::new(0) }; ROWS],
            free: AtomicU32::new(PAGE as u32),
        })
    }

    /// Returns the seconds in a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = u32> + '_ {
        let row = &self.seconds[row * ROW..(row + 1) * ROW];
        row.iter().map(|second| second.load(Ordering::Relaxed))
    }

    /// Returns what no slot of a row is less than.
    pub fn bound(&self, row: usize) -> u32 {
        self.bounds[row].load(Ordering::Relaxed)
    }

    pub fn set_bound(&self, row: usize, bound: u32) {
        self.bounds[row].store(bound, Ordering::Relaxed);
    }

    /// Takes a free slot, if there is one in these rows.
    fn take(&self, rows: impl IntoIterator<Item = usize>) -> Option<(usize, usize)> {
        for row in rows {
            let taken = self.taken[row].load(Ordering::Acquire);
            if taken != u64::MAX {
                let place = taken.trailing_ones();
                self.taken[row].fetch_or(1 << place, Ordering::Relaxed);
                self.free.fetch_sub(1, Ordering::Relaxed);
                return Some((row, place as usize));
            }
        }
        None
    }
}

/// Returns a page that is there.
#[inline]
pub fn page(number: usize) -> &'static Page {
    let page = SHELVES[number / SHELF].get().and_then(|shelf| shelf[number % SHELF].get());
    page.expect("a slot is in a page")
}

/// Returns how many pages there are.
pub fn pages() -> usize {
    PAGES.get()
}

/// Names the page and the row of a slot.
pub fn row_of(slot: u32) -> (usize, usize) {
    (page_of(slot), place_of(slot) / ROW)
}

/// Names the page of a slot.
#[inline]
fn page_of(slot: u32) -> usize {
    (slot >> PLACE_BITS) as usize
}

/// Names the place of a slot in its page.
#[inline]
fn place_of(slot: u32) -> usize {
    (slot & ((1 << PLACE_BITS) - 1)) as usize
}

/// Names the first slot of a row.
pub fn first_of(page: usize, row: usize) -> u32 {
    ((page << PLACE_BITS) + row * ROW) as u32
}

/// Takes a slot that is nobody's. For the main thread.
pub fn take() -> u32 {
    let (found, row) = FOUND.get();
    let pages = PAGES.get();
    let slot = |number, (row, place): (usize, usize)| {
        FOUND.set((number, row));
        first_of(number, row) + place as u32
    };
    if pages > 0
        && let Some(at) = page(found).take(row..ROWS)
    {
        return slot(found, at);
    }
    for number in (found..found + pages.min(LOOKS)).map(|number| number % pages) {
        FOUND.set((number, 0));
        // Where few are free the next page is looked at sooner than they are found.
        if page(number).free.load(Ordering::Relaxed) as usize > ROW
            && let Some(at) = page(number).take(0..ROWS)
        {
            return slot(number, at);
        }
    }
    let new_shelf = || Box::new([const { OnceLock::new() }; SHELF]);
    let shelf = SHELVES[pages / SHELF].get_or_init(new_shelf);
    shelf[pages % SHELF].get_or_init(Page::new);
    PAGES.set(pages + 1);
    FOUND.set((pages, 0));
    let at = page(pages).take(0..1).expect("a new page is free");
    slot(pages, at)
}

/// Gives a slot back, on any thread.
pub fn give_back(slot: u32) {
    let (number, row) = row_of(slot);
    let page = page(number);
    page.seconds[place_of(slot)].store(NEVER, Ordering::Relaxed);
    // Whoever takes it next writes it after this.
    page.taken[row].fetch_and(!(1 << (place_of(slot) % ROW)), Ordering::Release);
    page.free.fetch_add(1, Ordering::Relaxed);
}

/// Returns what is noted in a slot.
#[inline]
pub fn second(slot: u32) -> u32 {
    page(page_of(slot)).seconds[place_of(slot)].load(Ordering::Relaxed)
}

/// Notes a second in a slot.
pub fn set_second(slot: u32, second: u32) {
    page(page_of(slot)).seconds[place_of(slot)].store(second, Ordering::Relaxed);
}

const _: () = assert!(size_of::<Page>() <= 16 * 1024 && PAGE <= 1 << PLACE_BITS);
