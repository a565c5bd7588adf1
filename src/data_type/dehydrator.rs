//! A key's value: a lawn, and the rules for elements that come due. The marks of stuck dead letters in it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::census::CensusShare;
use crate::clock;
use crate::metrics::lateness::OverdueSince;
use crate::pending::agenda::{self, Reason, Tracking};
use crate::pending::overdue::OVERDUE;
use crate::pending::waste;
use crate::policy::{self, Limits, Policy, Rules};
use crate::server::flags::is_active_primary;
#[cfg(doc)]
use lawn::Bounds;
use lawn::{
    Aside, DEADLINE_MAX, Element, Enforced, Groups, Lawn, Mover, Rate, Row, Start, rounded,
};

/// Ids of an ended REMEMBER that are forgotten in a few microseconds.
const FORGOTTEN_AT_ONCE: usize = 64;
/// Delay after the expiry of an id, or the end of a group's pause, before the cron acts, in milliseconds, so that it does many
/// at once.
const FORGETTING_DELAY_MS: u64 = 500;

/// The TTL and the deadline of *stuck* dead letters, which cannot be moved to their destination. They stand behind all
/// elements that can be given out, in the order in which they got stuck. No clock ever reaches this deadline, and no
/// client can request it: a client's "never" is [`NEVER`].
pub const STUCK: u64 = DEADLINE_MAX;

/// The latest deadline that a client can set, for "never". A lease until then runs like any other.
pub const NEVER: u64 = STUCK - 1;

/// The time until an occurrence is tried again that could not be stored, in milliseconds.
pub const RETRY_MS: u64 = 1000;

/// The TTL of stuck dead letters that were rejected: dead letters under any limit of deliveries.
pub const REJECTED: u64 = STUCK - 1;

/// Returns whether a lease with this deadline runs. A stuck element is not leased to a worker.
pub fn runs(deadline: u64, now: u64) -> bool {
    deadline > now && deadline != STUCK
}

/// Returns whether another deadline ends an element's lease: under a HELD limit, which counts live leases, an expired one is
/// not extended. `has_limit`: there is one for all elements.
pub fn ends_lease(
    lawn: &Lawn,
    element: &Element<'_>,
    deadline: u64,
    now: u64,
    has_limit: bool,
) -> bool {
    deadline > now
        && !runs(element.deadline, now)
        && (has_limit || limits_held(lawn, element))
        && lawn.token(element).is_some()
}

/// Returns whether there is a limit of what the group of an element holds.
fn limits_held(lawn: &Lawn, element: &Element<'_>) -> bool {
    let groups = lawn.groups().zip(element.group);
    groups.is_some_and(|(groups, group)| groups.limits(group).held > 0)
}

/// From this value on (as a moment, the year 6429), [`Bounds::until`] is a distance: this plus the milliseconds from the
/// deadline to the end. A deadline has 63 bits and an end 48, and an element whose deadline is "never" for a while has its end
/// again afterwards.
const DISTANCES: u64 = 1 << 47;

/// Returns [`Bounds::until`] of an element that may be given out for this many milliseconds after its deadline.
pub fn end_within(deadline: u64, ms: u64) -> u64 {
    match deadline.checked_add(ms) {
        Some(end) if end < DISTANCES => end,
        _ => DISTANCES + ms.min(DISTANCES - 1),
    }
}

/// Returns the moment from which on an element is too late to be given out, if it has one.
pub fn end(element: &Element<'_>) -> Option<u64> {
    let Element { deadline, bounds, .. } = *element;
    match bounds.until.checked_sub(DISTANCES) {
        Some(ms) => Some(deadline.saturating_add(ms).min(DEADLINE_MAX)),
        None => Some(bounds.until).filter(|until| *until > 0),
    }
}

