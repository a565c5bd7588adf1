//! GROUP: elements of several groups in one key, which are given out in turns.

use std::collections::HashMap;

use redis::{Connection, Value};

use crate::expired::copies_are_equal;
use crate::replication::{catch_up, replica_of};
use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, texts, until};

/// Takes up to `count` elements in one call, and returns their ids.
fn polled(client: &mut Connection, line: &str) -> Vec<String> {
    let rows: Vec<Vec<Value>> = cmd(line.trim_end()).query(client).expect("rows");
    rows.into_iter().map(|row| redis::from_redis_value(row[0].clone()).expect("an id")).collect()
}

/// Pushes elements that are due, each into the group that its id begins with; `-` is no group.
fn push(client: &mut Connection, key: &str, ids: &str) {
    for id in ids.split(' ') {
        let group = if id.starts_with('-') { "" } else { &id[..1] };
        client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element {id} GROUP {group}"));
    }
}

/// Takes all elements one by one, and returns their ids.
fn one_by_one(client: &mut Connection, key: &str, rest: &str) -> String {
    let mut ids = Vec::new();
    let how = if rest.contains("LEASE") { rest.to_owned() } else { format!("WITHIDS {rest}") };
    loop {
        match &polled(client, &format!("DEHYDRATOR.POLL {key} {how}"))[..] {
            [] => return ids.join(" "),
            taken => ids.extend_from_slice(taken),
        }
    }
}

#[test]
fn groups_take_turns_however_much_one_of_them_has() {
    let (_server, mut client) = Server::with_client(&[]);
    for rest in ["", "COUNT 3", "COUNT 100", "LEASE 600000", "LEASE 600000 COUNT 4"] {
        push(&mut client, "k", "a1 a2 a3 a4 a5 b1 -1 b2 c1 -2");
        let given = one_by_one(&mut client, "k", rest);
        assert_eq!(given, "a1 b1 -1 c1 a2 b2 -2 a3 a4 a5", "{rest}");
        client.ask("DEL k");
    }
    // With one group, or none, the order is that of the deadlines.
    push(&mut client, "k", "a1 a2 a3");
    assert_eq!(one_by_one(&mut client, "k", "COUNT 2"), "a1 a2 a3");
    push(&mut client, "k", "-1 -2 -3");
    assert_eq!(one_by_one(&mut client, "k", ""), "-1 -2 -3");
    // MPOLL is no different, and a group that comes back goes to the end.
    push(&mut client, "k", "a1 b1 b2 c1 c2");
    let (key, rows): (String, Vec<(String, String)>) =
        cmd("DEHYDRATOR.MPOLL 1 k WITHIDS COUNT 2").query(&mut client).expect("rows");
    assert_eq!((&key[..], &rows[0].0[..], &rows[1].0[..]), ("k", "a1", "b1"));
    push(&mut client, "k", "a2");
    assert_eq!(one_by_one(&mut client, "k", ""), "c1 b2 a2 c2");
}

#[test]
fn a_share_is_how_many_a_group_gives_out_in_its_turn() {
    let (_server, mut client) = Server::with_client(&[]);
    assert_eq!(client.ask("DEHYDRATOR.LIMIT k GROUP a SHARE 3"), Value::Okay);
    assert_eq!(client.ask("EXISTS k"), Value::Int(1), "a share keeps an empty key");
    assert_eq!(share(&mut client, "a"), Value::Int(3));
    push(&mut client, "k", "a1 a2 a3 a4 a5 a6 a7 b1 b2 b3 c1");
    assert_eq!(one_by_one(&mut client, "k", ""), "a1 a2 a3 b1 c1 a4 a5 a6 b2 a7 b3");
    push(&mut client, "k", "a1 a2 a3 a4 b1 b2");
    assert_eq!(one_by_one(&mut client, "k", "COUNT 9"), "a1 a2 a3 b1 a4 b2");
    assert_eq!(client.ask("DEHYDRATOR.LIMIT k GROUP a SHARE 1"), Value::Okay);
    assert_eq!(client.ask("EXISTS k"), Value::Int(0), "nothing is left of it");
    for line in [
        "LIMIT k GROUP a SHARE 0",
        "LIMIT k GROUP a SHARE 65536",
        "LIMIT k GROUP",
        "PUSH k 0 element id GROUP",
        "PUSH k 0 element id GROUP a GROUP b",
        &format!("PUSH k 0 element id GROUP {}", "g".repeat(1025)),
        "LEN k GROUP a b",
        "RANGE k - + GROUP a GROUP b",
    ] {
        client.refused(&format!("DEHYDRATOR.{line}"));
    }
    assert_eq!(client.ask("EXISTS k"), Value::Int(0));
}

