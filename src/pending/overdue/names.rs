//! The names of those that are overdue the longest. A value does not know its own: a walk over the keyspace finds it.

use std::cell::RefCell;

use hashbrown::{HashMap, HashSet};

use super::{OVERDUE, Oldest, Serial, oldest_within};
use crate::server::key::Name;

/// How many are known by name, at the most.
pub const MOST: usize = 64;
/// At so many rows of places a tick looks at the most: a tenth of a millisecond's work.
const LOOKS: usize = 1024;

#[derive(Default)]
struct Names {
    known: HashMap<u32, (Serial, Name), ahash::RandomState>,
    /// Slots of those that are looked for.
    wanted: HashSet<u32, ahash::RandomState>,
}

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static NAMES: RefCell<Names> = RefCell::default();
}

/// Looks who is overdue the longest. Returns whether the name of one is not known. For the tick.
pub fn look() -> bool {
    let (oldest, are_all) = oldest_within(MOST, LOOKS);
    let slots: Vec<_> = oldest.iter().filter(|it| it.age >= OVERDUE).map(|it| it.slot).collect();
    NAMES.with_borrow_mut(|names| {
        // The next tick has a look at those that this one did not come to.
        if are_all {
            names.known.retain(|slot, _| slots.contains(slot));
        }
        names.wanted.clear();
        let unknown = slots.into_iter().filter(|slot| !names.known.contains_key(slot));
        names.wanted.extend(unknown);
        !names.wanted.is_empty()
    })
}

/// Returns whether the name of a value is looked for.
pub fn is_wanted(serial: Serial) -> bool {
    NAMES.with_borrow(|names| names.wanted.contains(&(serial as u32)))
}

/// Notes the name of a value.
pub fn learn(serial: Serial, name: Name) {
    NAMES.with_borrow_mut(|names| {
        names.wanted.remove(&(serial as u32));
        names.known.insert(serial as u32, (serial, name));
    });
}

/// Forgets the name of a value: it is another's, or nobody's, by now.
pub fn forget(serial: Serial) {
    NAMES.with_borrow_mut(|names| _ = names.known.remove(&(serial as u32)));
}

/// Returns the name that a value had when it was found.
pub fn of(one: Oldest) -> Option<(Serial, Name)> {
    NAMES.with_borrow(|names| names.known.get(&one.slot).cloned())
}
