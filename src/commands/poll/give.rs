//! Giving out due elements: to the client that runs POLL, or to a blocked one.

use crate::data_type::{DEAD_LETTERS_MAX, STUCK, Writing, is_stuck};
use crate::delivery;
use crate::metrics::counters::{self, POLLS, REDELIVERIES};
use crate::metrics::latency::LatenessBatch;
use crate::pending::Take;
use crate::replicate::{self, Batch};
use crate::server::reply::Array;
use crate::server::string::Digits;
use crate::server::{Context, Str, random_bytes};
use lawn::{DEADLINE_MAX, Element, Lawn, Token};

/// Takes or leases due elements, replicates that, and passes each element to `give`. For a client that does not wait:
/// the lateness of each element is recorded.
pub(super) fn take_due<'a>(
    context: &'a Context,
    dehydrator: Writing<'a>,
    key: Str<'a>,
    now: u64,
    take: Take,
    give: impl FnMut(Element<'_>),
) {
    let mut given = LatenessBatch::begin(dehydrator.overdue(), now);
    take_due_noting(context, dehydrator, key, now, take, give, |deadline| given.note(deadline));
}

/// Like [`take_due`], but passes the deadline of each element to `note`.
pub(super) fn take_due_noting<'a>(
    context: &'a Context,
    mut dehydrator: Writing<'a>,
    key: Str<'a>,
    now: u64,
    take: Take,
    give: impl FnMut(Element<'_>),
    note: impl FnMut(u64),
) {
    let mut take = take;
    if !dehydrator.has_default_rules() {
        if dehydrator.is_paused(now) {
            return;
        }
        take = within_limits(&mut dehydrator, now, take);
        if dehydrator.policy().is_limit() {
            return take_below_limit(context, dehydrator, key, now, take, give, note);
        }
    }
    take_first(context, dehydrator, key, now, take, give, note);
}

/// Like [`take_due`], under a limit of deliveries. Dead letters ahead of the taken elements are moved to their
/// destination, a few at a time.
fn take_below_limit<'a>(
    context: &'a Context,
    mut dehydrator: Writing<'a>,
    key: Str<'a>,
    now: u64,
    take: Take,
    mut give: impl FnMut(Element<'_>),
    mut note: impl FnMut(u64),
) {
    // The usual case: one element is requested, and the first is no dead letter.
    if take.count == 1 {
        let first = dehydrator.lawn().and_then(|lawn| {
            lawn.settle_first();
            lawn.first().filter(|first| first.deadline <= now).map(|first| first.deliveries)
        });
        if first.is_some_and(|first| !dehydrator.policy().routes(first)) {
            return take_first(context, dehydrator, key, now, take, give, note);
        }
    }
    let (mut left, mut dead) = (take.count, 0);
    loop {
        left = within_limits(&mut dehydrator, now, Take { count: left, ..take }).count;
        let policy = dehydrator.policy().clone();
        if dehydrator.is_paused(now) {
            return;
        }
        let Some(lawn) = dehydrator.lawn() else { return };
        let mut due = lawn.iter_until(now).take(left);
        let is_dead =
            |element: &Element<'_>| policy.is_limit() && policy.routes(element.deliveries);
        let mut count = 0;
        let meets_dead = due.any(|(_, element)| {
            let is_dead = is_dead(&element);
            count += usize::from(!is_dead);
            is_dead
        });
        left -= count;
        let take = Take { count, ..take };
        if count > 0 {
            take_first(context, dehydrator, key, now, take, &mut give, &mut note);
        } else {
            drop(dehydrator);
        }
        if !meets_dead || dead >= DEAD_LETTERS_MAX as u64 {
            return;
        }
        // Events call out, and so do moves, so everything is read again.
        let gone = delivery::move_dead_letters(context, key, &policy, now, || true);
        let Ok(again) = Writing::open_at(context, key, now) else { return };
        if gone == 0 {
            return;
        }
        dead += gone;
        dehydrator = again;
    }
}

/// Returns `take` with its count reduced to what the limits allow.
fn within_limits(dehydrator: &mut Writing<'_>, now: u64, take: Take) -> Take {
    Take { count: take.count.min(dehydrator.room(now)), ..take }
}

/// Records and replicates that `count` elements were given out, if a rate limits that. The effect that takes or leases
/// them is replicated before.
fn note_given(context: &Context, dehydrator: &mut Writing<'_>, key: Str<'_>, now: u64, count: u64) {
    if count > 0 && dehydrator.note_given(now, count) {
        replicate::given(context, key, now, count);
    }
}

