//! The panic guard around each callback: no panic unwinds into C.
//!
//! [`guard`] catches most panics, and the client gets an error. A panic in the middle of a change must not be caught: the
//! server would continue with data that replicas and the append-only file lack, or lose an element that no client
//! received. [`AbortOnPanic`] ends the process there, as a failed assertion of the server does. A change that was not
//! written by then has not happened.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use redis_module::raw;

use super::log_warning;

/// The module's name.
const NAME: &str = env!("CARGO_PKG_NAME");

/// Runs a callback. If the callback panics, returns `fallback`; the panic hook has logged the panic.
pub fn guard<T>(fallback: T, callback: impl FnOnce() -> T) -> T {
    // Changes to data are covered by `AbortOnPanic`.
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or(fallback)
}

/// Sends panic messages to the server's log. The default hook would print to a closed stderr, and its backtrace
/// crashes in the allocator on Valkey 8.1 and later.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        log_warning(&format!("{NAME}: a bug, please report it: {info}"));
    }));
}

/// Marks a change that must complete. A panic that drops this value ends the process.
pub struct AbortOnPanic {
    /// Set if a panic was already unwinding when this value was created. That panic does not end the process.
    was_panicking: bool,
}

impl AbortOnPanic {
    pub fn begin() -> Self {
        Self { was_panicking: thread::panicking() }
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() && !self.was_panicking {
            end();
        }
    }
}

/// Ends the process with the report that the server writes for a failed assertion.
#[cold]
fn end() -> ! {
    const FALSE: &CStr = c"a change was completed and replicated";
    /// The module's name, in place of the assertion's file.
    const FILE: &str = concat!(env!("CARGO_PKG_NAME"), "\0");
    // SAFETY: the strings end with a NUL.
    unsafe {
        if let Some(fail) = raw::RedisModule__Assert {
            fail(FALSE.as_ptr(), FILE.as_ptr().cast(), 0);
        }
    }
    std::process::abort()
}

/// Named places where a test can trigger a panic, in debug builds only.
#[cfg(debug_assertions)]
pub mod trap {
    use std::cell::Cell;

    thread_local! {
        static SET: Cell<Option<String>> = const { Cell::new(None) };
    }

    /// Makes the next [`pass`] of `place` panic.
    pub fn set(place: &str) {
        SET.set(Some(place.to_owned()));
    }

    /// Panics once if a trap is set at `place`.
    #[track_caller]
    pub fn pass(place: &str) {
        let set = SET.take();
        if set.as_deref() == Some(place) {
            panic!("trap at {place}");
        }
        SET.set(set);
    }
}

/// Without traps, in a release build.
#[cfg(not(debug_assertions))]
pub mod trap {
    #[inline(always)]
    pub fn pass(_place: &str) {}
}
