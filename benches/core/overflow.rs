//! The overflow that the paper speaks of: what timers beyond the reach of a wheel cost.
//!
//! A share of all timers has TTLs longer than a turn of the simple wheel. All are started; then all are
//! restarted in random order, so that what is next in a list is not next in memory either, as it is in
//! a store that has run for long. Then time passes, tick by tick, for two turns of the wheel. What
//! fires starts again with its own TTL, so that the share stays what it is. The first of these turns is
//! timed as a whole, for the average tick; the second tick by tick, for the slowest one. At the end all
//! are stopped, in random order.
//!
//! The pause of a wheel that turns is one tick in 65,536. An average would hide it.

use std::hint::black_box;

use crate::load::{PAYLOAD, id, mix, number, shuffled};
use crate::stopwatch::Stopwatch;
use crate::store::{Id, Payload, Store};
use crate::stores::wheel::SIMPLE;

/// Ticks in which the simple wheel comes round.
const TURN: u64 = SIMPLE;
/// Milliseconds over which starting and restarting are spread, fewer for few timers. Both together stay
/// below the shortest TTL, so that nothing comes due before its time; and what is started with one TTL
/// comes due over as many ticks, so that no burst of it hides the pause of a turn.
const PHASE: usize = 4_000;
/// Operations of a tick while few timers are started: a reading of the stopwatch is little beside them.
const TOGETHER: usize = 250;
/// The shortest TTL within the wheel's reach, and how far the others spread.
const WITHIN: (u64, u64) = (40_000, 20_000);
/// The shortest TTL beyond the wheel's reach.
const BEYOND: u64 = 80_000;

const _: () = assert!(2 * PHASE < WITHIN.0 as usize && WITHIN.0 + WITHIN.1 < TURN && TURN < BEYOND);

/// TTLs of 40 to 60 seconds, and as many beyond the wheel's reach, each a turn longer than the one
/// before: so a turn brings a good part of what overflowed into reach.
#[derive(Clone, Copy)]
struct Mixture {
    count: u64,
    /// How many in a hundred timers have a TTL beyond the wheel's reach.
    share: u64,
}

impl Mixture {
    fn new(count: usize, share: usize) -> Self {
        Self { count: count as u64, share: share as u64 }
    }

    /// The TTL that an element always has.
    fn of(&self, element: usize) -> u64 {
        let number = mix(element as u64) >> 20;
        let (percent, which) = (number % 100, number / 100 % self.count);
        if percent < self.share {
            BEYOND + which * TURN
        } else {
            WITHIN.0 + which * WITHIN.1 / self.count
        }
    }
}

struct Life<S> {
    store: S,
    timers: usize,
    ttls: Mixture,
    now: u64,
    /// What came due at this tick.
    due: Vec<(Id, Payload)>,
    fired: usize,
}

impl<S: Store> Life<S> {
    fn new(timers: usize, ttls: Mixture) -> Self {
        Self { store: S::new(0), timers, ttls, now: 0, due: Vec::new(), fired: 0 }
    }

    /// Runs an operation for each element and returns nanoseconds an operation. Time moves on between
    /// them, off the clock.
    fn phase(
        &mut self,
        mut elements: impl Iterator<Item = usize>,
        mut operation: impl FnMut(&mut Self, usize),
    ) -> f64 {
        let ticks = PHASE.min(self.timers / TOGETHER).max(1);
        let mut spent = 0.0;
        for tick in 0..ticks {
            let before = self.timers * tick / ticks;
            let operations = self.timers * (tick + 1) / ticks - before;
            let stopwatch = Stopwatch::start();
            elements.by_ref().take(operations).for_each(|element| operation(self, element));
            spent += stopwatch.ns();
            self.tick();
        }
        spent / self.timers as f64
    }

    fn start_all(&mut self) -> f64 {
        self.phase(0..self.timers, |life, element| {
            life.store.start(&id(element), &PAYLOAD, life.ttls.of(element), life.now);
        })
    }

    /// One tick, at which what fires starts again.
    fn tick(&mut self) {
        self.now += 1;
        self.store.expire(self.now, &mut |id, payload| self.due.push((*id, *payload)));
        self.fired += self.due.len();
        for (id, payload) in self.due.drain(..) {
            self.store.start(&id, &payload, self.ttls.of(number(&id)), self.now);
        }
    }
}

/// Measures the operations, the average tick and the slowest one. `share` is in percent.
pub fn run<S: Store>(timers: usize, ttls: usize, share: usize, say: &mut dyn FnMut(&str, f64)) {
    let ttls = Mixture::new(ttls, share);
    let orders = [1, 2].map(|seed| shuffled(timers, seed));
    let [first, second] =
        orders.each_ref().map(|order| order.iter().map(|element| *element as usize));
    // For the page faults, see `lifecycle`.
    Life::<S>::new(timers, ttls).start_all();

    let mut life = Life::<S>::new(timers, ttls);
    say("start", life.start_all());
    let restart = life.phase(first, |life, element| {
        assert!(life.store.restart(&id(element), life.ttls.of(element), life.now));
    });
    say("restart", restart);
    assert_eq!(life.fired, 0, "an element is early");

    let stopwatch = Stopwatch::start();
    (0..TURN).for_each(|_| life.tick());
    say("tick", stopwatch.ns() / TURN as f64);

    let mut stopwatch = Stopwatch::start();
    let mut slowest = (0, 0);
    for _ in 0..TURN {
        life.tick();
        slowest = slowest.max((stopwatch.lap(), life.now));
    }
    say("slowest tick", slowest.0 as f64 / 1e6);
    say("slowest tick, ticks after a turn", (slowest.1 % TURN) as f64);
    say("fired", life.fired as f64);

    let stopwatch = Stopwatch::start();
    for element in second {
        black_box(life.store.stop(&id(element)).expect("an element that is there"));
    }
    say("stop", stopwatch.ns() / timers as f64);
}
