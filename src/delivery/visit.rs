//! Visits to dehydrators with work of their own: elements to deliver or that are too late, a pause to end, schedules that
//! occur, the event that elements are due.
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

use super::send::{Origin, REFUSED};
use crate::data_type::{Writing, inspect, is_on_agenda};
use crate::metrics::lateness::LATENESS;
use crate::pending::agenda::{self, Reason};
use crate::policy::{Policy, Trust};
use crate::replicate::Effect;
use crate::server::other_modules::may_subscribe;
use crate::server::{Context, EventClass, OwnedStr, listeners};
use crate::{clock, config};
use lawn::Lawn;

/// The wait of a cluster's node that does not serve a key's slot, in microseconds: the slot is moving, and the key with
/// it.
const ELSEWHERE_US: u64 = 1_000_000;

/// After so many steps of schedules a pass ends. With half of the budget spent it ends if something hears effects: the server writes
/// them afterwards, and to an append-only file that takes about as long.
const STEPS_MAX: usize = 128;

/// Visits all due dehydrators, until the budget is spent.
pub fn run(context: &Context) {
    let Some(next_us) = agenda::next_us(&Reason::DELIVERY) else { return };
    let started_us = clock::monotonic_us();
    if next_us > started_us || !config::may_act(context) {
        return;
    }
    let budget_us = config::TICK_BUDGET_US.get();
    let steps_until_us = started_us + budget_us / 2;
    let until_us = if listeners::are_absent() { started_us + budget_us } else { steps_until_us };
    let mut steps = 0;
    while let Some(name) = agenda::take(&Reason::DELIVERY) {
        if context.select_db(name.db) {
            let (key, now) = (OwnedStr::new(&name.key), clock::now());
            let origin = Origin { context, name: &name, key: key.as_str(), now, until_us };
            steps += visit(&origin, steps_until_us);
        }
        let now_us = clock::monotonic_us();
        let until_us = if steps > 0 { steps_until_us } else { until_us };
        if steps >= STEPS_MAX || now_us >= until_us {
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
    /// The clock has stepped back, and what groups may give out depends on it.
    StepBack,
    /// A schedule occurs.
    Occur,
    /// Stuck dead letters are to be retried, if not paused.
    Stuck { is_paused: bool },
    /// Elements are too late to be given out.
    Expire(Policy),
    /// Something is due. `sends`: the policy that sends it, if it does.
    Due { deadline: u64, sends: Option<Policy> },
}

/// Determines the work in a key. After a call out, which may change the key, it is to be determined again.
/// `has_retried`: stuck dead letters were retried in this visit. `has_occurred`: schedules have occurred.
fn find_work(origin: &Origin<'_>, has_retried: bool, has_occurred: bool) -> Work {
    let Origin { context, name, key, now, .. } = *origin;
    inspect(context, key, |dehydrator| {
        let (tracking, rules) = (&dehydrator.tracking, dehydrator.rules());
        if tracking.has_stuck() && !has_retried {
            return Work::Stuck { is_paused: rules.is_paused(now) };
        }
        if !is_on_agenda(dehydrator) {
            tracking.visited(Reason::Deliver);
            return Work::None;
        }
        if matches!(rules.trust, Trust::Unannounced) {
            return Work::ReplicateTrust;
        }
        if dehydrator.lawn.groups().is_some_and(|groups| groups.is_behind(now)) {
            return Work::StepBack;
        }
        let own = dehydrator.own_work(now);
        if !has_occurred && matches!(own.occurs, Some(at) if at <= now) {
            return Work::Occur;
        }
        if matches!(own.expires, Some(at) if at <= now) {
            return Work::Expire(rules.policy.clone());
        }
        match (own.next, dehydrator.lawn.next_deadline()) {
            (Some(next), _) if next <= now && rules.pause.is_some() => Work::Resume,
            (Some(next), Some(deadline)) if next <= now => {
                // What is due may wait, and this visit may have been for what has expired or occurred.
                let at = own.expires_or_occurs();
                at.into_iter().for_each(|at| agenda::expires_or_occurs_at(name, at));
                if own.waits_for_room {
                    agenda::waits_since(name, now);
                }
                let sends = if own.delivers { Some(rules.policy.clone()) } else { None };
                Work::Due { deadline, sends }
            }
            _ => {
                // The deadline was unknown, or elements were removed or postponed.
                agenda::note(context, key, tracking, own, now);
                Work::Later
            }
        }
    })
    .unwrap_or(Work::None)
}

/// Does the work in a key. Returns the number of steps of schedules, which end at `steps_until_us`.
fn visit(origin: &Origin<'_>, steps_until_us: u64) -> usize {
    let Origin { context, name, key, .. } = *origin;
    let mut work = find_work(origin, false, false);
    if let Work::Stuck { is_paused } = work {
        retry_stuck(origin, is_paused);
        work = find_work(origin, true, false);
    }
    let mut steps = 0;
    if let Work::Occur = work {
        steps = origin.occur(steps_until_us);
        // So that a mass of occurrences holds up nothing else.
        work = find_work(origin, true, true);
    }
    match work {
        Work::None => agenda::end_deliveries(name),
        Work::Later | Work::Stuck { .. } | Work::Occur => {}
        Work::ReplicateTrust => replicate_trust(origin),
        Work::Resume => resume(origin),
        Work::StepBack => {
            // Closing it records the next visit.
            if let Ok(mut dehydrator) = Writing::open_at(context, key, origin.now)
                && let Some(mut groups) = dehydrator.lawn().and_then(Lawn::groups_mut)
            {
                groups.step_back(origin.now);
            }
        }
        Work::Expire(_) if !context.serves(key) || !context.lets_clients_write(key) => {
            agenda::visit_in(name, Reason::ExpireOrOccur, ELSEWHERE_US);
        }
        Work::Expire(policy) => {
            origin.expire(&policy);
            // There may be more, and other work.
            agenda::visit_in(name, Reason::ExpireOrOccur, 0);
        }
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
                Some(policy) => send_due(origin, &policy, deadline),
                None => {}
            }
        }
    }
    steps
}

