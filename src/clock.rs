//! The only reader of the server's time.

use crate::server::api;

/// Milliseconds since the epoch, as the server's own expiry counts them. A command reads it once and
/// hands it down, so that all it does happens at one time.
pub fn now() -> u64 {
    // SAFETY: takes no argument and has no precondition.
    let now = unsafe { api!(RedisModule_Milliseconds()) };
    // A clock before 1970 would be broken; nothing is due then.
    now.try_into().unwrap_or(0)
}

/// Microseconds since some moment in the past, never stepping back: for budgets, not for deadlines.
pub fn monotonic_us() -> u64 {
    // SAFETY: takes no argument and has no precondition.
    unsafe {
        match redis_module::raw::RedisModule_MonotonicMicroseconds {
            Some(read) => read(),
            // Before Redis 7.0. A step back makes one budget longer, that is all.
            None => now() * 1000,
        }
    }
}
