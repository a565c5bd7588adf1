//! Many workers, as in the paper (IV-A): one store per thread without locks, compared with one store behind a lock.

use std::sync::{Barrier, Mutex};
use std::time::Instant;

use crate::load::{Dice, PAYLOAD, Ttls, id};
use crate::store::Store;
use crate::stores::ours::Ours;

/// Operations of each thread.
const OPERATIONS: usize = 1_000_000;

/// The work on a worker's own elements: mostly restarts; sometimes one leaves and another comes; and a tick at every
/// 1,000 of them.
fn work(
    mut with: impl FnMut(&mut dyn FnMut(&mut Ours)),
    first: usize,
    timers: usize,
    now: &mut u64,
) {
    let ttls = Ttls::new(8);
    let mut dice = Dice::new(first as u64);
    for operation in 0..OPERATIONS {
        let element = first + dice.below(timers as u64) as usize;
        let ttl = ttls.get(dice.roll());
        with(&mut |store| match operation % 1000 {
            0 => {
                *now += 1;
                store.rearm(*now, &mut || ttl);
            }
            step if step % 8 == 0 => {
                store.stop(&id(element)).expect("it is there");
                store.start(&id(element), &PAYLOAD, ttl, *now);
            }
            _ => assert!(store.restart(&id(element), ttl, *now)),
        });
    }
}

fn fill(store: &mut Ours, first: usize, timers: usize) {
    let ttls = Ttls::new(8);
    (first..first + timers).for_each(|it| store.start(&id(it), &PAYLOAD, ttls.of(it), 0));
}

/// Measures millions of operations per second of all threads together. `timers` are divided among them.
pub fn run(threads: usize, timers: usize, say: &mut dyn FnMut(&str, f64)) {
    let share = timers / threads;
    let rate =
        |before: Instant| (threads * OPERATIONS) as f64 / before.elapsed().as_micros() as f64;
    let barrier = Barrier::new(threads + 1);
    let before = std::thread::scope(|scope| {
        for worker in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                let mut store = Ours::new(0);
                fill(&mut store, worker * share, share);
                barrier.wait();
                work(|operation| operation(&mut store), worker * share, share, &mut 0);
                // Dropping it is not measured.
                std::mem::forget(store);
            });
        }
        barrier.wait();
        Instant::now()
    });
    say("each its own", rate(before));

    let mut store = Ours::new(0);
    fill(&mut store, 0, share * threads);
    let store = Mutex::new(store);
    let before = Instant::now();
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let store = &store;
            let with = |operation: &mut dyn FnMut(&mut Ours)| {
                operation(&mut store.lock().expect("no worker panics"));
            };
            scope.spawn(move || work(with, worker * share, share, &mut 0));
        }
    });
    say("one for all", rate(before));
}
