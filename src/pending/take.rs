//! The options of a POLL.

use lawn::Token;

/// How a POLL or an MPOLL takes due elements. A blocked client keeps it while it sleeps.
#[derive(Clone, Copy)]
pub struct Take {
    /// At most this many elements; unlimited unless COUNT is given.
    pub count: usize,
    pub with_ids: bool,
    /// The length of the lease, in milliseconds. `None` removes the elements.
    pub lease: Option<u64>,
    /// The token of the lease: chosen by the client, or drawn.
    pub token: Option<Token>,
}

impl Take {
    /// Returns the token if the client has chosen it. The client may hold elements under it already.
    pub fn chosen_token(self) -> Option<Token> {
        self.token.filter(|token| token.is_chosen())
    }
}
