//! Dehydrators that the next ticks should look at.
//!
//! The server knows keys by name and a value does not know its own, so what needs attention later is
//! noted by database and name. A name may mean nothing any more, or something else, when its turn
//! comes; then there is nothing to do. Writing a name down twice costs nothing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::HashSet;

use crate::server::key::Name;

/// Names that are kept at most, some megabytes. One that does not fit is noted again when its key is
/// next opened for writing.
const NAMES_MAX: usize = 1 << 16;

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static NAMES: RefCell<Names> = RefCell::default();
}

/// Each name once, first noted first.
#[derive(Default)]
struct Names {
    queue: VecDeque<Rc<Name>>,
    noted: HashSet<Rc<Name>, ahash::RandomState>,
}

/// Notes a dehydrator that holds memory it could give back, or that is empty.
pub fn note(db: i32, key: &[u8]) {
    NAMES.with_borrow_mut(|names| {
        let name = Rc::new(Name { db, key: key.into() });
        if names.queue.len() < NAMES_MAX && names.noted.insert(Rc::clone(&name)) {
            names.queue.push_back(name);
        }
    });
}

/// The name that has waited longest.
pub fn take() -> Option<Rc<Name>> {
    NAMES.with_borrow_mut(|names| {
        let name = names.queue.pop_front()?;
        names.noted.remove(&name);
        Some(name)
    })
}

/// How many there are.
pub fn len() -> usize {
    // Also in the report of a crash, which may have happened in the middle of a change.
    NAMES.with(|names| names.try_borrow().map_or(0, |names| names.queue.len()))
}
