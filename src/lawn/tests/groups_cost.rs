//! What groups cost: steps of each call, and memory.

use super::groups::*;
use super::*;

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn groups_take_little_memory_and_give_it_back() {
    const COUNT: u64 = 100_000;
    let filled = |groups: u64| {
        let mut lawn = lawn();
        for number in 0..COUNT {
            let group = number.checked_rem(groups).map(|it| format!("tenant{it:06}"));
            let (id, group) = (number.to_be_bytes(), group.as_deref().map(str::as_bytes));
            let new = Element::new(&id, &[0; 64], number / 100);
            lawn.start_in_group(1000, &new, group).expect("room");
        }
        lawn
    };
    let [none, one, many] = [0, 1, COUNT].map(|groups| filled(groups).memory() as f64);
    let (element, group) = ((one - none) / COUNT as f64, (many - one) / COUNT as f64);
    println!("{element:.1} bytes more for an element, {group:.1} for a group");
    assert!(element < 20.0, "{element:.1} bytes more for an element in a group");
    assert!(group < 130.0, "{group:.1} bytes for a group");
    let mut lawn = filled(COUNT);
    defrag(&mut lawn, 3);
    assert_eq!(drained(&mut lawn, COUNT, COUNT as usize - 10).len(), COUNT as usize - 10);
    while lawn.compact(64) {}
    lawn.check();
    assert_eq!((lawn.group_count(), lawn.len()), (10, 10));
    assert!(lawn.memory() < 700_000, "{} bytes for ten groups", lawn.memory());
}

