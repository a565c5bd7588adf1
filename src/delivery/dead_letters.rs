//! Dead letters. A due element is *dead* if it is exhausted: it was given out as often as a limit of deliveries or its own
//! bound allows; or if it is *expired*: too late to be given out. Without a limit, expired elements are dropped.
//!
//! An exhausted element is moved when it becomes the first in the order of delivery. Finding it there takes one look at the
//! first element, and no index of exhausted elements. Both POLL and a visit may find it first. Either one moves it, in the same transaction as its other
//! effects: no client is given the element, and no client waits for the move.
//!
//! A dead letter that cannot be moved (its stream's key has another type, memory has run out) must not block the
//! elements after it. It is *stuck*: parked once, as by TOUCH, at a deadline that no clock reaches, and retried from
//! there. The retries are not replicated. So the first element in the order can always be given out or moved, and no scan
//! passes over stuck elements, however many there are.

use std::cell::Cell;

use super::send::{BATCH, Origin, batch_of};
use crate::data_type::{
    DEAD_LETTERS_MAX, Dehydrator, ElementCopy, REJECTED, STUCK, Writing, inspect, stays_dead,
};
use crate::pending::agenda;
use crate::policy::Policy;
use crate::replicate::Timer;
use crate::server::{OwnedStr, Str};
use lawn::{Lawn, Token};

/// An element, and the token under which it is held.
type Held<'a> = (Token, Str<'a>);

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

