//! Checks whether clients that were blocked waited too long, or in a wrong order.

use std::collections::BTreeMap;

use super::{
    Act, Event, Finding, History, Id, Life, Moment, Poll, Reply, STRANDED, TOLERANCE, Wrong,
    group_of,
};

/// A request earlier by this much came first, whatever the scheduler did: on two busy cores, it has kept a client for 0.2 s
/// between noting the time and sending.
const EARLIER: u64 = 500_000;

/// Checks for stranded clients, and for empty replies.
pub(super) fn check_sleepers(
    history: &History,
    lives: &BTreeMap<Id, Life<'_>>,
    findings: &mut Vec<Finding>,
) {
    /// The order of nearly simultaneous events is unknown.
    const NEAR: u64 = 50_000;
    // The period in which each certainly existed with a known deadline.
    let mut there = Vec::new();
    for (id, life) in lives {
        let mut touched: Vec<_> = life.touched.iter().collect();
        touched.sort_by_key(|it| it.event.end);
        for (at, it) in touched.iter().enumerate() {
            let Some((_, latest)) = it.deadline else { continue };
            let next = touched.get(at + 1).map(|next| next.event.end);
            let is_near = |other: Option<Moment>| {
                other.is_some_and(|other| other.abs_diff(it.event.end) < NEAR)
            };
            let before = touched[..at].last().filter(|before| !before.is_push());
            if is_near(before.map(|before| before.event.end)) {
                continue;
            }
            let is_left = history.left.contains(id);
            // A vanished element vanished at some time.
            if let Some(until) = next.or(is_left.then_some(history.end)) {
                there.push((*id, latest, it.event.end, until));
            }
        }
    }
    for event in &history.events {
        let Act::Poll(Poll { block: Some(block), reply, .. }) = &event.act else { continue };
        let mut find = |wrong, more: &str| findings.push((wrong, format!("{event:?} {more}")));
        let is_unblocked = || {
            history.events.iter().any(|other| {
                matches!(other.act, Act::Unblock { client } if client == event.client)
                    && other.start <= event.end
                    && other.end >= event.start
            })
        };
        let waited = event.end - event.start + TOLERANCE;
        match reply {
            Reply::Given(ids) if ids.is_empty() => find(Wrong::Empty, ""),
            Reply::Nil if *block == 0 && !is_unblocked() => find(Wrong::ForEverEnded, ""),
            Reply::Refused if !is_unblocked() => find(Wrong::ForEverEnded, ""),
            Reply::Nil if *block > 0 && waited < block * 1000 && !is_unblocked() => {
                find(Wrong::TimeoutEarly, "");
            }
            _ => {}
        }
        for (id, deadline, from, until) in &there {
            let (from, until) = (event.start.max(*from), event.end.min(*until));
            if from >= until || until - from < STRANDED {
                continue;
            }
            let due = history.clock.longest_due(*deadline, from, until);
            if due > STRANDED {
                find(Wrong::Stranded, &format!("beside {id} for {due} us"));
                break;
            }
        }
    }
}

/// Checks the order of clients: earlier elements of a group go to earlier clients.
pub(super) fn check_line(
    history: &History,
    lives: &BTreeMap<Id, Life<'_>>,
    findings: &mut Vec<Finding>,
) {
    // Blocked clients that got one element, which existed before it was due and whose deadline did not change.
    let served = history.events.iter().filter_map(|event| {
        let Act::Poll(Poll { block: Some(_), count: 1, reply: Reply::Given(ids), .. }) = &event.act
        else {
            return None;
        };
        let life = lives.get(ids.first()?)?;
        let (push, first) = (life.push()?, life.given.first()?);
        let (earliest, latest) = push.deadline?;
        let is_first = std::ptr::eq(first.0, event);
        let is_ahead = history.clock.latest(push.event.start, push.event.end) < earliest;
        let sets = life.touched.iter().filter(|it| matches!(it.event.act, Act::Touch { .. }));
        (is_first && is_ahead && sets.count() == 0).then_some((event, earliest, latest, push.event))
    });
    let mut served: Vec<_> = served.collect();
    served.sort_by_key(|it| it.0.start);
    for (at, (early, its, _, its_push)) in served.iter().enumerate() {
        let overtakes = |(late, _, latest, push): &&(&Event, u64, u64, &Event)| {
            early.start + EARLIER < late.start
                && latest + TOLERANCE < *its
                && group_of(push) == group_of(its_push)
                // Both existed when the first of them was due.
                && push.end < early.end
                && late.end < early.end
        };
        if let Some((late, ..)) = served[at + 1..].iter().find(overtakes) {
            findings.push((Wrong::Overtaken, format!("{late:?} was served before {early:?}")));
        }
    }
}
