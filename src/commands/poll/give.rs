//! Giving out due elements: to the client that runs POLL, or to a blocked one.

use std::cell::Cell;

use crate::config::ReplyRoom;
use crate::data_type::{DEAD_LETTERS_MAX, Dehydrator, Removal, STUCK, Writing, is_stuck};
use crate::delivery::Origin;
use crate::metrics::counters::{POLLS, REDELIVERIES};
use crate::pending::blocked::Take;
use crate::policy::Policy;
use crate::replicate::Batch;
use crate::server::key::Name;
use crate::server::{Context, Str, random_bytes};
use lawn::{DEADLINE_MAX, Element, Lawn, Next, Row, Token};

/// Moving a dead letter does not use up its group's turn, but after this many of them the next group's turn begins.
const DEAD_LETTERS_PER_TURN: u64 = 64;

/// A recipient of due elements.
pub(super) trait Recipient {
    /// Set if it keeps copies of the elements as they were before. Then they are taken one by one.
    const COPIES: bool = false;

    /// Copies the element that is taken next: it is decided, and taking it cannot fail.
    fn copy(&mut self, _next: &Next<'_>, _row: Row<'_>) {}

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

    /// Takes or leases due elements, replicates that, and gives them to the recipient.
    pub(super) fn take_due(&self, mut dehydrator: Writing<'a>, to: &mut impl Recipient) {
        let Self { now, take, .. } = *self;
        let mut count = take.count;
        if dehydrator.look().and_then(Lawn::groups).is_some_and(|groups| groups.is_behind(now))
            && let Some(mut groups) = dehydrator.lawn().and_then(Lawn::groups_mut)
        {
            groups.step_back(now);
        }
        if !dehydrator.existing().is_none_or(Dehydrator::is_plain) {
            if dehydrator.rules().is_paused(now) {
                return;
            }
            count = count.min(dehydrator.room(now));
        }
        if dehydrator.existing().is_some_and(Dehydrator::may_have_dead) {
            return self.take_living(dehydrator, count, to);
        }
        self.take_first(dehydrator, count, None, to);
    }

    /// Like [`Self::take_due`], where elements may be exhausted or expired. Those ahead of the taken elements are moved to their
    /// destination, or dropped, a few at a time.
    fn take_living(&self, mut dehydrator: Writing<'a>, count: usize, to: &mut impl Recipient) {
        let Self { context, key, now, .. } = *self;
        let (mut left, mut dead) = (count, 0);
        loop {
            left = left.min(dehydrator.room(now));
            let policy = dehydrator.rules().policy.clone();
            if dehydrator.rules().is_paused(now) {
                return;
            }
            let (taken, meets_dead) = self.take_first(dehydrator, left, Some(&policy), to);
            left -= taken;
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
                lawn.next_due(now).into_iter().for_each(Next::pass);
            }
        }
    }

    /// Returns whether an element is taken, and copies it if so. If not, it is dead, which `meets_dead` then says, or the reply has
    /// no room for it.
    fn takes<R: Recipient>(
        &self,
        next: &Next<'_>,
        policy: Option<&Policy>,
        meets_dead: &mut bool,
        to: &mut R,
    ) -> bool {
        let row = next.row();
        *meets_dead = policy.is_some_and(|it| it.is_dead(&row.element, self.now));
        let mut room = self.room.get();
        let takes = !*meets_dead && room.takes(size(&row.element) + self.take.token_size());
        if takes {
            self.room.set(room);
            to.copy(next, row);
        }
        takes
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
        let mut meets_dead = false;
        // Each element is decided by itself: it may be dead, be copied, or be too long for the reply.
        let is_decided = R::COPIES
            || policy.is_some()
            || dehydrator.look().is_some_and(|lawn| self.may_exceed_room(lawn, count));
        let lease = take.lease.zip(take.token);
        let (mut polled, mut redelivered) = (0, 0);
        let replicated;
        if let Some((ttl, token)) = lease {
            let deadline = now.saturating_add(ttl).min(DEADLINE_MAX);
            let mut leased = Batch::leased(context, key, ttl, deadline, token);
            if let Some(lawn) = dehydrator.lawn() {
                let before = lawn.leased();
                while polled < count {
                    let (element, deadline) = if is_decided {
                        let next = lawn.next_due(now);
                        let takes = |it: &Next<'_>| self.takes(it, policy, &mut meets_dead, to);
                        let Some(next) = next.filter(takes) else { break };
                        let deadline = next.row().element.deadline;
                        (next.lease(ttl, Some(token)), deadline)
                    } else {
                        let leased = lawn.lease_due(now, ttl, Some(token));
                        let Some((deadline, element)) = leased else { break };
                        (element, deadline)
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
            let mut removal = dehydrator.removal(until);
            let leased = |removal: &Removal<'_>| removal.lawn().map_or(0, Lawn::leased);
            let before = leased(&removal);
            if is_decided {
                while polled < count
                    && let Some(leaving) = removal.next_due(now)
                    && self.takes(&leaving.next, policy, &mut meets_dead, to)
                {
                    leaving.take(|element| to.give(element, element.deadline));
                    polled += 1;
                }
            } else {
                polled = removal.drain(now, count, |element| to.give(element, element.deadline));
            }
            redelivered = before - leased(&removal);
            replicated = removal.finish();
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
        dehydrator.finish(c"dehydrator.poll");
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

/// Returns the bytes of an element in a reply, without a token.
fn size(element: &Element<'_>) -> usize {
    element.id.len() + element.payload.len()
}

impl Take<'_> {
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
