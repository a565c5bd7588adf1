//! A key's value: a lawn, and the rules for elements that come due.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use super::census::CensusShare;
use super::remembered_ids::RememberedIds;
use super::stuck::{STUCK, is_stuck};
use crate::metrics::latency::OverdueSince;
use crate::pending::compaction::{self, Mark};
use crate::pending::overdue::{OVERDUE, OverdueSlot, Serial};
use crate::policy::{self, Limits, Rate, Rules};
use crate::server::flags::is_active_primary;
use lawn::{Lawn, Mover, Row, Start, rounded};

/// The value of a key.
pub struct Dehydrator {
    pub lawn: Lawn,
    /// `None`: the default rules. In a box, because they would be most of a small dehydrator.
    rules: Option<Box<Rules>>,
    pub remembered: RememberedIds,
    tracking: Tracking,
}

impl Dehydrator {
    /// Creates a dehydrator, and counts it.
    pub fn new(lawn: Lawn) -> Self {
        Self::with_rules(lawn, Rules::default(), RememberedIds::default())
    }

    /// Creates a dehydrator with rules and remembered ids, and counts it.
    pub fn with_rules(lawn: Lawn, rules: Rules, remembered: RememberedIds) -> Self {
        let new = Self { lawn, rules: boxed(rules), remembered, tracking: Tracking::none() };
        new.census_share().add();
        new.look_for_stuck();
        new
    }

    /// Records whether any dead letter is stuck. O(TTLs) if any element was given out.
    pub fn look_for_stuck(&self) {
        self.tracking.note_stuck(self.stuck().next().is_some());
    }

    /// Returns the stuck dead letters, in order.
    pub fn stuck(&self) -> impl Iterator<Item = Row<'_>> {
        let lawn = Some(&self.lawn).filter(|lawn| lawn.delivered() > 0);
        let first = Start { deadline: STUCK, behind: None };
        lawn.into_iter().flat_map(move |lawn| lawn.rows(first, STUCK)).filter(is_stuck)
    }

    /// Returns whether the dehydrator is empty with the default rules, so that it should not exist. A policy or a pause
    /// keeps an empty one, as consumer groups keep an empty stream.
    pub fn is_idle(&self) -> bool {
        self.lawn.is_empty() && self.has_default_rules()
    }

    /// Returns whether the dehydrator has the default rules.
    #[inline]
    pub fn has_default_rules(&self) -> bool {
        self.rules.is_none()
    }

    /// Returns the policy, the pause and the limits.
    #[inline]
    pub fn rules(&self) -> &Rules {
        self.rules.as_deref().unwrap_or(&policy::DEFAULT)
    }

    /// Changes the rules. Returns whether they differ from before.
    pub fn change_rules(&mut self, change: impl FnOnce(&mut Rules)) -> bool {
        let before = self.rules();
        let mut rules = before.clone();
        change(&mut rules);
        if rules == *before {
            return false;
        }
        let is_other_policy = (&rules.policy, rules.trust) != (&before.policy, before.trust);
        if rules.limits().remember == 0 {
            self.remembered.clear();
        }
        self.rules = boxed(rules);
        if is_other_policy {
            // An append-only file adds elements before it sets the policy.
            self.look_for_stuck();
        }
        true
    }

    /// Returns the limit of what is given out in a time, to note that something was.
    pub fn rate_mut(&mut self) -> Option<&mut Rate> {
        self.rules.as_mut()?.limits.as_mut()?.rate.as_mut()
    }

    /// Returns the bytes used. Includes the server's two objects for the value, two words each, which the server leaves
    /// out.
    pub fn memory(&self) -> usize {
        const SERVER_OBJECTS: usize = 2 * 16;
        /// The schedule's entry for the name, about.
        const SCHEDULED: usize = 240;
        let own = SERVER_OBJECTS + rounded(size_of::<Self>()) - size_of::<Lawn>();
        let rules = self.rules.as_ref().map_or(0, |rules| {
            let limits = rules.limits.as_ref().map_or(0, |limits| {
                let log = limits.rate.as_ref().map_or(0, Rate::memory);
                rounded(size_of::<Limits>()) + rounded(log)
            });
            rounded(size_of::<Rules>()) + rounded(rules.policy.memory()) + limits
        });
        let scheduled = if self.tracking.is_tracked() { SCHEDULED } else { 0 };
        self.lawn.memory() + own + rules + self.remembered.memory() + scheduled
    }

    /// Returns whether the dehydrator holds memory to give back.
    pub fn is_sparse(&self) -> bool {
        (self.lawn.is_sparse() || self.remembered.is_sparse()) && !self.is_idle()
    }

    /// Records the memory to give back, now or when ids expire, for a value that got its key without a write.
    pub fn note_memory(&self, db: i32, key: &[u8]) {
        self.remembered.note(|| (db, key));
        if self.is_sparse() {
            compaction::note(self.tracking.mark(), db, key);
        }
    }

    /// Returns the approximate number of allocations that dropping frees. O(1).
    pub fn allocations(&self) -> usize {
        self.lawn.allocations() + self.remembered.allocations()
    }

    /// Lets `mover` move the allocations from step `from` on, while `go_on` returns `true`. Returns the next step, or
    /// `None` at the end.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        mut go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        /// Steps from this one on belong to the remembered ids.
        const REMEMBERED: usize = 1 << 48;
        if from < REMEMBERED {
            if let Some(next) = self.lawn.defrag(from, mover, &mut go_on) {
                return Some(next);
            }
            self.remembered.ids()?;
            return Some(REMEMBERED);
        }
        let next = self.remembered.defrag(from - REMEMBERED, mover, go_on)?;
        Some(REMEMBERED + next)
    }

    /// Records when the first element is available, after a change. `now` is the time of the change, in milliseconds
    /// since the epoch.
    #[inline]
    pub fn note_next(&mut self, now: impl FnOnce() -> u64) {
        let mut next = self.lawn.settle_first();
        if !self.has_default_rules() || next == Some(STUCK) {
            next = self.next();
        }
        self.tracking.slot.note(next, now);
    }

    /// Returns since when due elements are overdue. `None`: since their deadlines.
    #[inline]
    pub fn overdue(&self) -> Option<OverdueSince> {
        let is_plain = self.has_default_rules() && !self.tracking.slot.is_floored();
        (!is_plain).then(|| self.overdue_since())
    }

    #[inline(never)]
    fn overdue_since(&self) -> OverdueSince {
        self.tracking.slot.overdue(self.next())
    }

    /// Returns the time since the oldest available element came due, in milliseconds. `None`: there is none.
    pub fn age(&self, now: u64) -> Option<u64> {
        let next = self.next().filter(|next| *next <= now && is_active_primary())?;
        Some(self.tracking.slot.age(next, now))
    }

    /// Returns the number of elements that have been available for a second or longer.
    pub fn count_overdue(&self, now: u64) -> usize {
        let is_overdue = self.age(now).is_some_and(|age| age >= OVERDUE);
        if is_overdue { self.lawn.count_due(now.saturating_sub(OVERDUE)) } else { 0 }
    }

    /// Returns the dehydrator's share of the census. O(1).
    #[inline]
    pub fn census_share(&self) -> CensusShare {
        let is_paused = !self.has_default_rules() && self.rules().pause.is_some();
        CensusShare::new(self.lawn.counts(), is_paused)
    }

    /// Returns what the module knows about the name.
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }
}

