//! Limits and pauses of groups.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::expired::copies_are_equal;
use crate::replication::{catch_up, replica_of};
use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, texts, until};

/// An append-only file of commands.
const AOF: [&str; 4] = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];

/// Pushes elements that are due, each into the group that its id begins with; `-` is no group.
fn push(client: &mut Connection, ids: &str) {
    for id in ids.split(' ') {
        let group = if id.starts_with('-') { "" } else { &id[..1] };
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element {id} GROUP {group}"));
    }
}

/// Leases all elements that are given out, one in each call, and returns the ids.
fn leased(client: &mut Connection) -> String {
    let one = |_| ids(&client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 600000")).pop();
    (0..).map_while(one).collect::<Vec<_>>().join(" ")
}

/// Leases up to `count` elements in one call under a token, and returns the ids.
fn leased_at_once(client: &mut Connection, count: usize, ms: u64) -> String {
    let line = format!("DEHYDRATOR.POLL k COUNT {count} LEASE {ms} TOKEN t");
    ids(&client.ask(&line)).join(" ")
}

fn ids(reply: &Value) -> Vec<String> {
    let rows: Vec<Vec<Value>> = redis::from_redis_value(reply.clone()).expect("rows");
    rows.into_iter().map(|row| redis::from_redis_value(row[0].clone()).expect("an id")).collect()
}

fn settle(client: &mut Connection, id: &str) {
    let line = format!("DEHYDRATOR.SETTLE k t {id}");
    assert_eq!(client.ask(&line), Value::Array(vec![Value::Int(1)]), "{id}");
}

fn map(client: &mut Connection, line: &str) -> BTreeMap<String, Option<u64>> {
    cmd(&format!("DEHYDRATOR.{line}")).query(client).expect("a map")
}

fn numbers(client: &mut Connection, line: &str) -> Vec<u64> {
    let values: Vec<Value> = cmd(&format!("DEHYDRATOR.{line}")).query(client).expect("a map");
    let value = |pair: &[Value]| redis::from_redis_value(pair[1].clone()).expect("a number");
    values.chunks(2).map(value).collect()
}

#[test]
fn one_lease_per_group_gives_out_each_group_in_order() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("DEHYDRATOR.LIMIT k EACH HELD 1"), Value::Okay);
    push(&mut client, "a1 a2 a3 b1 -1 -2 b2 c1");
    // However many workers ask, each group has one element out. Elements without a group are not limited.
    assert_eq!(leased_at_once(&mut client, 100, 600_000), "a1 b1 -1 c1 -2");
    assert_eq!(leased_at_once(&mut server.connect(), 100, 600_000), "a1 b1 -1 c1 -2", "a resend");
    let other = "DEHYDRATOR.POLL k LEASE 600000 TOKEN u";
    assert_eq!(client.ask(other), texts(&[]));
    settle(&mut client, "b1");
    assert_eq!(ids(&client.ask(other)), ["b2"]);
    client.ask("DEHYDRATOR.SETTLE k u b2");
    assert_eq!(client.ask(other), texts(&[]));
    // An element that is given back is due from then on, behind what was due before.
    client.ask("DEHYDRATOR.RELEASE k 0 t a1");
    assert_eq!(ids(&client.ask(other)), ["a2"]);
    client.ask("DEHYDRATOR.SETTLE k u a2");
    // Without a lease nothing is held.
    let rest = ["a3", "a1"].map(|id| texts(&[id, "element"]));
    assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 5 WITHIDS"), Value::Array(rest.to_vec()));
}

#[test]
fn several_workers_finish_each_group_in_order() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    for number in 0..40 {
        push(&mut client, &format!("a{number} b{number} c{number}"));
    }
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let mut client = server.connect();
            std::thread::spawn(move || {
                let mut done = 0;
                for call in 0.. {
                    let token = format!("w{worker}-{call}");
                    let line =
                        format!("DEHYDRATOR.POLL k COUNT 2 BLOCK 300 LEASE 600000 TOKEN {token}");
                    let reply = client.ask(&line);
                    if reply == Value::Nil {
                        break;
                    }
                    for id in ids(&reply) {
                        // In the order of the work, because nobody else has an element of that group.
                        client.ask(&format!("RPUSH done:{} {}", &id[..1], &id[1..]));
                        client.ask(&format!("DEHYDRATOR.SETTLE k {token} {id}"));
                        done += 1;
                    }
                }
                done
            })
        })
        .collect();
    let done: Vec<usize> = workers.into_iter().map(|it| it.join().expect("no panic")).collect();
    assert_eq!(done.iter().sum::<usize>(), 120, "{done:?}");
    for group in ["a", "b", "c"] {
        let order: Vec<u32> =
            cmd(&format!("LRANGE done:{group} 0 -1")).query(&mut client).expect("numbers");
        assert_eq!(order, (0..40).collect::<Vec<_>>(), "{group}");
    }
}

