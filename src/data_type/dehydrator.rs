//! A key's value: a lawn, and the rules for elements that come due.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::remembered_ids::RememberedIds;
use crate::clock;
use crate::metrics::latency::OverdueSince;
use crate::pending::agenda::{self, Reason, Task, Tracking};
use crate::pending::blocked::Outlook;
use crate::pending::overdue::OVERDUE;
use crate::policy::{Limits, Policy, Rate, Rules};
use crate::server::flags::is_active_primary;
use lawn::{Counts, DEADLINE_MAX, Element, Lawn, Mover, Row, Start, rounded};

/// Most dead letters that a request for elements skips, which bounds its time.
pub const DEAD_LETTERS_MAX: usize = 1024;

/// The TTL and the deadline of *stuck* dead letters, which cannot be moved to their destination. They stand behind all
/// elements that can be given out, in the order in which they got stuck. No clock ever reaches this deadline, and no
/// client can request it: a client's "never" is [`NEVER`].
pub const STUCK: u64 = DEADLINE_MAX;

/// The latest deadline that a client can set, for "never". A lease until then runs like any other.
pub const NEVER: u64 = STUCK - 1;

/// Delay after an id's expiry before the cron forgets it, in milliseconds, so that it forgets many at once.
const FORGETTING_DELAY_MS: u64 = 500;

/// Returns whether a lease with this deadline runs. A stuck element is not leased to a worker.
pub fn runs(deadline: u64, now: u64) -> bool {
    deadline > now && deadline != STUCK
}

/// The TTL of stuck dead letters that were rejected: dead letters under any limit of deliveries.
pub const REJECTED: u64 = STUCK - 1;

/// Returns whether an element is a stuck dead letter.
pub fn is_stuck(row: &Row<'_>) -> bool {
    row.element.deliveries > 0 && is_stuck_timer(row.ttl, row.element.deadline)
}

/// Returns whether a stuck element is a dead letter under this policy, and not only under an earlier one.
pub fn is_dead(row: &Row<'_>, policy: &Policy) -> bool {
    policy.is_limit() && (row.ttl == REJECTED || policy.routes(row.element.deliveries))
}

