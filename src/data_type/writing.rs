//! Changing a key: [`Writing`] opens it, and [`Removal`] removes elements and remembers their ids.

use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr::NonNull;

use super::dehydrator::{self, CensusShare, Dehydrator};
use super::remembered_ids::{FORGOTTEN_PER_ID, RememberedIds};
use super::{dehydrator_in, is_scheduled, kind, new_lawn};
use crate::clock;
use crate::metrics::latency::OverdueSince;
use crate::pending::agenda;
use crate::pending::blocked::{self, Outlook};
use crate::policy::{LimitChange, Limits, Pause, Policy, Rules, Trust};
use crate::replicate;
use crate::server::error::Result;
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::hold::Hold;
use crate::server::key::Name;
use crate::server::{Context, Key, Str};
use lawn::{DEADLINE_MAX, Element, Lawn};

/// A dehydrator that is open for a change.
///
/// *Others listen.* A keyspace event is a call out: another module may change this key or any other before it returns.
/// So nothing is held across one: no open key, value or decision. A new dehydrator is put into its key after replicas
/// have been told; an empty one is deleted, and the key closed, before the event is published.
///
/// *All or nothing.* From the first possible change until replicas were told and the key is closed, a panic ends the
/// process.
pub struct Writing<'a> {
    /// Set from the first possible change on. `drop` ends it before anything else, so a panic ends the process before
    /// anything here is freed.
    whole: Option<AbortOnPanic>,
    context: &'a Context,
    name: Str<'a>,
    /// Open until an event is published.
    key: Option<Key<'a>>,
    /// The key's value.
    value: Option<NonNull<Dehydrator>>,
    /// The right to refer to `value`.
    hold: Option<Hold>,
    /// The value to put into the key, if there was none.
    new: Option<Dehydrator>,
    /// Whether the key holds an idle dehydrator, which only ReDe's dumps contain.
    is_leftover: bool,
    /// Whether the only change is that elements were added.
    has_grown: bool,
    /// The time of the change, in milliseconds since the epoch, once read.
    now: Option<u64>,
    /// The dehydrator's share of the census before the change, once one may have begun.
    counted: Option<CensusShare>,
}

impl<'a> Writing<'a> {
    /// Opens a key.
    ///
    /// # Errors
    ///
    /// [`Error::WrongType`](crate::server::Error::WrongType).
    pub fn open(context: &'a Context, name: Str<'a>) -> Result<Self> {
        let key = Key::open_to_write(context, name);
        let value = dehydrator_in(&key)?;
        trap::pass("open");
        let (key, hold, whole) = (Some(key), Some(Hold::begin()), None);
        let (new, is_leftover, has_grown, now) = (None, false, false, None);
        let counted = None;
        Ok(Self {
            whole,
            context,
            name,
            key,
            value,
            hold,
            new,
            is_leftover,
            has_grown,
            now,
            counted,
        })
    }

    /// Opens a key, at a time that the caller has read from the clock.
    ///
    /// # Errors
    ///
    /// [`Error::WrongType`](crate::server::Error::WrongType).
    pub fn open_at(context: &'a Context, name: Str<'a>, now: u64) -> Result<Self> {
        let mut writing = Self::open(context, name)?;
        writing.now = Some(now);
        Ok(writing)
    }

    /// Returns the time of the change, in milliseconds since the epoch. It is the same for as long as the key is open.
    pub fn now(&mut self) -> u64 {
        *self.now.get_or_insert_with(clock::now)
    }

    /// Returns the lawn for a change, if there is a dehydrator. An idle one, which only ReDe's dumps contain, counts as
    /// none, and is deleted at the end.
    #[inline]
    pub fn lawn(&mut self) -> Option<&mut Lawn> {
        if self.existing().is_some_and(|dehydrator| dehydrator.is_idle()) {
            self.is_leftover = true;
            return None;
        }
        self.begin();
        self.existing().map(|dehydrator| &mut dehydrator.lawn)
    }

    /// Returns the lawn for reading, if there is a dehydrator.
    pub fn look(&mut self) -> Option<&Lawn> {
        self.existing().map(|dehydrator| &dehydrator.lawn)
    }

    /// Changes the lawn. Creates the dehydrator if there was none and the change succeeds.
    ///
    /// # Errors
    ///
    /// Those of `change`; then no key is created.
    pub fn lawn_or_new<T, E>(
        &mut self,
        change: impl FnOnce(&mut Lawn) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.value.is_some() {
            self.begin();
        }
        if let Some(dehydrator) = self.existing() {
            return change(&mut dehydrator.lawn);
        }
        let mut lawn = new_lawn();
        let changed = change(&mut lawn)?;
        self.begin();
        self.make(Dehydrator::new(lawn, Rules::default()));
        Ok(changed)
    }

