//! Writing a dehydrator.

use std::collections::BTreeMap;

use super::field::{
    BOUNDS, DROP, GROUPS, HOLD_DELIVERIES, LEASES, LIMITS, LIST, PAUSE, POLICY, PUBLISH, REASONS,
    REMEMBERED, SCHEDULES, STREAM, STUCK, Sink, TO_LIST, TOKENS, UNCONFIRMED, put_number,
};
use crate::policy::{End, Limits, Policy, Route, Rules};
use lawn::{
    Aside, DEADLINE_MAX, Element, Group, GroupLimits, Lawn, Rate, Row, Since, Start, Token,
};

/// The size at which a string of elements is written. The server compresses each string by itself, and holds one in
/// memory while it loads.
pub(super) const CHUNK_BYTES: usize = 32 * 1024;

/// Writes a dehydrator in the newest version. `now` is in milliseconds since the epoch: what groups gave out so long ago that it
/// counts no more is left out.
pub fn save(
    (lawn, remembered, schedules): (&Lawn, &Aside, Option<&Aside>),
    rules: &Rules,
    now: u64,
    sink: &mut impl Sink,
) {
    let Rules { policy, pause, trust, limits } = rules;
    // A dehydrator without a new feature stays readable for older readers.
    let used = [
        (LEASES, lawn.counts().given_out > 0),
        (TOKENS, lawn.leased() > 0),
        (PAUSE, pause.is_some()),
        (POLICY, *policy != Policy::Hold),
        (UNCONFIRMED, !trust.is_confirmed()),
        (LIMITS, limits.is_some()),
        (REMEMBERED, !remembered.is_empty()),
        (TO_LIST, matches!(policy.route(), Some(Route::List { .. }))),
        (STUCK, has_stuck(lawn)),
        (BOUNDS, lawn.has_bounds()),
        (GROUPS, lawn.has_groups()),
        (REASONS, lawn.has_reasons()),
        (SCHEDULES, schedules.is_some()),
    ];
    let features = used.into_iter().filter(|(_, is_used)| *is_used).map(|(bit, _)| bit).sum();
    sink.unsigned(features);
    save_policy(policy, sink);
    if let Some(pause) = pause {
        sink.unsigned(pause.end().unwrap_or(0));
    }
    if let Some(limits) = limits {
        save_limits(limits, sink);
    }
    if features & GROUPS != 0 {
        save_group_settings(lawn, now, sink);
    }
    sink.unsigned(lawn.len() as u64);
    let mut last = 0;
    let mut groups = BTreeMap::new();
    save_records(lawn.iter(), sink, |chunk, (ttl, element)| {
        put_number(chunk, element.deadline - last);
        put_number(chunk, ttl);
        if features & LEASES != 0 {
            put_number(chunk, element.deliveries.into());
        }
        if features & TOKENS != 0 && element.deliveries > 0 {
            let token = lawn.token(&element);
            put_number(chunk, token.map_or(0, Token::number));
            if token.is_some() {
                let Since { moment, waited } = lawn.held_since(&element).unwrap_or_default();
                put_number(chunk, moment);
                if moment > 0 {
                    put_number(chunk, waited);
                }
            }
        }
        if features & BOUNDS != 0 {
            put_number(chunk, element.bounds.deliveries.into());
            put_number(chunk, element.bounds.until);
        }
        if features & GROUPS != 0 {
            put_group(chunk, lawn, &mut groups, element.group);
        }
        if features & REASONS != 0 {
            let reason = lawn.reason(element.id).unwrap_or_default();
            put_number(chunk, reason.len() as u64);
            chunk.extend_from_slice(reason);
        }
        put_number(chunk, element.id.len() as u64);
        put_number(chunk, element.payload.len() as u64);
        chunk.extend_from_slice(element.id);
        chunk.extend_from_slice(element.payload);
        last = element.deadline;
    });
    if !remembered.is_empty() {
        save_remembered(remembered, sink);
    }
    if let Some(schedules) = schedules {
        sink.unsigned(schedules.len() as u64);
        save_records(schedules.payloads(), sink, |chunk, (name, record)| {
            put_number(chunk, name.len() as u64);
            put_number(chunk, record.len() as u64);
            chunk.extend_from_slice(name);
            chunk.extend_from_slice(record);
        });
    }
}

