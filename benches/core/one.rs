//! One operation, for a tool that counts instructions.
//!
//! ```sh
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no \
//!     --toggle-collect='core::one::measured*' target/release/deps/core-… one lawn start --timers 10000
//! ```
//!
//! Divide `Collected` by the number of timers to get instructions per operation.

use std::hint::black_box;

use crate::due::Due;
use crate::load::{TTL_MIN, id, shuffled};
use crate::store::Store;

/// The number of timers when instructions are counted.
pub const COUNTED: usize = 10_000;
pub const OPERATIONS: [&str; 6] = ["start", "touch", "restart", "stop", "expire", "quiet"];

/// Runs the operations, in a function that the tool can watch because its name does not depend on the store.
#[inline(never)]
pub fn measured(operations: &mut dyn FnMut()) {
    operations();
    black_box(());
}

/// Runs `timers` operations of a kind on `timers` timers, which are [`Due`] as the number of TTLs says.
pub fn run<S: Store>(operation: &str, timers: usize, ttls: usize) {
    let due = Due::new(ttls);
    let order = shuffled(timers, 1);
    let randomly = || order.iter().map(|element| *element as usize);
    let mut store = S::new(0);
    let start = |store: &mut S| {
        (0..timers).for_each(|it| due.start(store, it, 0));
    };
    if operation == "start" {
        return measured(&mut || start(&mut store));
    }
    start(&mut store);
    measured(&mut || match operation {
        "touch" => {
            randomly().for_each(|it| assert!(due.touch(&mut store, it, 1)));
        }
        "restart" => {
            randomly().for_each(|it| assert!(due.restart(&mut store, it, 1)));
        }
        "stop" => randomly().for_each(|it| {
            black_box(store.stop(&id(it)));
        }),
        "expire" if S::TIMERS => {
            store.expire(due.longest() + 1, &mut |_, payload| {
                black_box(*payload);
            });
        }
        "expire" => (0..timers).for_each(|it| {
            black_box(store.stop(&id(it)));
        }),
        "quiet" => {
            let ticks = (TTL_MIN - 1).min(timers as u64);
            (1..=ticks).for_each(|now| store.expire(now, &mut |_, _| panic!("early")));
        }
        other => panic!("there is no operation called {other}"),
    });
}
