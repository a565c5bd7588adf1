//! What is in a key, held: one value at a time, and nobody is called out to meanwhile.
//!
//! The server keeps a value where it is only until somebody else runs. A command of the server's own, a keyspace event, a
//! key that expires as it is opened: whoever listens to any of these may do as they like with every key. So while
//! there is a [`Hold`], which whoever refers to a value must have, what calls out panics, and so does who would have
//! another one. That panic is a bug that would else be a reference to what has gone.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keys are opened on the server's main thread alone: nothing is ordered by this.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// The right to refer to what is in a key, for as long as this lives. There is one at a time.
pub struct Hold {
    /// It belongs to this thread.
    here: PhantomData<*const ()>,
}

impl Hold {
    /// Begins to hold.
    ///
    /// # Panics
    ///
    /// If something is held already.
    pub fn begin() -> Self {
        call_out();
        IS_HELD.store(true, Ordering::Relaxed);
        Self { here: PhantomData }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        IS_HELD.store(false, Ordering::Relaxed);
    }
}

/// Says that whoever listens may run from here on.
///
/// # Panics
///
/// If something is held.
#[track_caller]
pub fn call_out() {
    let is_held = IS_HELD.load(Ordering::Relaxed);
    assert!(!is_held, "what is in a key is held: nobody may be called, and nothing else held");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn while_something_is_held_nothing_else_is_and_nobody_is_called() {
        let hold = Hold::begin();
        assert!(catch_unwind(|| drop(Hold::begin())).is_err());
        assert!(catch_unwind(call_out).is_err());
        drop(hold);
        call_out();
        // Also when a panic has dropped it.
        assert!(
            catch_unwind(|| {
                let _hold = Hold::begin();
                panic!("as was asked for")
            })
            .is_err()
        );
        drop(Hold::begin());
    }
}
