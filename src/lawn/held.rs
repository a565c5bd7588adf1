//! The leases of a full lawn: which elements are held, and under which tokens.

use super::element::Element;
use super::full::{Full, counts_as_held};
use super::lease::{Since, Token};
use super::rank::{DEADLINE_MAX, Rank};
use super::store::Handle;

impl Full {
    pub fn lease_at(&mut self, id: &[u8], ttl: u64, deadline: u64, token: Option<Token>) -> bool {
        let Some(handle) = self.find(id).filter(|_| deadline <= DEADLINE_MAX) else { return false };
        self.lease(handle, ttl, deadline, token);
        true
    }

    pub fn set_deliveries(&mut self, id: &[u8], deliveries: u16, token: Option<Token>) -> bool {
        let Some(handle) = self.find(id) else { return false };
        let before = self.count_deliveries(handle, deliveries);
        let rank = self.records.rank(handle);
        let before = (before > 0).then_some(rank);
        let token = token.filter(|_| deliveries > 0);
        self.leases.set(handle, token, (before, rank), None);
        let is_held = counts_as_held(token.is_some(), rank.deadline);
        if let Some((groups, records)) = self.groups_of(handle) {
            groups.hold(records, handle, is_held);
        }
        true
    }

    pub fn token(&self, element: &Element<'_>) -> Option<Token> {
        if self.leases.is_empty() || element.deliveries == 0 {
            return None;
        }
        self.held_under(self.find(element.id)?)
    }

    pub fn set_held_since(&mut self, id: &[u8], since: Since) -> bool {
        let Some(handle) = self.find(id) else { return false };
        let Some(token) = self.held_under(handle) else { return false };
        let rank = self.records.rank(handle);
        self.leases.set(handle, Some(token), (Some(rank), rank), Some(since));
        true
    }

    pub fn held_since(&self, element: &Element<'_>) -> Option<Since> {
        if self.leases.is_empty() || element.deliveries == 0 {
            return None;
        }
        let handle = self.find(element.id)?;
        self.leases.since(self.records.rank(handle))
    }

    pub fn oldest_held(&self) -> Option<u64> {
        self.leases.oldest()
    }

    pub fn holds(&self, id: &[u8], token: Token) -> bool {
        self.find(id).is_some_and(|handle| self.held_under(handle) == Some(token))
    }

    pub fn held(&self, token: Token, now: u64) -> impl Iterator<Item = Element<'_>> {
        let listed = self.leases.listed(token, Rank::after(now));
        listed.map(|handle| self.records.get(handle).into())
    }

    pub fn running(&self, now: u64) -> usize {
        self.leases.running(now)
    }

    pub fn end_of_all_but(&self, left: usize, now: u64) -> Option<u64> {
        self.leases.end_of_all_but(left, now)
    }

    /// Restarts a record that may be held under a token.
    #[inline(never)]
    pub(super) fn restart_held(&mut self, handle: Handle, ttl: u64, deadline: u64) {
        let before = self.records.rank(handle);
        let held_under = self.held_under(handle);
        let token = held_under.filter(|_| ttl > 0);
        let rank = self.restart(handle, ttl, deadline, token.is_some());
        self.leases.set(handle, token, (held_under.and(Some(before)), rank), None);
    }

    pub(super) fn lease(&mut self, handle: Handle, ttl: u64, deadline: u64, token: Option<Token>) {
        let record = self.records.get(handle);
        let (before, deliveries) = (record.rank(), record.deliveries());
        let rank = self.restart(handle, ttl, deadline, token.is_some());
        self.count_deliveries(handle, deliveries.saturating_add(1));
        let since = Since::new(deadline.saturating_sub(ttl), before.deadline);
        let before = (deliveries > 0).then_some(before);
        self.leases.set(handle, token, (before, rank), Some(since));
    }

    /// Returns the token under which a record is held.
    pub(super) fn held_under(&self, handle: Handle) -> Option<Token> {
        if self.leases.is_empty() {
            return None;
        }
        let record = self.records.get(handle);
        (record.deliveries() > 0).then(|| self.leases.token(record.rank()))?
    }

    /// Ends the lease of a record that is being removed, if it has one.
    #[inline(always)]
    pub(super) fn unlease(&mut self, handle: Handle) {
        let record = self.records.get(handle);
        if record.deliveries() > 0 {
            self.delivered -= 1;
            self.leases.end(record.rank(), None);
        }
    }

    /// Sets how often a record was given out. Returns the previous count.
    pub(super) fn count_deliveries(&mut self, handle: Handle, deliveries: u16) -> u16 {
        let before = self.records.get(handle).deliveries();
        self.delivered -= usize::from(before > 0);
        self.delivered += usize::from(deliveries > 0);
        self.records.set_deliveries(handle, deliveries);
        before
    }
}
