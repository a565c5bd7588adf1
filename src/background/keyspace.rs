//! Events of the whole server: FLUSHALL, SWAPDB, a load, a change of roles, slots that arrive.
//!
//! The server does not name the keys that these add and remove, so what is recorded by name is updated here.

use std::ffi::c_void;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use crate::commands::poll;
use crate::metrics::clock_steps;
use crate::pending::{agenda, blocked, timer};
use crate::server::guard::guard;
use crate::server::{Context, event, listeners};

/// Subscribes to these events. Returns `false` if the server refuses.
pub fn register(context: &Context) -> bool {
    listeners::register(context);
    // Few servers have this event. Without it, the next visit to a key is late, no more.
    event::subscribe(context, event::slots_imported().0, on_slots);
    event::subscribe(context, raw::REDISMODULE_EVENT_FLUSHDB, on_flush)
        && event::subscribe(context, raw::REDISMODULE_EVENT_SWAPDB, on_swap)
        && event::subscribe(context, raw::REDISMODULE_EVENT_LOADING, on_load)
        && event::subscribe(context, raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, on_role)
}

// The server calls the functions below. It passes each the event's data, live for the call: every `SAFETY` below relies
// on that promise.

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
            // -1 stands for all databases.
            let db = (info.dbnum >= 0).then_some(info.dbnum);
            agenda::flushed(db);
            poll::flushed(db);
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
        poll::swapped(info.dbnum_first, info.dbnum_second);
    });
}

unsafe extern "C" fn on_load(
    context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    guard((), || {
        if subevent == raw::REDISMODULE_SUBEVENT_LOADING_ENDED {
            // SAFETY: the server's promise above.
            begin_delivering(&unsafe { Context::from_raw(context) });
        }
    });
}

unsafe extern "C" fn on_role(
    context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    guard((), || {
        // SAFETY: the server's promise above.
        let context = unsafe { Context::from_raw(context) };
        listeners::assume_present();
        if subevent == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER {
            begin_delivering(&context);
        } else {
            // The server unblocks clients itself, except those that it redirects (Valkey 9).
            blocked::dismiss_all(&context);
        }
    });
}

unsafe extern "C" fn on_slots(
    context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    guard((), || {
        if subevent == event::slots_imported().1 {
            agenda::retry_all();
            // SAFETY: the server's promise above.
            timer::soon(&unsafe { Context::from_raw(context) });
        }
    });
}

/// Begins to give out and deliver due elements.
fn begin_delivering(context: &Context) {
    clock_steps::begin_serving();
    timer::soon(context);
}