    /// Creates a dehydrator.
    fn make(&mut self, new: Dehydrator) {
        self.counted = Some(new.census_share());
        self.new = Some(new);
    }

    /// Returns whether the change has created the dehydrator.
    pub fn is_new(&self) -> bool {
        self.new.is_some()
    }

    /// Returns the key's expiry, in milliseconds since the epoch.
    pub fn expiry(&self) -> Option<u64> {
        self.key.as_ref()?.expiry()
    }

    /// Returns since when due elements are overdue. `None`: since their deadlines, or there are none.
    #[inline(always)]
    pub fn overdue(&mut self) -> Option<OverdueSince> {
        self.existing().and_then(|dehydrator| dehydrator.overdue())
    }

    /// Returns when a blocked client could be served.
    pub fn outlook(&mut self) -> Outlook {
        self.existing().map_or(Outlook::Next(None), |dehydrator| dehydrator.outlook())
    }

    /// Returns the policy for due elements.
    pub fn policy(&mut self) -> &Policy {
        const NONE: &Policy = &Policy::Hold;
        self.existing().map_or(NONE, |dehydrator| &dehydrator.rules().policy)
    }

    /// Sets the policy of a dehydrator that the change has created. Returns whether there is one.
    pub fn set_policy_of_new(&mut self, policy: Policy) -> bool {
        let Some(new) = &mut self.new else { return false };
        new.change_rules(|rules| rules.policy = policy);
        true
    }

    /// Sets the policy for due elements and the trust in it. Creates a dehydrator if there was none, unless it would be
    /// idle. Returns whether anything has changed.
    pub fn set_policy(&mut self, policy: Policy, trust: Trust) -> bool {
        self.begin();
        match self.existing() {
            Some(dehydrator) => {
                let rules = dehydrator.rules();
                if rules.policy == policy && rules.trust == trust {
                    return false;
                }
                dehydrator.change_rules(|rules| (rules.policy, rules.trust) = (policy, trust));
                // An append-only file adds elements before it sets the policy.
                dehydrator.look_for_stuck();
            }
            None if policy == Policy::Hold => return false,
            None => {
                let rules = Rules { policy, trust, ..Rules::default() };
                self.make(Dehydrator::new(new_lawn(), rules));
            }
        }
        true
    }

    /// Returns whether the dehydrator has the default rules: then there are no limits, and nothing else to check.
    #[inline]
    pub fn has_default_rules(&mut self) -> bool {
        self.existing().is_none_or(|dehydrator| dehydrator.has_default_rules())
    }

    /// Returns whether the dehydrator is paused at `now`.
    pub fn is_paused(&mut self, now: u64) -> bool {
        self.existing().is_some_and(|dehydrator| dehydrator.is_paused(now))
    }

    /// Sets or ends a pause. Creates a dehydrator to pause if there was none. Returns whether anything has changed.
    pub fn set_pause(&mut self, pause: Option<Pause>) -> bool {
        self.begin();
        match self.existing() {
            Some(dehydrator) if dehydrator.rules().pause == pause => return false,
            Some(dehydrator) => dehydrator.change_rules(|rules| rules.pause = pause),
            None if pause.is_none() => return false,
            None => {
                let rules = Rules { pause, ..Rules::default() };
                self.make(Dehydrator::new(new_lawn(), rules));
            }
        }
        true
    }

    /// Returns the limits, if there are any.
    #[inline]
    pub fn limits(&mut self) -> Option<&Limits> {
        self.existing().and_then(|dehydrator| dehydrator.rules().limits.as_deref())
    }

    /// Returns the limit of running leases, 0 if there is none.
    pub fn held_limit(&mut self) -> u64 {
        self.limits().map_or(0, |limits| limits.held)
    }

    /// Returns the limit of elements, 0 if there is none.
    #[inline]
    pub fn length_limit(&mut self) -> u64 {
        self.limits().map_or(0, |limits| limits.length)
    }

