//! Strings of the server. The module holds pointers to them and counts its references.

use std::cell::{Cell, UnsafeCell};
use std::ptr;

/// A string with a count of references.
pub struct Text {
    references: Cell<u32>,
    bytes: UnsafeCell<Vec<u8>>,
}

thread_local! {
    /// Freed strings, with their memory: a new one takes it over.
    static FREED: UnsafeCell<Vec<*mut Text>> = const { UnsafeCell::new(Vec::new()) };
}

/// The most freed strings to keep, and the largest of them, in bytes.
const KEPT: usize = 4096;
const KEPT_BYTES: usize = 1024;

/// A pointer to a string, as the module sees it.
pub type Raw = *mut Text;

/// Returns a new string with one reference.
pub fn new(bytes: &[u8]) -> Raw {
    // SAFETY: nothing else runs while the list is borrowed.
    match FREED.with(|freed| unsafe { (*freed.get()).pop() }) {
        // SAFETY: a freed string is in nobody's hands.
        Some(text) => unsafe {
            (*text).references.set(1);
            (*(*text).bytes.get()).extend_from_slice(bytes);
            text
        },
        None => Box::into_raw(Box::new(Text {
            references: Cell::new(1),
            bytes: UnsafeCell::new(bytes.to_vec()),
        })),
    }
}

/// Returns the bytes of a string.
///
/// # Safety
///
/// The string must be live for `'a`.
pub unsafe fn bytes<'a>(text: Raw) -> &'a [u8] {
    // SAFETY: the caller's promise. Strings never change.
    unsafe {
        assert!((*text).references.get() > 0, "a string is used after it was freed");
        &*(*text).bytes.get()
    }
}

/// Adds a reference.
///
/// # Safety
///
/// The string must be live.
pub unsafe fn retain(text: Raw) -> Raw {
    // SAFETY: the caller's promise.
    unsafe { (*text).references.set((*text).references.get() + 1) };
    text
}

/// Drops a reference.
///
/// # Safety
///
/// The reference must be the caller's.
pub unsafe fn release(text: Raw) {
    // SAFETY: the caller's promise.
    unsafe {
        let left = (*text).references.get().checked_sub(1).expect("a string is freed twice");
        (*text).references.set(left);
        if left > 0 {
            return;
        }
        let bytes = &mut *(*text).bytes.get();
        bytes.clear();
        if bytes.capacity() > KEPT_BYTES {
            *bytes = Vec::new();
        }
        FREED.with(|freed| {
            let freed = &mut *freed.get();
            match freed.len() < KEPT {
                true => freed.push(text),
                false => drop(Box::from_raw(text)),
            }
        });
    }
}

/// The words of a command: each holds a reference to a string.
#[derive(Default)]
pub struct Words(Vec<Raw>);

impl Words {
    pub fn new<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(words.into_iter().map(new).collect())
    }

    /// Returns the words of a line that is split at its spaces.
    pub fn of_line(line: &str) -> Self {
        Self::new(line.split(' ').map(str::as_bytes))
    }

    /// Takes over references.
    pub fn from_raw(words: Vec<Raw>) -> Self {
        Self(words)
    }

    /// Adds a word, whose reference it takes over.
    pub fn push(&mut self, word: Raw) {
        self.0.push(word);
    }

    pub fn raw(&self) -> &[Raw] {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a word, or null.
    pub fn at(&self, at: usize) -> Raw {
        self.0.get(at).copied().unwrap_or(ptr::null_mut())
    }

    pub fn get(&self, at: usize) -> Option<&[u8]> {
        // SAFETY: the words are live while `self` is.
        self.0.get(at).map(|word| unsafe { bytes(*word) })
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: as above.
        self.0.iter().map(|word| unsafe { bytes(*word) })
    }

    /// Returns the words as copies.
    pub fn to_vecs(&self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }
}

impl Clone for Words {
    fn clone(&self) -> Self {
        // SAFETY: the words are live while `self` is.
        Self(self.0.iter().map(|word| unsafe { retain(*word) }).collect())
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the references are ours.
        self.0.iter().for_each(|word| unsafe { release(*word) });
    }
}
