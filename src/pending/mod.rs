//! Work that waits for its time. Every write records it here; [`background`](crate::background) does it.
//!
//! This folder is below [`data_type`](crate::data_type). It holds tables of names and times and a timer, opens no key, and
//! calls nothing above it.
//!
//! | module | contents |
//! |---|---|
//! | `agenda` | dehydrators that the module visits by itself, for which reasons, and when |
//! | `blocked` | blocked clients, queued per key |
//! | `overdue` | since when elements of each key, and of all keys, are overdue |
//! | `timer` | wakes the event loop at the next moment that `agenda` or `blocked` waits for |
//! | `waste` | tables that were dropped as a whole, whose memory is freed gradually |

pub mod agenda;
pub mod blocked;
pub mod overdue;
pub mod timer;
pub mod waste;
