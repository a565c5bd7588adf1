//! The one door by which C enters. A panic that crossed it would take the server down.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::context;

/// Runs a callback. A panic ends here: it has been logged by the hook, and `fallback` is what C is
/// told instead.
pub fn guard<T>(fallback: T, callback: impl FnOnce() -> T) -> T {
    // What the callback was changing may be left half changed. The core never panics on data, only
    // on a broken invariant of its own; to carry on and say so beats taking all other data down.
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or(fallback)
}

/// Sends the message of a panic to the server's log. The default hook would print to a closed stderr,
/// and its backtrace dies in the allocator on Valkey 8.1 and later.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        context::log_warning(&format!("dehydrator: a bug, please report it: {info}"));
    }));
}
