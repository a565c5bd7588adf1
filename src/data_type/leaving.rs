//! Taking elements out of a dehydrator that may remember their ids, and forgetting those.

use super::dehydrator::Dehydrator;
use super::dehydrator_in;
use super::past::{FORGOTTEN, Past};
use super::writing::Writing;
use crate::pending::compaction;
use crate::server::guard::AbortOnPanic;
use crate::server::hold::Hold;
use crate::server::key::Name;
use crate::server::{Context, Key, OwnedStr};
use lawn::{DEADLINE_MAX, Element, Lawn};

/// A lawn out of which elements are taken, and what remembers their ids.
pub struct Leaving<'a> {
    pub lawn: &'a mut Lawn,
    past: &'a mut Past,
    /// Until when they are remembered, if they are, and the time.
    until: Option<(u64, u64)>,
}

impl Leaving<'_> {
    /// Does what [`Lawn::drain`] does.
    #[inline]
    pub fn drain(
        &mut self,
        now: u64,
        count: usize,
        mut give: impl FnMut(u64, Element<'_>),
    ) -> usize {
        let Self { lawn, past, until } = self;
        let mut remembers = until.map(|(until, moment)| (past.ids_of(lawn), until, moment));
        let drained = lawn.drain(now, count, |ttl, element| {
            if let Some((ids, until, _)) = &mut remembers {
                ids.insert(element.id, *until);
            }
            give(ttl, element);
        });
        if let Some((ids, _, moment)) = remembers {
            ids.forget(moment, drained.saturating_mul(FORGOTTEN));
        }
        drained
    }

    /// Takes an element out for good. Returns whether it was there.
    #[inline]
    pub fn settle(&mut self, id: &[u8]) -> bool {
        let is_there = self.lawn.stop(id).is_some();
        if is_there {
            self.left(id);
        }
        is_there
    }

    /// Says that the element of an id was taken out.
    #[inline]
    pub fn left(&mut self, id: &[u8]) {
        if let Some((until, now)) = self.until {
            self.past.remember(self.lawn, id, until, now);
        }
    }
}

impl Writing<'_> {
    /// Returns until when ids of elements are remembered that are settled, taken or delivered now, if they are.
    #[inline]
    pub fn remembers_until(&mut self) -> Option<u64> {
        let ms = self.limits().map_or(0, |limits| limits.remember);
        (ms > 0).then(|| self.now().saturating_add(ms).min(DEADLINE_MAX))
    }

    /// Returns the lawn to take elements out of it, whose ids are remembered until that moment, if they are: see
    /// [`Writing::lawn`].
    #[inline(always)]
    pub fn leaving(&mut self, until: Option<u64>) -> Option<Leaving<'_>> {
        let until = until.map(|until| (until, self.now()));
        self.lawn()?;
        self.existing().map(|Dehydrator { lawn, past, .. }| Leaving { lawn, past, until })
    }

    /// Returns whether an id is remembered: who puts it away is told that it is there.
    #[inline]
    pub fn remembers(&mut self, id: &[u8]) -> bool {
        self.has_past() && self.remembers_really(id)
    }

    #[cold]
    fn remembers_really(&mut self, id: &[u8]) -> bool {
        let now = self.now();
        self.existing().is_some_and(|dehydrator| dehydrator.past.contains(id, now))
    }

    /// Returns whether any id may be remembered.
    #[inline]
    pub fn has_past(&mut self) -> bool {
        self.existing().is_some_and(|dehydrator| dehydrator.past.ids().is_some())
    }

    /// Forgets an id, because an element of that id was put away.
    #[inline]
    pub fn forget(&mut self, id: &[u8]) {
        self.existing().into_iter().for_each(|dehydrator| dehydrator.past.forget(id));
    }
}

/// Forgets ids whose time is over at `now`, and notes the memory that can be given back then. Nothing else that can be read
/// changes, so nothing is signalled. `go_on` is asked after every few.
pub fn forget_some(context: &Context, name: &Name, now: u64, mut go_on: impl FnMut() -> bool) {
    /// Some ten microseconds' work.
    const IDS: usize = 128;
    let sent = OwnedStr::new(&name.key);
    let key = Key::open_to_inspect(context, sent.as_str());
    let value = key.as_ref().and_then(|key| dehydrator_in(key).ok()?);
    let Some(mut value) = value else { return compaction::end_round() };
    let _hold = Hold::begin();
    // SAFETY: as in `Reading::dehydrator`. The key is open for reading so that nobody's WATCH breaks.
    let dehydrator = unsafe { value.as_mut() };
    dehydrator.past.looked_at();
    let _whole = AbortOnPanic::begin();
    if let Some(ids) = dehydrator.past.ids_mut() {
        while ids.forget(now, IDS) > 0 && go_on() {}
    }
    dehydrator.past.note_from(name.db, &name.key, now);
    dehydrator.note_memory(name.db, &name.key);
}
