//! The other modules in the server: they may listen to what happens to keys, and nobody else runs anything then.
//!
//! The server does not say who listens. Where no other module was ever loaded, nobody does.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};

use redis_module::raw::{self, RedisModuleCallReply, RedisModuleCtx, RedisModuleEvent};

use crate::server::guard::guard;
use crate::server::{Context, event};

/// Modules that come with a server, and listen to no keys: Redis 8's and Valkey 9.1's.
const BUILT_IN: [&[u8]; 2] = [b"vectorset", b"lua"];

thread_local! {
    // Modules are loaded and keys changed on the server's main thread alone.
    static OWN: Cell<&'static [u8]> = const { Cell::new(b"") };
    static MAY_LISTEN: Cell<bool> = const { Cell::new(true) };
}

/// Whether there may be somebody who listens. Once there was, it is not asked again whether they have gone.
pub fn may_listen() -> bool {
    MAY_LISTEN.get()
}

/// Looks who is there, and has the server tell of who comes. `own` is this module's name.
pub fn register(context: &Context, own: &'static CStr) {
    OWN.set(own.to_bytes());
    let is_told = event::subscribe(context, raw::REDISMODULE_EVENT_MODULE_CHANGE, on_change);
    MAY_LISTEN.set(!is_told || !are_known(context));
}

fn is_known(name: &[u8]) -> bool {
    name == OWN.get() || BUILT_IN.contains(&name)
}

/// Whether all modules that are loaded are known not to listen.
fn are_known(context: &Context) -> bool {
    // SAFETY: the context is live, and the command takes one word. Replies are freed with the one they are in.
    unsafe {
        let list = api!(RedisModule_Call(
            context.as_ptr(),
            c"MODULE".as_ptr(),
            c"c".as_ptr(),
            c"LIST".as_ptr()
        ));
        if list.is_null() {
            return false;
        }
        let is_list =
            api!(RedisModule_CallReplyType(list)) == raw::REDISMODULE_REPLY_ARRAY as c_int;
        let count = api!(RedisModule_CallReplyLength(list));
        let are_known = is_list && (0..count).all(|at| name_of(list, at).is_some_and(is_known));
        api!(RedisModule_FreeCallReply(list));
        are_known
    }
}

/// The name of a module in the list: each is described by words and their values, of which the name comes first.
///
/// # Safety
///
/// The list must be an array, and live for `'a`.
unsafe fn name_of<'a>(list: *mut RedisModuleCallReply, at: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller vouches for the list. The server returns null for what is not there, and takes null too; a
    // string lives as long as the list.
    unsafe {
        let module = api!(RedisModule_CallReplyArrayElement(list, at));
        if module.is_null()
            || api!(RedisModule_CallReplyType(module)) != raw::REDISMODULE_REPLY_ARRAY as c_int
        {
            return None;
        }
        let name = api!(RedisModule_CallReplyArrayElement(module, 1));
        if name.is_null() {
            return None;
        }
        let mut length = 0;
        let start = api!(RedisModule_CallReplyStringPtr(name, &mut length));
        (!start.is_null()).then(|| std::slice::from_raw_parts(start.cast::<u8>(), length))
    }
}

unsafe extern "C" fn on_change(
    _context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    guard((), || {
        // SAFETY: the server hands out what it says of the event, with a name that is a C string, for the length of
        // this call.
        let name = unsafe {
            CStr::from_ptr((*data.cast::<raw::RedisModuleModuleChange>()).module_name).to_bytes()
        };
        if subevent == raw::REDISMODULE_SUBEVENT_MODULE_LOADED && !is_known(name) {
            MAY_LISTEN.set(true);
        }
    });
}
