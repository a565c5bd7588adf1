//! The end of a pass of the server's event loop, where the module works.
//!
//! A pass reads clients' requests and runs their commands. At its end, before the loop sleeps, the server calls
//! modules. This module then serves blocked clients, delivers, and continues a walk over the keyspace, each within a
//! budget of its own.
//!
//! ```text
//!   the loop sleeps ─▶ begins ─▶ commands, timers, cron ─▶ ends ─▶ the loop sleeps
//!                                     │ timer::soon          │
//!                                     ▼                      ▼
//!                                   timer ── is it due? ─▶ poll::serve, delivery, groups, renamed, plan
//! ```
//!
//! *Why at the end.* By then the server has read which connections had closed when the pass began. If commands have held
//! the loop up, more may have closed since. Then blocked clients are served only after a few more passes, so that no
//! element goes to a client that has disconnected.

use std::cell::Cell;

use redis_module::raw;

use super::renamed;
use crate::clock;
use crate::commands::poll;
use crate::config;
use crate::data_type;
use crate::delivery;
use crate::pending::agenda::Reason;
use crate::pending::timer::{self, Phase};
use crate::pending::{agenda, blocked};
use crate::server::Context;
use crate::server::event::Event;

/// The length of consecutive passes that counts as a stall, in microseconds.
const STALL_US: u64 = 2000;
/// The time for more passes after a stall, in microseconds. It must suffice for a thread that reads for the server.
const GRACE_US: u64 = 1000;
/// Passes that must end in that time: one in which a hang-up is read, and one before which the client is freed.
const GRACE_PASSES: u32 = 2;

/// A further stall restarts that time for at most this long, in microseconds: if every pass stalls the loop,
/// blocked clients are served all the same.
const RESTARTS_US: u64 = 20_000;

/// The time after a stall.
#[derive(Clone, Copy)]
struct Grace {
    began_us: u64,
    until_us: u64,
    passes: u32,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// When the pass began, on the monotonic clock, in microseconds.
    began_us: u64,
    /// The length of the last two passes, in microseconds.
    took_us: [u64; 2],
    grace: Option<Grace>,
}

thread_local! {
    // The event loop runs on the server's main thread alone.
    static STATE: Cell<State> = Cell::default();
}

/// Sets the timer to the next work. The cron repeats it, because the wall clock may have stepped.
pub fn plan(context: &Context) {
    let blocked = match STATE.get().grace {
        Some(grace) => Some(grace.until_us),
        None => blocked::with(|queues| queues.next_us()).map(timer::spaced),
    };
    // Groups are brought to new limits on replicas too. If the module may not act, the next tick checks again.
    let visit = agenda::next_us(&Reason::TIMED).and_then(|at_us| match config::may_act(context) {
        true => Some(at_us),
        false => agenda::next_us(&[Reason::FitGroups]),
    });
    let visit = visit.map(timer::spaced);
    let next = [blocked, visit, renamed::next_us()];
    let next = next.into_iter().flatten().min();
    timer::set(context, next);
}

/// Handles a report of [`passes`](crate::server::passes).
pub fn report(event: &Event<'_>) {
    if event.id == raw::REDISMODULE_EVENT_CLIENT_CHANGE {
        if event.subevent == raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
            poll::disconnected(event.context, event.client());
        }
    } else if event.subevent == raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP {
        poll::pass_begins();
        timer::enter(Phase::InPass);
        STATE.set(State { began_us: clock::monotonic_us(), ..STATE.get() });
    } else if event.subevent == raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP {
        let (context, now_us) = (event.context, clock::monotonic_us());
        let is_due = timer::take_due(now_us);
        let may_serve = measure(is_due, now_us);
        if is_due {
            timer::enter(Phase::Busy);
            poll::serve(context, may_serve, now_us);
            delivery::run(context);
            data_type::fit_some_groups(context);
            renamed::go_on(context);
            plan(context);
        }
        timer::enter(Phase::Asleep);
    }
}

/// Measures the pass that ends at `now_us`. Returns whether the server knows by now which clients have disconnected.
fn measure(is_due: bool, now_us: u64) -> bool {
    let mut state = STATE.get();
    // Reports begin in the middle of a pass: its beginning is unknown, and counts as long ago.
    let took_us = now_us.saturating_sub(state.began_us);
    let [last, before] = state.took_us;
    state.took_us = [took_us, last];
    let is_stalled = took_us + last + before > STALL_US;
    let new = Grace { began_us: now_us, until_us: now_us + GRACE_US, passes: GRACE_PASSES };
    let (waits, is_ready) = blocked::with(|queues| (queues.watched() > 0, queues.ready() > 0));
    state.grace = match state.grace {
        _ if !waits => None,
        // It matters which clients have disconnected.
        None if is_stalled && (is_due || is_ready) => Some(new),
        None => None,
        Some(Grace { began_us, .. })
            if took_us > STALL_US && state.began_us < began_us + RESTARTS_US =>
        {
            Some(Grace { began_us, ..new })
        }
        Some(Grace { until_us, passes: 0, .. }) if until_us <= now_us && is_due => None,
        Some(grace) => Some(Grace { passes: grace.passes.saturating_sub(1), ..grace }),
    };
    STATE.set(state);
    state.grace.is_none()
}
