//! The context of a call from the server to the module; strings, memory, time.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_uchar, c_ulonglong, c_void};
use std::ptr;

use redis_module::raw;

use super::super::blocked::Blocked;
use super::super::client::Client;
use super::super::clock;
use super::super::keyspace::DATABASES;
use super::super::server::{Server, current};
use super::super::text::{self, Raw};
use super::{ERR, OK, get_api};

/// What the server calls the module for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    None,
    Command,
    Reply,
    Timeout,
    /// The private data of a client that has disconnected is freed.
    Gone,
    Detached,
}

#[repr(C)]
pub struct Context {
    get_api: unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int,
    pub client: Cell<*const Client>,
    /// Without a client.
    pub db: Cell<u32>,
    pub phase: Cell<Phase>,
    pub blocked: Cell<*mut Blocked>,
}

impl Context {
    pub fn new(_server: &Server) -> Self {
        Self {
            get_api,
            client: Cell::new(ptr::null()),
            db: Cell::new(0),
            phase: Cell::new(Phase::None),
            blocked: Cell::new(ptr::null_mut()),
        }
    }

    pub fn of_command(server: &Server, client: &Client) -> Self {
        let it = Self::new(server);
        it.client.set(client);
        it.phase.set(Phase::Command);
        it
    }

    /// Returns the client of the command or the callback.
    pub fn client(&self) -> Option<&Client> {
        // SAFETY: the client lives as long as the call that the context is for.
        unsafe { self.client.get().as_ref() }
    }

    pub fn db(&self) -> u32 {
        self.client().map_or(self.db.get(), |client| client.db.get())
    }
}

/// Counts a call of the module API.
pub fn count() -> &'static Server {
    let server = current();
    clock::spend_call();
    server
}

/// Returns the context that the module passes.
///
/// # Safety
///
/// It must be live.
pub unsafe fn of<'a>(context: *mut c_void) -> &'a Context {
    // SAFETY: the caller's promise.
    unsafe { context.cast::<Context>().as_ref() }.expect("the module passes a context")
}

// The module calls the functions below. It passes what each signature says, live for the call. Every `SAFETY` relies on that.

/// What stands before each allocation: so that sizes do not depend on the state of the heap, and that a block which is freed
/// twice is noticed. A multiple of 16 bytes, which keeps the alignment.
#[repr(C)]
struct Block {
    size: usize,
    /// The server whose module allocated it; null once it is freed.
    owner: *const Server,
}

const HEAD: usize = size_of::<Block>();

/// Allocates through `take`, which gets a size, and notes it.
fn allocate(size: usize, take: impl FnOnce(usize) -> *mut c_void) -> *mut c_void {
    let server = current();
    server.memory.set(server.memory.get() + size);
    let block = take(size + HEAD).cast::<Block>();
    assert!(!block.is_null(), "out of memory");
    // SAFETY: there is room for the head and the rest.
    unsafe {
        block.write(Block { size, owner: server });
        block.add(1).cast()
    }
}

/// Returns the size of an allocation.
///
/// # Safety
///
/// It must be live.
pub unsafe fn size_of_block(start: *mut c_void) -> usize {
    // SAFETY: the caller's promise: a head stands before it.
    unsafe { (*start.cast::<Block>().sub(1)).size }
}

pub unsafe extern "C" fn alloc(size: usize) -> *mut c_void {
    // SAFETY: takes any size.
    allocate(size, |size| unsafe { libc::malloc(size) })
}

pub unsafe extern "C" fn free(start: *mut c_void) {
    if start.is_null() {
        return;
    }
    // SAFETY: allocated above. Its owner is leaked.
    unsafe {
        let block = start.cast::<Block>().sub(1);
        let owner = (*block).owner.as_ref().expect("a block is freed twice");
        owner.memory.set(owner.memory.get() - (*block).size);
        (*block).owner = ptr::null();
        libc::free(block.cast());
    }
}

pub unsafe extern "C" fn log(
    _context: *mut c_void,
    _level: *const c_char,
    _format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the format is always "%s".
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    count().log(text);
}

pub unsafe extern "C" fn assert(text: *const c_char, file: *const c_char, line: c_int) {
    // SAFETY: two C strings.
    let (text, file) = unsafe { (CStr::from_ptr(text), CStr::from_ptr(file)) };
    eprintln!("the module ended its server: {text:?} in {file:?}:{line}");
    super::super::server::print_log();
    std::process::abort()
}

pub unsafe extern "C" fn milliseconds() -> c_longlong {
    clock::wall_ms()
}

pub unsafe extern "C" fn microseconds() -> i64 {
    clock::wall_us()
}

pub unsafe extern "C" fn monotonic_microseconds() -> u64 {
    let us = clock::monotonic_us();
    clock::spend_read();
    us
}

pub unsafe extern "C" fn create_string(_: *mut c_void, start: *const c_char, len: usize) -> Raw {
    count();
    // SAFETY: the caller passes `len` bytes.
    text::new(unsafe { slice(start, len) })
}

