//! Which client holds which element.
//!
//! | module | contents |
//! |---|---|
//! | `token` | the name of a lease |
//! | `leases` | the token of each leased element, and the elements held under each token that a client chose |
//! | `tokens` | a sorted list of tokens by turn |

mod leases;
mod token;
mod tokens;

pub use leases::Leases;
pub use token::Token;
