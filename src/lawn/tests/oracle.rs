//! Random operations on a lawn and on an oracle.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use ahash::RandomState;
use proptest::prelude::*;

use super::super::memory::moved;
use super::super::rank::Rank;
use super::super::*;
use super::checks::*;
use super::fit_groups;
use super::model::Oracle;
use super::op::*;
use super::scan::{Scan, scanned, sorted_ids};

pub(super) fn hasher() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

/// Creates a lawn with these limits of the small form.
pub(super) fn lawn_with_limits(small_max: impl Fn() -> SmallMax + Send + Sync + 'static) -> Lawn {
    Lawn::new(Arc::new(Shared::new(hasher(), small_max)))
}

/// Runs operations on both. Compares every reply and the next deadline after each, and the whole content at the end.
/// Elements are in one of up to `groups` groups, or in none. `left`: the lawn is full from the start, and only so many push
/// numbers are left before the counter starts over.
pub(super) fn run(ops: &[Op], small_max: SmallMax, groups: u16, left: Option<u64>) {
    let small_max = Arc::new(Mutex::new(small_max));
    let asked = Arc::clone(&small_max);
    let mut lawn = lawn_with_limits(move || *asked.lock().expect("not poisoned"));
    if let Some(left) = left {
        lawn.full().pushes = Rank::PUSHES - left;
    }
    let mut oracle = Oracle::default();
    let mut scan = Scan::default();
    let mut was_small = lawn.is_small();
    // Set if the lawn may have no room left for an element.
    let mut may_be_full = false;
    let mut now = 1000_u64;
    for (step, op) in ops.iter().enumerate() {
        let seed = step as u64;
        let group = |id: u16| group(seed, id, groups);
        if oracle.turns.is_behind(now) {
            assert!(lawn.groups().is_some_and(|it| it.is_behind(now)));
            step_back(&mut lawn, &mut oracle, now);
        }
        match *op {
            Op::Start { id, ttl, length, deadline } => {
                let content = payload(seed, length);
                let bounds = deadline.map_or(Bounds::NONE, |_| bounds(seed));
                let deadline = deadline.or(now.checked_add(ttl));
                let new = (id, ttl, bounds);
                start(&mut lawn, &mut oracle, new, &content, deadline, group(id), may_be_full);
            }
            Op::Burst { first, count, ttl } => {
                for id in first..first.saturating_add(count) {
                    let (content, deadline) = (payload(seed, 3), now.checked_add(ttl));
                    let new = (id, ttl, Bounds::NONE);
                    start(&mut lawn, &mut oracle, new, &content, deadline, group(id), may_be_full);
                }
            }
            Op::Spread { first, count, from, span, ttl } => {
                for id in first..first.saturating_add(count) {
                    let (content, deadline) = (payload(seed, 3), from + spread(id, span));
                    let ttl = if ttl == 0 { 0 } else { ttl.wrapping_add(id.into()) };
                    let new = (id, ttl, Bounds::NONE);
                    let (deadline, group) = (Some(deadline), group(id));
                    start(&mut lawn, &mut oracle, new, &content, deadline, group, may_be_full);
                }
            }
            Op::RestartSpread { first, count, span } => {
                for id in first..first.saturating_add(count) {
                    let (ttl, deadline) = (1 + u64::from(id), now.saturating_add(spread(id, span)));
                    restart(&mut lawn, &mut oracle, id, ttl, deadline);
                }
            }
            Op::Stop { id } => stop(&mut lawn, &mut oracle, id),
            Op::Settle { id } => {
                let token = token(seed).unwrap_or(Token::drawn(seed));
                let is_held = oracle.tokens.get(&name(id)) == Some(&token);
                let expected = if is_held { oracle.stop(&name(id)) } else { None };
                let settled = lawn.settle(&name(id), token);
                assert_eq!(settled.map(|it| it.element().payload.to_vec()), expected);
            }
            Op::StopMany { first, step, count } => {
                for id in (0..count).map(|i| first.saturating_add(i * step)) {
                    stop(&mut lawn, &mut oracle, id);
                }
            }
            Op::Update { id, length } => {
                let content = payload(seed, length);
                let at = oracle.find(&name(id));
                match lawn.update(&name(id), &content) {
                    Err(UpdateError::Full) => assert!(may_be_full && at.is_some()),
                    old => {
                        let replace = |at: usize| {
                            std::mem::replace(&mut oracle.elements[at].2, content.clone())
                        };
                        let expected = at.map(replace);
                        assert_eq!(old.ok().map(|old| old.element().payload.to_vec()), expected);
                    }
                }
            }
            Op::PopDue { most } => {
                (0..most).any(|_| drain(&mut lawn, &mut oracle, now, 1) == 0);
            }
            Op::Drain { most } => _ = drain(&mut lawn, &mut oracle, now, most),
            Op::Panic { most, at } => drain_until_panic(&mut lawn, &mut oracle, now, most, at),
            Op::Clone => lawn = lawn.clone(),
            Op::Pages { more } => {
                if !lawn.is_small() {
                    let slab = &mut lawn.full().records.slab;
                    slab.pages_max = more.map_or(usize::MAX, |more| slab.pages.len() + more);
                    may_be_full = more.is_some();
                }
            }
            Op::SmallMax { max } => *small_max.lock().expect("not poisoned") = max,
            Op::Scan { count } => scan.step(&lawn, &oracle, count),
            Op::Clock { by } => {
                now = now.saturating_add_signed(by).min(DEADLINE_MAX - 1000);
                assert_eq!(
                    lawn.groups().is_some_and(|it| it.is_behind(now)),
                    oracle.turns.is_behind(now)
                );
                if lawn.groups().is_some_and(|it| it.is_behind(now)) {
                    step_back(&mut lawn, &mut oracle, now);
                }
            }
            Op::Compact { moves } => {
                // `is_sparse` must only save calls of `compact`, not change the result.
                let is_sparse = lawn.is_sparse();
                let more = lawn.compact(moves);
                assert!(is_sparse || !more, "something was moved though nothing was sparse");
                let is_done = more || !lawn.is_sparse() || may_be_full;
                assert!(is_done, "nothing is left to do, but it is sparse");
            }
            Op::Defrag { steps } => defrag(&mut lawn, steps),
            Op::Replace { id, ttl, length } => {
                start_over(&lawn, &mut oracle);
                let content = payload(seed, length);
                let deadline = now.saturating_add(ttl);
                let (id, group, bounds) = (name(id), group(id), bounds(seed));
                let new = Element { bounds, ..Element::new(&id, &content, deadline) };
                let replaced = lawn.replace_in_group(ttl, &new, group.as_deref());
                if replaced == Err(StartError::Full) {
                    assert!(may_be_full && deadline <= DEADLINE_MAX);
                } else {
                    // Its group keeps its place in the round. A late deadline is refused, and the old element stays.
                    if deadline <= DEADLINE_MAX {
                        oracle.remove(&id);
                    }
                    let expected = oracle.start(&id, ttl, &content, Some(deadline), group);
                    let expected = expected.map_err(|_| StartError::TooLate);
                    if expected.is_ok() {
                        oracle.bounds.insert(id, bounds);
                    }
                    assert_eq!(replaced, expected);
                }
            }
            Op::LeaseDue { most, ttl } => {
                for _ in 0..most {
                    let token = token(seed);
                    start_over(&lawn, &mut oracle);
                    let found = lawn.lease_due(now, ttl, token);
                    let found = found.map(|(before, it)| (before, it.id.to_vec(), it.deliveries));
                    assert_eq!(found, oracle.lease_due(now, ttl, token));
                }
            }
            Op::Next { ttl } => {
                start_over(&lawn, &mut oracle);
                let chosen = oracle.turns.next(&oracle.elements, now);
                let chosen = chosen.map(|at| oracle.elements[at].clone());
                let Some(next) = lawn.next_due(now) else {
                    assert_eq!(chosen, None);
                    continue;
                };
                // All of it is known before, and nothing else is given.
                let (ttl_before, id, payload, deadline) = chosen
                    .as_ref()
                    .map(|(id, ttl, payload, at)| (*ttl, id, payload, *at))
                    .expect("one");
                let (row, held_under) = (next.row(), next.token());
                assert_eq!((row.element.id, row.element.payload), (&id[..], &payload[..]));
                assert_eq!((row.ttl, row.element.deadline), (ttl_before, deadline));
                assert_eq!(
                    next.group(&next.row().element).unwrap_or_default(),
                    oracle.turns.group(id)
                );
                assert_eq!(held_under, oracle.tokens.get(id).copied());
                assert_eq!(row.element.deliveries, oracle.deliveries.get(id).copied().unwrap_or(0));
                if ttl == 0 {
                    oracle.counted.extend(oracle.turns.give(now));
                    assert_eq!(next.take().element().payload, payload);
                    oracle.stop(id);
                } else {
                    let token = token(seed);
                    let leased = next.lease(ttl, token).id.to_vec();
                    let expected = oracle.lease_due(now, ttl, token).expect("one is next");
                    assert_eq!((deadline, leased), (expected.0, expected.1));
                }
            }
            Op::Pass => {
                lawn.next_due(now).into_iter().for_each(Next::pass);
                oracle.turns.pass(&oracle.elements, now);
            }
            Op::Lease { id, ttl } => {
                let deadline = now + ttl;
                start_over(&lawn, &mut oracle);
                let at = oracle.find(&name(id)).filter(|_| deadline <= DEADLINE_MAX);
                if let Some(at) = at {
                    oracle.lease(at, ttl, deadline, token(seed));
                }
                assert_eq!(lawn.lease_at(&name(id), ttl, deadline, token(seed)), at.is_some());
            }
            Op::Deliveries { id, deliveries } => {
                let is_there = oracle.find(&name(id)).is_some();
                let id = name(id);
                oracle.deliveries.remove(&id);
                let since = oracle.end_lease(&id).unwrap_or_default();
                if is_there && deliveries > 0 {
                    oracle.deliveries.insert(id.clone(), deliveries);
                    oracle.tokens.extend(token(seed).map(|token| (id.clone(), token)));
                    oracle.since.extend(token(seed).map(|_| (id.clone(), since)));
                }
                if let Some(at) = oracle.find(&id) {
                    let is_held = oracle.tokens.contains_key(&id);
                    oracle.turns.hold(&id, is_held, oracle.elements[at].3);
                }
                oracle.turns.settle(&oracle.elements);
                assert_eq!(lawn.set_deliveries(&id, deliveries, token(seed)), is_there);
            }
            Op::Since { id, moment, waited } => {
                let since = Since { moment, waited }.stored();
                let is_held = oracle.tokens.contains_key(&name(id));
                assert_eq!(lawn.set_held_since(&name(id), since), is_held);
                oracle.since.entry(name(id)).and_modify(|it| *it = since);
            }
            Op::Until { id, until } => {
                let bounds = oracle.bounds.get_mut(&name(id)).filter(|it| it.until > 0);
                let is_bounded = bounds.is_some();
                bounds.into_iter().for_each(|it| it.until = until.clamp(1, Bounds::UNTIL_MAX));
                assert_eq!(lawn.set_until(&name(id), until), is_bounded);
            }
            Op::Group { .. } | Op::Each { .. } if groups == 0 => {}
            Op::Group { group, share, limits, pause } => {
                let name = groups_name(group % (groups + 1));
                let is_group = !name.is_empty();
                let settings = GroupSettings {
                    share,
                    limits: if is_group { limits } else { GroupLimits::NONE },
                    paused_until: if pause > 0 && is_group { now + pause } else { 0 },
                };
                oracle.turns.settings.remove(&name);
                let is_set = settings != GroupSettings::NONE;
                oracle.turns.settings.extend(is_set.then(|| (name.clone(), settings)));
                lawn.set_group(&name, settings);
                oracle.turns.adapt();
                oracle.turns.learn(&oracle.elements, &lawn);
            }
            Op::Each { limits } => {
                let before = std::mem::replace(&mut oracle.turns.each, limits);
                lawn.set_each_group(limits);
                oracle.turns.adapt();
                if (before.rate, before.per) != (limits.rate, limits.per) {
                    while fit_groups(&mut lawn) {}
                }
                oracle.turns.learn(&oracle.elements, &lawn);
            }
            Op::Enforce { enforced } => {
                if lawn.has_groups() && !lawn.is_small() {
                    oracle.turns.enforced = enforced;
                    lawn.groups_mut().into_iter().for_each(|mut it| it.enforce(enforced));
                    oracle.turns.adapt();
                    while fit_groups(&mut lawn) {}
                    oracle.turns.learn(&oracle.elements, &lawn);
                }
            }
            Op::Given { group, count } => {
                let name = groups_name(group % (groups + 1));
                let is_limited = oracle.turns.record(&name, now, count);
                assert_eq!(
                    lawn.groups_mut().is_some_and(|mut it| it.record(&name, now, count)),
                    is_limited
                );
                oracle.turns.settle(&oracle.elements);
            }
            Op::Forget => {
                while lawn.groups_mut().is_some_and(|mut it| it.forget_logs(now, 3)) {}
                oracle.turns.forget(now);
                // Logs end in an order of the lawn's, so groups join the round in one.
                oracle.turns.learn(&oracle.elements, &lawn);
            }
            Op::PutFirst { id, before } => {
                let (id, deadline) = (name(id), now.saturating_sub(before));
                let at = oracle.find(&id);
                if let Some(at) = at {
                    let (id, _, payload, _) = oracle.take(at);
                    oracle.end_lease(&id);
                    oracle.turns.hold(&id, false, deadline);
                    oracle.put_first((id, 0, payload, deadline));
                    oracle.turns.settle(&oracle.elements);
                }
                assert_eq!(lawn.put_first(&id, deadline), at.is_some());
            }
            Op::Reason { id, length } => {
                let (id, reason) = (name(id), payload(seed, length));
                let is_there = oracle.find(&id).is_some();
                oracle.reasons.remove(&id);
                if is_there && length > 0 {
                    oracle.reasons.insert(id.clone(), reason.clone());
                }
                assert_eq!(lawn.set_reason(&id, &reason), is_there);
            }
            Op::Restart { id, ttl } => {
                let deadline = now.saturating_add(ttl);
                restart(&mut lawn, &mut oracle, id, ttl, deadline);
            }
        }
        if lawn.is_small() {
            oracle.turns.restart(&oracle.elements);
        } else {
            oracle.turns.check_round(&lawn);
        }
        // Some changes of limits are carried out in the middle of others.
        if step % 2 == 0 && lawn.groups().is_some_and(Groups::must_fit) {
            fit_groups(&mut lawn);
            oracle.turns.learn(&oracle.elements, &lawn);
        }
        lawn.check();
        if !lawn.is_small() && oracle.turns.is_used() {
            assert_eq!(lawn.round(), oracle.turns.names(), "the round after {op:?}");
        }
        check_turns(&mut lawn, &mut oracle, now, seed);
        scan.forget_removed(&oracle);
        assert!(was_small || !lawn.is_small(), "it has become small again");
        was_small = lawn.is_small();
        assert_eq!(lawn.len(), oracle.elements.len());
        let first = oracle.turns.first_eligible(&oracle.elements);
        let first = first.map(|(deadline, at)| (deadline, &oracle.elements[at].0[..]));
        for settles in [false, step % 3 == 0] {
            if settles {
                lawn.refresh_first();
            }
            let found = lawn.next_deadline().zip(lawn.first().map(|it| it.id));
            assert_eq!(found, first, "first after {op:?}");
        }
        let due = oracle.ordered().into_iter().filter(|element| element.3 <= now);
        let due: Vec<_> = due.map(|(_, id, ..)| id).collect();
        assert_eq!(lawn.iter_until(now).map(|(_, element)| element.id).collect::<Vec<_>>(), due);
        assert_eq!(lawn.count_due(now), due.len());
        check_rows(&lawn, &oracle, now.saturating_add_signed(step as i64 % 9 - 4), seed);
        let is_bounded = |it: &Bounds| !it.is_none();
        assert_eq!(lawn.has_bounds(), oracle.bounds.values().any(is_bounded), "after {op:?}");
        let expiries = oracle.expiries();
        assert_eq!(lawn.first_expiry(), expiries.first().map(|it| it.0), "expiry after {op:?}");
        let expired = |row: Row<'_>| {
            assert!(row.element.is_expired(now) && lawn.row(row.element.id) == Some(row));
            (row.element.bounds.until.max(row.element.deadline), row.element.id.to_vec())
        };
        let mut expired: Vec<_> = lawn.expired(now).map(expired).collect();
        assert!(expired.is_sorted_by_key(|it| it.0), "expired, in order, after {op:?}");
        expired.sort_unstable();
        let due = expiries.into_iter().take_while(|it| it.0 <= now);
        assert!(due.eq(expired.iter().map(|it| (it.0, &it.1[..]))), "expired after {op:?}");
        let given_out = lawn.counts().given_out;
        assert_eq!(given_out, oracle.deliveries.len(), "given out after {op:?}");
        assert_eq!(tokens(&lawn), oracle.tokens, "tokens after {op:?}");
        check_since(&lawn, &oracle);
        assert_eq!(reasons(&lawn), oracle.reasons, "reasons after {op:?}");
        assert_eq!(lawn.has_reasons(), !oracle.reasons.is_empty());
        for (id, held) in &oracle.tokens {
            assert!(lawn.holds(id, *held) && !lawn.holds(id, Token::drawn(1 << 60)));
        }
        for moment in [now, now.saturating_add_signed(step as i64 % 41 - 20), 0] {
            check_running(&lawn, &oracle, moment);
        }
        for number in 1..4 {
            let token = token(number).expect("a token");
            let expected = oracle.ordered().into_iter().filter(|it| it.3 > now).map(|it| it.1);
            let expected = expected.filter(|id| oracle.tokens.get(*id) == Some(&token));
            let expected: Vec<_> = expected.collect();
            let ids = |most| lawn.held(token, now).take(most).map(|it| it.id).collect::<Vec<_>>();
            assert_eq!(ids(usize::MAX), expected, "held after {op:?}");
            let most = step % 5;
            assert_eq!(ids(most), expected[..most.min(expected.len())]);
        }
    }
    assert_eq!(content(&lawn), oracle.ordered());
    assert_eq!(scanned(&lawn, 1), sorted_ids(&oracle), "one at a time");
    assert_eq!(scanned(&lawn, usize::MAX), sorted_ids(&oracle), "in one go");
    assert_eq!(content(&lawn.clone()), oracle.ordered());
    assert_eq!(tokens(&lawn.clone()), oracle.tokens);
    check_since(&lawn.clone(), &oracle);
    assert_eq!(reasons(&lawn.clone()), oracle.reasons);
    let mut counts = std::collections::BTreeMap::new();
    for (ttl, ..) in oracle.ordered() {
        *counts.entry(ttl).or_insert(0) += 1;
    }
    assert_eq!(lawn.counts_by_ttl(), counts);
    for (_, id, payload, deadline) in oracle.ordered() {
        let deliveries = oracle.deliveries.get(id).copied().unwrap_or(0);
        let bounds = oracle.bounds(id);
        let found = lawn.look(id).expect("it is there");
        let group = found.group;
        assert_eq!(group.map_or(&[][..], |it| lawn.group_name(it)), oracle.turns.group(id));
        assert_eq!(found, Element { id, payload, deadline, deliveries, bounds, group });
    }
}

