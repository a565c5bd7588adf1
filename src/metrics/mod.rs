//! What INFO tells of what the module has done.
//!
//! | module | noun |
//! |---|---|
//! | `counters` | how often |
//! | `latency` | how late |

pub mod counters;
pub mod latency;
