//! The two clocks of the simulation, which all its servers share. Reading one reads a variable.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// 2026-01-01 00:00 UTC.
const START_WALL_US: i64 = 1_767_225_600_000_000;
/// The machine has been up for an hour.
const START_MONOTONIC_US: u64 = 3_600_000_000;

static WALL_US: AtomicI64 = AtomicI64::new(START_WALL_US);
static MONOTONIC_US: AtomicU64 = AtomicU64::new(START_MONOTONIC_US);

pub fn reset() {
    WALL_US.store(START_WALL_US, Ordering::Relaxed);
    MONOTONIC_US.store(START_MONOTONIC_US, Ordering::Relaxed);
    SPENT_NS.store(0, Ordering::Relaxed);
    set_costs(100, 1000);
}

pub fn wall_us() -> i64 {
    WALL_US.load(Ordering::Relaxed)
}

pub fn wall_ms() -> i64 {
    wall_us().div_euclid(1000)
}

pub fn monotonic_us() -> u64 {
    MONOTONIC_US.load(Ordering::Relaxed)
}

/// What a call of the module API and a read of a clock take, in nanoseconds. Without them no budget of time would ever end.
static COSTS_NS: [AtomicU64; 2] = [AtomicU64::new(100), AtomicU64::new(1000)];
/// The rest below a microsecond, in nanoseconds.
static SPENT_NS: AtomicU64 = AtomicU64::new(0);

pub fn set_costs(call_ns: u64, read_ns: u64) {
    COSTS_NS[0].store(call_ns, Ordering::Relaxed);
    COSTS_NS[1].store(read_ns, Ordering::Relaxed);
}

fn spend(cost: usize) {
    let spent = SPENT_NS.load(Ordering::Relaxed) + COSTS_NS[cost].load(Ordering::Relaxed);
    SPENT_NS.store(spent % 1000, Ordering::Relaxed);
    if spent >= 1000 {
        advance(spent / 1000);
    }
}

/// Notes a call of the module API.
pub fn spend_call() {
    spend(0);
}

/// Notes that the module reads a clock.
pub fn spend_read() {
    spend(1);
}

/// Lets time pass.
pub fn advance(by_us: u64) {
    WALL_US.store(wall_us() + by_us as i64, Ordering::Relaxed);
    MONOTONIC_US.store(monotonic_us() + by_us, Ordering::Relaxed);
}

/// Steps the wall clock alone.
pub fn step_wall(by_us: i64) {
    WALL_US.store(wall_us() + by_us, Ordering::Relaxed);
}