/// Moves every allocation, a few steps at a time.
pub(super) fn defrag(lawn: &mut Lawn, steps: usize) {
    let mut next = Some(0);
    while let Some(from) = next {
        let mut left = steps;
        next = lawn.defrag(from, &mut moved::MoveAll, || {
            left -= 1;
            left > 0
        });
    }
}

/// Tells the oracle when the lawn is about to push an element under the first push number again.
fn start_over(lawn: &Lawn, oracle: &mut Oracle) {
    if !lawn.is_small() && lawn.parts().pushes == Rank::PUSHES {
        oracle.start_over();
    }
}

fn start(
    lawn: &mut Lawn,
    oracle: &mut Oracle,
    (id, ttl, bounds): (u16, u64, Bounds),
    payload: &[u8],
    deadline: Option<u64>,
    group: Option<Vec<u8>>,
    may_be_full: bool,
) {
    let id = name(id);
    start_over(lawn, oracle);
    let started = deadline.ok_or(StartError::TooLate).and_then(|deadline| {
        let new = Element { bounds, ..Element::new(&id, payload, deadline) };
        lawn.start_in_group(ttl, &new, group.as_deref())
    });
    if started == Err(StartError::Full) {
        assert!(may_be_full && oracle.find(&id).is_none());
        return;
    }
    let expected = oracle.start(&id, ttl, payload, deadline, group);
    if expected.is_ok() {
        oracle.bounds.insert(id, bounds);
    }
    assert_eq!(started, expected);
}

