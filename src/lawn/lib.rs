//! The Lawn: a store of elements that each come due once.
//!
//! # The problem
//!
//! Keep millions of elements, each until its own deadline. Start one, stop one by its id, learn the
//! next deadline, take what is due in order: all of it often, none of it slow. Adam Lev-Libfeld's
//! paper *Timer Lawn* answers with a hash of FIFO queues keyed by TTL: elements started with one TTL
//! come due in the order of starting, so each queue is sorted without any sorting. Systems use few
//! TTLs, so there are few queues; there is no largest TTL, and nothing is ever rebuilt.
//!
//! The trade-off: an element costs an entry in a table of ids, because it can be stopped by its id.
//! A timing wheel that is handed back its own pointers does without one; a server whose clients name
//! things cannot.
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
//!   Heads ──▶ Queues: one for each TTL that is wanted often, a list of blocks of 62 handles
//!   (heap) └▶ Timeline: all other elements, in such blocks by ranges of deadlines
//! ```
//!
//! Five rooms have what a lawn is made of. A room bears the name of the most important file in it, and its `mod.rs` has a
//! table of its own:
//!
//! | room | what for | files |
//! |---|---|---|
//! | `small` | a lawn of a few elements | `small`: all of it; `packed`: how an element lies there |
//! | `store` | the bytes of elements | `records`: an element's; `slab`: slots in pages; `handle`: a slot's name; `shelves`: a list that grows without copying; `boxes`: what is too wide for a slot |
//! | `index` | from id to record | `index`: all ids; `table`: some of them, in buckets; `lanes`: which of eight hashes are equal to one |
//! | `queues` | in which order elements come due | `queues`: a FIFO for each TTL; `timeline`: what fits into no queue, by ranges of deadlines; `block`, `blocks`: a piece of either; `ranges`, `order`: where those of the timeline begin, and the order within one; `votes`: which TTLs are worth a queue; `heads`, `first`, `stale`: which queue is next; `directory`, `listing`: where to begin to look in a long one; `walk`: looking along a queue; `iter`: looking at all elements in order; `upkeep`: giving back its memory |
//! | `lease` | who holds what | `token`: a lease's name; `leases`: under which token an element is held, and how many leases run; `tokens`: the tree behind that, by turn; `chosen`: what is held under the tokens that clients have chosen |
//!
//! These files put the rooms together, or are what all of them use:
//!
//! | file | noun |
//! |---|---|
//! | `lawn` | the lawn itself, small at first and full later: all that can be asked of it |
//! | `remembered` | ids, each remembered until a moment: a lawn of its own |
//! | `iter` | looking at all elements in order, whatever the form |
//! | `shared` | what lawns have in common: the key of the hash, and how far the small form goes |
//! | `full` | a lawn that is not small: what is done by id, and what is asked of it as a whole |
//! | `due` | a full lawn: taking and giving out what is due |
//! | `upkeep` | a full lawn: giving memory back, moving allocations, measuring, checking |
//! | `element` | what is put away, and the row that it is shown in |
//! | `turn` | when an element's turn comes: deadline, then order of pushing |
//! | `error` | why something is refused |
//! | `memory` | what vectors take and give back, and who moves them |
//! | `processor` | fetching memory ahead, and comparing eight numbers at once, for which the language has no words: the only `unsafe` here |
//! | `tiny` | bounds that tests can reach |
//!
//! Imports run one way: `remembered` imports `lawn`, which imports `full` and `small`; `due` and `upkeep` import `full`; `full` imports the rooms, but not
//! `small`; `index`, `queues` and `lease` import `store`.
//!
//! Words: a *lawn* is the whole store. A *queue* holds the elements of one TTL, in the order in which they come due. Its
//! *head* is the first of them. A *block* is a piece of a queue, with places for 62 handles; a place that was left is
//! *blank*. A *record* is the bytes of an element, in a slot of a page. The *timeline* has what fits into no
//! queue: blocks that cover *ranges* of turns. A *turn* is an element's place in the order of delivery.
//!
//! # Costs
//!
//! | operation | cost |
//! |---|---|
//! | [`Lawn::start`] | O(1) at the end of a queue. An element that is out of order, or whose TTL has no queue (all but the first sixteen and those that are wanted often, 1,024 at the most), goes to the timeline: O(log n), of a search in 25,000 entries for a million, and the splitting of a block for some thirty |
//! | [`Lawn::stop`], [`Lawn::look`](Lawn::look), [`Lawn::update`] | O(1) |
//! | [`Lawn::drain`], [`Lawn::lease_due`] | O(log TTLs), for `drain` once in a run; from the timeline also the sorting of a block, for each some forty; nothing due: O(1) |
//! | a lease that begins, is put off or ends, besides; [`Lawn::running`] | O(log n) of what is held |
//! | [`Lawn::next_deadline`](Lawn::next_deadline) | O(1), exact |
//! | [`Lawn::iter`](Lawn::iter), [`Lawn::rows`](Lawn::rows) | O(log TTLs) for each element; to begin in the middle O(TTLs), whatever is before |
//! | the most that one call moves | some thousands of entries of the index, half a page of 64 KiB, 1,024 queues, the elements of two blocks, or the table of pages, 24 bytes for each 256 KiB |
//!
//! # Rules
//!
//! Time is an argument: nothing here reads a clock. Deadlines are absolute. An element is due when
//! its deadline is at or before now (the paper's comparison is strict and fires a tick late). Order is
//! by deadline, ties in the order of pushing, over all TTLs. A clock that steps back breaks neither.
//!
//! # When not to use it
//!
//! If no element is ever stopped by id, a heap or a wheel is smaller.

#![deny(unsafe_code)]
// A room is called by what is the most important in it.
#![allow(clippy::module_inception)]

mod due;
mod element;
mod error;
mod full;
mod index;
mod iter;
mod lawn;
mod lease;
mod memory;
#[allow(unsafe_code)]
mod processor;
mod queues;
mod remembered;
mod shared;
mod small;
mod store;
mod tiny;
mod turn;
mod upkeep;

#[cfg(test)]
mod tests;

pub use element::{Element, Row};
pub use error::{StartError, UpdateError};
#[cfg(test)]
pub use lawn::Taken;
pub use lawn::{Counts, Lawn};
pub use lease::Token;
pub use memory::{Mover, rounded};
pub use remembered::{Remembered, Rest};
pub use shared::Shared;
pub use small::SmallMax;
pub use turn::{DEADLINE_MAX, Start};
