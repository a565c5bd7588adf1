//! Lateness counts from the moment when an element could have been on time.

mod alerts;
mod counts;
mod oldest;
mod polled;
mod spaced;

use redis::{Connection, Value};

use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, texts, until};

/// Microseconds: far less than an error would add, and more than any machine that runs the tests takes.
const MINUTE: u64 = 60_000_000;

fn late(server: &Server, which: &str) -> u64 {
    server.info("dehydrator", &format!("dehydrator_lateness_{which}_us"))
}

fn all_is_in_time(server: &Server, what: &str) {
    all_is_less_late_than(MINUTE, server, what);
}

fn all_is_less_late_than(limit: u64, server: &Server, what: &str) {
    for which in ["last", "p50", "p99", "p999", "max"] {
        assert!(late(server, which) < limit, "{what}: {which} is {}", late(server, which));
    }
}

/// Returns the server's time in microseconds since the epoch.
fn time(client: &mut Connection) -> u64 {
    let (seconds, microseconds): (u64, u64) = cmd("TIME").query(client).expect("the time");
    seconds * 1_000_000 + microseconds
}

/// Waits until elements that existed at that time are long overdue by the server's clock, and returns for how long.
fn overdue(client: &mut Connection, since: u64) -> u64 {
    until("it is overdue for long", || {
        Some(time(client).saturating_sub(since)).filter(|overdue| *overdue > 1_500_000)
    })
}

fn emptied(client: &mut Connection, key: &str) {
    until(&format!("{key} is empty"), || {
        (client.ask(&format!("DEHYDRATOR.LEN {key}")) == Value::Int(0)).then_some(())
    });
}

#[test]
fn an_element_pushed_with_a_past_deadline_is_not_late() {
    let (server, mut client) = Server::with_client(&[]);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL w BLOCK 0");
    client.ask("DEHYDRATOR.PUSH w 0 x old AT 10");
    assert_eq!(sleeper.reply(), texts(&["x"]));
    all_is_in_time(&server, "a push with AT");

    client.ask("DEHYDRATOR.PUSH w 600000 x id");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL w BLOCK 0");
    client.ask("DEHYDRATOR.TOUCH w 5 AT 10 id");
    assert_eq!(sleeper.reply(), texts(&["x"]));
    all_is_in_time(&server, "a touch with AT");

    client.ask("DEHYDRATOR.ONDUE d DROP");
    client.ask("DEHYDRATOR.PUSH d 0 x old AT 10");
    emptied(&mut client, "d");
    all_is_in_time(&server, "a push with AT and a policy");
}

#[test]
fn an_overdue_element_is_not_late_when_a_policy_is_set() {
    let (server, mut client) = Server::with_client(&[]);
    for (key, policy) in
        [("a", "DROP"), ("b", "STREAM s"), ("l", "LIST t"), ("c", "PUBLISH channel")]
    {
        for id in 0..300 {
            client.ask(&format!("DEHYDRATOR.PUSH {key} 0 x {id} AT {}", 10 + id));
        }
        client.ask(&format!("DEHYDRATOR.ONDUE {key} {policy}"));
        emptied(&mut client, key);
        all_is_in_time(&server, policy);
    }
}

#[test]
fn an_overdue_element_is_not_late_when_its_key_arrives_in_another_way() {
    let (server, mut client) = Server::with_client(&[]);
    for id in 0..10 {
        client.ask(&format!("DEHYDRATOR.PUSH other 0 x {id} AT 10"));
    }
    for way in ["COPY other k", "RENAME other k"] {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        client.ask(way);
        sleeper.reply();
        all_is_in_time(&server, way);
    }
}

#[test]
fn a_clock_that_steps_ahead_makes_nothing_late() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE d DROP");
    client.ask("DEHYDRATOR.PUSH d 600000 x id");
    client.ask("DEHYDRATOR.PUSH k 600000 x id");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    server.shift_clock(3_600_000);
    assert_eq!(sleeper.reply(), texts(&["x"]));
    emptied(&mut client, "d");
    all_is_in_time(&server, "a step of an hour");
}

#[test]
fn an_announced_overdue_element_is_not_late_when_a_policy_is_set() {
    let (server, mut client) = Server::with_client(&["--notify-keyspace-events", "KEA"]);
    client.ask("DEHYDRATOR.PUSH k 0 x id");
    let since = time(&mut client);
    let overdue = overdue(&mut client, since);
    client.ask("DEHYDRATOR.ONDUE k DROP");
    emptied(&mut client, "k");
    all_is_less_late_than(overdue, &server, "a policy, with events on");
}

#[test]
fn an_element_overdue_at_promotion_is_not_late() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("SET s text");
    for id in 0..10 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id}"));
    }
    replica.follow(&primary);
    let mut other = replica.connect();
    until("it is there", || (other.ask("DEHYDRATOR.LEN k") == Value::Int(10)).then_some(()));
    let since = time(&mut other);
    let overdue = overdue(&mut other, since);
    drop(primary);
    other.ask("REPLICAOF NO ONE");
    other.ask("DEL s");
    emptied(&mut other, "k");
    // It failed only as long as the stream had another type: not for long.
    all_is_less_late_than(overdue, &replica, "a promotion");
}

#[test]
fn resetting_the_server_statistics_resets_ours() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE d STREAM s");
    client.ask("SET s text");
    client.ask("DEHYDRATOR.PUSH d 0 x id");
    let counts = ["pushes", "pulls", "polls", "redeliveries", "deliveries", "retries"];
    let count = |field: &str| server.info("dehydrator", &format!("dehydrator_{field}"));
    until("it has failed", || (count("retries") > 0).then_some(()));
    client.ask("DEL s");
    emptied(&mut client, "d");
    client.ask("DEHYDRATOR.PUSH k 0 x a");
    client.ask("DEHYDRATOR.PUSH k 0 x b");
    client.ask("DEHYDRATOR.PULL k a");
    client.ask("DEHYDRATOR.POLL k LEASE 1");
    until("the lease is over", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
    client.ask("DEHYDRATOR.POLL k LEASE 600000");
    for _ in 0..5 {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL w BLOCK 0");
        client.ask("DEHYDRATOR.PUSH w 2 x id");
        sleeper.reply();
    }
    until("a tick took some time", || (count("tick_longest_us") > 0).then_some(()));
    for field in counts {
        assert!(count(field) > 0, "{field}");
    }
    let longest = count("tick_longest_us");
    client.ask("CONFIG RESETSTAT");
    until("all is 0", || {
        let is_zero = |field: &&str| count(field) == 0;
        let late = ["last", "p50", "p99", "p999", "max"].map(|which| late(&server, which));
        (counts.iter().all(is_zero) && late == [0; 5]).then_some(())
    });
    // Counters restart from there. The elements stay.
    assert!(count("tick_longest_us") <= longest);
    assert_eq!(count("given_out"), 1);
    client.ask("DEHYDRATOR.PUSH k 0 x c");
    assert_eq!(count("pushes"), 1);
}