/// Returns [`Bounds::until`] for an element that has an end and gets another deadline: as much later, or earlier, as it comes
/// due. A deadline that is never reached changes nothing: a stuck element keeps its bound.
pub fn postponed(element: &Element<'_>, deadline: u64) -> Option<u64> {
    let Element { deadline: before, bounds, .. } = *element;
    if bounds.until == 0 || before == STUCK || deadline == STUCK {
        return None;
    }
    let distance = match bounds.until.checked_sub(DISTANCES) {
        Some(ms) => Some(ms),
        None => bounds.until.checked_sub(before),
    };
    Some(match distance {
        Some(ms) => end_within(deadline, ms),
        // Its end was before its deadline: it was given back late.
        None => deadline.saturating_sub(before - bounds.until).clamp(1, DISTANCES - 1),
    })
}

/// Sets the end of an element that has one. Returns it as it was stored, for the effect.
pub(super) fn set_until(lawn: &mut Lawn, id: &[u8], until: u64) -> Option<u64> {
    lawn.set_until(id, until).then(|| lawn.look(id).map(|element| element.bounds.until)).flatten()
}

/// Returns whether an element can be a dead letter: it was given out, or can be too late for that.
fn may_be_dead(element: &Element<'_>) -> bool {
    element.deliveries > 0 || element.bounds.until > 0
}

/// Returns whether an element is a stuck dead letter.
pub fn is_stuck(row: &Row<'_>) -> bool {
    may_be_dead(&row.element) && is_stuck_timer(row.ttl, row.element.deadline)
}

/// Returns whether a stuck element is a dead letter under this policy, and not only under an earlier one.
pub fn stays_dead(row: &Row<'_>, policy: &Policy, now: u64) -> bool {
    let is_late = row.element.bounds.is_past(now);
    policy.limits_deliveries()
        && (row.ttl == REJECTED || is_late || policy.is_exhausted(&row.element))
}

/// Returns whether a dead letter with this TTL and deadline is stuck.
pub fn is_stuck_timer(ttl: u64, deadline: u64) -> bool {
    deadline == STUCK && (ttl == STUCK || ttl == REJECTED)
}

/// The value of a key.
pub struct Dehydrator {
    pub lawn: Lawn,
    /// `None`: the default rules, and no schedules. In a box, because they would be most of a small dehydrator.
    extras: Option<Box<Extras>>,
    /// The ids that are remembered after their elements were removed, so that they are not added again: see REMEMBER.
    pub remembered: Aside,
    /// Its entries in the agenda and in the table of the overdue.
    pub tracking: Tracking,
}

/// The parts that few dehydrators have.
#[derive(Default)]
struct Extras {
    rules: Rules,
    /// The schedules: see EVERY.
    schedules: Aside,
    /// Until when no occurrence is stored, because the key is full or elsewhere, in milliseconds since the epoch. Only the main
    /// thread changes it.
    postponed_until: AtomicU64,
}

impl Dehydrator {
    /// Creates a dehydrator with rules, remembered ids and schedules, and counts it.
    pub fn new(lawn: Lawn, rules: Rules, (remembered, schedules): (Aside, Aside)) -> Self {
        let extras = Extras { rules, schedules, ..Extras::default() };
        let extras = extras.has_any().then(|| Box::new(extras));
        let mut new = Self { lawn, extras, remembered, tracking: Tracking::new() };
        new.choose_limits();
        new.census_share().add();
        new.look_for_stuck();
        new
    }

    /// Records whether any dead letter is stuck. O(TTLs) if any element was given out or can expire.
    pub fn look_for_stuck(&self) {
        self.tracking.note_stuck(self.stuck().next().is_some());
    }

