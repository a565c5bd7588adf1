//! Tests of groups that take turns.

use super::super::groups::FIT_WORK;
use super::*;

pub(super) fn put(lawn: &mut Lawn, id: &str, group: &str, deadline: u64) {
    let group = Some(group.as_bytes());
    lawn.start_in_group(0, &Element::new(id.as_bytes(), b"", deadline), group).expect("room");
}

pub(super) fn set(lawn: &mut Lawn, group: &str, change: impl FnOnce(&mut GroupSettings)) {
    let mut settings = lawn.group_rules().of(group.as_bytes());
    change(&mut settings);
    lawn.set_group(group.as_bytes(), settings);
}

pub(super) fn share(lawn: &mut Lawn, group: &str, share: u16) {
    set(lawn, group, |it| it.share = share);
}

/// Takes out all due elements, one at a time, and returns their ids.
pub(super) fn taken(lawn: &mut Lawn, now: u64) -> String {
    let mut ids = Vec::new();
    while let [(_, id, ..)] = &drained(lawn, now, 1)[..] {
        ids.push(String::from_utf8(id.clone()).expect("text"));
        lawn.check();
    }
    ids.join(" ")
}
/// Large tenants of different shares, and a small one that comes in the middle.
#[test]
fn shares_are_right_to_one_in_a_hundred_and_a_small_tenant_waits_for_one_round_of_them() {
    let shares = [("one", 1), ("two", 2), ("three", 3), ("five", 5)];
    let mut lawn = lawn();
    for (group, size) in shares {
        share(&mut lawn, group, size);
        (0..20_000).for_each(|number| put(&mut lawn, &format!("{group} {number}"), group, number));
    }
    (0..20_000).for_each(|number| put(&mut lawn, &format!("none {number}"), "", number));
    let mut counts = std::collections::HashMap::<String, f64>::new();
    let mut give = |lawn: &mut Lawn, now| {
        let (_, element) = lawn.lease_due(now, 1 << 40, Token::new(1)).expect("it is due");
        let group = std::str::from_utf8(element.id).expect("text").split(' ').next();
        *counts.entry(group.expect("a group").into()).or_default() += 1.0;
        group == Some("small")
    };
    (0..18_000).for_each(|_| _ = give(&mut lawn, 20_000));
    put(&mut lawn, "small", "small", 20_001);
    let waited = (0..).find(|_| give(&mut lawn, 20_001)).expect("it comes");
    assert!(waited <= 1 + 1 + 2 + 3 + 5, "{waited} before the small one");
    (0..18_000).for_each(|_| _ = give(&mut lawn, 20_001));
    println!("{counts:?}, {waited} before the small one");
    let turns = counts["none"];
    for (group, size) in shares {
        let given = counts[group] / f64::from(size);
        assert!((given - turns).abs() <= turns / 100.0, "{counts:?}");
    }
    lawn.check();
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn the_greatest_of_many_groups_are_found() {
    let mut lawn = lawn();
    for group in 0..3000_u64 {
        // Some of up to 500, and most of one.
        for number in 0..if group % 100 == 7 { 100 + group % 401 } else { 1 } {
            put(&mut lawn, &format!("{group}/{number}"), &format!("g{group}"), number);
        }
    }
    let mut sizes: Vec<_> = (0..30).map(|it| 100 + (100 * it + 7) % 401).collect();
    sizes.sort_by(|one, other| other.cmp(one));
    let found = |lawn: &Lawn| -> Vec<u64> {
        lawn.greatest_groups(30).into_iter().map(|(_, size)| size as u64).collect()
    };
    assert_eq!(found(&lawn), sizes);
    // All lose the same number, one after the other.
    for group in (7..3000_u64).step_by(100) {
        for number in 0..30 {
            assert!(lawn.stop(format!("{group}/{number}").as_bytes()).is_some());
        }
    }
    lawn.check();
    assert_eq!(found(&lawn), sizes.iter().map(|size| size - 30).collect::<Vec<_>>());
}

pub(super) fn held(lawn: &mut Lawn, group: &str, held: u64) {
    set(lawn, group, |it| it.limits.held = held);
}

pub(super) fn each(lawn: &mut Lawn, held: u64) {
    lawn.set_each_group(GroupLimits { held, ..GroupLimits::NONE });
}
/// Fills groups with elements that are due at 1, one each at first, then a second each, and so on.
pub(super) fn fill(lawn: &mut Lawn, groups: usize, each: usize) {
    for number in 0..groups * each {
        put(lawn, &format!("{number}"), &format!("g{}", number % groups), 1);
    }
}

pub(super) fn lease_all(lawn: &mut Lawn, now: u64, ttl: u64) -> usize {
    std::iter::from_fn(|| lawn.lease_due(now, ttl, Token::new(1)).map(drop)).count()
}

/// Returns what `call` returns, and the steps that it took.
pub(super) fn work<T>(call: impl FnOnce() -> T) -> (T, u64) {
    let (value, done) = super::super::work::of(call);
    (value, done.steps as u64)
}

/// The most steps of one call, for up to a million groups: some paths through trees of them.
pub(super) const STEPS_MAX: u64 = 1000;
/// The most steps of a call that brings groups to new limits.
pub(super) const FIT_STEPS_MAX: u64 = 6000;

#[test]
fn a_change_for_each_group_reaches_all_in_steps_and_one_that_waits_goes_on_as_before() {
    const GROUPS: usize = 4 * FIT_WORK;
    let mut lawn = lawn();
    fill(&mut lawn, GROUPS, 4);
    each(&mut lawn, 2);
    while fit_groups(&mut lawn) {}
    assert_eq!(lease_all(&mut lawn, 5, 10), 2 * GROUPS);
    each(&mut lawn, 3);
    // Nothing is lost between two steps, and what is next is what is given.
    let mut given = 0;
    loop {
        while let Some(next) = lawn.next_due(5) {
            let id = next.row().element.id.to_vec();
            assert_eq!(next.lease(10, Token::new(2)).id, id);
            given += 1;
        }
        assert_eq!(lawn.next_deadline(), Some(15), "all others are full");
        lawn.check();
        if !fit_groups(&mut lawn) {
            break;
        }
    }
    while lawn.next_due(5).map(|next| _ = next.lease(10, Token::new(2))).is_some() {
        given += 1;
    }
    assert_eq!(given, GROUPS);
    // Each is full, and stays so under a lower limit: it gives nothing when the first two leases end.
    each(&mut lawn, 1);
    while fit_groups(&mut lawn) {}
    assert_eq!((lawn.next_deadline(), lawn.next_due(14).is_none()), (Some(15), true));
    each(&mut lawn, 0);
    while fit_groups(&mut lawn) {}
    assert_eq!(lease_all(&mut lawn, 6, 10), GROUPS);
}

/// The leases of a group that are over make room, however many there are.
#[test]
fn a_group_with_a_mass_of_leases_that_are_over_gives_at_once_and_keeps_nobody_waiting() {
    const LEASES: usize = 20_000;
    let mut lawn = lawn();
    for number in 0..LEASES {
        put(&mut lawn, &format!("{number}"), "a", 1);
    }
    assert_eq!(lease_all(&mut lawn, 1, 10), LEASES);
    held(&mut lawn, "a", 1);
    put(&mut lawn, "b", "b", 12);
    while fit_groups(&mut lawn) {}
    lawn.check();
    let mut given = Vec::new();
    for _ in 0..3 {
        let next = |it: (u64, Element<'_>)| String::from_utf8(it.1.id.to_vec()).expect("text");
        let (next, steps) = work(|| lawn.lease_due(20, 10, Token::new(1)).map(next));
        given.extend(next);
        assert!(steps < STEPS_MAX, "{steps} steps");
    }
    assert_eq!(given, ["0", "b"]);
    assert_eq!((lawn.next_deadline(), lawn.running(20)), (Some(30), 2));
}

/// Nobody takes anything, and what is next is known all the same.
#[test]
fn the_next_deadline_is_exact_after_a_lower_limit_though_nobody_takes() {
    const GROUPS: usize = 5000;
    let mut lawn = lawn();
    fill(&mut lawn, GROUPS, 3);
    each(&mut lawn, 2);
    while fit_groups(&mut lawn) {}
    assert_eq!(lease_all(&mut lawn, 5, 10), 2 * GROUPS);
    each(&mut lawn, 1);
    let mut calls = 0;
    while fit_groups(&mut lawn) {
        calls += 1;
        assert_eq!(lawn.next_deadline(), Some(15));
    }
    assert!(calls <= GROUPS.div_ceil(FIT_WORK) * 20, "{calls} calls");
    assert_eq!((lawn.next_deadline(), lawn.refresh_first()), (Some(15), Some(15)));
}
/// Groups that are there for their logs alone do not keep a change from reaching the others.
#[test]
fn groups_without_elements_are_brought_to_new_limits_once() {
    const GROUPS: usize = 500;
    let rate = |rate| GroupLimits { rate, per: 1000, ..GroupLimits::NONE };
    let mut lawn = lawn();
    put(&mut lawn, "id", "a", 1);
    lawn.set_each_group(rate(2));
    for group in 0..GROUPS {
        let mut groups = lawn.groups_mut().expect("groups");
        assert!(groups.record(format!("g{group}").as_bytes(), 1000, 1));
    }
    for (max, logs) in [(3, GROUPS), (0, 0)] {
        lawn.set_each_group(rate(max));
        let calls = (0..4 * GROUPS).take_while(|_| fit_groups(&mut lawn)).count();
        assert!(calls <= 2 * GROUPS, "{calls} calls");
        lawn.check();
        assert_eq!(lawn.groups().expect("groups").all_logs(1000).len(), logs);
    }
}

/// A key with one job of one tenant is as small as others.
#[test]
fn a_small_lawn_may_be_in_one_group() {
    let mut lawn = lawn_with_limits(|| SmallMax::USUAL);
    start_now(&mut lawn, b"id", 5, b"payload", 0).expect("room");
    let (mut one, mut other) = (lawn.another(), lawn.another());
    put(&mut one, "id", "tenant", 5);
    assert!(one.is_small() && one.memory() <= lawn.memory() + 32, "{} bytes", one.memory());
    assert!(one.has_groups() && one.group_count() == 1 && one.group_len(Some(b"tenant")) == 1);
    assert_eq!(
        one.look(b"id").map(|it| one.group_name(it.group.expect("a group"))),
        Some(&b"tenant"[..])
    );
    put(&mut one, "id2", "tenant", 7);
    assert!(one.is_small());
    put(&mut one, "id3", "other", 6);
    assert!(!one.is_small());
    assert_eq!(taken(&mut one, 9), "id id3 id2");
    // After the last one has gone, any group may come.
    put(&mut other, "id", "a", 5);
    assert!(other.stop(b"id").is_some() && !other.has_groups());
    put(&mut other, "id", "b", 5);
    assert!(other.is_small() && other.group_len(Some(b"b")) == 1 && other.group_len(None) == 0);
}
