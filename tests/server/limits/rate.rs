//! RATE: the maximum number of deliveries in any window.

use redis::{Connection, Value};

use super::{field, ids, limits, wait_for_ticks};
use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, texts, until};

fn step(client: &mut Connection, ms: i64) {
    assert_eq!(client.ask(&format!("DEHYDRATOR.DEBUG k CLOCK {ms}")), Value::Okay);
}

fn count(reply: &Value) -> usize {
    match reply {
        Value::Array(rows) => rows.len(),
        other => panic!("rows, and not {other:?}"),
    }
}

fn push(client: &mut Connection, key: &str, count: usize) {
    let mut push = redis::cmd("DEHYDRATOR.MPUSH");
    push.arg(key);
    (0..count).for_each(|id| {
        push.arg(0).arg("x").arg(id);
    });
    push.arg("NX");
    let _: Value = push.query(client).expect("numbers");
}

/// A window of an hour, with steps of minutes, so that the duration of the test does not matter.
const PER: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

#[test]
fn no_more_are_delivered_in_a_window_by_any_command() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask(&format!("DEHYDRATOR.LIMIT k RATE 5 PER {PER}"));
    push(&mut client, "k", 50);
    step(&mut client, MINUTE);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 2")), 2);
    step(&mut client, 10 * MINUTE);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 600000 TOKEN me")), 1);
    assert_eq!(field(&mut client, "k", "rate-room"), Value::Int(2));
    assert_eq!(count(&client.ask("DEHYDRATOR.MPOLL 1 k COUNT 1 WITHIDS")), 2);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 10")), 1);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 10")), 0);
    assert_eq!(client.ask("DEHYDRATOR.MPOLL 1 k"), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 20"), Value::Array(vec![]));
    // Delivered elements can be requested again with their token.
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN me")), 1);
    // Taking by id is not a delivery.
    assert_eq!(client.ask("DEHYDRATOR.PULL k 40"), text("x"));
    // The first two leave the window, then the others.
    step(&mut client, PER + MINUTE - 1000);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 10")), 0);
    step(&mut client, PER + 2 * MINUTE);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 10")), 2);
    step(&mut client, PER + 11 * MINUTE);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 10")), 3);
    client.ask("DEHYDRATOR.LIMIT k RATE 7 PER 3600000");
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 10")), 2);
    client.ask("DEHYDRATOR.LIMIT k RATE 0");
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 10")), 10);
}

#[test]
fn a_blocked_client_wakes_when_the_next_delivery_is_allowed() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k RATE 2 PER 2000");
    push(&mut client, "k", 20);
    client.ask("CONFIG RESETSTAT");
    let sleepers: Vec<_> = (0..6)
        .map(|number| {
            let line = format!("DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000 TOKEN t{number}");
            let mut client = server.connect();
            std::thread::spawn(move || {
                let reply: Value = cmd(&line).query(&mut client).expect("a reply");
                count(&reply)
            })
        })
        .collect();
    sleepers.into_iter().for_each(|sleeper| assert_eq!(sleeper.join().expect("no panic"), 1));
    // The server's clock: each lease ends ten minutes after its delivery.
    type Row = (String, u64, u64, u64, u64);
    let (_, rows): (Value, Vec<Row>) =
        cmd("DEHYDRATOR.RANGE k - + COUNT 20").query(&mut client).expect("rows");
    let times: Vec<u64> = rows[14..].iter().map(|row| row.1).collect();
    for (earlier, later) in times.iter().zip(&times[2..]) {
        assert!(*later >= *earlier + 2000, "{times:?}");
    }
    // Elements that RATE holds back are not late: the last ones waited for 4 s.
    let late = server.info("dehydrator", "dehydrator_lateness_max_us");
    assert!(late < 1_900_000, "{late} us");
}