/// Starts an element that comes due `ttl` milliseconds after `now`.
pub(super) fn start_now(
    lawn: &mut Lawn,
    id: &[u8],
    ttl: u64,
    payload: &[u8],
    now: u64,
) -> Result<(), StartError> {
    lawn.start_at(id, ttl, payload, Lawn::deadline(ttl, now)?)
}

/// Takes out up to `most` due elements. Returns the TTL, id, payload and deadline of each.
pub(super) fn drained(lawn: &mut Lawn, now: u64, most: usize) -> Vec<(u64, Vec<u8>, Vec<u8>, u64)> {
    let mut taken = Vec::new();
    let count = lawn.drain(now, most, |ttl, it| {
        taken.push((ttl, it.id.to_vec(), it.payload.to_vec(), it.deadline));
    });
    assert_eq!(taken.len(), count);
    taken
}

/// Takes out up to `most` due elements. Returns their number.
fn drain(lawn: &mut Lawn, oracle: &mut Oracle, now: u64, most: usize) -> usize {
    let due = take_due(oracle, now, most);
    assert_eq!(drained(lawn, now, most), due);
    due.len()
}

/// Takes out up to `most` due elements, with a receiver that panics when it gets the one at `at`, if that many are due.
fn drain_until_panic(lawn: &mut Lawn, oracle: &mut Oracle, now: u64, most: usize, at: usize) {
    let mut taken = Vec::new();
    let drains = || {
        lawn.drain(now, most, |ttl, it| {
            taken.push((ttl, it.id.to_vec(), it.payload.to_vec(), it.deadline));
            if taken.len() > at {
                // No panic hook prints this one.
                resume_unwind(Box::new(()));
            }
        })
    };
    let panics = catch_unwind(AssertUnwindSafe(drains)).is_err();
    // What was passed to the receiver has left the lawn, the last one too, and nothing else has.
    assert_eq!(taken, take_due(oracle, now, most.min(at + 1)));
    assert_eq!(panics, taken.len() > at);
}

