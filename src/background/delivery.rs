//! Delivering due elements, and publishing the event that elements are due.
//!
//! The [`agenda`] lists the dehydrators with work. They are visited one by one, a batch at a time, until the budget
//! is spent; the rest carries on after clients have had their turn.
//!
//! ```text
//!   the end of a pass, the tick ─▶ run ─▶ announce: the event dehydrator.due
//!                                     └────▶ delivery: XADD, RPUSH or PUBLISH, and then REM
//! ```
//!
//! Every call out (an event, or a command of the server, which publishes events) may change anything, so the key is
//! read again after it. The [`delivery`] moves the elements; with a limit of deliveries, only dead letters.
//!
//! The effects of one pass go to replicas and the append-only file as one transaction: an element is in the dehydrator
//! or in the stream, never in both or in neither. On a replica, while the server loads, and while clients are paused,
//! nothing is done; the next tick tries again.

use crate::data_type::{Writing, inspect, is_scheduled};
use crate::delivery;
use crate::metrics::counters::{self, DELIVERIES};
use crate::metrics::latency::LATENESS;
use crate::pending::agenda::{self, Reason, Task};
use crate::policy::{Policy, Trust};
use crate::replicate::Effect;
use crate::server::key::Name;
use crate::server::notify::EventClass;
use crate::server::{Context, OwnedStr, Str};
use crate::{clock, config};

/// The wait of a cluster's node that does not serve a key's slot, in microseconds: the slot is moving, and the key with
/// it.
const ELSEWHERE_US: u64 = 1_000_000;

/// The time budget of one run.
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

/// Visits all due dehydrators, until the budget is spent.
pub fn run(context: &Context) {
    if agenda::len() == 0 || !context.may_replicate() {
        return;
    }
    let budget = Budget::start();
    while let Some(name) = agenda::take(&Reason::DELIVERY) {
        if context.select_db(name.db) {
            deliver_from(context, &name, &budget);
        }
        if budget.is_spent() {
            break;
        }
    }
}

/// The work in a key.
enum Work {
    /// There is none, now or later.
    None,
    /// There is none before the time that is recorded now.
    Later,
    /// A policy came by RESTORE: replicate that it is unconfirmed.
    ReplicateTrust,
    /// A pause is over.
    Resume,
    /// Something is due. `sends`: the policy that sends it, if it does.
    Due { deadline: u64, sends: Option<Policy> },
}

/// Determines the work in a key. After a call out, which may change the key, it is to be determined again.
fn find_work(context: &Context, key: Str<'_>, now: u64) -> Work {
    inspect(context, key, |dehydrator| {
        let tracking = dehydrator.tracking();
        if !is_scheduled(dehydrator) {
            tracking.visited(Reason::Deliver);
            return Work::None;
        }
        // The deadline was unknown, or elements were removed or postponed.
        let later = |task| {
            agenda::note(context, key, tracking, task, now);
            Work::Later
        };
        if dehydrator.rules().trust == Trust::Unannounced {
            return Work::ReplicateTrust;
        }
        if let Some(pause) = dehydrator.rules().pause {
            let is_on = pause.is_on(now);
            return if is_on { later(dehydrator.next_task(now)) } else { Work::Resume };
        }
        let sends = dehydrator.sends_first();
        match dehydrator.lawn.next_deadline() {
            Some(deadline) if deadline <= now && !dehydrator.has_room(sends, now) => {
                let task = dehydrator.next_task(now);
                later(Task { next: task.next.map(|next| next.max(now + 1)), ..task })
            }
            Some(deadline) if deadline <= now => {
                Work::Due { deadline, sends: sends.then(|| dehydrator.rules().policy.clone()) }
            }
            next => later(Task { next, delivers: sends, is_held_back: false }),
        }
    })
    .unwrap_or(Work::None)
}

