//! One pass of the server's event loop, and what the module does at its end.
//!
//! A pass reads what clients have sent and runs their commands; at its end, before the loop sleeps, the
//! server lets modules do something. What is due by itself is done there: blocked clients are served,
//! deliveries are carried out, a walk over the keyspace goes on, each within a budget of its own.
//!
//! ```text
//!   the loop sleeps ─▶ begins ─▶ commands, timers, cron ─▶ ends ─▶ the loop sleeps
//!                                     │ timer::soon          │ has the time come?
//!                                     ▼                      ▼
//!                                   timer ───────▶ poll::serve, delivery, renamed, timer::set
//! ```
//!
//! *Why at the end.* By then the server has read what has happened to connections; at the very end of the pass it
//! frees those that have hung up, which is why [`poll::serve`] serves a key one pass after it is ready. If commands
//! have held the loop up, the server has not read all of that yet. Then blocked clients are not served before
//! the loop has come round a few times, so that nothing is given to one that has gone.

use std::cell::{Cell, OnceCell};
use std::ffi::c_void;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use super::{delivery, renamed};
use crate::clock;
use crate::commands::poll;
use crate::pending::{blocked, schedule, timer};
use crate::server::guard::guard;
use crate::server::{Context, event};

/// Passes that together took longer than this, in microseconds, have held the loop up.
const HELD_UP_US: u64 = 2000;
/// Time in which the loop may come round after that, in microseconds. It must be enough for a thread that
/// reads for the server.
const GRACE_US: u64 = 1000;
/// Passes that must have ended in that time: one in which a hang-up is read, and one before which the
/// client is freed.
const GRACE_PASSES: u32 = 2;

/// A pass that holds the loop up again begins that time anew, but only for so long, in microseconds: where every pass
/// holds it up, blocked clients are served all the same.
const RESTARTS_US: u64 = 20_000;

/// The loop has been held up.
#[derive(Clone, Copy)]
struct Grace {
    began_us: u64,
    until_us: u64,
    passes: u32,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// When this pass began, on the monotonic clock, in microseconds.
    began_us: u64,
    /// How long the last two took.
    took_us: [u64; 2],
    grace: Option<Grace>,
}

thread_local! {
    // The loop runs on the server's main thread alone.
    static STATE: Cell<State> = Cell::default();
    static CONTEXT: OnceCell<Context> = const { OnceCell::new() };
}

/// Has the server tell when passes begin and end, whenever that is asked for. Returns `false` if it refuses.
pub fn register(context: &Context) -> bool {
    timer::register(set_listening);
    let detached = CONTEXT.with(|it| it.set(context.detached()));
    let is_known = event::subscribe(context, raw::REDISMODULE_EVENT_EVENTLOOP, on_event_loop);
    set_listening(false);
    detached.is_ok() && is_known
}

/// Has the server tell of passes, or not.
///
/// The server may be walking over its list of listeners then, and remembers the next one: that one must not be taken
/// off. To listen adds a listener at the end. To stop is for the cron alone, behind whose listener stands that of another
/// event (see `lib.rs` for the order).
fn set_listening(on: bool) {
    CONTEXT.with(|context| {
        let Some(context) = context.get() else { return };
        if on {
            event::subscribe(context, raw::REDISMODULE_EVENT_EVENTLOOP, on_event_loop);
        } else {
            event::unsubscribe(context, raw::REDISMODULE_EVENT_EVENTLOOP);
            STATE.take();
        }
    });
}

/// Sets the timer to what is next. It is called again after the wall clock may have stepped.
pub fn plan(context: &Context) {
    let grace = STATE.get().grace.map(|grace| grace.until_us);
    let blocked = grace.or_else(poll::next_us);
    // Where nothing may be replicated, the next tick looks again.
    let delivery = schedule::next_us().filter(|_| context.may_replicate());
    let next = [blocked, delivery, renamed::next_us()];
    let next = next.into_iter().flatten().min();
    timer::set(context, next);
}

unsafe extern "C" fn on_event_loop(
    context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    guard((), || {
        if subevent == raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP {
            begins();
        } else if subevent == raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP {
            // SAFETY: the server hands out a context for the length of this call.
            ends(&unsafe { Context::from_raw(context) });
        }
    });
}

fn begins() {
    timer::pass_begins();
    STATE.set(State { began_us: clock::monotonic_us(), ..STATE.get() });
}

fn ends(context: &Context) {
    let has_come = timer::pass_ends();
    let may_serve = measure(has_come);
    if !has_come {
        return;
    }
    poll::serve(context, may_serve);
    delivery::run(context);
    renamed::go_on(context);
    plan(context);
    timer::rest();
}

/// Measures the pass that ends. Returns whether the server knows by now which clients have gone.
fn measure(has_come: bool) -> bool {
    let mut state = STATE.get();
    let now_us = clock::monotonic_us();
    // The server tells of passes from the middle of one on: when that one began is not known, and counts as long ago.
    let took_us = now_us.saturating_sub(state.began_us);
    let [last, before] = state.took_us;
    state.took_us = [took_us, last];
    let is_held_up = took_us + last + before > HELD_UP_US;
    let begin =
        |began_us| Some(Grace { began_us, until_us: now_us + GRACE_US, passes: GRACE_PASSES });
    state.grace = match state.grace {
        _ if blocked::len() == 0 => None,
        None if is_held_up && (has_come || blocked::is_ready()) => begin(now_us),
        None => None,
        Some(Grace { began_us, .. })
            if took_us > HELD_UP_US && state.began_us < began_us + RESTARTS_US =>
        {
            begin(began_us)
        }
        Some(Grace { until_us, passes: 0, .. }) if until_us <= now_us && has_come => None,
        Some(grace) => Some(Grace { passes: grace.passes.saturating_sub(1), ..grace }),
    };
    STATE.set(state);
    state.grace.is_none()
}
