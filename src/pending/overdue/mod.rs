//! Since when elements have been waiting although they could be given out or delivered, and which values hold the oldest.
//! The cost does not grow with the number of keys.
//!
//! Each value has an [`OverdueSlot`]. Every write records there when its first element becomes available, or became so:
//! at its deadline, at the end of a pause, or on arrival if its deadline was over. A key becomes overdue without being
//! touched.
//!
//! | module | contents |
//! |---|---|
//! | this file | since when a value's first element is overdue, and the names of the oldest |
//! | `slots` | a slot of four bytes for each value, and the search for the earliest |

mod slots;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;

use crate::clock;
use crate::metrics::clock_steps;
use crate::metrics::lateness::OverdueSince;
use crate::server::flags::is_active_primary;
use crate::server::key::Name;

use slots::NEVER;

/// Identifies a value. When the server replaces a key by a copy or a loaded value, it creates the new value before it
/// deletes the old one, and that must not remove the new value's entries.
pub type Serial = u64;

/// A value whose first element has waited this long is overdue, in milliseconds.
pub const OVERDUE: u64 = 1000;
/// An element arrived in time if its deadline was over for no longer than this, in milliseconds.
const IN_TIME: u64 = 1;

/// A value's slot. It is freed with the value, perhaps on another thread.
pub struct OverdueSlot {
    /// The slot, and [`IS_FLOORED`].
    bits: u32,
    generation: u32,
}

/// Set if the value has a [`Floor`]. No slot number has this bit: a value takes more than two bytes of memory.
const IS_FLOORED: u32 = 1 << 31;

/// Recorded where the first element of a value, and perhaps others behind it, arrived after its deadline, or could not
/// be given out before.
#[derive(Clone, Copy)]
struct Floor {
    /// When the first element is available by its deadline.
    next: u64,
    /// Since when it really is available.
    since: u64,
    /// Elements with this deadline or a later one were there before.
    before: u64,
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

thread_local! {
    // Only the server's main thread changes values.
    /// By slot. The entry of a freed value stays until its slot is taken again.
    static FLOORS: RefCell<HashMap<u32, Floor, ahash::RandomState>> = RefCell::default();
}

impl OverdueSlot {
    /// Takes a slot for a value in which nothing is due.
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

    /// Returns the number that identifies this value, also among earlier owners of the slot.
    pub fn serial(&self) -> Serial {
        u64::from(self.generation) << 32 | u64::from(self.slot())
    }

    /// Records when the first element of the value becomes available, or became so by its deadline, in milliseconds
    /// since the epoch. If it was not available a moment ago and is overdue now, it is overdue since `now`.
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
            return slots::set(slot, NEVER);
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
                // It has arrived after its deadline. The elements before it keep their age.
                let before = floor.map_or(before, |floor| floor.before);
                self.set_floor(Some(Floor { next, since: now, before }));
                return slots::set(slot, noted.min(second_of(Some(now))));
            }
        }
        match floor {
            // It was behind an element that was removed.
            Some(floor) if next > floor.next && next < floor.before => {
                self.set_floor((next < floor.since).then_some(Floor { next, ..floor }));
                slots::set(slot, second_of(Some(next.max(floor.since))));
            }
            _ => {
                self.set_floor(None);
                slots::set(slot, second_of(Some(next)));
            }
        }
    }

    /// Returns whether the value has a [`Floor`].
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

    /// Returns since when elements of the value are overdue when they are given out. `next`: when the first became
    /// available, as far as is known now.
    pub fn overdue(&self, next: Option<u64>) -> OverdueSince {
        match self.floor() {
            Some(floor) => OverdueSince::since(floor.since, floor.before),
            // No element is older than the recorded second: before that there was no room, which is no longer known.
            None => {
                let noted = Some(slots::second(self.slot())).filter(|second| *second != NEVER);
                OverdueSince::from(next.max(noted.map(|second| u64::from(second) * 1000)))
            }
        }
    }

    /// Returns for how long the first element has been overdue, in milliseconds, given that it became available at
    /// `next`.
    pub fn age(&self, next: u64, now: u64) -> u64 {
        let since = match self.floor() {
            // The oldest element may stand behind one that arrived later with an earlier deadline.
            Some(floor) => {
                let noted = u64::from(slots::second(self.slot())) * 1000 + 999;
                noted.min(floor.since).max(next)
            }
            None => next,
        };
        age(since, now)
    }
}