fn take_first(
    context: &Context,
    dehydrator: Writing<'_>,
    key: Str<'_>,
    now: u64,
    take: Take,
    give: impl FnMut(Element<'_>),
    note: impl FnMut(u64),
) {
    match take.lease {
        None => remove_due(context, dehydrator, key, now, take.count, give, note),
        Some(_) => lease_due(context, dehydrator, key, now, take, give, note),
    }
}

/// Returns the elements that the client already holds under its chosen token, because its reply was lost.
pub(super) fn held(lawn: &Lawn, take: Take, now: u64) -> impl Iterator<Item = Element<'_>> {
    let token = take.chosen_token();
    // A stuck dead letter is not given out again, though its token can settle it. Those come last.
    let is_stuck = |element: &Element<'_>| {
        element.deadline == STUCK && lawn.row(element.id).is_some_and(|row| is_stuck(&row))
    };
    let held = token.into_iter().flat_map(move |token| lawn.held(token, now));
    held.take_while(move |element| !is_stuck(element)).take(take.count)
}

fn remove_due(
    context: &Context,
    mut dehydrator: Writing<'_>,
    key: Str<'_>,
    now: u64,
    count: usize,
    mut give: impl FnMut(Element<'_>),
    mut note: impl FnMut(u64),
) {
    let until = dehydrator.remembers_until();
    let mut removed = Batch::settled(context, key, until);
    let (mut polled, mut run_out) = (0, 0);
    if let Some(mut leaving) = dehydrator.removal(until) {
        run_out = leaving.lawn.leased();
        polled = leaving.drain(now, count, |_, element| {
            note(element.deadline);
            give(element);
            removed.push(element.id);
        });
        run_out -= leaving.lawn.leased();
    }
    counters::count(&POLLS, polled as u64);
    counters::count(&REDELIVERIES, run_out as u64);
    if removed.finish() {
        note_given(context, &mut dehydrator, key, now, polled as u64);
        dehydrator.shrunk(c"dehydrator.poll");
    }
}

fn lease_due(
    context: &Context,
    mut dehydrator: Writing<'_>,
    key: Str<'_>,
    now: u64,
    take: Take,
    mut give: impl FnMut(Element<'_>),
    mut note: impl FnMut(u64),
) {
    let (ttl, token) = take.lease.zip(take.token).expect("a lease has a length and a token");
    let deadline = now.saturating_add(ttl).min(DEADLINE_MAX);
    let mut leased = Batch::leased(context, key, ttl, deadline, token);
    let (mut polled, mut run_out) = (0, 0);
    if let Some(lawn) = dehydrator.lawn() {
        let before = lawn.leased();
        for _ in 0..take.count {
            let Some((deadline, element)) = lawn.lease_due(now, ttl, Some(token)) else { break };
            note(deadline);
            give(element);
            polled += 1;
            leased.push(element.id);
        }
        // An element still held under another token counts as leased before and after.
        run_out = polled - (lawn.leased() - before);
    }
    counters::count(&POLLS, polled as u64);
    counters::count(&REDELIVERIES, run_out as u64);
    if leased.finish() {
        note_given(context, &mut dehydrator, key, now, polled as u64);
        dehydrator.changed(c"dehydrator.poll");
    }
}

impl Take {
    /// Draws a token for a lease, if the client has not chosen one.
    pub(super) fn with_token(self) -> Self {
        let token = match self.lease {
            Some(_) => self.token.or_else(|| Some(drawn_token())),
            None => None,
        };
        Self { token, ..self }
    }

    /// Returns the form in which the token is replied. `word`: the token that the client chose.
    pub(super) fn token_form(self, word: Option<&[u8]>) -> TokenForm<'_> {
        match (word, self.token) {
            (Some(word), _) => TokenForm::Chosen(word),
            (None, Some(token)) => TokenForm::Drawn(Digits::new(token.number())),
            (None, None) => TokenForm::Chosen(&[]),
        }
    }

    /// Replies an element in the requested form, with the token of its lease.
    pub(super) fn reply(self, reply: &mut Array<'_>, element: &Element<'_>, token: &TokenForm<'_>) {
        let Element { id, payload, deliveries, .. } = *element;
        if self.lease.is_some() {
            let mut row = reply.push_array(4);
            row.push_bulk(id);
            row.push_bulk(payload);
            row.push_integer(deliveries.into());
            row.push_bulk(token.bytes());
        } else if self.with_ids {
            let mut pair = reply.push_array(2);
            pair.push_bulk(id);
            pair.push_bulk(payload);
        } else {
            reply.push_bulk(payload);
        }
    }
}

/// A token in a reply.
pub(super) enum TokenForm<'a> {
    /// As the client wrote it.
    Chosen(&'a [u8]),
    /// In digits, as a string: languages whose only numbers are doubles would round it.
    Drawn(Digits),
}

impl TokenForm<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Chosen(word) => word,
            Self::Drawn(digits) => digits.bytes(),
        }
    }
}

/// Draws a random token, unique among leases.
fn drawn_token() -> Token {
    Token::drawn(u64::from_le_bytes(random_bytes()))
}
