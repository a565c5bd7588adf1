//! The commands, one file per family. Each command parses its arguments into a request, changes the dehydrator,
//! replicates the effect, and replies, in that order.
//!
//! | module | contents |
//! |---|---|
//! | `table` | the table of commands, for the server and HELP |
//! | `args` | shared parts of requests: options, numbers, ids, tokens |
//! | `checks` | checks of a request: the longest TTL, the most elements, memory; errors with codes for programs |
//! | `defaults` | the default policies of new keys |
//! | `cancelled` | telling workers that what they hold was cancelled |
//! | `glob` | the server's patterns, for SCAN |
//! | all others | the commands that the first line of the file names |

mod args;
mod cancelled;
mod checks;
#[cfg(debug_assertions)]
mod debug;
pub mod defaults;
mod due;
mod effect;
mod every;
mod glob;
mod inspect;
mod limit;
mod ondue;
mod pause;
pub mod poll;
mod push;
mod range;
mod revive;
mod settle;
mod table;
mod take;
mod touch;

pub use table::commands;
