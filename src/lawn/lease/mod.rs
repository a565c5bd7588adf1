//! Which client holds which element.
//!
//! | module | contents |
//! |---|---|
//! | `token` | the name of a lease |
//! | `leases` | the token of each leased element, and the elements held under each token that a client chose |
//! | `tokens` | a sorted list of tokens by rank, and since when each holds |
//! | `since` | when a lease began, and for how long its element had been due |
//! | `ages` | how many elements are held since each second, to find the first |

mod ages;
mod leases;
mod since;
mod token;
mod tokens;

pub use ages::end_of_second;
pub use leases::Leases;
pub use since::Since;
pub use token::Token;
