//! The server as the rest of the module sees it: a thin, safe face over the Redis module API.
//!
//! The raw API is C: pointers, lengths, statuses, functions that an older server lacks. All of that
//! is dealt with in this folder, so that commands read like commands. What is here knows nothing of
//! dehydrators.
//!
//! | module | noun |
//! |---|---|
//! | `digits` | numbers as text |
//! | `error` | what a client is told when a command is refused |
//! | `string` | names, values and arguments that belong to the server |
//! | [`process`] | what there is once: the `allocator`, the `guard` by which C enters, the `hold` on a value, the `log`, `info`, `random` bits |
//! | [`context`] | the server during one callback: `reply`, flags, calls, `notify` |
//! | [`hooks`] | what the server calls us for: a `command`, a `blocked_client`, an `event`, a `command_filter`, a `loop_timer`; `options` |
//! | [`situation`] | what is known of who else is there: `neighbours`, `quiet`, `refusal` |
//! | [`key`] | a key that is open, and its name; `io`, `walk` |
//! | `fake` | arguments without a server, for unit tests |
//!
//! The rooms import from those that stand above them here. What is in them is named without them: `server::guard` is
//! `process/guard.rs`.
//!
//! # Safety
//!
//! The module API is not thread safe. Everything here runs on the server's main thread, inside a
//! callback, with one exception: the type's `free` callback may run on a background thread, and touches the
//! value alone.

/// Calls a function of the module API that every supported server has.
macro_rules! api {
    ($name:ident($($argument:expr),* $(,)?)) => {
        (redis_module::raw::$name.expect(concat!(stringify!($name), " is missing")))($($argument),*)
    };
}
pub(crate) use api;

mod context;
pub mod digits;
pub mod error;
#[cfg(test)]
pub mod fake;
mod hooks;
pub mod key;
mod process;
mod situation;
pub mod string;

use context::call;
pub use context::{CommandContext, Context, flags, notify, reply, user};
pub use error::Error;
pub use hooks::{blocked_client, command, command_filter, event, loop_timer, options};
pub use key::{Key, io, walk};
pub use process::{allocator, guard, hold, info, log, random};
pub use situation::{neighbours, quiet, refusal};
pub use string::{OwnedStr, Str};
