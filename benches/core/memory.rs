//! The allocator: jemalloc, as the server has it, and a count of the bytes that it sets aside.
//!
//! Counted are whole size classes, not what was asked for, again as the server does. The count is kept
//! only while it is wanted, so that stores that allocate for each element pay nothing for it when they
//! are timed.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use tikv_jemallocator::Jemalloc;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Adds the size of an allocation, or takes it off.
///
/// # Safety
///
/// `at` is null, or an allocation of jemalloc's that is not freed yet.
unsafe fn count(at: *mut u8, sign: isize) {
    if COUNTING.get() && !at.is_null() {
        // SAFETY: as the caller promises.
        let size = unsafe { tikv_jemallocator::usable_size(at) };
        BYTES.set(BYTES.get() + sign * size as isize);
    }
}

// SAFETY: each call is handed on to jemalloc as it is, and returns what jemalloc returns. Counting
// reads allocations while they live, and touches nothing but two cells that need no allocation.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe {
            let at = Jemalloc.alloc(layout);
            count(at, 1);
            at
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe {
            let at = Jemalloc.alloc_zeroed(layout);
            count(at, 1);
            at
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe {
            count(at, -1);
            Jemalloc.dealloc(at, layout);
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe {
            count(at, -1);
            let new = Jemalloc.realloc(at, layout, size);
            count(if new.is_null() { at } else { new }, 1);
            new
        }
    }
}

/// Bytes that this thread has allocated and not freed since it began to count.
pub fn allocated() -> isize {
    BYTES.get()
}

/// Counts from now on, from zero; or stops.
pub fn set_counting(counting: bool) {
    COUNTING.set(counting);
    BYTES.set(0);
}
