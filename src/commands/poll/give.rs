//! Giving out due elements: to the client that runs POLL, or to a blocked one.

use std::cell::Cell;

use crate::config::ReplyRoom;
use crate::data_type::{DEAD_LETTERS_MAX, Dehydrator, Ending, STUCK, Writing, is_stuck};
use crate::delivery::Origin;
use crate::metrics::counters::{POLLS, REDELIVERIES};
use crate::pending::blocked::Take;
use crate::policy::Policy;
use crate::replicate::Batch;
use crate::server::key::Name;
use crate::server::{Context, Str, random_bytes};
use lawn::{DEADLINE_MAX, Element, Lawn, Token};

/// A dead letter costs its group no turn. So many do, or a mass of them would keep the other groups waiting.
const DEAD_LETTERS_PER_TURN: u64 = 64;

/// A recipient of due elements.
pub(super) trait Recipient {
    /// Set if it looks at the lawn before each element is taken. Then elements are taken one by one.
    const LOOKS: bool = false;

    /// Looks at the lawn, from which the element whose turn it is at `now` is taken next.
    fn look(&mut self, _lawn: &mut Lawn, _now: u64) {}

    /// Receives an element, and the deadline at which it came due.
    fn give(&mut self, element: Element<'_>, deadline: u64);
}

/// A request for the due elements of a key at a time.
pub(super) struct Request<'a, 't> {
    pub context: &'a Context,
    pub key: Str<'a>,
    /// In milliseconds since the epoch.
    pub now: u64,
    pub take: &'t Take<'t>,
    room: Cell<ReplyRoom>,
}

impl<'a, 't> Request<'a, 't> {
    pub(super) fn new(context: &'a Context, key: Str<'a>, now: u64, take: &'t Take<'t>) -> Self {
        Self { context, key, now, take, room: Cell::new(ReplyRoom::new()) }
    }

    /// Returns whether so many elements of the lawn could be more than the reply has room for. Few and short ones cannot, and
    /// are not measured one by one.
    fn may_exceed_room(&self, lawn: &Lawn, count: usize) -> bool {
        let (count, longest) = (count.min(lawn.len()), lawn.longest());
        let size = longest.saturating_add(self.take.token_size());
        count > 1 && !self.room.get().takes_all(count, size)
    }

    /// Returns whether the reply has room for an element, and uses it up if so.
    fn has_room_for(&self, element: &Element<'_>) -> bool {
        let mut room = self.room.get();
        let has_room = room.takes(self.take.size(element));
        self.room.set(room);
        has_room
    }

    /// Takes or leases due elements, replicates that, and gives them to the recipient.
    pub(super) fn take_due(&self, dehydrator: Writing<'a>, to: &mut impl Recipient) {
        let Self { now, take, .. } = *self;
        let mut count = take.count;
        if !dehydrator.existing().is_none_or(Dehydrator::has_default_rules) {
            if dehydrator.rules().is_paused(now) {
                return;
            }
            count = count.min(dehydrator.room(now));
        }
        if dehydrator.existing().is_some_and(Dehydrator::may_have_dead) {
            return self.take_living(dehydrator, count, to);
        }
        // In turns, the order shows only as elements are taken.
        if let Some(lawn) = dehydrator.look().filter(|lawn| !lawn.has_groups())
            && self.may_exceed_room(lawn, count)
        {
            let due = lawn.iter_until(now).take(count);
            count = due.take_while(|(_, element)| self.has_room_for(element)).count();
        }
        self.take_first(dehydrator, count, None, to);
    }

    /// Like [`Self::take_due`], where elements may be exhausted or expired. Those ahead of the taken elements are moved to their
    /// destination, or dropped, a few at a time.
    fn take_living(&self, mut dehydrator: Writing<'a>, count: usize, to: &mut impl Recipient) {
        let Self { context, key, now, .. } = *self;
        // The usual case: one element is requested, and the first is no dead letter.
        if count == 1 {
            let first = dehydrator.lawn().and_then(|lawn| {
                lawn.settle_first();
                // Without groups the first of all is next.
                let next = match lawn.has_groups() {
                    true => lawn.next_in_turn(now)?.element,
                    false => lawn.first()?,
                };
                (next.deadline <= now).then(|| next.without_bytes())
            });
            if first.is_some_and(|first| !dehydrator.rules().policy.is_dead(&first, now)) {
                self.take_first(dehydrator, count, None, to);
                return;
            }
        }
        let (mut left, mut dead) = (count, 0);
        loop {
            left = left.min(dehydrator.room(now));
            let policy = dehydrator.rules().policy.clone();
            if dehydrator.rules().is_paused(now) {
                return;
            }
            let Some(lawn) = dehydrator.lawn() else { return };
            let meets_dead = if lawn.has_groups() {
                let (taken, meets_dead) = self.take_first(dehydrator, left, Some(&policy), to);
                left -= taken;
                meets_dead
            } else {
                let mut due = lawn.iter_until(now).take(left);
                let mut count = 0;
                let mut is_full = false;
                let stops_at = due.find(|(_, element)| {
                    let is_dead = policy.is_dead(element, now);
                    is_full = !is_dead && !self.has_room_for(element);
                    count += usize::from(!is_dead && !is_full);
                    is_dead || is_full
                });
                let meets_dead = stops_at.is_some() && !is_full;
                left -= count;
                if count > 0 {
                    self.take_first(dehydrator, count, None, to);
                } else {
                    drop(dehydrator);
                }
                meets_dead
            };
            if !meets_dead || dead >= DEAD_LETTERS_MAX as u64 {
                return;
            }
            // Events call out, and so do moves, so everything is read again.
            let name = &Name::of(context, key);
            let origin = Origin { context, name, key, now, until_us: u64::MAX };
            let gone = origin.move_dead_letters(&policy);
            let Ok(again) = Writing::open_at(context, key, now) else { return };
            if gone == 0 {
                return;
            }
            dehydrator = again;
            let turns = dead / DEAD_LETTERS_PER_TURN;
            dead += gone;
            if dead / DEAD_LETTERS_PER_TURN > turns
                && let Some(lawn) = dehydrator.lawn()
            {
                lawn.pass_turn(now);
            }
        }
    }

