//! The text of every replicated effect.
//!
//! An effect states what *happened*, with absolute times, not what the client requested. So a lagging replica, or a server
//! that reads the append-only file next week, reaches the same state element by element. The rewrite of the append-only
//! file uses the same commands.
//!
//! A new word, here or in a command that is replicated as it was sent, raises the [`level`](crate::level).
//!
//! | effect | command |
//! |---|---|
//! | before the first effect after a new listener may have connected | `DEHYDRATOR.REQUIRE level version` |
//! | an element was pushed | `DEHYDRATOR.PUSH key ttl@deadline element id [GROUP name]`; with AT, the command as it was sent |
//! | elements were taken, by any command | `DEHYDRATOR.REM key id [id ...]`; for PULL and REM, the command as it was sent |
//! | elements were settled, taken or delivered, and their ids are remembered until `unix-ms` | `DEHYDRATOR.SETTLED key unix-ms id [id ...]` |
//! | an element was pushed over another | `DEHYDRATOR.PUSH key ttl@deadline element id REPLACE` |
//! | an element was given back because its client had disconnected | `DEHYDRATOR.PUSH ... [REPLACE] [DELIVERED n [TOKEN token]]` |
//! | a leased element, when the append-only file is rewritten | `DEHYDRATOR.PUSH ... DELIVERED n TOKEN token` |
//! | elements were leased | `DEHYDRATOR.LEASE key ttl@deadline@token id [id ...]` |
//! | an element was updated | `DEHYDRATOR.UPDATE key id element` |
//! | an element was rejected and could not be moved | `DEHYDRATOR.TOUCH key id 0@now`, and TOUCH with a ttl of 2^63 - 2 |
//! | an element's timer was restarted | `DEHYDRATOR.TOUCH key id ttl@deadline`; a ttl of 0 also gives the element back |
//! | a policy was set | `DEHYDRATOR.ONDUE key policy` |
//! | a policy that came by RESTORE sends nothing yet | `DEHYDRATOR.ONDUE key policy UNCONFIRMED` |
//! | a pause began | `DEHYDRATOR.PAUSE key [AT end] [GROUP name]` |
//! | a pause ended | `DEHYDRATOR.RESUME key [GROUP name]` |
//! | limits were set | `DEHYDRATOR.LIMIT key ...`, as it was sent |
//! | elements were given out under a rate | `DEHYDRATOR.GIVEN key unix-ms n`, beside the effect that takes or leases them |
//! | due elements were moved to a stream | `XADD dest ... id element`, and REM, in one transaction |
//! | due elements were moved to a list | `RPUSH dest element [element ...]` or LPUSH, and REM, in one transaction |
//! | an empty dehydrator of ReDe's was deleted | `DEL key` |
//! | a key with an expiry was emptied, and created again by elements given back | `PEXPIREAT key unix-ms` |
//!
//! | module | contents |
//! |---|---|
//! | `effect` | an effect: a command and its arguments |
//! | `batch` | one effect on several elements |

mod batch;
mod effect;

pub use batch::Batch;
pub use effect::*;