#[test]
fn a_group_may_have_limits_of_its_own() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let limits = |client: &mut Connection, of: &str| numbers(client, &format!("LIMIT k {of}"));
    assert_eq!(limits(&mut client, "EACH"), [0, 0]);
    assert_eq!(limits(&mut client, "GROUP b"), [1, 0, 0]);
    for zero in ["EACH LENGTH 0 HELD 0", "GROUP b SHARE 1 LENGTH 0 HELD 0"] {
        assert_eq!(client.ask(&format!("DEHYDRATOR.LIMIT k {zero}")), Value::Okay);
    }
    assert!(!client.exists("k"), "nothing was said");
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 2 SHARE 3 LENGTH 9");
    client.ask("DEHYDRATOR.LIMIT k EACH LENGTH 8");
    client.ask("DEHYDRATOR.LIMIT k GROUP a SHARE 2");
    assert_eq!(limits(&mut client, "EACH"), [8, 1]);
    assert_eq!(limits(&mut client, "GROUP a"), [2, 0, 0]);
    assert_eq!(limits(&mut client, "GROUP b"), [3, 9, 2]);
    assert_eq!(numbers(&mut client, "LIMIT k"), [0; 5], "those of the key are others");
    assert_eq!(
        map(&mut client, "LIMIT k GROUP b").into_keys().collect::<Vec<_>>(),
        ["held", "length", "share"]
    );
    push(&mut client, "a1 a2 b1 b2 b3");
    assert_eq!(leased_at_once(&mut client, 9, 600_000), "a1 b1 b2");
    // Its own limit removed, that of each group holds again, at once.
    client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 0");
    settle(&mut client, "b1");
    assert_eq!(client.ask("DEHYDRATOR.POLL k LEASE 5"), texts(&[]));
    settle(&mut client, "b2");
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 0");
    assert_eq!(leased(&mut client), "a2 b3");
    client.ask("DEL k");
    // The limits keep an empty key, the last one removed lets it go.
    client.ask("DEHYDRATOR.LIMIT k EACH LENGTH 1");
    client.ask("DEHYDRATOR.LIMIT k GROUP a HELD 1");
    push(&mut client, "a1");
    client.ask("DEHYDRATOR.POLL k");
    assert!(client.exists("k"));
    client.ask("DEHYDRATOR.LIMIT k GROUP a HELD 0");
    assert!(client.exists("k"));
    client.ask("DEHYDRATOR.LIMIT k EACH LENGTH 0");
    assert!(!client.exists("k"));
    let error = client.refused("DEHYDRATOR.LIMIT k GROUP  HELD 1");
    assert_eq!(error, "ERR elements without a group can have a SHARE, but no LENGTH and no HELD");
    for line in
        ["EACH SHARE 1", "EACH RATE 1 PER 1", "GROUP a REMEMBER 1", "EACH GROUP a", "SHARE 2"]
    {
        client.refused(&format!("DEHYDRATOR.LIMIT k {line}"));
    }
    client.ask("SET s text");
    for line in ["LIMIT s EACH", "LIMIT s GROUP a HELD 1", "PAUSE s GROUP a", "RESUME s GROUP a"] {
        assert!(client.refused(&format!("DEHYDRATOR.{line}")).starts_with("WRONGTYPE"), "{line}");
    }
    assert!(!client.exists("k"));
}

