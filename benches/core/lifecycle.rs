//! The life of a timer, one operation after the other, with a given number of timers and of TTLs, or with any
//! deadlines.
//!
//! The first pass counts bytes, and makes the allocator fetch the pages that the second, timed pass needs. Page faults
//! are the kernel's cost, differ between machines, and would dominate the rest. They are counted where they belong, in
//! the pause during growth.
//!
//! Ids are touched, restarted and stopped in random order, a different one each time. In one fixed order, each would be
//! the oldest of its queue when it is stopped, which does not happen with many clients. Expiry follows a fill without
//! these operations, so due elements are where starting put them. The payload of each removed element is read, so that
//! the compiler cannot optimize the removal away.
//!
//! With one operation directly after the other, the processor can begin the next ones while one waits for memory.
//! Commands of a server are further apart. So everything is measured again with a fence before each operation, which
//! finishes all earlier work: `fenced`.

use std::hint::black_box;

use crate::due::Due;
use crate::load::{TTL_MIN, id, shuffled};
use crate::memory;
use crate::stopwatch::Stopwatch;
use crate::store::Store;

/// Virtual milliseconds over which each phase is spread; fewer for few timers. Four phases are shorter than the
/// shortest TTL, so that nothing comes due too early.
const PHASE: usize = 500;
/// The number of timed ticks with nothing due, between the end of the first phase and the shortest TTL.
const QUIET: u64 = 8_000;
/// Nanoseconds after which the bench gives up on a store that has not expired everything.
const PATIENCE: f64 = 1e10;

const _: () = assert!(4 * PHASE < TTL_MIN as usize && PHASE as u64 + QUIET < TTL_MIN);

/// Makes the processor finish all earlier work. A fence of the language only orders what other threads see.
#[inline(always)]
fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instructions are part of every x86-64 (SSE2), and change nothing.
    unsafe {
        std::arch::x86_64::_mm_mfence();
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: barriers change nothing.
    unsafe {
        std::arch::asm!("dsb sy", "isb", options(nostack, preserves_flags));
    }
}

struct Life<S> {
    store: S,
    count: usize,
    due: Due,
    now: u64,
    fenced: bool,
}

impl<S: Store> Life<S> {
    fn new(count: usize, due: Due, fenced: bool) -> Self {
        Self { store: S::new(0), count, due, now: 0, fenced }
    }

    /// Runs an operation for each element, and returns nanoseconds per operation. Time advances between operations,
    /// outside of the measurement.
    fn phase(
        &mut self,
        elements: impl Iterator<Item = usize>,
        mut operation: impl FnMut(&mut Self, usize),
    ) -> f64 {
        let mut elements = elements.peekable();
        let ticks = PHASE.min(self.count / 1000);
        let mut spent = 0.0;
        let mut done = 0;
        for tick in 1..=ticks {
            let until = self.count * tick / ticks;
            let stopwatch = Stopwatch::start();
            while done < until {
                let Some(element) = elements.next() else { break };
                if self.fenced {
                    finish();
                }
                operation(self, element);
                done += 1;
            }
            spent += stopwatch.ns();
            if elements.peek().is_some() {
                self.pass_time();
            }
        }
        spent / done as f64
    }

    fn pass_time(&mut self) {
        self.now += 1;
        self.store.expire(self.now, &mut |_, _| panic!("an element is early"));
    }

    fn start_all(&mut self) -> f64 {
        self.phase(0..self.count, |life, element| {
            life.due.start(&mut life.store, element, life.now);
        })
    }
}

/// Measures all operations, and reports each figure.
pub fn run<S: Store>(count: usize, ttls: usize, say: &mut dyn FnMut(&str, f64)) {
    live::<S>(count, ttls, false, say);
}

/// Like [`run`], with a fence before each operation.
pub fn run_fenced<S: Store>(count: usize, ttls: usize, say: &mut dyn FnMut(&str, f64)) {
    live::<S>(count, ttls, true, say);
}

fn live<S: Store>(count: usize, ttls: usize, fenced: bool, say: &mut dyn FnMut(&str, f64)) {
    let due = Due::new(ttls);
    if due.longest() > S::MAX_TTL {
        return;
    }
    let orders = [1, 2, 3].map(|seed| shuffled(count, seed));
    let [first, second, third] =
        orders.each_ref().map(|order| order.iter().map(|element| *element as usize));

    memory::set_counting(true);
    let mut life = Life::<S>::new(count, due, fenced);
    life.start_all();
    say("bytes", memory::allocated() as f64 / count as f64);
    for element in first.clone().skip(1) {
        life.store.stop(&id(element)).expect("an element that is there");
    }
    say("left", memory::allocated() as f64 / count as f64);
    drop(life);
    memory::set_counting(false);

    let mut life = Life::<S>::new(count, due, fenced);
    say("start", life.start_all());
    if S::TIMERS {
        let touch = life.phase(first, |life, element| {
            assert!(life.due.touch(&mut life.store, element, life.now));
        });
        say("touch", touch);
        let restart = life.phase(second, |life, element| {
            assert!(life.due.restart(&mut life.store, element, life.now));
        });
        say("restart", restart);
    }
    let stop = life.phase(third, |life, element| {
        black_box(life.store.stop(&id(element)).expect("an element that is there"));
    });
    say("stop", stop);
    drop(life);

    let mut life = Life::<S>::new(count, due, fenced);
    life.start_all();
    if !S::TIMERS {
        // Closest to expiry: elements leave in the order in which they came.
        let expire = life.phase(0..count, |life, element| {
            black_box(life.store.stop(&id(element)).expect("an element that is there"));
        });
        say("expire", expire);
        return;
    }
    let stopwatch = Stopwatch::start();
    (0..QUIET).for_each(|_| life.pass_time());
    say("quiet tick", stopwatch.ns() / QUIET as f64);

    let step = due.step(count);
    let mut expired = 0;
    let stopwatch = Stopwatch::start();
    while expired < count {
        life.now += step;
        life.store.expire(life.now, &mut |_, payload| {
            black_box(*payload);
            expired += 1;
            if fenced {
                finish();
            }
        });
        if (life.now / step).is_multiple_of(16) && stopwatch.ns() > PATIENCE {
            break;
        }
    }
    // The time spent on some of them is a lower bound for all.
    let expire = if expired == count { "expire" } else { "expire, at least" };
    say(expire, stopwatch.ns() / count as f64);
}
