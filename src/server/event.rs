//! What the server tells modules of.

use std::ffi::{c_int, c_void};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use super::Context;

/// What the server calls: with the event, what exactly happened, and what there is to know of it.
pub type Callback = unsafe extern "C" fn(*mut RedisModuleCtx, RedisModuleEvent, u64, *mut c_void);

/// Has the server tell of an event. `false` if it refuses.
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
