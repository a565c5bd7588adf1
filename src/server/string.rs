//! Strings that belong to the server: names, values, arguments. Numbers as text.

use std::ffi::c_longlong;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw::RedisModuleString;

/// A borrowed server string: an argument, or an [`OwnedStr`]. It may contain any bytes, including NUL.
#[derive(Clone, Copy)]
pub struct Str<'a> {
    raw: NonNull<RedisModuleString>,
    bytes: &'a [u8],
}

impl<'a> Str<'a> {
    /// Wraps the server's pointer.
    ///
    /// # Safety
    ///
    /// `raw` must be a server string that lives, unchanged, for `'a`.
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

    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Keeps the string after the callback, without a copy.
    pub fn retain(self) -> OwnedStr {
        // SAFETY: the string is live. Without a context the new reference is ours to free.
        unsafe { api!(RedisModule_RetainString(ptr::null_mut(), self.raw.as_ptr())) };
        OwnedStr { raw: self.raw }
    }

    /// Returns the server's own pointer, for the API.
    pub fn as_ptr(self) -> *mut RedisModuleString {
        self.raw.as_ptr()
    }
}

/// A server string that this module creates or retains, and frees.
#[repr(transparent)]
pub struct OwnedStr {
    raw: NonNull<RedisModuleString>,
}

impl OwnedStr {
    /// Creates a string from a copy of `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        // SAFETY: the pointer and the length describe `bytes`, which the server copies. Without a
        // context the string is ours to free.
        let raw = unsafe {
            api!(RedisModule_CreateString(ptr::null_mut(), bytes.as_ptr().cast(), bytes.len()))
        };
        Self { raw: NonNull::new(raw).expect("the server aborts rather than run out of memory") }
    }

    /// Creates a string from the digits of a number below 2^63.
    pub fn of_number(number: u64) -> Self {
        // SAFETY: takes a number. Without a context the string is ours to free.
        let raw = unsafe {
            api!(RedisModule_CreateStringFromLongLong(ptr::null_mut(), number as c_longlong))
        };
        Self { raw: NonNull::new(raw).expect("the server aborts rather than run out of memory") }
    }

    /// Takes ownership of a string.
    ///
    /// # Safety
    ///
    /// `raw` must be a server string that belongs to the caller alone.
    pub(super) unsafe fn from_raw(raw: NonNull<RedisModuleString>) -> Self {
        Self { raw }
    }

    /// Transfers ownership to the server, which frees the string.
    pub fn into_raw(self) -> *mut RedisModuleString {
        ManuallyDrop::new(self).raw.as_ptr()
    }

    /// Returns the server's own pointers, for the API.
    pub fn as_ptrs(strings: &[Self]) -> *const *mut RedisModuleString {
        // The type is transparent.
        strings.as_ptr().cast()
    }

    pub fn bytes(&self) -> &[u8] {
        self.as_str().bytes()
    }

    pub fn as_str(&self) -> Str<'_> {
        // SAFETY: the string lives until `self` is dropped.
        unsafe { Str::from_raw(self.raw) }
    }
}

impl From<&[u8]> for OwnedStr {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes)
    }
}

impl AsRef<[u8]> for OwnedStr {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for OwnedStr {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, made without a context, and freed here alone.
        unsafe { api!(RedisModule_FreeString(ptr::null_mut(), self.raw.as_ptr())) }
    }
}

/// The arguments of a command, starting with its name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    argv: *const *mut RedisModuleString,
    argc: usize,
    lifetime: PhantomData<&'a RedisModuleString>,
}

impl<'a> Args<'a> {
    /// Wraps the server's argument vector.
    ///
    /// # Safety
    ///
    /// `argv` must point to `argc` strings that live, unchanged, for `'a`.
    pub unsafe fn from_raw(argv: *const *mut RedisModuleString, argc: usize) -> Self {
        Self { argv, argc, lifetime: PhantomData }
    }

    /// Returns the number of arguments, including the command's name.
    pub fn len(self) -> usize {
        self.argc
    }

    /// Returns the argument at index `at`, if there is one.
    pub fn get(self, at: usize) -> Option<Str<'a>> {
        if at >= self.argc {
            return None;
        }
        // SAFETY: `at` is below `argc`, so the caller of `from_raw` vouches for what is there.
        unsafe { Some(Str::from_raw(NonNull::new(*self.argv.add(at))?)) }
    }

    /// Returns the arguments from `at` on.
    pub fn from(self, at: usize) -> impl Iterator<Item = Str<'a>> + Clone {
        (at..self.argc).filter_map(move |at| self.get(at))
    }
}

