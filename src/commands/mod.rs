//! The commands, a file for each family: the request that each makes of its arguments, what it does to the dehydrator,
//! what it tells replicas, and what it replies, in that order.
//!
//! | module | noun |
//! |---|---|
//! | `table` | every command, as the server and HELP know it; names the functions of the families |
//! | `push` | PUSH, GIDPUSH, MPUSH |
//! | `poll` | POLL, MPOLL: what is due, also for a client that sleeps until then |
//! | `take` | PULL, XACK, REM, LEASE: by ids |
//! | `settle` | SETTLE, RENEW, RELEASE, REJECT: for those who hold a lease |
//! | `update` | UPDATE, TOUCH |
//! | `due` | XPOLL, TTN, PTTL: what is due, or next |
//! | `look` | LOOK: one element, as it stands |
//! | `range` | RANGE: what waits, in order |
//! | `inspect` | LEN, SCAN, INFO: the dehydrator as a whole |
//! | `late` | LATE: the dehydrators that are overdue the longest |
//! | `ondue` | ONDUE |
//! | `pause` | PAUSE, RESUME |
//! | `limit` | LIMIT, GIVEN: how much a key holds and gives out at the most |
//! | `require` | REQUIRE: what a primary asks of its replicas |
//! | `debug` | DEBUG, in debug builds alone |
//! | `args` | what their requests share: options, numbers, ids, tokens |
//! | `defaults` | what ONDUE says of a key of which nobody has said anything |
//! | `limits` | what an operator allows: the longest TTL, the most elements |
//! | `refusal` | errors that programs tell by their codes |
//! | `glob` | the server's patterns, for SCAN |

mod args;
#[cfg(debug_assertions)]
mod debug;
pub mod defaults;
mod due;
mod glob;
mod inspect;
mod late;
mod limit;
mod limits;
mod look;
mod ondue;
mod pause;
pub mod poll;
mod push;
mod range;
mod refusal;
mod require;
mod settle;
mod table;
mod take;
mod update;

pub use table::commands;
