//! A timer's life, one operation after the other, at a given number of timers and of TTLs, or with any deadlines.
//!
//! The first pass counts bytes, and has the allocator fetch from the kernel what the second, the timed
//! one, will need: page faults are the kernel's, differ from machine to machine, and would drown the
//! rest. Where they belong, in the pause while a store grows, they are counted.
//!
//! Ids are touched, restarted and stopped in random order, another one each time: in the same one each would be the oldest of
//! its queue when it is stopped, which no load of many clients does. Expiry follows a fill, without any of that in between;
//! what comes due then lies where starting put it. What is taken out is read: a store must not look faster because the
//! compiler saw that nobody wants the payload.
//!
//! One operation after the other lets the processor begin the next ones while it waits for memory. A server's commands do
//! not follow each other like that. So all is measured again with a fence before each operation, which has it finish what it
//! has begun: `fenced`.

use std::hint::black_box;

use crate::due::Due;
use crate::load::{TTL_MIN, id, shuffled};
use crate::memory;
use crate::stopwatch::Stopwatch;
use crate::store::Store;

/// Virtual milliseconds over which each phase is spread, fewer for few timers. Four of them stay below the shortest TTL, so
/// that nothing comes due before its time.
const PHASE: usize = 500;
/// Quiet ticks that are timed, between the end of the first phase and the shortest TTL.
const QUIET: u64 = 8_000;
/// A store that has not expired everything after so many nanoseconds has said enough.
const PATIENCE: f64 = 1e10;

const _: () = assert!(4 * PHASE < TTL_MIN as usize && PHASE as u64 + QUIET < TTL_MIN);

/// Has the processor finish all that it has begun before it begins anything else. A fence of the language only orders what
/// others see of it.
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

    /// Runs an operation for each element and returns nanoseconds an operation. Time moves on between
    /// them, off the clock.
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

/// Measures all operations and says each figure as it comes.
pub fn run<S: Store>(count: usize, ttls: usize, say: &mut dyn FnMut(&str, f64)) {
    live::<S>(count, ttls, false, say);
}

/// As [`run`], with a fence before each operation.
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
        // The nearest thing to expiry: everything goes in the order in which it came.
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
    // What it has spent on some of them is less than all of them cost.
    let expire = if expired == count { "expire" } else { "expire, at least" };
    say(expire, stopwatch.ns() / count as f64);
}
