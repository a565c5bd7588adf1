//! Repeated requests: a client that lost its connection asks again over another one, with the same token of its own
//! choice, while elements taken for it are in flight to the first connection.
//!
//! The second request is answered with the elements that the client holds. So they must not be given back when the first
//! connection turns out to be closed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::server::Str;
use crate::server::guard::AbortOnPanic;
use lawn::Token;

/// The key and the token of elements in flight.
type ResendKey = (Rc<[u8]>, Token);

/// The clients to which elements are in flight under one token of a key.
#[derive(Default)]
struct Recipients {
    count: usize,
    /// Whether the elements were also sent over another connection.
    was_resent: bool,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static RECIPIENTS: RefCell<BTreeMap<ResendKey, Recipients>> =
        const { RefCell::new(BTreeMap::new()) };
}

/// Marks elements as in flight to a blocked client until it is dropped.
pub(super) struct InFlight {
    /// `None`: the client chose no token, so it cannot ask again.
    key: Option<ResendKey>,
    /// A panic that drops this would lose the elements: they exist nowhere else.
    _whole: AbortOnPanic,
}

impl InFlight {
    pub(super) fn new(key: &[u8], chosen: Option<Token>, whole: AbortOnPanic) -> Self {
        let key: Option<ResendKey> = chosen.map(|token| (key.into(), token));
        if let Some(key) = &key {
            RECIPIENTS.with_borrow_mut(|all| all.entry(key.clone()).or_default().count += 1);
        }
        Self { key, _whole: whole }
    }

    /// Returns whether the client received the elements over another connection.
    pub(super) fn was_resent(&self) -> bool {
        let was_resent =
            |key| RECIPIENTS.with_borrow(|all| all.get(key).is_some_and(|it| it.was_resent));
        self.key.as_ref().is_some_and(was_resent)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        // When the process ends, the table may be dropped first.
        let _ = RECIPIENTS.try_with(|all| {
            let mut all = all.borrow_mut();
            if let Some(it) = all.get_mut(key) {
                it.count -= 1;
                if it.count == 0 {
                    all.remove(key);
                }
            }
        });
    }
}

/// Records that a client was sent the elements that it holds in a key under a token. If they are also in flight over
/// another connection, and that one is closed, they are not given back.
pub(super) fn note_resend(key: Str<'_>, token: Option<Token>) {
    if let Some(token) = token {
        RECIPIENTS.with_borrow_mut(|all| {
            // Nearly always empty.
            if !all.is_empty()
                && let Some(it) = all.get_mut(&(key.bytes().into(), token))
            {
                it.was_resent = true;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fake::with_args;

    #[test]
    fn a_resend_counts_for_its_own_key_only() {
        with_args(&[b"a", b"b"], |keys| {
            let [a, b] = [1, 2].map(|at| keys.get(at).expect("a key"));
            let token = Some(Token::drawn(7));
            let in_flight = InFlight::new(a.bytes(), token, AbortOnPanic::begin());
            note_resend(b, token);
            assert!(!in_flight.was_resent());
            note_resend(a, token);
            assert!(in_flight.was_resent());
            drop(in_flight);
            assert!(RECIPIENTS.with_borrow(BTreeMap::is_empty));
        });
    }
}
