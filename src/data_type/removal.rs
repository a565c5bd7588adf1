//! Removing elements, and remembering their ids.

use super::remembered_ids::{FORGOTTEN_PER_ID, RememberedIds};
use lawn::{Element, Lawn};

/// A lawn from which elements are removed, and the ids that it remembers.
pub struct Removal<'a> {
    pub lawn: &'a mut Lawn,
    pub(super) remembered: &'a mut RememberedIds,
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
        let mut remembers = until.map(|(until, moment)| (remembered.ids_of(lawn), until, moment));
        let drained = lawn.drain(now, count, |ttl, element| {
            if let Some((ids, until, _)) = &mut remembers {
                ids.insert(element.id, *until);
            }
            give(ttl, element);
        });
        if let Some((ids, _, moment)) = remembers {
            ids.forget(moment, drained.saturating_mul(FORGOTTEN_PER_ID));
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

    /// Remembers the id of a removed element, if ids are remembered.
    #[inline]
    pub fn remember(&mut self, id: &[u8]) {
        if let Some((until, now)) = self.until {
            self.remembered.remember(self.lawn, id, until, now);
        }
    }
}