    /// Returns the stuck dead letters, in order.
    pub fn stuck(&self) -> impl Iterator<Item = Row<'_>> {
        let may_have_dead = self.lawn.counts().given_out > 0 || self.lawn.first_expiry().is_some();
        let lawn = Some(&self.lawn).filter(|_| may_have_dead);
        let first = Start { deadline: STUCK, behind: None };
        lawn.into_iter().flat_map(move |lawn| lawn.rows(first, STUCK)).filter(is_stuck)
    }

    /// Records that the pause of a group is to be ended at a moment, in milliseconds since the epoch.
    pub fn note_group_pause(&self, end: u64, db: i32, key: &[u8]) {
        let at = end.saturating_add(FORGETTING_DELAY_MS);
        agenda::note_upkeep_by(&self.tracking, db, key, Reason::Forget, at);
    }

    /// Returns whether the dehydrator is empty with the default rules, so that it should not exist. A schedule, a policy, a
    /// pause, or a limit or a share of groups keeps an empty one, as consumer groups keep an empty stream.
    pub fn is_idle(&self) -> bool {
        self.is_plain() && self.lawn.is_empty() && self.lawn.group_rules().is_empty()
    }

    /// Returns whether the dehydrator has the default rules and no schedules.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.extras.is_none()
    }

    /// Returns the policy, the pause and the limits.
    #[inline]
    pub fn rules(&self) -> &Rules {
        let Some(extras) = &self.extras else { return &policy::DEFAULT };
        &extras.rules
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
        if rules.limits().remember == 0 && !self.remembered.is_empty() {
            let mut rest = std::mem::take(&mut self.remembered);
            waste::discard(move || rest.forget(DEADLINE_MAX, FORGOTTEN_AT_ONCE) > 0);
        }
        self.extras.get_or_insert_default().rules = rules;
        self.extras.take_if(|extras| !extras.has_any());
        if is_other_policy {
            self.choose_limits();
            // An append-only file adds elements before it sets the policy.
            self.look_for_stuck();
        }
        true
    }

    /// Returns the schedules, if there are any.
    #[inline]
    pub fn schedules(&self) -> Option<&Aside> {
        let schedules = &self.extras.as_ref()?.schedules;
        if schedules.is_empty() { None } else { Some(schedules) }
    }

    /// Changes the schedules. The change also gets the lawn of the elements.
    pub(super) fn change_schedules<T>(&mut self, change: impl FnOnce(&mut Aside, &Lawn) -> T) -> T {
        let Self { lawn, extras, .. } = self;
        let changed = change(&mut extras.get_or_insert_default().schedules, lawn);
        extras.take_if(|extras| !extras.has_any());
        changed
    }

    /// Returns when a schedule is visited next, in milliseconds since the epoch.
    pub fn next_occurrence(&self, now: u64) -> Option<u64> {
        let extras = self.extras.as_ref()?;
        let next = extras.schedules.next().filter(|next| *next != DEADLINE_MAX)?;
        let until = extras.postponed_until.load(Ordering::Relaxed);
        // Or else the clock has stepped back.
        let is_near = until > now && until - now <= RETRY_MS;
        Some(if is_near { next.max(until) } else { next })
    }

    /// Stores no occurrence for a while, because there is no room or this server may not.
    pub fn postpone_occurrences(&self, now: u64) {
        let until = now.saturating_add(RETRY_MS);
        self.extras.iter().for_each(|it| it.postponed_until.store(until, Ordering::Relaxed));
    }

    /// Chooses which limits of groups hold: those of what is held are for clients, and dropped elements do not count under a
    /// rate.
    pub fn choose_limits(&mut self) {
        let policy = &self.rules().policy;
        let held = policy.holds();
        let rate = held || policy.delivers();
        if let Some(mut groups) = self.lawn.groups_mut() {
            groups.enforce(Enforced { held, rate });
        }
    }

    /// Returns the limit of what is given out in a time, to note that something was.
    pub fn rate_mut(&mut self) -> Option<&mut Rate> {
        self.extras.as_mut()?.rules.limits.as_mut()?.rate.as_mut()
    }

    /// Returns the bytes used. Includes the server's two objects for the value, two words each, which the server leaves
    /// out.
    pub fn memory(&self) -> usize {
        const SERVER_OBJECTS: usize = 2 * 16;
        /// The agenda's entry for the name, about, and for each reason to visit it.
        const SCHEDULED: usize = 252;
        const REASON: usize = 56;
        let own = SERVER_OBJECTS + rounded(size_of::<Self>()) - size_of::<Lawn>();
        let extras = self.extras.as_ref().map_or(0, |extras| {
            let rules = &extras.rules;
            let limits = rules.limits.as_ref().map_or(0, |limits| {
                let log = limits.rate.as_ref().map_or(0, Rate::memory);
                rounded(size_of::<Limits>()) + rounded(log)
            });
            let schedules = extras.schedules.memory();
            rounded(size_of::<Extras>()) + rounded(rules.policy.memory()) + limits + schedules
        });
        let mut reasons = self.tracking.reasons() as usize;
        // The one of deliveries stands for those of ends and of occurrences, too.
        let delivers = self.tracking.is_noted(Reason::Deliver);
        let expires_or_occurs = self.lawn.first_expiry().is_some() || self.schedules().is_some();
        reasons += usize::from(delivers && expires_or_occurs);
        let scheduled = if reasons > 0 { SCHEDULED + reasons * REASON } else { 0 };
        self.lawn.memory() + own + extras + self.remembered.memory() + scheduled
    }

    /// Returns whether the dehydrator holds memory to give back.
    pub fn is_sparse(&self) -> bool {
        let is_sparse = self.lawn.is_sparse() || self.remembered.is_sparse();
        (is_sparse || self.schedules().is_some_and(|it| it.is_sparse())) && !self.is_idle()
    }

    /// Records the upkeep to come: memory to give back, now or when remembered ids expire or pauses of groups end, and groups to
    /// bring to limits that have changed. `has_grown`: elements were only added, so there is no more memory to give back than
    /// before. The name is built only if needed.
    #[inline]
    pub fn note_upkeep<'a>(&self, has_grown: bool, name: impl Fn() -> (i32, &'a [u8])) {
        if !has_grown && !self.tracking.is_noted(Reason::Compact) && self.is_sparse() {
            let (db, key) = name();
            let now_us = clock::monotonic_us();
            agenda::note_upkeep(&self.tracking, db, key, Reason::Compact, now_us);
        }
        let groups = self.lawn.groups();
        if groups.is_some_and(Groups::must_fit) && !self.tracking.is_noted(Reason::FitGroups) {
            let (db, key) = name();
            let now_us = clock::monotonic_us();
            agenda::note_upkeep(&self.tracking, db, key, Reason::FitGroups, now_us);
        }
        let next =
            self.remembered.next().into_iter().chain(groups.and_then(Groups::first_end)).min();
        if let Some(next) = next
            && !self.tracking.is_noted(Reason::Forget)
        {
            let (db, key) = name();
            let at = next.saturating_add(FORGETTING_DELAY_MS);
            agenda::note_upkeep(&self.tracking, db, key, Reason::Forget, at);
        }
    }

    /// Returns the approximate number of allocations that dropping frees. O(1).
    pub fn allocations(&self) -> usize {
        let schedules = self.schedules().map_or(0, |it| it.allocations());
        self.lawn.allocations() + self.remembered.allocations() + schedules
    }

    /// Moves some elements, ids or schedules together to free memory. Returns whether there is more to do.
    pub(super) fn compact(&mut self, moves: usize) -> bool {
        self.lawn.compact(moves)
            || self.remembered.compact(moves)
            || self.extras.as_mut().is_some_and(|extras| extras.schedules.compact(moves))
    }

    /// Lets `mover` move the allocations from step `from` on, while `go_on` returns `true`. Returns the next step, or
    /// `None` at the end.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        mut go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        /// Steps from these on belong to the remembered ids, and to the schedules.
        const REMEMBERED: usize = 1 << 48;
        const SCHEDULES: usize = 2 << 48;
        if from < REMEMBERED {
            if let Some(next) = self.lawn.defrag(from, mover, &mut go_on) {
                return Some(next);
            }
            if !self.remembered.is_empty() {
                return Some(REMEMBERED);
            }
        } else if from < SCHEDULES {
            if let Some(next) = self.remembered.defrag(from - REMEMBERED, mover, go_on) {
                return Some(REMEMBERED + next);
            }
        } else {
            let schedules = &mut self.extras.as_mut()?.schedules;
            return Some(SCHEDULES + schedules.defrag(from - SCHEDULES, mover, go_on)?);
        }
        self.schedules().map(|_| SCHEDULES)
    }

    /// Records when the first element is available, after a change. `now` is the time of the change, in milliseconds
    /// since the epoch.
    #[inline]
    pub fn note_next(&mut self, now: impl FnOnce() -> u64) {
        let mut next = self.lawn.refresh_first();
        if !self.is_plain() || next == Some(STUCK) {
            next = self.next();
        }
        self.tracking.slot.note(next, now);
    }

    /// Returns when the due elements began to count as overdue. `None`: at their deadlines.
    #[inline]
    pub fn overdue(&self) -> Option<OverdueSince> {
        let is_plain = self.is_plain()
            && self.lawn.group_rules().is_empty()
            && !self.tracking.slot.is_floored();
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
        let is_paused = !self.is_plain() && self.rules().pause.is_some();
        let schedules = self.schedules().map_or(0, |it| it.len());
        CensusShare { counts: self.lawn.counts(), is_paused, schedules }
    }
}

