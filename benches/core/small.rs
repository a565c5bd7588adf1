//! Many lawns of a few elements each, with and without the small form.
//!
//! A thousand lawns, so that each is in a cache, but not in the first level, like a key of a server that is used
//! occasionally. Each has a given number of elements before a start, a restart, a stop and a pop. One operation runs on
//! every lawn in turn. A pass is timed as a whole, and then undone.

use std::hint::black_box;
use std::sync::Arc;

use ahash::RandomState;

use crate::load::{Dice, PAYLOAD, Ttls, id};
use crate::stopwatch::Stopwatch;
use crate::{Measure, memory};
use benches::markdown::{cell, head, join, table};
use lawn::{Lawn, Shared, SmallMax};

/// The two forms.
pub const FORMS: [&str; 2] = ["small", "full"];
/// Numbers of elements for timing, and for counting bytes.
pub const TIMED: [usize; 2] = [8, 32];
pub const COUNTED: [usize; 3] = [1, 4, 32];
pub const OPERATIONS: [&str; 4] = ["start", "restart", "stop", "pop"];

const LAWNS: usize = 1000;
const PASSES: u64 = 200;
const PAYLOAD_BYTES: usize = 16;

pub fn measure(elements: usize) -> Measure {
    Measure::new("small", elements, 8)
}

struct Lawns {
    lawns: Vec<Lawn>,
    ttls: Ttls,
    now: u64,
}

impl Lawns {
    fn new(form: &str, elements: usize) -> Self {
        // During a pass there is one element more.
        let elements_max = if form == "small" { elements + 1 } else { 0 };
        let small_max = move || SmallMax { elements: elements_max, bytes: usize::MAX };
        let shared = Arc::new(Shared::new(RandomState::new(), small_max));
        let lawns = (0..LAWNS).map(|_| Lawn::new(Arc::clone(&shared))).collect();
        Self { lawns, ttls: Ttls::new(8), now: 0 }
    }

    /// Starts an element in each lawn.
    fn start(&mut self, element: usize) {
        for lawn in &mut self.lawns {
            let ttl = self.ttls.of(element);
            lawn.start_at(&id(element), ttl, &PAYLOAD[..PAYLOAD_BYTES], self.now + ttl)
                .expect("room");
        }
    }

    /// Gives an element of each lawn another timer.
    fn restart(&mut self, element: usize, ttl: u64, deadline: u64) {
        for lawn in &mut self.lawns {
            assert!(lawn.restart_at(&id(element), ttl, deadline));
        }
    }

    fn stop(&mut self, element: usize) {
        for lawn in &mut self.lawns {
            black_box(lawn.stop(&id(element)).expect("it is there").element().payload[0]);
        }
    }

    fn pop(&mut self) {
        for lawn in &mut self.lawns {
            assert_eq!(lawn.drain(u64::MAX, 1, |_, it| _ = black_box(it.payload[0])), 1);
        }
    }
}

/// Measures nanoseconds per operation with this many elements in each lawn, and bytes per lawn.
pub fn run(form: &str, elements: usize, say: &mut dyn FnMut(&str, f64)) {
    memory::set_counting(true);
    let mut lawns = Lawns::new(form, elements);
    let empty = memory::allocated() - (LAWNS * size_of::<Lawn>()) as isize;
    (0..elements).for_each(|element| lawns.start(element));
    say("bytes", (memory::allocated() - empty) as f64 / LAWNS as f64);
    memory::set_counting(false);

    let mut dice = Dice::new(5);
    let mut spent = [0.0; OPERATIONS.len()];
    let mut time = |operation: usize, stopwatch: Stopwatch| spent[operation] += stopwatch.ns();
    for pass in 0..PASSES {
        lawns.now += 100;
        // First a new element, then any.
        let new = elements + pass as usize;
        let stopwatch = Stopwatch::start();
        lawns.start(new);
        time(0, stopwatch);
        lawns.stop(new);
        let other = dice.below(elements as u64) as usize;
        let ttl = lawns.ttls.get(dice.roll() >> 20);
        let stopwatch = Stopwatch::start();
        lawns.restart(other, ttl, lawns.now + ttl);
        time(1, stopwatch);
        let stopwatch = Stopwatch::start();
        lawns.stop(other);
        time(2, stopwatch);
        // Makes it the first of all, so that it is known which one is popped.
        lawns.start(other);
        lawns.restart(other, lawns.ttls.of(other), 0);
        let stopwatch = Stopwatch::start();
        lawns.pop();
        time(3, stopwatch);
        lawns.start(other);
    }
    for (operation, spent) in OPERATIONS.into_iter().zip(spent) {
        say(operation, spent / (PASSES * LAWNS as u64) as f64);
    }
}

/// Returns a table of the figures that `get` returns for a form with a number of elements.
pub fn show(get: impl Fn(&str, usize, &str) -> Option<f64>) -> String {
    let rows = FORMS.map(|form| {
        let name = if form == "small" { "**the small form**" } else { "the full form" };
        let times = OPERATIONS
            .map(|operation| join(TIMED.map(|elements| cell(get(form, elements, operation)))));
        let bytes = join(COUNTED.map(|elements| cell(get(form, elements, "bytes"))));
        [name.to_owned()].into_iter().chain(times).chain([bytes]).collect()
    });
    let columns: Vec<&str> = OPERATIONS.into_iter().chain(["bytes with 1 / 4 / 32"]).collect();
    table(&head("ns an operation with 8 / 32 elements", &columns), rows)
}

/// Measures both forms in this process, and prints the table.
pub fn print() {
    let mut figures = crate::figures::Figures::default();
    for (form, elements) in
        FORMS.into_iter().flat_map(|form| [1, 4, 8, 32].map(|elements| (form, elements)))
    {
        for _ in 0..3 {
            run(form, elements, &mut |figure, value| {
                figures.add(&measure(elements), form, figure, value);
            });
        }
    }
    print!("{}", show(|form, elements, figure| figures.least(&measure(elements), form, figure)));
}
