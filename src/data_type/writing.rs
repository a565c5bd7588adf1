//! Changing what is in a key.

use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr::NonNull;

use super::dehydrator::{self, Counted, Dehydrator};
use super::{dehydrator_in, is_scheduled, kind, new_lawn};
use crate::clock;
use crate::metrics::latency::OverdueSince;
use crate::pending::blocked::{self, Outlook};
use crate::pending::{compaction, schedule};
use crate::policy::{LimitChange, Limits, Pause, Policy, Rules, Trust};
use crate::replicate;
use crate::server::error::Result;
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::hold::Hold;
use crate::server::key::Name;
use crate::server::{Context, Key, Str};
use lawn::Lawn;

/// A dehydrator that is open for changing it.
///
/// *Others listen.* A keyspace event is a call out: what another module does then, with this key or any
/// other, is done when the call returns. So nothing is held across one, neither an open key nor a value nor
/// a decision. A new dehydrator is put into its key when all is said that replicas must know; an empty one
/// is deleted, and the key closed, before the event is published.
///
/// *All or nothing.* From the moment at which it may have been changed, until replicas were told and it is closed, a
/// panic ends the process.
pub struct Writing<'a> {
    /// There is one from that moment on. It is the first field, so that a panic ends the process before anything else
    /// here is dropped.
    whole: Option<AbortOnPanic>,
    context: &'a Context,
    name: Str<'a>,
    /// Open until an event is published.
    key: Option<Key<'a>>,
    /// What is in the key.
    value: Option<NonNull<Dehydrator>>,
    /// The right to refer to it.
    hold: Option<Hold>,
    /// What will be in the key, if nothing is yet.
    new: Option<Dehydrator>,
    /// The key holds an idle dehydrator, which only ReDe's dumps do.
    is_leftover: bool,
    /// Whether all that was done is that elements were added.
    has_grown: bool,
    /// The time at which it is changed, in milliseconds since the epoch, once it has been read.
    now: Option<u64>,
    /// What it added to the census before it was changed, if it may have been.
    counted: Option<Counted>,
}

impl<'a> Writing<'a> {
    /// Opens it.
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

    /// Opens it, at a time that was read from the clock before.
    ///
    /// # Errors
    ///
    /// [`Error::WrongType`](crate::server::Error::WrongType).
    pub fn open_at(context: &'a Context, name: Str<'a>, now: u64) -> Result<Self> {
        let mut writing = Self::open(context, name)?;
        writing.now = Some(now);
        Ok(writing)
    }

    /// Returns the time, in milliseconds since the epoch: one for all that is done while it is open.
    pub fn now(&mut self) -> u64 {
        *self.now.get_or_insert_with(clock::now)
    }

    /// Returns the lawn, to change it, if there is a dehydrator. An idle one, which only ReDe's dumps hold, counts as none,
    /// and is deleted in the end.
    #[inline]
    pub fn lawn(&mut self) -> Option<&mut Lawn> {
        if self.existing().is_some_and(|dehydrator| dehydrator.is_idle()) {
            self.is_leftover = true;
            return None;
        }
        self.begin();
        self.existing().map(|dehydrator| &mut dehydrator.lawn)
    }

    /// Returns the lawn, to look at it, if there is a dehydrator.
    pub fn look(&mut self) -> Option<&Lawn> {
        self.existing().map(|dehydrator| &dehydrator.lawn)
    }

    /// Changes the lawn of the dehydrator, which comes into being if there was none and the change
    /// succeeds.
    ///
    /// # Errors
    ///
    /// Those of `change`; then there is no new key.
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

    /// Has a dehydrator come into being.
    fn make(&mut self, new: Dehydrator) {
        self.counted = Some(new.counted());
        self.new = Some(new);
    }

    /// Returns whether there was no dehydrator, and a change has made one.
    pub fn is_new(&self) -> bool {
        self.new.is_some()
    }

    /// Returns when the server will delete the key by itself, in milliseconds since the epoch.
    pub fn expiry(&self) -> Option<u64> {
        self.key.as_ref()?.expiry()
    }

