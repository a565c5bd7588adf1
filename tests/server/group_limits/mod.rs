//! Limits and pauses of groups.

mod change;
mod pauses;
mod rate;
mod value;

use std::collections::{BTreeMap, HashMap};

use redis::{Connection, Value};

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

/// Returns these fields of a map.
fn numbers<const N: usize>(client: &mut Connection, line: &str, names: [&str; N]) -> [u64; N] {
    let map: HashMap<String, Value> =
        cmd(&format!("DEHYDRATOR.{line}")).query(client).expect("a map");
    names.map(|name| redis::from_redis_value(map[name].clone()).expect("a number"))
}

/// Returns the LENGTH, HELD, RATE and PER of each group.
fn limits_of_each(client: &mut Connection) -> [u64; 4] {
    let names = ["each-length-limit", "each-held-limit", "each-rate-limit", "each-rate-per"];
    numbers(client, "INFO k", names)
}

/// Returns the SHARE, LENGTH, HELD, RATE and PER that apply to a group.
fn limits_of(client: &mut Connection, group: &str) -> [u64; 5] {
    let names = ["share", "length-limit", "held-limit", "rate-limit", "rate-per"];
    numbers(client, &format!("INFO k GROUP {group}"), names)
}

#[test]
fn one_lease_per_group_gives_out_each_group_in_order() {
    let (server, mut client) = Server::with_client(&[]);
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
fn an_expired_lease_comes_first_and_does_not_restart_beyond_the_limit() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    push(&mut client, "a1 a2 a3");
    assert_eq!(leased_at_once(&mut client, 1, 1), "a1");
    let is_over = |client: &mut Connection| client.ask("DEHYDRATOR.PTTL k a1") == Value::Int(0);
    until("the lease is over", || is_over(&mut client).then_some(()));
    // A tool leases beyond the limit.
    client.ask("DEHYDRATOR.EFFECT k L600000@4102444800000@7 a2");
    let renewed = |client: &mut Connection| client.ask("DEHYDRATOR.RENEW k 1 t a1");
    assert_eq!(renewed(&mut client), Value::Array(vec![Value::Int(0)]));
    client.ask("DEHYDRATOR.SETTLE k 7 a2");
    assert_eq!(renewed(&mut client), Value::Array(vec![Value::Int(1)]));
    until("the lease is over", || is_over(&mut client).then_some(()));
    // What a dead worker had comes before what waits behind it.
    let other = "DEHYDRATOR.POLL k COUNT 9 LEASE 1 TOKEN u";
    assert_eq!(ids(&client.ask(other)), ["a1"]);
    // Setting its deadline ends a lease that is over.
    until("the lease is over", || is_over(&mut client).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k 600000 a1"), Value::Int(1));
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k u a1"), Value::Array(vec![Value::Int(0)]));
    assert_eq!(ids(&client.ask(other)), ["a3"]);
}

#[test]
fn several_workers_finish_each_group_in_order() {
    let (server, mut client) = Server::with_client(&[]);
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
                    if reply == texts(&[]) {
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
    let (_server, mut client) = Server::with_client(&[]);
    assert_eq!(limits_of_each(&mut client), [0, 0, 0, 0]);
    assert_eq!(limits_of(&mut client, "b"), [1, 0, 0, 0, 0]);
    for zero in ["EACH LENGTH 0 HELD 0", "GROUP b SHARE 1 LENGTH 0 HELD 0"] {
        assert_eq!(client.ask(&format!("DEHYDRATOR.LIMIT k {zero}")), Value::Okay);
    }
    assert!(!client.exists("k"), "nothing was said");
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 2 SHARE 3 LENGTH 9");
    client.ask("DEHYDRATOR.LIMIT k EACH LENGTH 8");
    client.ask("DEHYDRATOR.LIMIT k GROUP a SHARE 2");
    assert_eq!(limits_of_each(&mut client), [8, 1, 0, 0]);
    // What applies to a group: its own limits before those of each.
    assert_eq!(limits_of(&mut client, "a"), [2, 8, 1, 0, 0]);
    assert_eq!(limits_of(&mut client, "b"), [3, 9, 2, 0, 0]);
    let of_key = ["length-limit", "held-limit", "rate-limit", "rate-per", "remember"];
    assert_eq!(numbers(&mut client, "INFO k", of_key), [0; 5], "those of the key are others");
    assert_eq!(map(&mut client, "INFO k GROUP b").len(), 9);
    push(&mut client, "a1 a2 b1 b2 b3");
    assert_eq!(leased_at_once(&mut client, 9, 600_000), "a1 b1 b2");
    // Its own limit removed, that of each group holds again, at once.
    client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 0");
    settle(&mut client, "b1");
    assert_eq!(client.ask("DEHYDRATOR.POLL k LEASE 5"), texts(&[]));
    settle(&mut client, "b2");
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 0");
    // `b` had room first.
    assert_eq!(leased(&mut client), "b3 a2");
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
    assert_eq!(error, "ERR elements without a group can have a SHARE, but no limit");
    for line in ["EACH SHARE 1", "EACH RATE 1", "GROUP a REMEMBER 1", "EACH GROUP a", "SHARE 2"] {
        client.refused(&format!("DEHYDRATOR.LIMIT k {line}"));
    }
    client.ask("SET s text");
    for line in
        ["LIMIT s EACH HELD 1", "LIMIT s GROUP a HELD 1", "PAUSE s GROUP a", "RESUME s GROUP a"]
    {
        assert!(client.refused(&format!("DEHYDRATOR.{line}")).starts_with("WRONGTYPE"), "{line}");
    }
    assert!(!client.exists("k"));
}

#[test]
fn a_group_that_is_held_back_delays_no_other() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    let many: Vec<_> = (0..3000).map(|number| format!("a{number}")).collect();
    push(&mut client, &many.join(" "));
    push(&mut client, "b1 c1 d1 b2");
    assert_eq!(leased_at_once(&mut client, 9, 600_000), "a0 b1 c1 d1");
    client.ask("DEHYDRATOR.PUSH k 0 element e1 GROUP e");
    assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000")), ["e1"]);
    // Nobody holds what is delivered: only the group that is paused stays.
    client.ask("DEHYDRATOR.PAUSE k GROUP f");
    push(&mut client, "f1 g1 -1");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let delivered = |client: &mut Connection, count| {
        until("they are delivered", || (client.ask("XLEN s") == Value::Int(count)).then_some(()));
    };
    delivered(&mut client, 2999 + 1 + 2);
    assert_eq!(map(&mut client, "INFO k GROUP f")["length"], Some(1));
    client.ask("DEHYDRATOR.RESUME k GROUP f");
    delivered(&mut client, 3003);
}

#[test]
fn a_group_has_at_most_as_many_elements_as_its_length() {
    let (_server, mut client) = Server::with_client(&[]);
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