/// Returns bytes that the module passes.
///
/// # Safety
///
/// The pointer must be to so many bytes.
pub unsafe fn slice<'a>(start: *const c_char, length: usize) -> &'a [u8] {
    if length == 0 {
        return b"";
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start.cast(), length) }
}

pub unsafe extern "C" fn create_string_from_number(_: *mut c_void, number: c_longlong) -> Raw {
    count();
    text::new(number.to_string().as_bytes())
}

pub unsafe extern "C" fn free_string(_: *mut c_void, string: Raw) {
    count();
    // SAFETY: the reference is the caller's.
    unsafe { text::release(string) };
}

pub unsafe extern "C" fn retain_string(_: *mut c_void, string: Raw) {
    // SAFETY: the string is live.
    unsafe { text::retain(string) };
}

pub unsafe extern "C" fn string_ptr_len(string: Raw, length: *mut usize) -> *const c_char {
    // SAFETY: the string is live, and there is room for the length, or null.
    unsafe {
        let bytes = text::bytes(string);
        if !length.is_null() {
            length.write(bytes.len());
        }
        // Never null, and never dangling where a length of 0 is not looked at.
        if bytes.is_empty() { c"".as_ptr() } else { bytes.as_ptr().cast() }
    }
}

pub unsafe extern "C" fn get_selected_db(context: *mut c_void) -> c_int {
    // SAFETY: the context is live.
    unsafe { of(context) }.db() as c_int
}

pub unsafe extern "C" fn select_db(context: *mut c_void, db: c_int) -> c_int {
    count();
    // SAFETY: the context is live.
    let context = unsafe { of(context) };
    // The server reads the client that has gone.
    assert!(context.phase.get() != Phase::Gone, "SelectDb without a client");
    if !(0..DATABASES as c_int).contains(&db) {
        return ERR;
    }
    match context.client() {
        Some(client) => client.db.set(db as u32),
        None => context.db.set(db as u32),
    }
    OK
}

pub unsafe extern "C" fn get_context_flags(context: *mut c_void) -> c_int {
    let server = count();
    let mut flags = server.flags();
    // SAFETY: the context is live, or null.
    if let Some(context) = unsafe { context.cast::<Context>().as_ref() }
        && let Some(client) = context.client()
    {
        let running = server.running.borrow();
        let obeys =
            client.must_be_obeyed() || running.as_ref().is_some_and(|it| it.must_be_obeyed());
        if obeys {
            flags |= raw::REDISMODULE_CTX_FLAGS_REPLICATED;
        }
        if client.denies_blocking.get() {
            flags |= raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
        }
    }
    flags as c_int
}

impl Server {
    /// Returns the flags that do not depend on a client.
    fn flags(&self) -> u32 {
        let mut flags = 0;
        let mut set = |flag: u32, is_set: bool| flags |= if is_set { flag } else { 0 };
        let is_replica = self.is_replica();
        set(raw::REDISMODULE_CTX_FLAGS_MASTER, !is_replica);
        set(raw::REDISMODULE_CTX_FLAGS_SLAVE, is_replica);
        let is_read_only = is_replica && self.is_read_only.get();
        set(raw::REDISMODULE_CTX_FLAGS_READONLY, is_read_only);
        set(raw::REDISMODULE_CTX_FLAGS_LUA, self.in_script.get());
        set(raw::REDISMODULE_CTX_FLAGS_MULTI, self.in_exec.get());
        set(raw::REDISMODULE_CTX_FLAGS_CLUSTER, self.slots.borrow().is_some());
        set(raw::REDISMODULE_CTX_FLAGS_LOADING, self.is_loading.get());
        set(raw::REDISMODULE_CTX_FLAGS_AOF, self.stream.has_file());
        set(
            raw::REDISMODULE_CTX_FLAGS_MAXMEMORY | raw::REDISMODULE_CTX_FLAGS_OOM,
            self.is_full.get(),
        );
        set(raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD, self.is_forked.get());
        flags
    }
}

pub unsafe extern "C" fn avoid_replica_traffic() -> c_int {
    count().is_paused().into()
}

pub unsafe extern "C" fn get_random_bytes(start: *mut c_uchar, length: usize) {
    let server = count();
    // SAFETY: there is room for `length` bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start, length) };
    bytes.iter_mut().for_each(|byte| *byte = (server.random() >> 32) as u8);
}

pub unsafe extern "C" fn get_client_id(context: *mut c_void) -> c_ulonglong {
    // SAFETY: the context is live.
    unsafe { of(context) }.client().map_or(0, |client| client.id)
}

pub unsafe extern "C" fn get_detached_context(_: *mut c_void) -> *mut c_void {
    let server = count();
    let context = Context::new(server);
    context.phase.set(Phase::Detached);
    let context = Box::into_raw(Box::new(context));
    server.detached.set(context);
    context.cast()
}

pub unsafe extern "C" fn is_keys_position_request(_: *mut c_void) -> c_int {
    // The server finds all keys by the description of the command.
    0
}

pub unsafe extern "C" fn key_at_pos_with_flags(_: *mut c_void, _at: c_int, _flags: c_int) {}