    /// Takes or leases up to `count` due elements in their turns, replicates that, and gives them to the recipient. `policy`:
    /// stops before an element that is dead under it; without one, none of them is. Returns how many it took, and whether
    /// such an element is next.
    fn take_first<R: Recipient>(
        &self,
        mut dehydrator: Writing<'_>,
        count: usize,
        policy: Option<&Policy>,
        to: &mut R,
    ) -> (usize, bool) {
        let Self { context, key, now, take, .. } = *self;
        let is_measured = |lawn: &Lawn| lawn.has_groups() && self.may_exceed_room(lawn, count);
        let is_measured = dehydrator.look().is_some_and(is_measured);
        // Returns whether the next element is dead, and whether it stays for that, or as there is no room for it.
        let stops = |lawn: &Lawn| {
            let next = || lawn.next_in_turn(now);
            let Some(next) = (is_measured || policy.is_some()).then(next).flatten() else {
                return (false, false);
            };
            let is_dead = policy.is_some_and(|it| it.is_dead(&next.element, now));
            (is_dead, is_dead || (is_measured && !self.has_room_for(&next.element)))
        };
        let (mut meets_dead, mut is_over);
        meets_dead = false;
        let lease = take.lease.zip(take.token);
        let (mut polled, mut redelivered) = (0, 0);
        let replicated;
        if let Some((ttl, token)) = lease {
            let deadline = now.saturating_add(ttl).min(DEADLINE_MAX);
            let mut leased = Batch::leased(context, key, ttl, deadline, token);
            if let Some(lawn) = dehydrator.lawn() {
                let before = lawn.leased();
                while polled < count {
                    (meets_dead, is_over) = stops(lawn);
                    if is_over {
                        break;
                    }
                    to.look(lawn, now);
                    let Some((deadline, element)) = lawn.lease_due(now, ttl, Some(token)) else {
                        break;
                    };
                    polled += 1;
                    to.give(element, deadline);
                    leased.push(element.id);
                }
                // An element still held under another token counts as leased before and after.
                redelivered = polled - (lawn.leased() - before);
            }
            replicated = leased.finish();
        } else {
            let until = dehydrator.remembers_until();
            let mut removed = Batch::settled(context, key, until);
            if let Some(mut removal) = dehydrator.removal(until) {
                let before = removal.lawn.leased();
                let run = if R::LOOKS || policy.is_some() || is_measured { 1 } else { count };
                while polled < count {
                    (meets_dead, is_over) = stops(removal.lawn);
                    if is_over {
                        break;
                    }
                    to.look(removal.lawn, now);
                    let drained = removal.drain(now, run, |_, element| {
                        to.give(element, element.deadline);
                        removed.push(element.id);
                    });
                    polled += drained;
                    if drained < run {
                        break;
                    }
                }
                redelivered = before - removal.lawn.leased();
            }
            replicated = removed.finish();
        }
        POLLS.add(polled as u64);
        REDELIVERIES.add(redelivered as u64);
        if !replicated {
            return (0, meets_dead);
        }
        // The effect that takes or leases the elements is replicated before.
        if polled > 0 {
            dehydrator.replicate_given(now, polled as u64);
        }
        let ending = if lease.is_some() { Ending::Changed } else { Ending::Shrunk };
        dehydrator.finish(ending, c"dehydrator.poll");
        (polled, meets_dead)
    }
}

/// Returns the elements that the client already holds under its chosen token, because its reply was lost.
pub(super) fn held<'a>(
    lawn: &'a Lawn,
    take: &Take<'_>,
    now: u64,
) -> impl Iterator<Item = Element<'a>> + use<'a> {
    let token = take.chosen_token();
    // A stuck dead letter is not given out again, though its token can settle it. Those come last.
    let is_stuck = |element: &Element<'_>| {
        element.deadline == STUCK && lawn.row(element.id).is_some_and(|row| is_stuck(&row))
    };
    let held = token.into_iter().flat_map(move |token| lawn.held(token, now));
    let (mut room, token_size) = (ReplyRoom::new(), take.token_size());
    let fits = move |element: &Element<'_>| room.takes(size(element) + token_size);
    held.take_while(move |element| !is_stuck(element)).take(take.count).take_while(fits)
}

/// Returns the bytes of an element in a reply.
fn size(element: &Element<'_>) -> usize {
    element.id.len() + element.payload.len()
}

impl Take<'_> {
    /// Returns the bytes of an element in the reply.
    fn size(&self, element: &Element<'_>) -> usize {
        size(element) + self.token_size()
    }

    /// Returns the bytes of the token that is replied with each element, if the client has chosen it.
    fn token_size(&self) -> usize {
        self.word.map_or(0, <[u8]>::len)
    }

    /// Draws a random token for a lease, if the client has not chosen one.
    pub(super) fn draw_token(&mut self) {
        if self.lease.is_some() && self.token.is_none() {
            self.token = Some(Token::drawn(u64::from_le_bytes(random_bytes())));
        }
    }
}
