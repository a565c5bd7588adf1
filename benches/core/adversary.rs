//! An adversary, who knows the structure of a store and chooses deadlines that hurt it.
//!
//! A million elements with random deadlines are stored. Then a hundred thousand more are started, restarted, and
//! stopped in random order. The slowest operation matters as much as the average, because a server does nothing else
//! meanwhile. Each load runs several times with the same operations. An operation that is slow in every run is slow
//! because of the store: so each operation counts with its fastest run, and the slowest of these is shown. The slowest
//! operation of each run is mostly noise; the median of these is shown beside it. A tool that counts instructions can
//! count those of the slowest operation, see [`count`].

use std::sync::OnceLock;

use crate::load::{Dice, PAYLOAD, id, mix, shuffled};
use crate::memory;
use crate::one;
use crate::stopwatch::Stopwatch;
use crate::store::Store;
use crate::stores::ours;

/// How often the same operations run.
const RUNS: usize = 6;
/// An hour, by which the clock steps back.
const HOUR: u64 = 3_600_000;
/// The range of deadlines of the elements that are stored before.
const FIRST: u64 = HOUR;
const SPAN: u64 = 10 * HOUR;
/// The ratio of stored elements to the adversary's.
const SHARE: usize = 10;
/// The number of elements that come and go together: about the capacity of a block in any store.
const CROWD: usize = 64;

/// Sequences of deadlines that an adversary may choose, for `count` elements.
pub const LOADS: [&str; 8] = [
    "at random",
    "ascending",
    "descending",
    "toward the middle",
    "away from the middle",
    "bisecting",
    "in one millisecond",
    "elements that come and go",
];

const CLOCK_BACK: &str = "clock set back an hour";
const ALL_STARTED: &str = "all in one millisecond, start";
pub const ALL_DUE: &str = "all due at once, expire";
const HOT_ID: &str = "one id replaced";

/// Returns the deadline of an element in a load. If there are more elements than milliseconds, elements share them.
fn deadline(load: &str, element: usize, count: usize) -> u64 {
    let (element, count) = (element as u64, count as u64);
    let middle = FIRST + SPAN / 2;
    // Alternates before and after the middle.
    let beside = |distance: u64| {
        if element.is_multiple_of(2) { middle - distance } else { middle + 1 + distance }
    };
    match load {
        "at random" => FIRST + mix(!element) % SPAN,
        "ascending" => FIRST + SPAN + element,
        "descending" => FIRST - 1 - element,
        "toward the middle" => beside((count - element) / 2),
        "away from the middle" => beside(element / 2),
        // Bisects: each half, each quarter, each eighth, so that all blocks of a range fill at the same time.
        "bisecting" => middle + ((element as u32).reverse_bits() >> 12) as u64,
        "in one millisecond" => middle,
        "elements that come and go" => middle + element % CROWD as u64 / 2,
        other => panic!("there is no load called {other}"),
    }
}

/// Returns a store with this many elements at random deadlines.
fn filled<S: Store>(count: usize) -> S {
    let mut store = S::new(0);
    for element in 0..count {
        store.start_at(&id(element), &PAYLOAD, FIRST + mix(element as u64) % SPAN, 0);
    }
    store
}

/// Returns whether each operation of a run is timed, or the run as a whole. They alternate.
fn is_lapped(run: usize) -> bool {
    run % 2 == 1
}

/// Returns the names of all figures: a load and an operation.
pub fn said() -> Vec<String> {
    let [loads @ .., crowded] = LOADS;
    let mut said: Vec<String> = loads
        .iter()
        .chain([&CLOCK_BACK])
        .flat_map(|load| ["start", "restart", "stop"].map(|it| format!("{load}, {it}")))
        .collect();
    said.extend([crowded, ALL_STARTED, ALL_DUE, HOT_ID].map(str::to_owned));
    said
}

/// The single operation that a tool inspects: its name and number.
static COUNTED: OnceLock<(String, usize)> = OnceLock::new();

/// The costs of the runs of an operation.
struct Costs {
    name: String,
    /// The fastest run so far of each operation.
    fastest: Vec<i64>,
    /// The slowest operation of each run.
    slowest: Vec<i64>,
    /// The average of each run.
    ns: Vec<f64>,
}

impl Costs {
    fn new(name: String, operations: usize) -> Self {
        Self { name, fastest: vec![i64::MAX; operations], slowest: Vec::new(), ns: Vec::new() }
    }

