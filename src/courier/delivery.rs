//! Copies of elements that are on their way.
//!
//! Copied, because the commands that move them may call others that listen, who may do as they like.

use crate::data_type::REJECTED;
use crate::server::{OwnedStr, Str};
use lawn::{Element, Lawn, Token};

/// Elements that are delivered before their removal is told: a few, so that the time that takes is
/// within the budget too.
pub(super) const BATCH: usize = 64;
/// Bytes of elements in a batch, but for the last one: they are copied, and copied again by what takes them.
pub(super) const BATCH_BYTES: usize = 64 * 1024;

/// What an element is delivered as.
pub(super) struct Delivery {
    pub(super) id: OwnedStr,
    pub(super) element: OwnedStr,
    pub(super) deadline: u64,
    pub(super) deliveries: u16,
    /// Who rejects it, if somebody does.
    pub(super) rejected: Option<Rejected>,
}

/// The token of who holds an element and rejects it, and which of those that are named it is.
pub(super) struct Rejected {
    pub(super) token: Token,
    pub(super) at: usize,
}

impl Delivery {
    pub(super) fn new(element: Element<'_>, rejected: Option<Rejected>) -> Self {
        Self {
            id: OwnedStr::new(element.id),
            element: OwnedStr::new(element.payload),
            deadline: element.deadline,
            deliveries: element.deliveries,
            rejected,
        }
    }

    /// Returns whether somebody who listens has rejected the element that was copied while that was being sent.
    pub(super) fn is_put_aside(&self, lawn: &Lawn) -> bool {
        let row = lawn.row(self.id.as_str().bytes()).filter(|row| row.ttl == REJECTED);
        row.is_some_and(|row| {
            row.element.payload == self.element.as_str().bytes()
                && row.element.deliveries == self.deliveries
        })
    }

    /// Returns whether nobody who listens has changed what the element says since it was copied. Such a one goes with the next.
    pub(super) fn is_as_copied(&self, lawn: &Lawn) -> bool {
        let element = lawn.look(self.id.as_str().bytes());
        element.is_some_and(|element| element.payload == self.element.as_str().bytes())
    }

    /// Returns whether the element that was copied is still there, waits for the same time, and is held by who rejects it.
    pub(super) fn is_in(&self, lawn: &Lawn) -> bool {
        let id = self.id.as_str().bytes();
        let is_held = self.rejected.as_ref().is_none_or(|it| lawn.holds(id, it.token));
        is_held
            && lawn.look(id).is_some_and(|element| {
                element.deadline == self.deadline && element.deliveries == self.deliveries
            })
    }
}

/// Copies of the first of these that are held, from the one at `next` on, which then is behind the last that was looked at.
pub(super) fn batch_of_held(
    lawn: &Lawn,
    held: &[(Token, Str<'_>)],
    next: &mut usize,
) -> Vec<Delivery> {
    let (mut batch, mut bytes) = (Vec::<Delivery>::new(), 0);
    while *next < held.len() && batch.len() < BATCH && bytes < BATCH_BYTES {
        let at = *next;
        let (token, id) = held[at];
        *next += 1;
        let is_twice = || batch.iter().any(|other| other.id.as_str().bytes() == id.bytes());
        if lawn.holds(id.bytes(), token)
            && !is_twice()
            && let Some(element) = lawn.look(id.bytes())
        {
            bytes += element.payload.len();
            batch.push(Delivery::new(element, Some(Rejected { token, at })));
        }
    }
    batch
}

/// Copies of the first of these elements.
pub(super) fn batch_of<'a>(elements: impl Iterator<Item = Element<'a>>) -> Vec<Delivery> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for element in elements.take(BATCH) {
        bytes += element.payload.len();
        batch.push(Delivery::new(element, None));
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    batch
}
