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
//! A small lawn is a list in one allocation: see `small`. A larger one has parts:
//!
//! ```text
//!                 Index: id ─▶ handle      (extendible hashing, ten bytes an entry)
//!                   │
//!                   ▼
//!                 Records: deadline, push no., spot, id, payload  (one slot each, in pages)
//!                   ▲                           │
//!                   │                           ▼
//!   Heads ──▶ Queues: one for each TTL, a list of blocks of 62 handles
//!   (heap)    Overflow: rare TTLs and what is far out of order, a B-tree by turn
//! ```
//!
//! | module | noun |
//! |---|---|
//! | `form` | the lawn itself: small at first, then full |
//! | `small`, `packed` | a lawn of a few elements, in one allocation; how they lie there |
//! | `full` | a lawn of any size: what the parts below make together |
//! | `turn` | when an element's turn comes: deadline, then order of pushing |
//! | `slab`, `shelves`, `boxes` | fixed-width slots in pages, and what is too wide for one; grows without copying, gives memory back |
//! | `records` | the bytes of an element |
//! | `index`, `table`, `lanes` | id to record |
//! | `block`, `queues`, `heads`, `unsettled` | the FIFO of each TTL, and which is next |
//! | `directory` | where to begin to look in a long queue |
//! | `overflow` | what fits into no queue |
//! | `token`, `tokens`, `leases`, `leased` | under which token an element is leased; the lawn that knows it |
//! | `iter` | a walk over all elements in order |
//! | `processor` | two instructions for which the language has no words: the only `unsafe` here |
//! | `upkeep` | giving memory back, moving allocations, measuring, checking |
//! | `error` | why something is refused |
//!
//! Words: a *lawn* is the whole store. A *queue* holds the elements of one TTL, in the order in which they come due. Its
//! *head* is the first of them. A *block* is a piece of a queue, with places for 62 handles; a place that was left is a
//! *hole*. A *record* is the bytes of an element, in a slot of a page; a *sparse page* has few of them. The *overflow* is the
//! tree for what fits no queue. A *turn* is an element's place in the order of delivery.
//!
//! # Costs
//!
//! | operation | cost |
//! |---|---|
//! | [`Lawn::start`] | O(1); O(log n) for TTLs beyond the 1,024th with fewer than sixteen elements each, beyond the 16,384th, and out of order by more than a hundred |
//! | [`Lawn::stop`], [`Lawn::look`](form::Lawn::look), [`Lawn::update`] | O(1); in the overflow O(log n) |
//! | [`Lawn::drain`], [`Lawn::lease_due`] | O(log TTLs), for `drain` once in a run; O(log n) from the overflow; nothing due: O(1) |
//! | [`Lawn::next_deadline`](form::Lawn::next_deadline) | O(1), exact |
//! | [`Lawn::iter`](form::Lawn::iter), [`Lawn::rows`](form::Lawn::rows) | O(log TTLs) for each element; to begin in the middle O(TTLs), whatever is before |
//! | the most that one call moves | some thousands of entries of the index, half a page of 64 KiB, 16,384 queues, or the table of pages, 24 bytes for each 256 KiB |
//!
//! # Rules
//!
//! Time is an argument: nothing here reads a clock. Deadlines are absolute. An element is due when
//! its deadline is at or before now (the paper's comparison is strict and fires a tick late). Order is
//! by deadline, ties in the order of pushing, over all TTLs. A clock that steps back breaks neither.
//!
//! # When not to use it
//!
//! If no element is ever stopped by id, a heap or a wheel is smaller. If each element has a TTL of its
//! own, this is a B-tree and an index of ids: no worse than a sorted set, but no better.

#![deny(unsafe_code)]

mod block;
mod boxes;
mod chosen;
mod directory;
mod error;
mod form;
mod full;
mod heads;
mod index;
mod iter;
mod lanes;
mod leased;
mod leases;
mod overflow;
mod packed;
#[allow(unsafe_code)]
mod processor;
mod queues;
mod records;
mod shelves;
mod slab;
mod small;
mod table;
mod token;
mod tokens;
mod turn;
mod unsettled;
mod upkeep;

#[cfg(test)]
mod tests;

use upkeep::relocate;

pub use error::{StartError, UpdateError};
pub use form::Shared;
#[cfg(test)]
pub use form::Taken;
pub use leased::Leased as Lawn;
pub use small::{SmallMax, rounded};
pub use token::Token;
pub use turn::{DEADLINE_MAX, Start};
pub use upkeep::Mover;

/// With the feature `tiny-bounds`, for tests alone, every bound of the structure is so small that a
/// few dozen random operations split, merge, walk and overflow all of it.
const TINY: bool = cfg!(feature = "tiny-bounds");

/// An element that waits in the lawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element<'a> {
    /// What it is called.
    pub id: &'a [u8],
    /// What was put away.
    pub payload: &'a [u8],
    /// When it comes due, in milliseconds since the epoch.
    pub deadline: u64,
    /// How often it was given out under a lease. It stops counting at 65,535.
    pub deliveries: u16,
}

/// An element, and where it stands in the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// The TTL that it was started with.
    pub ttl: u64,
    pub element: Element<'a>,
    /// Tells it from others with its deadline: those that come after it have greater ones, for as long as this lawn is
    /// in memory. A form that has no such numbers says `None`.
    pub number: Option<u64>,
}

/// Adds an item. The first one gets one place, not the four that a vector begins with: most lawns are small.
fn push_tight<T>(items: &mut Vec<T>, item: T) {
    if items.is_empty() {
        items.reserve_exact(1);
    }
    items.push(item);
}

/// Bytes that an allocator sets aside for a vector.
fn allotted<T>(items: &Vec<T>) -> usize {
    rounded(items.capacity() * size_of::<T>())
}

/// Gives back half of a vector's memory or more, if it uses less than a quarter.
fn shrink<T>(items: &mut Vec<T>) {
    if items.len() * 4 < items.capacity() {
        items.shrink_to(items.len() * 2);
    }
}
