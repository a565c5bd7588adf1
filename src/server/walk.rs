//! A walk over the keys of a database, a few at a time.

use std::ffi::c_void;
use std::ptr::NonNull;

use redis_module::raw::{RedisModuleCtx, RedisModuleKey, RedisModuleScanCursor, RedisModuleString};

use super::guard::guard;
use super::{Context, Str};

/// A walk that goes on where it stopped. A key that is there from beginning to end is shown at least once,
/// as SCAN has it.
pub struct Walk {
    cursor: NonNull<RedisModuleScanCursor>,
}

impl Walk {
    pub fn new() -> Self {
        // SAFETY: takes no argument and has no precondition.
        let cursor = unsafe { api!(RedisModule_ScanCursorCreate()) };
        Self {
            cursor: NonNull::new(cursor).expect("the server aborts rather than run out of memory"),
        }
    }

    /// Shows the names of some more keys of the selected database. Returns whether there are more.
    pub fn step(&mut self, context: &Context, mut show: impl FnMut(Str<'_>)) -> bool {
        let mut show: &mut dyn FnMut(Str<'_>) = &mut show;
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
    _key: *mut RedisModuleKey,
    data: *mut c_void,
) {
    guard((), || {
        let Some(name) = NonNull::new(name) else { return };
        // SAFETY: the server hands out a name for the length of this call, and the data that `step` gave
        // it, which nobody else uses meanwhile.
        let (name, show) =
            unsafe { (Str::from_raw(name), &mut *data.cast::<&mut dyn FnMut(Str<'_>)>()) };
        show(name);
    });
}