#[test]
fn deliveries_respect_the_rate_but_dead_letters_and_drops_do_not() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k RATE 3 PER 400");
    client.ask("DEHYDRATOR.ONDUE k STREAM s MAXLEN = 1000");
    client.ask("CONFIG RESETSTAT");
    push(&mut client, "k", 10);
    until("all are delivered", || (client.ask("XLEN s") == Value::Int(10)).then_some(()));
    let entries: Vec<(String, Value)> = cmd("XRANGE s - +").query(&mut client).expect("entries");
    let ms = |id: &str| id.split('-').next().expect("ms").parse::<u64>().expect("a number");
    let times: Vec<u64> = entries.iter().map(|(id, _)| ms(id)).collect();
    for (earlier, later) in times.iter().zip(&times[3..]) {
        // The id of an entry is read from the clock a moment after the time of the batch.
        assert!(later + 20 >= earlier + 400, "{times:?}");
    }
    let late = server.info("dehydrator", "dehydrator_lateness_max_us");
    assert!(late < 350_000, "{late} us");

    client.ask("DEHYDRATOR.LIMIT d RATE 1 PER 600000");
    client.ask("DEHYDRATOR.ONDUE d DROP");
    push(&mut client, "d", 10);
    until("all are dropped", || (client.ask("DEHYDRATOR.LEN d") == Value::Int(0)).then_some(()));
    client.ask("DEHYDRATOR.ONDUE d HOLD DELIVERIES 1 STREAM dead");
    client.ask("DEHYDRATOR.LIMIT d RATE 4 PER 600000");
    push(&mut client, "d", 4);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL d LEASE 1")), 4);
    until("they are dead", || (client.ask("XLEN dead") == Value::Int(4)).then_some(()));
}

#[test]
fn failovers_crashes_and_copies_preserve_the_counted_deliveries() {
    let mut server = Server::start_with_port(&["--appendonly", "yes", "--appendfsync", "always"]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&server);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k RATE 5 PER 600000");
    push(&mut client, "k", 50);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 2")), 2);
    client.ask("MULTI");
    client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 600000");
    assert_eq!(count(&client.ask("EXEC")), 1);
    let mut eval = redis::cmd("EVAL");
    eval.arg("return redis.call('DEHYDRATOR.POLL', KEYS[1], 'COUNT', 1)").arg(1).arg("k");
    let _: Value = eval.query(&mut client).expect("one");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL held-back BLOCK 0");
    client.ask("DEHYDRATOR.LIMIT held-back RATE 1 PER 600000");
    client.ask("DEHYDRATOR.MPUSH held-back 0 x a 0 x b");
    assert_eq!(sleeper.reply(), texts(&["x"]));
    for key in ["k", "held-back"] {
        let digest = client.digest(key);
        let mut there = replica.connect();
        until("the replica is the same", || (there.digest(key) == digest).then_some(()));
    }
    assert_eq!(client.ask("COPY k copy"), Value::Int(1));
    let dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
    let _: Value =
        redis::cmd("RESTORE").arg("restored").arg(0).arg(dump).query(&mut client).expect("OK");
    client.ask("RENAME k renamed");
    for key in ["copy", "restored", "renamed"] {
        assert_eq!(field(&mut client, key, "rate-room"), Value::Int(1), "{key}");
    }
    let digest = client.digest("renamed");
    for rewrites in [false, true] {
        if rewrites {
            client.ask("CONFIG SET aof-use-rdb-preamble no");
            client.rewrite_aof();
        }
        server.crash_and_restart();
        client = server.connect();
        assert_eq!(client.digest("renamed"), digest, "rewritten: {rewrites}");
        assert_eq!(client.ask("DEHYDRATOR.POLL held-back"), texts(&[]));
    }
    // The replica that was promoted.
    let mut there = replica.connect();
    there.ask("REPLICAOF NO ONE");
    assert_eq!(count(&there.ask("DEHYDRATOR.POLL renamed COUNT 10")), 1);
    assert_eq!(count(&there.ask("DEHYDRATOR.POLL renamed COUNT 10")), 0);
}

#[test]
fn a_clock_that_steps_back_delays_no_client() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k RATE 2 PER 60000");
    client.ask("DEHYDRATOR.PUSH k 0 x a AT 1");
    for id in ["b", "c", "d", "e", "f"] {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id} AT 1"));
    }
    step(&mut client, 10 * PER);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 5")), 2);
    // Ten hours back: earlier deliveries count as of now, and leave the window a minute later.
    step(&mut client, 0);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 5")), 0);
    step(&mut client, MINUTE / 2);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 5")), 0);
    step(&mut client, 2 * MINUTE);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 5")), 2);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 5")), 0);
    assert_eq!(limits(&mut client, "k"), [0, 0, 2, 60_000, 0]);
}

