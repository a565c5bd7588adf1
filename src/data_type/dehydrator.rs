//! What is in a key: a lawn, and what becomes of what comes due in it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use super::past::Past;
use crate::clock;
use crate::metrics::latency::OverdueSince;
use crate::pending::blocked::Outlook;
use crate::pending::compaction::{self, Mark};
use crate::pending::overdue::{OVERDUE, Place, Serial};
use crate::pending::schedule::Task;
use crate::policy::{Limits, Policy, Rate, Rules};
use crate::server::flags::is_active_primary;
use lawn::{Counts, DEADLINE_MAX, Element, Lawn, Mover, Row, Start, rounded};

/// A client that asks for elements passes over so many dead letters at the most: the time that takes has a bound.
pub const DEAD_LETTERS_MAX: usize = 1024;

/// The TTL and the deadline of dead letters that are *stuck*: they cannot go where they belong. It places them behind all
/// that can be given out, in the order in which they got stuck. No clock ever reaches it, and no client can ask for it:
/// a client's "never" is [`NEVER`].
pub const STUCK: u64 = DEADLINE_MAX;

/// The latest deadline that a client can give an element, for "never". A lease that ends then runs like any other.
pub const NEVER: u64 = STUCK - 1;

/// Returns whether a lease with this deadline runs. What is stuck is held by nobody who could still do the work.
pub fn runs(deadline: u64, now: u64) -> bool {
    deadline > now && deadline != STUCK
}

/// The TTL of dead letters that are stuck and were rejected: they are dead letters by any limit of deliveries.
pub const REJECTED: u64 = STUCK - 1;

/// Returns whether an element is a dead letter that is stuck.
pub fn is_stuck(row: &Row<'_>) -> bool {
    row.element.deliveries > 0 && sticks(row.ttl, row.element.deadline)
}

/// Returns whether an element that is stuck goes by this policy, and is no dead letter that it was by another one.
pub fn is_dead(row: &Row<'_>, policy: &Policy) -> bool {
    policy.is_limit() && (row.ttl == REJECTED || policy.routes(row.element.deliveries))
}

/// Returns whether a dead letter of this timer is stuck.
pub fn sticks(ttl: u64, deadline: u64) -> bool {
    deadline == STUCK && (ttl == STUCK || ttl == REJECTED)
}

/// The value of a key.
pub struct Dehydrator {
    pub lawn: Lawn,
    /// `None`: the default ones. In a box, as they would be most of a small dehydrator.
    rules: Option<Box<Rules>>,
    pub past: Past,
    tracking: Tracking,
}

impl Dehydrator {
    /// Makes one, and counts it.
    pub fn new(lawn: Lawn, rules: Rules) -> Self {
        Self::with_past(lawn, rules, Past::default())
    }

    /// Makes one that remembers ids, and counts it.
    pub fn with_past(lawn: Lawn, rules: Rules, past: Past) -> Self {
        let new = Self { lawn, rules: boxed(rules), past, tracking: Tracking::none() };
        DEHYDRATORS.fetch_add(1, Ordering::Relaxed);
        Counted::default().become_those_of(&new);
        new.look_for_stuck();
        new
    }

    /// Notes whether any dead letter is stuck. O(TTLs) if anything was given out.
    pub fn look_for_stuck(&self) {
        self.tracking.note_stuck(self.stuck().next().is_some());
    }

