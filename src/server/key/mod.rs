//! Keys, and the values in them.
//!
//! | module | noun |
//! |---|---|
//! | this file | a key that is open |
//! | `name` | a key's name, for later |
//! | `transfer` | a value on its way from one name to another |
//! | `io` | a value that is read from RDB or written to it; its digest |
//! | `walk` | a walk over the keys of a database, a few at a time |

pub mod io;
mod name;
mod transfer;
pub mod walk;

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use redis_module::raw::{self, RedisModuleKey, RedisModuleType};

use super::{Context, Error, Str, error::Result, hold, info, neighbours};

pub use name::Name;
pub use transfer::Transfer;

/// What a key of the server's own holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    Stream,
    List,
}

/// A key that is open in the selected database, until it is dropped.
pub struct Key<'a> {
    raw: NonNull<RedisModuleKey>,
    /// The callback within which it is open.
    context: PhantomData<&'a Context>,
}

impl<'a> Key<'a> {
    /// Opens a key that exists, for looking at it.
    pub fn open_to_read(context: &'a Context, name: Str<'_>) -> Option<Self> {
        Self::open(context, name, raw::REDISMODULE_READ)
    }

    /// Opens a key as [`Key::open_to_read`] does, and leaves no trace: neither statistics nor the time of last use change,
    /// and nobody is told that a key is missing. It may be open though there is none.
    pub fn open_to_inspect(context: &'a Context, name: Str<'_>) -> Option<Self> {
        let mode = raw::REDISMODULE_READ | raw::REDISMODULE_OPEN_KEY_NOTOUCH;
        // SAFETY: the server has filled in its functions by now, and changes them no more.
        let knows_flags = unsafe { raw::RedisModule_GetOpenKeyModesAll }.is_some();
        let quietly = if knows_flags {
            raw::REDISMODULE_OPEN_KEY_NONOTIFY | raw::REDISMODULE_OPEN_KEY_NOSTATS
        } else {
            // Redis 7.0 knows neither flag, and counts nothing where a key is opened for writing.
            raw::REDISMODULE_WRITE
        };
        Self::open(context, name, mode | quietly)
    }

    /// Opens a key for changing it, whether it exists or not. Opening alone signals nothing: the
    /// module has said (see `lib.rs`) that it signals changes itself.
    pub fn open_to_write(context: &'a Context, name: Str<'_>) -> Self {
        let open = || {
            let mode = raw::REDISMODULE_READ | raw::REDISMODULE_WRITE;
            Self::open(context, name, mode).expect("a key opened for writing need not exist")
        };
        let key = open();
        if neighbours::may_listen() && key.is_empty() {
            // It may have expired just now, and a module that listened may have filled it again: this key does not show
            // that, and what it is filled with would be lost.
            drop(key);
            return open();
        }
        key
    }

    fn is_empty(&self) -> bool {
        // SAFETY: the key is open.
        let kind = unsafe { api!(RedisModule_KeyType(self.raw.as_ptr())) };
        kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int
    }

    /// Returns whether a key has a value of another kind.
    pub fn holds_other_than(context: &Context, name: Str<'_>, kind: KeyKind) -> bool {
        let kind = match kind {
            KeyKind::Stream => raw::REDISMODULE_KEYTYPE_STREAM,
            KeyKind::List => raw::REDISMODULE_KEYTYPE_LIST,
        };
        let kinds = [raw::REDISMODULE_KEYTYPE_EMPTY, kind];
        Key::open_to_inspect(context, name).is_some_and(|key| {
            // SAFETY: the key is open.
            let kind = unsafe { api!(RedisModule_KeyType(key.raw.as_ptr())) };
            kinds.iter().all(|it| *it as c_int != kind)
        })
    }

    /// Takes what the server hands out.
    ///
    /// # Safety
    ///
    /// `raw` must be a key that is open for `'a`. It is closed when this is dropped.
    pub(super) unsafe fn from_raw(raw: NonNull<RedisModuleKey>) -> Self {
        Self { raw, context: PhantomData }
    }

