//! A slot of four bytes for each value: the second at which its first element became, or becomes, available.
//!
//! ```text
//!   SHELVES: 512 ─▶ shelf: 1,024 ─▶ page: 60 rows of 64 slots, 16 KiB
//! ```
//!
//! The lowest twelve bits of a slot's number are its place in the page, the higher bits number the page, so that shifts
//! find it. Some numbers are unused.
//!
//! The main thread alone takes and writes slots. Another thread may free a value and its slot, so slots are atomics,
//! and a page is never freed: the 4 MiB of a million keys stay for the next million.
//!
//! Each row of slots has a *bound*, which no slot in it is below. A smaller second lowers the bound; a greater one, or
//! freeing a slot on any thread, leaves it, perhaps too low. [`first`] scans the bounds, reads the rows with the
//! lowest, and corrects their bounds. For a million slots (16,000 bounds) that took 0.1 ms, and 0.5 ms with something
//! overdue in each. After FLUSHALL all bounds are too low: a caller may limit the rows read, and call again for the
//! rest.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing becomes available by itself.
pub const NEVER: u32 = u32::MAX;

/// Slots in a row.
const ROW: usize = 64;
/// Rows in a page, which takes at most 16 KiB.
const ROWS: usize = 60;
const PAGE: usize = ROW * ROWS;
/// Bits of a slot's number for its place in the page.
const PLACE_BITS: u32 = 12;
const SHELF: usize = 1024;
/// Enough for slot numbers of 31 bits.
const SHELVES_MAX: usize = 512;

struct Page {
    seconds: [AtomicU32; PAGE],
    /// The lower bound of each row. The main thread's.
    bounds: [AtomicU32; ROWS],
    /// The taken slots of each row, a bit each.
    taken: [AtomicU64; ROWS],
}

type Shelf = [OnceLock<Box<Page>>; SHELF];

static SHELVES: [OnceLock<Box<Shelf>>; SHELVES_MAX] = [const { OnceLock::new() }; SHELVES_MAX];

thread_local! {
    /// The number of pages.
    static PAGES: Cell<usize> = const { Cell::new(0) };
    /// The row of the last free slot found.
    static FOUND: Cell<usize> = const { Cell::new(0) };
    /// The row from which slots are searched once the page of that row is full.
    static SEARCHED: Cell<usize> = const { Cell::new(0) };
}

impl Page {
    fn new() -> Box<Self> {
        Box::new(Self {
            seconds: [const { AtomicU32::new(NEVER) }; PAGE],
            bounds: [const { AtomicU32::new(NEVER) }; ROWS],
            taken: [const { AtomicU64::new(0) }; ROWS],
        })
    }
}

/// Returns an existing page.
#[inline]
fn page(number: usize) -> &'static Page {
    let shelf = SHELVES[number / SHELF].get().expect("a page is on a shelf");
    shelf[number % SHELF].get().expect("a slot is in a page")
}

/// Returns the page of a slot, and the place in it.
#[inline]
fn place_of(slot: u32) -> (&'static Page, usize) {
    (page((slot >> PLACE_BITS) as usize), (slot & ((1 << PLACE_BITS) - 1)) as usize)
}

/// Returns the first slot of a row.
fn first_of(page: usize, row: usize) -> u32 {
    ((page << PLACE_BITS) + row * ROW) as u32
}

/// Takes a free slot. For the main thread.
pub fn take() -> u32 {
    let (rows, found) = (PAGES.get() * ROWS, FOUND.get());
    let rest_of_page = found..rows.min((found / ROWS + 1) * ROWS);
    let searched = SEARCHED.get()..(SEARCHED.get() + ROWS).min(rows);
    for row in rest_of_page.chain(searched.clone()) {
        if let Some(slot) = take_in(row) {
            return slot;
        }
    }
    SEARCHED.set(if searched.end < rows { searched.end } else { 0 });
    let number = PAGES.replace(PAGES.get() + 1);
    let new_shelf = || Box::new([const { OnceLock::new() }; SHELF]);
    SHELVES[number / SHELF].get_or_init(new_shelf)[number % SHELF].get_or_init(Page::new);
    take_in(rows).expect("a new page is free")
}

/// Takes a free slot in a row, by the row's number among those of all pages.
fn take_in(row: usize) -> Option<u32> {
    let (number, place) = (row / ROWS, row % ROWS);
    let taken = &page(number).taken[place];
    let free = taken.load(Ordering::Acquire).trailing_ones();
    if free == u64::BITS {
        return None;
    }
    taken.fetch_or(1 << free, Ordering::Relaxed);
    FOUND.set(row);
    Some(first_of(number, place) + free)
}

/// Frees a slot, on any thread.
pub fn give_back(slot: u32) {
    let (page, place) = place_of(slot);
    page.seconds[place].store(NEVER, Ordering::Relaxed);
    // The next owner writes the slot after this.
    page.taken[place / ROW].fetch_and(!(1 << (place % ROW)), Ordering::Release);
}

/// Returns the second in a slot.
#[inline]
pub fn second(slot: u32) -> u32 {
    let (page, place) = place_of(slot);
    page.seconds[place].load(Ordering::Relaxed)
}

/// Sets the second of a slot and lowers the row's bound.
pub fn set(slot: u32, second: u32) {
    let (page, place) = place_of(slot);
    page.seconds[place].store(second, Ordering::Relaxed);
    let bound = &page.bounds[place / ROW];
    if second < bound.load(Ordering::Relaxed) {
        bound.store(second, Ordering::Relaxed);
    }
}