    /// Runs the operations up to the one that a tool inspects, which ends the process.
    fn count(number: usize, mut operation: impl FnMut(usize)) -> ! {
        (0..number).for_each(&mut operation);
        one::measured(&mut || operation(number));
        std::process::exit(0);
    }

    /// Runs the operations. `lapped`: reads the stopwatch after each.
    fn note(&mut self, lapped: bool, mut operation: impl FnMut(usize)) {
        let operations = self.fastest.len();
        match COUNTED.get() {
            Some((name, number)) if *name == self.name => Self::count(*number, operation),
            // Without the stopwatch: the tool may lack its clock.
            Some(_) => return (0..operations).for_each(operation),
            None => {}
        }
        let mut stopwatch = Stopwatch::start();
        if !lapped {
            (0..operations).for_each(operation);
            self.ns.push(stopwatch.ns() / operations as f64);
            return;
        }
        let mut slowest = 0;
        for (number, fastest) in self.fastest.iter_mut().enumerate() {
            operation(number);
            let ns = stopwatch.lap();
            *fastest = ns.min(*fastest);
            slowest = slowest.max(ns);
        }
        self.slowest.push(slowest);
    }

    fn say(mut self, say: &mut dyn FnMut(&str, f64)) {
        let name = &self.name;
        self.slowest.sort_unstable();
        self.ns.sort_by(f64::total_cmp);
        let us = |ns: i64| ns as f64 / 1e3;
        say(&format!("{name}: ns"), self.ns[self.ns.len() / 2]);
        let all = self.fastest.iter().enumerate();
        let (at, slowest) = all.max_by_key(|(_, ns)| **ns).expect("there are operations");
        say(&format!("{name}: slowest"), us(*slowest));
        say(&format!("{name}: slowest at"), at as f64);
        say(&format!("{name}: slowest of a run"), us(self.slowest[self.slowest.len() / 2]));
    }
}

/// Measures a load: its deadlines are started, restarted from another deadline, and stopped.
fn load<S: Store>(name: &str, timers: usize, say: &mut dyn FnMut(&str, f64)) {
    let count = timers / SHARE;
    let order = shuffled(count, 2);
    let new = |element: usize| id(timers + element);
    let [mut start, mut restart, mut stop] =
        ["start", "restart", "stop"].map(|it| Costs::new(format!("{name}, {it}"), count));
    for run in 0..RUNS {
        let lapped = is_lapped(run);
        let mut store = filled::<S>(timers);
        start.note(lapped, |element| {
            store.start_at(&new(element), &PAYLOAD, deadline(name, element, count), 0);
        });
        // Stored elements move to the adversary's deadlines.
        restart.note(lapped, |number| {
            let element = order[number] as usize;
            assert!(store.restart_at(&id(element), deadline(name, number, count), 0));
        });
        stop.note(lapped, |number| {
            let element = order[number] as usize;
            assert!(store.stop(&new(element)).is_some());
        });
    }
    start.say(say);
    restart.say(say);
    stop.say(say);
}

/// Measures a group of elements that is inserted between others and removed, last first, again and again. Blocks that
/// split when full and join when sparse do both all the time.
fn crowd<S: Store>(name: &str, timers: usize, say: &mut dyn FnMut(&str, f64)) {
    let mut costs = Costs::new(name.into(), 2 * (timers / SHARE / CROWD) * CROWD);
    for run in 0..RUNS {
        let mut store = filled::<S>(timers);
        costs.note(is_lapped(run), |number| {
            let place = number % (2 * CROWD);
            if place < CROWD {
                let at = deadline(name, place, timers);
                store.start_at(&id(timers + place), &PAYLOAD, at, 0);
            } else {
                let last = 2 * CROWD - 1 - place;
                assert!(store.stop(&id(timers + last)).is_some());
            }
        });
    }
    costs.say(say);
}

