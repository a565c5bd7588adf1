//! RATE of groups: the maximum number of elements that each gives out in any window.

use redis::{Connection, Value};

use super::{ids, limits_of, limits_of_each, map, push};
use crate::sleeper::Sleeper;
use harness::{Ask, Server, until};

fn step(client: &mut Connection, ms: i64) {
    assert_eq!(client.ask(&format!("DEHYDRATOR.DEBUG k CLOCK {ms}")), Value::Okay);
}

/// Takes up to `count` elements, and returns their ids.
fn taken(client: &mut Connection, count: usize) -> String {
    ids(&client.ask(&format!("DEHYDRATOR.POLL k COUNT {count} WITHIDS"))).join(" ")
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

#[test]
fn each_group_gives_out_at_most_its_rate_in_any_window_and_delays_no_other() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 2 PER 3600000");
    client.ask("DEHYDRATOR.LIMIT k GROUP b RATE 1 PER 7200000");
    assert_eq!(limits_of_each(&mut client), [0, 0, 2, 3_600_000]);
    assert_eq!(limits_of(&mut client, "b"), [1, 0, 0, 1, 7_200_000]);
    let shown = map(&mut client, "INFO k GROUP a");
    assert_eq!((shown["rate-limit"], shown["rate-per"]), (Some(2), Some(3_600_000)));
    push(&mut client, "a1 a2 a3 a4 b1 b2 b3 -1 -2 -3 c1");
    step(&mut client, MINUTE);
    assert_eq!(taken(&mut client, 20), "a1 b1 -1 c1 a2 -2 -3");
    assert_eq!(taken(&mut client, 20), "");
    step(&mut client, HOUR + MINUTE - 1000);
    assert_eq!(taken(&mut client, 20), "");
    step(&mut client, HOUR + 2 * MINUTE);
    assert_eq!(taken(&mut client, 20), "a3 a4");
    // The last element has gone, and what the group gave out counts.
    push(&mut client, "a5 c2 c3");
    assert_eq!(taken(&mut client, 20), "c2 c3");
    // A later limit counts what was given out before.
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 3 PER 3600000");
    assert_eq!(taken(&mut client, 20), "a5");
    client.ask("DEHYDRATOR.LIMIT k GROUP b RATE 0");
    assert_eq!(taken(&mut client, 20), "b2 b3");
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 0");
    push(&mut client, "a6 a7 a8 a9");
    assert_eq!(taken(&mut client, 20), "a6 a7 a8 a9");
}

#[test]
fn a_sleeper_wakes_when_the_first_group_may_give_again() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 1 PER 300");
    let sleepers: Vec<_> = (0..3)
        .map(|_| Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 60000 COUNT 1 LEASE 600000"))
        .collect();
    let begun = std::time::Instant::now();
    push(&mut client, "a1 a2 b1");
    let mut given: Vec<_> = sleepers.into_iter().map(|it| ids(&it.reply()).join(" ")).collect();
    assert!(begun.elapsed().as_millis() >= 250, "{:?}", begun.elapsed());
    given.sort();
    assert_eq!(given, ["a1", "a2", "b1"]);
}

#[test]
fn deliveries_respect_the_rate_of_each_group_but_not_what_it_may_hold() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    step(&mut client, 0);
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 2 PER 3600000 HELD 1");
    push(&mut client, "a1 a2 a3 a4 b1");
    assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k COUNT 9 LEASE 500000")), ["a1", "b1"]);
    push(&mut client, "b2 b3 c1 -1");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let delivered = |client: &mut Connection, count| {
        until("they are delivered", || (client.ask("XLEN s") == Value::Int(count)).then_some(()));
    };
    delivered(&mut client, 4);
    assert_eq!(map(&mut client, "INFO k GROUP a")["length"], Some(3));
    step(&mut client, HOUR + 1000);
    // With what was held: its lease is over.
    delivered(&mut client, 8);
    step(&mut client, 2 * HOUR + 2000);
    delivered(&mut client, 9);
    // What is dropped does not count.
    push(&mut client, "a5 a6 a7 a8");
    client.ask("DEHYDRATOR.ONDUE k DROP");
    until("all are dropped", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
}

#[test]
fn a_limit_that_is_set_after_the_policy_is_as_one_that_was_set_before_it() {
    let (_server, mut client) = Server::with_client(&[]);
    for to in ["DROP", "STREAM s"] {
        client.ask(&format!("DEHYDRATOR.ONDUE k {to}"));
        let limit = if to == "DROP" { "RATE 1 PER 3600000" } else { "HELD 1" };
        client.ask(&format!("DEHYDRATOR.LIMIT k EACH {limit}"));
        client.ask("DEHYDRATOR.EFFECT k P0@99999999999999,delivered=1,token=7 held a0 a");
        push(&mut client, "a1 a2 a3");
        until(to, || (client.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(()));
        client.ask("DEL k");
    }
}

#[test]
fn a_clock_that_steps_back_delays_no_group() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 1 PER 1000");
    step(&mut client, 10 * HOUR);
    for (at, id) in (1..).zip(["a1", "a2", "b1", "b2"]) {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id} AT {at} GROUP {}", &id[..1]));
    }
    assert_eq!(taken(&mut client, 9), "a1 b1");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 60000 COUNT 1 WITHIDS");
    // Ten hours back: what was given out counts as of now.
    step(&mut client, 0);
    assert_eq!(ids(&sleeper.reply()), ["a2"]);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    until("the last is delivered", || (client.ask("XLEN s") == Value::Int(1)).then_some(()));
    for (id, at) in [("c1", 1), ("c2", 2)] {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id} AT {at} GROUP c"));
    }
    step(&mut client, 10 * HOUR);
    // On a busy machine, a second passes meanwhile, and the other is delivered as well.
    let delivered = |client: &mut Connection| matches!(client.ask("XLEN s"), Value::Int(2 | 3));
    until("one is delivered", || delivered(&mut client).then_some(()));
    step(&mut client, 0);
    until("the other, too", || (client.ask("XLEN s") == Value::Int(3)).then_some(()));
}

#[test]
fn after_the_clock_stepped_back_what_comes_due_first_is_delivered_first() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    // Groups may be held back.
    client.ask("DEHYDRATOR.LIMIT k GROUP c HELD 1");
    for (id, hours) in [("b1", 1), ("b2", 2), ("a1", 3)] {
        client.ask(&format!("DEHYDRATOR.PUSH k {} x {id} GROUP {}", hours * HOUR, &id[..1]));
    }
    step(&mut client, 4 * HOUR);
    assert_eq!(taken(&mut client, 1), "b1");
    // Group a, which is next, has something due later than group b.
    step(&mut client, 0);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    step(&mut client, 2 * HOUR + MINUTE);
    until("one is delivered", || (client.ask("XLEN s") == Value::Int(1)).then_some(()));
}

#[test]
fn what_groups_gave_out_is_forgotten_when_it_counts_no_more() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 1 PER 3600000");
    // A longer window of one does not keep the others.
    client.ask("DEHYDRATOR.LIMIT k GROUP 7 RATE 1 PER 86400000");
    let usage = |client: &mut Connection| match client.ask("MEMORY USAGE k") {
        Value::Int(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    step(&mut client, 0);
    for number in 0..3000 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {number} GROUP {number}"));
    }
    assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k COUNT 3000 WITHIDS")).len(), 3000);
    let before = usage(&mut client);
    step(&mut client, 2 * HOUR);
    until("the memory is free", || (usage(&mut client) < before / 4).then_some(()));
    assert_eq!(limits_of_each(&mut client), [0, 0, 1, 3_600_000]);
}
