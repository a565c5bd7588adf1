//! When the event loop is to come round for us: one timer for all that the module does by itself.
//!
//! Whoever has something to do later asks for a pass of the event loop at that time ([`at_deadline`],
//! [`at`]). At the end of a pass whose time has come, [`pass`](crate::background::pass) does what is to be done, and
//! sets the timer to whatever is next.
//!
//! *At once* is no matter for the timer: to set it to fire at once costs the processor an interrupt, which on a
//! virtual machine takes some 30 us. A pipe of the server's, which wakes the loop too, takes two.
//!
//! The server tells of each pass of the event loop only while that matters ([`listen`]): to be told costs some
//! tenths of a microsecond a pass, which a server that delivers nothing and blocks nobody need not spend.
//!
//! Times are on the monotonic clock. A deadline is on the wall clock; how far ahead it is, is found out
//! when it is asked for, and again at each tick of the server's cron, in case the wall clock has stepped.

use std::cell::{Cell, OnceCell};

use crate::clock;
use crate::server::Context;
use crate::server::loop_timer::{self, LoopTimer, TimerCallback};

/// The timer is set no further ahead than this, in microseconds. It fires in vain then.
const AHEAD_MAX_US: u64 = 3_600_000_000;
/// A timer that fires no later than this after it should, in microseconds, is not moved.
const TOLERANCE_US: u64 = 50;
/// The timer is not set.
const NEVER: u64 = u64::MAX;

thread_local! {
    // Everything runs on the server's main thread alone.
    static TIMER: OnceCell<&'static LoopTimer> = const { OnceCell::new() };
    /// When it fires, or fired, on the monotonic clock, in microseconds.
    static FIRES_US: Cell<u64> = const { Cell::new(NEVER) };
    /// Whether it has fired since it was set.
    static HAS_FIRED: Cell<bool> = const { Cell::new(false) };
    /// Whether the server has been asked for a pass that begins at once, which has not begun.
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
    /// Whether what is due is being done. Then the timer is set in the end.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
    /// Whether the time has come.
    static HAS_COME: Cell<bool> = const { Cell::new(false) };
    /// Whether a pass of the event loop is known to be under way, at whose end it is looked whether the time has
    /// come.
    static IN_PASS: Cell<bool> = const { Cell::new(false) };
    /// Whether the server tells of passes, and what has it do so or not.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
    static SET_LISTENING: Cell<fn(bool)> = const { Cell::new(|_| {}) };
}

/// Sets what is called to have the server tell of passes of the event loop, or not.
pub fn register(set_listening: fn(bool)) {
    SET_LISTENING.set(set_listening);
}

/// Has the server tell of passes of the event loop, from this one on.
pub fn listen() {
    if !LISTENS.replace(true) {
        SET_LISTENING.get()(true);
    }
}

/// Has the server tell of passes no more, until somebody asks for one. For the server's
/// cron alone.
pub fn stop_listening() {
    if !HAS_COME.get() && LISTENS.replace(false) {
        SET_LISTENING.get()(false);
        IN_PASS.set(false);
    }
}

/// Runs when the timer has come.
fn on_time() {
    HAS_FIRED.set(true);
    come();
}

/// Runs in a pass that the server was asked for.
fn on_asked() {
    IS_ASKED.set(false);
    come();
}

fn come() {
    HAS_COME.set(true);
    listen();
}

/// Asks for a pass at a deadline, in milliseconds since the epoch.
pub fn at_deadline(context: &Context, deadline: u64) {
    let now = clock::now();
    if deadline <= now { soon(context) } else { at(context, from_deadline(deadline)) }
}

/// Asks for a pass at a time on the monotonic clock, in microseconds.
pub fn at(context: &Context, at_us: u64) {
    if !IS_BUSY.get() && !HAS_COME.get() && at_us.saturating_add(TOLERANCE_US) < FIRES_US.get() {
        set(context, Some(at_us));
    }
}

/// Asks for a pass at once: the end of the one that is under way, or of one that begins at once. While what is due is
/// being done that changes nothing: whoever does it asks in the end what is next.
pub fn soon(context: &Context) {
    if !IS_BUSY.get() && !HAS_COME.replace(true) {
        listen();
        if !IN_PASS.get() {
            ask_for_pass(context);
        }
    }
}

/// Has the event loop come round at once.
fn ask_for_pass(context: &Context) {
    // A timer whose time is over has the loop come round until it is set anew. That it was said to have fired is no
    // sign of that: a thread that polls for the server (Valkey) may have seen so before the timer was set.
    let is_over = FIRES_US.get() <= clock::monotonic_us();
    let comes_anyway = IS_ASKED.get() || is_over && timer().stays_readable();
    if !comes_anyway && !ask_server() {
        set_timer(context, 0);
    }
}

/// Asks the server for a pass that begins at once. Returns `false` if it cannot.
fn ask_server() -> bool {
    const ON_ASKED: &TimerCallback = &(on_asked as TimerCallback);
    let is_asked = loop_timer::request_pass(ON_ASKED);
    IS_ASKED.set(is_asked);
    is_asked
}

/// Has the event loop come round once more, behind the pass that is under way. The server itself looks for clients that wait
/// for a list or a stream before it has us do something at the end of a pass (Redis 7.2 and later, Valkey), and so would see
/// in the next one only, a tick later, what was added then.
pub fn once_more() {
    if !IS_ASKED.get() {
        ask_server();
    }
}

/// Returns when a deadline is, on the monotonic clock, in microseconds, if the wall clock does not step.
pub fn from_deadline(deadline: u64) -> u64 {
    clock::monotonic_us() + deadline.saturating_mul(1000).saturating_sub(clock::now_us())
}

/// Notes that a pass of the event loop begins.
pub fn pass_begins() {
    IN_PASS.set(true);
}

/// Notes that a pass of the event loop is at its end. Returns whether the time has come; then what is due is
/// done, the timer is [`set`] to what is next, and the loop may [`rest`].
pub fn pass_ends() -> bool {
    let has_come = HAS_COME.replace(false);
    if has_come {
        IS_BUSY.set(true);
    } else {
        rest();
    }
    has_come
}

/// Notes that the loop is about to sleep.
pub fn rest() {
    IS_BUSY.set(false);
    IN_PASS.set(false);
}

/// Has a pass end at a time on the monotonic clock, in microseconds, whatever the timer was set to.
pub fn set(context: &Context, at_us: Option<u64>) {
    let Some(at_us) = at_us else {
        if FIRES_US.replace(NEVER) != NEVER {
            HAS_FIRED.set(false);
            timer().stop(context);
        }
        return;
    };
    if !HAS_FIRED.get() && FIRES_US.get().abs_diff(at_us) <= TOLERANCE_US {
        return;
    }
    let in_us = at_us.saturating_sub(clock::monotonic_us()).min(AHEAD_MAX_US);
    // In the first case the timer stays as it is: at the end of the pass it is set to what is next.
    if in_us == 0 { ask_for_pass(context) } else { set_timer(context, in_us) }
}

fn set_timer(context: &Context, in_us: u64) {
    FIRES_US.set(clock::monotonic_us() + in_us);
    HAS_FIRED.set(false);
    timer().set(context, in_us);
}

fn timer() -> &'static LoopTimer {
    TIMER.with(|timer| *timer.get_or_init(|| LoopTimer::new(on_time)))
}

/// Has the server's own timers do the work, as where the kernel has none. For tests.
#[cfg(debug_assertions)]
pub fn use_server_timers() -> bool {
    TIMER.with(|timer| timer.set(LoopTimer::from_server(on_time)).is_ok())
}
