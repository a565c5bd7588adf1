//! Dehydrators in which it is being found out which leases run, and when that goes on.
//!
//! LIMIT's HELD, said of a dehydrator in which much is held, takes a search. As long as that goes on, all count that are held,
//! and nobody is given anything: so it is not left to the server's cron, which would take half a minute for a million, but
//! takes a part of the time until it is done. A name may mean nothing any more, or something else, when its turn comes; then
//! the walk for keys that were renamed, or the next write, notes it again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::timer;
use crate::clock;
use crate::server::Context;
use crate::server::key::Name;

/// Names that are kept at the most. Those that do not fit are left to the cron.
const NAMES_MAX: usize = 64;
/// After a go the search rests so many times as long as that took: it takes no more than a fifth of the time.
const REST: u64 = 4;

thread_local! {
    // Commands and passes of the event loop run on the server's main thread alone.
    /// Each name once, first noted first.
    static NAMES: RefCell<VecDeque<Name>> = const { RefCell::new(VecDeque::new()) };
    /// When the search goes on, on the monotonic clock, in microseconds.
    static GOES_ON_US: Cell<u64> = const { Cell::new(0) };
}

/// Notes a dehydrator in which there is something to find out.
pub fn note(context: &Context, name: Name) {
    let is_new = NAMES.with_borrow_mut(|names| {
        let is_new = names.len() < NAMES_MAX && !names.contains(&name);
        if is_new {
            names.push_back(name);
        }
        is_new
    });
    if is_new {
        next_us().into_iter().for_each(|at_us| timer::at(context, at_us));
    }
}

/// Takes the name whose turn it is, if it is time for that.
pub fn take() -> Option<Name> {
    let is_time = GOES_ON_US.get() <= clock::monotonic_us();
    NAMES.with_borrow_mut(|names| if is_time { names.pop_front() } else { None })
}

/// Notes how long was searched, in microseconds.
pub fn rest(took_us: u64) {
    GOES_ON_US.set(clock::monotonic_us() + REST * took_us);
}

/// Notes that two databases were swapped.
pub fn swapped(first: i32, second: i32) {
    NAMES.with_borrow_mut(|names| {
        for name in names {
            name.db = match name.db {
                db if db == first => second,
                db if db == second => first,
                db => db,
            };
        }
    });
}

/// Returns when the search goes on, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    NAMES.with_borrow(|names| (!names.is_empty()).then(|| GOES_ON_US.get()))
}