    /// Sets or removes limits. Creates a dehydrator if there was none, unless it would be idle. Returns whether
    /// anything has changed.
    pub fn set_limits(&mut self, change: LimitChange) -> bool {
        self.begin();
        let new = self.limits().unwrap_or(&Limits::default()).changed(change);
        let limits = new.has_any().then(|| Box::new(new));
        match self.existing() {
            Some(dehydrator) if dehydrator.rules().limits == limits => return false,
            Some(dehydrator) => {
                dehydrator.change_rules(|rules| rules.limits = limits);
                dehydrator.drop_ids_if_disabled();
            }
            None if limits.is_none() => return false,
            None => {
                let rules = Rules { limits, ..Rules::default() };
                self.make(Dehydrator::new(new_lawn(), rules));
            }
        }
        true
    }

    /// Returns how many elements the limits allow to be given out at `now`.
    pub fn room(&mut self, now: u64) -> usize {
        self.existing().map_or(usize::MAX, |dehydrator| dehydrator.room(now))
    }

    /// Records that `count` elements were given out at `moment`. Returns whether a rate limits that.
    pub fn note_given(&mut self, moment: u64, count: u64) -> bool {
        self.begin();
        let rate = self.existing().and_then(|dehydrator| dehydrator.rate_mut());
        rate.map(|rate| rate.record(moment, count)).is_some()
    }

    /// Records an element's new TTL and deadline, which may mean that it is stuck.
    pub fn note_timer(&mut self, ttl: u64, deadline: u64) {
        if dehydrator::is_stuck_timer(ttl, deadline)
            && let Some(dehydrator) = self.existing()
        {
            dehydrator.tracking().note_stuck(true);
        }
    }

    /// Begins the change.
    #[inline]
    fn begin(&mut self) {
        if self.whole.is_none() {
            self.whole = Some(AbortOnPanic::begin());
            self.counted = self.existing().map(|dehydrator| dehydrator.census_share());
        }
    }

    /// Ends the change as [`Writing::changed`] does, where elements were only added: there is no more memory to give
    /// back than before.
    pub fn grown(mut self, event: &CStr) {
        self.has_grown = true;
        self.changed(event);
    }

    /// Ends the change after elements were added or changed, and publishes `event`. Replicas must have been told.
    pub fn changed(mut self, event: &CStr) {
        trap::pass("changed");
        self.close(IfIdle::Stays);
        self.whole = None;
        trap::pass("closed");
        self.context.signal_modified(self.name);
        self.context.notify_module(event, self.name);
        self.end();
    }

    /// Ends the change after elements were removed, and publishes `event`. Deletes an idle dehydrator, like every empty
    /// collection, before anybody hears of it: the key that a listener writes then is not ours to delete. Replicas must
    /// have been told.
    pub fn shrunk(mut self, event: &CStr) {
        trap::pass("shrunk");
        let is_deleted = self.close(IfIdle::Goes);
        self.whole = None;
        self.context.signal_modified(self.name);
        self.context.notify_module(event, self.name);
        if is_deleted {
            self.context.notify_deleted(self.name);
        }
        self.end();
    }

    /// Skips `drop` after [`Writing::close`]: nothing is left to release.
    #[inline]
    fn end(self) {
        debug_assert!(self.key.is_none() && self.hold.is_none(), "the key is still open");
        debug_assert!(self.new.is_none() && self.whole.is_none(), "something is left to release");
        if !self.is_leftover {
            mem::forget(self);
        }
    }

    /// Releases key and value, and records the dehydrator's future work: memory to give back, the next deadline.
    /// Returns whether the dehydrator was deleted.
    fn close(&mut self, if_idle: IfIdle) -> bool {
        let Some(mut key) = self.key.take() else { return false };
        let (context, name, value) = (self.context, self.name, self.value.take());
        let (mut new, mut is_idle) = (self.new.take(), false);
        let counted = self.counted;
        // SAFETY: as in `existing`; the value is used no more when this block ends.
        let dehydrator = new.as_mut().or(value.map(|mut value| unsafe { value.as_mut() }));
        if let Some(dehydrator) = dehydrator {
            follow_up(context, name, dehydrator, counted, self.now, self.has_grown);
            is_idle = if_idle == IfIdle::Goes && dehydrator.is_idle();
        }
        self.hold = None;
        if is_idle {
            key.delete();
            return true;
        }
        let Some(new) = new else { return false };
        let value = NonNull::from(Box::leak(Box::new(new)));
        // SAFETY: the callbacks of our type expect a leaked `Box<Dehydrator>`, and this one is fresh.
        unsafe { key.set_value(context, name, kind(), value.cast::<c_void>()) };
        false
    }

    /// Returns until when the ids of elements that are removed now are remembered, if they are.
    #[inline]
    pub fn remembers_until(&mut self) -> Option<u64> {
        let ms = self.limits().map_or(0, |limits| limits.remember);
        (ms > 0).then(|| self.now().saturating_add(ms).min(DEADLINE_MAX))
    }

