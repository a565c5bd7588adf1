//! Who holds what.
//!
//! | module | noun |
//! |---|---|
//! | `token` | the name of a lease |
//! | `leases` | the tokens of all that is leased in a lawn |
//! | `tokens` | these tokens by turn, counted |
//! | `chosen` | what is held under tokens that clients have chosen |

mod chosen;
mod leases;
mod token;
mod tokens;

pub use leases::Leases;
pub use token::Token;
