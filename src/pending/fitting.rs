//! Dehydrators with groups to be brought to limits that have changed for each of them: some hundred groups at the end of each pass
//! of the event loop.
//!
//! The names are those under which the dehydrators were when a write left groups to be brought there. If one has moved since, the
//! cron finds it.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::clock;
use crate::server::key::Name;

thread_local! {
    // Commands and passes of the event loop run on the server's main thread alone.
    static NAMES: RefCell<VecDeque<Name>> = const { RefCell::new(VecDeque::new()) };
}

/// The most names. The cron does the rest.
const NAMES_MAX: usize = 1024;

/// Records a dehydrator with groups to be brought to their limits.
pub fn note(name: &Name) {
    NAMES.with_borrow_mut(|names| {
        let is_new = !names.iter().any(|it| (it.db, &it.key) == (name.db, &name.key));
        if is_new && names.len() < NAMES_MAX {
            names.push_back(Name { db: name.db, key: name.key.clone() });
        }
    });
}

/// Returns when there is work next, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    let is_idle = NAMES.with_borrow(VecDeque::is_empty);
    (!is_idle).then(clock::monotonic_us)
}

/// Returns the next dehydrator. They take turns.
pub fn take() -> Option<Name> {
    NAMES.with_borrow_mut(VecDeque::pop_front)
}
