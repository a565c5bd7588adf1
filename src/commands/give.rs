//! Giving out what is due, to whoever it is for: what POLL does for its client, and for a blocked one.

use crate::courier;
use crate::data_type::{DEAD_LETTERS_MAX, Writing};
use crate::lawn::{DEADLINE_MAX, Element};
use crate::metrics::counters::{self, POLLS, REDELIVERIES};
use crate::replicate::Batch;
use crate::server::context::OpenArray;
use crate::server::{Context, Str};

use super::args::Take;

/// Takes or leases what is due, tells replicas, and gives each element to `give`.
pub(super) fn take_due<'a>(
    context: &'a Context,
    mut dehydrator: Writing<'a>,
    key: Str<'a>,
    now: u64,
    take: Take,
    give: impl FnMut(Element<'_>),
) {
    if dehydrator.is_paused(now) {
        return;
    }
    if dehydrator.policy().limits() {
        return take_below_limit(context, dehydrator, key, now, take, give);
    }
    take_first(context, dehydrator, key, now, take, give);
}

/// As [`take_due`], where there is a limit of deliveries: dead letters that come first go where they belong, a few at a
/// time, and are passed over.
fn take_below_limit<'a>(
    context: &'a Context,
    mut dehydrator: Writing<'a>,
    key: Str<'a>,
    now: u64,
    take: Take,
    mut give: impl FnMut(Element<'_>),
) {
    let (mut left, mut dead) = (take.count, 0);
    loop {
        let policy = dehydrator.policy().clone();
        if dehydrator.is_paused(now) {
            return;
        }
        let Some(lawn) = dehydrator.lawn() else { return };
        let mut due = lawn.iter_until(now).take(left);
        let is_dead = |element: &Element<'_>| policy.limits() && policy.sends(element.deliveries);
        let mut count = 0;
        let meets_dead = due.any(|(_, element)| {
            let is_dead = is_dead(&element);
            count += usize::from(!is_dead);
            is_dead
        });
        left -= count;
        let take = Take { count, ..take };
        if count > 0 {
            take_first(context, dehydrator, key, now, take, &mut give);
        } else {
            drop(dehydrator);
        }
        if !meets_dead || dead >= DEAD_LETTERS_MAX as u64 {
            return;
        }
        // Events have called out meanwhile, and what is moved calls out too: all is looked at again.
        let gone = courier::retire(context, key, &policy, now, || true);
        let Ok(again) = Writing::open(context, key) else { return };
        if gone == 0 {
            return;
        }
        dead += gone;
        dehydrator = again;
    }
}

fn take_first(
    context: &Context,
    dehydrator: Writing<'_>,
    key: Str<'_>,
    now: u64,
    Take { count, lease, .. }: Take,
    give: impl FnMut(Element<'_>),
) {
    match lease {
        None => remove_due(context, dehydrator, key, now, count, give),
        Some(ttl) => lease_due(context, dehydrator, key, now, count, ttl, give),
    }
}

fn remove_due(
    context: &Context,
    mut dehydrator: Writing<'_>,
    key: Str<'_>,
    now: u64,
    count: usize,
    mut give: impl FnMut(Element<'_>),
) {
    let mut removed = Batch::removed(context, key);
    let (mut polled, mut redelivered) = (0, 0);
    if let Some(lawn) = dehydrator.lawn() {
        polled = lawn.drain(now, count, |_, element| {
            give(element);
            redelivered += u64::from(element.deliveries > 0);
            removed.push(element.id);
        });
    }
    counters::count(&POLLS, polled as u64);
    counters::count(&REDELIVERIES, redelivered);
    if removed.finish() {
        dehydrator.shrunk(c"dehydrator.poll");
    }
}

fn lease_due(
    context: &Context,
    mut dehydrator: Writing<'_>,
    key: Str<'_>,
    now: u64,
    count: usize,
    ttl: u64,
    mut give: impl FnMut(Element<'_>),
) {
    let mut leased = Batch::leased(context, key, ttl, now.saturating_add(ttl).min(DEADLINE_MAX));
    let (mut polled, mut redelivered) = (0, 0);
    if let Some(lawn) = dehydrator.lawn() {
        for _ in 0..count {
            let Some(element) = lawn.lease_due(now, ttl) else { break };
            give(element);
            polled += 1;
            redelivered += u64::from(element.deliveries > 1);
            leased.push(element.id);
        }
    }
    counters::count(&POLLS, polled);
    counters::count(&REDELIVERIES, redelivered);
    if leased.finish() {
        dehydrator.changed(c"dehydrator.poll");
    }
}

impl Take {
    /// Replies an element as it was asked for.
    pub(super) fn reply(self, reply: &mut OpenArray<'_>, element: &Element<'_>) {
        let Element { id, payload, deliveries, .. } = *element;
        if self.lease.is_some() {
            let mut row = reply.push_open_array();
            row.push_bulk(id);
            row.push_bulk(payload);
            row.push_integer(deliveries.into());
        } else if self.with_ids {
            let mut pair = reply.push_open_array();
            pair.push_bulk(id);
            pair.push_bulk(payload);
        } else {
            reply.push_bulk(payload);
        }
    }
}
