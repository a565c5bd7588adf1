//! How a client has asked for what is due.

use lawn::Token;

/// How a POLL or an MPOLL gives out what is due. It is kept with a client that sleeps.
#[derive(Clone, Copy)]
pub struct Take {
    /// As many as there are, if it is not said.
    pub count: usize,
    pub with_ids: bool,
    /// How long an element stays hidden, in milliseconds, instead of going.
    pub lease: Option<u64>,
    /// Under which token it is leased: of the client's choice, or drawn.
    pub token: Option<Token>,
}

impl Take {
    /// Returns the token that the client has chosen, if it has. Under that it may hold something already.
    pub fn chosen_token(self) -> Option<Token> {
        self.token.filter(|token| token.is_chosen())
    }
}