fn save_group_settings(lawn: &Lawn, now: u64, sink: &mut impl Sink) {
    save_group_limits(lawn.group_rules().each, sink);
    sink.unsigned(lawn.group_rules().iter().count() as u64);
    for (name, settings) in lawn.group_rules().iter() {
        sink.bytes(name);
        sink.unsigned(settings.share.into());
        save_group_limits(settings.limits, sink);
        sink.unsigned(settings.paused_until);
    }
    let logs = lawn.groups().map_or(Vec::new(), |groups| groups.all_logs(now));
    sink.unsigned(logs.len() as u64);
    for (name, log) in logs {
        sink.bytes(name);
        save_log(Some(&log), sink);
    }
}

/// Writes when elements were given out under a rate.
fn save_log(rate: Option<&Rate>, sink: &mut impl Sink) {
    sink.unsigned(rate.map_or(0, |rate| rate.entries().len()) as u64);
    for (moment, count) in rate.into_iter().flat_map(Rate::entries) {
        sink.unsigned(moment);
        sink.unsigned(count);
    }
}

fn save_group_limits(limits: GroupLimits, sink: &mut impl Sink) {
    sink.unsigned(limits.length);
    sink.unsigned(limits.held);
    sink.unsigned(limits.rate);
    sink.unsigned(limits.per);
}

/// Writes the number of a group. `groups` has the numbers that were written before.
fn put_group(
    chunk: &mut Vec<u8>,
    lawn: &Lawn,
    groups: &mut BTreeMap<Group, u64>,
    group: Option<Group>,
) {
    let Some(group) = group else { return chunk.push(0) };
    let next = groups.len() as u64 + 1;
    let number = *groups.entry(group).or_insert(next);
    put_number(chunk, number);
    if number == next {
        let name = lawn.group_name(group);
        put_number(chunk, name.len() as u64);
        chunk.extend_from_slice(name);
    }
}

/// Returns whether any dead letter is stuck. They come last.
fn has_stuck(lawn: &Lawn) -> bool {
    let last = Start { deadline: DEADLINE_MAX, behind: None };
    let may_be_dead = |it: &Element<'_>| it.deliveries > 0 || it.bounds.until > 0;
    let is_stuck = |row: Row<'_>| row.ttl >= DEADLINE_MAX - 1 && may_be_dead(&row.element);
    (lawn.counts().given_out > 0 || lawn.first_expiry().is_some())
        && lawn.rows(last, DEADLINE_MAX).any(is_stuck)
}

/// Writes remembered ids in the order of their times, so that the differences are small.
fn save_remembered(ids: &Aside, sink: &mut impl Sink) {
    sink.unsigned(ids.len() as u64);
    let mut last = 0;
    save_records(ids.iter(), sink, |chunk, (until, id)| {
        put_number(chunk, until.wrapping_sub(last));
        put_number(chunk, id.len() as u64);
        chunk.extend_from_slice(id);
        last = until;
    });
}

/// Writes records, one behind the other, in strings of about [`CHUNK_BYTES`].
fn save_records<T>(
    records: impl Iterator<Item = T>,
    sink: &mut impl Sink,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    let mut chunk = Vec::new();
    for record in records {
        put(&mut chunk, record);
        if chunk.len() >= CHUNK_BYTES {
            sink.bytes(&chunk);
            chunk.clear();
        }
    }
    if !chunk.is_empty() {
        sink.bytes(&chunk);
    }
}

fn save_limits(limits: &Limits, sink: &mut impl Sink) {
    let Limits { length, held, rate, remember } = limits;
    let (most, per) = limits.rate_per();
    [*length, *held, most, per, *remember].into_iter().for_each(|number| sink.unsigned(number));
    save_log(rate.as_ref(), sink);
}

/// Writes a policy, nothing for HOLD.
fn save_policy(policy: &Policy, sink: &mut impl Sink) {
    match policy {
        Policy::Hold => {}
        Policy::HoldDeliveries { deliveries, route } => {
            sink.unsigned(HOLD_DELIVERIES);
            sink.unsigned((*deliveries).into());
            save_route(route, sink);
        }
        Policy::Send(route) => save_route(route, sink),
    }
}

fn save_route(route: &Route, sink: &mut impl Sink) {
    match route {
        Route::Drop => sink.unsigned(DROP),
        Route::Stream { dest, maxlen } => {
            sink.unsigned(STREAM);
            sink.bytes(dest);
            sink.unsigned(maxlen.map_or(0, |maxlen| maxlen.length));
            sink.unsigned(maxlen.is_some_and(|maxlen| maxlen.approximate).into());
        }
        Route::Publish { channel } => {
            sink.unsigned(PUBLISH);
            sink.bytes(channel);
        }
        Route::List { dest, end } => {
            sink.unsigned(LIST);
            sink.bytes(dest);
            sink.unsigned((*end == End::Left).into());
        }
    }
}
