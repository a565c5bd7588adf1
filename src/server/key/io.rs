//! RDB payloads, read and written field by field, and digests.

use std::ffi::{CStr, CString, c_char};
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw::{RedisModuleDigest, RedisModuleIO};

use super::Name;
use crate::server::{Context, OwnedStr, Str};

/// A payload that is being read or written.
pub struct Io {
    raw: NonNull<RedisModuleIO>,
}

impl Io {
    /// Wraps the server's io.
    ///
    /// # Safety
    ///
    /// `raw` must be the io that the server passed to the running callback, and the result must not outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleIO) -> Self {
        Self { raw: NonNull::new(raw).expect("the server passes an io") }
    }

    pub fn as_ptr(&self) -> *mut RedisModuleIO {
        self.raw.as_ptr()
    }

    /// Returns the name of the key that is being loaded or saved.
    pub fn name(&self) -> Option<Name> {
        // SAFETY: the io is live; the server returns a string that lives as long, or null.
        unsafe {
            let key = api!(RedisModule_GetKeyNameFromIO(self.as_ptr()));
            Name::from_raw(api!(RedisModule_GetDbIdFromIO(self.as_ptr())), key)
        }
    }

    /// Returns the context of this payload's callback. It has no client: it cannot call commands, reply or replicate.
    pub fn context(&self) -> Context {
        // SAFETY: the io is live, and the context lives as long.
        unsafe { Context::from_raw(api!(RedisModule_GetContextFromIO(self.as_ptr()))) }
    }

    /// Writes a warning with the key's name to the server's log.
    pub fn log_warning(&self, message: &str) {
        let Ok(message) = CString::new(message) else { return };
        // SAFETY: the io is live, and the format takes one C string.
        unsafe {
            api!(RedisModule_LogIOError(
                self.as_ptr(),
                c"warning".as_ptr(),
                c"%s".as_ptr(),
                message.as_ptr()
            ))
        };
    }

    /// Writes a command with these words to the append-only file that is being rewritten. The words are copied: the server
    /// retains them for a moment, and the key that it hands to the callback must not be retained.
    pub fn emit<'a>(&self, command: &CStr, words: impl IntoIterator<Item = Str<'a>>) {
        let copies: Vec<_> = words.into_iter().map(|word| OwnedStr::new(word.bytes())).collect();
        let words: Vec<_> = copies.iter().map(|word| word.as_str().as_ptr()).collect();
        let (format, start, count) = (c"v".as_ptr(), words.as_ptr(), words.len());
        // SAFETY: the io is live, and the format takes an array of the server's strings with its length, which are written
        // before this returns.
        unsafe { api!(RedisModule_EmitAOF(self.as_ptr(), command.as_ptr(), format, start, count)) };
    }

    /// Reads the next field as a number. Returns `None` on an error.
    pub fn load_unsigned(&mut self) -> Option<u64> {
        // SAFETY: the io is live.
        let number = unsafe { api!(RedisModule_LoadUnsigned(self.as_ptr())) };
        self.is_sound().then_some(number)
    }

    /// Reads the next field as a string. Returns `None` on an error.
    pub fn load_bytes(&mut self) -> Option<LoadedBytes> {
        let mut length = 0;
        // SAFETY: the io is live. The buffer belongs to us; it is null after an error.
        let start = unsafe { api!(RedisModule_LoadStringBuffer(self.as_ptr(), &mut length)) };
        let loaded = NonNull::new(start).map(|start| LoadedBytes { start, length });
        loaded.filter(|_| self.is_sound())
    }

    pub fn save_unsigned(&mut self, number: u64) {
        // SAFETY: the io is live.
        unsafe { api!(RedisModule_SaveUnsigned(self.as_ptr(), number)) }
    }

    pub fn save_bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the io is live; the server writes the bytes before it returns.
        unsafe {
            api!(RedisModule_SaveStringBuffer(self.as_ptr(), bytes.as_ptr().cast(), bytes.len()))
        }
    }

    /// Returns whether all reads succeeded. The server marks the io when a read fails; the value read is then meaningless.
    fn is_sound(&self) -> bool {
        // SAFETY: the io is live.
        unsafe { api!(RedisModule_IsIOError(self.as_ptr())) == 0 }
    }
}

/// A string that the server allocated, and this value frees.
pub struct LoadedBytes {
    start: NonNull<c_char>,
    length: usize,
}

impl Deref for LoadedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server allocated `length` bytes, which belong to us until `drop`.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.length) }
    }
}

impl Drop for LoadedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated by the server for us, freed only here.
        unsafe { api!(RedisModule_Free(self.start.as_ptr().cast())) }
    }
}

/// A digest that is being computed, for `DEBUG DIGEST-VALUE`.
pub struct Digest {
    raw: NonNull<RedisModuleDigest>,
}

impl Digest {
    /// Wraps the server's digest.
    ///
    /// # Safety
    ///
    /// `raw` must be the digest that the server passed to the running callback, and the result must not outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleDigest) -> Self {
        Self { raw: NonNull::new(raw).expect("the server passes a digest") }
    }

    /// Adds a string.
    pub fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the digest is live; the server reads the bytes before it returns.
        unsafe {
            api!(RedisModule_DigestAddStringBuffer(
                self.raw.as_ptr(),
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        }
    }

    /// Adds a number.
    pub fn unsigned(&mut self, number: u64) {
        // SAFETY: the digest is live.
        unsafe { api!(RedisModule_DigestAddLongLong(self.raw.as_ptr(), number as i64)) }
    }

    /// Ends a sequence. The order matters within a sequence, but not between sequences.
    pub fn end_sequence(&mut self) {
        // SAFETY: the digest is live.
        unsafe { api!(RedisModule_DigestEndSequence(self.raw.as_ptr())) }
    }
}
