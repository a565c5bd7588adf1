//! Changing a key.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::census::CensusShare;
use super::dehydrator::is_stuck_timer;
use super::{Dehydrator, Opened, TYPE, dehydrator_in, is_on_agenda, new_lawn};
use crate::clock;
use crate::metrics::lateness::OverdueSince;
use crate::pending::{agenda, blocked, timer};
use crate::policy::{self, Rules};
use crate::replicate;
use crate::server::error::Result;
use crate::server::flags::is_active_primary;
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::key::Name;
use crate::server::{Context, EventClass, Key, Str};
use lawn::{DEADLINE_MAX, GroupLimits, GroupSettings, Lawn};

/// A dehydrator that is open for a change.
///
/// *Others listen.* A keyspace event is a call out: another module may change this key or any other before it returns.
/// So nothing is held across one: no open key, value or decision. A new dehydrator is put into its key after replicas
/// have been told; an empty one is deleted, and the key closed, before the event is published.
pub struct Writing<'a> {
    pub(super) context: &'a Context,
    pub(super) name: Str<'a>,
    /// `None` once the key is closed.
    opened: Option<Opened<'a>>,
    /// `None` before the first possible change.
    change: Option<Change>,
    /// The time of the change, in milliseconds since the epoch, once read.
    now: Option<u64>,
}

/// A change from its beginning until replicas were told and the key is closed.
struct Change {
    /// *All or nothing.* A panic ends the process.
    _whole: AbortOnPanic,
    /// The dehydrator's share of the census before the change.
    before: CensusShare,
    /// The value to put into the key, if there was none.
    new: Option<Dehydrator>,
}

impl Change {
    fn begin(dehydrator: &Dehydrator) -> Self {
        Self { _whole: AbortOnPanic::begin(), before: dehydrator.census_share(), new: None }
    }
}

impl<'a> Writing<'a> {
    /// Opens a key. Fails with [`Error::WRONG_TYPE`](crate::server::Error::WRONG_TYPE).
    pub fn open(context: &'a Context, name: Str<'a>) -> Result<Self> {
        let opened = Some(Opened::new(Key::open_to_write(context, name))?);
        trap::pass("open");
        Ok(Self { context, name, opened, change: None, now: None })
    }

    /// Opens a key, at a time that the caller has read from the clock. Fails with
    /// [`Error::WRONG_TYPE`](crate::server::Error::WRONG_TYPE).
    pub fn open_at(context: &'a Context, name: Str<'a>, now: u64) -> Result<Self> {
        let mut writing = Self::open(context, name)?;
        writing.now = Some(now);
        Ok(writing)
    }

    /// Returns the time of the change, in milliseconds since the epoch. It is the same for as long as the key is open.
    pub fn now(&mut self) -> u64 {
        *self.now.get_or_insert_with(clock::now)
    }

    /// Returns the dehydrator that was in the key.
    #[inline]
    pub fn existing(&self) -> Option<&Dehydrator> {
        self.opened.as_ref()?.dehydrator()
    }

    /// Returns the dehydrator that was in the key, for a change.
    #[inline]
    pub(super) fn changing(&mut self) -> Option<&mut Dehydrator> {
        let dehydrator = self.opened.as_mut()?.dehydrator_mut()?;
        if self.change.is_none() {
            self.change = Some(Change::begin(dehydrator));
        }
        Some(dehydrator)
    }

    /// Returns the lawn for a change, if there is a dehydrator.
    #[inline]
    pub fn lawn(&mut self) -> Option<&mut Lawn> {
        Some(&mut self.changing()?.lawn)
    }

    /// Returns the lawn for reading, if there is a dehydrator.
    pub fn look(&self) -> Option<&Lawn> {
        Some(&self.existing()?.lawn)
    }

    /// Changes the lawn. Creates the dehydrator if there was none and the change succeeds. Fails as `change` does; then
    /// no key is created.
    pub fn lawn_or_new<T, E>(
        &mut self,
        change: impl FnOnce(&mut Lawn) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if let Some(dehydrator) = self.changing() {
            return change(&mut dehydrator.lawn);
        }
        let mut lawn = new_lawn();
        let changed = change(&mut lawn)?;
        self.make(Dehydrator::new(lawn, Rules::default(), Default::default()));
        Ok(changed)
    }

    pub(super) fn make(&mut self, new: Dehydrator) {
        let change = Change::begin(&new);
        self.change = Some(Change { new: Some(new), ..change });
    }

    /// Returns whether the change has created the dehydrator.
    #[inline]
    pub fn is_new(&self) -> bool {
        matches!(self.change, Some(Change { new: Some(_), .. }))
    }

