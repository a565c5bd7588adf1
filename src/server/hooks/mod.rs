//! What the server calls the module for, and how it is told to.
//!
//! | module | noun |
//! |---|---|
//! | `command` | registering a command with all that is known of it, and running it |
//! | `syntax` | how a command is written, for the server's description of it |
//! | `blocked_client` | a client that a command has put to sleep |
//! | `command_filter` | seeing commands before the server runs them |
//! | `event` | what the server tells modules of |
//! | `loop_timer` | a timer of our own in the server's event loop |
//! | `options` | what the module says of itself, once |

pub mod blocked_client;
pub mod command;
pub mod command_filter;
pub mod event;
pub mod loop_timer;
pub mod options;
mod syntax;
