//! Delivering what came due, and saying that something did.
//!
//! The [`schedule`] says which dehydrators have something to do. They are looked at one after the other, a batch at a
//! time, until the budget is spent; what is left carries on when clients have had their turn.
//!
//! ```text
//!   the end of a pass, the tick ─▶ run ─▶ announce: the event dehydrator.due
//!                                     └────▶ courier: XADD, RPUSH or PUBLISH, and then REM
//! ```
//!
//! Whatever calls out (an event, a command of the server's, which publishes events of its own) may change
//! anything, so each key is looked at again after it. How elements are moved is the [`courier`]'s; where there is a
//! limit of deliveries, only what it has exhausted is.
//!
//! What is done at the end of one pass goes to replicas and the append-only file as one transaction: an element is in
//! the dehydrator or in the stream, never in both or in neither. On a replica, while the server loads,
//! and while clients are paused, nothing is done; the next tick tries again.

use crate::courier;
use crate::data_type::{Writing, inspect, is_scheduled};
use crate::metrics::counters::{self, DELIVERIES};
use crate::metrics::latency;
use crate::pending::overdue::Serial;
use crate::pending::schedule::Task;
use crate::pending::{blocked, schedule};
use crate::policy::{Policy, Trust};
use crate::replicate::Effect;
use crate::server::key::Name;
use crate::server::{Context, OwnedStr, Str};
use crate::{clock, config};

/// A cluster's node that does not serve a key's slot looks again after this, in microseconds: the slot is
/// being moved, and the key with it.
const ELSEWHERE_US: u64 = 1_000_000;

/// What may be spent in one go.
struct Budget {
    ends_us: u64,
}

impl Budget {
    fn start() -> Self {
        Self { ends_us: clock::monotonic_us() + config::tick_budget_us() }
    }

    fn is_spent(&self) -> bool {
        clock::monotonic_us() >= self.ends_us
    }
}

/// Looks at all dehydrators whose time has come, until the budget is spent.
pub fn run(context: &Context) {
    if schedule::len() == 0 || !context.may_replicate() {
        return;
    }
    let budget = Budget::start();
    while let Some(name) = schedule::take() {
        if context.select_db(name.db) {
            deliver_from(context, &name, &budget);
        }
        if budget.is_spent() {
            break;
        }
    }
}

/// What there is to do in a key now.
enum Todo {
    /// Nothing, and never will be by itself.
    None,
    /// Nothing until then.
    Later(Serial, Task),
    /// A policy came by RESTORE, of which others must hear that nobody has confirmed it.
    Tell,
    /// A pause is over.
    Resume,
    /// Something is due, and perhaps goes by the policy.
    Due { deadline: u64, goes: Option<Policy> },
}

/// Looks at a key. Whatever calls out may change it: then it must be looked at again.
fn look(context: &Context, key: Str<'_>, now: u64) -> Todo {
    inspect(context, key, |dehydrator| {
        if !is_scheduled(dehydrator) {
            dehydrator.tracking().untrack();
            return Todo::None;
        }
        dehydrator.tracking().track();
        if dehydrator.rules().trust == Trust::Unannounced {
            return Todo::Tell;
        }
        let serial = dehydrator.tracking().serial();
        if let Some(pause) = dehydrator.rules().pause {
            let is_on = pause.is_on(now);
            let later = || Todo::Later(serial, dehydrator.next_task(now));
            return if is_on { later() } else { Todo::Resume };
        }
        let goes = dehydrator.sends_first();
        match dehydrator.lawn.next_deadline() {
            Some(deadline) if deadline <= now && !dehydrator.has_room(goes, now) => {
                let task = dehydrator.next_task(now);
                Todo::Later(serial, Task { next: task.next.map(|next| next.max(now + 1)), ..task })
            }
            Some(deadline) if deadline <= now => {
                Todo::Due { deadline, goes: goes.then(|| dehydrator.rules().policy.clone()) }
            }
            next => Todo::Later(serial, Task { next, delivers: goes, is_held_back: false }),
        }
    })
    .unwrap_or(Todo::None)
}

