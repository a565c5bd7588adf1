//! Moving due elements and dead letters to the destination of a policy.
//!
//! ```text
//!   background::delivery ────────▶ deliver ───────────┐
//!   background::delivery, POLL ──▶ move_dead_letters ─┤
//!   background::delivery ────────▶ retry ─────────────┼──▶ send: XADD or PUBLISH for each, RPUSH for all; then REM
//!   REJECT ──────────────────────▶ reject ────────────┘
//! ```
//!
//! A server command publishes events, and a listener may change anything. So each element is checked again before it is
//! sent, and no key is open meanwhile.
//!
//! Sent elements are removed, or the process ends: a panic in between would leave them in both places.
//!
//! *Dead letters.* Under a limit of deliveries, a due element that was given out that often is exhausted. It is moved
//! when it becomes the first in the order of delivery. Finding it there takes one look at the first element, and no index
//! of exhausted elements. Both POLL and delivery may find it first. Either one moves it, in the same transaction as its
//! other effects: no client is given the element, and no client waits for the move.
//!
//! A dead letter that cannot be moved (its stream's key has another type, memory has run out) must not block the
//! elements after it. It is *stuck*: parked once, as by TOUCH, at a deadline that no clock reaches, and retried from
//! there. The retries are not replicated. So the first element in the order can always be given out or moved, and no scan
//! passes over stuck elements, however many there are.

mod batch;
mod send_command;

use std::cell::{Cell, OnceCell};

use self::batch::{BATCH, batch_of, batch_of_held};
use self::send_command::SendCommand;
use crate::clock;
use crate::data_type::{
    DEAD_LETTERS_MAX, Dehydrator, ElementCopy, REJECTED, STUCK, Writing, inspect, is_dead,
};
use crate::metrics::counters::{self, DEAD_LETTERS, RETRIES};
use crate::pending::agenda;
use crate::policy::{Policy, Route};
use crate::replicate::{self, Batch};
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::key::Name;
use crate::server::{Context, Str, log_warning};
use lawn::{Lawn, Token};

/// The reason when elements are not dropped or published because clients may not write.
pub const REFUSED: &str = "the server refuses writes now (NOREPLICAS, MISCONF)";

/// The reason when nothing is sent while the slot is imported from another node: the stream or the list may not have
/// arrived yet, and could no longer arrive if a new one was created.
const IMPORTING: &str = "the slot is being moved to this node";

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    /// A context without a client: the client whose command runs may have sent ASKING.
    static DETACHED: OnceCell<Context> = const { OnceCell::new() };
}

/// Returns whether this node is importing the slot of a key.
fn is_importing(context: &Context, key: Str<'_>) -> bool {
    context.is_cluster()
        && DETACHED.with(|detached| !detached.get_or_init(|| context.detached()).serves(key))
}

/// The reason when nothing is sent by a policy that came by RESTORE.
const UNCONFIRMED: &str = "the policy came by RESTORE: send it again by ONDUE to confirm it";

/// Moves some of the first due elements to the destination of the policy, while `go_on` returns true. Returns how many
/// were moved, and the error if one could not be.
pub fn deliver(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    go_on: impl FnMut() -> bool,
) -> (u64, Result<(), String>) {
    if policy.route() == Some(&Route::Drop) {
        // Dropped in one batch, without copies.
        if context.lets_clients_write(key) {
            return (drop_due(context, key, policy, now), Ok(()));
        }
        return (0, Err(REFUSED.to_owned()));
    }
    // Copied, because the commands that follow publish events, and a listener may change anything.
    let collect = |dehydrator: &Dehydrator| {
        let due = dehydrator.lawn.iter_until(now).take(dehydrator.deliverable(now));
        let due = due.take_while(|(_, element)| policy.routes(element.deliveries));
        batch_of(due.map(|(ttl, element)| ElementCopy::new(element, ttl, None)))
    };
    let batch = inspect(context, key, collect).unwrap_or_default();
    let (sent, result) = send(context, key, policy, batch, now, go_on);
    (sent.len() as u64, result)
}

