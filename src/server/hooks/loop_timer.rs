//! A timer in the server's event loop.
//!
//! The server's timers for modules follow the wall clock. When the clock steps back, they fire late by the step; when it
//! steps forward, timers set before the step delay timers set after it. A kernel timer (`timerfd`) follows the monotonic
//! clock, wakes the event loop like a readable connection, and is about 50 us late instead of a millisecond.
//!
//! Without kernel timers (on a system other than Linux, or in a sandbox that forbids them) the server's timers are used, and
//! the cron corrects the effects of clock steps.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleTimerID};

use crate::server::Context;
use crate::server::guard::guard;

/// The function that is called when a timer fires. It gets no context, so it can only record that the timer has fired.
pub type TimerCallback = fn();

/// A timer that fires once each time it is set.
pub struct LoopTimer {
    kind: Kind,
    on_time: TimerCallback,
}

enum Kind {
    /// A `timerfd`: readable once fired, until it is set again.
    Kernel(OwnedFd),
    /// A server timer, if one is set.
    Server(Cell<Option<RedisModuleTimerID>>),
}

impl LoopTimer {
    /// Creates a kernel timer if possible, otherwise a server timer. It lasts as long as the process.
    pub fn new(on_time: TimerCallback) -> &'static Self {
        let kernel = kernel::timer().and_then(|fd| {
            let timer = &*Box::leak(Box::new(Self { kind: Kind::Kernel(fd), on_time }));
            let Kind::Kernel(fd) = &timer.kind else { return None };
            let data = ptr::from_ref(timer).cast_mut().cast::<c_void>();
            let mask = raw::REDISMODULE_EVENTLOOP_READABLE as c_int;
            // SAFETY: the descriptor and the data live as long as the process.
            let status = unsafe {
                api!(RedisModule_EventLoopAdd(fd.as_raw_fd(), mask, Some(on_readable), data))
            };
            (status == raw::REDISMODULE_OK as c_int).then_some(timer)
        });
        kernel.unwrap_or_else(|| Self::from_server(on_time))
    }

    /// Creates a server timer.
    pub fn from_server(on_time: TimerCallback) -> &'static Self {
        Box::leak(Box::new(Self { kind: Kind::Server(Cell::new(None)), on_time }))
    }

    /// Sets the timer to fire in `in_us` microseconds. This replaces an earlier setting.
    pub fn set(&'static self, context: &Context, in_us: u64) {
        match &self.kind {
            // A time of zero would stop the timer.
            Kind::Kernel(fd) => {
                kernel::set(fd, in_us / 1_000_000, (in_us % 1_000_000 * 1000).max(1))
            }
            Kind::Server(set) => {
                self.stop(context);
                let period = in_us.div_ceil(1000) as i64;
                let data = ptr::from_ref(self).cast_mut().cast::<c_void>();
                // SAFETY: the context is live, and the data lives as long as the process.
                let id = unsafe {
                    api!(RedisModule_CreateTimer(context.as_ptr(), period, Some(on_timer), data))
                };
                set.set(Some(id));
            }
        }
    }

    /// Returns whether this is a kernel timer: it follows the monotonic clock, and once fired it wakes the event loop again and
    /// again until it is set or stopped.
    pub fn is_kernel(&self) -> bool {
        matches!(self.kind, Kind::Kernel(_))
    }

    /// Stops the timer until it is set again.
    pub fn stop(&self, context: &Context) {
        match &self.kind {
            Kind::Kernel(fd) => kernel::set(fd, 0, 0),
            Kind::Server(set) => {
                if let Some(id) = set.take() {
                    // SAFETY: the context is live; the data needs no freeing.
                    unsafe {
                        api!(RedisModule_StopTimer(context.as_ptr(), id, ptr::null_mut()));
                    }
                }
            }
        }
    }
}

/// Asks the event loop for a pass at once, which calls `on_pass`. Returns `false` if the server refuses.
pub fn request_pass(on_pass: &'static TimerCallback) -> bool {
    let data = ptr::from_ref(on_pass).cast_mut().cast::<c_void>();
    // SAFETY: the data lives as long as the process.
    let status = unsafe { api!(RedisModule_EventLoopAddOneShot(Some(on_one_shot), data)) };
    status == raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_one_shot(data: *mut c_void) {
    // SAFETY: the server passes the data of `request_pass`.
    guard((), unsafe { *data.cast::<TimerCallback>() });
}

// The server calls the functions below with the data of the timer's creation: a `LoopTimer` that lives as long as the
// process. Every `SAFETY` below relies on this promise.

unsafe extern "C" fn on_readable(_fd: c_int, data: *mut c_void, _mask: c_int) {
    // SAFETY: the server's promise above.
    guard((), unsafe { &*data.cast::<LoopTimer>() }.on_time);
}

unsafe extern "C" fn on_timer(_context: *mut RedisModuleCtx, data: *mut c_void) {
    guard((), || {
        // SAFETY: the server's promise above.
        let timer = unsafe { &*data.cast::<LoopTimer>() };
        if let Kind::Server(set) = &timer.kind {
            set.set(None);
        }
        (timer.on_time)();
    });
}

#[cfg(target_os = "linux")]
mod kernel {
    //! `timerfd_create(2)`.

    use super::*;

    pub fn timer() -> Option<OwnedFd> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: takes only numbers. A result that is not negative is a descriptor that belongs to us.
        unsafe {
            let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, flags);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
        }
    }

    pub fn set(fd: &OwnedFd, seconds: u64, nanoseconds: u64) {
        let it_interval = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = libc::timespec { tv_sec: seconds as _, tv_nsec: nanoseconds as _ };
        let setting = libc::itimerspec { it_interval, it_value };
        // SAFETY: the descriptor is open, the setting lives for the call, and `old` may be null. The call fails only for an
        // invalid descriptor or time.
        unsafe { libc::timerfd_settime(fd.as_raw_fd(), 0, &setting, ptr::null_mut()) };
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::*;

    pub fn timer() -> Option<OwnedFd> {
        None
    }

    pub fn set(_fd: &OwnedFd, _seconds: u64, _nanoseconds: u64) {}
}
