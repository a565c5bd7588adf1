//! One timer for all that the module does by itself: it wakes the event loop.
//!
//! Code with later work asks for a pass of the event loop at that time ([`at_deadline`], [`at`]). At the end of a pass
//! whose time has come, [`pass`](crate::background::pass) does the work and sets the timer to the next time.
//!
//! *At once* does not use the timer: arming it with no delay costs an interrupt, about 30 us on a virtual machine. The
//! server's own pipe also wakes the loop, in 2 us.
//!
//! The server reports each pass of the event loop only while that matters: [`passes`].
//!
//! A wake-up costs as much as a few commands, whether it is for one element or for a hundred. So after one the next may be
//! held back for [`config::wake_interval_us`]: then elements that come due one by one are given out together.
//!
//! Times are on the monotonic clock, deadlines on the wall clock. A deadline is converted when it is requested, and
//! again at each tick of the server's cron, in case the wall clock has stepped.

use std::cell::{Cell, OnceCell};

use crate::clock;
use crate::config;
use crate::server::Context;
use crate::server::loop_timer::{self, LoopTimer, TimerCallback};
use crate::server::passes;

/// The longest delay of the timer, in microseconds. After that it fires without work.
const AHEAD_MAX_US: u64 = 3_600_000_000;
/// A difference, in microseconds, below which the timer is not moved.
const TOLERANCE_US: u64 = 50;
/// The timer is not set.
const NEVER: u64 = u64::MAX;

thread_local! {
    // Only the server's main thread uses these.
    static TIMER: OnceCell<&'static LoopTimer> = const { OnceCell::new() };
    /// When the timer fires or fired, on the monotonic clock, in microseconds.
    static FIRES_US: Cell<u64> = const { Cell::new(NEVER) };
    /// Set if it has fired since it was set.
    static HAS_FIRED: Cell<bool> = const { Cell::new(false) };
    /// Set if a pass was requested from the server and has not begun.
    static IS_REQUESTED: Cell<bool> = const { Cell::new(false) };
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Asleep) };
    /// When due work was last begun, on the monotonic clock, in microseconds.
    static WORKED_US: Cell<u64> = const { Cell::new(0) };
    /// Set if work is due.
    static IS_DUE: Cell<bool> = const { Cell::new(false) };
}

/// The state of the event loop, as far as it is reported.
#[derive(Clone, Copy)]
pub enum Phase {
    /// It sleeps, or is about to; or it is in a pass that is not reported.
    Asleep,
    /// It is in a pass, at whose end it is checked whether work is due.
    InPass,
    /// The due work is under way. The timer is set at its end.
    Busy,
}

/// Records what the event loop does from now on.
pub fn enter(phase: Phase) {
    PHASE.set(phase);
}

/// Returns whether work is due at `now_us`, on the monotonic clock. If so, the caller does it, and [`set`]s the timer to the next
/// time.
pub fn take_due(now_us: u64) -> bool {
    let is_due = IS_DUE.replace(false);
    if is_due {
        WORKED_US.set(now_us);
    }
    is_due
}

/// Turns reports of passes off, until the next request. Only the server's cron may call this.
pub fn stop_listening() {
    if !IS_DUE.get() && passes::stop_listening() {
        enter(Phase::Asleep);
    }
}

/// Runs when the timer fires.
fn on_time() {
    HAS_FIRED.set(true);
    mark_due();
}

/// Runs in a requested pass.
fn on_request() {
    IS_REQUESTED.set(false);
    mark_due();
}

fn mark_due() {
    IS_DUE.set(true);
    passes::listen();
}

/// Requests a pass at a deadline, in milliseconds since the epoch.
pub fn at_deadline(context: &Context, deadline: u64) {
    if follows() {
        return;
    }
    let until_us = until_us(deadline);
    if until_us == 0 && config::wake_interval_us() == 0 {
        return soon(context);
    }
    let now_us = clock::monotonic_us();
    let at_us = (now_us + until_us).max(spaced_from_us());
    if at_us <= now_us { soon(context) } else { at(context, at_us) }
}

/// Returns the time, not before `at_us`, from which on the next wake-up is not held back. What is due by now goes on at once:
/// it did not fit into the pass that ends. Times are on the monotonic clock, in microseconds.
pub fn spaced(at_us: u64) -> u64 {
    if at_us <= clock::monotonic_us() {
        return at_us;
    }
    at_us.max(spaced_from_us())
}