/// Sends copies of elements to the destination of the policy, and removes the sent ones. Returns those, and the error if
/// one could not be sent.
fn send(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    batch: Vec<ElementCopy>,
    now: u64,
    mut go_on: impl FnMut() -> bool,
) -> (Vec<ElementCopy>, Result<(), String>) {
    let Some(route) = policy.route().filter(|_| !batch.is_empty()) else {
        return (Vec::new(), Ok(()));
    };
    let mut command = SendCommand::of(route, policy.is_limit());
    // XADD and RPUSH check themselves whether clients may write.
    let refusal = match command.adds {
        true if context.is_out_of_memory() => Some("OOM used memory > 'maxmemory'"),
        true if is_importing(context, key) => Some(IMPORTING),
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
            && copy.is_in(&dehydrator.lawn)
            && copy.has_same_payload(&dehydrator.lawn)
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
        if !go_on() {
            break;
        }
    }
    remove(context, key, policy, &sent);
    drop(whole);
    (sent, result)
}

/// Moves some of the first dead letters to their destination, or parks them if they cannot be moved. Returns how many
/// were moved or parked.
pub fn move_dead_letters(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    go_on: impl FnMut() -> bool,
) -> u64 {
    // A listener may call POLL while elements are moved: they are still in the lawn then.
    let Some(_guard) = MovingDeadLetters::begin() else { return 0 };
    let name = Name::of(context, key);
    // After a recent failure, nothing is tried for each further element that comes due.
    if agenda::is_backing_off(&name) {
        return park(context, key, policy, now);
    }
    let (moved, result) = deliver(context, key, policy, now, go_on);
    counters::count(&DEAD_LETTERS, moved);
    let Err(reason) = result else {
        if moved > 0 {
            agenda::succeeded(context, &name);
        }
        return moved;
    };
    failed(&name, &reason);
    moved + park(context, key, policy, now)
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static IS_MOVING: Cell<bool> = const { Cell::new(false) };
}

/// Marks that dead letters are being moved, until it is dropped.
struct MovingDeadLetters;

impl MovingDeadLetters {
    /// Sets the mark. `None`: it is set already.
    fn begin() -> Option<Self> {
        (!IS_MOVING.replace(true)).then_some(Self)
    }
}

impl Drop for MovingDeadLetters {
    fn drop(&mut self) {
        IS_MOVING.set(false);
    }
}

