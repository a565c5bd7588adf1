//! A private copy of the module's library: its statics belong to one simulated server alone. A copy whose server is gone is put back
//! to how it was loaded, and is the next server's: to load another takes milliseconds.
//!
//! The library finds some functions of libc by itself: the clock on Redis 7.0, `exit`, and random seeds of its hashes. The loader has written their
//! addresses into the library's table of offsets; the copy gets others.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex};

use super::clock;

/// `RedisModule_OnLoad`.
pub type OnLoad = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, c_int) -> c_int;

/// Reads a library, once in a process.
pub fn read(path: &Path) -> Arc<[u8]> {
    static LAST: Mutex<Option<(PathBuf, Arc<[u8]>)>> = Mutex::new(None);
    let mut last = LAST.lock().expect("no panic");
    match &*last {
        Some((known, library)) if known == path => Arc::clone(library),
        _ => {
            let library = std::fs::read(path);
            let library = library.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let library: Arc<[u8]> = mapped(library).into();
            *last = Some((path.to_owned(), Arc::clone(&library)));
            library
        }
    }
}

/// Returns the part of a library that is mapped: the rest, mostly for debuggers, need not be copied.
fn mapped(mut library: Vec<u8>) -> Vec<u8> {
    let number = |at: usize, length: usize| {
        let bytes = library[at..at + length].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    // Where the headers of segments begin in an ELF file of 64 bits, and how long and how many they are.
    let (start, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let headers = (0..count).map(|at| start + at * size);
    let ends = headers.map(|header| number(header + 0x08, 8) + number(header + 0x20, 8));
    let end = ends.max().expect("a library has segments");
    library.truncate(end);
    library
}

/// Bytes, and where they are, or the number of the thread-locals.
type Segment = (usize, Vec<u8>);
type Segments = Vec<Segment>;

/// A loaded copy of a library.
pub struct Copy {
    pub entry: OnLoad,
    /// The address of the bytes that it was loaded from.
    of: usize,
    /// Memory that the library may write, as it was at first.
    writable: Segments,
    /// The number of its thread-locals, and what they are at first.
    locals: Segment,
}

/// Copies whose servers are gone.
static IDLE: Mutex<Vec<&'static Copy>> = Mutex::new(Vec::new());

/// Returns a copy of the library as it is after loading. It is never unloaded.
pub fn load(bytes: &[u8]) -> &'static Copy {
    let mut idle = IDLE.lock().expect("no panic");
    let at = idle.iter().position(|copy| copy.of == bytes.as_ptr().addr());
    match at.map(|at| idle.swap_remove(at)) {
        Some(copy) => {
            // SAFETY: its server is gone, and nobody else runs it.
            unsafe { copy.put_back() };
            copy
        }
        None => Box::leak(Box::new(load_new(bytes))),
    }
}

/// Loads some copies, for servers to come.
pub fn prepare(path: &Path, many: usize) {
    let bytes = read(path);
    let copies: Vec<_> = (0..many).map(|_| load(&bytes)).collect();
    copies.into_iter().for_each(give_back);
}

/// Takes a copy back, of a server that is gone.
pub fn give_back(copy: &'static Copy) {
    IDLE.lock().expect("no panic").push(copy);
}

impl Copy {
    /// Puts all that the library has written back to how it was, for this thread.
    ///
    /// # Safety
    ///
    /// Nobody uses anything of the library.
    unsafe fn put_back(&self) {
        for (address, before) in &self.writable {
            let to = ptr::with_exposed_provenance_mut::<u8>(*address);
            // SAFETY: the caller's promise; the segment has that length.
            unsafe { ptr::copy_nonoverlapping(before.as_ptr(), to, before.len()) };
        }
        let (number, before) = &self.locals;
        let to =
            Headers::find(|it| it.dlpi_tls_modid == *number && *number > 0, |it| it.dlpi_tls_data);
        if let Some(to) = to.filter(|to| !to.is_null()) {
            // SAFETY: this thread's block of the library has that length.
            unsafe { ptr::copy_nonoverlapping(before.as_ptr(), to.cast(), before.len()) };
        }
    }
}

/// A search among the headers of all loaded libraries.
struct Headers<F, G, T> {
    is_it: F,
    get: G,
    found: Option<T>,
}

impl<F: Fn(&libc::dl_phdr_info) -> bool, G: Fn(&libc::dl_phdr_info) -> T, T> Headers<F, G, T> {
    fn find(is_it: F, get: G) -> Option<T> {
        unsafe extern "C" fn look<F, G, T>(
            info: *mut libc::dl_phdr_info,
            _size: usize,
            search: *mut c_void,
        ) -> c_int
        where
            F: Fn(&libc::dl_phdr_info) -> bool,
            G: Fn(&libc::dl_phdr_info) -> T,
        {
            // SAFETY: glibc passes a header, and what it was called with.
            let (info, search) = unsafe { (&*info, &mut *search.cast::<Headers<F, G, T>>()) };
            if !(search.is_it)(info) {
                return 0;
            }
            search.found = Some((search.get)(info));
            1
        }
        let mut search = Self { is_it, get, found: None };
        // SAFETY: the search lives for the call.
        unsafe { libc::dl_iterate_phdr(Some(look::<F, G, T>), (&raw mut search).cast()) };
        search.found
    }
}

/// Returns what a library that was just loaded may write, and its thread-locals.
fn written(address: usize) -> (Segments, Segment) {
    let read = |at: usize, length: usize| -> Vec<u8> {
        // SAFETY: the segment is loaded.
        unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(at), length) }.to_vec()
    };
    let get = |it: &libc::dl_phdr_info| {
        // SAFETY: the headers live as long as the library.
        let headers = unsafe { std::slice::from_raw_parts(it.dlpi_phdr, it.dlpi_phnum.into()) };
        let (mut writable, mut locals) = (Vec::new(), (0, Vec::new()));
        let fixed: Vec<_> = headers.iter().filter(|it| it.p_type == libc::PT_GNU_RELRO).collect();
        for header in headers {
            let (at, length) = (address + header.p_vaddr as usize, header.p_memsz as usize);
            // After relocation, nothing is written there.
            let is_fixed = fixed.iter().any(|it| it.p_vaddr == header.p_vaddr);
            if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W > 0 {
                assert!(is_fixed || fixed.iter().all(|it| it.p_vaddr < header.p_vaddr));
                let from = if is_fixed { fixed[0].p_memsz as usize } else { 0 };
                writable.push((at + from, read(at + from, length.saturating_sub(from))));
            }
            if header.p_type == libc::PT_TLS {
                locals = (it.dlpi_tls_modid, read(at, header.p_filesz as usize));
                locals.1.resize(length, 0);
            }
        }
        (writable, locals)
    };
    Headers::find(|it| it.dlpi_addr as usize == address, get).expect("it is loaded")
}

