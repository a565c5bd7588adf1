//! Visits to dehydrators with work of their own: elements to deliver, a pause to end, the event that elements are due.
//!
//! The [`agenda`] lists them. They are visited one by one, a batch at a time, until the budget is spent; the rest carries
//! on after clients have had their turn.
//!
//! Every call out (an event, or a command of the server, which publishes events) may change anything, so the key is
//! read again after it.
//!
//! The effects of one pass go to replicas and the append-only file as one transaction: an element is in the dehydrator
//! or in the stream, never in both or in neither. On a replica, while the server loads, and while clients are paused,
//! nothing is done; the next tick tries again.

use super::dead_letters::{move_dead_letters, retry};
use super::send::{REFUSED, conclude, deliver, failed};
use crate::data_type::{Writing, inspect, is_scheduled};
use crate::metrics::counters::DELIVERIES;
use crate::metrics::latency::LATENESS;
use crate::pending::agenda::{self, Reason};
use crate::policy::{Policy, Trust};
use crate::replicate::Effect;
use crate::server::key::Name;
use crate::server::notify::EventClass;
use crate::server::other_modules::may_subscribe;
use crate::server::{Context, OwnedStr, Str};
use crate::{clock, config};

/// The wait of a cluster's node that does not serve a key's slot, in microseconds: the slot is moving, and the key with
/// it.
const ELSEWHERE_US: u64 = 1_000_000;

/// Visits all due dehydrators, until the budget is spent.
pub fn run(context: &Context) {
    let Some(next_us) = agenda::next_us() else { return };
    let started_us = clock::monotonic_us();
    if next_us > started_us || !context.may_replicate() {
        return;
    }
    let until_us = started_us + config::tick_budget_us();
    while let Some(name) = agenda::take(&Reason::DELIVERY) {
        if context.select_db(name.db) {
            visit(context, &name, until_us);
        }
        if clock::monotonic_us() >= until_us {
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
    /// Stuck dead letters are to be retried, if not paused.
    Stuck { is_paused: bool },
    /// Something is due. `sends`: the policy that sends it, if it does.
    Due { deadline: u64, sends: Option<Policy> },
}

/// Determines the work in a key. After a call out, which may change the key, it is to be determined again.
/// `has_retried`: stuck dead letters were retried in this visit.
fn find_work(context: &Context, key: Str<'_>, now: u64, has_retried: bool) -> Work {
    inspect(context, key, |dehydrator| {
        let (tracking, rules) = (&dehydrator.tracking, dehydrator.rules());
        if tracking.has_stuck() && !has_retried {
            return Work::Stuck { is_paused: rules.is_paused(now) };
        }
        if !is_scheduled(dehydrator) {
            tracking.visited(Reason::Deliver);
            return Work::None;
        }
        if rules.trust == Trust::Unannounced {
            return Work::ReplicateTrust;
        }
        let task = dehydrator.next_task(now);
        match (task.next, dehydrator.lawn.next_deadline()) {
            (Some(next), _) if next <= now && rules.pause.is_some() => Work::Resume,
            (Some(next), Some(deadline)) if next <= now => {
                Work::Due { deadline, sends: task.delivers.then(|| rules.policy.clone()) }
            }
            _ => {
                // The deadline was unknown, or elements were removed or postponed.
                agenda::note(context, key, tracking, task, now);
                Work::Later
            }
        }
    })
    .unwrap_or(Work::None)
}

/// Does the work in a key.
fn visit(context: &Context, name: &Name, until_us: u64) {
    let key = OwnedStr::new(&name.key);
    let key = key.as_str();
    let now = clock::now();
    let mut work = find_work(context, key, now, false);
    if let Work::Stuck { is_paused } = work {
        retry_stuck(context, name, key, now, is_paused, until_us);
        work = find_work(context, key, now, true);
    }
    match work {
        Work::None => agenda::end_deliveries(name),
        Work::Later | Work::Stuck { .. } => {}
        Work::ReplicateTrust => replicate_trust(context, name, key),
        Work::Resume => resume(context, name, key),
        Work::Due { .. } if !context.serves(key) => {
            agenda::visit_in(name, Reason::Retry, ELSEWHERE_US);
        }
        Work::Due { deadline, sends } => {
            let is_new = agenda::announce(name);
            if is_new {
                context.notify(EventClass::Module, c"dehydrator.due", key);
            }
            match sends {
                // The event called out, so the key is to be read again.
                Some(_) if is_new && may_subscribe() => {
                    agenda::visit_in(name, Reason::Deliver, 0);
                }
                Some(policy) => send_due(context, name, key, &policy, (deadline, now), until_us),
                None => {}
            }
        }
    }
}

/// Sends due elements or dead letters, the first of which has this deadline.
fn send_due(
    context: &Context,
    name: &Name,
    key: Str<'_>,
    policy: &Policy,
    (deadline, now): (u64, u64),
    until_us: u64,
) {
    let wait = if policy.is_limit() {
        // Postponing a stuck dead letter is a write.
        if context.lets_clients_write(key) {
            // They are late only for a client that waits for the elements behind them.
            move_dead_letters(context, key, policy, now, until_us);
            None
        } else {
            Some(failed(name, REFUSED))
        }
    } else {
        let late_us = agenda::late_us(name, deadline);
        let (delivered, result) = deliver(context, key, policy, now, until_us);
        if delivered > 0 {
            LATENESS.record(late_us, 1);
        }
        conclude(context, name, &DELIVERIES, delivered, result)
    };
    match wait {
        None => agenda::visit_in(name, Reason::Deliver, 0),
        Some(wait_us) => agenda::visit_in(name, Reason::Retry, wait_us),
    }
}

/// Replicates that a policy is unconfirmed.
fn replicate_trust(context: &Context, name: &Name, key: Str<'_>) {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let policy = dehydrator.rules().policy.clone();
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

/// Retries stuck dead letters, if it is time.
fn retry_stuck(
    context: &Context,
    name: &Name,
    key: Str<'_>,
    now: u64,
    is_paused: bool,
    until_us: u64,
) {
    if agenda::is_backing_off(name) {
        return agenda::note_stuck(name);
    }
    let is_elsewhere = is_paused || !context.serves(key) || !context.lets_clients_write(key);
    let wait_us =
        if is_elsewhere { Some(ELSEWHERE_US) } else { retry(context, name, key, now, until_us) };
    if let Some(wait_us) = wait_us {
        agenda::visit_in(name, Reason::Stuck, wait_us);
    }
}
