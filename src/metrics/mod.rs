//! What INFO tells of what the module has done. Whoever does it counts it here; [`info`](crate::info) reads it.
//!
//! | module | noun |
//! |---|---|
//! | `counters` | how often |
//! | `latency` | how late |
//! | `start` | from which moment that counts |

pub mod counters;
pub mod latency;
pub mod start;