/// Returns the limits of a group that has only a share.
fn share(client: &mut Connection, group: &str) -> Value {
    let line = format!("DEHYDRATOR.INFO k GROUP {group}");
    let mut fields: HashMap<String, Value> = cmd(&line).query(client).expect("a map");
    fields.remove("share").expect("it is there")
}

fn group_of(client: &mut Connection, id: &str) -> Value {
    let line = format!("DEHYDRATOR.LOOK k {id} FULL");
    let fields: HashMap<String, Value> = cmd(&line).query(client).expect("a map");
    fields["group"].clone()
}

#[test]
fn an_element_stays_in_its_group_until_it_is_pushed_anew() {
    let (_server, mut client) = Server::with_client(&[]);
    let longest = "g".repeat(1024);
    client.ask(&format!("DEHYDRATOR.MPUSH k 0 A a 0 B b GROUP {longest}"));
    client.ask("DEHYDRATOR.PUSH k 0 element id GROUP one");
    client.ask("DEHYDRATOR.PUSH k 0 element none GROUP ");
    assert_eq!(group_of(&mut client, "a"), text(&longest));
    assert_eq!(group_of(&mut client, "none"), Value::Nil);
    client.ask("DEHYDRATOR.TOUCH k 500 id");
    client.ask("DEHYDRATOR.UPDATE k id longer-than-before");
    client.ask("DEHYDRATOR.EFFECT k L5@9@7 id");
    assert_eq!(group_of(&mut client, "id"), text("one"));
    let len = |client: &mut Connection, group: &str| {
        client.ask(&format!("DEHYDRATOR.LEN k GROUP {group}"))
    };
    assert_eq!(len(&mut client, "one"), Value::Int(1));
    assert_eq!(len(&mut client, &longest), Value::Int(2));
    assert_eq!(len(&mut client, ""), Value::Int(1));
    assert_eq!(len(&mut client, "other"), Value::Int(0));
    client.ask("DEHYDRATOR.PUSH k 0 element id REPLACE GROUP other");
    assert_eq!(group_of(&mut client, "id"), text("other"));
    assert_eq!(len(&mut client, "one"), Value::Int(0));
    client.ask("DEHYDRATOR.PUSH k 0 element id REPLACE");
    assert_eq!(group_of(&mut client, "id"), Value::Nil);
    let id: String =
        cmd("DEHYDRATOR.GIDPUSH k 0 element GROUP g").query(&mut client).expect("an id");
    assert_eq!(group_of(&mut client, &id), text("g"));
}

