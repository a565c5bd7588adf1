//! Names and values that belong to the server.

use std::ffi::c_longlong;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw::RedisModuleString;

/// A string of the server's that somebody else keeps alive: an argument, or an [`OwnedStr`]. Any
/// bytes, NUL among them.
#[derive(Clone, Copy)]
pub struct Str<'a> {
    raw: NonNull<RedisModuleString>,
    bytes: &'a [u8],
}

impl<'a> Str<'a> {
    /// Takes what the server hands out.
    ///
    /// # Safety
    ///
    /// `raw` must be a string of the server's that lives, unchanged, for `'a`.
    pub unsafe fn from_raw(raw: NonNull<RedisModuleString>) -> Self {
        let mut length = 0;
        // SAFETY: the caller vouches for `raw`; the server returns a pointer to `length` bytes that
        // are never null, not even for an empty string.
        let bytes = unsafe {
            let start = api!(RedisModule_StringPtrLen(raw.as_ptr(), &mut length));
            slice::from_raw_parts(start.cast::<u8>(), length)
        };
        Self { raw, bytes }
    }

    /// Returns the bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the server's own pointer, for the API.
    pub fn as_ptr(self) -> *mut RedisModuleString {
        self.raw.as_ptr()
    }
}

/// A string of the server's that we made, and free.
#[repr(transparent)]
pub struct OwnedStr {
    raw: NonNull<RedisModuleString>,
}

impl OwnedStr {
    /// Makes a string of a copy of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        // SAFETY: the pointer and the length describe `bytes`, which the server copies. Without a
        // context the string is ours to free.
        let raw = unsafe {
            api!(RedisModule_CreateString(ptr::null_mut(), bytes.as_ptr().cast(), bytes.len()))
        };
        Self { raw: NonNull::new(raw).expect("the server aborts rather than run out of memory") }
    }

    /// Makes a string of a number's digits. The number must be below 2^63.
    pub fn of_number(number: u64) -> Self {
        // SAFETY: takes a number. Without a context the string is ours to free.
        let raw = unsafe {
            api!(RedisModule_CreateStringFromLongLong(ptr::null_mut(), number as c_longlong))
        };
        Self { raw: NonNull::new(raw).expect("the server aborts rather than run out of memory") }
    }

    /// Gives the string to the server, which frees it.
    pub fn into_raw(self) -> *mut RedisModuleString {
        ManuallyDrop::new(self).raw.as_ptr()
    }

    /// Returns the string, to look at it.
    pub fn as_str(&self) -> Str<'_> {
        // SAFETY: the string lives until `self` is dropped.
        unsafe { Str::from_raw(self.raw) }
    }
}

impl Drop for OwnedStr {
    fn drop(&mut self) {
        // SAFETY: made in `new`, without a context, and freed here alone.
        unsafe { api!(RedisModule_FreeString(ptr::null_mut(), self.raw.as_ptr())) }
    }
}

/// The arguments of a command, its name first.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    argv: *const *mut RedisModuleString,
    argc: usize,
    lifetime: PhantomData<&'a RedisModuleString>,
}

impl<'a> Args<'a> {
    /// Takes what the server hands out.
    ///
    /// # Safety
    ///
    /// `argv` must point to `argc` strings that live, unchanged, for `'a`.
    pub unsafe fn from_raw(argv: *const *mut RedisModuleString, argc: usize) -> Self {
        Self { argv, argc, lifetime: PhantomData }
    }

    /// Returns how many there are, the command's name included.
    pub fn len(self) -> usize {
        self.argc
    }

    /// Returns the argument at this place, if it is there.
    pub fn get(self, at: usize) -> Option<Str<'a>> {
        if at >= self.argc {
            return None;
        }
        // SAFETY: `at` is below `argc`, so the caller of `from_raw` vouches for what is there.
        unsafe { NonNull::new(*self.argv.add(at)).map(|raw| Str::from_raw(raw)) }
    }

    /// Returns the arguments from `at` on.
    pub fn from(self, at: usize) -> impl Iterator<Item = Str<'a>> {
        (at..self.argc).filter_map(move |at| self.get(at))
    }
}
