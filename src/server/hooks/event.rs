//! What the server tells modules of.

use std::ffi::{c_int, c_void};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use crate::server::{Context, info};

/// The function that the server calls: with the event, its part, and what there is to know of it.
pub type Callback = unsafe extern "C" fn(*mut RedisModuleCtx, RedisModuleEvent, u64, *mut c_void);

/// Has the server tell of an event. Returns `false` if it refuses.
pub fn subscribe(context: &Context, id: u64, callback: Callback) -> bool {
    let event = RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is live.
    let status = unsafe {
        api!(RedisModule_SubscribeToServerEvent(context.as_ptr(), event, Some(callback)))
    };
    status == raw::REDISMODULE_OK as c_int
}

/// Has the server tell of an event no more.
pub fn unsubscribe(context: &Context, id: u64) {
    let event = RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is live. Without a callback the server forgets the listener.
    unsafe { api!(RedisModule_SubscribeToServerEvent(context.as_ptr(), event, None)) };
}

/// Returns the event, and its part, by which the server says that slots have been moved here all at once, with the
/// keys in them. Valkey 9 and Redis 8.4 have it, under numbers of their own; an earlier server knows of no such
/// event.
pub fn slots_imported() -> (u64, u64) {
    if info::is_valkey() { (19, 4) } else { (18, 2) }
}