#[test]
fn a_group_that_is_held_back_delays_no_other() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    let many: Vec<_> = (0..3000).map(|number| format!("a{number}")).collect();
    push(&mut client, &many.join(" "));
    push(&mut client, "b1 c1 d1 b2");
    assert_eq!(leased_at_once(&mut client, 9, 600_000), "a0 b1 c1 d1");
    client.ask("DEHYDRATOR.PUSH k 0 element e1 GROUP e");
    assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000")), ["e1"]);
    // Deliveries too: what is held back, or paused, stays, and the others go.
    client.ask("DEHYDRATOR.PAUSE k GROUP f");
    push(&mut client, "f1 g1 -1");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let sent = until("the others are delivered", || {
        let entries: Vec<(String, Vec<String>)> =
            cmd("XRANGE s - +").query(&mut client).expect("entries");
        (entries.len() == 2)
            .then(|| entries.into_iter().map(|(_, fields)| fields[1].clone()).collect::<Vec<_>>())
    });
    assert_eq!(sent, ["g1", "-1"]);
    client.ask("DEHYDRATOR.RESUME k GROUP f");
    until("it is delivered", || (client.ask("XLEN s") == Value::Int(3)).then_some(()));
}

#[test]
fn dead_letters_of_a_paused_group_wait_and_delay_no_other() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    for group in ["a", "b"] {
        client.ask(&format!("DEHYDRATOR.PAUSE k GROUP {group}"));
        let dead = format!("DEHYDRATOR.PUSH k 0 element {group}0 AT 1 DELIVERED 1 GROUP {group}");
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
fn a_group_has_at_most_as_many_elements_as_its_length() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH LENGTH 2");
    client.ask("DEHYDRATOR.LIMIT k GROUP big LENGTH 3");
    let full = |group: &str, most| {
        format!(
            "FULL group '{group}' holds {most} elements already, which is the LENGTH that LIMIT set for it"
        )
    };
    push(&mut client, "a1 a2 -1 -2 -3");
    let error = client.refused("DEHYDRATOR.PUSH k 0 element a3 GROUP a");
    assert_eq!(error, full("a", 2));
    for line in [
        "PUSH k 0 element a3 NX GROUP a",
        "PUSH k 0 element a3 REPLACE GROUP a",
        // It would be one more in that group.
        "PUSH k 0 element -1 REPLACE GROUP a",
        "GIDPUSH k 0 element GROUP a",
    ] {
        assert_eq!(client.refused(&format!("DEHYDRATOR.{line}")), full("a", 2), "{line}");
    }
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(5), "a refused command changes nothing");
    assert_eq!(client.ask("DEHYDRATOR.LEN k GROUP "), Value::Int(3));
    // An id that is there needs no room.
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 0 other a1 REPLACE GROUP a"), Value::Okay);
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 0 other a1 NX GROUP a"), Value::Nil);
    assert!(client.refused("DEHYDRATOR.PUSH k 0 other a1 GROUP a").starts_with("EXISTS"));
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 0 element a1 REPLACE GROUP b"), Value::Okay);
    let pushed = |client: &mut Connection, line: &str| -> Vec<i64> {
        cmd(&format!("DEHYDRATOR.MPUSH k {line}")).query(client).expect("numbers")
    };
    assert_eq!(pushed(&mut client, "0 x a3 0 x a4 0 x a2 NX GROUP a"), [1, -1, 0]);
    assert_eq!(pushed(&mut client, "0 x a3 0 x a4 0 x a5 REPLACE GROUP a"), [1, -1, -1]);
    assert_eq!(pushed(&mut client, "0 x g1 0 x g2 0 x g3 0 x g4 GROUP big"), [1, 1, 1, -1]);
    // The key's own limit is another, with its own message.
    client.ask("DEHYDRATOR.LIMIT k LENGTH 10");
    push(&mut client, "c1");
    let error = client.refused("DEHYDRATOR.PUSH k 0 element c2 GROUP c");
    assert_eq!(
        error,
        "FULL the dehydrator holds 10 elements already, which is the LENGTH that LIMIT set"
    );
    client.ask("DEHYDRATOR.LIMIT k LENGTH 0");
    // Elements beyond a new limit stay; a removed limit refuses nothing.
    client.ask("DEHYDRATOR.LIMIT k GROUP big LENGTH 1");
    assert_eq!(client.ask("DEHYDRATOR.LEN k GROUP big"), Value::Int(3));
    assert_eq!(client.refused("DEHYDRATOR.PUSH k 0 element g4 GROUP big"), full("big", 1));
    client.ask("DEHYDRATOR.LIMIT k EACH LENGTH 0");
    push(&mut client, "a6 a7 a8");
}

