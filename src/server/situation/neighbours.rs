//! The other modules in the server: they may listen to what happens to keys, and nobody else runs anything then.
//!
//! The server does not say who listens. Where no other module was ever loaded, nobody does.

use std::cell::Cell;
use std::ffi::{CStr, c_void};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use crate::server::call::{Part, Reply};
use crate::server::guard::guard;
use crate::server::{Context, event};

/// Modules that come with a server, and listen to no keys: Redis 8's and Valkey 9.1's.
const BUILT_IN: [&[u8]; 2] = [b"vectorset", b"lua"];

thread_local! {
    // Modules are loaded and keys changed on the server's main thread alone.
    static OWN: Cell<&'static [u8]> = const { Cell::new(b"") };
    static MAY_LISTEN: Cell<bool> = const { Cell::new(true) };
}

/// Returns whether there may be somebody who listens. Once there was, it is not asked again whether they have gone.
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

/// Returns whether all modules that are loaded are known not to listen.
fn are_known(context: &Context) -> bool {
    let (context, command, format) = (context.as_ptr(), c"MODULE".as_ptr(), c"c".as_ptr());
    // SAFETY: the context is live, and the command takes one word. The reply is nobody else's.
    let list = unsafe {
        Reply::from_raw(api!(RedisModule_Call(context, command, format, c"LIST".as_ptr())))
    };
    let Some(list) = list else { return false };
    let modules = list.whole().array();
    modules.is_some_and(|mut modules| modules.all(|it| name_of(it).is_some_and(is_known)))
}

/// Returns the name of a module in the list: each is described by words and their values, of which the name comes first.
fn name_of(module: Part<'_>) -> Option<&[u8]> {
    module.array()?.nth(1)?.text()
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
