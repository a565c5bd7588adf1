//! Sending elements to the destination of a policy.
//!
//! A server command publishes events, and a listener may change anything. So elements are copied in batches, each is
//! checked again before it is sent, and no key is open meanwhile.
//!
//! Sent elements are removed, or the process ends: a panic in between would leave them in both places.

use super::send_command::SendCommand;
use crate::clock;
use crate::data_type::{Dehydrator, ElementCopy, Writing, inspect};
use crate::metrics::counters::{DEAD_LETTERS, DELIVERIES, EXPIRED, RETRIES};
use crate::pending::agenda;
use crate::policy::{Policy, Route, Rules};
use crate::server::flags::is_cluster;
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::key::Name;
use crate::server::other_modules::may_subscribe;
use crate::server::{Context, Str, log_warning};
use lawn::Lawn;

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

/// The reason when nothing is sent by a policy that came by RESTORE.
const UNCONFIRMED: &str = "the policy came by RESTORE: send it again by ONDUE to confirm it";

/// The key that elements leave, and the time to move them.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    pub context: &'a Context,
    pub name: &'a Name,
    pub key: Str<'a>,
    /// In milliseconds since the epoch.
    pub now: u64,
    /// When to stop, on the monotonic clock, in microseconds.
    pub until_us: u64,
}

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

