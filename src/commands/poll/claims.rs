//! Words that are sent twice: a client which lost its connection asks again, under the same token of its own choice, over
//! another one, while what was taken for it is on its way to the first.
//!
//! It is told what it holds. So what is on its way must not be given back when the first connection turns out to be cut.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::server::Str;
use crate::server::guard::AbortOnPanic;
use lawn::Token;

/// The key and the token under which something is on its way.
type Claim = (Rc<[u8]>, Token);

/// What is on its way under one token of a key.
#[derive(Default)]
struct Claims {
    /// To how many clients.
    clients: usize,
    /// Whether the client was told of it over another connection meanwhile.
    is_claimed: bool,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static CLAIMS: RefCell<BTreeMap<Claim, Claims>> = const { RefCell::new(BTreeMap::new()) };
}

/// Something is on its way to a blocked client for as long as this lives.
pub(super) struct OnItsWay {
    /// `None`: the client has chosen no token, so it cannot ask for this again.
    claim: Option<Claim>,
    /// A panic that drops it would lose what is nowhere else.
    _whole: AbortOnPanic,
}

impl OnItsWay {
    pub(super) fn new(key: &[u8], chosen: Option<Token>, whole: AbortOnPanic) -> Self {
        let claim: Option<Claim> = chosen.map(|token| (key.into(), token));
        if let Some(claim) = &claim {
            CLAIMS.with_borrow_mut(|claims| claims.entry(claim.clone()).or_default().clients += 1);
        }
        Self { claim, _whole: whole }
    }

    /// Returns whether the client has it by another connection.
    pub(super) fn is_claimed(&self) -> bool {
        let is_claimed =
            |claim| CLAIMS.with_borrow(|claims| claims.get(claim).is_some_and(|it| it.is_claimed));
        self.claim.as_ref().is_some_and(is_claimed)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let Some(claim) = &self.claim else { return };
        // When the process ends, the table may have gone before.
        let _ = CLAIMS.try_with(|claims| {
            let mut claims = claims.borrow_mut();
            if let Some(it) = claims.get_mut(claim) {
                it.clients -= 1;
                if it.clients == 0 {
                    claims.remove(claim);
                }
            }
        });
    }
}

/// Notes that a client was told what it holds in a key under a token: what is on its way to it over another connection is
/// not given back if that has been cut.
pub(super) fn claim(key: Str<'_>, token: Option<Token>) {
    if let Some(token) = token {
        CLAIMS.with_borrow_mut(|claims| {
            // Nearly always nothing is on its way.
            if !claims.is_empty()
                && let Some(it) = claims.get_mut(&(key.bytes().into(), token))
            {
                it.is_claimed = true;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fake::with_args;

    #[test]
    fn what_a_client_was_told_of_one_key_says_nothing_of_another() {
        with_args(&[b"a", b"b"], |keys| {
            let [a, b] = [1, 2].map(|at| keys.get(at).expect("a key"));
            let token = Some(Token::drawn(7));
            let on_its_way = OnItsWay::new(a.bytes(), token, AbortOnPanic::begin());
            claim(b, token);
            assert!(!on_its_way.is_claimed());
            claim(a, token);
            assert!(on_its_way.is_claimed());
            drop(on_its_way);
            assert!(CLAIMS.with_borrow(BTreeMap::is_empty));
        });
    }
}
