//! A value on its way from one name to another.

use std::ptr::NonNull;

use redis_module::raw::RedisModuleKeyOptCtx;

use super::Name;

/// Where the server takes a value from, and brings it to, while it copies it or takes it out of the
/// keyspace.
pub struct Transfer {
    raw: NonNull<RedisModuleKeyOptCtx>,
}

impl Transfer {
    /// Takes what the server hands out.
    ///
    /// # Safety
    ///
    /// `raw` must be what the server handed to the callback which is running, and not outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleKeyOptCtx) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw })
    }

    /// Returns the name that the value has, or had.
    pub fn from(&self) -> Option<Name> {
        // SAFETY: the transfer is live; the server returns a string that lives as long, or null.
        unsafe {
            let key = api!(RedisModule_GetKeyNameFromOptCtx(self.raw.as_ptr()));
            Name::from_raw(api!(RedisModule_GetDbIdFromOptCtx(self.raw.as_ptr())), key)
        }
    }

    /// Returns the name that the copy will have.
    pub fn to(&self) -> Option<Name> {
        // SAFETY: as above.
        unsafe {
            let key = api!(RedisModule_GetToKeyNameFromOptCtx(self.raw.as_ptr()));
            Name::from_raw(api!(RedisModule_GetToDbIdFromOptCtx(self.raw.as_ptr())), key)
        }
    }
}