impl Clone for Dehydrator {
    /// Returns a copy, which is in no key yet.
    fn clone(&self) -> Self {
        let schedules = self.schedules().cloned().unwrap_or_default();
        Self::new(self.lawn.clone(), self.rules().clone(), (self.remembered.clone(), schedules))
    }
}

impl Drop for Dehydrator {
    fn drop(&mut self) {
        self.census_share().remove();
    }
}

impl Extras {
    fn has_any(&self) -> bool {
        self.rules != policy::DEFAULT || !self.schedules.is_empty()
    }
}

// 88 bytes would take 96: see the size of a key with one element in docs/operations.md.
const _: () = assert!(size_of::<Dehydrator>() <= 80);

#[cfg(test)]
mod tests {
    use super::*;
    use lawn::Bounds;

    #[test]
    fn an_end_keeps_its_distance_from_whatever_deadline() {
        let element = |deadline, until| Element {
            bounds: Bounds { deliveries: 0, until },
            ..Element::new(b"id", b"element", deadline)
        };
        let near = 1_800_000_000_000;
        let deadlines = [0, near, DISTANCES - 1, DISTANCES, 1 << 48, 1 << 53, NEVER];
        for ms in [1, 600_000, DISTANCES - 1 - near] {
            for first in deadlines {
                let pushed = element(first, end_within(first, ms));
                assert!(pushed.bounds.until <= Bounds::UNTIL_MAX);
                assert_eq!(end(&pushed), Some((first + ms).min(DEADLINE_MAX)), "{first} + {ms}");
                for second in deadlines {
                    let until = postponed(&pushed, second).expect("an end");
                    let moved = element(second, until);
                    assert_eq!(
                        end(&moved),
                        Some((second + ms).min(DEADLINE_MAX)),
                        "{second} + {ms}"
                    );
                }
            }
        }
        let longest = element(near, end_within(near, u64::MAX));
        assert_eq!(longest.bounds.until, Bounds::UNTIL_MAX);
        assert_eq!(postponed(&element(5, 0), 7), None);
        assert_eq!(
            [(5, 9), (STUCK, 9), (5, STUCK)]
                .map(|(before, after)| postponed(&element(before, 3), after)),
            [Some(7), None, None]
        );
        assert_eq!(postponed(&element(9, 3), 5), Some(1));
        assert_eq!(end(&element(9, 3)), Some(3));
    }
}
