//! A walk over the keys of a database, a few at a time.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use redis_module::raw::{RedisModuleCtx, RedisModuleKey, RedisModuleScanCursor, RedisModuleString};

use super::Key;
use crate::server::guard::guard;
use crate::server::{Context, Str};

/// Whom a walk shows keys to.
type Show<'a> = &'a mut dyn FnMut(Str<'_>, &Key<'_>);

/// A walk that goes on where it stopped. A key that is there from beginning to end is shown at least once,
/// as SCAN has it.
pub struct Walk {
    cursor: NonNull<RedisModuleScanCursor>,
}

impl Walk {
    /// Begins at the first key.
    pub fn new() -> Self {
        // SAFETY: takes no argument and has no precondition.
        let cursor = unsafe { api!(RedisModule_ScanCursorCreate()) };
        Self {
            cursor: NonNull::new(cursor).expect("the server aborts rather than run out of memory"),
        }
    }

    /// Shows some more keys of the selected database, open for looking at them. Nothing may be changed
    /// meanwhile, nor another key opened. Returns whether there are more.
    pub fn step(&mut self, context: &Context, mut show: impl FnMut(Str<'_>, &Key<'_>)) -> bool {
        let mut show: Show<'_> = &mut show;
        let data = (&raw mut show).cast::<c_void>();
        // SAFETY: context and cursor are live. The callback is called before this returns, with the data
        // as it is.
        unsafe {
            api!(RedisModule_Scan(context.as_ptr(), self.cursor.as_ptr(), Some(on_key), data)) != 0
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and freed here alone.
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
        // SAFETY: the server hands out a name and a key for the length of this call, and closes the key
        // itself; and the data that `step` gave it, which nobody else uses meanwhile.
        let (name, key, show) = unsafe {
            let key = ManuallyDrop::new(Key::from_raw(key));
            (Str::from_raw(name), key, &mut *data.cast::<Show<'_>>())
        };
        show(name, &key);
    });
}
