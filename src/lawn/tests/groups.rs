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

#[test]
fn groups_take_turns_and_each_is_in_its_own_order() {
    in_either_form(|mut lawn| {
        for (id, group, deadline) in
            [("a1", "a", 1), ("a2", "a", 2), ("a3", "a", 3), ("b5", "b", 5), ("b4", "b", 4)]
        {
            put(&mut lawn, id, group, deadline);
        }
        put(&mut lawn, "o3", "", 3);
        put(&mut lawn, "c9", "c", 9);
        assert_eq!(taken(&mut lawn, 8), "a1 o3 b4 a2 b5 a3");
        assert_eq!((lawn.group_count(), lawn.next_deadline()), (1, Some(9)));
        assert_eq!(taken(&mut lawn, 9), "c9");
        assert!(!lawn.has_groups());
    });
}

#[test]
fn a_shorter_window_counts_from_when_an_element_was_given_out() {
    let each = |per| GroupLimits { rate: 1, per, ..GroupLimits::NONE };
    let mut lawn = lawn();
    put(&mut lawn, "a1", "a", 1);
    put(&mut lawn, "a2", "a", 1);
    lawn.set_each_group(each(5121));
    assert_eq!(drained(&mut lawn, 1000, 9).len(), 1);
    // The window had granules of six milliseconds.
    assert_eq!(lawn.next_deadline(), Some(1002 + 5121));
    lawn.set_each_group(each(1));
    assert_eq!(lawn.next_deadline(), Some(1001));
}

