//! The one spelling of every effect.
//!
//! What replicas and the append-only file are told is what *happened*, with absolute times, never
//! what was asked for: a replica that is late, or a file that is read next week, comes to the same
//! state element by element. The rewrite of the append-only file uses the same words.
//!
//! A new word, here or in a command that is replicated as it was sent, raises the [`level`](crate::level).
//!
//! | effect | words |
//! |---|---|
//! | ahead of the first that somebody may hear | `DEHYDRATOR.REQUIRE level version` |
//! | an element was pushed | `DEHYDRATOR.PUSH key ttl@deadline element id`; with AT, the command as it was sent |
//! | elements were taken, by whatever verb | `DEHYDRATOR.REM key id [id ...]`; of PULL and REM, the command as it was sent |
//! | elements were settled, taken or delivered, and their ids are remembered until then | `DEHYDRATOR.SETTLED key unix-ms id [id ...]` |
//! | an element was pushed over another | `DEHYDRATOR.PUSH key ttl@deadline element id REPLACE` |
//! | an element was given back because its client had gone | `DEHYDRATOR.PUSH ... [REPLACE] [DELIVERIES n [TOKEN token]]` |
//! | the file is rewritten, and an element is leased | `DEHYDRATOR.PUSH ... DELIVERIES n TOKEN token` |
//! | elements were leased | `DEHYDRATOR.LEASE key ttl@deadline@token id [id ...]` |
//! | an element was updated | `DEHYDRATOR.UPDATE key id element` |
//! | an element was rejected and could not go | `DEHYDRATOR.TOUCH key id 0@now`, and TOUCH with a ttl of 2^63 - 2 |
//! | an element's timer started anew | `DEHYDRATOR.TOUCH key id ttl@deadline`; with a ttl of 0 it is given back as well |
//! | what becomes of what comes due | `DEHYDRATOR.ONDUE key policy` |
//! | a policy that came by RESTORE sends nothing yet | `DEHYDRATOR.ONDUE key policy UNCONFIRMED` |
//! | nothing is given out or delivered for a while | `DEHYDRATOR.PAUSE key [AT end]` |
//! | that is over | `DEHYDRATOR.RESUME key` |
//! | how much it holds and gives out at the most | `DEHYDRATOR.LIMIT key ...`, as it was sent |
//! | elements were given out, where there is a limit to that in a time | `DEHYDRATOR.GIVEN key unix-ms n`, beside the effect that takes or leases them |
//! | what came due was moved to a stream | `XADD dest ... id element`, and REM, in one transaction |
//! | to a list | `RPUSH dest element [element ...]` or LPUSH, and REM, in one transaction |
//! | an empty dehydrator of ReDe's went | `DEL key` |
//! | a key that expires went, and came back with what was given back | `PEXPIREAT key unix-ms` |
//!
//! | module | noun |
//! |---|---|
//! | `effect` | an effect, in its words |
//! | `batch` | effects of one kind on several elements, in as few words as may be |

mod batch;
mod effect;

pub use batch::Batch;
pub use effect::*;
