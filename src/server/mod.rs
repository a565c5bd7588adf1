//! A thin, safe wrapper around the Redis module API.
//!
//! The raw API is C: pointers, lengths, status codes, and functions that an older server lacks. This folder hides all of
//! that, so that commands read like commands. It knows nothing of dehydrators.
//!
//! | module | contents |
//! |---|---|
//! | `error` | the error that refuses a command |
//! | `string` | strings that belong to the server: names, values, arguments; numbers as text |
//! | `fake` | arguments without a server, for unit tests |
//! | [`process`] | what the process has once: the `allocator`, the panic `guard`, the `hold` on a value, `info`, the log, random bytes |
//! | [`context`] | the server during one callback, and keyspace events; `reply`, `flags`, calls |
//! | [`hooks`] | callbacks: a `command`, a `blocked_client`, an `event`, a `command_filter`, a `loop_timer`, `passes`, a `setting` |
//! | `other_modules` | whether another module may subscribe to keyspace events |
//! | `client_checks` | the checks that the server applies to clients' commands |
//! | `listeners` | whether anything reads the replication stream |
//! | [`key`] | an open key, and its name; a scan of keys; `io` |
//!
//! Each imports only from those above it in this table. Their files are used without the folder's name: `server::guard`
//! is `process/guard.rs`.
//!
//! # Safety
//!
//! The module API is not thread safe. Everything here runs on the server's main thread, inside a callback, with one
//! exception: the type's `free` callback may run on a background thread, and touches only the value.

/// Calls a function of the module API that every supported server has.
macro_rules! api {
    ($name:ident($($argument:expr),* $(,)?)) => {
        (redis_module::raw::$name.expect(concat!(stringify!($name), " is missing")))($($argument),*)
    };
}
pub(crate) use api;

pub mod client_checks;
mod context;
pub mod error;
#[cfg(test)]
pub mod fake;
mod hooks;
pub mod key;
pub mod listeners;
pub mod other_modules;
mod process;
pub mod string;

use context::call;
pub use context::{
    ClientId, CommandContext, Context, EventClass, flags, publishes_module_events, reply,
};
pub use error::Error;
pub use hooks::{blocked_client, command, command_filter, event, loop_timer, passes, setting};
pub use key::{Key, io};
pub use process::{allocator, guard, hold, info, log_warning, random_bytes};
pub use string::{OwnedStr, Str};