    /// Returns the dead letters that are stuck, in order.
    pub fn stuck(&self) -> impl Iterator<Item = Row<'_>> {
        let lawn = Some(&self.lawn).filter(|lawn| lawn.delivered() > 0);
        let first = Start { deadline: STUCK, behind: None };
        lawn.into_iter().flat_map(move |lawn| lawn.rows(first, STUCK)).filter(is_stuck)
    }

    /// Returns whether it has nothing in it and nothing to do, and so should not be there. With a policy an empty one stays,
    /// as a stream with consumer groups does, and so does one that is paused.
    pub fn is_idle(&self) -> bool {
        self.lawn.is_empty() && self.has_default_rules()
    }

    /// Returns whether it has the rules of a dehydrator of which nobody has said anything.
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

    /// Forgets all ids if none are to be remembered.
    pub fn keep_past(&mut self) {
        if self.rules().limits.as_ref().is_none_or(|limits| limits.remember == 0) {
            self.past.clear();
        }
    }

    /// Returns whether nothing is given out or delivered at this time.
    pub fn is_paused(&self, now: u64) -> bool {
        self.rules().pause.is_some_and(|pause| pause.is_on(now))
    }

    /// Returns how many may be given out at this time, as far as limits say.
    pub fn room(&self, now: u64) -> usize {
        let Some(limits) = &self.rules().limits else { return usize::MAX };
        let rate = limits.rate.as_ref().map_or(u64::MAX, |rate| rate.room(now));
        let held = match limits.held {
            0 => u64::MAX,
            held => held.saturating_sub(self.lawn.running(now) as u64),
        };
        usize::try_from(rate.min(held)).unwrap_or(usize::MAX)
    }

    /// Returns since when something may be given out, or from when on, as far as limits say: 0 without any.
    fn room_from(&self, now: u64) -> u64 {
        let Some(limits) = &self.rules().limits else { return 0 };
        let rate = limits.rate.as_ref().map_or(0, |rate| rate.next(now));
        if limits.held == 0 || (self.lawn.running(now) as u64) < limits.held {
            return rate;
        }
        // There may be more than allowed. Then it is looked at again when the first of them ends.
        self.lawn.first_end(now).map_or(rate, |end| end.max(rate))
    }

    /// Returns since when elements may be delivered, or from when on, as far as limits say. What is dropped goes to nobody.
    fn delivers_from(&self, now: u64) -> u64 {
        let limits = self.rules().limits.as_ref().filter(|_| self.rules().policy.delivers());
        let rate = limits.and_then(|limits| limits.rate.as_ref());
        rate.map_or(0, |rate| rate.next(now))
    }

    /// Returns how many may be delivered at this time.
    pub fn deliverable(&self, now: u64) -> usize {
        let limits = self.rules().limits.as_ref().filter(|_| self.rules().policy.delivers());
        let rate = limits.and_then(|limits| limits.rate.as_ref());
        rate.map_or(usize::MAX, |rate| usize::try_from(rate.room(now)).unwrap_or(usize::MAX))
    }

    /// Returns whether something that is due may go at this time, as far as limits say. `sends`: it goes by the policy.
    pub fn has_room(&self, sends: bool, now: u64) -> bool {
        (if sends { self.deliverable(now) } else { self.room(now) }) > 0
    }

    /// Returns when something can be given out, or since when, as far as deadlines, a pause and limits say.
    pub fn next(&self) -> Option<u64> {
        // Without limits no clock is read.
        let room_from =
            if self.rules().limits.is_some() { self.room_from(clock::now()) } else { 0 };
        let next = self.next_deadline()?.max(room_from);
        match self.rules().pause {
            Some(pause) => pause.end().map(|end| end.max(next)),
            None => Some(next),
        }
    }

    /// Returns when the next element comes due, or did. What is stuck never does.
    pub fn next_deadline(&self) -> Option<u64> {
        let is_stuck = |next| next == STUCK && self.tracking.has_stuck();
        self.lawn.next_deadline().filter(|next| !is_stuck(*next))
    }

    /// Returns what the module has to do here by itself.
    pub fn next_task(&self, now: u64) -> Task {
        match self.rules().pause {
            // It ends by itself.
            Some(pause) => Task { next: pause.end(), delivers: true, is_held_back: false },
            None => {
                let next = self.lawn.next_deadline();
                let sends = self.sends_first();
                let from = match &self.rules().limits {
                    None => 0,
                    Some(_) if sends => self.delivers_from(now),
                    Some(_) => self.room_from(now),
                };
                let is_held_back = from > now && next.is_some_and(|next| next <= now);
                Task { next: next.map(|next| next.max(from)), delivers: sends, is_held_back }
            }
        }
    }

    /// Returns what there is to wait for.
    pub fn outlook(&self) -> Outlook {
        match self.rules().policy {
            Policy::Send(_) => Outlook::Delivered,
            // A dead letter is first. When it has gone, there is something to wait for.
            Policy::Limit { .. } if self.sends_first() => Outlook::Next(None),
            _ => Outlook::Next(self.next()),
        }
    }

    /// Returns the first of what POLL gives out at this time, in order: what is due, but for dead letters.
    pub fn given_out(&self, now: u64, count: usize) -> impl Iterator<Item = (u64, Element<'_>)> {
        let count = if self.is_paused(now) { 0 } else { count.min(self.room(now)) };
        let limit = Some(&self.rules().policy).filter(|policy| policy.is_limit());
        let passed_over = if limit.is_some() { DEAD_LETTERS_MAX } else { 0 };
        let due = self.lawn.iter_until(now).take(count.saturating_add(passed_over));
        let is_dead = move |deliveries| limit.is_some_and(|limit| limit.routes(deliveries));
        due.filter(move |(_, element)| !is_dead(element.deliveries)).take(count)
    }

    /// Returns whether the first in the order of delivery, when it is due, goes by the policy.
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

    /// Returns how many bytes it takes. With it counts what the server keeps it in, an object and a module's value of two
    /// words each, which the server itself leaves out.
    pub fn memory(&self) -> usize {
        const KEPT_IN: usize = 2 * 16;
        /// What the schedule keeps of its name, about.
        const SCHEDULED: usize = 240;
        let own = KEPT_IN + rounded(size_of::<Self>());
        let rules = self.rules.as_ref().map_or(0, |rules| {
            let limits = rules.limits.as_ref().map_or(0, |limits| {
                let log = limits.rate.as_ref().map_or(0, Rate::memory);
                rounded(size_of::<Limits>()) + rounded(log)
            });
            rounded(size_of::<Rules>()) + rounded(rules.policy.memory()) + limits
        });
        let scheduled = if self.tracking.is_tracked() { SCHEDULED } else { 0 };
        self.lawn.memory() - size_of::<Lawn>() + own + rules + self.past.memory() + scheduled
    }

    /// Returns whether it holds memory that it could give back.
    pub fn is_sparse(&self) -> bool {
        (self.lawn.is_sparse() || self.past.is_sparse()) && !self.is_idle()
    }

    /// Notes what memory there is to give back, now or when ids can be forgotten, for a value that got its name, a
    /// database and a key, without a write.
    pub fn note_memory(&self, db: i32, key: &[u8]) {
        self.past.note(|| (db, key));
        if self.is_sparse() {
            compaction::note(self.tracking.mark(), db, key);
        }
    }

    /// Returns about how many allocations dropping it will free. O(1).
    pub fn allocations(&self) -> usize {
        self.lawn.allocations() + self.past.allocations()
    }

    /// Lets `mover` move its allocations, beginning with step `from`, while `go_on` says so. Returns the step to carry on
    /// with, or `None` at the end.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        mut go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        /// The lowest of the bits that says that it is at the ids that are remembered.
        const PAST: usize = 1 << 48;
        if from < PAST {
            if let Some(next) = self.lawn.defrag(from, mover, &mut go_on) {
                return Some(next);
            }
            self.past.ids()?;
            return Some(PAST);
        }
        let next = self.past.defrag(from - PAST, mover, go_on)?;
        Some(PAST + next)
    }

    /// Notes when the first element can be given out, or since when, after something was changed. `now` is the time of that,
    /// in milliseconds since the epoch.
    #[inline]
    pub fn note_next(&mut self, now: impl FnOnce() -> u64) {
        let mut next = self.lawn.settle_first();
        if !self.has_default_rules() || next == Some(STUCK) {
            next = self.next();
        }
        self.tracking.place.note(next, now);
    }

    /// Returns since when what is due in it is overdue. `None`: since its deadline.
    #[inline]
    pub fn overdue(&self) -> Option<OverdueSince> {
        let is_plain = self.has_default_rules() && !self.tracking.place.is_floored();
        (!is_plain).then(|| self.overdue_since())
    }

    #[inline(never)]
    fn overdue_since(&self) -> OverdueSince {
        self.tracking.place.overdue(self.next())
    }

    /// Returns for how long the oldest element has been due that could be given out or delivered at this time, in
    /// milliseconds. `None`: there is none.
    pub fn age(&self, now: u64) -> Option<u64> {
        let next = self.next().filter(|next| *next <= now && is_active_primary())?;
        Some(self.tracking.place.age(next, now))
    }

    /// Returns how many elements have been due for a second or longer, so that they could have been given out or delivered
    /// for so long.
    pub fn count_overdue(&self, now: u64) -> usize {
        let is_overdue = self.age(now).is_some_and(|age| age >= OVERDUE);
        if is_overdue { self.lawn.count_due(now.saturating_sub(OVERDUE)) } else { 0 }
    }

    /// Returns what it adds to the census. O(1).
    #[inline]
    pub fn counted(&self) -> Counted {
        let Counts { elements, given_out, leased, ttls } = self.lawn.counts();
        // A lawn numbers its elements in 32 bits, so there are no more.
        let [elements, given_out, leased, ttls] =
            [elements, given_out, leased, ttls].map(|count| count as u32);
        let paused = (!self.has_default_rules() && self.rules().pause.is_some()).into();
        Counted { elements, given_out, leased, ttls, paused }
    }

    /// Returns what is known of its name.
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }
}

