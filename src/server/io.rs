//! Reading and writing RDB payloads, and digests.

use std::ffi::{CString, c_char};
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw::{RedisModuleDigest, RedisModuleIO};

/// A payload that cannot be what a server wrote, or ends too early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt(pub &'static str);

/// Where fields come from: an RDB, a replica's full sync, RESTORE.
pub trait Source {
    /// The bytes of a string field.
    type Bytes: Deref<Target = [u8]>;

    /// # Errors
    ///
    /// [`Corrupt`] if the next field is no number, or there is none.
    fn unsigned(&mut self) -> Result<u64, Corrupt>;

    /// # Errors
    ///
    /// [`Corrupt`] if the next field is no string, or there is none.
    fn bytes(&mut self) -> Result<Self::Bytes, Corrupt>;
}

/// Where fields go.
pub trait Sink {
    fn unsigned(&mut self, number: u64);
    fn bytes(&mut self, bytes: &[u8]);
}

/// A payload that is being read or written.
pub struct Io {
    raw: NonNull<RedisModuleIO>,
}

impl Io {
    /// # Safety
    ///
    /// `raw` must be what the server handed to the callback which is running, and not outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleIO) -> Self {
        Self { raw: NonNull::new(raw).expect("the server hands out an io") }
    }

    pub fn as_ptr(&self) -> *mut RedisModuleIO {
        self.raw.as_ptr()
    }

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

    /// The server marks an io when a read fails; what was read then is worth nothing.
    fn check(&self) -> Result<(), Corrupt> {
        // SAFETY: the io is live.
        match unsafe { api!(RedisModule_IsIOError(self.as_ptr())) } {
            0 => Ok(()),
            _ => Err(Corrupt("a field is missing, or of another kind")),
        }
    }
}

impl Source for Io {
    type Bytes = LoadedBytes;

    fn unsigned(&mut self) -> Result<u64, Corrupt> {
        // SAFETY: the io is live.
        let number = unsafe { api!(RedisModule_LoadUnsigned(self.as_ptr())) };
        self.check().map(|()| number)
    }

    fn bytes(&mut self) -> Result<LoadedBytes, Corrupt> {
        let mut length = 0;
        // SAFETY: the io is live. The buffer is ours; it is null after an error.
        let start = unsafe { api!(RedisModule_LoadStringBuffer(self.as_ptr(), &mut length)) };
        let loaded = NonNull::new(start).map(|start| LoadedBytes { start, length });
        self.check()?;
        loaded.ok_or(Corrupt("a string cannot be read"))
    }
}

impl Sink for Io {
    fn unsigned(&mut self, number: u64) {
        // SAFETY: the io is live.
        unsafe { api!(RedisModule_SaveUnsigned(self.as_ptr(), number)) }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the io is live; the server writes the bytes before it returns.
        unsafe {
            api!(RedisModule_SaveStringBuffer(self.as_ptr(), bytes.as_ptr().cast(), bytes.len()))
        }
    }
}

/// A string that the server read and we free.
pub struct LoadedBytes {
    start: NonNull<c_char>,
    length: usize,
}

impl Deref for LoadedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server allocated `length` bytes here, which are ours until `drop`.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.length) }
    }
}

impl Drop for LoadedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated by the server for us, freed here alone.
        unsafe { api!(RedisModule_Free(self.start.as_ptr().cast())) }
    }
}

/// A digest that is being computed, for `DEBUG DIGEST-VALUE`.
pub struct Digest {
    raw: NonNull<RedisModuleDigest>,
}

impl Digest {
    /// # Safety
    ///
    /// `raw` must be what the server handed to the callback which is running, and not outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleDigest) -> Self {
        Self { raw: NonNull::new(raw).expect("the server hands out a digest") }
    }

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

    pub fn unsigned(&mut self, number: u64) {
        // SAFETY: the digest is live.
        unsafe { api!(RedisModule_DigestAddLongLong(self.raw.as_ptr(), number as i64)) }
    }

    /// Ends a sequence, within which the order counts. Sequences themselves may come in any order.
    pub fn end_sequence(&mut self) {
        // SAFETY: the digest is live.
        unsafe { api!(RedisModule_DigestEndSequence(self.raw.as_ptr())) }
    }
}
