//! Restarting timers of elements in a key, each with its effect.

use super::dehydrator::{is_stuck_timer, set_until};
use super::{Dehydrator, Writing};
use crate::replicate::{Batch, Timer};
use lawn::{Lawn, UpdateError};

/// Elements whose timers are restarted, and the effect that says so: what restarts one adds it to the effect.
#[must_use]
pub struct Restarts<'a> {
    /// `None`: the key has no dehydrator.
    dehydrator: Option<&'a mut Dehydrator>,
    /// `None`: the caller replicates the effect as it was sent.
    effect: Option<Batch<'a>>,
}

impl Writing<'_> {
    /// Begins to restart timers.
    #[inline]
    pub fn restarts(&mut self) -> Restarts<'_> {
        let effect = Some(Batch::restarts(self.context, self.name));
        Restarts { dehydrator: self.changing(), effect }
    }

    /// Begins to restart timers as an effect says. The caller replicates it as it is.
    pub fn restarts_as_told(&mut self) -> Restarts<'_> {
        Restarts { dehydrator: self.changing(), effect: None }
    }
}

impl Restarts<'_> {
    #[inline]
    pub fn lawn(&self) -> Option<&Lawn> {
        self.dehydrator.as_deref().map(|dehydrator| &dehydrator.lawn)
    }

    /// Restarts the timer of an element, and sets the end of one that has an end. A ttl of 0 gives a held element back. Returns
    /// whether the element was there.
    #[inline]
    pub fn restart(&mut self, id: &[u8], timer: Timer, until: Option<u64>) -> bool {
        let Some(dehydrator) = self.dehydrator.as_deref_mut() else { return false };
        let Timer { ttl, deadline } = timer;
        if !dehydrator.lawn.restart_at(id, ttl, deadline) {
            return false;
        }
        // The effect says what was stored.
        let until = until.and_then(|until| set_until(&mut dehydrator.lawn, id, until));
        if is_stuck_timer(ttl, deadline) {
            dehydrator.tracking.note_stuck(true);
        }
        if let Some(effect) = &mut self.effect {
            effect.restarted(id, timer, until);
        }
        true
    }

    /// Gives a held element back, as if its last delivery had not been: before all others with this deadline. Returns whether the
    /// element was there.
    pub fn give_back_uncounted(&mut self, id: &[u8], deadline: u64) -> bool {
        let Some(Dehydrator { lawn, .. }) = self.dehydrator.as_deref_mut() else { return false };
        if !lawn.put_first(id, deadline) {
            return false;
        }
        let deliveries = lawn.look(id).map_or(0, |element| element.deliveries);
        lawn.set_deliveries(id, deliveries.saturating_sub(1), None);
        if let Some(effect) = &mut self.effect {
            effect.uncounted(id, deadline);
        }
        true
    }

    /// Keeps the reason why an element was given back or rejected; an empty one is none. Returns whether the element was there.
    pub fn keep_reason(&mut self, id: &[u8], reason: &[u8]) -> bool {
        let Some(Dehydrator { lawn, .. }) = self.dehydrator.as_deref_mut() else { return false };
        if !lawn.set_reason(id, reason) {
            return false;
        }
        if let Some(effect) = &mut self.effect {
            effect.reasoned(id, reason);
        }
        true
    }

    /// Replaces an element. Fails with [`UpdateError`]; then nothing has changed.
    pub fn update(&mut self, id: &[u8], element: &[u8]) -> Result<(), UpdateError> {
        let Some(dehydrator) = self.dehydrator.as_deref_mut() else {
            return Err(UpdateError::Missing);
        };
        drop(dehydrator.lawn.update(id, element)?);
        if let Some(effect) = &mut self.effect {
            effect.updated(id, element);
        }
        Ok(())
    }

    /// Replicates the restarts. Returns whether there were any.
    pub fn finish(self) -> bool {
        self.effect.is_some_and(Batch::finish)
    }
}