impl Drop for OverdueSlot {
    fn drop(&mut self) {
        slots::give_back(self.slot());
    }
}

/// Returns the second of a time in milliseconds.
fn second_of(moment: Option<u64>) -> u32 {
    let Some(moment) = moment else { return NEVER };
    (moment / 1000).min(u64::from(NEVER) - 1) as u32
}

fn age(since: u64, now: u64) -> u64 {
    clock_steps::late_us(since.saturating_mul(1000), now.saturating_mul(1000)) / 1000
}

/// A value with an available element.
#[derive(Clone, Copy)]
pub struct Oldest {
    slot: u32,
    /// How long it has been available, in milliseconds: up to a second too little.
    pub age: u64,
}

/// Returns the values whose elements have been available longest, the oldest first. Empty while this server is a
/// replica or loads, because it gives nothing out.
pub fn oldest(most: usize) -> Vec<Oldest> {
    oldest_within(most, usize::MAX).0
}

/// Returns what [`oldest`] returns, after reading at most `rows` rows of slots, and whether that was enough. The next
/// call sees the rest.
fn oldest_within(most: usize, rows: usize) -> (Vec<Oldest>, bool) {
    if !is_active_primary() {
        return (Vec::new(), true);
    }
    let now = clock::now();
    let first = slots::first(second_of(Some(now)), most, rows);
    let oldest = |(second, slot)| Oldest { slot, age: age(u64::from(second) * 1000 + 999, now) };
    (first.found.into_iter().map(oldest).collect(), !first.is_cut)
}

/// Most values known by name.
pub const NAMED_MAX: usize = 64;
/// Rows of slots read per tick, at most: a tenth of a millisecond.
const ROWS_PER_TICK: usize = 1024;

/// By slot, the values that are overdue longest. A value does not know its own name: a walk over the keyspace finds it.
type Names = HashMap<u32, Option<(Serial, Name)>, ahash::RandomState>;

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static NAMES: RefCell<Names> = RefCell::default();
}

/// Finds the values that are overdue longest. Returns whether the name of one is missing. For the tick.
pub fn miss_names() -> bool {
    let (oldest, is_complete) = oldest_within(NAMED_MAX, ROWS_PER_TICK);
    let slots: Vec<_> = oldest.iter().filter(|it| it.age >= OVERDUE).map(|it| it.slot).collect();
    NAMES.with_borrow_mut(|names| {
        // The next tick reads the rows that this one did not come to.
        if is_complete {
            names.retain(|slot, _| slots.contains(slot));
        }
        slots.into_iter().for_each(|slot| _ = names.entry(slot).or_default());
        names.values().any(Option::is_none)
    })
}

/// Returns whether the name of a value is wanted.
pub fn wants_name(serial: Serial) -> bool {
    NAMES.with_borrow(|names| matches!(names.get(&(serial as u32)), Some(None)))
}

/// Records the name of a value.
pub fn learn_name(serial: Serial, name: Name) {
    NAMES.with_borrow_mut(|names| _ = names.insert(serial as u32, Some((serial, name))));
}

/// Forgets the name of a value, which has lost it.
pub fn forget_name(serial: Serial) {
    NAMES.with_borrow_mut(|names| _ = names.remove(&(serial as u32)));
}

/// Returns the name that a value had when the walk found it.
pub fn name_of(one: Oldest) -> Option<(Serial, Name)> {
    NAMES.with_borrow(|names| names.get(&one.slot).cloned())?
}