fn deliver_from(context: &Context, name: &Name, budget: &Budget) {
    let key = OwnedStr::new(&name.key);
    let key = key.as_str();
    let now = clock::now();
    retry_stuck(context, name, key, now, budget);
    match find_work(context, key, now) {
        Work::None => return agenda::end_deliveries(name),
        Work::Later => return,
        Work::ReplicateTrust => return replicate_trust(context, name, key),
        Work::Resume => return resume(context, name, key),
        Work::Due { .. } => {}
    }
    if !context.serves(key) {
        agenda::visit_in(name, Reason::Retry, ELSEWHERE_US);
        return;
    }
    if agenda::announce(name) {
        context.notify(EventClass::Module, c"dehydrator.due", key);
    }
    let Work::Due { deadline, sends } = find_work(context, key, now) else {
        return agenda::visit_in(name, Reason::Deliver, 0);
    };
    let Some(policy) = sends else { return };
    if policy.is_limit() {
        return move_dead_letters_from(context, name, key, &policy, now, budget);
    }
    let late_us = agenda::late_us(name, deadline);
    let (delivered, result) = delivery::deliver(context, key, &policy, now, || !budget.is_spent());
    if delivered > 0 {
        LATENESS.record(late_us, 1);
    }
    counters::count(&DELIVERIES, delivered);
    match result {
        Ok(()) => {
            agenda::succeeded(context, name);
            agenda::visit_in(name, Reason::Deliver, 0);
        }
        Err(reason) => wait_after(name, &reason),
    }
}

/// Replicates that a policy is unconfirmed.
fn replicate_trust(context: &Context, name: &Name, key: Str<'_>) {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let policy = dehydrator.policy().clone();
    if policy.sends_elsewhere() && dehydrator.change_rules(|rules| rules.trust = Trust::Unconfirmed)
    {
        Effect::policy(key, &policy, Trust::Unconfirmed).replicate(context);
    }
    drop(dehydrator);
    agenda::visit_in(name, Reason::Deliver, 0);
}

/// Ends a pause that is over and replicates that, though replicas see the end by themselves too. An empty dehydrator is
/// then deleted.
fn resume(context: &Context, name: &Name, key: Str<'_>) {
    if !context.serves(key) || !context.lets_clients_write(key) {
        return agenda::visit_in(name, Reason::Retry, ELSEWHERE_US);
    }
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    if dehydrator.change_rules(|rules| rules.pause = None) {
        agenda::reset_overdue(name);
        Effect::resumed(key).replicate(context);
        dehydrator.shrunk(c"dehydrator.resume");
    }
    agenda::visit_in(name, Reason::Deliver, 0);
}

/// Moves dead letters, which are late only for a client that waits for the elements behind them.
fn move_dead_letters_from(
    context: &Context,
    name: &Name,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    budget: &Budget,
) {
    // Postponing a stuck dead letter is a write.
    if !context.lets_clients_write(key) {
        return wait_after(name, delivery::REFUSED);
    }
    delivery::move_dead_letters(context, key, policy, now, || !budget.is_spent());
    agenda::visit_in(name, Reason::Deliver, 0);
}

/// Retries stuck dead letters, if there are any and it is time.
fn retry_stuck(context: &Context, name: &Name, key: Str<'_>, now: u64, budget: &Budget) {
    let is_paused = inspect(context, key, |dehydrator| {
        dehydrator.tracking().has_stuck().then(|| dehydrator.rules().is_paused(now))
    });
    let Some(is_paused) = is_paused.flatten() else { return };
    if agenda::is_backing_off(name) {
        return agenda::note_stuck(name);
    }
    if is_paused || !context.serves(key) || !context.lets_clients_write(key) {
        return agenda::visit_in(name, Reason::Stuck, ELSEWHERE_US);
    }
    match delivery::retry(context, key, now, || !budget.is_spent()) {
        delivery::Retried::All => {}
        delivery::Retried::Some => agenda::visit_in(name, Reason::Stuck, 0),
        delivery::Retried::Fails(reason) => {
            let wait_us = delivery::failed(name, &reason);
            agenda::visit_in(name, Reason::Stuck, wait_us);
        }
    }
}

/// Records a failed delivery, to be retried after a wait.
fn wait_after(name: &Name, reason: &str) {
    let wait_us = delivery::failed(name, reason);
    agenda::visit_in(name, Reason::Retry, wait_us);
}
