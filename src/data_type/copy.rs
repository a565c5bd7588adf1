//! Copies of elements, for as long as the elements themselves may change or go: while a command that delivers them calls
//! clients' listeners, and while they are on their way to a client.

use super::{REJECTED, STUCK};
use crate::server::OwnedStr;
use lawn::{Bounds, Element, Lawn, Next, Row, Since, Token};

/// A copy of an element, as it was before anything was done with it. What becomes the server's words is copied into its strings,
/// anything else into plain bytes, which cost half as much.
pub struct ElementCopy<T = OwnedStr> {
    pub id: T,
    pub payload: T,
    pub ttl: u64,
    pub deadline: u64,
    pub deliveries: u16,
    pub bounds: Bounds,
    /// The token under which it is held, where that matters.
    pub token: Option<Token>,
    /// Since when it is held, where that matters, if it is known.
    pub since: Option<Since>,
    /// The name of its group, if it is in one.
    pub group: Option<T>,
    /// Why it was given back the last time, if that was said.
    pub reason: Option<T>,
}

impl<T: AsRef<[u8]> + for<'a> From<&'a [u8]>> ElementCopy<T> {
    pub fn new(element: Element<'_>, ttl: u64, token: Option<Token>) -> Self {
        let Element { id, payload, deadline, deliveries, bounds, .. } = element;
        let (id, payload) = (id.into(), payload.into());
        let (since, group, reason) = (None, None, None);
        Self { id, payload, ttl, deadline, deliveries, bounds, token, since, group, reason }
    }

    /// Copies the element that is given out next, whose row is `row`.
    pub fn next(next: &Next<'_>, row: Row<'_>) -> Self {
        let group = next.group(&row.element).map(T::from);
        let since = next.held_since(&row.element);
        let reason = next.reason(&row.element).map(T::from);
        Self { group, since, reason, ..Self::new(row.element, row.ttl, next.token()) }
    }

    /// Returns the element as it was, without its group.
    pub fn element(&self) -> Element<'_> {
        let Self { deadline, deliveries, bounds, .. } = *self;
        let (id, payload) = (self.id.as_ref(), self.payload.as_ref());
        Element { id, payload, deadline, deliveries, bounds, group: None }
    }
}

impl ElementCopy {
    /// Copies an element of a lawn, whoever holds it, with the name of its group and its reason.
    pub fn of(lawn: &Lawn, row: Row<'_>) -> Self {
        let group = row.element.group.map(|group| OwnedStr::new(lawn.group_name(group)));
        let reason = lawn.reason(row.element.id).map(OwnedStr::new);
        Self { group, reason, ..Self::new(row.element, row.ttl, None) }
    }

    /// Returns whether the element leaves because it is too late to be given out, and was not rejected.
    pub fn is_expired(&self, now: u64) -> bool {
        self.bounds.is_past(now) && self.token.is_none() && !was_rejected(self.ttl, self.deadline)
    }

    /// Returns the element in the lawn, perhaps with another payload, if it has the same deadline and deliveries, and is
    /// held as it was.
    pub fn find<'a>(&self, lawn: &'a Lawn) -> Option<Element<'a>> {
        let found = lawn.look(self.id.bytes())?;
        let is_held = self.token.is_none_or(|token| lawn.holds(self.id.bytes(), token));
        let is_same = found.deadline == self.deadline && found.deliveries == self.deliveries;
        (is_held && is_same).then_some(found)
    }

    /// Returns whether the lawn has the element among the dead letters that were rejected and are stuck.
    pub fn is_rejected(&self, lawn: &Lawn) -> bool {
        lawn.row(self.id.bytes()).is_some_and(|row| {
            was_rejected(row.ttl, row.element.deadline)
                && row.element.payload == self.payload.bytes()
                && row.element.deliveries == self.deliveries
        })
    }
}

/// Returns whether this is the timer of an element that was rejected and is stuck. The TTL alone may be a client's.
fn was_rejected(ttl: u64, deadline: u64) -> bool {
    (ttl, deadline) == (REJECTED, STUCK)
}