/// Many groups of very different sizes, all due at once.
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn the_first_of_each_group_comes_early_and_shares_are_right() {
    const GROUPS: u64 = 1000;
    let mut lawn = lawn();
    let mut number = 0;
    for group in 0..GROUPS {
        for _ in 0..1 + 20_000 / (group + 1) {
            put(
                &mut lawn,
                &format!("{number}/{group}"),
                &format!("g{group}"),
                number * 7919 % 10_000,
            );
            number += 1;
        }
    }
    share(&mut lawn, "g0", 3);
    let mut counts = std::collections::HashMap::<String, u64>::new();
    let mut given = 0;
    while counts.len() < GROUPS as usize {
        lawn.drain(10_000, 1, |_, it| {
            let id = String::from_utf8(it.id.to_vec()).expect("text");
            *counts.entry(id.split_once('/').expect("a group").1.into()).or_default() += 1;
        });
        given += 1;
    }
    assert!(given <= GROUPS + GROUPS / 20 + 2, "{given} for the first of each");
    lawn.check();
    // Groups of more than a hundred are among those that give all the time.
    counts.clear();
    lawn.drain(10_000, 10_000, |_, it| {
        let id = std::str::from_utf8(it.id).expect("text");
        *counts.entry(id.split_once('/').expect("a group").1.into()).or_default() += 1;
    });
    let turns = counts["1"];
    assert!((1..100).all(|group| counts[&group.to_string()].abs_diff(turns) <= 1), "{counts:?}");
    assert!(counts["0"].abs_diff(3 * turns) <= 3, "{} of {turns} turns", counts["0"]);
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

/// Leases an element for 10 ms. Returns its id.
pub(super) fn leased(lawn: &mut Lawn, now: u64) -> Option<String> {
    let (_, element) = lawn.lease_due(now, 10, Token::new(1))?;
    let id = String::from_utf8(element.id.to_vec()).expect("text");
    lawn.check();
    Some(id)
}

pub(super) fn all_leased(lawn: &mut Lawn, now: u64) -> String {
    std::iter::from_fn(|| leased(lawn, now)).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_group_that_holds_as_many_as_it_may_is_passed_over_until_it_has_room() {
    in_either_form(|mut lawn| {
        each(&mut lawn, 1);
        held(&mut lawn, "b", 2);
        for (id, group, deadline) in
            [("a1", "a", 1), ("a2", "a", 2), ("b1", "b", 1), ("b2", "b", 2), ("b3", "b", 3)]
        {
            put(&mut lawn, id, group, deadline);
        }
        put(&mut lawn, "o1", "", 3);
        put(&mut lawn, "o2", "", 4);
        assert_eq!(all_leased(&mut lawn, 5), "a1 b1 o1 b2 o2");
        assert_eq!((lawn.next_deadline(), lawn.count_due(5)), (Some(15), 2));
        assert!(lawn.due_in_turn(5).next().is_none());
        // What is settled makes room, and what is given back too.
        assert!(lawn.settle(b"a1", Token::new(1).expect("a token")).is_some());
        assert_eq!((lawn.next_deadline(), all_leased(&mut lawn, 6)), (Some(2), "a2".into()));
        assert!(lawn.restart_at(b"b1", 0, 7));
        assert_eq!(all_leased(&mut lawn, 7), "b3");
        // A lease that was renewed makes no room, and the next one that ends does.
        assert!(lawn.restart_at(b"b2", 30, 35));
        assert_eq!(lawn.next_deadline(), Some(15));
        assert_eq!(all_leased(&mut lawn, 15), "o1 o2");
        assert_eq!((lawn.next_deadline(), all_leased(&mut lawn, 16)), (Some(16), "a2".into()));
        // An element whose lease has ended is first in its group, although another one is due for longer.
        assert_eq!((lawn.next_deadline(), all_leased(&mut lawn, 17)), (Some(17), "b3".into()));
        assert_eq!((lawn.group_len(Some(b"b")), lawn.running(17)), (3, 5));
    });
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

#[test]
fn the_first_of_all_is_the_oldest_of_all_groups_that_may_give() {
    let mut lawn = lawn();
    each(&mut lawn, 2);
    put(&mut lawn, "b", "b", 8);
    put(&mut lawn, "a", "a", 5);
    assert!(lawn.lease_due(8, 10, Token::new(1)).is_some_and(|it| it.1.id == b"a"));
    put(&mut lawn, "c", "c", 3);
    // It is the turn of the others in the round.
    assert_eq!((lawn.next_deadline(), lawn.first().map(|it| it.id)), (Some(3), Some(&b"c"[..])));
    lawn.next_due(9).into_iter().for_each(Next::pass);
    lawn.check();
    assert_eq!(lawn.next_deadline(), Some(3));
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

/// A tenant with little comes soon beside one with much, and groups that come all the time keep nobody waiting.
#[test]
fn nobody_waits_for_longer_than_a_round() {
    let mut lawn = lawn();
    for number in 0..20_000 {
        put(&mut lawn, &format!("l{number}"), "large", 1);
    }
    (0..10).for_each(|_| drop(drained(&mut lawn, 2, 1)));
    put(&mut lawn, "s", "small", 2);
    let waited = (1..).find(|_| drained(&mut lawn, 3, 1)[0].1 == b"s").expect("it comes");
    assert!(waited <= 2, "{waited} before it");
    // New groups with old deadlines come faster than elements go.
    let mut large = 0;
    for number in 0..1000 {
        for more in 0..2 {
            put(&mut lawn, &format!("n{number}/{more}"), &format!("n{number}/{more}"), 0);
        }
        large += usize::from(drained(&mut lawn, 4, 1)[0].1.starts_with(b"l"));
    }
    assert!(large >= 4, "{large} of the large group");
    // A group whose first element is the oldest, and comes again and again, overtakes nobody.
    let mut lawn = super::lawn();
    each(&mut lawn, 1);
    (0..9).for_each(|number| put(&mut lawn, &format!("a{number}"), "a", 1));
    put(&mut lawn, "b", "b", 2);
    let mut given = Vec::new();
    for now in 3..6 {
        let id = leased(&mut lawn, now).expect("one");
        assert!(lawn.settle(id.as_bytes(), Token::new(1).expect("a token")).is_some());
        given.push(id);
    }
    assert!(given[..2].contains(&"b".to_owned()), "{given:?}");
}