/// Sends due elements or dead letters, the first of which has this deadline.
fn send_due(origin: &Origin<'_>, policy: &Policy, deadline: u64) {
    let Origin { context, name, key, .. } = *origin;
    let (moved, wait) = if !policy.limits_deliveries() {
        let late_us = agenda::late_us(name, deadline);
        let (delivered, wait) = origin.deliver(policy);
        if delivered > 0 {
            LATENESS.record(late_us, 1);
        }
        (delivered, wait)
    } else if context.lets_clients_write(key) {
        // They are late only for a client that waits for the elements behind them.
        (origin.move_dead_letters(policy), None)
    } else {
        // Postponing a stuck dead letter is a write.
        (0, Some(origin.failed(REFUSED)))
    };
    match wait {
        // The change has recorded when there is more to do.
        None if moved > 0 => {}
        None => agenda::visit_in(name, Reason::Deliver, 0),
        Some(wait_us) => agenda::visit_in(name, Reason::Retry, wait_us),
    }
}

/// Replicates that a policy is unconfirmed. Closing the key records the next visit.
fn replicate_trust(origin: &Origin<'_>) {
    let Origin { context, key, .. } = *origin;
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let policy = dehydrator.rules().policy.clone();
    if policy.sends_elsewhere() && dehydrator.change_rules(|rules| rules.trust = Trust::Unconfirmed)
    {
        Effect::policy(key, &policy, Trust::Unconfirmed).replicate(context);
    }
}

/// Ends a pause that is over and replicates that, though replicas see the end by themselves too. An empty dehydrator is
/// then deleted.
fn resume(origin: &Origin<'_>) {
    let Origin { context, name, key, .. } = *origin;
    if !context.serves(key) || !context.lets_clients_write(key) {
        return agenda::visit_in(name, Reason::Retry, ELSEWHERE_US);
    }
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    if dehydrator.change_rules(|rules| rules.pause = None) {
        agenda::reset_overdue(name);
        Effect::resumed(key, None).replicate(context);
        dehydrator.finish(c"dehydrator.resume");
    }
}

/// Retries stuck dead letters, if it is time.
fn retry_stuck(origin: &Origin<'_>, is_paused: bool) {
    let Origin { context, name, key, .. } = *origin;
    if agenda::is_backing_off(name) {
        return agenda::note_stuck(name);
    }
    let is_elsewhere = is_paused || !context.serves(key) || !context.lets_clients_write(key);
    let wait_us = if is_elsewhere { Some(ELSEWHERE_US) } else { origin.retry() };
    if let Some(wait_us) = wait_us {
        agenda::visit_in(name, Reason::Stuck, wait_us);
    }
}