/// Records a failed delivery, and logs the first. Returns the wait before the next try, in microseconds.
pub fn failed(name: &Name, reason: &str) -> u64 {
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

/// Parks some of the first dead letters behind all other elements until they can be moved. Replicated once, however
/// often they are retried. Returns how many were parked.
fn park(context: &Context, key: Str<'_>, policy: &Policy, now: u64) -> u64 {
    restart_each(context, key, policy, now, &[(STUCK, STUCK)], |lawn| {
        let due = lawn.iter_until(now);
        let dead = due.take_while(|(_, element)| policy.routes(element.deliveries)).take(BATCH);
        dead.map(|(_, element)| element.id.to_vec()).collect()
    })
}

/// Restarts elements with these TTLs and deadlines, one after the other, if the policy is still this one. `choose` returns
/// the ids. Returns how many there are.
fn restart_each(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    timers: &[(u64, u64)],
    choose: impl FnOnce(&mut Lawn) -> Vec<Vec<u8>>,
) -> u64 {
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
    if dehydrator.policy() != policy {
        return 0;
    }
    let Some(lawn) = dehydrator.lawn() else { return 0 };
    let ids = choose(lawn);
    for id in &ids {
        for (ttl, deadline) in timers {
            if lawn.restart_at(id, *ttl, *deadline) {
                replicate::touched(context, key, id, *ttl, *deadline);
            }
        }
    }
    if !ids.is_empty() {
        timers.iter().for_each(|(ttl, deadline)| dehydrator.note_timer(*ttl, *deadline));
        dehydrator.changed(c"dehydrator.touch");
    }
    ids.len() as u64
}

/// The result of retrying stuck dead letters.
pub enum Retried {
    /// None is left.
    All,
    /// There are more of them.
    Some,
    /// They cannot be moved yet, for this reason.
    Fails(String),
}

/// Retries some of the stuck dead letters. If the policy has changed and an element is no longer a dead letter, it is
/// given back: it is due.
pub fn retry(context: &Context, key: Str<'_>, now: u64, go_on: impl FnMut() -> bool) -> Retried {
    let Some(_guard) = MovingDeadLetters::begin() else { return Retried::Some };
    let policy = inspect(context, key, |dehydrator| dehydrator.rules().policy.clone());
    let policy = policy.unwrap_or_default();
    give_back_stuck(context, key, &policy, now);
    let first = |dehydrator: &Dehydrator| {
        dehydrator.look_for_stuck();
        let dead = dehydrator.stuck().take_while(|row| is_dead(row, &policy));
        batch_of(dead.map(|row| ElementCopy::new(row.element, row.ttl, None)))
    };
    let batch = inspect(context, key, first).unwrap_or_default();
    let (moved, result) = send(context, key, &policy, batch, now, go_on);
    let moved = moved.len() as u64;
    counters::count(&DEAD_LETTERS, moved);
    if moved > 0 {
        agenda::succeeded(context, &Name::of(context, key));
    }
    if let Err(reason) = result {
        return Retried::Fails(reason);
    }
    let is_left = inspect(context, key, |dehydrator| {
        dehydrator.look_for_stuck();
        dehydrator.tracking().has_stuck()
    });
    if is_left == Some(true) { Retried::Some } else { Retried::All }
}

/// Gives back some of the stuck elements that are no dead letters under this policy.
fn give_back_stuck(context: &Context, key: Str<'_>, policy: &Policy, now: u64) {
    let alive = inspect(context, key, |dehydrator| {
        let first = dehydrator.stuck().take(DEAD_LETTERS_MAX);
        let alive = first.filter(|row| !is_dead(row, policy)).take(BATCH);
        alive.map(|row| row.element.id.to_vec()).collect::<Vec<_>>()
    });
    if let Some(alive) = alive.filter(|ids| !ids.is_empty()) {
        // As RENEW with a ttl of 0.
        restart_each(context, key, policy, now, &[(0, now)], |_| alive);
    }
}

/// Moves held elements to the destination of dead letters, whatever their delivery counts, or parks them if they cannot be
/// moved. Returns for each whether it was held under its token, and so is a dead letter now.
pub fn reject(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    held: &[(Token, Str<'_>)],
    now: u64,
) -> Vec<bool> {
    let guard = MovingDeadLetters::begin();
    let name = Name::of(context, key);
    let mut rejected = vec![false; held.len()];
    let mut next = 0;
    while next < held.len() {
        let first = next;
        let batch =
            inspect(context, key, |dehydrator| batch_of_held(&dehydrator.lawn, held, &mut next));
        let Some(batch) = batch else { break };
        // A listener may call REJECT while elements are sent. Those are parked, as after a recent failure.
        if guard.is_some() && !agenda::is_backing_off(&name) {
            let (sent, result) = send(context, key, policy, batch, now, || true);
            counters::count(&DEAD_LETTERS, sent.len() as u64);
            match result {
                Err(reason) => _ = failed(&name, &reason),
                Ok(()) if !sent.is_empty() => agenda::succeeded(context, &name),
                Ok(()) => {}
            }
            // `sent` is in the order of `held`, but some of `held` may be missing.
            let mut sent = sent.iter().peekable();
            for ((token, id), is_rejected) in held.iter().zip(&mut rejected).take(next).skip(first)
            {
                let is_it =
                    |copy: &&ElementCopy| copy.token == Some(*token) && copy.id() == id.bytes();
                *is_rejected = sent.next_if(is_it).is_some();
            }
        }
        park_rejected(context, key, policy, now, &held[first..next], &mut rejected[first..]);
    }
    rejected
}

/// Parks the elements that are still held among the stuck dead letters.
fn park_rejected(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    held: &[(Token, Str<'_>)],
    rejected: &mut [bool],
) {
    // The first timer ends the lease.
    let timers = [(0, now), (REJECTED, STUCK)];
    restart_each(context, key, policy, now, &timers, |lawn| {
        let mut ids = Vec::<Vec<u8>>::new();
        for ((token, id), is_rejected) in held.iter().zip(rejected) {
            // An id that is listed twice is rejected once.
            if lawn.holds(id.bytes(), *token) && !ids.iter().any(|other| other == id.bytes()) {
                *is_rejected = true;
                ids.push(id.bytes().to_vec());
            }
        }
        ids
    });
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
            let is_there = copy.is_in(removal.lawn) || copy.is_rejected(removal.lawn);
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
    if dehydrator.policy() != policy || dehydrator.is_paused(now) {
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
