//! A value's payload, its digest, its defragmentation.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_ulong, c_void};
use std::ptr;

use super::super::digest::Digest;
use super::super::propagate::encode;
use super::super::text::Raw;
use super::OK;
use super::call;
use super::context::{Context, alloc, count, slice};

/// A payload that is read or written.
pub struct Io {
    pub bytes: Vec<u8>,
    /// The place of what is read next.
    pub at: usize,
    pub has_error: bool,
    pub key: Raw,
    pub db: u32,
    pub context: Context,
    /// The commands of a rewrite of the append-only file.
    pub commands: Vec<u8>,
}

const UNSIGNED: u8 = 2;
const BYTES: u8 = 5;

impl Io {
    /// Returns the next field: its size is that of a number, and for bytes their length.
    fn read(&mut self, tag: u8) -> Option<u64> {
        let field = self.bytes.get(self.at..self.at + 9).filter(|field| field[0] == tag);
        let number = field.map(|field| u64::from_le_bytes(field[1..].try_into().expect("eight")));
        self.at += 9;
        self.has_error |= number.is_none();
        number
    }
}

// The module calls the functions below. It passes what each signature says, live for the call. Every `SAFETY` relies on that.

pub unsafe extern "C" fn save_unsigned(io: *mut Io, number: u64) {
    count();
    // SAFETY: see above.
    let bytes = unsafe { &mut (*io).bytes };
    bytes.push(UNSIGNED);
    bytes.extend_from_slice(&number.to_le_bytes());
}

pub unsafe extern "C" fn save_bytes(io: *mut Io, start: *const c_char, length: usize) {
    count();
    // SAFETY: see above.
    unsafe {
        let bytes = &mut (*io).bytes;
        bytes.push(BYTES);
        bytes.extend_from_slice(&(length as u64).to_le_bytes());
        bytes.extend_from_slice(slice(start, length));
    }
}

pub unsafe extern "C" fn load_unsigned(io: *mut Io) -> u64 {
    count();
    // SAFETY: see above.
    unsafe { (*io).read(UNSIGNED) }.unwrap_or(0)
}

pub unsafe extern "C" fn load_bytes(io: *mut Io, length: *mut usize) -> *mut c_char {
    count();
    // SAFETY: see above.
    let io = unsafe { &mut *io };
    let Some(size) = io.read(BYTES).map(|size| size as usize) else { return ptr::null_mut() };
    let Some(bytes) = io.at.checked_add(size).and_then(|end| io.bytes.get(io.at..end)) else {
        io.has_error = true;
        return ptr::null_mut();
    };
    io.at += size;
    // SAFETY: as much is allocated as is copied.
    unsafe {
        length.write(size);
        let start = alloc(size);
        ptr::copy_nonoverlapping(bytes.as_ptr(), start.cast(), size);
        start.cast()
    }
}

pub unsafe extern "C" fn is_io_error(io: *mut Io) -> c_int {
    // SAFETY: see above.
    unsafe { (*io).has_error.into() }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn emit_aof(
    io: *mut Io, command: *const c_char, format: *const c_char,
    a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
    g: usize, h: usize, i: usize, j: usize, k: usize, l: usize,
) {
    let server = count();
    let arguments = [a, b, c, d, e, f, g, h, i, j, k, l];
    // SAFETY: see above.
    unsafe {
        let (words, _) = call::words(server, command, format, arguments).expect("a known format");
        encode(&words, &mut (*io).commands);
    }
}

pub unsafe extern "C" fn log_io_error(
    _io: *mut Io,
    _level: *const c_char,
    _format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the format is always "%s".
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    count().log(text);
}

pub unsafe extern "C" fn name_of(io: *mut Io) -> Raw {
    // SAFETY: see above.
    unsafe { (*io).key }
}

pub unsafe extern "C" fn db_of(io: *mut Io) -> c_int {
    // SAFETY: see above.
    unsafe { (*io).db as c_int }
}

pub unsafe extern "C" fn context_of(io: *mut Io) -> *mut c_void {
    // SAFETY: see above.
    unsafe { (&raw mut (*io).context).cast() }
}

pub unsafe extern "C" fn digest_bytes(digest: *mut Digest, start: *const c_char, length: usize) {
    // SAFETY: see above.
    unsafe { (*digest).add(slice(start, length)) };
}

pub unsafe extern "C" fn digest_number(digest: *mut Digest, number: c_longlong) {
    // SAFETY: see above.
    unsafe { (*digest).add(number.to_string().as_bytes()) };
}

pub unsafe extern "C" fn digest_end(digest: *mut Digest) {
    // SAFETY: see above.
    unsafe { (*digest).end() };
}

/// A defragmentation in steps.
#[derive(Default)]
pub struct Defrag {
    pub cursor: c_ulong,
    /// The number of steps until it is to stop.
    pub steps: u64,
}

pub unsafe extern "C" fn defrag_alloc(_context: *mut Defrag, start: *mut c_void) -> *mut c_void {
    // SAFETY: see above. It moves every other allocation.
    unsafe {
        if count().random().is_multiple_of(2) {
            return ptr::null_mut();
        }
        let size = super::context::size_of_block(start);
        let moved = alloc(size);
        ptr::copy_nonoverlapping(start.cast::<u8>(), moved.cast(), size);
        super::context::free(start);
        moved
    }
}

pub unsafe extern "C" fn cursor_get(context: *mut Defrag, cursor: *mut c_ulong) -> c_int {
    // SAFETY: see above.
    unsafe { cursor.write((*context).cursor) };
    OK
}

pub unsafe extern "C" fn cursor_set(context: *mut Defrag, cursor: c_ulong) -> c_int {
    // SAFETY: see above.
    unsafe { (*context).cursor = cursor };
    OK
}

pub unsafe extern "C" fn defrag_should_stop(context: *mut Defrag) -> c_int {
    // SAFETY: see above.
    let context = unsafe { &mut *context };
    context.steps = context.steps.saturating_sub(1);
    (context.steps == 0).into()
}
