//! The only reader of the server's time.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicI64, Ordering};

use std::time::SystemTime;

use crate::server::api;

/// How far tests have stepped the clock, in milliseconds. There is no such thing in a release.
#[cfg(debug_assertions)]
static STEPPED: AtomicI64 = AtomicI64::new(0);

/// Steps the clock to this many milliseconds from the server's.
#[cfg(debug_assertions)]
pub fn step_to(offset: i64) {
    STEPPED.store(offset, Ordering::Relaxed);
}

/// Returns the milliseconds since the epoch, as the server's own expiry counts them. A command reads them once and
/// hands them down, so that all it does happens at one time.
pub fn now() -> u64 {
    // SAFETY: takes no argument and has no precondition.
    let now = unsafe { api!(RedisModule_Milliseconds()) };
    #[cfg(debug_assertions)]
    let now = now.saturating_add(STEPPED.load(Ordering::Relaxed));
    // A clock before 1970 would be broken; nothing is due then.
    now.try_into().unwrap_or(0)
}

/// Returns the microseconds since the epoch: for telling how late something is, and how far ahead.
pub fn now_us() -> u64 {
    // SAFETY: the server has filled in its functions by now, and changes them no more.
    let us = match unsafe { redis_module::raw::RedisModule_Microseconds } {
        // SAFETY: takes no argument and has no precondition.
        Some(read) => unsafe { read() }.max(0).cast_unsigned(),
        // Before Redis 7.2: the same clock, read by ourselves.
        None => {
            let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since_epoch.map_or(0, |since| since.as_micros() as u64)
        }
    };
    #[cfg(debug_assertions)]
    let us = us.saturating_add_signed(STEPPED.load(Ordering::Relaxed).saturating_mul(1000));
    us
}

/// Returns the microseconds since some moment in the past, which never step back: for budgets, not for deadlines.
pub fn monotonic_us() -> u64 {
    // SAFETY: takes no argument and has no precondition.
    unsafe { api!(RedisModule_MonotonicMicroseconds()) }
}
