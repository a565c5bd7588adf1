//! The server's cron, by default ten times a second: per-tick bookkeeping.
//!
//! It looks after keys that clients wait for, in case something reached them unnoticed, finds
//! dehydrators that were renamed, and gives memory back: dehydrators that a burst left sparse are compacted,
//! one at a time. All within one budget; what is left carries on at the next tick. Serving blocked clients
//! and delivering are done at the end of a [`pass`] of the event loop, with budgets of their own; the
//! tick sees to it that nothing was missed, and that a wall clock which has stepped is noticed.

use std::cell::Cell;
use std::ffi::c_void;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use super::{delivery, pass, renamed};
use crate::clock;
use crate::commands::poll;
use crate::data_type::{self, Compacted};
use crate::metrics::{clock_steps, counters, latency};
use crate::pending::{blocked, compaction, fading, schedule, timer};
use crate::server::guard::guard;
use crate::server::{Context, OwnedStr, client_checks, event, listeners};

/// What one tick may spend: at ten ticks a second, one part in a hundred of a core.
const BUDGET_US: u64 = 1000;

/// When nobody has been blocked for so many ticks, the server need not tell of each pass of its event loop. It does
/// again when something comes due.
const IDLE_TICKS_MAX: u64 = 10;
/// The server is asked so often whether its statistics were reset, in microseconds.
const RESET_LOOK_US: u64 = 100_000;

/// What the ticks have done since the module was loaded.
#[derive(Clone, Copy, Default)]
pub struct Statistics {
    pub ticks: u64,
    /// Dehydrators that were made as dense as they get.
    pub compacted: u64,
    /// Microseconds.
    pub last_us: u64,
    pub longest_us: u64,
}

thread_local! {
    // Ticks and INFO run on the server's main thread alone.
    static STATISTICS: Cell<Statistics> = Cell::default();
    /// Ticks since anybody was blocked.
    static IDLE_TICKS: Cell<u64> = const { Cell::new(0) };
    /// When it was last looked whether statistics were reset, on the monotonic clock.
    static LOOKED_US: Cell<u64> = const { Cell::new(0) };
}

/// Returns what the ticks have done.
pub fn statistics() -> Statistics {
    STATISTICS.get()
}

/// Begins to count from nothing if the server's own statistics were reset.
pub fn reset_with_server() {
    if counters::reset_with_server() {
        latency::reset();
        STATISTICS.take();
    }
}

/// Has the server call the tick. Returns `false` if it refuses.
pub fn register(context: &Context) -> bool {
    event::subscribe(context, raw::REDISMODULE_EVENT_CRON_LOOP, on_cron)
}

unsafe extern "C" fn on_cron(
    context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    _subevent: u64,
    // The crate's bindings and the servers do not agree on what this is: it is not looked at.
    _data: *mut c_void,
) {
    guard((), || {
        // SAFETY: the server hands out a context for the length of this call.
        tick(&unsafe { Context::from_raw(context) });
    });
}

fn tick(context: &Context) {
    let started = clock::monotonic_us();
    let within_budget = || clock::monotonic_us().saturating_sub(started) < BUDGET_US;
    clock_steps::detect();
    if started.saturating_sub(LOOKED_US.get()) >= RESET_LOOK_US {
        LOOKED_US.set(started);
        reset_with_server();
        listeners::check(context);
    }
    client_checks::invalidate();
    let mut statistics = STATISTICS.get();

    // A part of it at the most, so that none can keep the others waiting.
    let within = |part: u64| move || clock::monotonic_us().saturating_sub(started) < part;
    poll::backstop(context, within(BUDGET_US / 2));
    schedule::look_at_clock(within(BUDGET_US * 3 / 4));
    while within(BUDGET_US * 3 / 4)() && (schedule::free_some() || fading::free_some()) {}
    while within(BUDGET_US * 3 / 4)()
        && let Some(name) = fading::take(clock::now())
    {
        if context.select_db(name.db) {
            data_type::forget_some(context, &name, clock::now(), within(BUDGET_US * 3 / 4));
        }
    }
    renamed::begin(context);

    // Each name once: one that is noted again waits for the next tick. However slow the machine is, one of them is
    // looked at in each tick.
    for _ in 0..compaction::len() {
        let Some(name) = compaction::take() else { break };
        if context.select_db(name.db) {
            match data_type::compact(context, OwnedStr::new(&name.key).as_str(), within_budget) {
                Compacted::Done => statistics.compacted += 1,
                Compacted::More | Compacted::Later => compaction::put_back(name),
            }
        }
        if !within_budget() {
            break;
        }
    }

    delivery::run(context);
    // How far ahead a deadline is may be another time now, if the wall clock has stepped.
    pass::plan(context);
    let idle = if blocked::len() == 0 { IDLE_TICKS.get() + 1 } else { 0 };
    IDLE_TICKS.set(idle);
    if idle >= IDLE_TICKS_MAX {
        IDLE_TICKS.set(0);
        timer::stop_listening();
    }

    statistics.ticks += 1;
    statistics.last_us = clock::monotonic_us().saturating_sub(started);
    statistics.longest_us = statistics.longest_us.max(statistics.last_us);
    STATISTICS.set(statistics);
}
