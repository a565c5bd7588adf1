//! The overflow that the paper describes: the cost of timers beyond the range of a wheel.
//!
//! A share of the timers has TTLs longer than a turn of the simple wheel. All are started, then restarted in random
//! order, so that list neighbours are not neighbours in memory, as in a store that has run for long. Then time passes,
//! tick by tick, for two turns of the wheel. A timer that fires starts again with its own TTL, so the share is
//! constant. The first turn is timed as a whole, for the average tick; the second tick by tick, for the slowest one. At
//! the end all are stopped, in random order.
//!
//! The pause at the turn of a wheel is one tick in 65,536. An average would hide it.

use std::hint::black_box;

use crate::load::{PAYLOAD, id, mix, number, shuffled};
use crate::stopwatch::Stopwatch;
use crate::store::{Id, Payload, Store};
use crate::stores::wheel::SIMPLE;

/// The ticks of a full turn of the simple wheel.
const TURN: u64 = SIMPLE;
/// Milliseconds over which starts and restarts are spread; fewer for few timers. Both together are shorter than the
/// shortest TTL, so that nothing comes due too early. Timers of one TTL come due over as many ticks, so that no burst
/// hides the pause of a turn.
const PHASE: usize = 4_000;
/// Operations per tick while few timers are started, so that reading the stopwatch is negligible.
const TOGETHER: usize = 250;
/// The shortest TTL within the range of the wheel, and the spread of the others.
const WITHIN: (u64, u64) = (40_000, 20_000);
/// The shortest TTL beyond the range of the wheel.
const BEYOND: u64 = 80_000;

const _: () = assert!(2 * PHASE < WITHIN.0 as usize && WITHIN.0 + WITHIN.1 < TURN && TURN < BEYOND);

/// TTLs of 40 to 60 seconds, and as many beyond the range of the wheel, each a turn longer than the previous: so each
/// turn brings a large part of the overflow into range.
#[derive(Clone, Copy)]
struct Mixture {
    count: u64,
    /// The percentage of timers with a TTL beyond the range of the wheel.
    share: u64,
}

impl Mixture {
    fn new(count: usize, share: usize) -> Self {
        Self { count: count as u64, share: share as u64 }
    }

    /// Returns the fixed TTL of an element.
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
    /// The elements that came due at this tick.
    due: Vec<(Id, Payload)>,
    fired: usize,
}

impl<S: Store> Life<S> {
    fn new(timers: usize, ttls: Mixture) -> Self {
        Self { store: S::new(0), timers, ttls, now: 0, due: Vec::new(), fired: 0 }
    }

    /// Runs an operation for each element, and returns nanoseconds per operation. Time advances between operations,
    /// outside of the measurement.
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

    /// Runs one tick, at which fired timers start again.
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
    // Avoids page faults, see `lifecycle`.
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