    fn open(context: &'a Context, name: Str<'_>, mode: u32) -> Option<Self> {
        // If it has expired, the server deletes it, and says so.
        hold::call_out();
        // SAFETY: context and name are live.
        let raw =
            unsafe { api!(RedisModule_OpenKey(context.as_ptr(), name.as_ptr(), mode as c_int)) };
        NonNull::new(raw).map(|raw| Self { raw, context: PhantomData })
    }

    /// Returns the value, if it is of the module type `kind`; `None` if there is no value.
    ///
    /// # Errors
    ///
    /// [`Error::WrongType`] if there is another.
    pub fn value(&self, kind: *mut RedisModuleType) -> Result<Option<NonNull<c_void>>> {
        if self.is_empty() {
            return Ok(None);
        }
        // SAFETY: the key is open.
        unsafe {
            if api!(RedisModule_ModuleTypeGetType(self.raw.as_ptr())) != kind {
                return Err(Error::WrongType);
            }
            Ok(NonNull::new(api!(RedisModule_ModuleTypeGetValue(self.raw.as_ptr()))))
        }
    }

    /// Gives the key a value of a module type, and closes it. The key must be open for writing, and have none.
    ///
    /// That publishes the server's event `new`, and whoever listens may do as they like with the key. But to close the key,
    /// which is done after that, the server reads the object in which it kept the value before.
    ///
    /// # Safety
    ///
    /// `value` must be what the callbacks of `kind` expect, and nobody else's from here on.
    pub unsafe fn fill(
        self,
        context: &Context,
        name: Str<'_>,
        kind: *mut RedisModuleType,
        value: NonNull<c_void>,
    ) {
        hold::call_out();
        // SAFETY: the key is open, the caller vouches for the value.
        let status = unsafe {
            api!(RedisModule_ModuleTypeSetValue(self.raw.as_ptr(), kind, value.as_ptr()))
        };
        assert_eq!(status, raw::REDISMODULE_OK as c_int, "the key is not open for writing");
        if !neighbours::may_listen() {
            return;
        }
        let found = Key::open_to_inspect(context, name).and_then(|key| key.value(kind).ok()?);
        if found == Some(value) {
            self.look_up_again();
        } else {
            // It was deleted or replaced, and the object freed: the key stays open for good. The server loses some
            // fifty bytes and the name.
            std::mem::forget(self);
        }
    }

    /// Returns when the server will delete the key by itself, in milliseconds since the epoch.
    pub fn expiry(&self) -> Option<u64> {
        // SAFETY: the key is open.
        let at = unsafe { api!(RedisModule_GetAbsExpire(self.raw.as_ptr())) };
        // -1 stands for never.
        u64::try_from(at).ok()
    }

    /// Has the server delete the key at that moment. Returns whether the key, which must be open for writing, has a value.
    pub fn expire_at(&mut self, at: u64) -> bool {
        let Ok(at) = at.try_into() else { return false };
        // SAFETY: the key is open.
        let status = unsafe { api!(RedisModule_SetAbsExpire(self.raw.as_ptr(), at)) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Has the server look up where it keeps the value of this key, which is there. Valkey moves the object when somebody
    /// gives the key its first expiry, or another name, and does not say so. But to give it an expiry looks the object up;
    /// to take the expiry away leaves it there. The key has none before, as the server takes away one that was set
    /// while it said `new`.
    fn look_up_again(&self) {
        /// Long enough not to come before it is taken away.
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        // Redis does not move it, but from 8.2 on, where it does not survive that somebody else did so either.
        if !info::is_valkey() {
            return;
        }
        for expiry in [DAY_MS, raw::REDISMODULE_NO_EXPIRE.into()] {
            // SAFETY: the key is open for writing and there. The object that it had is not read: all is found by name.
            unsafe { api!(RedisModule_SetExpire(self.raw.as_ptr(), expiry)) };
        }
    }

    /// Deletes the key, which must be open for writing, and frees its value. The server neither
    /// signals nor publishes that.
    pub fn delete(&mut self) {
        hold::call_out();
        // SAFETY: the key is open.
        unsafe { api!(RedisModule_DeleteKey(self.raw.as_ptr())) };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, closed here alone. No automatic memory is in use.
        unsafe { api!(RedisModule_CloseKey(self.raw.as_ptr())) };
    }
}