    /// Returns the expiry of a key that has a dehydrator, in milliseconds since the epoch.
    pub fn expiry(&self) -> Option<u64> {
        self.existing()?;
        self.opened.as_ref()?.key.expiry()
    }

    /// Returns when the due elements began to count as overdue. `None`: at their deadlines, or nothing is due.
    #[inline(always)]
    pub fn overdue(&self) -> Option<OverdueSince> {
        self.existing()?.overdue()
    }

    /// Returns the rules that were in force when the key was opened, or as changed since.
    #[inline]
    pub fn rules(&self) -> &Rules {
        match self.existing() {
            Some(dehydrator) => dehydrator.rules(),
            None => &policy::DEFAULT,
        }
    }

    /// Changes the rules. Creates a dehydrator if there was none, unless it would be idle. Returns whether anything has
    /// changed.
    pub fn change_rules(&mut self, change: impl FnOnce(&mut Rules)) -> bool {
        if let Some(dehydrator) = self.changing() {
            return dehydrator.change_rules(change);
        }
        if let Some(new) = self.change.as_mut().and_then(|change| change.new.as_mut()) {
            return new.change_rules(change);
        }
        let mut rules = Rules::default();
        change(&mut rules);
        let is_changed = rules != policy::DEFAULT;
        if is_changed {
            // Counted with its rules: `make` takes its share of the census from here on.
            self.make(Dehydrator::new(new_lawn(), rules, Default::default()));
        }
        is_changed
    }

    /// Changes what is set for a group. Creates a dehydrator if there was none. Returns whether anything has changed.
    pub fn change_group(&mut self, group: &[u8], change: impl FnOnce(&mut GroupSettings)) -> bool {
        let set = |lawn: &mut Lawn| {
            let before = lawn.group_rules().of(group);
            let mut settings = before;
            change(&mut settings);
            lawn.set_group(group, settings);
            (settings != before).then_some(settings.paused_until).ok_or(())
        };
        let Ok(paused_until) = self.change_limits(set) else { return false };
        let new = self.change.as_ref().and_then(|change| change.new.as_ref());
        if let Some(dehydrator) = new.or(self.existing())
            && (1..DEADLINE_MAX).contains(&paused_until)
        {
            let (db, key) = (self.context.selected_db(), self.name.bytes());
            dehydrator.note_group_pause(paused_until, db, key);
        }
        true
    }

    /// Changes the limits of each group that has none of its own. Creates a dehydrator if there was none. Returns whether
    /// anything has changed.
    pub fn change_each_group(&mut self, change: impl FnOnce(&mut GroupLimits)) -> bool {
        let set = |lawn: &mut Lawn| {
            let before = lawn.group_rules().each;
            let mut limits = before;
            change(&mut limits);
            lawn.set_each_group(limits);
            (limits != before).then_some(()).ok_or(())
        };
        self.change_limits(set).is_ok()
    }

    /// Changes what is set for groups, as [`Writing::lawn_or_new`] does. A lawn that had no groups before does not know which
    /// limits hold.
    fn change_limits<T>(
        &mut self,
        set: impl FnOnce(&mut Lawn) -> std::result::Result<T, ()>,
    ) -> std::result::Result<T, ()> {
        let changed = self.lawn_or_new(set)?;
        self.changing().into_iter().for_each(|dehydrator| dehydrator.choose_limits());
        Ok(changed)
    }

    /// Returns how many elements the limits allow to be given out at `now`.
    pub fn room(&self, now: u64) -> usize {
        self.existing().map_or(usize::MAX, |dehydrator| dehydrator.room(now))
    }

    /// Records that `count` elements were given out at `moment`, of a group if one is named. Returns whether a rate limits
    /// that.
    #[inline]
    pub fn note_given(&mut self, moment: u64, count: u64, group: Option<&[u8]>) -> bool {
        let Some(dehydrator) = self.changing() else { return false };
        match group {
            Some(group) => {
                let groups = dehydrator.lawn.groups_mut();
                groups.is_some_and(|mut groups| groups.record(group, moment, count))
            }
            None => dehydrator.rate_mut().map(|rate| rate.record(moment, count)).is_some(),
        }
    }

    /// Records that `count` elements were given out at `moment`, and replicates that, and what the lawn has recorded for their
    /// groups.
    #[inline]
    pub fn replicate_given(&mut self, moment: u64, count: u64) {
        if self.note_given(moment, count, None) {
            replicate::given(self.context, self.name, moment, count, None);
        }
        let groups = self.lawn().and_then(Lawn::groups_mut);
        for (group, count) in groups.map_or(Vec::new(), |mut groups| groups.take_counted()) {
            replicate::given(self.context, self.name, moment, count, Some(&group));
        }
    }