#[test]
fn a_range_lists_one_group_or_all_by_deadline() {
    let (_server, mut client) = Server::with_client(&[]);
    for id in 0..40 {
        let (at, group) = (1000 + id * 7 % 40, ["a", "b", ""][id % 3]);
        client.ask(&format!("DEHYDRATOR.PUSH k 5 element {id} AT {at} GROUP {group}"));
    }
    let range = |client: &mut Connection, rest: &str| {
        let line = format!("DEHYDRATOR.RANGE k {rest}");
        let (next, rows): (Option<String>, Vec<Vec<Value>>) =
            cmd(&line).query(client).expect("rows");
        let ids =
            rows.into_iter().map(|row| redis::from_redis_value(row[0].clone()).expect("an id"));
        (next, ids.collect::<Vec<u64>>())
    };
    let sorted = |ids: Vec<u64>| {
        let mut ids = ids;
        ids.sort_by_key(|id| id * 7 % 40);
        ids
    };
    assert_eq!(range(&mut client, "- +").1, sorted((0..40).collect()));
    for (at, group) in ["a", "b", ""].iter().enumerate() {
        let all = sorted((at as u64..40).step_by(3).collect());
        assert_eq!(range(&mut client, &format!("- + GROUP {group}")).1, all);
        let (mut from, mut pages) = ("-".to_owned(), Vec::new());
        loop {
            let (next, page) = range(&mut client, &format!("{from} + COUNT 4 GROUP {group}"));
            pages.extend(page);
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(pages, all);
    }
    assert_eq!(range(&mut client, "- + GROUP nobody").1, []);
}

#[test]
fn what_is_delivered_takes_turns_too() {
    let (_server, mut client) = Server::with_client(&[]);
    // A key each: those without a group would keep their place if the second round began in the millisecond of the first.
    for key in ["j", "k"] {
        client.ask(&format!("DEHYDRATOR.LIMIT {key} GROUP b SHARE 2"));
        client.ask(&format!("DEHYDRATOR.PAUSE {key}"));
        push(&mut client, key, "a1 a2 a3 a4 b1 b2 b3 -1");
    }
    client.ask("DEHYDRATOR.ONDUE j LIST l");
    client.ask("DEHYDRATOR.RESUME j");
    until("they are delivered", || (client.ask("LLEN l") == Value::Int(8)).then_some(()));
    assert_eq!(client.ask("LRANGE l 0 -1"), texts(&["element"; 8]));
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.RESUME k");
    let ids = until("they are in the stream", || {
        let entries: Vec<(String, Vec<String>)> =
            cmd("XRANGE s - +").query(&mut client).expect("a stream");
        (entries.len() == 8)
            .then(|| entries.into_iter().map(|(_, fields)| fields[1].clone()).collect::<Vec<_>>())
    });
    assert_eq!(ids.join(" "), "a1 b1 b2 -1 a2 b3 a3 a4");
}

#[test]
fn a_dead_letter_or_an_expired_element_costs_its_group_no_turn() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    for lease in ["WITHIDS", "LEASE 600000"] {
        client.ask("MULTI");
        push(&mut client, "k", "a1 b1 a2 b2 c1");
        // Given out before, and due again.
        client.ask("DEHYDRATOR.EFFECT k P0@1,delivered=1 element a0 a");
        client.ask("DEHYDRATOR.EFFECT k P0@1,until=5 element b0 b");
        for count in [2, 9] {
            client.ask(&format!("DEHYDRATOR.POLL k COUNT {count} {lease}"));
        }
        let Value::Array(replies) = client.ask("EXEC") else { panic!("no replies") };
        let ids = |reply: &Value| -> Vec<String> {
            let rows: Vec<Vec<Value>> = redis::from_redis_value(reply.clone()).expect("rows");
            rows.iter().map(|row| redis::from_redis_value(row[0].clone()).expect("an id")).collect()
        };
        assert_eq!(ids(&replies[7]), ["a1", "b1"], "{lease}");
        assert_eq!(ids(&replies[8]), ["c1", "a2", "b2"], "{lease}");
        client.ask("DEHYDRATOR.REM k a1 a2 b1 b2 c1");
    }
    assert_eq!(client.ask("XLEN s"), Value::Int(4));
    // One that is dropped costs no turn either.
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 DROP");
    client.ask("MULTI");
    push(&mut client, "k", "a1 b1 a2 b2");
    client.ask("DEHYDRATOR.EFFECT k P0@1,delivered=1 element a0 a");
    client.ask("DEHYDRATOR.POLL k COUNT 9 WITHIDS");
    let Value::Array(replies) = client.ask("EXEC") else { panic!("no replies") };
    let rows = ["a1", "b1", "a2", "b2"].map(|id| texts(&[id, "element"]));
    assert_eq!(replies[5], Value::Array(rows.to_vec()));
    // Without a rule an expired element is dropped.
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    client.ask("MULTI");
    push(&mut client, "k", "a1 b1");
    client.ask("DEHYDRATOR.EFFECT k P0@1,until=5 element b0 b");
    client.ask("DEHYDRATOR.POLL k COUNT 9");
    client.ask("DEHYDRATOR.LEN k");
    let Value::Array(replies) = client.ask("EXEC") else { panic!("no replies") };
    assert_eq!(replies[3..], [texts(&["element", "element"]), Value::Int(0)]);
}

