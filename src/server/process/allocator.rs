//! The server's allocator as that of the module, so that the server's memory limits and statistics see what is ours.
//!
//! Rust says how each allocation is to be aligned, and the server's function knows sizes alone. Nearly all that we ask for
//! is aligned to 8 bytes, which every server's memory is. More is for two rules:
//!
//! * A size is rounded up to a multiple of its alignment: jemalloc, as Redis builds it, has sizes of 24, 40 and 56 bytes,
//!   which are aligned to 8; those of a multiple of 16 are aligned to 16.
//! * A server that cannot ask the C library for the size of an allocation writes it in front, and returns what is 8 bytes
//!   further. There, and wherever more than 16 bytes are asked for, a little more is allocated, what is handed out is
//!   *shifted* to the next multiple, and the word before that says where the allocation begins.
//!
//! Which kind of server it is, is found out while the module is loaded ([`probe`]) and holds from then on, so what is freed
//! is treated as it was when it was allocated: the layout is the same, and decides alone.
//!
//! To grow is to allocate, copy and free, which is what `GlobalAlloc` does if nothing else is said.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis_module::raw;

/// Every server's memory is aligned to this.
const WORD: usize = 8;
/// No server promises more.
const MOST: usize = 16;

#[cfg_attr(not(test), global_allocator)]
static ALLOCATOR: Aligned<Server> = Aligned::of(Server);

/// Finds out how the server aligns. To be called once, before anything is allocated.
pub fn probe() {
    ALLOCATOR.probe();
}

/// Returns whether what has this alignment is handed out as it came from the server, which may then move it.
pub fn is_plain(align: usize) -> bool {
    ALLOCATOR.is_plain(align)
}

/// Where memory comes from.
///
/// # Safety
///
/// What `take` returns is null, or memory of that size that nobody else has until it is given back, aligned to [`WORD`].
unsafe trait Memory {
    fn take(&self, size: usize) -> *mut u8;

    /// Gives memory back.
    ///
    /// # Safety
    ///
    /// `start` must come from `take`, and be used no more.
    unsafe fn give_back(&self, start: *mut u8);
}

/// The server's.
struct Server;

// SAFETY: the server's functions are those of an allocator. Without them, there is none.
unsafe impl Memory for Server {
    #[inline]
    fn take(&self, size: usize) -> *mut u8 {
        // SAFETY: the server has filled in its functions, and changes them no more; this one takes any size.
        unsafe { raw::RedisModule_Alloc.map_or(std::ptr::null_mut(), |alloc| alloc(size)) }.cast()
    }

    #[inline]
    unsafe fn give_back(&self, start: *mut u8) {
        // SAFETY: as above, and the caller vouches for the allocation.
        unsafe {
            if let Some(free) = raw::RedisModule_Free {
                free(start.cast::<c_void>());
            }
        }
    }
}

/// An allocator that sees to alignment.
struct Aligned<M> {
    memory: M,
    /// What is aligned to this or less is not shifted.
    plain: AtomicUsize,
}

impl<M: Memory> Aligned<M> {
    const fn of(memory: M) -> Self {
        Self { memory, plain: AtomicUsize::new(WORD) }
    }

    fn is_plain(&self, align: usize) -> bool {
        // Written once, before anything was allocated that another thread may come to free.
        align <= WORD || align <= self.plain.load(Ordering::Relaxed)
    }

    fn probe(&self) {
        // One of each size is enough: where the server writes a size in front, it does so always. All are held until
        // the end, so that each is another one.
        let sizes = [1, 2, 3, 4, 5, 6, 7, 8, 16, 31, 64, 256].map(|times| times * MOST);
        let taken = sizes.map(|size| self.memory.take(size));
        let is_aligned = taken.iter().all(|start| start.addr().is_multiple_of(MOST));
        for start in taken {
            // SAFETY: it was taken above.
            unsafe { self.memory.give_back(start) };
        }
        self.plain.store(if is_aligned { MOST } else { WORD }, Ordering::Relaxed);
    }

    /// Allocates what is aligned to more than [`WORD`]: tables, of which there are few.
    #[cold]
    unsafe fn alloc_aligned(&self, layout: Layout) -> *mut u8 {
        let align = layout.align();
        // A layout's size, rounded up to a multiple of its alignment, does not overflow, nor does that with one more.
        let size = layout.size().next_multiple_of(align);
        if self.is_plain(align) {
            return self.memory.take(size);
        }
        let base = self.memory.take(size + align);
        if base.is_null() {
            return base;
        }
        // From 8 to `align` bytes, because the base is a multiple of 8: there is room for a word before what is handed
        // out, and for all of it behind.
        let shift = align - base.addr() % align;
        // SAFETY: both lie within the allocation, and the word is aligned as both are multiples of 8.
        unsafe {
            let start = base.add(shift);
            start.cast::<*mut u8>().sub(1).write(base);
            start
        }
    }

    #[cold]
    unsafe fn dealloc_aligned(&self, start: *mut u8, align: usize) {
        // SAFETY: where it was shifted, `alloc_aligned` has written the word before it; the caller vouches for the rest.
        unsafe {
            let base =
                if self.is_plain(align) { start } else { start.cast::<*mut u8>().sub(1).read() };
            self.memory.give_back(base);
        }
    }
}

