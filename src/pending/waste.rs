//! Memory that is freed gradually, by the server's cron.

use std::cell::RefCell;

/// Frees a little, in a few microseconds. Returns whether there was anything.
type FreeSome = Box<dyn FnMut() -> bool>;

thread_local! {
    // Commands and ticks run on the server's main thread alone.
    static WASTE: RefCell<Vec<FreeSome>> = RefCell::default();
}

/// Queues something to be freed by calls of `free_some`, until it returns `false`.
pub fn discard(free_some: impl FnMut() -> bool + 'static) {
    WASTE.with_borrow_mut(|waste| waste.push(Box::new(free_some)));
}

/// Frees a little of what is queued. Returns whether there was anything.
pub fn free_some() -> bool {
    WASTE.with_borrow_mut(|waste| {
        let Some(free_some) = waste.last_mut() else { return false };
        if !free_some() {
            waste.pop();
        }
        true
    })
}
