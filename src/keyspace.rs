//! What happens to whole databases at once: FLUSHALL, SWAPDB.
//!
//! The server does not name the keys that come and go by these, so what is noted by name is put right here.

use std::ffi::c_void;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use crate::agenda;
use crate::server::guard::guard;
use crate::server::{Context, event};

/// Has the server tell of these. `false` if it refuses.
pub fn register(context: &Context) -> bool {
    event::subscribe(context, raw::REDISMODULE_EVENT_FLUSHDB, on_flush)
        && event::subscribe(context, raw::REDISMODULE_EVENT_SWAPDB, on_swap)
}

// The server calls what follows. It hands each what it says of the event, live for the call: that is
// the promise which every `SAFETY` below leans on.

unsafe extern "C" fn on_flush(
    _context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    guard((), || {
        // SAFETY: the server's promise above.
        let info = unsafe { &*data.cast::<raw::RedisModuleFlushInfo>() };
        if subevent == raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
            // It says -1 for all databases.
            agenda::flushed((info.dbnum >= 0).then_some(info.dbnum));
        }
    });
}

unsafe extern "C" fn on_swap(
    _context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    _subevent: u64,
    data: *mut c_void,
) {
    guard((), || {
        // SAFETY: the server's promise above.
        let info = unsafe { &*data.cast::<raw::RedisModuleSwapDbInfo>() };
        agenda::swapped(info.dbnum_first, info.dbnum_second);
    });
}
