//! A lawn that knows under which token each element is leased.
//!
//! Whatever only looks is the plain lawn's. What takes an element out, or gives it out anew, sees to its token
//! here.

use std::ops::Deref;
use std::sync::Arc;

use super::element::{Element, Row};
use super::error::{StartError, UpdateError};
use super::form::{Lawn, Shared, Taken};
use super::lease::{Address, Leases, Token};
use super::memory::Mover;
use super::turn::{DEADLINE_MAX, Start, Turn};

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
        let deadline = Self::deadline(ttl, now)?;
        self.start_at(id, ttl, payload, deadline)?;
        Ok(deadline)
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
        let may_grow = self.may_grow();
        let started = self.plain.start_at(id, ttl, payload, deadline);
        if may_grow {
            self.list_if_grown();
        }
        started
    }

    /// See [`Lawn::replace_at`]. The new element is not leased.
    pub fn replace_at(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<(), StartError> {
        let (may_grow, turn) = (self.may_grow(), self.listed_turn(id));
        let replaced = self.plain.replace_at(id, ttl, payload, deadline);
        if replaced.is_ok() {
            self.leases.forget(id, turn);
        }
        if may_grow {
            self.list_if_grown();
        }
        replaced
    }

    /// See [`Lawn::restart_at`]. A TTL of 0 gives a leased element back: it is held no more.
    #[inline]
    pub fn restart_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        let turn = self.listed_turn(id);
        let restarted = self.plain.restart_at(id, ttl, deadline);
        if restarted && ttl == 0 {
            self.leases.forget(id, turn);
        } else if let Some(turn) = turn
            && let Some(address) = self.plain.address(id)
        {
            self.leases.moved(id, turn, address);
        }
        restarted
    }

    /// See [`Lawn::stop`].
    #[inline]
    pub fn stop(&mut self, id: &[u8]) -> Option<Taken<'_>> {
        let taken = self.plain.stop(id)?;
        if !self.leases.is_empty() {
            self.leases.forget(id, taken.turn());
        }
        Some(taken)
    }

    /// See [`Lawn::update`].
    pub fn update(&mut self, id: &[u8], payload: &[u8]) -> Result<Taken<'_>, UpdateError> {
        if self.may_grow() {
            self.plain.prepare_update(id, payload);
            self.list_if_grown();
        }
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
            self.leases.forget(taken.element().id, taken.turn());
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
        plain.drain(now, count, |Row { ttl, element, number }| {
            if !leases.is_empty() {
                let turn = number.map(|push| Turn { deadline: element.deadline, push });
                leases.forget(element.id, turn);
            }
            give(ttl, element);
        })
    }

    /// See [`Lawn::lease_due`]. The element is held under `token`.
    pub fn lease_due(&mut self, now: u64, ttl: u64, token: Option<Token>) -> Option<Element<'_>> {
        if self.lists(token) {
            return self.lease_due_listed(now, ttl, token);
        }
        let element = self.plain.lease_due(now, ttl)?;
        self.leases.set(element.id, token, None);
        Some(element)
    }

    /// As [`Leased::lease_due`], where there are tokens that clients have chosen.
    fn lease_due_listed(
        &mut self,
        now: u64,
        ttl: u64,
        token: Option<Token>,
    ) -> Option<Element<'_>> {
        let Address { hash, turn } = self.plain.first_address()?;
        let deadline = self.plain.lease_due(now, ttl)?.deadline;
        let push = self.plain.last_push()?;
        let address = Address { hash, turn: Turn { deadline, push } };
        let element = self.plain.at(address)?;
        self.leases.set(element.id, token, Some(turn));
        if let Some(token) = token.filter(|token| token.is_chosen()) {
            self.leases.list(token, address);
        }
        Some(element)
    }

    /// See [`Lawn::lease_at`]. The element is held under `token`.
    pub fn lease_at(&mut self, id: &[u8], ttl: u64, deadline: u64, token: Option<Token>) -> bool {
        let turn = self.listed_turn(id);
        let leased = self.plain.lease_at(id, ttl, deadline);
        if leased {
            self.hold(id, token, turn);
        }
        leased
    }

    /// See [`Lawn::set_deliveries`]. The element is held under `token`.
    pub fn set_deliveries(&mut self, id: &[u8], deliveries: u16, token: Option<Token>) -> bool {
        let is_there = self.plain.set_deliveries(id, deliveries);
        if is_there {
            let turn = self.listed_turn(id);
            self.hold(id, token.filter(|_| deliveries > 0), turn);
        }
        is_there
    }

    /// The element of that id, whose turn it was, if it may be listed, is held under `token`, or under none.
    fn hold(&mut self, id: &[u8], token: Option<Token>, turn: Option<Turn>) {
        self.leases.set(id, token, turn);
        if let Some(token) = token.filter(|token| token.is_chosen())
            && let Some(address) = self.plain.address(id)
        {
            self.leases.list(token, address);
        }
    }

    /// Whether tokens that clients have chosen, of which this may be one, are listed here.
    fn lists(&self, token: Option<Token>) -> bool {
        let is_chosen = token.is_some_and(Token::is_chosen) && !self.is_small();
        is_chosen || self.leases.has_chosen()
    }

    /// The turn of the element of that id, if it may be listed under it.
    #[inline]
    fn listed_turn(&self, id: &[u8]) -> Option<Turn> {
        if !self.leases.has_chosen() {
            return None;
        }
        self.plain.address(id).map(|address| address.turn)
    }

    /// Whether what is put in next may turn a small lawn with tokens into a full one.
    #[inline]
    fn may_grow(&self) -> bool {
        !self.leases.is_empty() && self.is_small()
    }

    /// A small lawn lists nothing: lists what was in it, if it is full by now.
    #[cold]
    fn list_if_grown(&mut self) {
        let Self { plain, leases } = self;
        for (_, element) in plain.iter() {
            let token = leases.token(element.id).filter(|_| element.deliveries > 0);
            if let Some(token) = token.filter(|token| token.is_chosen())
                && let Some(address) = plain.address(element.id)
            {
                leases.list(token, address);
            }
        }
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
    /// has run out at `now`. Costs O(log n), and what is shown.
    pub fn held(&self, token: Token, now: u64) -> impl Iterator<Item = Element<'_>> {
        let is_walked = self.is_small() && token.is_chosen();
        let first = Start { deadline: now.saturating_add(1), behind: None };
        let walked = is_walked.then(|| self.rows(first, DEADLINE_MAX)).into_iter().flatten();
        let listed = self.leases.listed(token, Turn::after(now));
        let held = walked.map(|row| row.element);
        let held = held.chain(listed.filter_map(|address| self.plain.at(address)));
        held.filter(move |element| self.token(element) == Some(token))
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
        let mut chosen = 0;
        if !self.is_small() {
            let tokens = self.iter().filter_map(|(_, element)| self.token(&element));
            chosen = tokens.filter(|token| token.is_chosen()).count();
        }
        assert_eq!(self.leases.all_listed().count(), chosen, "what is listed and what is held");
        for (token, address) in self.leases.all_listed() {
            let element = self.plain.at(address).expect("what is listed is there");
            assert_eq!(self.token(&element), Some(token), "listed under another token");
        }
    }
}

impl std::fmt::Debug for Leased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.plain.fmt(f)
    }
}
