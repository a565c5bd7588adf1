//! The only reader of the server's time.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicI64, Ordering};

use std::time::SystemTime;

use crate::server::api;

/// The clock's offset from the server's in tests, in milliseconds.
#[cfg(debug_assertions)]
static OFFSET: AtomicI64 = AtomicI64::new(0);

/// Sets the clock's offset from the server's, in milliseconds.
#[cfg(debug_assertions)]
pub fn set_offset(offset: i64) {
    OFFSET.store(offset, Ordering::Relaxed);
}

/// Returns the milliseconds since the epoch, on the clock of the server's own expiry. A command reads the clock once and
/// passes the time down, so that everything it does happens at one time.
pub fn now() -> u64 {
    // SAFETY: takes no argument and has no precondition.
    let now = unsafe { api!(RedisModule_Milliseconds()) };
    #[cfg(debug_assertions)]
    let now = now.saturating_add(OFFSET.load(Ordering::Relaxed));
    // A broken clock before 1970 counts as 0: nothing is due.
    now.try_into().unwrap_or(0)
}

/// Returns the microseconds since the epoch, for measuring lateness and setting timers.
pub fn now_us() -> u64 {
    // SAFETY: the server has set its functions by now, and never changes them again.
    let us = match unsafe { redis_module::raw::RedisModule_Microseconds } {
        // SAFETY: takes no argument and has no precondition.
        Some(read) => unsafe { read() }.max(0).cast_unsigned(),
        // Redis 7.0: the same clock, read directly.
        None => {
            let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since_epoch.unwrap_or_default().as_micros() as u64
        }
    };
    #[cfg(debug_assertions)]
    let us = us.saturating_add_signed(OFFSET.load(Ordering::Relaxed).saturating_mul(1000));
    us
}

/// Returns the microseconds on the monotonic clock: for budgets, not for deadlines.
pub fn monotonic_us() -> u64 {
    // SAFETY: takes no argument and has no precondition.
    unsafe { api!(RedisModule_MonotonicMicroseconds()) }
}
