//! The allocator: jemalloc, as in the server, with a count of the allocated bytes.
//!
//! It counts whole size classes, not the requested sizes, again as the server does. It counts only when asked to, so
//! that timed runs of stores that allocate per element pay nothing for it.

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

/// Adds or subtracts the size of an allocation.
///
/// # Safety
///
/// `at` is null, or an allocation of jemalloc that is not freed yet.
unsafe fn count(at: *mut u8, sign: isize) {
    if COUNTING.get() && !at.is_null() {
        // SAFETY: as the caller promises.
        let size = unsafe { tikv_jemallocator::usable_size(at) };
        BYTES.set(BYTES.get() + sign * size as isize);
    }
}

// SAFETY: each call goes to jemalloc unchanged, and returns its result. Counting reads allocations while they live, and
// touches only two cells that need no allocation.
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

/// Returns the bytes that this thread has allocated and not freed since it began to count.
pub fn allocated() -> isize {
    BYTES.get()
}

/// Starts counting from zero, or stops.
pub fn set_counting(counting: bool) {
    COUNTING.set(counting);
    BYTES.set(0);
}