/// The slots with the earliest seconds among the rows read.
pub struct First {
    /// The second and the slot of each, in order.
    pub found: Vec<(u32, u32)>,
    /// Set if an unread row may hold an earlier one.
    pub is_cut: bool,
    /// The number of rows read.
    #[cfg(test)]
    pub rows: usize,
}

/// Returns the `most` slots with the earliest seconds up to `latest`. Reads at most `rows_max` rows.
pub fn first(latest: u32, most: usize, rows_max: usize) -> First {
    let rows = (0..PAGES.get()).flat_map(|page| (0..ROWS).map(move |row| (page, row)));
    let bounds = rows.map(|(number, row)| {
        Reverse((page(number).bounds[row].load(Ordering::Relaxed), number, row))
    });
    let mut rows: BinaryHeap<_> =
        bounds.filter(|Reverse((bound, ..))| *bound <= latest && *bound != NEVER).collect();
    // The latest is on top.
    let mut found: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    let (mut looked, mut is_cut) = (0, false);
    while let Some(Reverse((bound, number, row))) = rows.pop() {
        if found.len() >= most && found.peek().is_none_or(|(second, _)| *second <= bound) {
            break;
        }
        if looked == rows_max {
            is_cut = true;
            break;
        }
        looked += 1;
        let page = page(number);
        let mut bound = NEVER;
        let seconds = &page.seconds[row * ROW..(row + 1) * ROW];
        for (second, slot) in seconds.iter().zip(first_of(number, row)..) {
            let second = second.load(Ordering::Relaxed);
            bound = bound.min(second);
            if second <= latest && second != NEVER {
                found.push((second, slot));
                if found.len() > most {
                    found.pop();
                }
            }
        }
        page.bounds[row].store(bound, Ordering::Relaxed);
    }
    First {
        found: found.into_sorted_vec(),
        is_cut,
        #[cfg(test)]
        rows: looked,
    }
}

const _: () = assert!(ROW == u64::BITS as usize);
const _: () = assert!(size_of::<Page>() <= 16 * 1024 && PAGE <= 1 << PLACE_BITS);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_first_slots_are_the_earliest_whatever_is_set_and_freed_on_any_thread() {
        // Slots are shared by the process, bounds belong to the thread: no other test here takes slots.
        let mut oracle = BTreeMap::new();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) as usize % below
        };
        for round in 0..30_000 {
            let at = draw(oracle.len().max(1));
            let slot = oracle.keys().nth(at).copied();
            match (slot, draw(8)) {
                (Some(slot), 0) if round % 4096 > 2048 => {
                    oracle.remove(&slot);
                    // The server frees on a background thread too.
                    std::thread::scope(|scope| _ = scope.spawn(|| give_back(slot)));
                }
                (Some(slot), 1..4) => {
                    let second = if draw(9) == 0 { NEVER } else { draw(1000) as u32 };
                    set(slot, second);
                    oracle.insert(slot, second);
                }
                _ => {
                    let slot = take();
                    set(slot, round % 1000);
                    assert!(oracle.insert(slot, round % 1000).is_none(), "slot {slot} is taken");
                }
            }
            if draw(50) == 0 {
                let (latest, most) = (draw(1100) as u32, 1 + draw(20));
                let found = first(latest, most, usize::MAX).found;
                assert!(found.iter().all(|(second, slot)| oracle.get(slot) == Some(second)));
                let mut all: Vec<_> = oracle.values().filter(|it| **it <= latest).collect();
                all.retain(|second| **second != NEVER);
                all.sort_unstable();
                all.truncate(most);
                let found: Vec<_> = found.iter().map(|(second, _)| second).collect();
                assert_eq!(found, all, "{most} until {latest} in round {round}");
            }
        }
        for (slot, expected) in oracle {
            assert_eq!(second(slot), expected);
            give_back(slot);
        }
        assert_eq!(first(u32::MAX, 3, usize::MAX).found, []);
        reading_a_few_rows_at_a_time_finds_the_only_slot_left();
    }

    /// As after FLUSHALL. Called by the test above because slots are shared by the process.
    fn reading_a_few_rows_at_a_time_finds_the_only_slot_left() {
        const ROWS_MAX: usize = 100;
        let slots: Vec<_> = (0..100_000).map(|_| take()).collect();
        let last = *slots.last().expect("some");
        slots.iter().for_each(|slot| set(*slot, if *slot == last { 9 } else { 5 }));
        slots.iter().filter(|slot| **slot != last).for_each(|slot| give_back(*slot));
        let (mut calls, mut read) = (0, 0);
        let found = loop {
            let answer = first(7, 3, ROWS_MAX);
            calls += 1;
            read += answer.rows;
            assert!(answer.rows <= ROWS_MAX && answer.found.is_empty());
            if !answer.is_cut {
                break first(9, 3, ROWS_MAX);
            }
        };
        // Each row once, and in each call those on the way to the first.
        let rows = slots.len() / ROW;
        assert!(read >= rows && read < rows + rows / 8, "{read} read, {rows} rows");
        assert_eq!(calls, read.div_ceil(ROWS_MAX), "each call makes progress");
        assert_eq!((found.found, found.is_cut), (vec![(9, last)], false));
        give_back(last);
    }
}