#[test]
fn a_paused_group_waits_and_the_others_go_on() {
    let server = Server::start(&[]);
    let mut client = server.connect();
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
    client.ask("DEHYDRATOR.PAUSE k 600000 GROUP a");
    let Value::Int(next) = client.ask("DEHYDRATOR.TTN k") else { panic!("a number") };
    assert!((1..=600_000).contains(&next), "{next}");
    for line in ["PAUSE k GROUP ", "RESUME k GROUP "] {
        let error = client.refused(&format!("DEHYDRATOR.{line}"));
        assert_eq!(error, "ERR elements without a group have no pause of their own", "{line}");
    }
    for line in [
        "PAUSE k 0 GROUP a",
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
    let server = Server::start(&[]);
    let mut client = server.connect();
    let ways = [
        "DEHYDRATOR.SETTLE k t a1",
        "DEHYDRATOR.RELEASE k 600000 t a1",
        "DEHYDRATOR.REM k a1",
        "DEHYDRATOR.TOUCH k a1 0",
        "DEHYDRATOR.PUSH k 600000 x a1 REPLACE GROUP a",
        "DEHYDRATOR.PUSH k 600000 x a1 REPLACE GROUP b",
        "DEHYDRATOR.LIMIT k EACH HELD 2",
        "DEHYDRATOR.LIMIT k EACH HELD 0",
        "DEHYDRATOR.LIMIT k GROUP a HELD 2",
        "DEHYDRATOR.RESUME k GROUP p",
        "DEHYDRATOR.PAUSE k 1 GROUP p",
    ];
    for way in ways {
        client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
        client.ask("DEHYDRATOR.PAUSE k GROUP p");
        push(&mut client, "a1");
        assert_eq!(leased_at_once(&mut client, 9, 600_000), "a1");
        push(&mut client, "a2 p1");
        let mut sleeper =
            Some(Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000 TOKEN u"));
        std::thread::sleep(Duration::from_millis(1200));
        assert!(!sleeper.as_ref().is_some_and(Sleeper::is_awake), "{way}");
        assert_eq!(map(&mut client, "INFO k GROUP a")["length"], Some(2));
        client.ask("CONFIG RESETSTAT");
        let start = Instant::now();
        client.ask(way);
        let (reply, _) = sleeper.take().expect("a sleeper").reply_after(start);
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
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    push(&mut client, "a1 a2");
    let start = Instant::now();
    assert_eq!(leased_at_once(&mut client, 9, 1500), "a1");
    client.ask("CONFIG RESETSTAT");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000 TOKEN u");
    let (reply, after) = sleeper.reply_after(start);
    assert_eq!(ids(&reply), ["a2"], "the lease that ended comes behind");
    assert!(after >= Duration::from_millis(1499), "{after:?}");
    let late = server.info("dehydrator", "dehydrator_lateness_max_us");
    assert!(late < 1_000_000, "{late} us late: it could not be given out before");
    client.ask("DEL k");

    let start = Instant::now();
    client.ask("DEHYDRATOR.PAUSE k 1500 GROUP a");
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
    client.ask("DEHYDRATOR.PAUSE k 600000 GROUP late");
    client.ask("DEHYDRATOR.PAUSE k 100 GROUP a");
    client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 3");
    client.ask("DEHYDRATOR.PAUSE k 100 GROUP b");
    client.ask("DEHYDRATOR.PAUSE gone 100 GROUP a");
    for number in 0..3000 {
        client.ask(&format!("DEHYDRATOR.PAUSE many 300 GROUP g{number}"));
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
    client.ask("DEHYDRATOR.PAUSE k 2500 GROUP a");
    client.ask("DEHYDRATOR.PAUSE l 2500 GROUP a");
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
    client.ask("DEHYDRATOR.PAUSE k 1000 GROUP a");
    catch_up(&server, &replica);
    server.kill();
    std::thread::sleep(Duration::from_millis(2000));
    assert!(there.exists("k"), "a replica decides nothing");
    assert_eq!(map(&mut there, "INFO k GROUP a")["paused"], Some(0));
    there.ask("REPLICAOF NO ONE");
    gone(&mut there);
}

#[test]
fn limits_and_pauses_of_groups_are_part_of_the_value_wherever_it_goes() {
    let mut primary = Server::start_with_port(&AOF);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH LENGTH 50 HELD 2");
    client.ask("DEHYDRATOR.LIMIT k GROUP b SHARE 7 LENGTH 60 HELD 1");
    client.ask("DEHYDRATOR.LIMIT k GROUP nobody HELD 9");
    client.ask("DEHYDRATOR.LIMIT k GROUP  SHARE 2");
    client.ask("DEHYDRATOR.PAUSE k GROUP p");
    client.ask("DEHYDRATOR.PAUSE k AT 4102444799999 GROUP q");
    client.ask("DEHYDRATOR.PAUSE k 500000 GROUP r");
    client.ask("DEHYDRATOR.LIMIT each EACH HELD 1");
    client.ask("DEHYDRATOR.PAUSE paused GROUP p");
    for number in 0..9 {
        push(&mut client, &format!("a{number} b{number} p{number} -{number}"));
    }
    assert_eq!(leased_at_once(&mut client, 5, 600_000), "a0 b0 -0 -1 a1");
    catch_up(&primary, &replica);
    let keys = ["k", "each", "paused"];
    let digests = keys.map(|key| client.digest(key));
    let shown = |client: &mut Connection| {
        ["a", "b", "nobody", "p", "q", "r", ""]
            .map(|group| map(client, &format!("INFO k GROUP {group}")))
    };
    let before = shown(&mut client);
    assert_eq!((before[0]["held-limit"], before[0]["length-limit"]), (Some(2), Some(50)));
    assert_eq!((before[1]["held-limit"], before[1]["length-limit"]), (Some(1), Some(60)));
    assert_eq!(before[4]["paused-until"], Some(4_102_444_799_999));
    assert_eq!((before[6]["held-limit"], before[6]["share"]), (Some(0), Some(2)));
    assert_eq!(keys.map(|key| replica.connect().digest(key)), digests);
    assert_eq!(shown(&mut replica.connect()), before);
    for way in ["AOF", "rewritten AOF", "RDB"] {
        match way {
            "rewritten AOF" => client.rewrite_aof(),
            "RDB" => _ = client.ask("DEBUG RELOAD"),
            _ => {}
        }
        if way != "RDB" {
            primary.restart();
            client = primary.connect();
        }
        assert_eq!(keys.map(|key| client.digest(key)), digests, "{way}");
        assert_eq!(shown(&mut client), before, "{way}");
    }
    keys.iter().for_each(|key| copies_are_equal(&mut client, key));
}

#[test]
fn what_is_held_counts_after_a_restart_and_a_failover() {
    for way in ["AOF", "rewritten AOF", "RDB", "failover"] {
        let mut server = Server::start_with_port(&AOF);
        let replica = replica_of(&server, &[]);
        let mut client = server.connect();
        client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
        client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 2 LENGTH 4");
        push(&mut client, "a1 a2 b1 b2 b3");
        // Pushed before the limit, so that they are more than it allows.
        client.ask("DEHYDRATOR.LIMIT k GROUP b LENGTH 2");
        assert_eq!(leased_at_once(&mut client, 9, 600_000), "a1 b1 b2");
        match way {
            "rewritten AOF" => client.rewrite_aof(),
            "RDB" => _ = client.ask("DEBUG RELOAD"),
            "failover" => {
                catch_up(&server, &replica);
                server.kill();
                client = replica.connect();
                client.ask("REPLICAOF NO ONE");
            }
            _ => {}
        }
        if way.ends_with("AOF") {
            server.restart();
            client = server.connect();
        }
        let poll = "DEHYDRATOR.POLL k COUNT 9 LEASE 600000 TOKEN u";
        assert_eq!(client.ask(poll), texts(&[]), "{way}");
        settle(&mut client, "b1");
        assert_eq!(ids(&client.ask(poll)), ["b3"], "{way}");
        assert!(client.refused("DEHYDRATOR.PUSH k 0 x b4 GROUP b").starts_with("FULL"), "{way}");
        settle(&mut client, "a1");
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN v")), ["a2"], "{way}");
    }
}
