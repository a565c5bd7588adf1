//! Leases of a small lawn: an element's token and since when it holds stand in the element itself.

use super::super::element::Element;
use super::super::lease::{Since, Token, end_of_second};
use super::super::rank::DEADLINE_MAX;
use super::Small;
use super::packed::{PackedElement, Timer};

impl Small {
    pub fn lease_due(
        &mut self,
        now: u64,
        ttl: u64,
        token: Option<Token>,
    ) -> Option<(u64, Element<'_>)> {
        debug_assert_ne!(ttl, 0, "a lease of 0 ms");
        let first = self.entries().next().filter(|first| first.deadline <= now)?;
        let at = self.lease(&first, ttl, now.saturating_add(ttl).min(DEADLINE_MAX), token);
        Some((first.deadline, self.at(at)))
    }

    /// Leases the element at an offset. Returns it.
    pub fn lease_entry(
        &mut self,
        at: usize,
        ttl: u64,
        deadline: u64,
        token: Option<Token>,
    ) -> Element<'_> {
        let at = self.lease(&PackedElement::read(&self.bytes, at), ttl, deadline, token);
        self.at(at)
    }

    pub fn lease_at(&mut self, id: &[u8], ttl: u64, deadline: u64, token: Option<Token>) -> bool {
        let found = self.find(id).filter(|_| deadline <= DEADLINE_MAX);
        found.map(|entry| self.lease(&entry, ttl, deadline, token)).is_some()
    }

    pub fn set_deliveries(&mut self, id: &[u8], deliveries: u16, token: Option<Token>) -> bool {
        let Some(entry) = self.find(id) else { return false };
        self.set_header(&entry, Timer { deliveries, token, ..entry.timer(&self.bytes) });
        true
    }

    pub fn set_held_since(&mut self, id: &[u8], since: Since) -> bool {
        let Some(entry) = self.find(id) else { return false };
        let timer = entry.timer(&self.bytes);
        if timer.token.is_some() {
            self.set_header(&entry, Timer { since, ..timer });
        }
        timer.token.is_some()
    }

    pub fn held_since(&self, element: &Element<'_>) -> Option<Since> {
        Some(self.find(element.id)?.since(&self.bytes)).filter(Since::is_known)
    }

    pub fn oldest_held(&self) -> Option<u64> {
        let held = self.entries().take(if self.held > 0 { usize::MAX } else { 0 });
        let due = held.filter(|entry| entry.deadline < DEADLINE_MAX);
        let since = due.map(|entry| entry.since(&self.bytes).moment).filter(|since| *since > 0);
        since.min().map(end_of_second)
    }

    pub fn running(&self, now: u64) -> usize {
        self.all_running(now).count()
    }

    pub fn end_of_all_but(&self, left: usize, now: u64) -> Option<u64> {
        let nth = self.running(now).checked_sub(left)?.checked_sub(1)?;
        self.all_running(now).nth(nth).map(|entry| entry.deadline)
    }

    fn all_running(&self, now: u64) -> impl Iterator<Item = PackedElement> + '_ {
        let held = self.entries().take(if self.held > 0 { usize::MAX } else { 0 });
        let runs = move |deadline| deadline > now && deadline < DEADLINE_MAX;
        held.filter(move |it| runs(it.deadline) && it.token(&self.bytes).is_some())
    }

    pub fn token(&self, element: &Element<'_>) -> Option<Token> {
        self.find(element.id)?.token(&self.bytes)
    }

    pub fn holds(&self, id: &[u8], token: Token) -> bool {
        self.find(id).is_some_and(|entry| entry.token(&self.bytes) == Some(token))
    }

    pub fn held(&self, token: Token, now: u64) -> impl Iterator<Item = Element<'_>> {
        let is_held = move |entry: &PackedElement| {
            entry.deadline > now && entry.token(&self.bytes) == Some(token)
        };
        let entries = self.entries().filter(is_held);
        entries.map(|entry| self.element(&entry))
    }

    fn lease(
        &mut self,
        entry: &PackedElement,
        ttl: u64,
        deadline: u64,
        token: Option<Token>,
    ) -> usize {
        let deliveries = entry.deliveries(&self.bytes).saturating_add(1);
        let bounds = entry.bounds(&self.bytes);
        let since = Since::new(deadline.saturating_sub(ttl), entry.deadline);
        self.set_timer(entry, Timer { deadline, ttl, deliveries, token, since, bounds })
    }
}