/// Measures elements that were all given the same deadline.
fn all_due_at_once<S: Store>(timers: usize, say: &mut dyn FnMut(&str, f64)) {
    let mut costs = Costs::new(ALL_DUE.into(), timers);
    let mut started = Costs::new(ALL_STARTED.into(), timers);
    for run in 0..RUNS {
        let lapped = is_lapped(run);
        let mut store = S::new(0);
        started.note(lapped, |element| store.start_at(&id(element), &PAYLOAD, FIRST, 0));
        // The time from one expired element to the next.
        let mut given = 0;
        let mut slowest = 0;
        let mut stopwatch = Stopwatch::start();
        store.expire(FIRST, &mut |_, _| {
            if lapped {
                let ns = stopwatch.lap();
                costs.fastest[given] = ns.min(costs.fastest[given]);
                slowest = slowest.max(ns);
            }
            given += 1;
        });
        assert_eq!(given, timers);
        if lapped {
            costs.slowest.push(slowest);
        } else {
            costs.ns.push(stopwatch.ns() / timers as f64);
        }
    }
    started.say(say);
    costs.say(say);
}

/// Measures one id that is replaced as often as there are other elements, each time with a random deadline.
fn hot_id<S: Store>(timers: usize, say: &mut dyn FnMut(&str, f64)) {
    let mut costs = Costs::new(HOT_ID.into(), timers);
    let hot = id(timers);
    let mut left = 0.0;
    for run in 0..RUNS {
        // A run that is not lapped.
        memory::set_counting(run == 0);
        let mut store = filled::<S>(timers / SHARE);
        store.start_at(&hot, &PAYLOAD, FIRST, 0);
        let before = memory::allocated();
        let mut dice = Dice::new(17);
        costs.note(is_lapped(run), |_| {
            store.replace_at(&hot, &PAYLOAD, FIRST + dice.below(SPAN), 0);
        });
        if run == 0 {
            left = (memory::allocated() - before) as f64 / timers as f64;
        }
        drop(store);
        memory::set_counting(false);
    }
    costs.say(say);
    say(&format!("{HOT_ID}: bytes left behind"), left);
}

/// Measures a clock that steps back: a million elements with eight long TTLs were started over an hour, and then the
/// clock returns to the beginning. Every element that is started or restarted now belongs before most of its queue.
fn clock_back<S: Store>(timers: usize, say: &mut dyn FnMut(&str, f64)) {
    let ttl = |element: usize| 2 * HOUR + mix(element as u64) % 8 * 1_000;
    let count = timers / SHARE;
    let order = shuffled(timers, 4);
    let [mut start, mut restart, mut stop] =
        ["start", "restart", "stop"].map(|it| Costs::new(format!("{CLOCK_BACK}, {it}"), count));
    for run in 0..RUNS {
        let lapped = is_lapped(run);
        let mut store = S::new(0);
        for element in 0..timers {
            let now = HOUR * element as u64 / timers as u64;
            store.start(&id(element), &PAYLOAD, ttl(element), now);
        }
        // The hour passes a second time.
        let again = |number: usize| HOUR * number as u64 / count as u64;
        start.note(lapped, |number| {
            store.start(&id(timers + number), &PAYLOAD, ttl(number), again(number));
        });
        restart.note(lapped, |number| {
            let element = order[number] as usize;
            assert!(store.restart(&id(element), ttl(element), again(number)));
        });
        stop.note(lapped, |number| {
            assert!(store.stop(&id(order[number] as usize)).is_some());
        });
    }
    start.say(say);
    restart.say(say);
    stop.say(say);
}

/// Measures all loads with this many elements.
pub fn run<S: Store>(timers: usize, say: &mut dyn FnMut(&str, f64)) {
    // The same operations in each process, down to the bits of the hashes.
    ours::know_keys();
    // All loads, or the one with the operation that a tool inspects.
    let is_wanted = |said: &str| COUNTED.get().is_none_or(|(name, _)| name.starts_with(said));
    let [loads @ .., crowded] = LOADS;
    for name in loads.iter().filter(|name| is_wanted(name)) {
        load::<S>(name, timers, say);
    }
    if is_wanted(crowded) {
        crowd::<S>(crowded, timers, say);
    }
    if is_wanted(ALL_STARTED) {
        all_due_at_once::<S>(timers, say);
    }
    if is_wanted(HOT_ID) {
        hot_id::<S>(timers, say);
    }
    if is_wanted(CLOCK_BACK) {
        clock_back::<S>(timers, say);
    }
}

/// Runs up to the operation with this name (see [`said`]) and number, which was reported as the slowest. Only that
/// operation is within [`one::measured`].
pub fn count<S: Store>(said: &str, number: usize, timers: usize) {
    COUNTED.set((said.to_owned(), number)).expect("it is said once");
    run::<S>(timers, &mut |_, _| {});
    panic!("{said} has no operation {number}");
}