/// Returns whether a dead letter with this TTL and deadline is stuck.
pub fn is_stuck_timer(ttl: u64, deadline: u64) -> bool {
    deadline == STUCK && (ttl == STUCK || ttl == REJECTED)
}

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
    pub fn new(lawn: Lawn, rules: Rules) -> Self {
        Self::with_remembered(lawn, rules, RememberedIds::default())
    }

    /// Creates a dehydrator that remembers ids, and counts it.
    pub fn with_remembered(lawn: Lawn, rules: Rules, remembered: RememberedIds) -> Self {
        let new = Self { lawn, rules: boxed(rules), remembered, tracking: Tracking::new() };
        DEHYDRATORS.fetch_add(1, Ordering::Relaxed);
        CensusShare::default().update_census(&new);
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
        static DEFAULT: Rules = Rules::DEFAULT;
        self.rules.as_deref().unwrap_or(&DEFAULT)
    }

    /// Changes the rules.
    pub fn change_rules(&mut self, change: impl FnOnce(&mut Rules)) {
        let mut rules = self.rules.take().map_or_else(Rules::default, |rules| *rules);
        change(&mut rules);
        self.rules = boxed(rules);
    }

    /// Returns the limit of what is given out in a time, to note that something was.
    pub fn rate_mut(&mut self) -> Option<&mut Rate> {
        self.rules.as_mut()?.limits.as_mut()?.rate.as_mut()
    }

    /// Forgets all ids if REMEMBER is not set.
    pub fn drop_ids_if_disabled(&mut self) {
        if self.rules().limits.as_ref().is_none_or(|limits| limits.remember == 0) {
            self.remembered.clear();
        }
    }

    /// Returns whether nothing is given out or delivered at `now`.
    pub fn is_paused(&self, now: u64) -> bool {
        self.rules().pause.is_some_and(|pause| pause.is_on(now))
    }

    /// Returns how many elements the limits allow to be given out at `now`.
    pub fn room(&self, now: u64) -> usize {
        let Some(limits) = &self.rules().limits else { return usize::MAX };
        let rate = limits.rate.as_ref().map_or(u64::MAX, |rate| rate.room(now));
        let held = match limits.held {
            0 => u64::MAX,
            held => held.saturating_sub(self.lawn.running(now) as u64),
        };
        usize::try_from(rate.min(held)).unwrap_or(usize::MAX)
    }

    /// Returns from when on the limits allow an element to be given out: 0 without limits.
    fn room_from(&self, now: u64) -> u64 {
        let Some(limits) = &self.rules().limits else { return 0 };
        let rate = limits.rate.as_ref().map_or(0, |rate| rate.next(now));
        if limits.held == 0 || (self.lawn.running(now) as u64) < limits.held {
            return rate;
        }
        // More leases than allowed may run. Then the limit is checked again when the first of them ends.
        self.lawn.first_end(now).map_or(rate, |end| end.max(rate))
    }

    /// Returns the rate that limits deliveries, if any. Dropped elements do not count.
    fn delivery_rate(&self) -> Option<&Rate> {
        self.rules().limits.as_ref().filter(|_| self.rules().policy.delivers())?.rate.as_ref()
    }

    /// Returns how many elements the limits allow to be delivered at `now`.
    pub fn deliverable(&self, now: u64) -> usize {
        let rate = self.delivery_rate();
        rate.map_or(usize::MAX, |rate| usize::try_from(rate.room(now)).unwrap_or(usize::MAX))
    }

    /// Returns whether the limits allow a due element to leave at `now`. `sends`: the policy sends it.
    pub fn has_room(&self, sends: bool, now: u64) -> bool {
        (if sends { self.deliverable(now) } else { self.room(now) }) > 0
    }

    /// Returns when the first element is available, considering deadlines, a pause and limits.
    pub fn next(&self) -> Option<u64> {
        // Reads no clock without limits.
        let room_from =
            if self.rules().limits.is_some() { self.room_from(clock::now()) } else { 0 };
        let next = self.next_deadline()?.max(room_from);
        match self.rules().pause {
            Some(pause) => pause.end().map(|end| end.max(next)),
            None => Some(next),
        }
    }

    /// Returns the next deadline. Stuck elements have none.
    pub fn next_deadline(&self) -> Option<u64> {
        let is_stuck = |next| next == STUCK && self.tracking.has_stuck();
        self.lawn.next_deadline().filter(|next| !is_stuck(*next))
    }

    /// Returns the dehydrator's own work.
    pub fn next_task(&self, now: u64) -> Task {
        match self.rules().pause {
            // The module ends the pause.
            Some(pause) => Task { next: pause.end(), delivers: true, is_held_back: false },
            None => {
                let next = self.lawn.next_deadline();
                let sends = self.sends_first();
                let from = match &self.rules().limits {
                    None => 0,
                    Some(_) if sends => self.delivery_rate().map_or(0, |rate| rate.next(now)),
                    Some(_) => self.room_from(now),
                };
                let is_held_back = from > now && next.is_some_and(|next| next <= now);
                Task { next: next.map(|next| next.max(from)), delivers: sends, is_held_back }
            }
        }
    }

    /// Returns when a blocked client could be served.
    pub fn outlook(&self) -> Outlook {
        match self.rules().policy {
            Policy::Send(_) => Outlook::Delivered,
            // A dead letter is first. A client can be served after it is moved.
            Policy::Limit { .. } if self.sends_first() => Outlook::Next(None),
            _ => Outlook::Next(self.next()),
        }
    }

    /// Returns the first elements that POLL gives out at `now`, in order: the due ones, without dead letters.
    pub fn given_out(&self, now: u64, count: usize) -> impl Iterator<Item = (u64, Element<'_>)> {
        let count = if self.is_paused(now) { 0 } else { count.min(self.room(now)) };
        let limit = Some(&self.rules().policy).filter(|policy| policy.is_limit());
        let passed_over = if limit.is_some() { DEAD_LETTERS_MAX } else { 0 };
        let due = self.lawn.iter_until(now).take(count.saturating_add(passed_over));
        let is_dead = move |deliveries| limit.is_some_and(|limit| limit.routes(deliveries));
        due.filter(move |(_, element)| !is_dead(element.deliveries)).take(count)
    }

    /// Returns whether the policy sends the first element when it comes due.
    pub fn sends_first(&self) -> bool {
        match self.rules().policy {
            Policy::Hold => false,
            Policy::Send(_) => true,
            Policy::Limit { .. } => {
                let first = self.lawn.first();
                first.is_some_and(|first| self.rules().policy.routes(first.deliveries))
            }
        }
    }

    /// Returns the bytes used. Includes the server's two objects for the value, two words each, which the server leaves
    /// out.
    pub fn memory(&self) -> usize {
        const SERVER_OBJECTS: usize = 2 * 16;
        /// The agenda's entry for the name, about.
        const SCHEDULED: usize = 240;
        let own = SERVER_OBJECTS + rounded(size_of::<Self>()) - size_of::<Lawn>();
        let rules = self.rules.as_ref().map_or(0, |rules| {
            let limits = rules.limits.as_ref().map_or(0, |limits| {
                let log = limits.rate.as_ref().map_or(0, Rate::memory);
                rounded(size_of::<Limits>()) + rounded(log)
            });
            rounded(size_of::<Rules>()) + rounded(rules.policy.memory()) + limits
        });
        let scheduled = if self.tracking.is_noted(Reason::Deliver) { SCHEDULED } else { 0 };
        self.lawn.memory() + own + rules + self.remembered.memory() + scheduled
    }

    /// Returns whether the dehydrator holds memory to give back.
    pub fn is_sparse(&self) -> bool {
        (self.lawn.is_sparse() || self.remembered.is_sparse()) && !self.is_idle()
    }

    /// Records the upkeep to come: memory to give back, now or when remembered ids expire. `has_grown`: elements were only
    /// added, so there is no more memory to give back than before. The name is built only if needed.
    #[inline]
    pub fn note_upkeep<'a>(&self, has_grown: bool, name: impl Fn() -> (i32, &'a [u8])) {
        if !has_grown && !self.tracking.is_noted(Reason::Compact) && self.is_sparse() {
            let (db, key) = name();
            let now_us = clock::monotonic_us();
            agenda::note_upkeep(&self.tracking, db, key, Reason::Compact, now_us);
        }
        if let Some(ids) = self.remembered.ids()
            && !self.tracking.is_noted(Reason::Forget)
            && let Some(next) = ids.next()
        {
            let (db, key) = name();
            let at = next.saturating_add(FORGETTING_DELAY_MS);
            agenda::note_upkeep(&self.tracking, db, key, Reason::Forget, at);
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
        let Counts { elements, given_out, leased, ttls } = self.lawn.counts();
        // A lawn numbers its elements in 32 bits, so the counts fit.
        let [elements, given_out, leased, ttls] =
            [elements, given_out, leased, ttls].map(|count| count as u32);
        let paused = (!self.has_default_rules() && self.rules().pause.is_some()).into();
        CensusShare { elements, given_out, leased, ttls, paused }
    }

    /// Returns what the module knows about the name.
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }
}

