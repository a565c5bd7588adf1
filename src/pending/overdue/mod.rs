//! Since when something waits that could be given out, or delivered: the oldest of all, however many keys there are.
//!
//! Each value has a [`Place`] here, in which every write notes when the first element can be given out, or could first have
//! been: its deadline, the end of a pause, or when it came with a deadline that was over. Nobody need touch a key for it to
//! become overdue.
//!
//! | module | noun |
//! |---|---|
//! | this file | a value's place: since when its first element is overdue |
//! | `slots` | a slot of four bytes for each value |
//! | `first` | the slots with the least seconds |
//! | `names` | the names of those that are overdue the longest |

mod first;
pub mod names;
mod slots;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;

use crate::clock;
use crate::metrics::clock_steps;
use crate::metrics::latency::OverdueSince;
use crate::server::flags::is_active_primary;

use slots::NEVER;

/// Tells one value from all others. When the server puts a copy, or a key that it loads, over another, it makes the new one
/// before it deletes the old one: that must not take the new one's entries along.
pub type Serial = u64;

/// Who has had something to give out for so long, in milliseconds, is overdue.
pub const OVERDUE: u64 = 1000;
/// What came with a deadline that had been over for no longer than this, in milliseconds, came in time.
const IN_TIME: u64 = 1;

/// A value's place. It is freed with the value, perhaps on another thread.
pub struct Place {
    /// The slot, and [`IS_FLOORED`].
    bits: u32,
    generation: u32,
}

/// What is due in a value has not been so since its deadline: see [`Floor`]. No slot has this bit: a value takes more than
/// two bytes.
const IS_FLOORED: u32 = 1 << 31;

/// The first element of a value, and perhaps others behind it, came when their deadlines were over, or could not be given
/// out before.
#[derive(Clone, Copy)]
struct Floor {
    /// When the first could be given out, by its deadline.
    next: u64,
    /// Since when it can be.
    since: u64,
    /// What has this deadline or a later one was there before.
    before: u64,
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

thread_local! {
    // Values are changed on the server's main thread alone.
    /// By slot. One whose value has gone stays until the slot is another's.
    static FLOORS: RefCell<HashMap<u32, Floor, ahash::RandomState>> = RefCell::default();
}

impl Place {
    /// Makes a place of a value in which nothing is due.
    pub fn new() -> Self {
        let slot = slots::take();
        FLOORS.with_borrow_mut(|floors| {
            if !floors.is_empty() {
                floors.remove(&slot);
            }
        });
        Self { bits: slot, generation: GENERATION.fetch_add(1, Ordering::Relaxed) }
    }

    fn slot(&self) -> u32 {
        self.bits & !IS_FLOORED
    }

    /// Tells this value from all others: from those that had this place before, too.
    pub fn serial(&self) -> Serial {
        u64::from(self.generation) << 32 | u64::from(self.slot())
    }

    /// Notes when the first element of the value can be given out, or could have been by its deadline, in milliseconds
    /// since the epoch. What could not be a moment ago, and is overdue now, is so since `now`.
    #[inline]
    pub fn note(&mut self, next: Option<u64>, now: impl FnOnce() -> u64) {
        if !self.is_floored() && second_of(next) == slots::second(self.slot()) {
            return;
        }
        self.note_other(next, now);
    }

    #[inline(never)]
    fn note_other(&mut self, next: Option<u64>, now: impl FnOnce() -> u64) {
        let slot = self.slot();
        let noted = slots::second(slot);
        let Some(next) = next else {
            self.set_floor(None);
            return first::set(slot, NEVER);
        };
        let floor = self.floor();
        if floor.is_some_and(|floor| floor.next == next) {
            return;
        }
        let before = match floor {
            Some(floor) => floor.next,
            None if noted == NEVER => u64::MAX,
            None => u64::from(noted) * 1000,
        };
        if next < before {
            let now = now();
            if next.saturating_add(IN_TIME) < now {
                // It has come, with a deadline that is over. What was there before is as old as it was.
                let before = floor.map_or(before, |floor| floor.before);
                self.set_floor(Some(Floor { next, since: now, before }));
                return first::set(slot, noted.min(second_of(Some(now))));
            }
        }
        match floor {
            // What was behind one that was taken.
            Some(floor) if next > floor.next && next < floor.before => {
                self.set_floor((next < floor.since).then_some(Floor { next, ..floor }));
                first::set(slot, second_of(Some(next.max(floor.since))));
            }
            _ => {
                self.set_floor(None);
                first::set(slot, second_of(Some(next)));
            }
        }
    }

