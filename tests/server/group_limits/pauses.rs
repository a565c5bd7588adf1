//! Groups that wait: for a lease or a pause to end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use super::{AOF, ids, leased, leased_at_once, map, push};
use crate::replication::{catch_up, replica_of};
use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, let_pass, texts, until};

#[test]
fn dead_letters_of_a_paused_group_wait_and_delay_no_other() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    for group in ["a", "b"] {
        client.ask(&format!("DEHYDRATOR.PAUSE k GROUP {group}"));
        let dead = format!("DEHYDRATOR.EFFECT k P0@1,delivered=1 element {group}0 {group}");
        client.ask(&dead);
    }
    push(&mut client, "a1 b1 c1 c2 -1");
    client.ask("DEHYDRATOR.RESUME k GROUP b");
    until("only that of b is moved", || (client.ask("XLEN s") == Value::Int(1)).then_some(()));
    let ticks = |server: &Server| server.info("dehydrator", "dehydrator_ticks");
    let before = ticks(&server);
    until("ticks went by", || (ticks(&server) > before + 3).then_some(()));
    let given = leased_at_once(&mut client, 9, 600_000);
    let mut given: Vec<_> = given.split(' ').collect();
    given.sort_unstable();
    assert_eq!(given, ["-1", "b1", "c1"]);
    assert_eq!(client.ask("XLEN s"), Value::Int(1));
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000");
    client.ask("DEHYDRATOR.RESUME k GROUP a");
    assert_eq!(ids(&sleeper.reply()), ["a1"]);
    assert_eq!(client.ask("XLEN s"), Value::Int(2));
}

#[test]
fn a_paused_group_waits_and_the_others_go_on() {
    let (_server, mut client) = Server::with_client(&[]);
    push(&mut client, "a1 b1 a2 -1");
    assert_eq!(client.ask("DEHYDRATOR.PAUSE k GROUP a"), Value::Okay);
    assert_eq!(leased(&mut client), "b1 -1");
    let info = map(&mut client, "INFO k GROUP a");
    assert_eq!((info["paused"], info["paused-until"]), (Some(1), None));
    assert_eq!(client.ask("DEHYDRATOR.RESUME k"), Value::Int(0), "the key is not paused");
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&[]));
    assert_eq!(client.ask("DEHYDRATOR.RESUME k GROUP a"), Value::Int(1));
    assert_eq!(client.ask("DEHYDRATOR.RESUME k GROUP a"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.RESUME nowhere GROUP a"), Value::Int(0));
    assert_eq!(leased(&mut client), "a1 a2");
    client.ask("DEL k");
    // Nothing else is there: the next element is unknown.
    client.ask("DEHYDRATOR.PAUSE k GROUP a");
    push(&mut client, "a1");
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Nil);
    let whole: BTreeMap<String, Value> =
        cmd("DEHYDRATOR.INFO k").query(&mut client).expect("a map");
    assert_eq!(whole["next-deadline"], Value::Nil);
    assert_eq!(whole["oldest-due-ms"], Value::Nil);
    // What is too late leaves all the same.
    client.ask("DEHYDRATOR.PUSH k 0 element a2 WITHIN 20 GROUP a");
    until("it expires", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(()));
    client.ask("DEHYDRATOR.PAUSE k FOR 600000 GROUP a");
    let Value::Int(next) = client.ask("DEHYDRATOR.TTN k") else { panic!("a number") };
    assert!((1..=600_000).contains(&next), "{next}");
    for line in ["PAUSE k GROUP ", "RESUME k GROUP "] {
        let error = client.refused(&format!("DEHYDRATOR.{line}"));
        assert_eq!(error, "ERR elements without a group have no pause of their own", "{line}");
    }
    for line in [
        "PAUSE k FOR 0 GROUP a",
        "PAUSE k AT 5 GROUP a",
        "PAUSE k GROUP a GROUP b",
        "PAUSE k GROUP a 5",
        "PAUSE k GROUP",
        "RESUME k a",
        "RESUME k GROUP",
    ] {
        client.refused(&format!("DEHYDRATOR.{line}"));
    }
}

#[test]
fn a_sleeper_wakes_when_its_group_may_go_on_and_is_not_late() {
    let (server, mut client) = Server::with_client(&[]);
    let ways = [
        "DEHYDRATOR.SETTLE k t a1",
        "DEHYDRATOR.RELEASE k 600000 t a1",
        "DEHYDRATOR.REM k a1",
        "DEHYDRATOR.TOUCH k 0 a1",
        "DEHYDRATOR.PUSH k 600000 x a1 REPLACE GROUP a",
        "DEHYDRATOR.PUSH k 600000 x a1 REPLACE GROUP b",
        "DEHYDRATOR.LIMIT k EACH HELD 2",
        "DEHYDRATOR.LIMIT k EACH HELD 0",
        "DEHYDRATOR.LIMIT k GROUP a HELD 2",
        "DEHYDRATOR.RESUME k GROUP p",
        "DEHYDRATOR.PAUSE k FOR 1 GROUP p",
    ];
    for way in ways {
        client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
        client.ask("DEHYDRATOR.PAUSE k GROUP p");
        push(&mut client, "a1");
        assert_eq!(leased_at_once(&mut client, 9, 600_000), "a1");
        push(&mut client, "a2 p1");
        let line = "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000 TOKEN u";
        let sleeper = Sleeper::start(&server, line);
        // It would count as late by that much.
        let_pass(Duration::from_millis(500));
        assert!(!sleeper.is_awake(), "{way}");
        client.ask("CONFIG RESETSTAT");
        let start = Instant::now();
        client.ask(way);
        let (reply, _) = sleeper.reply_after(start);
        let took = start.elapsed().as_micros() as u64;
        let late = server.info("dehydrator", "dehydrator_lateness_max_us");
        assert!(late <= took, "{way}: {late} us late, {took} us after there was room");
        assert_eq!(ids(&reply).len(), 1, "{way}");
        assert_eq!(waiters(&server), 0, "{way}");
        client.ask("DEL k");
    }
}

