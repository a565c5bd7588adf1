//! A key's name, and the names that the server passes along with a value.

use std::ffi::c_int;
use std::ptr::NonNull;

use redis_module::raw::{RedisModuleKeyOptCtx, RedisModuleString};

use crate::server::{Context, Str};

/// A key's database and name, to be kept after the callback.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub db: i32,
    pub key: Box<[u8]>,
}

impl Name {
    /// Returns the name of a key of the selected database.
    pub fn of(context: &Context, key: Str<'_>) -> Self {
        Self { db: context.selected_db(), key: key.bytes().into() }
    }

    /// Copies a name from the server. Returns `None` if `key` is null.
    ///
    /// # Safety
    ///
    /// `key` must be null, or a server string that lives for the length of this call.
    pub(super) unsafe fn from_raw(db: c_int, key: *const RedisModuleString) -> Option<Self> {
        let key = NonNull::new(key.cast_mut())?;
        // SAFETY: the caller vouches for it.
        let key = unsafe { Str::from_raw(key) };
        Some(Self { db, key: key.bytes().into() })
    }
}

/// The names of a value that the server copies or unlinks.
pub struct KeyNames {
    raw: NonNull<RedisModuleKeyOptCtx>,
}

impl KeyNames {
    /// Wraps the server's context.
    ///
    /// # Safety
    ///
    /// `raw` must be null or the context that the server passed to the running callback, and the result must not outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleKeyOptCtx) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw })
    }

    /// Returns the name that the value has, or had.
    pub fn source(&self) -> Option<Name> {
        // SAFETY: `raw` is live; the server returns null, or a string that lives as long.
        unsafe {
            let key = api!(RedisModule_GetKeyNameFromOptCtx(self.raw.as_ptr()));
            Name::from_raw(api!(RedisModule_GetDbIdFromOptCtx(self.raw.as_ptr())), key)
        }
    }

    /// Returns the name that the copy will have.
    pub fn destination(&self) -> Option<Name> {
        // SAFETY: as above.
        unsafe {
            let key = api!(RedisModule_GetToKeyNameFromOptCtx(self.raw.as_ptr()));
            Name::from_raw(api!(RedisModule_GetToDbIdFromOptCtx(self.raw.as_ptr())), key)
        }
    }
}
