//! Queues whose heads may be looked at later: see [`Queues::settle`](super::queues::Queues::settle).

use super::super::tiny::TINY;
use super::heads::QueueNumber;

/// Queues whose heads may be looked at later. Who wants to know which is first looks at all of them: some microseconds at the
/// most.
const UNSETTLED_MAX: usize = if TINY { 2 } else { 16 };

/// A few queues, in the order in which they came.
#[derive(Clone)]
pub(super) struct Unsettled {
    /// Behind the last of them [`NONE`], so that all can be compared at once.
    numbers: [QueueNumber; UNSETTLED_MAX],
    len: u8,
}

/// No queue's number.
const NONE: QueueNumber = QueueNumber::MAX;

impl Default for Unsettled {
    fn default() -> Self {
        Self { numbers: [NONE; UNSETTLED_MAX], len: 0 }
    }
}

impl Unsettled {
    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = QueueNumber> + '_ {
        self.numbers[..self.len()].iter().copied()
    }

    pub(super) fn has(&self, number: QueueNumber) -> bool {
        // Without a branch: it is asked whenever a queue loses its head.
        self.numbers.iter().fold(false, |has, it| has | (*it == number))
    }

    /// Adds a queue that is not here yet. If there is no room, the oldest one goes and is returned.
    pub(super) fn add(&mut self, number: QueueNumber) -> Option<QueueNumber> {
        let oldest = (self.len() == UNSETTLED_MAX).then_some(self.numbers[0]);
        if oldest.is_some() {
            self.numbers.copy_within(1.., 0);
            self.len -= 1;
        }
        self.numbers[self.len()] = number;
        self.len += 1;
        oldest
    }

    pub(super) fn remove(&mut self, number: QueueNumber) {
        let at = self.iter().position(|it| it == number);
        if let Some(at) = at {
            self.numbers.copy_within(at + 1.., at);
            self.len -= 1;
            self.numbers[self.len()] = NONE;
        }
    }
}