impl Origin<'_> {
    /// Moves some of the first due elements to the destination of the policy. Returns how many were moved and, after a
    /// failure, the wait before the next try, in microseconds.
    pub(super) fn deliver(&self, policy: &Policy) -> (u64, Option<u64>) {
        let Self { context, key, now, .. } = *self;
        let route = policy.route();
        let collect = |dehydrator: &Dehydrator| {
            let mut due =
                dehydrator.lawn.due_in_turn(now).take(dehydrator.deliverable(now)).peekable();
            let first = due.peek().and_then(|first| policy.route_of(&first.element, now));
            if first == Some(&Route::Drop) {
                return None;
            }
            let due = due.take_while(|row| policy.route_of(&row.element, now) == route);
            Some(batch_of(due.map(|row| ElementCopy::of(&dehydrator.lawn, row))))
        };
        let is_drop = route == Some(&Route::Drop);
        let batch = if is_drop { None } else { inspect(context, key, collect).unwrap_or_default() };
        let Some(batch) = batch else {
            // Dropped in one batch, without copies.
            if !context.lets_clients_write(key) {
                return (0, Some(self.failed(REFUSED)));
            }
            if !is_drop {
                // Expired elements of another route count as such alone.
                self.drop_expired(policy);
                return (0, None);
            }
            let dropped = self.drop_due(policy);
            DELIVERIES.add(dropped);
            if dropped > 0 {
                agenda::succeeded(context, self.name);
            }
            return (dropped, None);
        };
        let (sent, wait) = self.send(policy, batch);
        (sent.len() as u64, wait)
    }

    /// Sends copies of elements to the destination of the policy, and removes the sent ones. Returns those and, after a
    /// failure, the wait before the next try, in microseconds.
    pub(super) fn send(
        &self,
        policy: &Policy,
        batch: Vec<ElementCopy>,
    ) -> (Vec<ElementCopy>, Option<u64>) {
        let Self { context, key, now, .. } = *self;
        let Some(route) = policy.route().filter(|_| !batch.is_empty()) else {
            return (Vec::new(), None);
        };
        let mut command = SendCommand::of(route, policy.limits_deliveries());
        // XADD and RPUSH check themselves whether clients may write.
        let refusal = match command.adds {
            true if context.is_out_of_memory() => Some("OOM used memory > 'maxmemory'"),
            // The client whose command runs may have sent ASKING, so its context is not asked.
            true if is_cluster() && Context::with_detached(|it| !it.serves(key)) == Some(true) => {
                Some(IMPORTING)
            }
            false if !context.lets_clients_write(key) => Some(REFUSED),
            _ => None,
        };
        if let Some(reason) = refusal {
            return (Vec::new(), Some(self.failed(reason)));
        }
        let (mut sent, mut result) = (Vec::new(), Ok(()));
        let mut whole = None;
        // An entry of a stream publishes events. Without listeners nothing can change the key until the last one is added.
        let most = if command.takes_all || !may_subscribe() { BATCH } else { 1 };
        let mut left = batch.into_iter();
        while !left.as_slice().is_empty() {
            let mut load: Vec<_> = left.by_ref().take(most).collect();
            // Nothing calls out between this check and the last command that sends them.
            let is_confirmed = inspect(context, key, |dehydrator| {
                let Rules { policy: present, trust, .. } = dehydrator.rules();
                let is_paused = dehydrator.rules().is_paused(now);
                load.retain(|copy| {
                    present == policy
                        // REJECT works during a pause.
                        && (copy.token.is_some() || !is_paused)
                        && matches!(copy.find(&dehydrator.lawn), Some(it) if it.payload == copy.payload.bytes())
                });
                trust.is_confirmed()
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
            let one_call = if command.takes_all { load.len() } else { 1 };
            let mut done = 0;
            for call in load.chunks(one_call) {
                result = command.send(context, call);
                trap::pass("sent");
                if result.is_err() {
                    break;
                }
                done += call.len();
                if clock::monotonic_us() >= self.until_us {
                    break;
                }
            }
            sent.extend(load.drain(..done));
            if result.is_err() || clock::monotonic_us() >= self.until_us {
                break;
            }
        }
        self.remove(policy, &sent);
        drop(whole);
        let expired = sent.iter().filter(|copy| copy.is_expired(now)).count();
        EXPIRED.add(expired as u64);
        let counter = if policy.limits_deliveries() { &DEAD_LETTERS } else { &DELIVERIES };
        counter.add(sent.len() as u64);
        if let Err(reason) = result {
            let wait_us = self.failed(&reason);
            return (sent, Some(wait_us));
        }
        if !sent.is_empty() {
            agenda::succeeded(context, self.name);
        }
        (sent, None)
    }

    /// Records a failed delivery, and logs the first. Returns the wait before the next try, in microseconds.
    pub(super) fn failed(&self, reason: &str) -> u64 {
        RETRIES.add(1);
        let (is_first, wait_us) = agenda::failed(self.name, reason);
        if is_first {
            log_warning(&format!(
                "dehydrator: what is due in '{}' (db {}) could not be delivered, and stays until it can: {reason}",
                self.name.key.escape_ascii(),
                self.name.db,
            ));
        }
        wait_us
    }

    /// Removes delivered elements.
    fn remove(&self, policy: &Policy, batch: &[ElementCopy]) {
        let Self { context, key, .. } = *self;
        let Ok(mut dehydrator) = Writing::open(context, key) else { return };
        let until = if policy.limits_deliveries() { None } else { dehydrator.remembers_until() };
        // Not earlier than the last delivery, whose time the id of a stream's entry holds.
        let moment = clock::now();
        let mut removal = dehydrator.removal(until);
        for copy in batch {
            let id = copy.id.as_str();
            // A listener may have taken the element and pushed another one with its id.
            let is_it = |lawn: &Lawn| copy.find(lawn).is_some() || copy.is_rejected(lawn);
            match removal.lawn().is_some_and(is_it) {
                false => false,
                // A dead letter costs its group no turn.
                true if policy.limits_deliveries() => removal.take(id, |_| ()),
                true => removal.give(id, moment),
            };
        }
        if removal.finish() {
            if policy.delivers() {
                dehydrator.replicate_given(moment, batch.len() as u64);
            }
            let is_dropped = policy.route() == Some(&Route::Drop);
            let event = if is_dropped { c"dehydrator.drop" } else { c"dehydrator.deliver" };
            dehydrator.finish(event);
        }
    }

    /// Removes some of the first due elements, under a policy that drops them. Returns how many.
    fn drop_due(&self, policy: &Policy) -> u64 {
        let Self { context, key, now, .. } = *self;
        let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
        // Checking whether clients may write called out.
        if dehydrator.rules().policy != *policy || dehydrator.rules().is_paused(now) {
            return 0;
        }
        let until = dehydrator.remembers_until();
        let mut removal = dehydrator.removal(until);
        let mut expired = 0;
        let count =
            removal.drain(now, BATCH, |element| expired += u64::from(element.is_expired(now)));
        if removal.finish() {
            EXPIRED.add(expired);
            dehydrator.finish(c"dehydrator.drop");
        }
        count as u64
    }

    /// Removes some of the expired elements, which the policy does not send. Returns how many.
    pub(super) fn drop_expired(&self, policy: &Policy) -> u64 {
        let Self { context, key, now, .. } = *self;
        let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
        if dehydrator.rules().policy != *policy || dehydrator.rules().is_paused(now) {
            return 0;
        }
        let mut removal = dehydrator.removal(None);
        let expired = removal.lawn().into_iter().flat_map(|lawn| lawn.expired(now)).take(BATCH);
        let ids: Vec<_> = expired.map(|row| row.element.id.to_vec()).collect();
        let count = ids.iter().filter(|id| removal.remove(id)).count() as u64;
        if removal.finish() {
            EXPIRED.add(count);
            dehydrator.finish(c"dehydrator.drop");
        }
        count
    }
}
