//! Giving out what is due, to whoever it is for: what POLL does for its client, and for a blocked one.

use crate::data_type::Writing;
use crate::lawn::{DEADLINE_MAX, Element};
use crate::metrics::counters::{self, POLLS, REDELIVERIES};
use crate::replicate::Batch;
use crate::server::context::OpenArray;
use crate::server::{Context, Str};

use super::args::Take;

/// Takes or leases what is due, tells replicas, and gives each element to `give`.
pub(super) fn take_due(
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
        for _ in 0..count {
            let Some(taken) = lawn.pop_due(now) else { break };
            let element = taken.element();
            give(element);
            polled += 1;
            redelivered += u64::from(element.deliveries > 0);
            removed.push(element.id);
        }
    }
    counters::count(&POLLS, polled);
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
