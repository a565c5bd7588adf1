//! The server's cron, by default ten times a second: bookkeeping per tick.
//!
//! It checks keys with waiting clients, in case a change went unnoticed, finds renamed dehydrators, forgets expired ids
//! and compacts dehydrators that a burst left sparse, one at a time. All share one budget; the rest carries on at the
//! next tick. Blocked clients are served and elements delivered at the end of a [`pass`] of the event loop, with
//! budgets of their own; the tick catches what was missed, and a wall clock that has stepped.

use std::cell::Cell;

use redis_module::raw;

use super::{pass, renamed};
use crate::clock;
use crate::commands::poll;
use crate::data_type;
use crate::delivery;
use crate::metrics::lateness::LATENESS;
use crate::metrics::{clock_steps, counters};
use crate::pending::agenda::{self, Reason};
use crate::pending::{blocked, timer, waste};
use crate::server::event::{self, Event};
use crate::server::key::Name;
use crate::server::{Context, client_checks, listeners};

/// The budget of a tick, in microseconds: at ten ticks a second, a hundredth of a core.
const BUDGET_US: u64 = 1000;

/// Ticks without a blocked client after which the server stops reporting each pass of its event loop, until something
/// comes due.
const IDLE_TICKS_MAX: u64 = 10;
/// The intervals at which the server is asked whether its statistics were reset, in microseconds: after the module's counters
/// have changed, and otherwise. INFO asks, too. Asking costs as much as dozens of commands, so an idle server hardly does it.
const RESET_CHECK_US: u64 = 1_000_000;
const IDLE_RESET_CHECK_US: u64 = 10_000_000;
/// The interval at which the module looks for listeners of the replication stream, in microseconds.
const LISTENERS_CHECK_US: u64 = 100_000;

/// The work of the ticks since the module was loaded.
#[derive(Clone, Copy, Default)]
pub struct Statistics {
    pub ticks: u64,
    /// Dehydrators compacted in full.
    pub compacted: u64,
    /// The length of the last tick, in microseconds.
    pub last_us: u64,
    pub longest_us: u64,
}

thread_local! {
    // Ticks and INFO run on the server's main thread alone.
    static STATISTICS: Cell<Statistics> = Cell::default();
    /// Ticks since a client was blocked.
    static IDLE_TICKS: Cell<u64> = const { Cell::new(0) };
    /// When the server was last asked whether its statistics were reset, on the monotonic clock.
    static RESET_CHECKED_US: Cell<u64> = const { Cell::new(0) };
    /// When the module last looked for listeners, on the monotonic clock.
    static LISTENERS_CHECKED_US: Cell<u64> = const { Cell::new(0) };
}

/// Returns the statistics of the ticks.
pub fn statistics() -> Statistics {
    STATISTICS.get()
}

/// Resets the module's statistics if the server's own were reset.
pub fn reset_with_server() {
    if counters::reset_with_server() {
        LATENESS.reset();
        STATISTICS.take();
    }
}

/// Subscribes to the server's cron. Returns `false` if the server refuses.
pub fn register(context: &Context) -> bool {
    event::subscribe(context, raw::REDISMODULE_EVENT_CRON_LOOP, tick)
}

fn tick(event: &Event<'_>) {
    let context = event.context;
    let started = clock::monotonic_us();
    clock_steps::detect();
    let is_idle = !counters::have_changed();
    let interval = if is_idle { IDLE_RESET_CHECK_US } else { RESET_CHECK_US };
    if started.saturating_sub(RESET_CHECKED_US.get()) >= interval {
        RESET_CHECKED_US.set(started);
        reset_with_server();
    }
    if started.saturating_sub(LISTENERS_CHECKED_US.get()) >= LISTENERS_CHECK_US {
        LISTENERS_CHECKED_US.set(started);
        listeners::check(context);
    }
    client_checks::tick(started);
    LATENESS.tick(started);
    let mut statistics = STATISTICS.get();

    // A part of the budget, so that no task starves the others.
    let within = |part: u64| move || clock::monotonic_us().saturating_sub(started) < part;
    poll::backstop(context, within(BUDGET_US / 2));
    while within(BUDGET_US * 3 / 4)() && waste::free_some() {}
    visit(context, Reason::Forget, within(BUDGET_US * 3 / 4), |name, go_on| {
        data_type::forget_expired(context, name, clock::now(), go_on);
    });
    renamed::begin(context);
    visit(context, Reason::Compact, within(BUDGET_US), |name, go_on| {
        statistics.compacted += u64::from(data_type::compact(context, name, go_on));
    });

    delivery::run(context);
    // The wall clock may have stepped, which changes the time to each deadline.
    pass::plan(context);
    let is_idle = blocked::with(|queues| queues.is_idle()) && !poll::is_under_way();
    let idle = if is_idle { IDLE_TICKS.get() + 1 } else { 0 };
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

/// Visits the dehydrators that are due for a reason, while `go_on` returns true. Each name once: one that is recorded again
/// waits for the next tick. However slow the machine is, each tick visits one.
fn visit<G: Fn() -> bool>(
    context: &Context,
    reason: Reason,
    go_on: G,
    mut visit_one: impl FnMut(&Name, &G),
) {
    for _ in 0..agenda::count(reason) {
        let Some(name) = agenda::take(&[reason]) else { break };
        if context.select_db(name.db) {
            visit_one(&name, &go_on);
        }
        if !go_on() {
            break;
        }
    }
}