impl Origin<'_> {
    /// Moves some of the first dead letters to their destination, or parks them if they cannot be moved. Returns how many
    /// were moved or parked.
    pub fn move_dead_letters(&self, policy: &Policy) -> u64 {
        // A listener may call POLL while elements are moved: they are still in the lawn then.
        let Some(_guard) = MovingDeadLetters::begin() else { return 0 };
        if !policy.limits_deliveries() {
            return self.drop_expired(policy);
        }
        self.move_or_park(policy, |lawn| {
            let due = lawn.due_in_turn(self.now);
            let dead = due.take_while(|row| policy.is_dead(&row.element, self.now));
            batch_of(dead.map(|row| ElementCopy::of(lawn, row)))
        })
    }

    /// Moves some of the expired elements, or drops them if the policy has no limit. Those that cannot be moved are parked.
    pub(super) fn expire(&self, policy: &Policy) {
        let Some(_guard) = MovingDeadLetters::begin() else { return };
        let moved = if policy.limits_deliveries() {
            self.move_or_park(policy, |lawn| {
                batch_of(lawn.expired(self.now).map(|row| ElementCopy::of(lawn, row)))
            })
        } else {
            self.drop_expired(policy)
        };
        if moved >= BATCH as u64 {
            self.pass_turn(policy);
        }
    }

    /// Lets the next group give, if the one whose turn it is has a dead letter first: it may have a mass of them.
    fn pass_turn(&self, policy: &Policy) {
        let Self { context, key, now, .. } = *self;
        let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return };
        if let Some(next) = dehydrator.lawn().and_then(|lawn| lawn.next_due(now))
            && policy.is_dead(&next.row().element, now)
        {
            next.pass();
        }
    }

    /// Moves the dead letters that `choose` copies, and parks those that cannot be moved, behind all other elements.
    /// Parking is replicated once, however often they are retried. Returns how many were moved or parked.
    fn move_or_park(&self, policy: &Policy, choose: impl Fn(&Lawn) -> Vec<ElementCopy>) -> u64 {
        let Self { context, key, name, .. } = *self;
        let mut moved = 0;
        // After a recent failure, nothing is tried for each further element that comes due.
        if !agenda::is_backing_off(name) {
            let batch = inspect(context, key, |dehydrator| choose(&dehydrator.lawn));
            let (sent, wait) = self.send(policy, batch.unwrap_or_default());
            moved = sent.len() as u64;
            if wait.is_none() {
                return moved;
            }
        }
        let ids = |lawn: &mut Lawn| choose(lawn).iter().map(|it| it.id.bytes().to_vec()).collect();
        moved + self.restart_each(policy, &[(STUCK, STUCK)], None, ids)
    }

    /// Retries some of the stuck dead letters. If the policy has changed and an element is no longer a dead letter, it is
    /// given back: it is due. Returns when to retry the rest, in microseconds from now. `None`: none is left.
    pub(super) fn retry(&self) -> Option<u64> {
        let Self { context, key, .. } = *self;
        let Some(_guard) = MovingDeadLetters::begin() else { return Some(0) };
        let policy = inspect(context, key, |dehydrator| dehydrator.rules().policy.clone())?;
        self.give_back_stuck(&policy);
        let first = |dehydrator: &Dehydrator| {
            dehydrator.look_for_stuck();
            let dead = dehydrator.stuck().take_while(|row| stays_dead(row, &policy, self.now));
            batch_of(dead.map(|row| ElementCopy::of(&dehydrator.lawn, row)))
        };
        let batch = inspect(context, key, first)?;
        let (_, wait) = self.send(&policy, batch);
        let is_left = |dehydrator: &Dehydrator| {
            dehydrator.look_for_stuck();
            dehydrator.tracking.has_stuck()
        };
        wait.or_else(|| inspect(context, key, is_left)?.then_some(0))
    }

    /// Gives back some of the stuck elements that are no dead letters under this policy.
    fn give_back_stuck(&self, policy: &Policy) {
        let alive = inspect(self.context, self.key, |dehydrator| {
            let first = dehydrator.stuck().take(DEAD_LETTERS_MAX);
            let alive = first.filter(|row| !stays_dead(row, policy, self.now)).take(BATCH);
            alive.map(|row| row.element.id.to_vec()).collect::<Vec<_>>()
        });
        if let Some(alive) = alive.filter(|ids| !ids.is_empty()) {
            // As RENEW with a ttl of 0.
            self.restart_each(policy, &[(0, self.now)], None, |_| alive);
        }
    }

    /// Moves held elements to the destination of dead letters, whatever their delivery counts, or parks them if they cannot
    /// be moved. Their `reason`, if there is one, goes or stays with them. Returns for each whether it was held under its token, and
    /// so is a dead letter now.
    pub fn reject(&self, policy: &Policy, held: &[Held<'_>], reason: Option<&[u8]>) -> Vec<bool> {
        let guard = MovingDeadLetters::begin();
        let mut rejected = vec![false; held.len()];
        let mut next = 0;
        while next < held.len() {
            let first = next;
            let batch = inspect(self.context, self.key, |dehydrator| {
                batch_of_held(&dehydrator.lawn, held, &mut next)
            });
            let Some(mut batch) = batch else { break };
            if let Some(reason) = reason {
                batch.iter_mut().for_each(|copy| copy.reason = Some(OwnedStr::new(reason)));
            }
            // A listener may call REJECT while elements are sent. Those are parked, as after a recent failure.
            if guard.is_some() && !agenda::is_backing_off(self.name) {
                let (sent, _) = self.send(policy, batch);
                // `sent` is in the order of `held`, but some of `held` may be missing.
                let mut sent = sent.iter().peekable();
                let tried = held.iter().zip(&mut rejected).take(next).skip(first);
                for ((token, id), is_rejected) in tried {
                    let is_it = |copy: &&ElementCopy| {
                        copy.token == Some(*token) && copy.id.bytes() == id.bytes()
                    };
                    *is_rejected = sent.next_if(is_it).is_some();
                }
            }
            self.park_rejected(policy, &held[first..next], &mut rejected[first..], reason);
        }
        rejected
    }

    /// Parks the elements that are still held among the stuck dead letters.
    fn park_rejected(
        &self,
        policy: &Policy,
        held: &[Held<'_>],
        rejected: &mut [bool],
        reason: Option<&[u8]>,
    ) {
        // The first timer ends the lease.
        let timers = [(0, self.now), (REJECTED, STUCK)];
        self.restart_each(policy, &timers, reason, |lawn| {
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

    /// Restarts elements with these TTLs and deadlines, one after the other, and keeps the reason with them, if the policy is still
    /// this one. `choose` returns the ids. Returns how many there are.
    fn restart_each(
        &self,
        policy: &Policy,
        timers: &[(u64, u64)],
        reason: Option<&[u8]>,
        choose: impl FnOnce(&mut Lawn) -> Vec<Vec<u8>>,
    ) -> u64 {
        let Self { context, key, now, .. } = *self;
        let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
        if dehydrator.rules().policy != *policy {
            return 0;
        }
        let Some(lawn) = dehydrator.lawn() else { return 0 };
        let ids = choose(lawn);
        let mut restarts = dehydrator.restarts();
        for id in &ids {
            for (ttl, deadline) in timers {
                restarts.restart(id, Timer { ttl: *ttl, deadline: *deadline }, None);
            }
            if let Some(reason) = reason {
                restarts.keep_reason(id, reason);
            }
        }
        if restarts.finish() {
            dehydrator.finish(c"dehydrator.touch");
        }
        ids.len() as u64
    }
}

/// Copies the first of the listed elements that are held, starting at `next`. Moves `next` past the last one checked.
fn batch_of_held(lawn: &Lawn, held: &[Held<'_>], next: &mut usize) -> Vec<ElementCopy> {
    // An id may be listed twice.
    let mut ids = Vec::new();
    let (held, at) = (&held[*next..], next);
    batch_of(held.iter().filter_map(|(token, id)| {
        *at += 1;
        let id = id.bytes();
        let is_new = lawn.holds(id, *token) && !ids.contains(&id);
        let row = is_new.then(|| lawn.row(id)).flatten()?;
        ids.push(id);
        Some(ElementCopy { token: Some(*token), ..ElementCopy::of(lawn, row) })
    }))
}
