//! Dead letters. Under a limit of deliveries, a due element that was given out that often is exhausted. It is moved when
//! it becomes the first in the order of delivery. Finding it there takes one look at the first element, and no index of
//! exhausted elements. Both POLL and a visit may find it first. Either one moves it, in the same transaction as its other
//! effects: no client is given the element, and no client waits for the move.
//!
//! A dead letter that cannot be moved (its stream's key has another type, memory has run out) must not block the
//! elements after it. It is *stuck*: parked once, as by TOUCH, at a deadline that no clock reaches, and retried from
//! there. The retries are not replicated. So the first element in the order can always be given out or moved, and no scan
//! passes over stuck elements, however many there are.

use std::cell::Cell;

use super::send::{BATCH, batch_of, conclude, deliver, send};
use crate::data_type::{
    DEAD_LETTERS_MAX, Dehydrator, ElementCopy, REJECTED, STUCK, Writing, inspect, is_dead,
};
use crate::metrics::counters::DEAD_LETTERS;
use crate::pending::agenda;
use crate::policy::Policy;
use crate::replicate;
use crate::server::key::Name;
use crate::server::{Context, Str};
use lawn::{Lawn, Token};

/// Moves some of the first dead letters to their destination, or parks them if they cannot be moved. Returns how many
/// were moved or parked. `until_us`: when it stops, on the monotonic clock, in microseconds.
pub fn move_dead_letters(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    until_us: u64,
) -> u64 {
    // A listener may call POLL while elements are moved: they are still in the lawn then.
    let Some(_guard) = MovingDeadLetters::begin() else { return 0 };
    let name = Name::of(context, key);
    // After a recent failure, nothing is tried for each further element that comes due.
    if agenda::is_backing_off(&name) {
        return park(context, key, policy, now);
    }
    let (moved, result) = deliver(context, key, policy, now, until_us);
    let wait = conclude(context, &name, &DEAD_LETTERS, moved, result);
    moved + wait.map_or(0, |_| park(context, key, policy, now))
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

/// Retries some of the stuck dead letters, until `until_us`. If the policy has changed and an element is no longer a dead
/// letter, it is given back: it is due. Returns when to retry the rest, in microseconds from now. `None`: none is left.
pub(super) fn retry(
    context: &Context,
    name: &Name,
    key: Str<'_>,
    now: u64,
    until_us: u64,
) -> Option<u64> {
    let Some(_guard) = MovingDeadLetters::begin() else { return Some(0) };
    let policy = inspect(context, key, |dehydrator| dehydrator.rules().policy.clone())?;
    give_back_stuck(context, key, &policy, now);
    let first = |dehydrator: &Dehydrator| {
        dehydrator.look_for_stuck();
        let dead = dehydrator.stuck().take_while(|row| is_dead(row, &policy));
        batch_of(dead.map(|row| ElementCopy::new(row.element, row.ttl, None)))
    };
    let batch = inspect(context, key, first)?;
    let (moved, result) = send(context, key, &policy, batch, now, until_us);
    let wait = conclude(context, name, &DEAD_LETTERS, moved.len() as u64, result);
    let is_left = |dehydrator: &Dehydrator| {
        dehydrator.look_for_stuck();
        dehydrator.tracking.has_stuck()
    };
    wait.or_else(|| inspect(context, key, is_left)?.then_some(0))
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
            let (sent, result) = send(context, key, policy, batch, now, u64::MAX);
            conclude(context, &name, &DEAD_LETTERS, sent.len() as u64, result);
            // `sent` is in the order of `held`, but some of `held` may be missing.
            let mut sent = sent.iter().peekable();
            for ((token, id), is_rejected) in held.iter().zip(&mut rejected).take(next).skip(first)
            {
                let is_it = |copy: &&ElementCopy| {
                    copy.token == Some(*token) && copy.id.bytes() == id.bytes()
                };
                *is_rejected = sent.next_if(is_it).is_some();
            }
        }
        park_rejected(context, key, policy, now, &held[first..next], &mut rejected[first..]);
    }
    rejected
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
    if dehydrator.rules().policy != *policy {
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

/// Copies the first of the listed elements that are held, starting at `next`. Moves `next` past the last one checked.
fn batch_of_held(lawn: &Lawn, held: &[(Token, Str<'_>)], next: &mut usize) -> Vec<ElementCopy> {
    // An id may be listed twice.
    let mut ids = Vec::new();
    let (held, at) = (&held[*next..], next);
    batch_of(held.iter().filter_map(|(token, id)| {
        *at += 1;
        let id = id.bytes();
        let is_new = lawn.holds(id, *token) && !ids.contains(&id);
        let row = is_new.then(|| lawn.row(id)).flatten()?;
        ids.push(id);
        Some(ElementCopy::new(row.element, row.ttl, Some(*token)))
    }))
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
