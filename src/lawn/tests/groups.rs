//! Tests of groups that take turns.

use super::super::groups::{PASSED_MAX, VISITED_MAX, WOKEN_MAX};
use super::*;

fn put(lawn: &mut Lawn, id: &str, group: &str, deadline: u64) {
    let group = Some(group.as_bytes());
    lawn.start_in_group(0, &Element::new(id.as_bytes(), b"", deadline), group).expect("room");
}

fn set(lawn: &mut Lawn, group: &str, change: impl FnOnce(&mut GroupSettings)) {
    let mut settings = lawn.settings_of(group.as_bytes());
    change(&mut settings);
    lawn.set_group(group.as_bytes(), settings);
}

fn share(lawn: &mut Lawn, group: &str, share: u16) {
    set(lawn, group, |it| it.share = share);
}

/// Takes out all due elements, one at a time, and returns their ids.
fn taken(lawn: &mut Lawn, now: u64) -> String {
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
        assert_eq!((lawn.groups(), lawn.next_deadline()), (1, Some(9)));
        assert_eq!(taken(&mut lawn, 9), "c9");
        assert!(!lawn.has_groups());
    });
}

#[test]
fn a_look_tells_what_is_given_out_next_when_many_groups_are_passed_over() {
    let mut lawn = lawn();
    let groups = PASSED_MAX + 3;
    for number in 0..groups {
        for id in ["i", "j"] {
            put(&mut lawn, &format!("{id}{number}"), &format!("g{number}"), 7);
        }
    }
    // Each look lets some of them into the round, and takes one of two elements.
    (0..groups.div_ceil(WOKEN_MAX)).for_each(|_| drop(drained(&mut lawn, 8, 1)));
    put(&mut lawn, "due", "due", 5);
    // The clock has stepped back. One look passes over some of the groups alone.
    for _ in 0..3 {
        let next = lawn.next_in_turn(6).map(|row| row.element.id.to_vec());
        let taken = drained(&mut lawn, 6, 1).pop().map(|it| it.1);
        assert_eq!(next, taken);
        if taken.is_some() {
            return;
        }
    }
    panic!("one is due");
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
    assert!(element < 20.0, "{element:.1} bytes more for an element in a group");
    assert!(group < 130.0, "{group:.1} bytes for a group");
    let mut lawn = filled(COUNT);
    defrag(&mut lawn, 3);
    assert_eq!(drained(&mut lawn, COUNT, COUNT as usize - 10).len(), COUNT as usize - 10);
    while lawn.compact(64) {}
    lawn.check();
    assert_eq!((lawn.groups(), lawn.len()), (10, 10));
    assert!(lawn.memory() < 700_000, "{} bytes for ten groups", lawn.memory());
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

fn held(lawn: &mut Lawn, group: &str, held: u64) {
    set(lawn, group, |it| it.limits.held = held);
}

fn each(lawn: &mut Lawn, held: u64) {
    lawn.set_each_group(GroupLimits { held, ..GroupLimits::NONE });
}

/// Leases an element for 10 ms. Returns its id.
fn leased(lawn: &mut Lawn, now: u64) -> Option<String> {
    let (_, element) = lawn.lease_due(now, 10, Token::new(1))?;
    let id = String::from_utf8(element.id.to_vec()).expect("text");
    lawn.check();
    Some(id)
}

fn all_leased(lawn: &mut Lawn, now: u64) -> String {
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

#[test]
fn a_lower_limit_holds_at_once_and_a_higher_one_after_a_few_looks() {
    const GROUPS: usize = 3 * VISITED_MAX;
    let mut lawn = lawn();
    for number in 0..4 * GROUPS {
        put(&mut lawn, &format!("{number}"), &format!("g{}", number % GROUPS), 1);
    }
    let lease = |lawn: &mut Lawn, now| {
        let mut count = 0;
        // A look that passes over many groups may find nothing.
        for _ in 0..2 * GROUPS {
            count += usize::from(lawn.lease_due(now, 1000, Token::new(1)).is_some());
        }
        lawn.check();
        count
    };
    each(&mut lawn, 2);
    assert_eq!(lease(&mut lawn, 5), 2 * GROUPS);
    each(&mut lawn, 3);
    // All groups are in the round again, and none of them has room any more.
    assert_eq!(drained(&mut lawn, 5, 1).len(), 1);
    each(&mut lawn, 1);
    assert_eq!(lease(&mut lawn, 5), 0);
    each(&mut lawn, 3);
    for _ in 0..=GROUPS / VISITED_MAX {
        assert_eq!(lawn.next_deadline(), Some(1));
        lawn.settle_first();
    }
    assert_eq!(lease(&mut lawn, 5), GROUPS);
    assert_eq!(lawn.settle_first(), Some(1005));
    each(&mut lawn, 0);
    while lease(&mut lawn, 6) > 0 {}
    assert_eq!((lawn.running(6), lawn.len()), (4 * GROUPS - 1, 4 * GROUPS - 1));
}

#[test]
fn a_group_that_may_give_is_announced_behind_many_that_may_not() {
    const GROUPS: usize = 4 * PASSED_MAX;
    let mut lawn = lawn();
    for number in 0..3 * GROUPS {
        put(&mut lawn, &format!("{number}"), &format!("g{}", number % GROUPS), 1);
    }
    // All groups enter the round. Then each gives two elements.
    (0..GROUPS).for_each(|_| lawn.pass_turn(5));
    let mut last = Vec::new();
    for _ in 0..2 * GROUPS {
        let (_, given) = lawn.lease_due(5, 1000, Token::new(1)).expect("all have something");
        last = given.id.to_vec();
    }
    lawn.stop(&last).expect("it is there");
    each(&mut lawn, 2);
    let mut looks = 0;
    while lawn.settle_first().is_some_and(|deadline| deadline <= 5) {
        looks += 1;
        lawn.lease_due(5, 1000, Token::new(1));
        lawn.check();
    }
    assert_eq!(lawn.running(5), 2 * GROUPS, "after {looks} looks");
}

#[test]
fn a_mass_of_leases_that_end_makes_room_in_steps() {
    let mut lawn = lawn();
    for number in 0..3000 {
        put(&mut lawn, &format!("{number}"), "a", 1);
    }
    while lawn.lease_due(1, 10, Token::new(1)).is_some() {}
    held(&mut lawn, "a", 2);
    lawn.check();
    let next = lawn.next_deadline().expect("there are elements");
    assert!(next <= 11 && lawn.next_in_turn(10).is_none());
    let mut looks = 0;
    while lawn.lease_due(11, 10, Token::new(2)).is_none() {
        assert!(looks < 3000 / 200 && lawn.next_deadline() == Some(11));
        looks += 1;
    }
    assert!(looks > 3000 / 300, "{looks} looks");
    lawn.check();
    assert!(lawn.lease_due(11, 10, Token::new(2)).is_some());
    assert!(lawn.lease_due(11, 10, Token::new(2)).is_none());
    assert_eq!(lawn.next_deadline(), Some(21));
}
