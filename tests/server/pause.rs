//! PAUSE: nothing is delivered, and everything else continues.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, texts, until};

/// Returns the fields of INFO about a pause.
fn paused(client: &mut Connection, key: &str) -> (bool, Option<u64>) {
    let mut info: HashMap<String, Value> =
        cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    let mut of = |name: &str| info.remove(name).unwrap_or_else(|| panic!("no {name}"));
    let is_paused = of("paused") == Value::Int(1);
    let end = redis::from_redis_value(of("paused-until")).expect("a number or nil");
    (is_paused, end)
}

fn count(server: &Server) -> u64 {
    server.info("dehydrator", "dehydrator_paused")
}

/// Waits for a few ticks, in which the server could do what it must not.
fn wait_for_ticks(server: &Server) {
    let ticks = || server.info("dehydrator", "dehydrator_ticks");
    let before = ticks();
    until("ticks went by", || (ticks() > before + 2).then_some(()));
}

#[test]
fn a_pause_stops_deliveries_and_nothing_else() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.MPUSH k 0 element a 0 element b 0 element c 0 element d");
    client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 1");
    assert_eq!(paused(&mut client, "k"), (false, None));
    assert_eq!(client.ask("DEHYDRATOR.PAUSE k"), Value::Okay);
    assert_eq!((paused(&mut client, "k"), count(&server)), ((true, None), 1));
    for options in ["", " COUNT 1", " LEASE 60000", " WITHIDS"] {
        assert_eq!(client.ask(&format!("DEHYDRATOR.POLL k{options}")), texts(&[]), "{options}");
    }
    assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 20"), Value::Array(vec![]));
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&[]));
    client.ask("MULTI");
    client.ask("DEHYDRATOR.POLL k BLOCK 0");
    assert_eq!(client.ask("EXEC"), Value::Array(vec![texts(&[])]));
    let mut eval = redis::cmd("EVAL");
    eval.arg("return redis.call('DEHYDRATOR.POLL', KEYS[1], 'BLOCK', 0)").arg(1).arg("k");
    assert_eq!(eval.query(&mut client), Ok(texts(&[])));

    // The time of the next delivery is unknown.
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.PTTL k a"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 0 element e"), Value::Okay);
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(5));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k e"), text("element"));
    assert_eq!(client.ask("DEHYDRATOR.XACK k a"), texts(&["element"]));
    assert_eq!(client.ask("DEHYDRATOR.PULL k b"), text("element"));
    assert_eq!(client.ask("DEHYDRATOR.REM k c"), Value::Int(1));
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k 0 d"), Value::Int(1));
    assert_eq!(client.ask("DEHYDRATOR.UPDATE k d other"), text("element"));

    assert_eq!(client.ask("DEHYDRATOR.RESUME k"), Value::Int(1));
    assert_eq!((paused(&mut client, "k"), count(&server)), ((false, None), 0));
    assert_eq!(client.ask("DEHYDRATOR.RESUME k"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.RESUME nowhere"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["e", "d"]));
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["element", "other"]));
    assert!(!client.exists("k"));
}

#[test]
fn a_blocked_client_stays_blocked_until_resume() {
    let (server, mut client) = Server::with_client(&[]);
    let before = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 WITHIDS");
    client.ask("DEHYDRATOR.PAUSE k");
    let after = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 WITHIDS");
    client.ask("DEHYDRATOR.PUSH k 0 element a");
    client.ask("DEHYDRATOR.PUSH k 5 element b");
    wait_for_ticks(&server);
    assert_eq!(waiters(&server), 2);
    assert!(!before.is_awake() && !after.is_awake());
    client.ask("CONFIG RESETSTAT");
    let start = Instant::now();
    client.ask("DEHYDRATOR.RESUME k");
    assert_eq!(before.reply(), Value::Array(vec![texts(&["a", "element"])]));
    assert_eq!(after.reply(), Value::Array(vec![texts(&["b", "element"])]));
    // Elements that could not be delivered before are not late.
    let took = start.elapsed().as_micros() as u64;
    let late = server.info("dehydrator", "dehydrator_lateness_max_us");
    assert!(late <= took, "{late} us late, though it was resumed {took} us ago");
    assert!(!client.exists("k"));
}

