//! The one door by which C enters. No panic goes out by it.
//!
//! Most panics end here, and the caller is told of an error. One that comes when something was changed, and not all
//! that goes with the change is done, must not: the server would go on with data that a replica and the append-only file
//! do not have, or without an element that nobody was given. There the process ends ([`Whole`]), as it does when an
//! assertion of the server's own fails. What it had not written by then has not happened.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use redis_module::raw;

use super::log;

/// The module's name.
const NAME: &str = env!("CARGO_PKG_NAME");

/// Runs a callback. A panic ends here: it has been logged by the hook, and `fallback` is what C is
/// told instead.
pub fn guard<T>(fallback: T, callback: impl FnOnce() -> T) -> T {
    // Whatever data was being changed is under a `Whole`.
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or(fallback)
}

/// Sends the message of a panic to the server's log. The default hook would print to a closed stderr,
/// and its backtrace dies in the allocator on Valkey 8.1 and later.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        log::warning(&format!("{NAME}: a bug, please report it: {info}"));
    }));
}

/// Something that is to be done as a whole. A panic that drops it ends the process.
pub struct Whole {
    /// One that is begun while a panic unwinds the stack does not end the process for that panic.
    was_panicking: bool,
}

impl Whole {
    /// Begins it.
    pub fn begin() -> Self {
        Self { was_panicking: thread::panicking() }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if thread::panicking() && !self.was_panicking {
            end();
        }
    }
}

/// Ends the process, with the report that the server writes when an assertion of its own fails.
#[cold]
fn end() -> ! {
    const FALSE: &CStr = c"all of a change was made, and told";
    /// Stands for the file of an assertion.
    const FILE: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_NAME"), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        };
    // SAFETY: the strings are C strings.
    unsafe {
        if let Some(fail) = raw::RedisModule__Assert {
            fail(FALSE.as_ptr(), FILE.as_ptr(), 0);
        }
    }
    std::process::abort()
}

/// Places at which a test can have a panic, in debug builds alone.
#[cfg(debug_assertions)]
pub mod trap {
    use std::cell::RefCell;

    thread_local! {
        static SET: RefCell<Option<String>> = const { RefCell::new(None) };
    }

    /// Sets a trap at the place of that name.
    pub fn set(place: &str) {
        SET.set(Some(place.to_owned()));
    }

    /// Panics if there is a trap at this place, once.
    #[track_caller]
    pub fn pass(place: &str) {
        if SET.with_borrow_mut(|set| set.take_if(|it| it == place)).is_some() {
            panic!("as was asked for, at {place}");
        }
    }
}

/// Has no traps, in a release.
#[cfg(not(debug_assertions))]
pub mod trap {
    #[inline(always)]
    pub fn pass(_place: &str) {}
}
