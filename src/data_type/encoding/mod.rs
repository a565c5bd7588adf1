//! The format of a dehydrator in an RDB file, a full sync and a DUMP.
//!
//! | module | contents |
//! |---|---|
//! | this file | the description of the format |
//! | `field` | a payload as fields: the interfaces that `save` writes to and `load` reads from; the numbers of features and policies; numbers of any length |
//! | `save` | writing a dehydrator: its rules, then its elements |
//! | `load` | reading a dehydrator, ours or ReDe's, and checking it |
//!
//! Version 1, ours. All elements in order of delivery, in strings of some tens of kilobytes each, so
//! that a million elements are a few thousand fields:
//!
//! ```text
//!   unsigned   features: bits, 1: leases, 2: a policy, 4: a pause, 8: tokens, 16: the policy is not confirmed,
//!              32: a route is a list, 64: limits, 128: ids that are remembered,
//!              256: stuck dead letters, with deadline 2^63 - 1 and that TTL or, if rejected, one less,
//!              512: elements with bounds of their own, 1024: groups, 2048: reasons, 4096: schedules;
//!              a reader refuses an unknown bit. A new bit raises the level: see level.rs
//!   with feature 2:
//!     unsigned   policy: 1 DROP, 2 STREAM, 3 PUBLISH, 4 HOLD DELIVERIES, 5 LIST, and for
//!       STREAM     string: the stream; unsigned: MAXLEN, 0 if none; unsigned: 1 if that is `~`, or 0
//!       PUBLISH    string: the channel
//!       LIST       string: the list; unsigned: 0 if its end is RIGHT, 1 if LEFT
//!       HOLD DELIVERIES
//!                  unsigned: the limit; then 1, 2, 3 or 5, as above
//!   with feature 4:
//!     unsigned   when the pause ends, ms since the epoch; 0: when it is resumed
//!   with feature 64:
//!     unsigned   LENGTH, HELD, RATE, its PER in ms, REMEMBER in ms: five numbers, 0 where there is none
//!     unsigned   number of times at which elements were given out, 0 without a RATE, and for each, in order
//!       unsigned   time, ms since the epoch
//!       unsigned   number of elements
//!   with feature 1024:
//!     unsigned   LENGTH, HELD, RATE, its PER in ms of each group that has none of its own: four numbers, 0 where there is none
//!     unsigned   number of groups with settings, and for each
//!       string     name, empty for the elements without a group, which have a share only
//!       unsigned   share, from 1 on
//!       unsigned   LENGTH, HELD, RATE, its PER in ms: four numbers, 0 where there is none
//!       unsigned   when its pause ends, ms since the epoch; 2^63 - 1: when it is resumed; 0: it is not paused
//!     unsigned   number of groups that gave out elements under a RATE, and for each, by name
//!       string     name
//!       unsigned   number of times at which elements were given out, at least 1, and the times, as with feature 64
//!   unsigned   number of elements
//!   string*    elements, one behind the other, until the number is reached:
//!                deadline, ms since the epoch, less that of the element before   LEB128
//!                ttl, ms                                                        LEB128
//!                with feature 1: number of deliveries under a lease              LEB128
//!                with feature 8, if above 0: the token of the lease, 0 if none   LEB128
//!                if there is one: since when it is held, 0 if nobody knows       LEB128
//!                  if somebody does: for how long it had been due then, ms      LEB128
//!                with feature 512: the maximum number of deliveries, 0 if none   LEB128
//!                with feature 512: when it is too late, ms since the epoch, or 0 LEB128
//!                with feature 1024: the group, 0 if none: the groups of the elements are numbered from 1 on, in the
//!                  order of their first elements                                LEB128
//!                  behind a number that occurs for the first time: length of the name, the name
//!                with feature 2048: length of the reason, the reason            LEB128
//!                length of the id, length of the payload                        LEB128
//!                id, payload
//!   with feature 128, behind them:
//!     unsigned   number of remembered ids, at least 1
//!     string*    ids, one behind the other, until the number is reached:
//!                  until, ms since the epoch, less that of the id before, modulo 2^64   LEB128
//!                  length of the id, the id                                             LEB128
//!   with feature 4096, behind them:
//!     unsigned   number of schedules, at least 1
//!     string*    schedules, one behind the other, until the number is reached:
//!                  length of the name, length of the record: see `src/schedule/record.rs`    LEB128
//!                  name, record
//! ```
//!
//! Deadlines never decrease in that order, so the differences are small and never negative. Elements with equal
//! deadlines keep their order because they are pushed again in it.
//!
//! Version 0, ReDe's. Read, never written:
//!
//! ```text
//!   string     name
//!   unsigned   number of queues, and for each
//!     unsigned   ttl, a signed 32-bit number
//!     unsigned   number of elements, and for each, in FIFO order
//!       unsigned   deadline, ms since the epoch
//!       string     id
//!       string     element
//! ```
//!
//! A payload is data from outside (RESTORE takes any bytes): everything in it is checked, and no count alone makes the
//! reader allocate.

mod field;
mod load;
#[cfg(test)]
mod rules_tests;
mod save;
#[cfg(test)]
mod tests;

pub use field::{Corrupt, Sink, Source, VERSION};
pub use load::load;
pub use save::save;
