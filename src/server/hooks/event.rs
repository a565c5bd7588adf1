//! Server events.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use crate::server::guard::guard;
use crate::server::{ClientId, Context, info};

/// An event, while it is handled.
pub struct Event<'a> {
    pub context: &'a Context,
    pub subevent: u64,
    pub id: u64,
    data: *const c_void,
}

/// Handles an event.
pub type Handler = fn(&Event<'_>);

/// More than the highest number of an event.
const EVENTS: usize = 64;

/// The handler of each event. An event has one, however often the module subscribes.
static HANDLERS: [OnceLock<Handler>; EVENTS] = [const { OnceLock::new() }; EVENTS];

/// Subscribes to an event. Returns `false` if the server refuses.
pub fn subscribe(context: &Context, id: u64, handler: Handler) -> bool {
    HANDLERS[id as usize].get_or_init(|| handler);
    let event = RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is live.
    let status = unsafe {
        api!(RedisModule_SubscribeToServerEvent(context.as_ptr(), event, Some(on_event)))
    };
    status == raw::REDISMODULE_OK as i32
}

pub fn unsubscribe(context: &Context, id: u64) {
    let event = RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the context is live. Without a callback the server removes the subscription.
    unsafe { api!(RedisModule_SubscribeToServerEvent(context.as_ptr(), event, None)) };
}

unsafe extern "C" fn on_event(
    context: *mut RedisModuleCtx,
    event: RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    guard((), || {
        // SAFETY: the server hands out a context for the length of this call.
        let context = &unsafe { Context::from_raw(context) };
        if let Some(handler) = HANDLERS[event.id as usize].get() {
            handler(&Event { context, subevent, id: event.id, data });
        }
    });
}

impl Event<'_> {
    /// Returns the database that FLUSHDB has emptied, or `None` if all were.
    pub fn flushed_db(&self) -> Option<i32> {
        assert_eq!(self.id, raw::REDISMODULE_EVENT_FLUSHDB);
        // SAFETY: the server passes the data of this event, live while it is handled.
        let info = unsafe { &*self.data.cast::<raw::RedisModuleFlushInfo>() };
        // -1 stands for all databases.
        (info.dbnum >= 0).then_some(info.dbnum)
    }

    /// Returns the databases that SWAPDB has swapped.
    pub fn swapped_dbs(&self) -> (i32, i32) {
        assert_eq!(self.id, raw::REDISMODULE_EVENT_SWAPDB);
        // SAFETY: as above.
        let info = unsafe { &*self.data.cast::<raw::RedisModuleSwapDbInfo>() };
        (info.dbnum_first, info.dbnum_second)
    }

    /// Returns the client that has connected or disconnects.
    pub fn client(&self) -> ClientId {
        assert_eq!(self.id, raw::REDISMODULE_EVENT_CLIENT_CHANGE);
        // SAFETY: as above.
        ClientId(unsafe { &*self.data.cast::<raw::RedisModuleClientInfo>() }.id)
    }

    /// Returns the name of the module that was loaded or unloaded.
    pub fn module_name(&self) -> &[u8] {
        assert_eq!(self.id, raw::REDISMODULE_EVENT_MODULE_CHANGE);
        // SAFETY: as above; the name is a C string.
        unsafe {
            let info = &*self.data.cast::<raw::RedisModuleModuleChange>();
            CStr::from_ptr(info.module_name).to_bytes()
        }
    }
}

/// Returns the event and the subevent for slots that this node has imported atomically, with their keys. Valkey 9 and Redis
/// 8.4 have this event, under different numbers; earlier servers never send it.
pub fn slots_imported() -> (u64, u64) {
    if info::is_valkey() { (19, 4) } else { (18, 2) }
}
