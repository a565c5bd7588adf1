//! Removing elements, and remembering their ids.

use lawn::{Element, Lawn, Remembered};

/// Expired ids to forget for each id that is remembered: more than one, so that expired ids get fewer.
const FORGOTTEN_PER_ID: usize = 3;

/// A lawn from which elements are removed, and the ids that are remembered after that. An id is in the lawn or remembered,
/// never both: storing an element forgets its id.
pub struct Removal<'a> {
    pub lawn: &'a mut Lawn,
    pub(super) remembered: &'a mut Remembered,
    /// Until when the removed ids are remembered, if they are, and the present time.
    pub(super) until: Option<(u64, u64)>,
}

impl Removal<'_> {
    /// Removes due elements as [`Lawn::drain`] does.
    #[inline]
    pub fn drain(
        &mut self,
        now: u64,
        count: usize,
        mut give: impl FnMut(u64, Element<'_>),
    ) -> usize {
        let Self { lawn, remembered, until } = self;
        let until = until.map(|(until, moment)| (lawn.another(), until, moment));
        let drained = lawn.drain(now, count, |ttl, element| {
            if let Some((beside, until, _)) = &until {
                remembered.insert(beside, element.id, *until);
            }
            give(ttl, element);
        });
        if let Some((.., moment)) = until {
            remembered.forget(moment, drained.saturating_mul(FORGOTTEN_PER_ID));
        }
        drained
    }

    /// Removes an element for good. Returns whether it was there.
    #[inline]
    pub fn settle(&mut self, id: &[u8]) -> bool {
        let is_there = self.lawn.stop(id).is_some();
        if is_there {
            self.remember(id);
        }
        is_there
    }

    /// Removes an element for good, as [`Removal::settle`] does, and counts it as given out in its group's turn at `now`.
    pub fn give(&mut self, id: &[u8], now: u64) -> bool {
        let is_there = self.lawn.stop_in_turn(id, now).is_some();
        if is_there {
            self.remember(id);
        }
        is_there
    }

    /// Remembers the id of a removed element, if ids are remembered.
    #[inline]
    pub fn remember(&mut self, id: &[u8]) {
        if let Some((until, now)) = self.until {
            self.remembered.insert(self.lawn, id, until);
            self.remembered.forget(now, FORGOTTEN_PER_ID);
        }
    }
}
