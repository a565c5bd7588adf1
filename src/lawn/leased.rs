//! A lawn that knows under which token each element is leased.
//!
//! Whatever only looks is the plain lawn's. What takes an element out, or gives it out anew, sees to its token
//! here.

use std::ops::Deref;
use std::sync::Arc;

use super::form::{Lawn, Shared, Taken};
use super::leases::{Leases, Token};
use super::{DEADLINE_MAX, Element, Mover, Row, Start, StartError, UpdateError};

/// A store of elements that each come due once. See the [module](super).
#[derive(Clone)]
pub struct Leased {
    pub(super) plain: Lawn,
    leases: Leases,
}

impl Deref for Leased {
    type Target = Lawn;

    fn deref(&self) -> &Lawn {
        &self.plain
    }
}

impl Leased {
    /// See [`Lawn::new`].
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { plain: Lawn::new(shared), leases: Leases::default() }
    }

    /// See [`Lawn::deadline`].
    pub fn deadline(ttl: u64, now: u64) -> Result<u64, StartError> {
        Lawn::deadline(ttl, now)
    }

    /// See [`Lawn::start`].
    #[allow(
        dead_code,
        reason = "the module states deadlines; tests, benches and the paper start timers"
    )]
    #[inline]
    pub fn start(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        now: u64,
    ) -> Result<u64, StartError> {
        self.plain.start(id, ttl, payload, now)
    }

    /// See [`Lawn::start_at`].
    #[inline]
    pub fn start_at(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<(), StartError> {
        self.plain.start_at(id, ttl, payload, deadline)
    }

    /// See [`Lawn::replace_at`]. The new element is not leased.
    pub fn replace_at(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<(), StartError> {
        self.plain.replace_at(id, ttl, payload, deadline)?;
        self.leases.forget(id);
        Ok(())
    }

    /// See [`Lawn::restart_at`]. A TTL of 0 gives a leased element back: it is held no more.
    #[inline]
    pub fn restart_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        let restarted = self.plain.restart_at(id, ttl, deadline);
        if restarted && ttl == 0 {
            self.leases.forget(id);
        }
        restarted
    }

    /// See [`Lawn::stop`].
    #[inline]
    pub fn stop(&mut self, id: &[u8]) -> Option<Taken<'_>> {
        let taken = self.plain.stop(id)?;
        self.leases.forget(id);
        Some(taken)
    }

    /// See [`Lawn::update`].
    pub fn update(&mut self, id: &[u8], payload: &[u8]) -> Result<Taken<'_>, UpdateError> {
        self.plain.update(id, payload)
    }

    /// See [`Lawn::pop_due`].
    #[allow(
        dead_code,
        reason = "the module takes what is due in runs; tests and benches take one at a time"
    )]
    pub fn pop_due(&mut self, now: u64) -> Option<Taken<'_>> {
        let taken = self.plain.pop_due(now)?;
        if !self.leases.is_empty() {
            self.leases.forget(taken.element().id);
        }
        Some(taken)
    }

    /// See [`Lawn::drain`].
    pub fn drain(
        &mut self,
        now: u64,
        count: usize,
        mut give: impl FnMut(u64, Element<'_>),
    ) -> usize {
        let Self { plain, leases } = self;
        plain.drain(now, count, |ttl, element| {
            if !leases.is_empty() {
                leases.forget(element.id);
            }
            give(ttl, element);
        })
    }

    /// See [`Lawn::lease_due`]. The element is held under `token`.
    pub fn lease_due(&mut self, now: u64, ttl: u64, token: Option<Token>) -> Option<Element<'_>> {
        let element = self.plain.lease_due(now, ttl)?;
        self.leases.set(element.id, token);
        Some(element)
    }

    /// See [`Lawn::lease_at`]. The element is held under `token`.
    pub fn lease_at(&mut self, id: &[u8], ttl: u64, deadline: u64, token: Option<Token>) -> bool {
        let leased = self.plain.lease_at(id, ttl, deadline);
        if leased {
            self.leases.set(id, token);
        }
        leased
    }

    /// See [`Lawn::set_deliveries`]. The element is held under `token`.
    pub fn set_deliveries(&mut self, id: &[u8], deliveries: u16, token: Option<Token>) -> bool {
        let is_there = self.plain.set_deliveries(id, deliveries);
        if is_there {
            self.leases.set(id, token.filter(|_| deliveries > 0));
        }
        is_there
    }

    /// The token under which an element that was given out is held.
    pub fn token(&self, element: &Element<'_>) -> Option<Token> {
        if element.deliveries == 0 { None } else { self.leases.token(element.id) }
    }

    /// Whether an element is held under this token: whether the lease of that name is the last one that was given
    /// out of it. It may have run out.
    pub fn holds(&self, id: &[u8], token: Token) -> bool {
        self.look(id).is_some_and(|element| self.token(&element) == Some(token))
    }

    /// The elements that are held under a token of a client's own choice, in the order of delivery, unless their lease
    /// has run out at `now`.
    pub fn held(&self, token: Token, now: u64) -> impl Iterator<Item = Element<'_>> {
        let is_held = |it: &Row<'_>| {
            token.is_chosen() && it.element.deadline > now && self.token(&it.element) == Some(token)
        };
        let mut held: Vec<_> = if self.is_small() {
            // It numbers nothing: the order is in the order, and walking it is little.
            let first = Start { deadline: now.saturating_add(1), behind: None };
            self.rows(first, DEADLINE_MAX).filter(is_held).collect()
        } else {
            let ids = self.leases.ids(token).into_iter();
            ids.filter_map(|id| self.row(id)).filter(is_held).collect()
        };
        // Stable: what has no number stays in its order.
        held.sort_by_key(|row| (row.element.deadline, row.number));
        held.into_iter().map(|row| row.element)
    }

    /// Whether any element may be held under a token.
    pub fn has_tokens(&self) -> bool {
        !self.leases.is_empty()
    }

    /// See [`Lawn::compact`].
    pub fn compact(&mut self, moves: usize) -> bool {
        self.plain.compact(moves)
    }

    /// See [`Lawn::defrag`]. The tokens stay where they are, as the overflow does.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        self.plain.defrag(from, mover, go_on)
    }

    /// See [`Lawn::memory`].
    pub fn memory(&self) -> usize {
        self.plain.memory() - size_of::<Lawn>() + size_of::<Self>() + self.leases.memory()
    }

    /// See [`Lawn::allocations`].
    pub fn allocations(&self) -> usize {
        self.plain.allocations() + self.leases.allocations()
    }

    /// See [`Lawn::check`].
    #[cfg(any(test, fuzzing))]
    pub fn check(&self) {
        self.plain.check();
        assert!(self.leases.len() <= self.delivered(), "a token of what is not given out");
    }
}

impl std::fmt::Debug for Leased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.plain.fmt(f)
    }
}
