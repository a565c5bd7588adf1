//! The server's allocator as the module's allocator, so that the server's memory limits and statistics include the module.
//!
//! Rust requests an alignment for each allocation, and the server's function takes only a size. Nearly all requests are for
//! 8 bytes, which every server guarantees. An [`EXCEPTION`] needs 16, although Rust requests 8. Two rules provide more:
//!
//! * A size is rounded up to a multiple of its alignment: jemalloc, as Redis builds it, has size classes of 24, 40 and 56
//!   bytes, which are aligned to 8; sizes that are a multiple of 16 are aligned to 16.
//! * A server that cannot ask the C library for the size of an allocation writes the size in front, and returns a pointer 8
//!   bytes further. On such a server, and for every alignment above 16 bytes, a little more is allocated, and the pointer is
//!   *shifted* to the next multiple. The word before the shifted pointer holds the start of the allocation.
//!
//! [`probe`] finds out the kind of server once, when the module loads. So the layout alone decides whether a pointer is
//! shifted, and the decision is the same when the memory is freed.
//!
//! Growing allocates, copies and frees: `GlobalAlloc`'s default.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis_module::raw;

/// The alignment that every server guarantees, in bytes.
const WORD: usize = 8;
/// The largest alignment that a server guarantees, in bytes.
const MAX_ALIGN: usize = 16;

/// The allocation of a panic. LLVM's unwinder, which zig links into the module, writes to it with `movaps`, and so relies on
/// the 16 bytes of the C ABI. Rust requests 8 (until rust-lang/rust#161368), and a server that uses jemalloc or musl
/// returns no more: without this rule, the first panic ends it.
const EXCEPTION: Layout = Layout::new::<[usize; 7]>();

/// Returns the alignment that an allocation gets.
#[inline]
const fn align_of(layout: Layout) -> usize {
    let is_exception = layout.size() == EXCEPTION.size() && layout.align() == EXCEPTION.align();
    if is_exception { MAX_ALIGN } else { layout.align() }
}

#[cfg_attr(not(test), global_allocator)]
static ALLOCATOR: Aligned<Server> = Aligned::of(Server);

/// Finds out the server's alignment. To be called once, before the first allocation.
pub fn probe() {
    ALLOCATOR.probe();
}

/// Returns whether an allocation is returned as it came from the server, so that the server's defragmentation may move it.
pub fn is_plain(layout: Layout) -> bool {
    ALLOCATOR.is_plain(align_of(layout))
}

/// A source of memory.
///
/// # Safety
///
/// `take` must return null, or `size` bytes aligned to [`WORD`] that belong to the caller until `give_back`.
unsafe trait Memory {
    fn take(&self, size: usize) -> *mut u8;

    /// # Safety
    ///
    /// `start` must come from `take`, and must not be used afterwards.
    unsafe fn give_back(&self, start: *mut u8);
}

/// The server's allocator.
struct Server;

// SAFETY: the server's functions are an allocator. If they are missing, `take` returns null.
unsafe impl Memory for Server {
    #[inline]
    fn take(&self, size: usize) -> *mut u8 {
        // SAFETY: the server has set its functions, and never changes them again; this one takes any size.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(alloc) => alloc(size).cast(),
                None => std::ptr::null_mut(),
            }
        }
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

/// An allocator that provides alignment.
struct Aligned<M> {
    memory: M,
    /// Allocations up to this alignment are not shifted, in bytes.
    plain: AtomicUsize,
}

impl<M: Memory> Aligned<M> {
    const fn of(memory: M) -> Self {
        Self { memory, plain: AtomicUsize::new(WORD) }
    }

    fn is_plain(&self, align: usize) -> bool {
        // Written once, before the first allocation that another thread may free.
        align <= WORD || align <= self.plain.load(Ordering::Relaxed)
    }

    fn probe(&self) {
        // One of each size is enough, because a server writes sizes in front always or never. All are kept until the
        // end, so that each is a different allocation.
        let sizes = [1, 2, 3, 4, 5, 6, 7, 8, 16, 31, 64, 256].map(|times| times * MAX_ALIGN);
        let taken = sizes.map(|size| self.memory.take(size));
        let is_aligned = taken.iter().all(|start| start.addr().is_multiple_of(MAX_ALIGN));
        for start in taken {
            // SAFETY: taken above.
            unsafe { self.memory.give_back(start) };
        }
        self.plain.store(if is_aligned { MAX_ALIGN } else { WORD }, Ordering::Relaxed);
    }

    /// Allocates with an alignment above [`WORD`]. Only a few tables, and panics, need one.
    #[cold]
    unsafe fn alloc_aligned(&self, layout: Layout) -> *mut u8 {
        let align = align_of(layout);
        // A layout's size, rounded up to a multiple of its alignment, does not overflow, and neither does the sum with
        // one more alignment.
        let size = layout.size().next_multiple_of(align);
        if self.is_plain(align) {
            return self.memory.take(size);
        }
        let base = self.memory.take(size + align);
        if base.is_null() {
            return base;
        }
        // From 8 to `align` bytes, because the base is a multiple of 8: a word fits before the returned pointer, and the
        // whole allocation after it.
        let shift = align - base.addr() % align;
        // SAFETY: both pointers lie within the allocation, and are multiples of 8, so the word is aligned.
        unsafe {
            let start = base.add(shift);
            start.cast::<*mut u8>().sub(1).write(base);
            start
        }
    }

