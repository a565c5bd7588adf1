//! An element in the model.

use super::{Bytes, NEVER};

/// The place in the order of delivery: the deadline, and the number of the push, the lease or the touch.
pub type Place = (u64, u64);

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: Bytes,
    pub element: Bytes,
    pub deadline: u64,
    pub sequence: u64,
    pub ttl: u64,
    pub deliveries: u64,
    pub token: Option<Bytes>,
    /// The deadline before the lease under this token, or the begin of that.
    pub was_due: u64,
    /// Its own maximum number of deliveries, or 0.
    pub most: u64,
    /// When it is too late to be given out, without any bound of a representation.
    pub until: Option<i128>,
    pub group: Bytes,
    /// Why it was given back.
    pub reason: Bytes,
}

impl Entry {
    /// Returns an element without a lease, a group, an end and options.
    pub fn new(id: Bytes, element: Bytes, (deadline, sequence): Place) -> Self {
        Self {
            id,
            element,
            deadline,
            sequence,
            ttl: 0,
            deliveries: 0,
            token: None,
            was_due: 0,
            most: 0,
            until: None,
            group: Bytes::new(),
            reason: Bytes::new(),
        }
    }

    pub fn place(&self) -> Place {
        (self.deadline, self.sequence)
    }

    /// Returns when it expires.
    pub fn end(&self) -> Option<u64> {
        let until = self.until?.max(i128::from(self.deadline));
        Some(u64::try_from(until).unwrap_or(u64::MAX))
    }

    pub fn is_late(&self, now: u64) -> bool {
        self.end().is_some_and(|end| end <= now)
    }

    pub fn runs(&self, now: u64) -> bool {
        self.token.is_some() && self.deadline > now && self.deadline < NEVER
    }
}
