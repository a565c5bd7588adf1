//! The worst cases for a store of timers.

use ahash::RandomState;

use crate::load::{Dice, PAYLOAD, id, mix};
use crate::memory;
use crate::stopwatch::Stopwatch;
use crate::store::{Id, Store};
use crate::stores::ours::Ours;

const TTL: u64 = 30_000;

fn ns_each(count: usize, operations: impl FnOnce()) -> f64 {
    let stopwatch = Stopwatch::start();
    operations();
    stopwatch.ns() / count as f64
}

fn filled<S: Store>(timers: usize) -> S {
    let mut store = S::new(0);
    (0..timers).for_each(|element| store.start(&id(element), &PAYLOAD, TTL, 0));
    store
}

pub fn run<S: Store>(timers: usize, say: &mut dyn FnMut(&str, f64)) {
    all_due_at_once::<S>(timers, say);
    hot_id::<S>(timers, say);
    oldest_pulled::<S>(timers, say);
}

/// Gives everything the same deadline.
fn all_due_at_once<S: Store>(timers: usize, say: &mut dyn FnMut(&str, f64)) {
    let mut store = filled::<S>(timers);
    let mut expired = 0;
    store.expire(TTL - 1, &mut |_, _| panic!("an element is early"));
    let ns = ns_each(timers, || store.expire(TTL, &mut |_, _| expired += 1));
    assert_eq!(expired, timers);
    say("all due at once", ns);
}

/// Replaces one id as often as there are others, without a tick in between. A store that deletes lazily keeps the dead
/// entries.
fn hot_id<S: Store>(timers: usize, say: &mut dyn FnMut(&str, f64)) {
    memory::set_counting(true);
    let mut store = filled::<S>(timers / 10);
    let hot = id(timers);
    store.start(&hot, &PAYLOAD, TTL, 0);
    let before = memory::allocated();
    let ns = ns_each(timers, || {
        (0..timers).for_each(|_| store.replace(&hot, &PAYLOAD, TTL, 0));
    });
    say("hot id", ns);
    say("hot id, bytes left behind", (memory::allocated() - before) as f64 / timers as f64);
    drop(store);
    memory::set_counting(false);
}

/// Repeatedly stops the oldest, and starts a new one.
fn oldest_pulled<S: Store>(timers: usize, say: &mut dyn FnMut(&str, f64)) {
    let mut store = filled::<S>(timers);
    let ns = ns_each(timers, || {
        for element in 0..timers {
            store.stop(&id(element)).expect("it is there");
            store.start(&id(timers + element), &PAYLOAD, TTL, 1);
        }
    });
    say("oldest pulled", ns);
}

/// Uses ids whose hashes begin with the same bits, as the index sees them, so that they share a table however deep its
/// directory gets. An attacker who knows the keys of the hash finds such ids by trial. With random keys, as in the
/// module, they are ordinary ids.
pub fn collisions(count: usize, say: &mut dyn FnMut(&str, f64)) {
    const BITS: u32 = 15;
    let known = || RandomState::with_seeds(1, 2, 3, 4);
    let state = known();
    let hash = |id: &Id| {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = state.build_hasher();
        hasher.write(id);
        // The index uses the lower half.
        hasher.finish() as u32
    };
    let colliding: Vec<Id> =
        (0..).map(id).filter(|id| hash(id) >> (u32::BITS - BITS) == 0).take(count).collect();
    let mut dice = Dice::new(3);
    let random: Vec<Id> = (0..count).map(|_| id(mix(dice.roll()) as usize)).collect();

    let mut cost = |name: &str, ids: &[Id], hasher: RandomState| {
        let mut store = Ours::with_hasher(hasher);
        let ns = ns_each(2 * count, || {
            ids.iter().for_each(|id| store.start(id, &PAYLOAD, TTL, 0));
            ids.iter().for_each(|id| assert!(store.stop(id).is_some()));
        });
        say(name, ns);
    };
    cost("random ids, keys known", &random, known());
    cost("colliding ids, keys known", &colliding, known());
    cost("random ids, keys random", &random, RandomState::new());
    cost("colliding ids, keys random", &colliding, RandomState::new());
}
