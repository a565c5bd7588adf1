//! The most work that one call does, whatever the load and however large the lawn.

use std::collections::BTreeMap;

use super::super::work::{self, Work};
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
            let (next, done) = work::of(|| lawn.scan(cursor, some, |_| {}));
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