/// Returns from when on the next wake-up has its distance from the last.
fn spaced_from_us() -> u64 {
    WORKED_US.get() + config::wake_interval_us()
}

/// Requests a pass at a time on the monotonic clock, in microseconds.
pub fn at(context: &Context, at_us: u64) {
    if !follows() && at_us.saturating_add(TOLERANCE_US) < FIRES_US.get() {
        set(context, Some(at_us));
    }
}

/// Returns whether [`set`] follows anyway: at the end of the work that is due or under way.
fn follows() -> bool {
    matches!(PHASE.get(), Phase::Busy) || IS_DUE.get()
}

/// Requests a pass at once: the end of the present one, or a new one. Does nothing while the due work is under way,
/// because [`set`] follows it.
pub fn soon(context: &Context) {
    if follows() {
        return;
    }
    mark_due();
    if matches!(PHASE.get(), Phase::Asleep) {
        request_pass(context);
    }
}

/// Requests a pass that begins at once, unless one begins anyway.
fn request_pass(context: &Context) {
    // An expired timer wakes the loop until it is set again. `HAS_FIRED` does not show whether it has: a thread that
    // polls for the server (Valkey) may have read the timer before it was set.
    let begins_anyway = FIRES_US.get() <= clock::monotonic_us() && timer().is_kernel();
    if !begins_anyway && !request_extra_pass() {
        set_timer(context, 0);
    }
}

/// Requests one more pass after the present one, unless one was requested already. Returns `false` if the server refuses.
///
/// Redis 7.2 and later and Valkey serve clients that wait for a list or a stream before they call modules at the end of a
/// pass, so without it these clients would see our additions only a tick later.
pub fn request_extra_pass() -> bool {
    const ON_REQUEST: &TimerCallback = &(on_request as TimerCallback);
    if !IS_REQUESTED.get() {
        IS_REQUESTED.set(loop_timer::request_pass(ON_REQUEST));
    }
    IS_REQUESTED.get()
}

/// Returns a deadline's time on the monotonic clock, in microseconds, provided that the wall clock does not step.
pub fn from_deadline(deadline: u64) -> u64 {
    clock::monotonic_us() + until_us(deadline)
}

/// Returns the time until a deadline, in microseconds.
fn until_us(deadline: u64) -> u64 {
    deadline.saturating_mul(1000).saturating_sub(clock::now_us())
}

/// Sets the timer to fire at a time on the monotonic clock, in microseconds, or before. `None`: there is no work ahead.
///
/// One that will fire earlier stays as it is: there is nothing to do then, and it is set again. So clients that block with a
/// timeout and are woken before it set no timer. (The server's own timers follow the wall clock, and are late after it has
/// stepped back.)
pub fn set(context: &Context, at_us: Option<u64>) {
    let fires_us = FIRES_US.get();
    if at_us.is_none() && fires_us == NEVER {
        return;
    }
    let is_early = fires_us <= at_us.unwrap_or(NEVER).saturating_add(TOLERANCE_US);
    let is_ahead = !HAS_FIRED.get() && fires_us > clock::monotonic_us();
    if is_early && is_ahead && timer().is_kernel() {
        return;
    }
    let Some(at_us) = at_us else {
        FIRES_US.set(NEVER);
        HAS_FIRED.set(false);
        return timer().stop(context);
    };
    let in_us = at_us.saturating_sub(clock::monotonic_us()).min(AHEAD_MAX_US);
    // A requested pass leaves the timer alone, and sets it at its end.
    if in_us == 0 { request_pass(context) } else { set_timer(context, in_us) }
}

fn set_timer(context: &Context, in_us: u64) {
    FIRES_US.set(clock::monotonic_us() + in_us);
    HAS_FIRED.set(false);
    timer().set(context, in_us);
}

fn timer() -> &'static LoopTimer {
    TIMER.with(|timer| *timer.get_or_init(|| LoopTimer::new(on_time)))
}

/// Uses the server's own timers, as on kernels without ours. For tests.
#[cfg(debug_assertions)]
pub fn use_server_timers() -> bool {
    TIMER.with(|timer| timer.set(LoopTimer::from_server(on_time)).is_ok())
}
