//! Which client holds which element.
//!
//! | module | contents |
//! |---|---|
//! | `token` | the name of a lease |
//! | `leases` | the token of each leased element, and the elements held under each token that a client chose |
//! | `tokens` | a sorted list of tokens by rank, and since when each holds |
//! | `since` | when a lease began, for how long its element had been due, and how many are held since each second |

mod leases;
mod since;
mod token;
mod tokens;

pub use leases::Leases;
pub use since::{Since, end_of_second};
pub use token::Token;
