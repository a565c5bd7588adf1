//! Dehydrators that the next ticks should look at.
//!
//! The server knows keys by name and a value does not know its own, so what needs attention later is
//! noted by database and name. A name may mean nothing any more, or something else, when its turn
//! comes; then there is nothing to do. Writing a name down twice costs nothing.

use std::cell::RefCell;

use hashbrown::HashSet;

/// Names that are kept at most. One that does not fit is noted again by the next removal.
const NAMES_MAX: usize = 1024;

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static NAMES: RefCell<HashSet<Name, ahash::RandomState>> = RefCell::default();
}

/// A key's database and name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name {
    pub db: i32,
    pub key: Vec<u8>,
}

/// Notes a dehydrator that holds memory it could give back, or that is empty.
pub fn note(db: i32, key: &[u8]) {
    NAMES.with_borrow_mut(|names| {
        let name = Name { db, key: key.to_vec() };
        if names.len() < NAMES_MAX {
            names.insert(name);
        }
    });
}

/// All names that were noted since the last call.
pub fn take() -> Vec<Name> {
    NAMES.with_borrow_mut(|names| names.drain().collect())
}

/// How many there are.
pub fn len() -> usize {
    NAMES.with_borrow(HashSet::len)
}