#[test]
fn a_clock_that_steps_back_delays_no_delivery() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    step(&mut client, 10 * PER);
    client.ask("DEHYDRATOR.LIMIT k RATE 1 PER 1000");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b 0 x c AT 1");
    until("the first is delivered", || (client.ask("XLEN s") == Value::Int(1)).then_some(()));
    // Ten hours back: the next delivery was scheduled by the old clock.
    step(&mut client, 0);
    until("all are delivered", || (client.ask("XLEN s") == Value::Int(3)).then_some(()));
}

#[test]
fn a_request_beyond_the_rate_gets_the_rest_and_the_queue_proceeds() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k RATE 3 PER 600000 HELD 100");
    let greedy = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 2 LEASE 600000");
    let next = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 2 LEASE 600000");
    let last = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 300 COUNT 2 LEASE 600000");
    push(&mut client, "k", 10);
    assert_eq!(ids(&greedy.reply()), ["0", "1"]);
    assert_eq!(ids(&next.reply()), ["2"]);
    assert_eq!(last.reply(), Value::Array(vec![]));
    wait_for_ticks(&server);
    assert_eq!(waiters(&server), 0);
    client.ask("DEHYDRATOR.EFFECT k G1@1");
    assert_eq!(client.ask("DEHYDRATOR.EFFECT none G1@1"), Value::Int(0));
}

#[test]
fn a_planned_failover_hands_over_deliveries_and_leases() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.LIMIT k RATE 4 PER 600000 HELD 2");
    push(&mut client, "k", 10);
    assert_eq!(count(&client.ask("DEHYDRATOR.POLL k COUNT 5 LEASE 600000 TOKEN me")), 2);
    let sleeper = Sleeper::start(&primary, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1");
    let digest = client.digest("k");
    let mut there = replica.connect();
    until("the replica is the same", || (there.digest("k") == digest).then_some(()));
    client.ask("FAILOVER");
    assert!(sleeper.error().contains("UNBLOCKED"));
    let is_primary = |client: &mut Connection| {
        let Value::Array(role) = client.ask("ROLE") else { panic!("a role") };
        role[0] == text("master")
    };
    until("the other one is the primary", || is_primary(&mut there).then_some(()));
    until("the failover is done", || (!is_primary(&mut client)).then_some(()));
    assert_eq!(count(&there.ask("DEHYDRATOR.POLL k COUNT 5")), 0, "two are held");
    there.ask("DEHYDRATOR.SETTLE k me 0 me 1");
    assert_eq!(count(&there.ask("DEHYDRATOR.POLL k COUNT 5 LEASE 600000")), 2);
    assert_eq!(count(&there.ask("DEHYDRATOR.POLL k COUNT 5 LEASE 600000")), 0);
    assert_eq!(field(&mut there, "k", "rate-room"), Value::Int(0));
}

/// Anyone who may write can send GIVEN: extreme numbers must be saved and loaded.
#[test]
fn extreme_numbers_are_saved_and_loaded() {
    const MAX: u64 = u64::MAX >> 1;
    let (mut server, mut client) =
        Server::with_client(&["--appendonly", "yes", "--save", "3600 1"]);
    let given = [("late", 2000, MAX, 1), ("many", 100, 5, MAX), ("more", 100, 5, MAX)];
    for (key, per, moment, count) in given {
        client.ask(&format!("DEHYDRATOR.LIMIT {key} RATE 3 PER {per}"));
        for _ in 0..2 {
            client.ask(&format!("DEHYDRATOR.EFFECT {key} G{moment}@{count}"));
        }
    }
    client.ask(&format!("DEHYDRATOR.EFFECT more G7@{MAX}"));
    for key in ["late", "many", "more"] {
        let dump: Vec<u8> = cmd(&format!("DUMP {key}")).query(&mut client).expect("a payload");
        let mut restore = redis::cmd("RESTORE");
        restore.arg(format!("{key}-again")).arg(0).arg(dump);
        restore.exec(&mut client).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    for rewrite in [false, true] {
        if rewrite {
            client.ask("CONFIG SET aof-use-rdb-preamble no");
            client.rewrite_aof();
        }
        server.restart();
        client = server.connect();
        assert_eq!(client.ask("DBSIZE"), Value::Int(6));
        assert_eq!(limits(&mut client, "late"), [0, 0, 3, 2000, 0]);
    }
}