    /// Returns the lawn for a removal, if there is a dehydrator: see [`Writing::lawn`]. Remembers the removed ids until
    /// `until`, if given.
    #[inline(always)]
    pub fn removal(&mut self, until: Option<u64>) -> Option<Removal<'_>> {
        let until = until.map(|until| (until, self.now()));
        self.lawn()?;
        self.existing().map(|Dehydrator { lawn, remembered, .. }| Removal {
            lawn,
            remembered,
            until,
        })
    }

    /// Returns whether an id is remembered, so that a push treats it as present.
    #[inline]
    pub fn remembers(&mut self, id: &[u8]) -> bool {
        self.remembers_any() && self.remembers_slow(id)
    }

    #[cold]
    fn remembers_slow(&mut self, id: &[u8]) -> bool {
        let now = self.now();
        self.existing().is_some_and(|dehydrator| dehydrator.remembered.contains(id, now))
    }

    /// Returns whether any ids may be remembered.
    #[inline]
    pub fn remembers_any(&mut self) -> bool {
        self.existing().is_some_and(|dehydrator| dehydrator.remembered.ids().is_some())
    }

    /// Forgets an id, because an element with it was stored.
    #[inline]
    pub fn forget(&mut self, id: &[u8]) {
        self.existing().into_iter().for_each(|dehydrator| dehydrator.remembered.forget(id));
    }

    #[inline]
    pub(super) fn existing(&mut self) -> Option<&mut Dehydrator> {
        // SAFETY: as in `Reading::dehydrator`: while there is a value here, it is held.
        self.value.as_mut().map(|value| unsafe { value.as_mut() })
    }
}

/// A lawn from which elements are removed, and the ids that it remembers.
pub struct Removal<'a> {
    pub lawn: &'a mut Lawn,
    remembered: &'a mut RememberedIds,
    /// Until when the removed ids are remembered, if they are, and the present time.
    until: Option<(u64, u64)>,
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

impl Drop for Writing<'_> {
    /// Closes the key. Records future work even without a change, because the key may have got another value since its
    /// name was recorded.
    fn drop(&mut self) {
        self.whole = None;
        // Replicas were told nothing, so nothing is created.
        self.new = None;
        self.close(IfIdle::Stays);
        if self.is_leftover {
            delete_leftover(self.context, self.name);
        }
    }
}

/// Records the future work of a dehydrator that was changed.
fn follow_up(
    context: &Context,
    name: Str<'_>,
    dehydrator: &mut Dehydrator,
    counted: Option<CensusShare>,
    now: Option<u64>,
    has_grown: bool,
) {
    counted.into_iter().for_each(|counted| counted.update_census(dehydrator));
    dehydrator.note_next(|| now.unwrap_or_else(clock::now));
    dehydrator.note_upkeep(has_grown, || (context.selected_db(), name.bytes()));
    blocked::note(context, name, || dehydrator.outlook());
    if is_scheduled(dehydrator) {
        let now = now.unwrap_or_else(clock::now);
        agenda::note(context, name, dehydrator.tracking(), dehydrator.next_task(now), now);
        if dehydrator.tracking().has_stuck() {
            agenda::note_stuck(&Name::of(context, name));
        }
    }
}

/// Restores the expiry of a key into which a dehydrator was put back, and tells replicas.
pub fn restore_expiry(context: &Context, name: Str<'_>, at: u64) {
    let mut key = Key::open_to_write(context, name);
    // Events have called out since.
    if matches!(dehydrator_in(&key), Ok(Some(_))) && key.expire_at(at) {
        replicate::expires(context, name, at);
    }
}

/// The treatment of an idle dehydrator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfIdle {
    Stays,
    Goes,
}

/// Deletes an idle dehydrator. Replicas do not know that it is idle.
pub(super) fn delete_leftover(context: &Context, name: Str<'_>) {
    let mut key = Key::open_to_write(context, name);
    let Ok(Some(value)) = dehydrator_in(&key) else { return };
    let hold = Hold::begin();
    // SAFETY: as in `Reading::dehydrator`; the key is open.
    let is_idle = unsafe { value.as_ref() }.is_idle();
    drop(hold);
    if !is_idle {
        return;
    }
    let whole = AbortOnPanic::begin();
    key.delete();
    drop(key);
    replicate::deleted(context, name);
    drop(whole);
    context.signal_modified(name);
    context.notify_deleted(name);
}
