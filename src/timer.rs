//! A one-shot timer of the server's, set to a moment on the wall clock.

use std::ffi::{c_int, c_void};
use std::ptr;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleTimerID};

use crate::clock;
use crate::server::{Context, api};

/// A timer is set no further ahead, in milliseconds: the server adds it to its clock, in microseconds.
/// It fires in vain then.
const AHEAD_MAX: u64 = 3_600_000;
/// A timer that fires no later than this after it should, in microseconds, need not be moved.
const TOLERANCE_US: u64 = 500;

/// What a timer calls. It gets the data back that the timer was set with.
pub type Callback = unsafe extern "C" fn(*mut RedisModuleCtx, *mut c_void);

/// A timer that will fire after a time on the server's monotonic clock.
pub struct Alarm {
    id: RedisModuleTimerID,
    /// In microseconds, on that clock.
    fires_us: u64,
}

impl Alarm {
    /// Sets a timer to `at`, in milliseconds since the epoch.
    pub fn set(context: &Context, at: u64, callback: Callback, data: *mut c_void) -> Self {
        let period = period_until(at);
        let fires_us = clock::monotonic_us() + period * 1000;
        // SAFETY: the context is live; the callback gets the data as it is, or `stop` does.
        let id = unsafe {
            api!(RedisModule_CreateTimer(context.as_ptr(), period as i64, Some(callback), data))
        };
        Self { id, fires_us }
    }

    /// Whether it fires at `at`, or earlier, or not much later. By the monotonic clock, as the server
    /// counts: the other one may have jumped since.
    pub fn is_in_time_for(&self, at: u64) -> bool {
        self.fires_us <= clock::monotonic_us() + period_until(at) * 1000 + TOLERANCE_US
    }

    /// Stops the timer. Returns its data, unless it is firing at this moment.
    pub fn stop(self, context: &Context) -> Option<*mut c_void> {
        let mut data = ptr::null_mut();
        // SAFETY: the context is live, and the server does without a timer that is not there.
        let status = unsafe { api!(RedisModule_StopTimer(context.as_ptr(), self.id, &mut data)) };
        (status == raw::REDISMODULE_OK as c_int).then_some(data)
    }
}

fn period_until(at: u64) -> u64 {
    at.saturating_sub(clock::now()).min(AHEAD_MAX)
}