#[test]
fn a_pause_ends_by_itself_at_its_time_and_not_before() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE bound STREAM s");
    let start = Instant::now();
    for key in ["k", "bound"] {
        assert_eq!(client.ask(&format!("DEHYDRATOR.PAUSE {key} FOR 1500")), Value::Okay);
        client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element id"));
    }
    assert_eq!(count(&server), 2);
    let (is_paused, end) = paused(&mut client, "k");
    let time: Vec<u64> = cmd("TIME").query(&mut client).expect("the time");
    let now = time[0] * 1000 + time[1] / 1000;
    assert!(is_paused && end.is_some_and(|end| (now..=now + 1500).contains(&end)), "{end:?}");
    let Value::Int(next) = client.ask("DEHYDRATOR.TTN k") else { panic!("a number") };
    assert!((1..=1500).contains(&next), "{next}");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    let (reply, after) = sleeper.reply_after(start);
    assert_eq!(reply, texts(&["element"]));
    assert!(after >= Duration::from_millis(1499), "{after:?}");
    until("it is delivered", || (client.ask("XLEN s") == Value::Int(1)).then_some(()));
    let ids: Vec<(String, Value)> = cmd("XRANGE s - +").query(&mut client).expect("entries");
    let ms: u64 = ids[0].0.split('-').next().expect("an id").parse().expect("a number");
    assert!(ms >= end.expect("one") - 1000, "{ms}");
    assert!(start.elapsed() >= Duration::from_millis(1499));
    until("both are over", || (count(&server) == 0).then_some(()));
    assert_eq!(paused(&mut client, "k"), (false, None));
    // Even if nobody waits.
    client.ask("DEHYDRATOR.PAUSE empty FOR 50");
    assert!(client.exists("empty"));
    until("an empty one goes", || (!client.exists("empty")).then_some(()));
    // A new end replaces the previous one.
    client.ask("DEHYDRATOR.PAUSE k FOR 600000");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    client.ask("DEHYDRATOR.PAUSE k FOR 20");
    assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 0"), texts(&["element"]));
}

#[test]
fn dead_letters_and_all_other_deliveries_wait_for_the_end_of_a_pause() {
    let (server, mut client) = Server::with_client(&[]);
    for (policy, push) in [
        ("STREAM s", "PUSH k 0 element id"),
        ("LIST s", "PUSH k 0 element id"),
        ("HOLD DELIVERIES 1 STREAM s", "EFFECT k P0@5,delivered=1 element id"),
    ] {
        client.ask("FLUSHALL");
        client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
        client.ask("DEHYDRATOR.PAUSE k");
        client.ask(&format!("DEHYDRATOR.{push}"));
        client.ask("DEHYDRATOR.POLL k");
        wait_for_ticks(&server);
        assert!(!client.exists("s"), "{policy}");
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
        client.ask("DEHYDRATOR.RESUME k");
        let length = if policy.starts_with("LIST") { "LLEN s" } else { "XLEN s" };
        until(policy, || (client.ask(length) == Value::Int(1)).then_some(()));
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
    }
}

#[test]
fn a_pause_follows_its_key() {
    let options =
        ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--appendfsync", "always"];
    let mut server = Server::start(&options);
    let ways: [(&str, &[&str]); 8] = [
        ("RENAME", &["RENAME k there"]),
        ("MOVE", &["MOVE k 3", "MOVE s 3", "SELECT 3", "RENAME k there"]),
        ("COPY", &["COPY k there", "DEL k"]),
        ("SWAPDB", &["RENAME k there", "SWAPDB 0 5", "SELECT 5"]),
        ("DEBUG RELOAD", &["RENAME k there", "DEBUG RELOAD"]),
        ("rewriting the AOF", &["RENAME k there", "BGREWRITEAOF", "rewritten", "DEBUG LOADAOF"]),
        ("a restart", &["RENAME k there", "restart"]),
        ("a crash", &["RENAME k there", "crash"]),
    ];
    for (way, lines) in ways {
        for timed in [true, false] {
            let mut client = server.connect();
            client.ask("FLUSHALL");
            client.ask("DEHYDRATOR.PUSH k 0 element id");
            client.ask("DEHYDRATOR.ONDUE k STREAM s");
            until("it is delivered", || client.exists("s").then_some(()));
            client.ask(&format!("DEHYDRATOR.PAUSE k{}", if timed { " FOR 1500" } else { "" }));
            let before = paused(&mut client, "k");
            assert!(before.0 && before.1.is_some() == timed);
            client.ask("DEHYDRATOR.PUSH k 0 element id");
            let digest = client.digest("k");
            for line in lines {
                match *line {
                    "rewritten" => client.wait_for_rewrite(),
                    "restart" | "crash" => {
                        if *line == "crash" {
                            server.crash_and_restart();
                        } else {
                            server.restart();
                        }
                        client = server.connect();
                    }
                    line => _ = client.ask(line),
                }
            }
            if !timed {
                assert_eq!(paused(&mut client, "there"), before, "after {way}");
                assert_eq!(client.digest("there"), digest, "after {way}");
                assert_eq!((client.ask("XLEN s"), count(&server)), (Value::Int(1), 1));
                assert_eq!(client.ask("DEHYDRATOR.RESUME there"), Value::Int(1));
            }
            // A pause with an end ends under its new name.
            until(way, || (client.ask("XLEN s") == Value::Int(2)).then_some(()));
        }
    }
}