#[test]
fn a_mass_of_dead_letters_keeps_no_other_group_waiting() {
    let (server, mut client) = Server::with_client(&[]);
    let late = |number| format!("DEHYDRATOR.EFFECT k P0@1,until=5 element a{number} a");
    for rule in
        ["ONDUE k HOLD", "ONDUE k HOLD DELIVERIES 3 STREAM s", "ONDUE k HOLD DELIVERIES 3 DROP"]
    {
        client.ask("DEL k");
        client.ask(&format!("DEHYDRATOR.{rule}"));
        client.ask("MULTI");
        for number in 0..3000 {
            client.ask(&late(number));
        }
        client.ask("DEHYDRATOR.PUSH k 0 element b GROUP b");
        client.ask("DEHYDRATOR.POLL k COUNT 1 WITHIDS");
        let Value::Array(mut replies) = client.ask("EXEC") else { panic!("no replies") };
        let polled = replies.pop().expect("the last one");
        assert_eq!(polled, Value::Array(vec![texts(&["b", "element"])]), "{rule}");
        let has_left = |client: &mut Connection| client.ask("DEHYDRATOR.LEN k") == Value::Int(0);
        until("those have left", || has_left(&mut client).then_some(()));
        // A client that sleeps gets its element while more are moved.
        let mut other = server.connect();
        let sleeper = std::thread::spawn(move || {
            // The server runs the second command as soon as the first one is replied.
            let mut both = redis::pipe();
            both.add_command(cmd("DEHYDRATOR.POLL k BLOCK 0 COUNT 1 WITHIDS"));
            both.add_command(cmd("DEHYDRATOR.LEN k GROUP a"));
            both.query::<(Value, u64)>(&mut other).expect("two replies")
        });
        until("it sleeps", || (waiters(&server) == 1).then_some(()));
        client.ask("MULTI");
        for from in (0..100_000).step_by(1000) {
            let mut pipe = redis::pipe();
            for number in from..from + 1000 {
                pipe.add_command(cmd(&late(number)));
            }
            pipe.query::<Value>(&mut client).expect("queued");
        }
        client.ask("DEHYDRATOR.PUSH k 0 element b GROUP b");
        client.ask("EXEC");
        let (reply, left) = sleeper.join().expect("no panic");
        assert_eq!(reply, Value::Array(vec![texts(&["b", "element"])]), "{rule}");
        assert!(left > 0, "{rule}: only when all were gone");
    }
}

