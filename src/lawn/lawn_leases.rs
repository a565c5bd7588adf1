//! The lawn's interface to leases: which elements are held, under which tokens and since when, and why they were given back.

use super::element::Element;
use super::lawn::{Form, Lawn, either};
use super::lease::{Since, Token};

impl Lawn {
    /// Leases an element by its id, due or not, until `deadline`, and holds it under `token`. Returns whether the
    /// element exists.
    pub fn lease_at(&mut self, id: &[u8], ttl: u64, deadline: u64, token: Option<Token>) -> bool {
        either!(&mut self.form, it => it.lease_at(id, ttl, deadline, token))
    }

    /// Sets how often an element was given out, and the token under which it is held, as recorded in a dump or in the
    /// append-only file. Without deliveries the token is ignored. Returns whether the element exists.
    pub fn set_deliveries(&mut self, id: &[u8], deliveries: u16, token: Option<Token>) -> bool {
        either!(&mut self.form, it => it.set_deliveries(id, deliveries, token))
    }

    /// Sets since when an element is held, as recorded in a dump or in the append-only file: [`Lawn::lease_at`] sets it to the
    /// begin of the lease. Returns whether it is held.
    pub fn set_held_since(&mut self, id: &[u8], since: Since) -> bool {
        either!(&mut self.form, it => it.set_held_since(id, since))
    }

    /// Returns since when an element of this lawn is held, if that is known. Another deadline does not change it.
    pub fn held_since(&self, element: &Element<'_>) -> Option<Since> {
        either!(&self.form, it => it.held_since(element))
    }

    /// Returns since when the element is held that is held the longest, up to a second too late. Elements that never come due
    /// do not count. O(1).
    pub fn oldest_held(&self) -> Option<u64> {
        either!(&self.form, it => it.oldest_held())
    }

    /// Returns why an element was given back the last time, if that was said.
    pub fn reason(&self, id: &[u8]) -> Option<&[u8]> {
        match &self.form {
            Form::Small(_) => None,
            Form::Full(full) => full.reason(id),
        }
    }

    /// Records why an element was given back, in at most [`REASON_MAX`](super::REASON_MAX) bytes; an empty reason is none. It stays until another one is set, or the element leaves.
    /// A small lawn has no room for reasons, and becomes full. Returns whether the element exists.
    pub fn set_reason(&mut self, id: &[u8], reason: &[u8]) -> bool {
        match &mut self.form {
            Form::Small(small) if small.look(id).is_none() => false,
            Form::Small(_) if reason.is_empty() => true,
            _ => self.full().set_reason(id, reason),
        }
    }

    /// Returns whether any element has a reason. O(1).
    pub fn has_reasons(&self) -> bool {
        match &self.form {
            Form::Small(_) => false,
            Form::Full(full) => full.records.has_reasons(),
        }
    }

    /// Returns the token under which an element of this lawn is held.
    pub fn token(&self, element: &Element<'_>) -> Option<Token> {
        either!(&self.form, it => it.token(element))
    }

    /// Returns whether an element is held under this token, that is, whether the token names the element's latest
    /// lease. The lease may have expired.
    pub fn holds(&self, id: &[u8], token: Token) -> bool {
        either!(&self.form, it => it.holds(id, token))
    }

    /// Lists the elements that are held under a token that a client chose, in the order of delivery, without those
    /// whose lease has expired at `now`. O(log n + elements listed). A small lawn visits all its elements.
    pub fn held(&self, token: Token, now: u64) -> impl Iterator<Item = Element<'_>> {
        let (small, full) = match &self.form {
            Form::Small(small) => (Some(small.held(token, now)), None),
            Form::Full(full) => (None, Some(full.held(token, now))),
        };
        let all = small.into_iter().flatten().chain(full.into_iter().flatten());
        all.filter(move |_| token.is_chosen())
    }

    /// Returns the number of elements that are held under a token, whether the lease has expired or not. O(1).
    pub fn leased(&self) -> usize {
        self.counts().leased
    }

    /// Returns the number of live leases: elements that are held and whose deadline is after `now`, without those that
    /// never come due ([`DEADLINE_MAX`](crate::DEADLINE_MAX)). O(log n), and one addition for each 256 of them. A small lawn visits all its
    /// elements.
    pub fn running(&self, now: u64) -> usize {
        either!(&self.form, it => it.running(now))
    }

    /// Returns when all live leases but `left` have expired. `None`: no more are live. Costs twice as much as [`Lawn::running`].
    pub fn end_of_all_but(&self, left: usize, now: u64) -> Option<u64> {
        either!(&self.form, it => it.end_of_all_but(left, now))
    }

    /// Gives an element back as [`Lawn::restart_at`] does with a TTL of 0. The element comes before all others with the same
    /// deadline. Returns whether the element exists.
    pub fn put_first(&mut self, id: &[u8], deadline: u64) -> bool {
        either!(&mut self.form, it => it.put_first(id, deadline))
    }
}
