//! What is in a key: a lawn, and what becomes of what comes due in it.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::lawn::{Element, Lawn, rounded};
use crate::pending::blocked::Outlook;
use crate::pending::schedule::Serial;
use crate::policy::Policy;

/// Dead letters that who asks for elements passes over: the time that takes has a bound.
pub const DEAD_LETTERS_MAX: usize = 1024;

/// The value of a key.
pub struct Dehydrator {
    pub lawn: Lawn,
    pub policy: Kept,
    tracking: Tracking,
    counted: Counted,
}

impl Dehydrator {
    pub fn new(lawn: Lawn, policy: Policy) -> Self {
        let mut new = Self {
            lawn,
            policy: policy.into(),
            tracking: Tracking::none(),
            counted: Counted::default(),
        };
        DEHYDRATORS.fetch_add(1, Ordering::Relaxed);
        new.recount();
        new
    }

    /// Whether it would do nothing, and so should not be there: with a policy an empty one stays, as a
    /// stream with consumer groups does.
    pub fn is_idle(&self) -> bool {
        self.lawn.is_empty() && self.policy == Policy::Hold
    }

    /// What there is to wait for.
    pub fn outlook(&self) -> Outlook {
        match *self.policy {
            Policy::Send(_) => Outlook::Delivered,
            // A dead letter is first. When it has gone, there is something to wait for.
            Policy::Limit { .. } if self.sends_first() => Outlook::Next(None),
            _ => Outlook::Next(self.lawn.next_deadline()),
        }
    }

    /// The first of what POLL gives out at this time, in order: what is due, but for dead letters.
    pub fn given_out(&self, now: u64, count: usize) -> impl Iterator<Item = (u64, Element<'_>)> {
        let limit = Some(&self.policy).filter(|policy| policy.limits());
        let passed_over = if limit.is_some() { DEAD_LETTERS_MAX } else { 0 };
        let due = self.lawn.iter_until(now).take(count.saturating_add(passed_over));
        let is_dead = move |deliveries| limit.is_some_and(|limit| limit.sends(deliveries));
        due.filter(move |(_, element)| !is_dead(element.deliveries)).take(count)
    }

    /// Whether the first in the order of delivery, when it is due, goes by the policy.
    pub fn sends_first(&self) -> bool {
        match *self.policy {
            Policy::Hold => false,
            Policy::Send(_) => true,
            Policy::Limit { .. } => {
                let first = self.lawn.iter().next();
                first.is_some_and(|(_, element)| self.policy.sends(element.deliveries))
            }
        }
    }

    /// Bytes, itself included, and what the server keeps it in: an object and a module's value, of two words each, which
    /// it does not count.
    pub fn memory(&self) -> usize {
        const KEPT_IN: usize = 2 * 16;
        let own = KEPT_IN + rounded(size_of::<Self>());
        self.lawn.memory() - size_of::<Lawn>() + own + self.policy.memory_kept()
    }

    /// Counts what is in it anew, after it was changed. O(1).
    pub fn recount(&mut self) {
        let now = Counted {
            elements: counted(self.lawn.len()),
            leased: counted(self.lawn.delivered()),
            ttls: counted(self.lawn.ttls()),
        };
        if now != self.counted {
            self.counted.replace(now);
        }
    }

    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }
}

impl Clone for Dehydrator {
    /// The clone is nowhere yet.
    fn clone(&self) -> Self {
        Self::new(self.lawn.clone(), Policy::clone(&self.policy))
    }
}

impl Drop for Dehydrator {
    fn drop(&mut self) {
        self.counted.replace(Counted::default());
        DEHYDRATORS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A policy, in a place of its own if it is not the usual one: it would be most of a small dehydrator.
#[derive(PartialEq, Eq)]
pub struct Kept(Option<Box<Policy>>);

impl Kept {
    /// Bytes on the heap.
    fn memory_kept(&self) -> usize {
        self.0.as_ref().map_or(0, |policy| rounded(size_of::<Policy>()) + policy.memory())
    }
}

impl From<Policy> for Kept {
    fn from(policy: Policy) -> Self {
        Self((policy != Policy::Hold).then(|| Box::new(policy)))
    }
}

impl Deref for Kept {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        self.0.as_deref().unwrap_or(&Policy::Hold)
    }
}

impl PartialEq<Policy> for Kept {
    fn eq(&self, other: &Policy) -> bool {
        **self == *other
    }
}

/// How much there is in all dehydrators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Census {
    pub dehydrators: usize,
    pub elements: usize,
    /// Elements that were given out under a lease and are still there.
    pub leased: usize,
    /// TTLs, those of one dehydrator apart from those of another.
    pub ttls: usize,
}

// A value may be freed on a background thread, hence atomics. Nothing is ordered by them.
static DEHYDRATORS: AtomicUsize = AtomicUsize::new(0);
static ELEMENTS: AtomicUsize = AtomicUsize::new(0);
static LEASED: AtomicUsize = AtomicUsize::new(0);
static TTLS: AtomicUsize = AtomicUsize::new(0);

impl Census {
    /// Of all dehydrators, in every database.
    pub fn of_all() -> Self {
        Self {
            dehydrators: DEHYDRATORS.load(Ordering::Relaxed),
            elements: ELEMENTS.load(Ordering::Relaxed),
            leased: LEASED.load(Ordering::Relaxed),
            ttls: TTLS.load(Ordering::Relaxed),
        }
    }
}

/// How much of it is in one, in few bytes: an element's name in a lawn has 32 bits, so there are no more.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Counted {
    elements: u32,
    leased: u32,
    ttls: u32,
}

fn counted(number: usize) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

impl Counted {
    /// What was counted so far is another number from here on, in the sums as well.
    fn replace(&mut self, new: Self) {
        let old = std::mem::replace(self, new);
        for (sum, old, new) in [
            (&ELEMENTS, old.elements, new.elements),
            (&LEASED, old.leased, new.leased),
            (&TTLS, old.ttls, new.ttls),
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
/// The server does not say where RENAME and MOVE bring a value, only that it has left its name. One that
/// is freed afterwards was deleted; one that is not has another name now, and has moved until somebody
/// changes something in it, or until it is found by walking over the keyspace. A value may be freed on a
/// background thread, which is why these are atomics. Nothing is ordered by them.
pub struct Tracking {
    state: AtomicU8,
    serial: Serial,
}

/// Values that are [`MOVED`].
static MOVED_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Whether all values are being looked for, so that one whose name is not known yet counts as moved, too.
static ALL_ARE_TRACKED: AtomicBool = AtomicBool::new(false);
/// The last one given.
static SERIAL: AtomicU64 = AtomicU64::new(0);

const UNTRACKED: u8 = 0;
const TRACKED: u8 = 1;
const MOVED: u8 = 2;

impl Tracking {
    fn none() -> Self {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed) + 1;
        Self { state: AtomicU8::new(UNTRACKED), serial }
    }

    /// Tells this value from all others.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Whether its name has been noted.
    pub fn is_tracked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == TRACKED
    }

    /// The name it has now has been noted.
    pub fn track(&self) {
        self.set(TRACKED);
    }

    /// It leaves the name it had. Returns whether that had been noted.
    pub fn unlink(&self) -> bool {
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

/// How many dehydrators have left a name that was noted, or might have been, and are still there.
pub fn moved() -> usize {
    MOVED_COUNT.load(Ordering::Relaxed)
}

/// Says whether all dehydrators are being looked for.
pub fn track_all(all: bool) {
    ALL_ARE_TRACKED.store(all, Ordering::Relaxed);
}
