//! The server as the rest of the module sees it: a thin, safe face over the Redis module API.
//!
//! The raw API is C: pointers, lengths, statuses, functions that an older server lacks. All of that
//! is dealt with in this folder, so that commands read like commands. What is here knows nothing of
//! dehydrators.
//!
//! | module | noun |
//! |---|---|
//! | `guard` | the one door by which C enters: no panic gets past it |
//! | `allocator` | the server's memory, aligned as Rust asks for it |
//! | `string` | names and values that belong to the server |
//! | `context` | replies, events, flags, the selected database |
//! | `error` | what a client is told when a command is refused |
//! | `key` | a key that is open |
//! | `command` | registering a command with all that is known of it |
//! | `blocked_client` | a client that a command has put to sleep |
//! | `command_filter` | seeing commands before the server runs them |
//! | `event` | what the server tells modules of |
//! | `neighbours` | whether other modules are there, who may listen to events of keys |
//! | `loop_timer` | a timer of our own in the server's event loop |
//! | `info` | what the server says of itself |
//! | `quiet` | whether nobody hears what is replicated |
//! | `random` | random bits that nobody can guess |
//! | `refusal` | what the server would refuse to a client now |
//! | `io` | reading and writing RDB, digests |
//! | `syntax` | how a command is written, for the server's description of it |
//! | `walk` | a walk over the keys of a database, a few at a time |
//! | `fake` | arguments without a server, for unit tests |
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

pub mod allocator;
pub mod blocked_client;
pub mod command;
pub mod command_filter;
pub mod context;
pub mod error;
pub mod event;
#[cfg(test)]
pub mod fake;
pub mod guard;
pub mod info;
pub mod io;
pub mod key;
pub mod loop_timer;
pub mod neighbours;
pub mod quiet;
pub mod random;
pub mod refusal;
pub mod string;
mod syntax;
pub mod walk;

pub use context::Context;
pub use error::Error;
pub use key::Key;
pub use string::{OwnedStr, Str};