fn deliver_from(context: &Context, name: &Name, budget: &Budget) {
    let key = OwnedStr::new(&name.key);
    let key = key.as_str();
    let now = clock::now();
    retry_stuck(context, name, key, now, budget);
    match look(context, key, now) {
        Todo::None => return schedule::forget(name),
        Todo::Later(serial, task) => {
            // It was noted without its deadline, or something was taken or put off.
            return schedule::note(context, key, serial, task, now);
        }
        Todo::Tell => return tell(context, name, key),
        Todo::Resume => return resume(context, name, key),
        Todo::Due { .. } => {}
    }
    if !context.serves(key) {
        schedule::wait(name, ELSEWHERE_US);
        return;
    }
    if schedule::announce(name) {
        context.notify_module(c"dehydrator.due", key);
    }
    let Todo::Due { deadline, goes } = look(context, key, now) else {
        return schedule::again(name);
    };
    let Some(policy) = goes else { return };
    if policy.is_limit() {
        return retire_from(context, name, key, &policy, now, budget);
    }
    let late_us = schedule::late_us(name, deadline);
    let (delivered, result) = courier::deliver(context, key, &policy, now, || !budget.is_spent());
    if delivered > 0 {
        latency::record(late_us);
    }
    counters::count(&DELIVERIES, delivered);
    match result {
        Ok(()) => {
            schedule::succeeded(context, name);
            schedule::again(name);
        }
        Err(reason) => wait_after(name, &reason),
    }
}

/// Says that a policy is not confirmed.
fn tell(context: &Context, name: &Name, key: Str<'_>) {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let policy = dehydrator.policy().clone();
    if dehydrator.set_policy(policy.clone(), Trust::Unconfirmed) {
        Effect::policy(key, &policy, Trust::Unconfirmed).replicate(context);
    }
    drop(dehydrator);
    schedule::again(name);
}

/// Says that a pause is over, as it is by itself on replicas too. One that is empty then goes.
fn resume(context: &Context, name: &Name, key: Str<'_>) {
    if !context.serves(key) || !context.lets_clients_write(key) {
        return schedule::wait(name, ELSEWHERE_US);
    }
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    if dehydrator.set_pause(None) {
        schedule::begin(name);
        blocked::begin(name);
        Effect::resumed(key).replicate(context);
        dehydrator.shrunk(c"dehydrator.resume");
    }
    schedule::again(name);
}

/// Moves dead letters, which are late only if somebody is to have what is behind them.
fn retire_from(
    context: &Context,
    name: &Name,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    budget: &Budget,
) {
    // To put off what cannot go is a write.
    if !context.lets_clients_write(key) {
        return wait_after(name, courier::REFUSED);
    }
    courier::retire(context, key, policy, now, || !budget.is_spent());
    schedule::again(name);
}

/// Tries dead letters again that could not go, if there are any, and it is time.
fn retry_stuck(context: &Context, name: &Name, key: Str<'_>, now: u64, budget: &Budget) {
    let is_paused = inspect(context, key, |dehydrator| {
        dehydrator.tracking().has_stuck().then(|| dehydrator.is_paused(now))
    });
    let Some(is_paused) = is_paused.flatten() else { return };
    if schedule::waits(name) {
        return schedule::note_stuck(name);
    }
    if is_paused || !context.serves(key) || !context.lets_clients_write(key) {
        return schedule::try_stuck_in(name, ELSEWHERE_US);
    }
    match courier::retry(context, key, now, || !budget.is_spent()) {
        courier::Retried::All => {}
        courier::Retried::Some => schedule::try_stuck_in(name, 0),
        courier::Retried::Fails(reason) => {
            let wait_us = courier::failed(name, &reason);
            schedule::try_stuck_in(name, wait_us);
        }
    }
}

/// Notes that it failed, and is to be tried again after a while.
fn wait_after(name: &Name, reason: &str) {
    let wait_us = courier::failed(name, reason);
    schedule::wait(name, wait_us);
}