fn load_new(bytes: &[u8]) -> Copy {
    // In memory where possible. The loader takes a file of the same name for the same library.
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("dehydrator-simulated-");
    let file = if memory.is_dir() { builder.tempfile_in(memory) } else { builder.tempfile() };
    let mut file = file.expect("a temporary file");
    file.write_all(bytes).expect("room for the library");
    let path = CString::new(file.path().to_str().expect("text")).expect("no NUL");
    // SAFETY: the library's initializers are those of a Rust library: none that matter. The symbol has that type.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
        let entry = libc::dlsym(library, c"RedisModule_OnLoad".as_ptr());
        assert!(!entry.is_null(), "no RedisModule_OnLoad");
        let replaced = replace(library);
        assert!(replaced > 0, "the library uses neither exit nor clock_gettime");
        let (writable, locals) = written((*library.cast::<LinkMap>()).address);
        let entry = std::mem::transmute::<*mut c_void, OnLoad>(entry);
        Copy { entry, of: bytes.as_ptr().addr(), writable, locals }
    }
}

/// The functions of libc that the library gets from here.
const REPLACED: [(&CStr, *const c_void); 6] = [
    (c"__cxa_thread_atexit_impl", at_thread_exit as *const c_void),
    (c"exit", exit as *const c_void),
    (c"clock_gettime", clock_gettime as *const c_void),
    (c"gettimeofday", gettimeofday as *const c_void),
    (c"dlsym", dlsym as *const c_void),
    (c"syscall", syscall as *const c_void),
];

unsafe extern "C" fn exit(status: c_int) -> ! {
    eprintln!("the module ended its server with exit({status})");
    super::server::print_log();
    std::process::abort()
}

