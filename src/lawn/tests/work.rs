//! The most work that one call does, whatever the load, the size of the lawn and its groups; and what groups take.

use std::collections::BTreeMap;

use super::super::work::{self, Work};
use super::groups::{
    FIT_STEPS_MAX, STEPS_MAX, each, fill, lease_all, put, taken, work as steps_of,
};
use super::*;

/// Returns a number below 2^24 that looks random.
fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// A lawn, and the most of each kind of work that a call of each method did.
struct Measured {
    lawn: Lawn,
    most: BTreeMap<&'static str, Work>,
}

impl Measured {
    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut Lawn) -> T) -> T {
        let (returned, done) = work::of(|| call(&mut self.lawn));
        let most = self.most.entry(name).or_default();
        *most = Work {
            buckets: most.buckets.max(done.buckets),
            records: most.records.max(done.records),
            moved: most.moved.max(done.moved),
            steps: most.steps.max(done.steps),
        };
        returned
    }
}

/// Does what users do to a lawn of `count` elements: fills it, changes half of it, lets it come due, and gives the memory
/// back. `deadline` and `ttl` are those of each element, and `group` its group.
fn life(
    count: u64,
    deadline: impl Fn(u64) -> u64,
    ttl: impl Fn(u64) -> u64,
    group: impl Fn(u64) -> Option<u64>,
) -> BTreeMap<&'static str, Work> {
    let mut it = Measured { lawn: lawn(), most: BTreeMap::new() };
    let id = |number: u64| number.to_be_bytes();
    for number in 0..count {
        let (id, group) = (id(number), group(number).map(u64::to_be_bytes));
        let new = Element::new(&id, &[0; 64], deadline(number));
        it.call("start", |lawn| {
            lawn.start_in_group(ttl(number), &new, group.as_ref().map(|name| &name[..]))
        })
        .expect("room");
        it.call("refresh_first", Lawn::refresh_first);
    }
    let mut cursor = 0;
    for number in 0..count {
        let again = mixed(number) % count;
        it.call("look", |lawn| lawn.look(&id(again)).is_some());
        it.call("first", |lawn| lawn.next_deadline());
        cursor = it.call("scan", |lawn| lawn.scan(cursor, 10, |_| {}));
        match number % 8 {
            0 => _ = it.call("update", |lawn| lawn.update(&id(again), &[1; 100]).is_ok()),
            1 | 2 => {
                let deadline = deadline(again) + number % 1000;
                it.call("restart_at", |lawn| lawn.restart_at(&id(again), ttl(again), deadline));
            }
            3 | 4 => {
                let (ttl, token) = (1 + ttl(again), Token::new(1 + number % 3));
                it.call("lease_due", |lawn| lawn.lease_due(1 << 30, ttl, token).is_some());
            }
            5 => _ = it.call("rows", |lawn| lawn.rows(Start::FIRST, DEADLINE_MAX).next().is_some()),
            6 => _ = it.call("running", |lawn| lawn.running(deadline(again))),
            _ => _ = it.call("stop", |lawn| lawn.stop(&id(again)).is_some()),
        }
    }
    it.lawn.check();
    let mut number = 0;
    while !it.lawn.is_empty() {
        number += 1;
        if number % 2 == 0 {
            it.call("drain", |lawn| lawn.drain(DEADLINE_MAX, 1, |_, _| {}));
        } else {
            it.call("stop", |lawn| lawn.stop(&id(mixed(number) % count)).is_some());
        }
        it.call("compact", |lawn| lawn.compact(1));
    }
    it.most
}