#[test]
fn a_sleeper_wakes_when_a_lease_or_a_pause_ends_by_itself() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    push(&mut client, "a1 a2");
    let start = Instant::now();
    assert_eq!(leased_at_once(&mut client, 9, 1500), "a1");
    client.ask("CONFIG RESETSTAT");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000 TOKEN u");
    let (reply, after) = sleeper.reply_after(start);
    assert_eq!(ids(&reply), ["a1"], "the lease that ended comes first");
    assert!(after >= Duration::from_millis(1499), "{after:?}");
    let late = server.info("dehydrator", "dehydrator_lateness_max_us");
    assert!(late < 1_000_000, "{late} us late: it could not be given out before");
    client.ask("DEL k");

    // Without a sleeper, what could not be given out before is not late either.
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    push(&mut client, "a1 a2");
    leased_at_once(&mut client, 9, 1500);
    client.ask("CONFIG RESETSTAT");
    until("the lease is over", || {
        (client.ask("DEHYDRATOR.PTTL k a1") == Value::Int(0)).then_some(())
    });
    assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 600000 TOKEN u")), ["a1"]);
    let late = server.info("dehydrator", "dehydrator_lateness_max_us");
    assert!(late < 1_000_000, "{late} us late: it could not be given out before");
    client.ask("DEL k");

    let start = Instant::now();
    client.ask("DEHYDRATOR.PAUSE k FOR 1500 GROUP a");
    push(&mut client, "a1");
    client.ask("CONFIG RESETSTAT");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1");
    let (reply, after) = sleeper.reply_after(start);
    assert_eq!(reply, texts(&["element"]));
    assert!(after >= Duration::from_millis(1499), "{after:?}");
    let late = server.info("dehydrator", "dehydrator_lateness_max_us");
    assert!(late < 1_000_000, "{late} us late: it could not be given out before");
    until("the pause is ended", || (!client.exists("k")).then_some(()));
}

#[test]
fn a_pause_that_has_ended_leaves_nothing_behind() {
    let mut server = Server::start_with_port(&AOF);
    let replica = replica_of(&server, &[]);
    let (mut client, mut there) = (server.connect(), replica.connect());
    // A later end, so that the visit is noted late, and an earlier one.
    client.ask("DEHYDRATOR.PAUSE k FOR 600000 GROUP late");
    client.ask("DEHYDRATOR.PAUSE k FOR 100 GROUP a");
    client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 3");
    client.ask("DEHYDRATOR.PAUSE k FOR 100 GROUP b");
    client.ask("DEHYDRATOR.PAUSE gone FOR 100 GROUP a");
    for number in 0..3000 {
        client.ask(&format!("DEHYDRATOR.PAUSE many FOR 3000 GROUP g{number}"));
    }
    let memory = |client: &mut Connection| -> u64 {
        cmd("MEMORY USAGE many").query::<Option<u64>>(client).expect("a number").unwrap_or(0)
    };
    assert!(memory(&mut client) > 100_000);
    for client in [&mut client, &mut there] {
        until("both are gone", || (!client.exists("gone") && !client.exists("many")).then_some(()));
    }
    assert_eq!(map(&mut client, "INFO k GROUP b")["held-limit"], Some(3));
    assert_eq!(client.ask("DEHYDRATOR.RESUME k GROUP a"), Value::Int(0));
    client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 0");
    assert_eq!(client.ask("DEHYDRATOR.RESUME k GROUP late"), Value::Int(1));
    assert!(!client.exists("k"), "the pause of a is forgotten, though another one ended later");
    catch_up(&server, &replica);
    assert!(!there.exists("k"));
    // After a restart, a copy and a rename they end too, and on a replica that is promoted.
    client.ask("DEHYDRATOR.PAUSE k FOR 2500 GROUP a");
    client.ask("DEHYDRATOR.PAUSE l FOR 2500 GROUP a");
    server.restart();
    client = server.connect();
    client.ask("COPY k copy");
    client.ask("RENAME l renamed");
    client.ask("DEHYDRATOR.ONDUE renamed DROP");
    assert_eq!(map(&mut client, "INFO copy GROUP a")["paused"], Some(1));
    client.ask("DEHYDRATOR.ONDUE renamed HOLD");
    let gone = |client: &mut Connection| {
        until("they are gone", || {
            (!["k", "copy", "renamed"].iter().any(|key| client.exists(key))).then_some(())
        });
    };
    gone(&mut client);
    client.ask("DEHYDRATOR.PAUSE k FOR 1000 GROUP a");
    catch_up(&server, &replica);
    server.kill();
    let is_over = |client: &mut Connection| map(client, "INFO k GROUP a")["paused"] == Some(0);
    until("the pause is over", || is_over(&mut there).then_some(()));
    let ticks = || replica.info("dehydrator", "dehydrator_ticks");
    let before = ticks();
    until("the module has looked ten times", || (ticks() > before + 10).then_some(()));
    assert!(there.exists("k"), "a replica decides nothing");
    there.ask("REPLICAOF NO ONE");
    gone(&mut there);
}
