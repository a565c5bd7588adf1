//! A model of the lawn.

use std::collections::HashMap;

use super::super::*;
use super::turns::{Stored, Turns};

/// A lawn as a list: what each operation does, with no regard to what it costs.
#[derive(Default)]
pub(super) struct Oracle {
    /// In the order of their push numbers.
    pub(super) elements: Vec<Stored>,
    /// How many of them were put first.
    firsts: usize,
    /// How many of them were pushed since the push counter started over, if it has.
    started_over: Option<usize>,
    pub(super) deliveries: HashMap<Vec<u8>, u16>,
    pub(super) tokens: HashMap<Vec<u8>, Token>,
    /// Since when each element is held that has a token.
    pub(super) since: HashMap<Vec<u8>, Since>,
    pub(super) bounds: HashMap<Vec<u8>, Bounds>,
    pub(super) reasons: HashMap<Vec<u8>, Vec<u8>>,
    pub(super) turns: Turns,
    /// The groups of the elements that were given out under a limit of rate, since the last check.
    pub(super) counted: Vec<Vec<u8>>,
}

impl Oracle {
    /// Notes that the next push number is the first again.
    pub(super) fn start_over(&mut self) {
        if self.started_over.replace(self.started_over.unwrap_or(0)).is_none() {
            self.turns.start_over();
        }
    }

    /// Appends an element, or inserts it before all that were pushed before the counter started over, behind those put first.
    pub(super) fn push(&mut self, element: Stored) {
        self.turns.push(&element.0);
        let pushed = self.started_over.as_mut();
        let at = pushed.map_or(self.elements.len(), |pushed| {
            *pushed += 1;
            self.firsts + *pushed - 1
        });
        self.elements.insert(at, element);
    }

    /// Inserts an element before all others with its deadline.
    pub(super) fn put_first(&mut self, element: Stored) {
        self.turns.put_first(&element.0);
        self.firsts += 1;
        self.elements.insert(0, element);
    }

    pub(super) fn take(&mut self, at: usize) -> Stored {
        if at < self.firsts {
            self.firsts -= 1;
        } else if let Some(pushed) = &mut self.started_over {
            *pushed -= usize::from(at < self.firsts + *pushed);
        }
        self.elements.remove(at)
    }

    pub(super) fn find(&self, id: &[u8]) -> Option<usize> {
        self.elements.iter().position(|element| element.0 == id)
    }

    pub(super) fn start(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        at: Option<u64>,
        group: Option<Vec<u8>>,
    ) -> Result<(), StartError> {
        let deadline = at.filter(|at| *at <= DEADLINE_MAX).ok_or(StartError::TooLate)?;
        if self.find(id).is_some() {
            return Err(StartError::Exists);
        }
        self.turns.hold(id, false, 0);
        let first = group.clone().unwrap_or_default();
        self.turns.of.extend(group.into_iter().map(|group| (id.to_vec(), group)));
        self.push((id.to_vec(), ttl, payload.to_vec(), deadline));
        self.turns.settle_from(&self.elements, &first);
        Ok(())
    }

    pub(super) fn stop(&mut self, id: &[u8]) -> Option<Vec<u8>> {
        let payload = self.remove(id);
        self.turns.settle(&self.elements);
        payload
    }

    pub(super) fn remove(&mut self, id: &[u8]) -> Option<Vec<u8>> {
        self.turns.of.remove(id);
        self.turns.hold(id, false, 0);
        self.deliveries.remove(id);
        self.end_lease(id);
        self.bounds.remove(id);
        self.reasons.remove(id);
        self.find(id).map(|at| self.take(at).2)
    }

    /// Ends a lease. Returns since when it held.
    pub(super) fn end_lease(&mut self, id: &[u8]) -> Option<Since> {
        self.tokens.remove(id);
        self.since.remove(id)
    }

    pub(super) fn bounds(&self, id: &[u8]) -> Bounds {
        self.bounds.get(id).copied().unwrap_or_default()
    }

    /// Returns when each element expires that can, in order.
    pub(super) fn expiries(&self) -> Vec<(u64, &[u8])> {
        let expiry = |(id, .., deadline): &(Vec<u8>, u64, Vec<u8>, u64)| {
            Some(self.bounds(id).until.max(*deadline)).filter(|_| self.bounds(id).until > 0)
        };
        let all = self.elements.iter();
        let mut all: Vec<_> = all.filter_map(|it| Some((expiry(it)?, &it.0[..]))).collect();
        all.sort_unstable();
        all
    }

    pub(super) fn lease(
        &mut self,
        at: usize,
        ttl: u64,
        deadline: u64,
        token: Option<Token>,
    ) -> (Vec<u8>, u16) {
        let (id, _, payload, before) = self.take(at);
        let deliveries = self.deliveries.remove(&id).unwrap_or(0).saturating_add(1);
        self.deliveries.insert(id.clone(), deliveries);
        self.end_lease(&id);
        if let Some(token) = token {
            let since = Since::new(deadline.saturating_sub(ttl), before).stored();
            self.since.insert(id.clone(), since);
            self.tokens.insert(id.clone(), token);
        }
        self.turns.hold(&id, token.is_some(), deadline);
        self.push((id.clone(), ttl, payload, deadline));
        self.turns.settle(&self.elements);
        (id, deliveries)
    }

    /// Returns the deadline that the element had, its id and its deliveries.
    pub(super) fn lease_due(
        &mut self,
        now: u64,
        ttl: u64,
        token: Option<Token>,
    ) -> Option<(u64, Vec<u8>, u16)> {
        let at = self.turns.next(&self.elements, now)?;
        self.check_held(at, now);
        self.counted.extend(self.turns.give(now));
        let before = self.elements[at].3;
        let (id, deliveries) = self.lease(at, ttl, (now + ttl).min(DEADLINE_MAX), token);
        Some((before, id, deliveries))
    }

    /// Panics if the group of an element that is about to be leased holds as many as it may.
    fn check_held(&self, at: usize, now: u64) {
        let group = self.turns.group(&self.elements[at].0);
        let is_held = |(id, .., deadline): &&Stored| {
            self.turns.group(id) == group
                && self.tokens.contains_key(id)
                && *deadline > now
                && *deadline < DEADLINE_MAX
        };
        if let Some(max) = self.turns.held_max(group) {
            assert!((self.elements.iter().filter(is_held).count() as u64) < max);
        }
    }

    pub(super) fn ordered(&self) -> Vec<(u64, &[u8], &[u8], u64)> {
        let mut all: Vec<_> = self
            .elements
            .iter()
            .map(|(id, ttl, payload, at)| (*ttl, &id[..], &payload[..], *at))
            .collect();
        all.sort_by_key(|element| element.3);
        all
    }
}