    /// Returns whether what is due has not been so since its deadline.
    #[inline]
    pub fn is_floored(&self) -> bool {
        self.bits & IS_FLOORED != 0
    }

    fn floor(&self) -> Option<Floor> {
        self.is_floored()
            .then(|| FLOORS.with_borrow(|floors| floors.get(&self.slot()).copied()))
            .flatten()
    }

    fn set_floor(&mut self, floor: Option<Floor>) {
        let slot = self.slot();
        match floor {
            Some(floor) => {
                FLOORS.with_borrow_mut(|floors| floors.insert(slot, floor));
                self.bits |= IS_FLOORED;
            }
            None if self.is_floored() => {
                FLOORS.with_borrow_mut(|floors| floors.remove(&slot));
                self.bits &= !IS_FLOORED;
            }
            None => {}
        }
    }

    /// Returns since when elements of the value are overdue, for those that are given out. `next`: when the first could be,
    /// as far as is known now.
    pub fn overdue(&self, next: Option<u64>) -> OverdueSince {
        match self.floor() {
            Some(floor) => OverdueSince::since(floor.since, floor.before),
            // None is older than what was noted: there was no room before, which is forgotten by now.
            None => {
                let noted = Some(slots::second(self.slot())).filter(|second| *second != NEVER);
                OverdueSince::from(next.max(noted.map(|second| u64::from(second) * 1000)))
            }
        }
    }

    /// Returns for how long the first element has been overdue at this time, in milliseconds, if its turn was `next`.
    pub fn age(&self, next: u64, now: u64) -> u64 {
        let since = match self.floor() {
            // The oldest may stand behind one that came later with an earlier deadline.
            Some(floor) => {
                let noted = u64::from(slots::second(self.slot())) * 1000 + 999;
                noted.min(floor.since).max(next)
            }
            None => next,
        };
        age(since, now)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        slots::give_back(self.slot());
    }
}

/// Returns the second of a moment in milliseconds.
fn second_of(moment: Option<u64>) -> u32 {
    moment.map_or(NEVER, |moment| (moment / 1000).min(u64::from(NEVER) - 1) as u32)
}

fn age(since: u64, now: u64) -> u64 {
    clock_steps::late_us(since.saturating_mul(1000), now.saturating_mul(1000)) / 1000
}

/// A value that has something to give out.
#[derive(Clone, Copy)]
pub struct Oldest {
    slot: u32,
    /// For how long it has had that, in milliseconds: less than a second too little.
    pub age: u64,
}

/// Returns those that have had something to give out for the longest, the oldest first. There are none while this server
/// is a replica, or loads: nothing can be given out.
pub fn oldest(most: usize) -> Vec<Oldest> {
    oldest_within(most, usize::MAX).0
}

/// Does what [`oldest`] does, looking at `looks` rows of slots at the most, and returns whether these were all that it had
/// to look at. What this call does not see, the next one does.
fn oldest_within(most: usize, looks: usize) -> (Vec<Oldest>, bool) {
    if !is_active_primary() {
        return (Vec::new(), true);
    }
    let now = clock::now();
    let first = first::first(second_of(Some(now)), most, looks);
    let oldest = |(second, slot)| Oldest { slot, age: age(u64::from(second) * 1000 + 999, now) };
    (first.found.into_iter().map(oldest).collect(), !first.is_cut)
}