#[test]
fn a_dump_contains_the_pause() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    client.ask("DEHYDRATOR.PAUSE k AT 4102444799999");
    let Value::BulkString(dump) = client.ask("DUMP k") else { panic!("a dump") };
    let mut restore = redis::cmd("RESTORE");
    restore.arg("there").arg(0).arg(dump).exec(&mut client).expect("OK");
    assert_eq!(paused(&mut client, "there"), (true, Some(4_102_444_799_999)));
    assert_eq!(client.ask("DEHYDRATOR.POLL there"), texts(&[]));
    assert_eq!(count(&server), 2);
    client.ask("FLUSHALL");
    // It may be freed on a background thread.
    until("none is paused", || (count(&server) == 0).then_some(()));
}

#[test]
fn a_replica_is_paused_with_its_primary_and_ends_the_pause_when_promoted() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let (mut client, mut other) = (primary.connect(), replica.connect());
    let equal = |client: &mut Connection, other: &mut Connection, what: &str| {
        until(what, || (client.ask("DEBUG DIGEST") == other.ask("DEBUG DIGEST")).then_some(()));
    };
    client.ask("DEHYDRATOR.PAUSE k FOR 100");
    equal(&mut client, &mut other, "it is paused there");
    until("it is over", || (!client.exists("k")).then_some(()));
    until("it is over there", || (!other.exists("k")).then_some(()));
    client.ask("DEHYDRATOR.PUSH k 0 element a");
    client.ask("DEHYDRATOR.PAUSE k");
    equal(&mut client, &mut other, "it is paused there until it is resumed");
    assert_eq!(paused(&mut other, "k"), (true, None));
    client.ask("DEHYDRATOR.RESUME k");
    equal(&mut client, &mut other, "it is resumed there");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PAUSE k FOR 1500");
    client.ask("DEHYDRATOR.PUSH k 0 element b");
    client.ask("WAIT 1 0");
    let delivered = other.ask("XLEN s");
    drop(client);
    drop(primary);
    until("it is over", || (paused(&mut other, "k") == (false, None)).then_some(()));
    assert_eq!(other.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    assert_eq!(other.ask("XLEN s"), delivered);
    other.ask("REPLICAOF NO ONE");
    let Value::Int(before) = delivered else { panic!("a number") };
    until("it is delivered", || (other.ask("XLEN s") == Value::Int(before + 1)).then_some(()));
    assert_eq!(count(&replica), 0);
}

#[test]
fn invalid_pauses_are_refused_and_unchanged_ones_leave_no_trace() {
    let (server, mut client) = Server::with_client(&[]);
    for word in ["0", "-1", "+5", "1.5", "soon", "9223372036854775808"] {
        for name in ["FOR", "AT"] {
            let error = client.refused(&format!("DEHYDRATOR.PAUSE k {name} {word}"));
            assert!(error.starts_with(&format!("ERR {name} '{word}' is ")), "{error}");
        }
    }
    let error = client.refused("DEHYDRATOR.PAUSE k FOR 9223372036854775807");
    assert_eq!(error, "ERR FOR '9223372036854775807' is too large: now + ms must fit in 63 bits");
    let error = client.refused("DEHYDRATOR.PAUSE k AT");
    assert_eq!(error, "ERR AT needs a value");
    for (at, why) in [
        ("1795000000", "looks like seconds: it must be in milliseconds"),
        ("5", "has passed: the server's time is "),
        ("1595000000000", "has passed: the server's time is "),
    ] {
        let error = client.refused(&format!("DEHYDRATOR.PAUSE k AT {at}"));
        assert!(error.starts_with(&format!("ERR AT '{at}' {why}")), "{error}");
    }
    let error = client.refused("DEHYDRATOR.PAUSE k 5");
    let expected = "unexpected '5': the name of an option is missing: FOR or AT";
    assert_eq!(error, format!("ERR syntax error, {expected}"));
    assert!(!client.exists("k"));
    client.ask("SET s text");
    for verb in ["PAUSE", "RESUME"] {
        let error = client.refused(&format!("DEHYDRATOR.{verb} s"));
        assert!(error.starts_with("WRONGTYPE"), "{error}");
    }
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let mut other = server.connect();
    for (line, breaks) in [
        ("RESUME k", false),
        ("PAUSE k", true),
        ("PAUSE k", false),
        ("PAUSE k AT 4102444799999", true),
        ("PAUSE k AT 4102444799999", false),
        ("RESUME k", true),
    ] {
        client.ask("WATCH k");
        other.ask(&format!("DEHYDRATOR.{line}"));
        client.ask("MULTI");
        let reply = if breaks { Value::Nil } else { Value::Array(vec![]) };
        assert_eq!(client.ask("EXEC"), reply, "{line}: {breaks}");
    }
}
