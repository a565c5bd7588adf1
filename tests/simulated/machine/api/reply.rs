//! Replies of the module to a client.

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_void};

use super::super::reply::Output;
use super::OK;
use super::context::{count, of, slice};

/// Calls `write` with the output of the context's client. Without a client the reply goes nowhere.
///
/// # Safety
///
/// The context must be live.
unsafe fn with(context: *mut c_void, write: impl FnOnce(&mut Output)) -> c_int {
    count();
    // SAFETY: the caller's promise.
    if let Some(client) = unsafe { of(context) }.client() {
        write(&mut client.out.borrow_mut());
    }
    OK
}

// The module calls the functions below with a live context, and text or a buffer with its length, which are live for the
// call: every `SAFETY` relies on that.

pub unsafe extern "C" fn simple_string(context: *mut c_void, text: *const c_char) -> c_int {
    // SAFETY: see above.
    unsafe { with(context, |out| out.simple(CStr::from_ptr(text).to_bytes())) }
}

pub unsafe extern "C" fn error(context: *mut c_void, text: *const c_char) -> c_int {
    // SAFETY: see above.
    unsafe { with(context, |out| out.error(CStr::from_ptr(text).to_bytes())) }
}

pub unsafe extern "C" fn long_long(context: *mut c_void, number: c_longlong) -> c_int {
    // SAFETY: see above.
    unsafe { with(context, |out| out.int(number)) }
}

pub unsafe extern "C" fn string_buffer(
    context: *mut c_void,
    start: *const c_char,
    length: usize,
) -> c_int {
    count();
    // SAFETY: see above.
    unsafe { with(context, |out| out.bulk(slice(start, length))) }
}

pub unsafe extern "C" fn null(context: *mut c_void) -> c_int {
    // SAFETY: see above.
    unsafe { with(context, Output::null) }
}

pub unsafe extern "C" fn null_array(context: *mut c_void) -> c_int {
    // SAFETY: see above.
    unsafe { with(context, Output::null_array) }
}

pub unsafe extern "C" fn array(context: *mut c_void, length: c_long) -> c_int {
    // SAFETY: see above.
    unsafe { with(context, |out| out.array(length)) }
}

pub unsafe extern "C" fn map(context: *mut c_void, length: c_long) -> c_int {
    // SAFETY: see above.
    unsafe { with(context, |out| out.map(length)) }
}

pub unsafe extern "C" fn set_array_length(context: *mut c_void, length: c_long) {
    // SAFETY: see above.
    unsafe { with(context, |out| out.set_length(length)) };
}

pub unsafe extern "C" fn set_map_length(context: *mut c_void, length: c_long) {
    // SAFETY: see above.
    unsafe { with(context, |out| out.set_length(length)) };
}

pub unsafe extern "C" fn wrong_arity(context: *mut c_void) -> c_int {
    // SAFETY: see above.
    unsafe {
        let client = of(context).client().expect("a command has a client");
        let name = client.argv.borrow().get(0).unwrap_or_default().to_ascii_lowercase();
        let name = String::from_utf8_lossy(&name).into_owned();
        let error = format!("ERR wrong number of arguments for '{name}' command");
        with(context, |out| out.error(error.as_bytes()))
    }
}