// SAFETY: what is handed out is the memory's, and is aligned: to 8 bytes because all of it is, to more because the size is
// such that it is, or because it was shifted. Nothing here panics.
unsafe impl<M: Memory> GlobalAlloc for Aligned<M> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= WORD {
            return self.memory.take(layout.size());
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.alloc_aligned(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that it came from `alloc`, with the same layout, so the same branch was taken then.
        unsafe {
            if layout.align() <= WORD {
                return self.memory.give_back(start);
            }
            self.dealloc_aligned(start, layout.align());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::cell::RefCell;
    use std::collections::HashMap;

    use super::*;

    /// Memory whose addresses are so many bytes beyond a multiple of 4096, and which knows what is out.
    struct Mock {
        beyond: usize,
        out: RefCell<HashMap<usize, Layout>>,
    }

    impl Mock {
        const PAGE: usize = 4096;

        fn aligned(beyond: usize) -> Aligned<Mock> {
            Aligned::of(Mock { beyond, out: RefCell::default() })
        }
    }

    // SAFETY: each is an allocation of the system's of its own, and the bytes beyond are within it.
    unsafe impl Memory for Mock {
        fn take(&self, size: usize) -> *mut u8 {
            let layout = Layout::from_size_align(self.beyond + size, Self::PAGE).expect("small");
            // SAFETY: no size is zero.
            let start = unsafe { System.alloc(layout).add(self.beyond) };
            assert!(self.out.borrow_mut().insert(start.addr(), layout).is_none());
            start
        }

        unsafe fn give_back(&self, start: *mut u8) {
            let layout = self.out.borrow_mut().remove(&start.addr()).expect("it was taken");
            // SAFETY: the layout is that with which it was allocated.
            unsafe { System.dealloc(start.sub(self.beyond), layout) };
        }
    }

    fn layouts() -> impl Iterator<Item = Layout> {
        let aligns = (0..=12).map(|bits| 1 << bits);
        aligns.flat_map(|align| {
            [1, 7, 8, 24, 40, 56, 64, 100, 4095, 4096, 70_000]
                .map(|size| Layout::from_size_align(size, align).expect("small"))
        })
    }

    #[test]
    fn whatever_the_server_aligns_to_we_align_as_asked() {
        for beyond in [0, 8, 16, 24, 40, 48, 4088] {
            let allocator = Mock::aligned(beyond);
            allocator.probe();
            assert!(allocator.memory.out.borrow().is_empty(), "what was tried is given back");
            assert_eq!(allocator.is_plain(16), beyond.is_multiple_of(16));
            assert!(allocator.is_plain(8) && !allocator.is_plain(32));
            // SAFETY: all of it is freed with its layout, once, and written to within its size.
            unsafe {
                let all: Vec<_> =
                    layouts().map(|layout| (allocator.alloc(layout), layout)).collect();
                for (start, layout) in &all {
                    assert!(start.addr().is_multiple_of(layout.align()), "{layout:?} at {beyond}");
                    let out = allocator.memory.out.borrow();
                    let (base, whole) = out
                        .iter()
                        .find(|(base, whole)| {
                            (**base..**base + whole.size()).contains(&start.addr())
                        })
                        .expect("it is within one");
                    let end = base + whole.size() - beyond;
                    assert!(start.addr() + layout.size() <= end, "{layout:?} at {beyond}");
                    start.write_bytes(0xff, layout.size());
                }
                all.into_iter().for_each(|(start, layout)| allocator.dealloc(start, layout));
            }
            assert!(allocator.memory.out.borrow().is_empty(), "all of it is given back");
        }
    }

    #[test]
    fn what_grows_and_what_is_zeroed_is_aligned_too() {
        let allocator = Mock::aligned(8);
        allocator.probe();
        let layout = Layout::from_size_align(48, 16).expect("small");
        // SAFETY: as above.
        unsafe {
            let start = allocator.alloc_zeroed(layout);
            assert_eq!(std::slice::from_raw_parts(start, 48), [0; 48]);
            start.write_bytes(7, 48);
            let start = allocator.realloc(start, layout, 4800);
            assert!(start.addr().is_multiple_of(16));
            assert_eq!(std::slice::from_raw_parts(start, 48), [7; 48]);
            allocator.dealloc(start, Layout::from_size_align(4800, 16).expect("small"));
        }
        assert!(allocator.memory.out.borrow().is_empty());
    }

    #[test]
    fn a_size_is_a_multiple_of_an_alignment_that_is_not_usual() {
        let allocator = Mock::aligned(0);
        allocator.probe();
        for size in [24, 40, 56] {
            // SAFETY: as above.
            unsafe {
                let layout = Layout::from_size_align(size, 16).expect("small");
                let start = allocator.alloc(layout);
                let taken = allocator.memory.out.borrow()[&start.addr()].size();
                assert_eq!(taken, size + 8, "jemalloc aligns {size} bytes to 8");
                allocator.dealloc(start, layout);
            }
        }
    }

    #[test]
    fn where_there_is_no_memory_there_is_none() {
        struct Nothing;

        // SAFETY: it never returns any.
        unsafe impl Memory for Nothing {
            fn take(&self, _: usize) -> *mut u8 {
                std::ptr::null_mut()
            }

            unsafe fn give_back(&self, _: *mut u8) {}
        }

        let allocator = Aligned::of(Nothing);
        // SAFETY: nothing is written to.
        assert!(layouts().all(|layout| unsafe { allocator.alloc(layout) }.is_null()));
    }
}
