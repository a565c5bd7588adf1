//! Keys and their values.
//!
//! | module | contents |
//! |---|---|
//! | this file | a key's name; an open key; an incremental scan of a database's keys |
//! | `io` | a value's RDB payload, and its digest |

pub mod io;

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;

use redis_module::raw::{
    self, RedisModuleCtx, RedisModuleKey, RedisModuleKeyOptCtx, RedisModuleScanCursor,
    RedisModuleString, RedisModuleType,
};

use super::{Context, Error, Str, error::Result, guard::guard, hold, info, other_modules};

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
    unsafe fn from_raw(db: c_int, key: *const RedisModuleString) -> Option<Self> {
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

/// A built-in type of a key's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    Stream,
    List,
}

/// An open key of the selected database.
pub struct Key<'a> {
    raw: NonNull<RedisModuleKey>,
    /// The callback that opened the key.
    context: PhantomData<&'a Context>,
}

impl<'a> Key<'a> {
    /// Opens an existing key for reading.
    pub fn open_to_read(context: &'a Context, name: Str<'_>) -> Option<Self> {
        Self::open(context, name, raw::REDISMODULE_READ)
    }

    /// Opens a key for reading without side effects: the statistics and the time of last use stay as they are, and no event
    /// reports a missing key. The result may be an open but empty key.
    pub fn open_to_inspect(context: &'a Context, name: Str<'_>) -> Option<Self> {
        let mode = raw::REDISMODULE_READ | raw::REDISMODULE_OPEN_KEY_NOTOUCH;
        // SAFETY: the server has set its functions by now, and never changes them again.
        let knows_flags = unsafe { raw::RedisModule_GetOpenKeyModesAll }.is_some();
        let no_traces = if knows_flags {
            raw::REDISMODULE_OPEN_KEY_NONOTIFY | raw::REDISMODULE_OPEN_KEY_NOSTATS
        } else {
            // Redis 7.0 has neither flag, and keeps no statistics of keys opened for writing.
            raw::REDISMODULE_WRITE
        };
        Self::open(context, name, mode | no_traces)
    }

    /// Opens a key for writing, whether or not it exists. Opening alone does not signal a change, because of a module option
    /// that `lib.rs` sets.
    pub fn open_to_write(context: &'a Context, name: Str<'_>) -> Self {
        let mode = raw::REDISMODULE_READ | raw::REDISMODULE_WRITE;
        let mut key = Self::open(context, name, mode);
        if other_modules::may_subscribe() && key.as_ref().is_some_and(Self::is_empty) {
            // The key may have expired while it was opened, and another module's event handler may have filled it again.
            // The open key does not show the new value, and writing would lose that value.
            drop(key);
            key = Self::open(context, name, mode);
        }
        key.expect("a key opened for writing need not exist")
    }

    /// Returns the type of the value, as the server numbers them.
    fn kind(&self) -> c_int {
        // SAFETY: the key is open.
        unsafe { api!(RedisModule_KeyType(self.raw.as_ptr())) }
    }

    fn is_empty(&self) -> bool {
        self.kind() == raw::REDISMODULE_KEYTYPE_EMPTY as c_int
    }

    /// Returns whether a key has a value of a type other than `kind`.
    pub fn has_other_kind(context: &Context, name: Str<'_>, kind: KeyKind) -> bool {
        let kind = match kind {
            KeyKind::Stream => raw::REDISMODULE_KEYTYPE_STREAM,
            KeyKind::List => raw::REDISMODULE_KEYTYPE_LIST,
        };
        let key = Key::open_to_inspect(context, name);
        key.is_some_and(|key| !key.is_empty() && key.kind() != kind as c_int)
    }

    /// Wraps the server's key.
    ///
    /// # Safety
    ///
    /// `raw` must be a key that is open for `'a`. Dropping the result closes it.
    unsafe fn from_raw(raw: NonNull<RedisModuleKey>) -> Self {
        Self { raw, context: PhantomData }
    }

    fn open(context: &'a Context, name: Str<'_>, mode: u32) -> Option<Self> {
        // The server deletes an expired key, and publishes an event.
        hold::assert_released();
        // SAFETY: context and name are live.
        let raw =
            unsafe { api!(RedisModule_OpenKey(context.as_ptr(), name.as_ptr(), mode as c_int)) };
        Some(Self { raw: NonNull::new(raw)?, context: PhantomData })
    }

    /// Returns the value of the module type `kind`, or `None` if the key is empty.
    ///
    /// # Errors
    ///
    /// [`Error::WRONG_TYPE`] if the value has another type.
    pub fn value(&self, kind: *mut RedisModuleType) -> Result<Option<NonNull<c_void>>> {
        // SAFETY: the key is open. Without a value of a module type the server returns null.
        unsafe {
            if api!(RedisModule_ModuleTypeGetType(self.raw.as_ptr())) == kind {
                return Ok(NonNull::new(api!(RedisModule_ModuleTypeGetValue(self.raw.as_ptr()))));
            }
        }
        if self.is_empty() { Ok(None) } else { Err(Error::WRONG_TYPE) }
    }

