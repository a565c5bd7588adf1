//! Who holds what.
//!
//! | module | noun |
//! |---|---|
//! | `token` | the name of a lease |
//! | `leases` | the tokens of all that is leased in a lawn |
//! | `tokens` | a table of tokens |
//! | `running` | which leases have not run out, where that is counted |
//! | `chosen` | what is held under tokens that clients have chosen |

mod chosen;
mod leases;
mod running;
mod token;
mod tokens;

pub use leases::Leases;
pub use token::Token;