/// The bounds of each call that the module's *Costs* promise. A split reads the 512 buckets of a table
/// three times, and the names of groups have an index of their own.
const MOVED_MAX: usize = 64 * 1024;
const RECORDS_MAX: usize = 3 * 64;
const BUCKETS_MAX: usize = 7 * 512;

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn no_call_does_more_than_is_documented_whatever_the_load() {
    const COUNT: u64 = 60_000;
    let in_queues = |number: u64| 1 + number % 8;
    let lives = [
        ("queues", life(COUNT, |number| number, in_queues, |_| None)),
        ("a thousand TTLs", life(COUNT, |number| number, |number| mixed(number) % 1000, |_| None)),
        ("the timeline", life(COUNT, mixed, |number| 1000 + number, |_| None)),
        ("one millisecond", life(COUNT, |_| 7, |number| 1000 + number, |_| None)),
        ("groups", life(COUNT, |number| number, in_queues, |number| Some(number % 500))),
        ("a group each", life(COUNT / 4, mixed, in_queues, Some)),
    ];
    for (load, most) in &lives {
        for (name, Work { buckets, records, moved, .. }) in most {
            println!("{load}, {name}: {buckets} buckets, {records} records, {moved} bytes");
        }
    }
    for (load, most) in lives {
        for (name, work) in most {
            let is_bounded = work.buckets <= BUCKETS_MAX
                && work.records <= RECORDS_MAX
                && work.moved <= MOVED_MAX;
            assert!(is_bounded, "{load}, {name}: {work:?}");
        }
    }
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_scan_reads_each_bucket_about_once() {
    let mut lawn = lawn();
    let count = 20_000;
    start_numbered(&mut lawn, 0..count, 10, 0);
    let (_, all) = work::of(|| lawn.scan(0, usize::MAX, |_| {}));
    assert!(all.buckets < count as usize / 4, "{all:?}");
    for some in [1, 10, 100, 1000] {
        let (mut cursor, mut buckets, mut calls) = (0, 0, 0);
        loop {
            let mut shown = 0;
            let (next, done) = work::of(|| lawn.scan(cursor, some, |_| shown += 1));
            assert!(shown < 2 * some + 30, "{shown} shown, {some} wanted");
            assert!(done.buckets < some / 2 + 128, "{done:?} for {some} elements");
            (cursor, buckets, calls) = (next, buckets + done.buckets, calls + 1);
            if cursor == 0 {
                break;
            }
        }
        // A call begins in a bucket that the one before it has read, and looks for entries that passed a full one.
        assert!(buckets <= all.buckets + 8 * calls, "{buckets} in {calls} calls of {some}");
    }
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
        bounded("LIMIT EACH", FIT_STEPS_MAX, steps_of(change).1);
        for _ in 0..100 {
            let (next, steps) = steps_of(|| lawn.lease_due(5, 1_000_000, Token::new(1)).is_some());
            assert!(next);
            bounded("POLL", STEPS_MAX, steps);
            bounded("TTN", STEPS_MAX, steps_of(|| lawn.next_deadline()).1);
            bounded("a pass", FIT_STEPS_MAX, steps_of(|| fit_groups(&mut lawn)).1);
        }
    }
    // One command for many, and as many clients that sleep, while a change is on its way: each element costs the same.
    for held in [1, 2] {
        lawn.set_each_group(limits(held, 0));
        let one = |lawn: &mut Lawn| lawn.lease_due(6, 1_000_000, Token::new(1)).is_some();
        let (given, steps) = steps_of(|| (0..1000).filter(|_| one(&mut lawn)).count());
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
    let ((), steps) = steps_of(|| {
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
            let (goes_on, steps) = steps_of(|| fit_groups(lawn));
            assert!(steps < FIT_STEPS_MAX, "{what}: {steps} steps");
            if !goes_on {
                return calls;
            }
            calls += 1;
        }
    };
    let ((), steps) = steps_of(|| each(&mut lawn, 150));
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
    let ((), steps) = steps_of(|| lawn.set_each_group(rate(1000)));
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
        let (ids, steps) = steps_of(|| {
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
        let (goes_on, steps) = steps_of(|| lawn.compact(32));
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
        let (goes_on, steps) = steps_of(|| lawn.compact(32));
        most = most.max(steps);
        goes_on
    } {}
    assert!(most < 5000, "{most} steps");
    lawn.check();
    assert_eq!((lawn.group_count(), lawn.group_len(Some(b"g5000"))), (1, 5001));
}
