//! The commands, one file per family. Each command parses its arguments into a request, changes the dehydrator,
//! replicates the effect, and replies, in that order.
//!
//! | module | contents |
//! |---|---|
//! | `table` | the table of commands, for the server and HELP |
//! | `push` | PUSH, GIDPUSH, MPUSH |
//! | `poll` | POLL, MPOLL: giving out due elements, also to blocked clients |
//! | `take` | PULL, XACK, REM, PURGE: by ids, or a group |
//! | `settle` | SETTLE, RENEW, RELEASE, REJECT: by tokens of leases |
//! | `revive` | REVIVE: dead letters that come back |
//! | `touch` | TOUCH, UPDATE: restarting timers, replacing an element |
//! | `due` | XPOLL, TTN, PTTL, LATE: due elements, next deadlines, the dehydrators that are overdue the longest |
//! | `range` | LOOK, RANGE: elements, without taking them |
//! | `inspect` | LEN, SCAN, INFO: the dehydrator as a whole |
//! | `ondue` | ONDUE |
//! | `pause` | PAUSE, RESUME |
//! | `every` | EVERY, SCHEDULES, UNSCHEDULE; PAUSE and RESUME of a schedule |
//! | `limit` | LIMIT: limits of length, concurrency and rate |
//! | `effect` | EFFECT: what replicas, files and tools that copy do |
//! | `debug` | DEBUG, in debug builds only |
//! | `cancelled` | telling workers that what they hold was cancelled |
//! | `args` | shared parts of requests: options, numbers, ids, tokens |
//! | `defaults` | the default policies of new keys |
//! | `checks` | checks of a request: the longest TTL, the most elements, memory; errors with codes for programs |
//! | `glob` | the server's patterns, for SCAN |

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