impl Clone for Dehydrator {
    /// Returns a copy, which is in no key yet.
    fn clone(&self) -> Self {
        Self::with_rules(self.lawn.clone(), self.rules().clone(), self.remembered.clone())
    }
}

impl Drop for Dehydrator {
    fn drop(&mut self) {
        self.census_share().remove();
    }
}

fn boxed(rules: Rules) -> Option<Box<Rules>> {
    (rules != policy::DEFAULT).then(|| Box::new(rules))
}

/// Whether the module knows the name of a dehydrator that it must find by itself.
///
/// The server reports that RENAME or MOVE takes a value from its name, but not the new name. A value that is not freed
/// then has *moved*: its name is unknown until a write or a walk over the keyspace finds it. A background thread may
/// free a value, hence the atomics, which order nothing.
pub struct Tracking {
    state: AtomicU8,
    /// Whether dead letters may be stuck, so that they are retried. Only the main thread changes it.
    has_stuck: AtomicBool,
    /// Whether [`compaction`] has recorded the value.
    mark: Mark,
    slot: OverdueSlot,
}

/// The number of values that are [`MOVED`].
static MOVED_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Whether a walk looks for all values, so that one whose name was never recorded also counts as moved.
static ALL_ARE_TRACKED: AtomicBool = AtomicBool::new(false);

const UNTRACKED: u8 = 0;
const TRACKED: u8 = 1;
const MOVED: u8 = 2;

impl Tracking {
    fn none() -> Self {
        let (state, has_stuck) = (AtomicU8::new(UNTRACKED), AtomicBool::new(false));
        Self { state, has_stuck, mark: Mark::none(), slot: OverdueSlot::new() }
    }

    /// Returns the number that identifies this value.
    pub fn serial(&self) -> Serial {
        self.slot.serial()
    }

    /// Returns the mark of [`compaction`].
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Returns whether dead letters may be stuck.
    pub fn has_stuck(&self) -> bool {
        self.has_stuck.load(Ordering::Relaxed)
    }

    /// Records whether dead letters may be stuck.
    pub fn note_stuck(&self, has_stuck: bool) {
        self.has_stuck.store(has_stuck, Ordering::Relaxed);
    }

    /// Returns whether the present name is recorded.
    pub fn is_tracked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == TRACKED
    }

    /// Records that the present name is known.
    pub fn track(&self) {
        self.set(TRACKED);
    }

    /// Records that the module need not know the name.
    pub fn untrack(&self) {
        self.set(UNTRACKED);
    }

    /// Records that a walk has found the value. Its name is recorded if the module must know it.
    pub fn found(&self, is_scheduled: bool) {
        if is_scheduled {
            self.track();
        } else if self.state.load(Ordering::Relaxed) == MOVED {
            self.set(UNTRACKED);
        }
    }

    /// Records that the value leaves its name. Returns whether that was recorded.
    pub fn unlink(&self) -> bool {
        self.mark.clear();
        let was_tracked = self.is_tracked();
        if was_tracked || ALL_ARE_TRACKED.load(Ordering::Relaxed) {
            self.set(MOVED);
        }
        was_tracked
    }

    fn set(&self, state: u8) {
        let before = self.state.swap(state, Ordering::Relaxed);
        if before == state {
            return;
        }
        if before == MOVED {
            MOVED_COUNT.fetch_sub(1, Ordering::Relaxed);
        }
        if state == MOVED {
            MOVED_COUNT.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.set(UNTRACKED);
    }
}

/// Returns the number of live dehydrators that have left a recorded name, or one that might have been recorded.
pub fn moved() -> usize {
    MOVED_COUNT.load(Ordering::Relaxed)
}

/// Sets whether a walk looks for all dehydrators.
pub fn track_all(all: bool) {
    ALL_ARE_TRACKED.store(all, Ordering::Relaxed);
}

// 88 bytes would take 96: see the size of a key with one element in docs/operations.md.
const _: () = assert!(size_of::<Dehydrator>() <= 80);
