//! A timer of our own in the server's event loop.
//!
//! The timers that the server gives to modules go by the wall clock: one that is set to fire in an hour
//! fires when the wall clock has moved by an hour. When that steps back, they fire as much too late; when it
//! steps forward, those that were set before keep those that are set afterwards from firing. A timer of the
//! kernel's (`timerfd`) counts on the monotonic clock, makes the event loop come round like any
//! connection that can be read, and is late by some 50 us instead of a millisecond.
//!
//! Where there is none (another system than Linux, or a sandbox that forbids it) the server's timers do
//! the work, and the cron puts right what a clock that steps does to them.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleTimerID};

use crate::server::Context;
use crate::server::guard::guard;

/// The function that is called when a timer fires. It is handed no context: it may note that the timer has fired.
pub type OnTime = fn();

/// One timer, which fires once each time it is set.
pub struct LoopTimer {
    kind: Kind,
    on_time: OnTime,
}

enum Kind {
    /// Readable when it has fired. Setting it anew makes it unreadable.
    Kernel(OwnedFd),
    /// The server's, if one is set.
    Server(Cell<Option<RedisModuleTimerID>>),
}

impl LoopTimer {
    /// Makes a timer of the kernel's where there is one. It lasts as long as the process.
    pub fn new(on_time: OnTime) -> &'static Self {
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
        kernel.unwrap_or_else(|| Self::of_server(on_time))
    }

    /// Makes a timer of the server's, as where the kernel has none.
    pub fn of_server(on_time: OnTime) -> &'static Self {
        Box::leak(Box::new(Self { kind: Kind::Server(Cell::new(None)), on_time }))
    }

    /// Sets the timer to fire after so many microseconds, instead of when it was to fire before.
    pub fn set(&'static self, context: &Context, in_us: u64) {
        match &self.kind {
            Kind::Kernel(fd) => kernel::set(fd, in_us),
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

    /// Returns whether the timer, once it has fired, has the event loop come round again and again until it is set or
    /// stopped.
    pub fn stays_fired(&self) -> bool {
        matches!(self.kind, Kind::Kernel(_))
    }

    /// Keeps the timer from firing until it is set.
    pub fn stop(&self, context: &Context) {
        match &self.kind {
            Kind::Kernel(fd) => kernel::stop(fd),
            Kind::Server(set) => {
                if let Some(id) = set.take() {
                    // SAFETY: the context is live; the data is not ours to free.
                    unsafe {
                        api!(RedisModule_StopTimer(context.as_ptr(), id, ptr::null_mut()));
                    }
                }
            }
        }
    }
}

/// Has the event loop come round at once, and call this then. Returns `false` if the server cannot.
pub fn ask_for_pass(on_pass: &'static OnTime) -> bool {
    let data = ptr::from_ref(on_pass).cast_mut().cast::<c_void>();
    // SAFETY: the data lives as long as the process.
    let status = unsafe { api!(RedisModule_EventLoopAddOneShot(Some(on_one_shot), data)) };
    status == raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_one_shot(data: *mut c_void) {
    // SAFETY: the server hands back what `ask_for_pass` gave it.
    guard((), unsafe { *data.cast::<OnTime>() });
}

// The server calls what follows, with the data that it was given: a timer, which lives as long as the
// process. That is the promise which every `SAFETY` below leans on.

unsafe extern "C" fn on_readable(_fd: c_int, data: *mut c_void, _mask: c_int) {
    // SAFETY: the server's promise above.
    guard((), || (unsafe { &*data.cast::<LoopTimer>() }.on_time)());
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
    //! `timerfd_create(2)`: two calls of the C library, which the standard library does not have.

    use super::*;

    /// `struct timespec`.
    #[repr(C)]
    struct Time {
        seconds: c_long,
        nanoseconds: c_long,
    }

    /// `struct itimerspec`.
    #[repr(C)]
    struct Setting {
        interval: Time,
        value: Time,
    }

    const CLOCK_MONOTONIC: c_int = 1;
    const TFD_NONBLOCK: c_int = 0o4000;
    const TFD_CLOEXEC: c_int = 0o2_000_000;

    unsafe extern "C" {
        fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
        fn timerfd_settime(
            fd: c_int,
            flags: c_int,
            new: *const Setting,
            old: *mut Setting,
        ) -> c_int;
    }

    pub fn timer() -> Option<OwnedFd> {
        // SAFETY: takes numbers alone. What it returns, if it is not negative, is a descriptor of ours.
        unsafe {
            let fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
        }
    }

    pub fn set(fd: &OwnedFd, in_us: u64) {
        // No time at all would stop the timer.
        let nanoseconds = (in_us % 1_000_000 * 1000).max(1) as c_long;
        set_time(fd, Time { seconds: (in_us / 1_000_000) as c_long, nanoseconds });
    }

    pub fn stop(fd: &OwnedFd) {
        set_time(fd, Time { seconds: 0, nanoseconds: 0 });
    }

    fn set_time(fd: &OwnedFd, value: Time) {
        let setting = Setting { interval: Time { seconds: 0, nanoseconds: 0 }, value };
        // SAFETY: the descriptor is open, the setting lives for the call, and nothing is to be returned.
        // It fails for a bad descriptor or a bad time, of which there is neither.
        unsafe { timerfd_settime(fd.as_raw_fd(), 0, &setting, ptr::null_mut()) };
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::*;

    pub fn timer() -> Option<OwnedFd> {
        None
    }

    pub fn set(_fd: &OwnedFd, _in_us: u64) {}

    pub fn stop(_fd: &OwnedFd) {}
}
