//! The text of every replicated effect.
//!
//! An effect states what *happened*, with absolute times, not what the client requested. So a lagging replica, or a server
//! that reads the append-only file next week, reaches the same state element by element. The rewrite of the append-only
//! file uses the same commands.
//!
//! Effects that no command of users states are one command, `DEHYDRATOR.EFFECT key head [argument ...]`, whose words are in
//! [`head`]. So a word that users write never means something else here, and no parser of theirs can end a server. It does
//! what it says, whoever sends it: a replica, a file and a tool that copies get the same.
//!
//! A new word raises the [`level`](crate::level), here or in a command that is replicated as it was sent.
//!
//! | what happened | command |
//! |---|---|
//! | elements were taken, by any command | `DEHYDRATOR.REM key id [id ...]`; for PULL and REM, the command as it was sent |
//! | an element was updated | `DEHYDRATOR.UPDATE key id element` |
//! | a policy was set | `DEHYDRATOR.ONDUE key policy` |
//! | a pause ended | `DEHYDRATOR.RESUME key [GROUP name]` |
//! | schedules were removed | `DEHYDRATOR.UNSCHEDULE key name [name ...]`, as it was sent |
//! | limits were set | `DEHYDRATOR.LIMIT key ...`, as it was sent |
//! | due elements were moved to a stream | `XADD dest ... id element`, and REM, in one transaction |
//! | due elements were moved to a list | `RPUSH dest element [element ...]` or LPUSH, and REM, in one transaction |
//! | an empty dehydrator of ReDe's was deleted | `DEL key` |
//! | a key with an expiry was emptied, and created again by elements given back | `PEXPIREAT key unix-ms` |
//! | all else | `DEHYDRATOR.EFFECT` |
//!
//! | module | contents |
//! |---|---|
//! | [`head`] | the word of an effect that says what happened: written and read |
//! | `effect` | an effect: a command and its arguments |
//! | `batch` | effects on several elements |

mod batch;
mod effect;
pub mod head;

pub use batch::{Batch, IDS_MAX};
pub use effect::*;
pub use head::Timer;
