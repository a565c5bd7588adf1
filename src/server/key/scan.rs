//! An incremental scan of a database's keys.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use redis_module::raw::{RedisModuleCtx, RedisModuleKey, RedisModuleScanCursor, RedisModuleString};

use super::Key;
use crate::server::guard::guard;
use crate::server::{Context, Str};

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