/// The reason why a word is not a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotNumber {
    /// The number does not fit in 63 bits.
    TooLarge,
    Other,
}

/// Reads a decimal number up to 2^63 - 1, written as the server writes numbers: digits alone, no sign, no space, no
/// leading zero.
pub fn number(bytes: &[u8]) -> Result<u64, NotNumber> {
    const MAX: u64 = i64::MAX as u64;
    let is_canonical = bytes == b"0" || !bytes.starts_with(b"0");
    if bytes.is_empty() || !is_canonical || !bytes.iter().all(u8::is_ascii_digit) {
        return Err(NotNumber::Other);
    }
    // By hand, because the standard library takes up to 300 instructions more for each number of each command.
    let mut number = 0_u64;
    for digit in bytes {
        // So the next step stays far below 2^64.
        if number > MAX / 10 {
            return Err(NotNumber::TooLarge);
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    if number <= MAX { Ok(number) } else { Err(NotNumber::TooLarge) }
}

/// The room for the longest word of an effect: see `replicate/head.rs`.
const ROOM: usize = 192;

/// Numbers as text, with names before them and separators between them, written without an allocation.
pub struct Digits {
    bytes: [u8; ROOM],
    len: usize,
}

impl Digits {
    /// Returns the digits of a number.
    #[inline]
    pub fn new(number: u64) -> Self {
        let mut digits = Self { bytes: [0; ROOM], len: 0 };
        digits.put(number);
        digits
    }

    /// Returns a letter alone.
    pub fn letter(letter: u8) -> Self {
        let mut digits = Self { bytes: [0; ROOM], len: 1 };
        digits.bytes[0] = letter;
        digits
    }

    /// Returns a letter, and the digits of a number.
    #[inline]
    pub fn after(letter: u8, number: u64) -> Self {
        Self { bytes: [0; ROOM], len: 0 }.and(letter, number)
    }

    /// Appends a separator and another number.
    #[inline]
    pub fn and(mut self, separator: u8, number: u64) -> Self {
        self.bytes[self.len] = separator;
        self.len += 1;
        self.put(number);
        self
    }

    /// Appends `,name=number`, unless the number is 0.
    #[inline]
    pub fn option(mut self, name: &str, number: u64) -> Self {
        if number == 0 {
            return self;
        }
        self.bytes[self.len] = b',';
        self.bytes[self.len + 1..][..name.len()].copy_from_slice(name.as_bytes());
        self.len += 1 + name.len();
        self.and(b'=', number)
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline]
    fn put(&mut self, number: u64) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        self.bytes[self.len..][..digits.len()].copy_from_slice(digits);
        self.len += digits.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_have_letters_names_and_separators_between_them() {
        for number in [1, 10, u64::MAX] {
            assert_eq!(Digits::new(number).bytes(), number.to_string().as_bytes());
            let all = Digits::after(b'P', number).and(b'@', 0).option("a", 0).option("b", number);
            assert_eq!(all.bytes(), format!("P{number}@0,b={number}").as_bytes());
        }
    }

    #[test]
    fn a_number_is_what_the_server_would_write() {
        for good in [0, 1, 9, 10, 1000, i64::MAX as u64 - 1, i64::MAX as u64] {
            assert_eq!(number(good.to_string().as_bytes()), Ok(good));
        }
        let bad = [
            "",
            " ",
            "-",
            "+1",
            "-1",
            "-0",
            " 5",
            "5 ",
            "5\n",
            "00",
            "05",
            "1.5",
            "1e3",
            "0x10",
            "ten",
            "１",
            "9223372036854775808x",
        ];
        for bad in bad {
            assert_eq!(number(bad.as_bytes()), Err(NotNumber::Other), "{bad:?}");
        }
        assert_eq!(number(b"1\0"), Err(NotNumber::Other));
        for large in
            ["9223372036854775808", "18446744073709551616", "100000000000000000000000000000"]
        {
            assert_eq!(number(large.as_bytes()), Err(NotNumber::TooLarge), "{large:?}");
        }
    }
}
