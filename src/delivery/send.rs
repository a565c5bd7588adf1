//! Sending elements to the destination of a policy.
//!
//! A server command publishes events, and a listener may change anything. So elements are copied in batches, each is
//! checked again before it is sent, and no key is open meanwhile.
//!
//! Sent elements are removed, or the process ends: a panic in between would leave them in both places.

use super::send_command::SendCommand;
use crate::clock;
use crate::data_type::{Dehydrator, ElementCopy, Writing, inspect};
use crate::metrics::counters::{self, Counter, RETRIES};
use crate::pending::agenda;
use crate::policy::{Policy, Route};
use crate::replicate::{self, Batch};
use crate::server::flags::is_cluster;
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::key::Name;
use crate::server::{Context, Str, log_warning};

/// Elements delivered before their removal is replicated, at most: few, so that the removal stays within the time budget
/// too.
pub(super) const BATCH: usize = 64;
/// A batch is complete at this many bytes of elements: they are copied, and the receiving command copies them again.
const BATCH_BYTES: usize = 64 * 1024;

/// The reason when elements are not dropped or published because clients may not write.
pub(super) const REFUSED: &str = "the server refuses writes now (NOREPLICAS, MISCONF)";

/// The reason when nothing is sent while the slot is imported from another node: the stream or the list may not have
/// arrived yet, and could no longer arrive if a new one was created.
const IMPORTING: &str = "the slot is being moved to this node";

/// Returns whether this node is importing the slot of a key.
fn is_importing(key: Str<'_>) -> bool {
    // The client whose command runs may have sent ASKING, so its context is not asked.
    is_cluster() && Context::with_detached(|context| !context.serves(key)) == Some(true)
}

/// The reason when nothing is sent by a policy that came by RESTORE.
const UNCONFIRMED: &str = "the policy came by RESTORE: send it again by ONDUE to confirm it";

/// Collects the first of these copies into a batch.
pub(super) fn batch_of(copies: impl Iterator<Item = ElementCopy>) -> Vec<ElementCopy> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for copy in copies.take(BATCH) {
        bytes += copy.payload.bytes().len();
        batch.push(copy);
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    batch
}

/// Moves some of the first due elements to the destination of the policy, until `until_us`. Returns how many were moved,
/// and the error if one could not be.
pub(super) fn deliver(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    until_us: u64,
) -> (u64, Result<(), String>) {
    if policy.route() == Some(&Route::Drop) {
        // Dropped in one batch, without copies.
        if context.lets_clients_write(key) {
            return (drop_due(context, key, policy, now), Ok(()));
        }
        return (0, Err(REFUSED.to_owned()));
    }
    let collect = |dehydrator: &Dehydrator| {
        let due = dehydrator.lawn.iter_until(now).take(dehydrator.deliverable(now));
        let due = due.take_while(|(_, element)| policy.routes(element.deliveries));
        batch_of(due.map(|(ttl, element)| ElementCopy::new(element, ttl, None)))
    };
    let batch = inspect(context, key, collect).unwrap_or_default();
    let (sent, result) = send(context, key, policy, batch, now, until_us);
    (sent.len() as u64, result)
}

