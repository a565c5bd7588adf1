//! The module's section of INFO.

use std::ffi::{CStr, c_int};

use redis_module::raw::RedisModuleInfoCtx;

use crate::server::guard::guard;
use crate::server::{Context, api};
use crate::statistics::{DELIVERIES, RETRIES};
use crate::{agenda, tick, untidy, waiters};

/// Has the server ask for the section. `false` if it refuses.
pub fn register(context: &Context) -> bool {
    // SAFETY: the context is live.
    unsafe { api!(RedisModule_RegisterInfoFunc(context.as_ptr(), Some(on_info))) == 0 }
}

unsafe extern "C" fn on_info(info: *mut RedisModuleInfoCtx, _for_crash_report: c_int) {
    guard((), || {
        let ticks = tick::statistics();
        let fields: [(&CStr, u64); 9] = [
            (c"ticks", ticks.ticks),
            (c"tick_last_us", ticks.last_us),
            (c"tick_longest_us", ticks.longest_us),
            (c"tidied", ticks.tidied),
            (c"untidy", untidy::len() as u64),
            (c"waiters", waiters::len() as u64),
            (c"on_agenda", agenda::len() as u64),
            (c"deliveries", DELIVERIES.get()),
            (c"retries", RETRIES.get()),
        ];
        // SAFETY: the server hands out an INFO that is being written. Without a name the section is
        // called as the module is.
        unsafe {
            api!(RedisModule_InfoAddSection(info, c"".as_ptr()));
            for (name, value) in fields {
                api!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), value));
            }
        }
    });
}
