//! Which client holds which element.
//!
//! | module | contents |
//! |---|---|
//! | `token` | the name of a lease |
//! | `leases` | the token of each leased element, and the elements held under each token that a client chose |
//! | `tokens` | a sorted list of tokens by turn, and since when each holds |
//! | `ages` | how many elements are held since each second, to find the first |

mod ages;
mod leases;
mod token;
mod tokens;

pub use ages::end_of_second;
pub use leases::Leases;
pub use token::Token;