impl Clone for Dehydrator {
    /// Makes another one, which is in no key yet.
    fn clone(&self) -> Self {
        Self::with_past(self.lawn.clone(), self.rules().clone(), self.past.clone())
    }
}

impl Drop for Dehydrator {
    fn drop(&mut self) {
        self.counted().become_other(Counted::default());
        DEHYDRATORS.fetch_sub(1, Ordering::Relaxed);
    }
}

fn boxed(rules: Rules) -> Option<Box<Rules>> {
    (rules != Rules::DEFAULT).then(|| Box::new(rules))
}

/// How much there is in all dehydrators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Census {
    pub dehydrators: usize,
    pub elements: usize,
    /// Elements that were given out under a lease and are still there.
    pub given_out: usize,
    /// Those of them that are held under a token.
    pub leased: usize,
    /// TTLs, those of one dehydrator apart from those of another.
    pub ttls: usize,
    /// Dehydrators that are paused.
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

/// What one dehydrator adds to the census. It is not kept: whoever changes one counts before and afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    elements: u32,
    given_out: u32,
    leased: u32,
    ttls: u32,
    paused: u32,
}

impl Counted {
    /// Corrects the sums, of which these numbers were a part, for what the dehydrator has become. O(1).
    #[inline]
    pub fn become_those_of(self, dehydrator: &Dehydrator) {
        self.become_other(dehydrator.counted());
    }

