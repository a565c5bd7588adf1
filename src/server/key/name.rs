//! A key's name, for later.

use std::ffi::c_int;
use std::ptr::NonNull;

use redis_module::raw::RedisModuleString;

use crate::server::{Context, Str};

/// A key's database and name, for later.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub db: i32,
    pub key: Box<[u8]>,
}

impl Name {
    /// Makes the name of a key of the selected database.
    pub fn of(context: &Context, key: Str<'_>) -> Self {
        Self { db: context.selected_db(), key: key.bytes().into() }
    }

    /// Copies what the server says. `None` if it says nothing.
    ///
    /// # Safety
    ///
    /// `key` must be null, or a string of the server's that lives for the length of this call.
    pub(super) unsafe fn from_raw(db: c_int, key: *const RedisModuleString) -> Option<Self> {
        let key = NonNull::new(key.cast_mut())?;
        // SAFETY: the caller vouches for it.
        let key = unsafe { Str::from_raw(key) };
        Some(Self { db, key: key.bytes().into() })
    }
}
