//! Removing elements from a key, each with its effect, and remembering their ids.

use super::{Dehydrator, Writing};
use crate::replicate::{self, Batch};
use crate::server::string::Args;
use crate::server::{CommandContext, Str};
use lawn::{Aside, Element, Lawn, Next, Token};

/// Expired ids to forget for each id that is remembered: more than one, so that expired ids get fewer.
const FORGOTTEN_PER_ID: usize = 3;

/// Elements that are removed from a key, and the effect that says so: whatever takes one out adds it to the effect. An id is in
/// the lawn or remembered, never both: storing an element forgets its id.
#[must_use]
pub struct Removal<'a> {
    /// `None`: the key has no dehydrator.
    lawn: Option<&'a mut Lawn>,
    rest: Rest<'a>,
}

/// The rest of a removal, when an element has left the lawn.
struct Rest<'a> {
    /// The ids that are remembered, until when, and the present time, if the key remembers ids.
    remembered: Option<(&'a mut Aside, u64, u64)>,
    effect: Batch<'a>,
}

/// An element that can be removed, before it is.
pub struct Leaving<'a, 'e> {
    pub next: Next<'a>,
    rest: &'a mut Rest<'e>,
}

impl Writing<'_> {
    /// Begins to remove elements. Remembers their ids until `until`, if given.
    #[inline(always)]
    pub fn removal(&mut self, until: Option<u64>) -> Removal<'_> {
        let effect = Batch::removed(self.context, self.name, until);
        let until = until.map(|until| (until, self.now()));
        let Some(Dehydrator { lawn, remembered, .. }) = self.changing() else {
            return Removal { lawn: None, rest: Rest { remembered: None, effect } };
        };
        let remembered = until.map(|(until, now)| (remembered, until, now));
        Removal { lawn: Some(lawn), rest: Rest { remembered, effect } }
    }

    /// Removes elements as an effect says, and remembers all these ids until `until`, if given, also of those that are not there.
    /// Returns how many elements were there. The caller replicates the effect as it is.
    pub fn remove_as_told<'i>(
        &mut self,
        ids: impl Iterator<Item = &'i [u8]>,
        until: Option<u64>,
    ) -> i64 {
        let now = self.now();
        let Some(Dehydrator { lawn, remembered, .. }) = self.changing() else { return 0 };
        let mut count = 0;
        for id in ids {
            count += i64::from(lawn.stop(id).is_some());
            if let Some(until) = until {
                remember(remembered, lawn, id, (until, now));
            }
        }
        count
    }
}

fn remember(remembered: &mut Aside, beside: &Lawn, id: &[u8], (until, now): (u64, u64)) {
    remembered.insert(beside, id, until);
    remembered.forget(now, FORGOTTEN_PER_ID);
}

impl<'a> Removal<'a> {
    pub fn lawn(&self) -> Option<&Lawn> {
        self.lawn.as_deref()
    }

    /// Removes up to `count` due elements as [`Lawn::drain`] does. Returns how many.
    #[inline]
    pub fn drain(&mut self, now: u64, count: usize, mut give: impl FnMut(Element<'_>)) -> usize {
        let Some(lawn) = self.lawn.as_deref_mut() else { return 0 };
        let Rest { remembered, effect } = &mut self.rest;
        let beside = remembered.is_some().then(|| lawn.another());
        let drained = lawn.drain(now, count, |_, element| {
            if let (Some(beside), Some((remembered, until, _))) = (&beside, &mut *remembered) {
                remembered.insert(beside, element.id, *until);
            }
            give(element);
            effect.push(element.id);
        });
        if let Some((remembered, _, now)) = remembered {
            remembered.forget(*now, drained.saturating_mul(FORGOTTEN_PER_ID));
        }
        drained
    }

    /// Returns the element that is given out next: see [`Lawn::next_due`].
    pub fn next_due(&mut self, now: u64) -> Option<Leaving<'_, 'a>> {
        let next = self.lawn.as_deref_mut()?.next_due(now)?;
        Some(Leaving { next, rest: &mut self.rest })
    }

    #[inline]
    pub fn take(&mut self, id: Str<'a>, give: impl FnOnce(Element<'_>)) -> bool {
        self.take_by(id, |lawn| lawn.stop(id.bytes()).map(|taken| give(taken.element())).is_some())
    }

    /// Removes the only element of a command `<verb> key id`, and replicates that. Returns whether it was there.
    pub fn take_only(
        mut self,
        context: &CommandContext,
        args: Args<'_>,
        id: Str<'a>,
        give: impl FnOnce(Element<'_>),
    ) -> bool {
        if self.rest.remembered.is_some() {
            return self.take(id, give) && self.finish();
        }
        let taken = self.lawn.and_then(|lawn| lawn.stop(id.bytes()));
        let is_there = taken.map(|taken| give(taken.element())).is_some();
        if is_there {
            // The command is its own effect. With an append-only file, another one costs a quarter more.
            replicate::as_sent(context, args, c"DEHYDRATOR.REM");
        }
        is_there
    }

    /// Removes an element if it is held under this token. Returns whether it was.
    #[inline]
    pub fn settle(&mut self, id: Str<'a>, token: Token) -> bool {
        self.take_by(id, |lawn| lawn.settle(id.bytes(), token).is_some())
    }

    /// Removes an element, and counts it as given out in its group's turn at `now`. Returns whether it was there.
    pub fn give(&mut self, id: Str<'a>, now: u64) -> bool {
        self.take_by(id, |lawn| lawn.stop_in_turn(id.bytes(), now).is_some())
    }

    /// Removes an element whose id no client has sent. Returns whether it was there.
    pub fn remove(&mut self, id: &[u8]) -> bool {
        let Some(lawn) = self.lawn.as_deref_mut() else { return false };
        let is_there = lawn.stop(id).is_some();
        if is_there {
            self.rest.remember(lawn, id);
            self.rest.effect.push(id);
        }
        is_there
    }

    #[inline(always)]
    fn take_by(&mut self, id: Str<'a>, take: impl FnOnce(&mut Lawn) -> bool) -> bool {
        let Some(lawn) = self.lawn.as_deref_mut() else { return false };
        let is_there = take(lawn);
        if is_there {
            self.rest.remember(lawn, id.bytes());
            self.rest.effect.push_sent(id);
        }
        is_there
    }

    /// Replicates the removal. Returns whether there was any.
    pub fn finish(self) -> bool {
        self.rest.effect.finish()
    }
}

impl Rest<'_> {
    #[inline]
    fn remember(&mut self, beside: &Lawn, id: &[u8]) {
        if let Some((remembered, until, now)) = &mut self.remembered {
            remember(remembered, beside, id, (*until, *now));
        }
    }
}

impl Leaving<'_, '_> {
    pub fn take(self, give: impl FnOnce(Element<'_>)) {
        let Self { next, rest } = self;
        let beside = rest.remembered.is_some().then(|| next.another());
        let taken = next.take();
        let element = taken.element();
        give(element);
        if let Some(beside) = beside {
            rest.remember(&beside, element.id);
        }
        rest.effect.push(element.id);
    }
}
