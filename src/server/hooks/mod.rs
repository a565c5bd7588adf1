//! Callbacks: what the server calls in the module, and how each is registered.
//!
//! | module | contents |
//! |---|---|
//! | `command` | a command: its description, its registration, its run |
//! | `syntax` | the syntax of a command's arguments, as a description for the server |
//! | `blocked_client` | a client that a command has blocked |
//! | `command_filter` | a filter that observes commands before the server runs them |
//! | `event` | server events |
//! | `loop_timer` | a timer in the server's event loop |
//! | `passes` | reports of the passes of the event loop |
//! | `setting` | settings in the server's configuration |

pub mod blocked_client;
pub mod command;
pub mod command_filter;
pub mod event;
pub mod loop_timer;
pub mod passes;
pub mod setting;
mod syntax;