    /// Records an element's new TTL and deadline, which may mean that it is stuck.
    pub fn note_timer(&mut self, ttl: u64, deadline: u64) {
        if is_stuck_timer(ttl, deadline)
            && let Some(dehydrator) = self.existing()
        {
            dehydrator.tracking.note_stuck(true);
        }
    }

    /// Returns until when the ids of elements that are removed now are remembered, if they are.
    #[inline]
    pub fn remembers_until(&mut self) -> Option<u64> {
        let ms = self.rules().limits().remember;
        (ms > 0).then(|| self.now().saturating_add(ms).min(DEADLINE_MAX))
    }

    /// Returns whether an id is remembered at `now`, so that a push treats it as present.
    #[inline]
    pub fn remembers(&self, id: &[u8], now: u64) -> bool {
        matches!(self.existing(), Some(dehydrator) if dehydrator.remembered.contains(id, now))
    }

    /// Forgets an id, because an element with it was stored.
    #[inline]
    pub fn forget(&mut self, id: &[u8]) {
        if let Some(dehydrator) = self.changing()
            && !dehydrator.remembered.is_empty()
        {
            dehydrator.remembered.remove(id);
        }
    }

    /// Ends the change, and publishes `event`. Replicas must have been told. An idle dehydrator is deleted, like every empty
    /// collection, before anybody hears of it: the key that a listener writes then is not ours to delete.
    pub fn finish(mut self, event: &CStr) {
        trap::pass("changed");
        let (before, new) = match &mut self.change {
            Some(change) => (Some(change.before), change.new.take()),
            None => (None, None),
        };
        let is_deleted = self.close(before, new);
        self.change = None;
        trap::pass("closed");
        self.context.signal_modified(self.name);
        self.context.notify(EventClass::Module, event, self.name);
        if is_deleted {
            self.context.notify(EventClass::Generic, c"del", self.name);
        }
    }

    /// Closes the key without a change of which replicas were told. Records future work nevertheless, because the key may
    /// have got another value since its name was recorded. Deletes an idle dehydrator, which only ReDe's dumps
    /// contain; replicas do not know that it is idle.
    fn abandon(&mut self) {
        // First, because a panic ends the process here. Replicas were told nothing, so nothing is created.
        let before = self.change.take().map(|change| change.before);
        let whole = self.existing().is_some_and(Dehydrator::is_idle).then(AbortOnPanic::begin);
        if self.close(before, None) {
            replicate::deleted(self.context, self.name);
            drop(whole);
            self.context.signal_modified(self.name);
            self.context.notify(EventClass::Generic, c"del", self.name);
        }
    }

    /// Closes the key. Puts a new dehydrator into it, deletes an idle one, or records the future work of another: memory
    /// to give back, the next deadline. Returns whether the dehydrator was deleted.
    fn close(&mut self, before: Option<CensusShare>, mut new: Option<Dehydrator>) -> bool {
        let Some(mut opened) = self.opened.take() else { return false };
        let mut is_idle = false;
        if let Some(dehydrator) = new.as_mut().or(opened.dehydrator_mut()) {
            let mut has_grown = false;
            if let Some(before) = before {
                let after = dehydrator.census_share();
                has_grown = after.counts.elements > before.counts.elements;
                before.replace_by(after);
            }
            self.follow_up(dehydrator, has_grown);
            is_idle = !has_grown && dehydrator.is_idle();
        }
        let Opened { mut key, hold, .. } = opened;
        drop(hold);
        if is_idle {
            key.delete();
        } else if let Some(new) = new {
            let value = NonNull::from(Box::leak(Box::new(new))).cast::<c_void>();
            // SAFETY: the callbacks of our type expect a leaked `Box<Dehydrator>`, and this one is fresh.
            unsafe { key.set_value(self.context, self.name, TYPE.load(Ordering::Relaxed), value) };
        }
        is_idle
    }

    /// Records the future work of a dehydrator that may have been changed.
    fn follow_up(&self, dehydrator: &mut Dehydrator, has_grown: bool) {
        let (context, name) = (self.context, self.name);
        let now = || self.now.unwrap_or_else(clock::now);
        if let Some(mut groups) = dehydrator.lawn.groups_mut() {
            if groups.has_logs() && is_active_primary() {
                groups.step_back(now());
            }
            if groups.must_fit() {
                timer::soon(context);
            }
        }
        dehydrator.note_next(now);
        dehydrator.note_upkeep(has_grown, || (context.selected_db(), name.bytes()));
        blocked::note(context, name, || dehydrator.outlook());
        if is_on_agenda(dehydrator) {
            let now = now();
            agenda::note(context, name, &dehydrator.tracking, dehydrator.own_work(now), now);
            if dehydrator.tracking.has_stuck() {
                agenda::note_stuck(&Name::of(context, name));
            }
        }
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.opened.is_some() {
            self.abandon();
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