#[test]
fn sleepers_wake_for_each_group() {
    let (server, mut client) = Server::with_client(&[]);
    let sleepers: Vec<_> = (0..3)
        .map(|_| Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000"))
        .collect();
    client.ask("DEHYDRATOR.PUSH k 50 element a1 GROUP a");
    client.ask("DEHYDRATOR.PUSH k 60 element a2 GROUP a");
    client.ask("DEHYDRATOR.PUSH k 55 element b1 GROUP b");
    for sleeper in sleepers {
        let Value::Array(rows) = sleeper.reply() else { panic!("no rows") };
        assert_eq!(rows.len(), 1);
    }
    assert_eq!(client.ask("DEHYDRATOR.LEN k GROUP a"), Value::Int(2));
}

#[test]
fn groups_and_shares_are_part_of_the_value_wherever_it_goes() {
    let mut primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    for number in 0..600 {
        let group = ["GROUP a", "GROUP b", "SLACK 5", "GROUP b WITHIN 600000"][number % 4];
        let id = number % 450;
        client.ask(&format!("DEHYDRATOR.PUSH k 600000 element i{id} REPLACE {group}"));
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element j{number} GROUP g{}", number % 40));
    }
    client.ask("DEHYDRATOR.LIMIT k GROUP b SHARE 7");
    client.ask("DEHYDRATOR.LIMIT k GROUP nobody SHARE 2");
    client.ask("DEHYDRATOR.MPUSH k 600000 A a 600000 B b GROUP b DELIVERIES 2");
    client.ask("DEHYDRATOR.GIDPUSH k 600000 element GROUP c");
    client.ask("DEHYDRATOR.POLL k LEASE 600000 COUNT 7");
    client.ask("DEHYDRATOR.POLL k COUNT 5");
    client.ask("DEHYDRATOR.PUSH tiny 600000 element id GROUP t");
    catch_up(&primary, &replica);
    let keys = ["k", "tiny"];
    let digests = keys.map(|key| client.digest(key));
    let info = |client: &mut Connection| {
        let fields: HashMap<String, Value> =
            cmd("DEHYDRATOR.INFO k FULL").query(client).expect("a map");
        (fields["groups"].clone(), fields["length"].clone())
    };
    let counts = info(&mut client);
    assert_eq!(counts.0, Value::Int(43));
    assert_eq!(keys.map(|key| replica.connect().digest(key)), digests);
    assert_eq!(info(&mut replica.connect()), counts);
    for rewrites in [false, true] {
        if rewrites {
            client.rewrite_aof();
        }
        primary.restart();
        client = primary.connect();
        assert_eq!(keys.map(|key| client.digest(key)), digests);
        assert_eq!(info(&mut client), counts);
        assert_eq!(share(&mut client, "b"), Value::Int(7));
    }
    keys.iter().for_each(|key| copies_are_equal(&mut client, key));
}

#[test]
fn a_failover_during_deliveries_keeps_the_order_within_each_group() {
    const COUNT: usize = 12_000;
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask("CONFIG SET dehydrator.tick-budget-us 200");
    let group_of = |id: usize| ["", "a", "b", "c"][id % 7 % 4];
    let mut pipe = redis::pipe();
    pipe.atomic();
    for id in 0..COUNT {
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(1).arg(id).arg(id);
        push.arg("AT").arg(id + 1).arg("GROUP").arg(group_of(id));
    }
    pipe.exec(&mut client).expect("replies");
    client.ask("DEHYDRATOR.LIMIT k GROUP a SHARE 3");
    // A new replica is not online at once, and nothing may be delivered until it can take over.
    until("the replica is online", || (client.ask("WAIT 1 100") == Value::Int(1)).then_some(()));
    client.ask("DEHYDRATOR.ONDUE k LIST l");
    until("some are delivered", || {
        matches!(client.ask("LLEN l"), Value::Int(length) if length > 500).then_some(())
    });
    client.ask(&format!("FAILOVER TO 127.0.0.1 {}", replica.port()));
    let mut there = replica.connect();
    until("it has taken over", || {
        format!("{:?}", there.ask("ROLE")).contains("master").then_some(())
    });
    until("all are delivered", || (there.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
    let ids: Vec<usize> = cmd("LRANGE l 0 -1").query(&mut there).expect("a list");
    assert_eq!(ids.len(), COUNT);
    for group in ["", "a", "b", "c"] {
        let is_in = |id: &usize| group_of(*id) == group;
        let those = ids.iter().copied().filter(is_in);
        assert!(those.eq((0..COUNT).filter(is_in)), "{group:?}: each once, in order");
    }
    assert!(replica.info("dehydrator", "dehydrator_deliveries") > 0, "nothing was left for it");
}

#[test]
fn a_push_that_is_refused_leaves_the_turns_as_they_are() {
    let (_server, mut client) = Server::with_client(&[]);
    for element in ["0 c1 c1 AT 1000 GROUP c", "0 a1 a1 AT 2000 GROUP a", "0 b1 b1 AT 2000 GROUP b"]
    {
        client.ask(&format!("DEHYDRATOR.PUSH k {element}"));
    }
    assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 1"), texts(&["c1"]));
    client.ask("DEHYDRATOR.LIMIT k LENGTH 2");
    let refused = client.refused("DEHYDRATOR.PUSH k 0 element a2 AT 500 GROUP a");
    assert!(refused.starts_with("FULL"), "{refused}");
    // Those of one moment are in the order of their pushes.
    for id in ["a1", "b1"] {
        assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 1"), texts(&[id]));
    }
}