unsafe extern "C" fn clock_gettime(which: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let us = match which {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => clock::wall_us(),
        _ => clock::monotonic_us() as i64,
    };
    clock::spend_read();
    // SAFETY: the caller passes room for the time.
    unsafe {
        (*time).tv_sec = us.div_euclid(1_000_000);
        (*time).tv_nsec = us.rem_euclid(1_000_000) * 1000;
    }
    0
}

unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, _zone: *mut c_void) -> c_int {
    let us = clock::wall_us();
    // SAFETY: the caller passes room for the time.
    unsafe {
        (*time).tv_sec = us.div_euclid(1_000_000);
        (*time).tv_usec = us.rem_euclid(1_000_000);
    }
    0
}

/// Frees no thread-locals at the end of a thread: a copy that was put back would free them once for each of its servers.
extern "C" fn at_thread_exit(
    _free: *const c_void,
    _it: *const c_void,
    _library: *const c_void,
) -> c_int {
    0
}

/// Hides `getrandom` from Rust's library, which then calls it by number.
unsafe extern "C" fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: a C string, and what `dlsym` takes.
    unsafe {
        match CStr::from_ptr(name).to_bytes() {
            b"getrandom" => ptr::null_mut(),
            _ => libc::dlsym(library, name),
        }
    }
}

/// Draws random bytes, the seeds of hashes, from the simulation's seed.
#[rustfmt::skip]
unsafe extern "C" fn syscall(
    number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
) -> c_long {
    if number != libc::SYS_getrandom {
        // SAFETY: as the caller has it.
        return unsafe { libc::syscall(number, a, b, c, d, e, f) };
    }
    let server = super::server::current();
    // SAFETY: room for `b` bytes at `a`.
    let bytes = unsafe { std::slice::from_raw_parts_mut(a as *mut u8, b) };
    bytes.iter_mut().for_each(|byte| *byte = (server.random() >> 32) as u8);
    b as c_long
}

/// The head of what `dlopen` returns on glibc and musl: the address by which the library is moved, and its dynamic section.
#[repr(C)]
struct LinkMap {
    address: usize,
    _name: *const c_char,
    dynamic: *const [usize; 2],
}

/// An entry of a table of relocations.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    _addend: i64,
}

/// A symbol, 24 bytes of which the first four are the offset of its name.
#[repr(C)]
struct Symbol {
    name: u32,
    _rest: [u32; 5],
}

/// Writes the addresses of [`REPLACED`] into a library's table of offsets. Returns how many.
///
/// # Safety
///
/// `library` must be what `dlopen` returned.
unsafe fn replace(library: *mut c_void) -> usize {
    // Tags of a dynamic section: the symbols' names, the symbols, two tables of relocations with their sizes in bytes.
    let [names, symbols, all, all_size, calls, calls_size] = [5, 6, 7, 8, 23, 2];
    // SAFETY: the loader keeps these tables as long as the library, and has moved the addresses in the section.
    unsafe {
        let map = &*library.cast::<LinkMap>();
        let find = |tag| {
            let mut entry = map.dynamic;
            while (*entry)[0] != 0 && (*entry)[0] != tag {
                entry = entry.add(1);
            }
            if (*entry)[0] == tag { (*entry)[1] } else { 0 }
        };
        let (names, symbols) = (find(names) as *const c_char, find(symbols) as *const Symbol);
        let mut count = 0;
        for (table, size) in [(find(all), find(all_size)), (find(calls), find(calls_size))] {
            for at in 0..size / size_of::<Relocation>() {
                let relocation = &*(table as *const Relocation).add(at);
                let symbol = (relocation.info >> 32) as usize;
                if symbol == 0 {
                    continue;
                }
                let name = CStr::from_ptr(names.add((*symbols.add(symbol)).name as usize));
                if let Some((_, function)) = REPLACED.iter().find(|(it, _)| *it == name) {
                    write((map.address + relocation.offset) as *mut *const c_void, *function);
                    count += 1;
                }
            }
        }
        count
    }
}

/// Writes to memory that the loader may have made read-only.
///
/// # Safety
///
/// `slot` must be an entry of a table of offsets.
unsafe fn write(slot: *mut *const c_void, function: *const c_void) {
    // SAFETY: the caller's promise; the page belongs to the library.
    unsafe {
        let size = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let page = ptr::without_provenance_mut(slot.addr() & !(size - 1));
        libc::mprotect(page, size, libc::PROT_READ | libc::PROT_WRITE);
        slot.write(function);
    }
}
