//! Words that are sent twice: a client which lost its connection asks again, under the same token of its own choice, over
//! another one, while what was taken for it is on its way to the first.
//!
//! It is told what it holds. So what is on its way must not be given back when the first connection turns out to be cut.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::server::guard::Whole;
use lawn::Token;

/// What is on its way under one token.
#[derive(Default)]
struct Claims {
    /// To how many clients.
    clients: usize,
    /// Whether the client was told of it over another connection meanwhile.
    is_claimed: bool,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static CLAIMS: RefCell<BTreeMap<Token, Claims>> = const { RefCell::new(BTreeMap::new()) };
}

/// Something is on its way to a blocked client for as long as this lives.
pub(super) struct OnItsWay {
    /// The token of the client's own choice under which it is.
    token: Option<Token>,
    /// A panic that drops it would lose what is nowhere else.
    _whole: Whole,
}

impl OnItsWay {
    pub(super) fn new(chosen: Option<Token>, whole: Whole) -> Self {
        if let Some(token) = chosen {
            CLAIMS.with_borrow_mut(|claims| claims.entry(token).or_default().clients += 1);
        }
        Self { token: chosen, _whole: whole }
    }

    /// Returns whether the client has it by another connection.
    pub(super) fn is_claimed(&self) -> bool {
        let is_claimed =
            |token| CLAIMS.with_borrow(|claims| claims.get(&token).is_some_and(|it| it.is_claimed));
        self.token.is_some_and(is_claimed)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let Some(token) = self.token else { return };
        // When the process ends, the table may have gone before.
        let _ = CLAIMS.try_with(|claims| {
            let mut claims = claims.borrow_mut();
            if let Some(it) = claims.get_mut(&token) {
                it.clients -= 1;
                if it.clients == 0 {
                    claims.remove(&token);
                }
            }
        });
    }
}

/// Notes that a client was told what it holds under a token: what is on its way to it over another connection is not given
/// back if that has been cut.
pub(super) fn claim(token: Option<Token>) {
    if let Some(token) = token {
        CLAIMS.with_borrow_mut(|claims| {
            if let Some(it) = claims.get_mut(&token) {
                it.is_claimed = true;
            }
        });
    }
}
