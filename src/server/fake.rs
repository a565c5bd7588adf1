//! Arguments without a server, for unit tests of parsers.

use std::ffi::{c_char, c_longlong};
use std::sync::Once;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

use super::string::Args;

/// The fake's server string. The code under test sees only an opaque pointer.
type Text = Vec<u8>;

/// Calls `use_it` with the arguments `name`, then `words`.
pub fn with_args<T>(words: &[&[u8]], use_it: impl FnOnce(Args<'_>) -> T) -> T {
    static STAND_IN: Once = Once::new();
    // SAFETY: no test has called a server function yet, because every test calls this first.
    STAND_IN.call_once(|| unsafe {
        raw::RedisModule_StringPtrLen = Some(pointer_and_length);
        raw::RedisModule_CreateStringFromLongLong = Some(of_number);
        raw::RedisModule_FreeString = Some(free);
    });
    let texts: Vec<Text> = [&b"name"[..]].iter().chain(words).map(|word| word.to_vec()).collect();
    let argv: Vec<*mut RedisModuleString> =
        texts.iter().map(|text| std::ptr::from_ref(text).cast_mut().cast()).collect();
    // SAFETY: the texts live, unchanged, until this returns.
    use_it(unsafe { Args::from_raw(argv.as_ptr(), argv.len()) })
}

unsafe extern "C" fn pointer_and_length(
    text: *const RedisModuleString,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: every string was made in this file, from a `Text`; the caller has room for the length.
    unsafe {
        let text = &*text.cast::<Text>();
        *length = text.len();
        text.as_ptr().cast()
    }
}

unsafe extern "C" fn of_number(
    _: *mut RedisModuleCtx,
    number: c_longlong,
) -> *mut RedisModuleString {
    Box::into_raw(Box::new(number.to_string().into_bytes())).cast()
}

unsafe extern "C" fn free(_: *mut RedisModuleCtx, text: *mut RedisModuleString) {
    // SAFETY: only strings made by `of_number` are freed.
    drop(unsafe { Box::from_raw(text.cast::<Text>()) });
}