/// Counts the work of calls beside very many groups.
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn no_call_does_more_for_a_million_groups_than_for_a_few() {
    const GROUPS: usize = 1_000_000;
    let mut lawn = lawn();
    fill(&mut lawn, GROUPS, 1);
    let bounded =
        |what: &str, most: u64, steps: u64| assert!(steps < most, "{what}: {steps} steps");
    let limits = |held, rate| GroupLimits { held, rate, per: 1000, ..GroupLimits::NONE };
    for (held, rate) in [(2, 0), (1, 3), (1, 0), (0, 0)] {
        let change = || lawn.set_each_group(limits(held, rate));
        bounded("LIMIT EACH", FIT_STEPS_MAX, work(change).1);
        for _ in 0..100 {
            let (next, steps) = work(|| lawn.lease_due(5, 1_000_000, Token::new(1)).is_some());
            assert!(next);
            bounded("POLL", STEPS_MAX, steps);
            bounded("TTN", STEPS_MAX, work(|| lawn.next_deadline()).1);
            bounded("a pass", FIT_STEPS_MAX, work(|| fit_groups(&mut lawn)).1);
        }
    }
    // One command for many, and as many clients that sleep, while a change is on its way: each element costs the same.
    for held in [1, 2] {
        lawn.set_each_group(limits(held, 0));
        let one = |lawn: &mut Lawn| lawn.lease_due(6, 1_000_000, Token::new(1)).is_some();
        let (given, steps) = work(|| (0..1000).filter(|_| one(&mut lawn)).count());
        assert_eq!(given, 1000);
        bounded("POLL COUNT 1000", 100 * given as u64, steps);
        while fit_groups(&mut lawn) {}
    }
    // A mass of groups is paused, and the pauses end one after the other.
    for number in 0..GROUPS / 10 {
        let mut settings = GroupSettings::NONE;
        settings.paused_until = 100 + number as u64;
        lawn.set_group(format!("g{number}").as_bytes(), settings);
    }
    assert_eq!(lawn.groups().and_then(Groups::first_end), Some(100));
    let ((), steps) = work(|| {
        for number in 0..64 {
            let ended: Vec<_> =
                lawn.group_rules().ended_pauses(100 + number).map(<[u8]>::to_vec).collect();
            assert_eq!(ended, [format!("g{number}").into_bytes()]);
            lawn.set_group(&ended[0], GroupSettings::NONE);
        }
    });
    bounded("the ends of pauses", 64 * STEPS_MAX, steps);
    assert_eq!(lawn.groups().and_then(Groups::first_end), Some(164));
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_pass_over_groups_with_many_leases_or_full_logs_is_bounded() {
    let mut lawn = lawn();
    fill(&mut lawn, 3000, 300);
    assert_eq!(lease_all(&mut lawn, 5, 10), 900_000);
    let calls = |lawn: &mut Lawn, what: &str| {
        let mut calls = 0;
        loop {
            let (goes_on, steps) = work(|| fit_groups(lawn));
            assert!(steps < FIT_STEPS_MAX, "{what}: {steps} steps");
            if !goes_on {
                return calls;
            }
            calls += 1;
        }
    };
    let ((), steps) = work(|| each(&mut lawn, 150));
    assert!(steps < FIT_STEPS_MAX, "LIMIT EACH HELD: {steps} steps");
    put(&mut lawn, "one more", "g7", 1);
    assert!(calls(&mut lawn, "HELD") > 50);
    lawn.check();
    let mut lawn = super::lawn();
    let rate = |rate| GroupLimits { rate, per: 1000, ..GroupLimits::NONE };
    lawn.set_each_group(rate(2000));
    for group in 0..1000 {
        put(&mut lawn, &format!("{group}"), &format!("g{group}"), 1);
        for moment in 0..1000 {
            lawn.groups_mut().expect("groups").record(format!("g{group}").as_bytes(), moment, 1);
        }
    }
    let ((), steps) = work(|| lawn.set_each_group(rate(1000)));
    assert!(steps < FIT_STEPS_MAX, "LIMIT EACH RATE: {steps} steps");
    assert!(calls(&mut lawn, "RATE") > 50);
    lawn.check();
}

/// Moves a whole group to a moment, some at a time.
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn to_touch_a_group_costs_the_same_at_its_beginning_and_at_its_end() {
    const COUNT: usize = 100_000;
    let mut lawn = lawn();
    for number in 0..COUNT {
        put(&mut lawn, &format!("{number}"), "a", 1 + number as u64 % 50);
    }
    // Some are held, some of these leases are over.
    for (ttl, count) in [(10, COUNT / 10), (1000, 100)] {
        (0..count).for_each(|_| assert!(lawn.lease_due(50, ttl, Token::new(1)).is_some()));
    }
    let (at, mut now, mut moved, mut most) = (160, 100, 0, 0);
    loop {
        let (ids, steps) = work(|| {
            let rows = lawn.group_at_rest(b"a", (at, at), now).take(1000);
            rows.map(|row| row.element.id.to_vec()).collect::<Vec<_>>()
        });
        most = most.max(steps);
        if ids.is_empty() {
            break;
        }
        moved += ids.len();
        ids.iter().for_each(|id| assert!(lawn.restart_at(id, 10, at)));
        // The first that were moved have come due meanwhile.
        now += 1;
    }
    assert_eq!(moved, COUNT - 100);
    assert!(most < 20_000, "{most} steps to find a thousand");
    lawn.check();
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn memory_comes_back_when_few_of_many_groups_are_left() {
    const GROUPS: usize = 300_000;
    let mut lawn = lawn();
    let empty = lawn.memory();
    fill(&mut lawn, GROUPS, 1);
    let full = lawn.memory();
    for number in (0..GROUPS).filter(|number| number % 500 != 0) {
        assert!(lawn.stop(format!("{number}").as_bytes()).is_some());
    }
    let mut calls = 0;
    loop {
        let (goes_on, steps) = work(|| lawn.compact(32));
        assert!(steps < 2 * STEPS_MAX, "{steps} steps");
        if !goes_on {
            break;
        }
        calls += 1;
    }
    assert!(calls < GROUPS / 32, "{calls} calls");
    lawn.check();
    let left = lawn.memory();
    assert!(left < empty + full / 20, "{left} of {full} bytes for 600 of 300,000 groups");
    assert_eq!(taken(&mut lawn, 1).split(' ').count(), 600);
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_large_group_does_not_move_and_keeps_little() {
    let mut lawn = lawn();
    fill(&mut lawn, 10_000, 1);
    for number in 0..5000 {
        put(&mut lawn, &format!("l{number}"), "g5000", 1);
    }
    for number in (0..10_000).filter(|number| *number != 5000) {
        assert!(lawn.stop(format!("{number}").as_bytes()).is_some());
    }
    let mut most = 0;
    while {
        let (goes_on, steps) = work(|| lawn.compact(32));
        most = most.max(steps);
        goes_on
    } {}
    assert!(most < 5000, "{most} steps");
    lawn.check();
    assert_eq!((lawn.group_count(), lawn.group_len(Some(b"g5000"))), (1, 5001));
}
