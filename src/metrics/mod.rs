//! The module's statistics, for INFO. The code that does the work records them here; [`info`](crate::info) reads them.
//!
//! | module | contents |
//! |---|---|
//! | `counters` | event counters |
//! | `lateness` | the histogram of lateness |
//! | `clock_steps` | steps of the wall clock, which must not count as lateness |

pub mod clock_steps;
pub mod counters;
pub mod lateness;
