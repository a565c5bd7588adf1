//! Server events.

use std::ffi::{c_int, c_void};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use crate::server::{Context, info};

/// The function that the server calls with an event, its subevent and its data.
pub type Callback = unsafe extern "C" fn(*mut RedisModuleCtx, RedisModuleEvent, u64, *mut c_void);

/// Subscribes to an event. Returns `false` if the server refuses.
pub fn subscribe(context: &Context, id: u64, callback: Callback) -> bool {
    let event = RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is live.
    let status = unsafe {
        api!(RedisModule_SubscribeToServerEvent(context.as_ptr(), event, Some(callback)))
    };
    status == raw::REDISMODULE_OK as c_int
}

pub fn unsubscribe(context: &Context, id: u64) {
    let event = RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is live. Without a callback the server removes the subscription.
    unsafe { api!(RedisModule_SubscribeToServerEvent(context.as_ptr(), event, None)) };
}

/// Returns the event and the subevent for slots that this node has imported atomically, with their keys. Valkey 9 and Redis
/// 8.4 have this event, under different numbers; earlier servers never send it.
pub fn slots_imported() -> (u64, u64) {
    if info::is_valkey() { (19, 4) } else { (18, 2) }
}