    /// Sets the value of a key that is open for writing and empty, and closes the key.
    ///
    /// The server publishes the event `new`, and another module's event handler may change or delete the key. But closing the
    /// key afterwards reads the object that the server created for the value.
    ///
    /// # Safety
    ///
    /// `value` must be as the callbacks of `kind` expect, and now belongs to the server.
    pub unsafe fn set_value(
        self,
        context: &Context,
        name: Str<'_>,
        kind: *mut RedisModuleType,
        value: NonNull<c_void>,
    ) {
        hold::assert_released();
        // SAFETY: the key is open, the caller vouches for the value.
        let status = unsafe {
            api!(RedisModule_ModuleTypeSetValue(self.raw.as_ptr(), kind, value.as_ptr()))
        };
        assert_eq!(status, raw::REDISMODULE_OK as c_int, "the key is not open for writing");
        if !other_modules::may_subscribe() {
            return;
        }
        let found = Key::open_to_inspect(context, name).and_then(|key| key.value(kind).ok()?);
        if found == Some(value) {
            self.refresh_object();
        } else {
            // The value was deleted or replaced, and its object freed: the key must never be closed. This leaks the name and
            // some fifty bytes.
            mem::forget(self);
        }
    }

    /// Returns the key's expiry in milliseconds since the epoch, if it has one. The key must not be empty: Redis 8.6 reads
    /// the expiry from the value's object, without looking whether there is one.
    pub fn expiry(&self) -> Option<u64> {
        // SAFETY: the key is open and not empty.
        let at = unsafe { api!(RedisModule_GetAbsExpire(self.raw.as_ptr())) };
        // -1 means none.
        u64::try_from(at).ok()
    }

    /// Sets the expiry of a key that is open for writing, in milliseconds since the epoch. Returns `false` if the key is empty.
    pub fn expire_at(&mut self, at: u64) -> bool {
        let Ok(at) = at.try_into() else { return false };
        // SAFETY: the key is open.
        let status = unsafe { api!(RedisModule_SetAbsExpire(self.raw.as_ptr(), at)) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Makes the server look up the object of this key's value again. Valkey moves the object when an event handler gives the
    /// key its first expiry, or another name, and this open key still refers to the old place. Setting an expiry looks the
    /// object up, and removing the expiry leaves it in place. No expiry is lost: the server removes any that was set during
    /// the event `new`.
    fn refresh_object(&self) {
        /// Long enough not to pass before it is removed.
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        // Redis moves objects only from 8.2 on, and there the server itself does not survive such an event handler.
        if !info::is_valkey() {
            return;
        }
        for expiry in [DAY_MS, raw::REDISMODULE_NO_EXPIRE.into()] {
            // SAFETY: the key is open for writing and not empty. The server finds everything by name, and does not read the
            // old object.
            unsafe { api!(RedisModule_SetExpire(self.raw.as_ptr(), expiry)) };
        }
    }

    /// Deletes a key that is open for writing, and frees its value. The server neither signals nor publishes the deletion.
    pub fn delete(&mut self) {
        hold::assert_released();
        // SAFETY: the key is open.
        unsafe { api!(RedisModule_DeleteKey(self.raw.as_ptr())) };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, closed only here. No automatic memory is in use.
        unsafe { api!(RedisModule_CloseKey(self.raw.as_ptr())) };
    }
}

type Visitor<'a> = &'a mut dyn FnMut(Str<'_>, &Key<'_>);

/// An incremental scan. As with SCAN, it visits a key that exists from beginning to end at least once.
pub struct Scan {
    cursor: NonNull<RedisModuleScanCursor>,
}

impl Scan {
    pub fn new() -> Self {
        // SAFETY: takes no argument and has no precondition.
        let cursor = unsafe { api!(RedisModule_ScanCursorCreate()) };
        Self {
            cursor: NonNull::new(cursor).expect("the server aborts rather than run out of memory"),
        }
    }

    /// Visits some more keys of the selected database, open for reading. The visitor must neither change anything nor open a
    /// key. Returns whether more keys follow.
    pub fn step(&mut self, context: &Context, mut visit: impl FnMut(Str<'_>, &Key<'_>)) -> bool {
        let mut visit: Visitor<'_> = &mut visit;
        let data = (&raw mut visit).cast::<c_void>();
        // SAFETY: context and cursor are live. The callback is called with `data`, and only before this returns.
        unsafe {
            api!(RedisModule_Scan(context.as_ptr(), self.cursor.as_ptr(), Some(on_key), data)) != 0
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // SAFETY: created in `new`, and freed only here.
        unsafe { api!(RedisModule_ScanCursorDestroy(self.cursor.as_ptr())) }
    }
}

unsafe extern "C" fn on_key(
    _context: *mut RedisModuleCtx,
    name: *mut RedisModuleString,
    key: *mut RedisModuleKey,
    data: *mut c_void,
) {
    guard((), || {
        let (Some(name), Some(key)) = (NonNull::new(name), NonNull::new(key)) else { return };
        // SAFETY: the name and the key live for this call, and the server closes the key itself. `data` is the visitor of
        // `step`, used only here.
        let (name, key, visit) = unsafe {
            let key = ManuallyDrop::new(Key::from_raw(key));
            (Str::from_raw(name), key, &mut *data.cast::<Visitor<'_>>())
        };
        visit(name, &key);
    });
}