/// Sends copies of elements to the destination of the policy, until `until_us` on the monotonic clock, and removes the
/// sent ones. Returns those, and the error if one could not be sent.
pub(super) fn send(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    batch: Vec<ElementCopy>,
    now: u64,
    until_us: u64,
) -> (Vec<ElementCopy>, Result<(), String>) {
    let Some(route) = policy.route().filter(|_| !batch.is_empty()) else {
        return (Vec::new(), Ok(()));
    };
    let mut command = SendCommand::of(route, policy.is_limit());
    // XADD and RPUSH check themselves whether clients may write.
    let refusal = match command.adds {
        true if context.is_out_of_memory() => Some("OOM used memory > 'maxmemory'"),
        true if is_importing(key) => Some(IMPORTING),
        false if !context.lets_clients_write(key) => Some(REFUSED),
        _ => None,
    };
    if let Some(reason) = refusal {
        return (Vec::new(), Err(reason.to_owned()));
    }
    let is_there = |copy: &ElementCopy, dehydrator: &Dehydrator| {
        dehydrator.rules().policy == *policy
            // REJECT works during a pause.
            && (copy.token.is_some() || !dehydrator.rules().is_paused(now))
            && copy.find(&dehydrator.lawn).is_some_and(|found| found.payload == copy.payload.bytes())
    };
    let (mut sent, mut result) = (Vec::new(), Ok(()));
    let mut whole = None;
    let most = if command.takes_all { BATCH } else { 1 };
    let mut left = batch.into_iter();
    while !left.as_slice().is_empty() {
        let mut load: Vec<_> = left.by_ref().take(most).collect();
        // Nothing calls out between this check and the command that sends them all.
        let is_confirmed = inspect(context, key, |dehydrator| {
            load.retain(|copy| is_there(copy, dehydrator));
            dehydrator.rules().trust.is_confirmed()
        });
        match is_confirmed {
            None => break,
            Some(false) => {
                result = Err(UNCONFIRMED.to_owned());
                break;
            }
            Some(true) if load.is_empty() => continue,
            Some(true) => {}
        }
        whole.get_or_insert_with(AbortOnPanic::begin);
        result = command.send(context, &load);
        trap::pass("sent");
        if result.is_err() {
            break;
        }
        sent.append(&mut load);
        if clock::monotonic_us() >= until_us {
            break;
        }
    }
    remove(context, key, policy, &sent);
    drop(whole);
    (sent, result)
}

/// Counts moved elements, and records the success or the failure. Returns the wait before the next try after a failure, in
/// microseconds.
pub(super) fn conclude(
    context: &Context,
    name: &Name,
    counter: &Counter,
    moved: u64,
    result: Result<(), String>,
) -> Option<u64> {
    counters::count(counter, moved);
    if let Err(reason) = result {
        return Some(failed(name, &reason));
    }
    if moved > 0 {
        agenda::succeeded(context, name);
    }
    None
}

/// Records a failed delivery, and logs the first. Returns the wait before the next try, in microseconds.
pub(super) fn failed(name: &Name, reason: &str) -> u64 {
    counters::count(&RETRIES, 1);
    let (is_first, wait_us) = agenda::failed(name, reason);
    if is_first {
        log_warning(&format!(
            "dehydrator: what is due in '{}' (db {}) could not be delivered, and stays until it can: {reason}",
            name.key.escape_ascii(),
            name.db,
        ));
    }
    wait_us
}

/// Removes delivered elements.
fn remove<'a>(context: &'a Context, key: Str<'a>, policy: &Policy, batch: &'a [ElementCopy]) {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let until = dehydrator.remembers_until().filter(|_| !policy.is_limit());
    let mut removed = Batch::settled(context, key, until);
    if let Some(mut removal) = dehydrator.removal(until) {
        for copy in batch {
            let id = copy.id.as_str();
            // A listener may have taken the element and pushed another one with its id.
            let is_there = copy.find(removal.lawn).is_some() || copy.is_rejected(removal.lawn);
            if is_there && removal.settle(id.bytes()) {
                removed.push_sent(id);
            }
        }
    }
    if removed.finish() {
        if policy.delivers() {
            // Not earlier than the last delivery, whose time the id of a stream's entry holds.
            let (moment, count) = (clock::now(), batch.len() as u64);
            if dehydrator.note_given(moment, count) {
                replicate::given(context, key, moment, count);
            }
        }
        let is_dropped = policy.route() == Some(&Route::Drop);
        let event = if is_dropped { c"dehydrator.drop" } else { c"dehydrator.deliver" };
        dehydrator.shrunk(event);
    }
}

/// Removes some of the due elements without sending them.
fn drop_due(context: &Context, key: Str<'_>, policy: &Policy, now: u64) -> u64 {
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
    // Checking whether clients may write called out.
    if dehydrator.rules().policy != *policy || dehydrator.rules().is_paused(now) {
        return 0;
    }
    let until = dehydrator.remembers_until().filter(|_| !policy.is_limit());
    let mut removed = Batch::settled(context, key, until);
    let mut count = 0;
    if let Some(mut removal) = dehydrator.removal(until) {
        let most = if policy.is_limit() {
            let first = removal.lawn.iter_until(now).take(BATCH);
            first.take_while(|(_, element)| policy.routes(element.deliveries)).count()
        } else {
            BATCH
        };
        count = removal.drain(now, most, |_, element| removed.push(element.id));
    }
    if removed.finish() {
        dehydrator.shrunk(c"dehydrator.drop");
    }
    count as u64
}
