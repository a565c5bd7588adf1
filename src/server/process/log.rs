//! The server's log.

use std::ffi::{CStr, CString};
use std::ptr;

/// Writes a line to the server's log, from anywhere.
pub fn warning(message: &str) {
    log(c"warning", message);
}

fn log(level: &CStr, message: &str) {
    let Ok(message) = CString::new(message.replace('\0', " ")) else { return };
    // SAFETY: the server accepts a null context here, and the format takes one C string.
    unsafe {
        api!(RedisModule_Log(ptr::null_mut(), level.as_ptr(), c"%s".as_ptr(), message.as_ptr()))
    };
}
