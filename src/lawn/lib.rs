//! The Lawn: a store of elements that each come due once.
//!
//! # The problem
//!
//! Keep millions of elements, each until its own deadline. Start one, stop one by its id, find the next deadline, take
//! due elements in order: all of it often, none of it slow. Adam Lev-Libfeld's paper *Timer Lawn* answers with a hash
//! of FIFO queues keyed by TTL: elements that start with one TTL come due in the order of starting, so each queue is
//! sorted without any sorting. Systems use few TTLs, so there are few queues. There is no largest TTL, and nothing is
//! ever rebuilt.
//!
//! The trade-off: an element costs an entry in a table of ids, because it can be stopped by its id. A timing wheel
//! whose callers keep a pointer to each timer needs no such table, but clients of a server have only names.
//!
//! # The parts
//!
//! A small lawn is a list in one allocation. A larger one has parts:
//!
//! ```text
//!                 Index: id ─▶ handle      (extendible hashing, ten bytes an entry)
//!                   │
//!                   ▼
//!                 Records: deadline, push no., spot, id, payload  (one slot each, in pages)
//!                   ▲                           │
//!                   │                           ▼
//!   Heads ──▶ Queues: one for each frequent TTL, blocks of 64 handles
//!   (heap) └▶ Timeline: all other elements, in such blocks by ranges of deadlines
//! ```
//!
//! | folder | contents | files |
//! |---|---|---|
//! | `small` | a lawn of a few elements | `mod`: all of it; `packed`: the layout of an element |
//! | `store` | the bytes of elements | `records`: an element; `beside`: what an element has in an allocation of its own; `links`: its group, and its place in that; `slab`: slots in pages; `handle`: the name of a slot |
//! | `index` | from id to record | `mod`: all ids; `table`: some of them, in buckets |
//! | `queues` | the order in which elements come due | `queues`: a FIFO for each TTL; `timeline`: all other elements, by ranges of deadlines; `block`, `blocks`: a piece of either; `ranges`: where each block begins; `order`: the order within a block of the timeline; `votes`: which TTLs get a queue; `heads`, `first`: which queue is next; `walk`: read-only iteration; `upkeep`: maintenance |
//! | `groups` | groups of elements that take turns: see its table |
//! | `lease` | the tokens of leases | `token`: the name of a lease; `since`: when it began; `leases`: the token of each element, and the number of live leases; `tokens`: tokens by rank |
//!
//! These files combine the folders, or are used by all of them:
//!
//! | file | contents |
//! |---|---|
//! | `lawn`, `lawn_groups`, `lawn_leases` | the lawn itself, small at first and full later: its whole interface, and that of its groups and its leases |
//! | `aside` | a lawn beside another one: of ids, each remembered until a moment, or of schedules |
//! | `shared` | what all lawns of a process share: the hash key, and the limits of the small form |
//! | `full` | a full lawn: operations by id, queries, and when elements expire |
//! | `held` | a full lawn: beginning, extending and ending leases |
//! | `grouped` | a full lawn: whether an element is in a group, and whose turn it is |
//! | `due` | a full lawn: taking and leasing due elements |
//! | `upkeep` | a full lawn: compaction, moving allocations, measuring, checking |
//! | `element` | an element, an element with its place in the order, and the numbers of elements |
//! | `rate` | a rate limit, and the log of what was given out under it |
//! | `rank` | the order of delivery: by deadline, then in the order of pushing |
//! | `pieces` | a sorted list in pieces: of where blocks begin, and of leases |
//! | `memory` | helpers for vectors: sizes, growing, shrinking, moving in steps |
//! | `processor` | prefetching memory, and comparing eight numbers at once: the only `unsafe` code |
//! | `tiny` | small limits for tests |
//! | `work` | counts the work of a call, for tests |
//!
//! Imports run one way: `aside` imports `lawn`, which imports `full` and `small`; `due`, `grouped`, `held` and
//! `upkeep` import `full`; `full` imports the folders except `small`; `groups` imports `index` and `queues`; these and
//! `lease` import `store`.
//!
//! Terms: a *lawn* is the whole store. A *queue* holds the elements of one TTL, in the order in which they come due.
//! Its *head* is the first of them. A *block* is a piece of a queue with places for 64 handles; a *blank* is a place
//! without an element. A *record* is the bytes of an element, in a slot of a page. The *timeline* holds the elements
//! that fit into no queue, in blocks that cover *ranges* of ranks. A *rank* is an element's place in the order of
//! delivery; its *spot* is a block and a place. A *group* is a named set of elements; groups that have something due
//! give it out one group after the other, in the order of the *round*.
//!
//! # Costs
//!
//! | operation | cost |
//! |---|---|
//! | [`Lawn::start_at`] | O(1) at the end of a queue. An element that is out of order, or whose TTL has no queue (all but the first 16 and the frequent ones, at most 1,024), goes to the timeline: O(log n). For a million elements: a search in 25,000 entries. About one insertion in thirty also splits a block |
//! | [`Lawn::stop`], [`Lawn::look`](Lawn::look), [`Lawn::update`] | O(1) |
//! | [`Lawn::drain`], [`Lawn::lease_due`] | O(log TTLs), for `drain` once per run. In the timeline also a sort of a block, once for some forty elements. O(1) if nothing is due |
//! | what is done to an element in a group, in addition | O(1) for the first of its group and behind the last, otherwise O(log n) of the group; O(log groups) if the group waits and has another first element |
//! | a lease that begins, is postponed or ends, in addition | O(log n) of the elements held |
//! | [`Lawn::running`] | O(log n) of the elements held, and one addition for each 256 live leases |
//! | [`Lawn::next_deadline`](Lawn::next_deadline) | O(1). Exact, or too early while groups hold elements back |
//! | [`Lawn::scan`] | O(elements shown) |
//! | [`Lawn::iter`](Lawn::iter), [`Lawn::rows`](Lawn::rows) | O(log TTLs) per element. To begin in the middle O(TTLs), whatever precedes it |
//! | the most that one call moves | less than 64 KiB: some thousands of entries of the index, a page that grows, 1,024 queues, or the elements of two blocks; and the tables of pages, 60 bytes for each 256 KiB |
//!
//! # Rules
//!
//! Time is an argument: nothing here reads a clock. Deadlines are absolute. An element is due when its deadline is at
//! or before now (the paper's comparison is strict and fires a tick late). Order is by deadline across all TTLs, ties
//! in the order of pushing. A clock that steps back breaks neither rule.
//!
//! # When not to use it
//!
//! If no element is ever stopped by id, a heap or a wheel is smaller.

#![deny(unsafe_code)]
// `queues/queues.rs` has the type that its folder is named after.
#![allow(clippy::module_inception)]

mod aside;
mod due;
mod element;
mod full;
mod grouped;
mod groups;
mod held;
mod index;
mod lawn;
mod lawn_groups;
mod lawn_leases;
mod lease;
mod memory;
mod next;
mod pieces;
#[allow(unsafe_code)]
mod processor;
mod queues;
mod rank;
mod rate;
mod shared;
mod small;
mod store;
mod tiny;
mod upkeep;
mod work;

#[cfg(test)]
mod tests;

pub use aside::Aside;
pub use element::{
    Bounds, Counts, Element, GROUP_NAME_MAX, Group, REASON_MAX, Row, StartError, UpdateError,
};
pub use groups::{Enforced, GroupLimits, GroupRules, GroupSettings, Groups, GroupsMut};
pub use lawn::Lawn;
pub use lease::{Since, Token};
pub use memory::{Mover, rounded, tree_bytes};
pub use next::Next;
pub use rank::{DEADLINE_MAX, Start};
pub use rate::Rate;
pub use shared::Shared;
pub use small::SmallMax;