    /// Returns since when what is due is overdue. `None`: since its deadline, or there is nothing.
    #[inline(always)]
    pub fn overdue(&mut self) -> Option<OverdueSince> {
        self.existing().and_then(|dehydrator| dehydrator.overdue())
    }

    /// Returns what there is to wait for.
    pub fn outlook(&mut self) -> Outlook {
        self.existing().map_or(Outlook::Next(None), |dehydrator| dehydrator.outlook())
    }

    /// Returns what becomes of what comes due.
    pub fn policy(&mut self) -> &Policy {
        const NONE: &Policy = &Policy::Hold;
        self.existing().map_or(NONE, |dehydrator| &dehydrator.rules().policy)
    }

    /// Says what becomes of what comes due in a dehydrator that a change has just made. Returns whether there is one.
    pub fn set_policy_of_new(&mut self, policy: Policy) -> bool {
        let Some(new) = &mut self.new else { return false };
        new.change_rules(|rules| rules.policy = policy);
        true
    }

    /// Says what becomes of what comes due. A dehydrator comes into being if there was none, unless it
    /// would be idle. Returns whether that is another policy than before, or another trust in it.
    pub fn set_policy(&mut self, policy: Policy, trust: Trust) -> bool {
        self.begin();
        match self.existing() {
            Some(dehydrator) => {
                let rules = dehydrator.rules();
                if rules.policy == policy && rules.trust == trust {
                    return false;
                }
                dehydrator.change_rules(|rules| (rules.policy, rules.trust) = (policy, trust));
                // An append-only file tells of elements first.
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

    /// Returns whether it has no policy, pause or limits to look at.
    #[inline]
    pub fn has_default_rules(&mut self) -> bool {
        self.existing().is_none_or(|dehydrator| dehydrator.has_default_rules())
    }

    /// Returns whether nothing is given out or delivered at this time.
    pub fn is_paused(&mut self, now: u64) -> bool {
        self.existing().is_some_and(|dehydrator| dehydrator.is_paused(now))
    }

    /// Pauses it, or ends its pause. One that is paused comes into being if there was none. Returns whether that is
    /// another pause than before.
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

    /// Returns the limits that hold, if there are any.
    #[inline]
    pub fn limits(&mut self) -> Option<&Limits> {
        self.existing().and_then(|dehydrator| dehydrator.rules().limits.as_deref())
    }

    /// Returns how many leases may run at the most, 0 if there is no limit.
    pub fn held_limit(&mut self) -> u64 {
        self.limits().map_or(0, |limits| limits.held)
    }

    /// Returns how many elements there may be at the most, 0 if there is no limit.
    #[inline]
    pub fn length_limit(&mut self) -> u64 {
        self.limits().map_or(0, |limits| limits.length)
    }

    /// Sets limits, or takes them away. A dehydrator comes into being if there was none, unless it would be idle. Returns
    /// whether those are others than before.
    pub fn set_limits(&mut self, change: LimitChange) -> bool {
        self.begin();
        let new = self.limits().unwrap_or(&Limits::default()).changed(change);
        let limits = new.has_any().then(|| Box::new(new));
        match self.existing() {
            Some(dehydrator) if dehydrator.rules().limits == limits => return false,
            Some(dehydrator) => {
                dehydrator.change_rules(|rules| rules.limits = limits);
                dehydrator.keep_past();
            }
            None if limits.is_none() => return false,
            None => {
                let rules = Rules { limits, ..Rules::default() };
                self.make(Dehydrator::new(new_lawn(), rules));
            }
        }
        true
    }

    /// Returns how many may be given out at this time, as far as limits say.
    pub fn room(&mut self, now: u64) -> usize {
        self.existing().map_or(usize::MAX, |dehydrator| dehydrator.room(now))
    }

    /// Notes that so many were given out at a moment, where there is a limit to that. Returns whether there is.
    pub fn note_given(&mut self, moment: u64, count: u64) -> bool {
        self.begin();
        let rate = self.existing().and_then(|dehydrator| dehydrator.rate_mut());
        rate.map(|rate| rate.record(moment, count)).is_some()
    }

    /// Says that an element was given this TTL and this deadline, which may mean that it is stuck.
    pub fn note_timer(&mut self, ttl: u64, deadline: u64) {
        if dehydrator::sticks(ttl, deadline)
            && let Some(dehydrator) = self.existing()
        {
            dehydrator.tracking().note_stuck(true);
        }
    }

    /// Says that it may be changed from here on.
    #[inline]
    fn begin(&mut self) {
        if self.whole.is_none() {
            self.whole = Some(AbortOnPanic::begin());
            self.counted = self.existing().map(|dehydrator| dehydrator.counted());
        }
    }

    /// Does what [`Writing::changed`] does, where elements were added and nothing else was done: there is no more memory to
    /// give back than before.
    pub fn grown(mut self, event: &CStr) {
        self.has_grown = true;
        self.changed(event);
    }

    /// Says that elements were added or changed. Replicas must have been told.
    pub fn changed(mut self, event: &CStr) {
        trap::pass("changed");
        self.close(IfIdle::Stays);
        self.whole = None;
        trap::pass("closed");
        self.context.signal_modified(self.name);
        self.context.notify_module(event, self.name);
        self.end();
    }

    /// Says that elements were taken. A dehydrator that is idle by now is deleted, as every empty collection
    /// is, before anybody hears of it: what a listener writes to the key then is not ours to delete. Replicas
    /// must have been told.
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

    /// Has nothing more be done at the end of something that is closed: nothing in it is left to be dropped.
    #[inline]
    fn end(self) {
        debug_assert!(self.key.is_none() && self.hold.is_none(), "it is open");
        debug_assert!(self.new.is_none() && self.whole.is_none(), "something is left");
        if !self.is_leftover {
            mem::forget(self);
        }
    }

    /// Lets go of key and value. If the dehydrator holds memory that it could give back, the tick will see to
    /// it; if clients wait for it, or the module has something to do when an element comes due, the next
    /// deadline is noted. Returns whether it was deleted.
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

    #[inline]
    pub(super) fn existing(&mut self) -> Option<&mut Dehydrator> {
        // SAFETY: as in `Reading::dehydrator`: while there is a value here, it is held.
        self.value.as_mut().map(|value| unsafe { value.as_mut() })
    }
}

impl Drop for Writing<'_> {
    /// Closes it, also when nothing was changed: the key may have got another value since its name was noted.
    fn drop(&mut self) {
        self.whole = None;
        // Replicas were told of nothing, so nothing comes into being.
        self.new = None;
        self.close(IfIdle::Stays);
        if self.is_leftover {
            delete_leftover(self.context, self.name);
        }
    }
}

/// Notes what is to be done with a dehydrator that was changed.
fn follow_up(
    context: &Context,
    name: Str<'_>,
    dehydrator: &mut Dehydrator,
    counted: Option<Counted>,
    now: Option<u64>,
    has_grown: bool,
) {
    counted.into_iter().for_each(|counted| counted.become_those_of(dehydrator));
    dehydrator.note_next(|| now.unwrap_or_else(clock::now));
    let mark = dehydrator.tracking().mark();
    if !has_grown && !mark.is_noted() && dehydrator.is_sparse() {
        compaction::note(mark, context.selected_db(), name.bytes());
    }
    dehydrator.past.note(|| (context.selected_db(), name.bytes()));
    blocked::note(context, name, || dehydrator.outlook());
    if is_scheduled(dehydrator) {
        let serial = dehydrator.tracking().serial();
        let now = now.unwrap_or_else(clock::now);
        schedule::note(context, name, serial, dehydrator.next_task(now), now);
        if dehydrator.tracking().has_stuck() {
            schedule::note_stuck(&Name::of(context, name));
        }
        dehydrator.tracking().track();
    }
}

/// Has a dehydrator that was put back into its key expire with it, as before. Replicas are told.
pub fn restore_expiry(context: &Context, name: Str<'_>, at: u64) {
    let mut key = Key::open_to_write(context, name);
    // Events have called out meanwhile.
    if matches!(dehydrator_in(&key), Ok(Some(_))) && key.expire_at(at) {
        replicate::expires(context, name, at);
    }
}

/// What becomes of a dehydrator that would do nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfIdle {
    Stays,
    Goes,
}

/// Deletes an idle dehydrator, of which replicas do not know that it is idle.
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
