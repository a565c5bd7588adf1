//! The memory of a module, in a region of addresses of its own: all of it can be put back to how it was.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Addresses that a heap may use, in bytes. Pages come when they are written.
const REGION: usize = 8 << 30;
/// What of them keeps its pages for the next server, in bytes.
const KEPT: usize = 64 << 20;
/// Sizes are rounded up: to a multiple of this up to [`FINE`], in bytes, and above to a quarter of a power of two.
const STEP: usize = 16;
const FINE: usize = 1024;
const CLASSES: usize = FINE / STEP + 4 * (33 - FINE.ilog2() as usize);

/// What stands before each allocation, so that a block which is freed twice is noticed. A multiple of 16 bytes, which keeps the
/// alignment.
#[repr(C)]
pub struct Block {
    pub size: usize,
    /// Null once it is freed: then the next free block of its size stands behind it.
    heap: *const Heap,
}

pub struct Heap {
    start: *mut u8,
    /// Where what was never used begins.
    top: Cell<usize>,
    /// The bytes that are allocated.
    used: Cell<usize>,
    free: [Cell<*mut Block>; CLASSES],
}

/// A heap as it was.
pub struct Kept {
    bytes: Vec<u8>,
    used: usize,
    free: [*mut Block; CLASSES],
}

/// Returns the class of a size, and the size of its blocks.
fn class(size: usize) -> (usize, usize) {
    if size <= FINE {
        let steps = size.div_ceil(STEP).max(1);
        return (steps - 1, steps * STEP);
    }
    let bits = (size - 1).ilog2();
    let quarter = (size - 1) >> (bits - 2) & 3;
    let class = FINE / STEP + 4 * (bits - FINE.ilog2()) as usize + quarter;
    (class, (1 << bits) + (quarter + 1) * (1 << (bits - 2)))
}

impl Heap {
    pub fn new() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), REGION, rights, flags, -1, 0) };
        assert!(start != libc::MAP_FAILED, "addresses for a heap");
        let free = [const { Cell::new(ptr::null_mut()) }; CLASSES];
        Self { start: start.cast(), top: Cell::new(0), used: Cell::new(0), free }
    }

    pub fn used(&self) -> usize {
        self.used.get()
    }

    pub fn allocate(&self, size: usize) -> *mut c_void {
        let (class, room) = class(size);
        let block = match self.free[class].get() {
            free if free.is_null() => {
                let at = self.top.get();
                self.top.set(at + size_of::<Block>() + room);
                assert!(self.top.get() <= REGION, "out of memory");
                // SAFETY: within the region.
                unsafe { self.start.add(at).cast::<Block>() }
            }
            free => {
                // SAFETY: behind a free block stands the next one.
                self.free[class].set(unsafe { free.add(1).cast::<*mut Block>().read() });
                free
            }
        };
        self.used.set(self.used.get() + size);
        // SAFETY: there is room for the head and the rest.
        unsafe {
            block.write(Block { size, heap: self });
            block.add(1).cast()
        }
    }

    /// Puts it back to how it was; `None`: empty.
    ///
    /// # Safety
    ///
    /// Nobody uses anything in it.
    pub unsafe fn put_back(&self, kept: Option<&Kept>) {
        if self.top.get() > KEPT {
            // SAFETY: the caller's promise. What is read there next was written before.
            unsafe {
                libc::madvise(self.start.add(KEPT).cast(), REGION - KEPT, libc::MADV_DONTNEED)
            };
        }
        let bytes = kept.map_or(&[][..], |it| &it.bytes);
        // SAFETY: the caller's promise; they were there before.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, bytes.len()) };
        self.top.set(bytes.len());
        self.used.set(kept.map_or(0, |it| it.used));
        for (at, free) in self.free.iter().enumerate() {
            free.set(kept.map_or(ptr::null_mut(), |it| it.free[at]));
        }
    }

    pub fn keep(&self) -> Kept {
        // SAFETY: so much has been used.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.top.get()) }.to_vec();
        Kept { bytes, used: self.used.get(), free: self.free.each_ref().map(Cell::get) }
    }
}

/// Frees a block of any heap.
///
/// # Safety
///
/// It must be live.
pub unsafe fn free(start: *mut c_void) {
    // SAFETY: the caller's promise; heaps live as long as the process.
    unsafe {
        let block = start.cast::<Block>().sub(1);
        let heap = (*block).heap.as_ref().expect("a block is freed twice");
        heap.used.set(heap.used.get() - (*block).size);
        (*block).heap = ptr::null();
        let list = &heap.free[class((*block).size).0];
        start.cast::<*mut Block>().write(list.replace(block));
    }
}