    #[cold]
    unsafe fn dealloc_aligned(&self, start: *mut u8, align: usize) {
        // SAFETY: before a shifted pointer, `alloc_aligned` has written the word; the caller vouches for the rest.
        unsafe {
            let base =
                if self.is_plain(align) { start } else { start.cast::<*mut u8>().sub(1).read() };
            self.memory.give_back(base);
        }
    }
}

// SAFETY: each pointer comes from `memory` and is aligned: to 8 bytes because all of `memory` is, to more because of its
// size or because it was shifted. Nothing here panics.
unsafe impl<M: Memory> GlobalAlloc for Aligned<M> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if align_of(layout) <= WORD {
            return self.memory.take(layout.size());
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.alloc_aligned(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `start` came from `alloc` with the same layout, which took the same branch.
        unsafe {
            let align = align_of(layout);
            if align <= WORD {
                return self.memory.give_back(start);
            }
            self.dealloc_aligned(start, align);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;
    use std::panic::{catch_unwind, resume_unwind};

    use super::*;

    /// The system's allocator, which notes what each thread has allocated last.
    struct Noting;

    thread_local! {
        static LAST: Cell<Option<Layout>> = const { Cell::new(None) };
    }

    #[global_allocator]
    static NOTING: Noting = Noting;

    // SAFETY: the system's allocator does all of it.
    unsafe impl GlobalAlloc for Noting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            LAST.set(Some(layout));
            // SAFETY: the caller's promise is the same.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { System.dealloc(start, layout) }
        }
    }

    #[test]
    fn what_a_panic_allocates_is_aligned_for_every_unwinder() {
        LAST.set(None);
        // Without the hook, which would allocate more.
        assert!(catch_unwind(|| resume_unwind(Box::new(()))).is_err());
        let exception = LAST.get().expect("a panic allocates");
        assert!(align_of(exception) >= MAX_ALIGN, "{exception:?} is not an EXCEPTION");
    }

    /// Memory whose addresses are `beyond` bytes above a multiple of 4096.
    struct Mock {
        beyond: usize,
        /// Allocations that were not given back yet.
        out: RefCell<HashMap<usize, Layout>>,
    }

    impl Mock {
        const PAGE: usize = 4096;

        fn aligned(beyond: usize) -> Aligned<Mock> {
            Aligned::of(Mock { beyond, out: RefCell::default() })
        }
    }

    // SAFETY: each result is a separate allocation of the system, and `beyond` bytes into it.
    unsafe impl Memory for Mock {
        fn take(&self, size: usize) -> *mut u8 {
            let layout = Layout::from_size_align(self.beyond + size, Self::PAGE).expect("small");
            // SAFETY: `size` is never zero.
            let start = unsafe { System.alloc(layout).add(self.beyond) };
            assert!(self.out.borrow_mut().insert(start.addr(), layout).is_none());
            start
        }

        unsafe fn give_back(&self, start: *mut u8) {
            let layout = self.out.borrow_mut().remove(&start.addr()).expect("it was taken");
            // SAFETY: the layout is the one of the allocation.
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
    fn allocations_are_aligned_whatever_the_server_aligns_to() {
        for beyond in [0, 8, 16, 24, 40, 48, 4088] {
            let allocator = Mock::aligned(beyond);
            allocator.probe();
            assert!(allocator.memory.out.borrow().is_empty(), "what was tried is given back");
            assert_eq!(allocator.is_plain(16), beyond.is_multiple_of(16));
            assert!(allocator.is_plain(8) && !allocator.is_plain(32));
            // SAFETY: each allocation is freed once, with its layout, and written within its size.
            unsafe {
                let all: Vec<_> =
                    layouts().map(|layout| (allocator.alloc(layout), layout)).collect();
                for (start, layout) in &all {
                    assert!(
                        start.addr().is_multiple_of(align_of(*layout)),
                        "{layout:?} at {beyond}"
                    );
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
    fn sizes_are_rounded_up_to_a_multiple_of_a_large_alignment_and_for_an_exception() {
        let allocator = Mock::aligned(0);
        allocator.probe();
        // jemalloc aligns 24, 40 and 56 bytes to 8.
        let aligned = [(24, 16, 32), (40, 16, 48), (56, 16, 64)];
        let others = [(56, 8, 64), (56, 1, 56), (48, 8, 48), (64, 8, 64)];
        for (size, align, expected) in aligned.into_iter().chain(others) {
            // SAFETY: as above.
            unsafe {
                let layout = Layout::from_size_align(size, align).expect("small");
                let start = allocator.alloc(layout);
                let taken = allocator.memory.out.borrow()[&start.addr()].size();
                assert_eq!(taken, expected, "{layout:?}");
                allocator.dealloc(start, layout);
            }
        }
    }

    #[test]
    fn without_memory_alloc_returns_null() {
        struct Nothing;

        // SAFETY: it always returns null.
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