impl Clone for Dehydrator {
    /// Returns a copy, which is in no key yet.
    fn clone(&self) -> Self {
        Self::with_remembered(self.lawn.clone(), self.rules().clone(), self.remembered.clone())
    }
}

impl Drop for Dehydrator {
    fn drop(&mut self) {
        self.census_share().replace_by(CensusShare::default());
        DEHYDRATORS.fetch_sub(1, Ordering::Relaxed);
    }
}

fn boxed(rules: Rules) -> Option<Box<Rules>> {
    (rules != Rules::DEFAULT).then(|| Box::new(rules))
}

/// The totals of all dehydrators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Census {
    pub dehydrators: usize,
    pub elements: usize,
    /// Elements that were leased at least once and are still there.
    pub given_out: usize,
    /// Elements of `given_out` that are held under a token.
    pub leased: usize,
    /// TTLs, census_share per dehydrator.
    pub ttls: usize,
    /// Paused dehydrators.
    pub paused: usize,
}

// A value may be freed on a background thread, hence atomics. Nothing is ordered by them.
static DEHYDRATORS: AtomicUsize = AtomicUsize::new(0);
static ELEMENTS: AtomicUsize = AtomicUsize::new(0);
static GIVEN_OUT: AtomicUsize = AtomicUsize::new(0);
static LEASED: AtomicUsize = AtomicUsize::new(0);
static TTLS: AtomicUsize = AtomicUsize::new(0);
static PAUSED: AtomicUsize = AtomicUsize::new(0);

impl Census {
    /// Takes the census of all dehydrators, in every database.
    pub fn of_all() -> Self {
        Self {
            dehydrators: DEHYDRATORS.load(Ordering::Relaxed),
            elements: ELEMENTS.load(Ordering::Relaxed),
            given_out: GIVEN_OUT.load(Ordering::Relaxed),
            leased: LEASED.load(Ordering::Relaxed),
            ttls: TTLS.load(Ordering::Relaxed),
            paused: PAUSED.load(Ordering::Relaxed),
        }
    }
}

/// A dehydrator's share of the census. It is not stored: each change counts before and afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CensusShare {
    elements: u32,
    given_out: u32,
    leased: u32,
    ttls: u32,
    paused: u32,
}

impl CensusShare {
    /// Replaces this share in the totals by the dehydrator's present one. O(1).
    #[inline]
    pub fn update_census(self, dehydrator: &Dehydrator) {
        self.replace_by(dehydrator.census_share());
    }

    #[inline]
    fn replace_by(self, new: Self) {
        for (sum, old, new) in [
            (&ELEMENTS, self.elements, new.elements),
            (&GIVEN_OUT, self.given_out, new.given_out),
            (&LEASED, self.leased, new.leased),
            (&TTLS, self.ttls, new.ttls),
            (&PAUSED, self.paused, new.paused),
        ] {
            if old != new {
                // Modulo 2^64, so that a decrease is the same addition.
                sum.fetch_add((new as usize).wrapping_sub(old as usize), Ordering::Relaxed);
            }
        }
    }
}

// 88 bytes would take 96: see the size of a key with one element in docs/operations.md.
const _: () = assert!(size_of::<Dehydrator>() <= 80);
