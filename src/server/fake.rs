//! Arguments without a server, for unit tests of what reads them.

use std::ffi::{c_char, c_longlong};
use std::sync::Once;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

use super::string::Args;

/// What a string of the server's is here: to the code under test it is a pointer to something unknown.
type Text = Vec<u8>;

/// Calls `use_it` with a command's name and these words behind it.
pub fn with_args<T>(words: &[&[u8]], use_it: impl FnOnce(Args<'_>) -> T) -> T {
    static STAND_IN: Once = Once::new();
    // SAFETY: no test has got to a function of the server's yet, as all come through here first.
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
    // SAFETY: every string that there is was made here, of a text; the caller has room for the length.
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
    // SAFETY: what is freed was made by `of_number`.
    drop(unsafe { Box::from_raw(text.cast::<Text>()) });
}