    #[inline]
    fn become_other(self, new: Self) {
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

/// Whether the name is known of a dehydrator that the module must find by itself.
///
/// The server does not say where RENAME and MOVE bring a value, only that it has left its name. If it is freed
/// afterwards, it was deleted. If not, it has *moved*: it has another name, which is not known until somebody changes
/// something in it, or a walk over the keyspace finds it. A value may be freed on a background thread, which is why these
/// are atomics. Nothing is ordered by them.
pub struct Tracking {
    state: AtomicU8,
    /// Whether dead letters may be stuck, so that they are to be tried again. It is changed by the main thread alone.
    has_stuck: AtomicBool,
    /// Whether it has been noted that it has memory to give back.
    mark: Mark,
    place: Place,
}

/// Values that are [`MOVED`].
static MOVED_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Whether all values are being looked for, so that one whose name is not known yet counts as moved, too.
static ALL_ARE_TRACKED: AtomicBool = AtomicBool::new(false);

const UNTRACKED: u8 = 0;
const TRACKED: u8 = 1;
const MOVED: u8 = 2;

impl Tracking {
    fn none() -> Self {
        let (state, has_stuck) = (AtomicU8::new(UNTRACKED), AtomicBool::new(false));
        Self { state, has_stuck, mark: Mark::none(), place: Place::new() }
    }

    /// Tells this value from all others.
    pub fn serial(&self) -> Serial {
        self.place.serial()
    }

    /// Returns whether it has been noted that it has memory to give back.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Returns whether dead letters may be stuck.
    pub fn has_stuck(&self) -> bool {
        self.has_stuck.load(Ordering::Relaxed)
    }

    /// Says whether dead letters may be stuck.
    pub fn note_stuck(&self, has_stuck: bool) {
        self.has_stuck.store(has_stuck, Ordering::Relaxed);
    }

    /// Returns whether its name has been noted.
    pub fn is_tracked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == TRACKED
    }

    /// Says that the name it has now has been noted.
    pub fn track(&self) {
        self.set(TRACKED);
    }

    /// Says that its name is noted no more: the module need not know it.
    pub fn untrack(&self) {
        self.set(UNTRACKED);
    }

    /// Says that a walk has come by its name, which is noted if the module must know it.
    pub fn found(&self, is_scheduled: bool) {
        if is_scheduled {
            self.track();
        } else if self.state.load(Ordering::Relaxed) == MOVED {
            self.set(UNTRACKED);
        }
    }

    /// Says that it leaves its name. Returns whether that had been noted.
    pub fn unlink(&self) -> bool {
        self.mark.moved();
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

/// Returns how many dehydrators have left a name that was noted, or might have been, and are still there.
pub fn moved() -> usize {
    MOVED_COUNT.load(Ordering::Relaxed)
}

/// Says whether all dehydrators are being looked for.
pub fn track_all(all: bool) {
    ALL_ARE_TRACKED.store(all, Ordering::Relaxed);
}

// One of 88 bytes takes 96: see docs/operations.md, of what a key of one element takes.
const _: () = assert!(size_of::<Dehydrator>() <= 80);
