//! The hold on a key's value, which forbids calls that could free the value.
//!
//! A value stays where it is only until other code runs. A server command, a keyspace event, or a key that expires when it
//! is opened may run another module's callback, and that callback may change any key. So a reference to a value requires a
//! [`Hold`]. While a [`Hold`] exists, a call that could run other code panics, and so does a second [`Hold`]. Such a panic
//! is a bug that would otherwise be a dangling reference.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

/// Relaxed, because keys are opened on the server's main thread only.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// The right to refer to a key's value, for as long as this lives. Only one exists at a time.
pub struct Hold {
    /// Makes the type neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

impl Hold {
    /// # Panics
    ///
    /// If another [`Hold`] exists.
    pub fn begin() -> Self {
        assert_released();
        IS_HELD.store(true, Ordering::Relaxed);
        Self { not_send: PhantomData }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        IS_HELD.store(false, Ordering::Relaxed);
    }
}

/// Checks that no value is held. To be called before each call that may run other code.
///
/// # Panics
///
/// If a [`Hold`] exists.
#[track_caller]
pub fn assert_released() {
    let is_held = IS_HELD.load(Ordering::Relaxed);
    assert!(!is_held, "a key's value is held: no other code may run, and no other value be held");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_hold_excludes_a_second_hold_and_calls() {
        let hold = Hold::begin();
        assert!(catch_unwind(|| drop(Hold::begin())).is_err());
        assert!(catch_unwind(assert_released).is_err());
        drop(hold);
        assert_released();
        // A panic that drops a hold releases the hold.
        assert!(
            catch_unwind(|| {
                let _hold = Hold::begin();
                panic!("on purpose")
            })
            .is_err()
        );
        drop(Hold::begin());
    }
}
