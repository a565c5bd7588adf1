//! What happens to whole databases at once: FLUSHALL, SWAPDB, a load, a change of roles, slots that come.
//!
//! The server does not name the keys that come and go by these, so what is noted by name is put right here.

use std::ffi::c_void;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use crate::commands::poll;
use crate::metrics::clock_steps;
use crate::pending::{blocked, compaction, fading, schedule, timer};
use crate::server::guard::guard;
use crate::server::{Context, event, listeners};

/// Has the server tell of these. Returns `false` if it refuses.
pub fn register(context: &Context) -> bool {
    listeners::register(context);
    // Few servers know of this, and without it the next look is late, but no more than that.
    event::subscribe(context, event::slots_imported().0, on_slots);
    event::subscribe(context, raw::REDISMODULE_EVENT_FLUSHDB, on_flush)
        && event::subscribe(context, raw::REDISMODULE_EVENT_SWAPDB, on_swap)
        && event::subscribe(context, raw::REDISMODULE_EVENT_LOADING, on_load)
        && event::subscribe(context, raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, on_role)
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
            let db = (info.dbnum >= 0).then_some(info.dbnum);
            schedule::flushed(db);
            fading::flushed(db);
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
        schedule::swapped(info.dbnum_first, info.dbnum_second);
        compaction::swapped(info.dbnum_first, info.dbnum_second);
        fading::swapped(info.dbnum_first, info.dbnum_second);
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
            now_may_deliver(&unsafe { Context::from_raw(context) });
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
            now_may_deliver(&context);
        } else {
            // The server does so itself, except for clients that it redirects (Valkey 9).
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
            schedule::look_again();
            // SAFETY: the server's promise above.
            timer::soon(&unsafe { Context::from_raw(context) });
        }
    });
}

/// Says that what is due may be given out from here on.
fn now_may_deliver(context: &Context) {
    clock_steps::begin_serving();
    timer::soon(context);
}
