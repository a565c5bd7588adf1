//! The options of a POLL.

use lawn::Token;

/// How a POLL or an MPOLL takes and replies due elements. A blocked client keeps it while it sleeps.
#[derive(Clone, Copy)]
pub struct Take<'a> {
    /// At most this many elements; unlimited unless COUNT is given.
    pub count: usize,
    pub with_ids: bool,
    /// Whether the reply names the key, as MPOLL's does.
    pub is_named: bool,
    /// The length of the lease, in milliseconds. `None` removes the elements.
    pub lease: Option<u64>,
    /// The token of the lease: chosen by the client, or drawn.
    pub token: Option<Token>,
    /// The chosen token, as the client wrote it.
    pub word: Option<&'a [u8]>,
}

impl Take<'_> {
    /// Returns the token if the client has chosen it. The client may hold elements under it already.
    pub fn chosen_token(self) -> Option<Token> {
        self.token.filter(|token| token.is_chosen())
    }

    /// Returns the options without the word, which lasts no longer than the command.
    pub fn without_word(self) -> Take<'static> {
        let Self { count, with_ids, is_named, lease, token, .. } = self;
        Take { count, with_ids, is_named, lease, token, word: None }
    }
}