/// Takes up to `most` due elements out of the oracle.
fn take_due(oracle: &mut Oracle, now: u64, most: usize) -> Vec<(u64, Vec<u8>, Vec<u8>, u64)> {
    let mut due = Vec::new();
    if oracle.turns.is_used() {
        while due.len() < most
            && let Some(at) = oracle.turns.next(&oracle.elements, now)
        {
            oracle.counted.extend(oracle.turns.give(now));
            let (id, ttl, payload, deadline) = oracle.elements[at].clone();
            oracle.stop(&id);
            due.push((ttl, id, payload, deadline));
        }
    } else {
        let all = oracle.ordered().into_iter().take_while(|it| it.3 <= now).take(most);
        due.extend(all.map(|(ttl, id, payload, at)| (ttl, id.to_vec(), payload.to_vec(), at)));
        due.iter().for_each(|it| drop(oracle.stop(&it.1)));
    }
    due
}

fn restart(lawn: &mut Lawn, oracle: &mut Oracle, id: u16, ttl: u64, deadline: u64) {
    start_over(lawn, oracle);
    let at = oracle.find(&name(id)).filter(|_| deadline <= DEADLINE_MAX);
    if let Some(at) = at {
        let (id, _, payload, _) = oracle.take(at);
        if ttl == 0 {
            oracle.end_lease(&id);
        }
        oracle.turns.hold(&id, oracle.tokens.contains_key(&id), deadline);
        oracle.push((id, ttl, payload, deadline));
        oracle.turns.settle(&oracle.elements);
    }
    assert_eq!(lawn.restart_at(&name(id), ttl, deadline), at.is_some());
}

fn step_back(lawn: &mut Lawn, oracle: &mut Oracle, now: u64) {
    lawn.groups_mut().into_iter().for_each(|mut it| it.step_back(now));
    while fit_groups(lawn) {}
    oracle.turns.step_back(now);
    oracle.turns.learn(&oracle.elements, lawn);
}

fn stop(lawn: &mut Lawn, oracle: &mut Oracle, id: u16) {
    let taken = lawn.stop(&name(id)).map(|taken| taken.element().payload.to_vec());
    assert_eq!(taken, oracle.stop(&name(id)));
}

proptest! {
    // A failure prints the shortest list of operations that fails. Nothing else matters, because time is among them.
    // PROPTEST_RNG_SEED chooses other operations, PROPTEST_CASES more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_agree_with_the_oracle(
        ops in prop::collection::vec(op(), 1..150),
        max in small_max(),
        groups in prop::sample::select(vec![0_u16, 1, 3, 6, 150]),
        left in prop::option::weighted(0.2, 0_u64..1000),
    ) {
        run(&ops, max, groups, left);
    }
}
