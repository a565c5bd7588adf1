//! What is told to workers whose elements others cancel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use crate::wire::Wire;
use harness::{Ask, Server, cmd, setting, until};

/// A connection that hears messages, from whatever channel it has subscribed to.
struct Worker(Wire);

impl Worker {
    fn subscribe(server: &Server, line: &str) -> Self {
        let mut wire = Wire::connect(server);
        wire.send(line);
        wire.ends_with(":1\r\n");
        Self(wire)
    }

    /// Asserts that these messages have come since the last time, and no others: what is published afterwards comes next.
    #[track_caller]
    fn heard(&mut self, client: &mut Connection, ids: &[&str]) {
        client.ask("PUBLISH __cancelled@0__:k no-more");
        let message = |id: &&str| message(&id[..]);
        let expected: String = ids.iter().chain(&["no-more"]).map(message).collect();
        assert_eq!(self.0.ends_with(&expected), expected);
    }
}

fn message(id: &str) -> String {
    let length = id.len();
    format!("*3\r\n$7\r\nmessage\r\n$17\r\n__cancelled@0__:k\r\n${length}\r\n{id}\r\n")
}

/// Pushes these, and leases them.
fn lease(client: &mut Connection, ids: &[&str]) {
    for id in ids {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element {id} GROUP g"));
    }
    let rows: Vec<Value> =
        cmd("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine").query(client).expect("rows");
    assert_eq!(rows.len(), ids.len());
}

#[test]
fn a_worker_is_told_what_others_cancel() {
    let (server, mut client) = Server::with_client(&[]);
    let mut worker = Worker::subscribe(&server, "SUBSCRIBE __cancelled@0__:k");
    for (line, told) in [
        ("DEHYDRATOR.PULL k a", &["a"][..]),
        ("DEHYDRATOR.REM k c nobody a a", &["c", "a"]),
        ("DEHYDRATOR.PURGE k GROUP g COUNT 2", &["a", "b"]),
        ("DEHYDRATOR.PUSH k 0 other b REPLACE", &["b"]),
        ("DEHYDRATOR.MPUSH k 0 other new 0 other b REPLACE", &["b"]),
        // Its lease ends, and another worker may have it.
        ("DEHYDRATOR.TOUCH k 0 IDS 2 a b", &["a", "b"]),
        ("DEHYDRATOR.TOUCH k 5000 a", &[]),
        ("DEHYDRATOR.UPDATE k a other", &[]),
        ("DEHYDRATOR.PUSH k 0 other b NX", &[]),
        // These are said by whoever did the job.
        ("DEHYDRATOR.SETTLE k mine a", &[]),
        ("DEHYDRATOR.RELEASE k 0 mine a", &[]),
        ("DEHYDRATOR.RENEW k 0 mine a", &[]),
        ("DEHYDRATOR.XACK k a", &[]),
        ("DEHYDRATOR.POLL k", &[]),
    ] {
        client.ask("FLUSHALL");
        lease(&mut client, &["a", "b", "c"]);
        client.ask("DEHYDRATOR.PUSH k 0 element free GROUP g");
        client.ask("DEHYDRATOR.REM k free");
        client.ask(line);
        worker.heard(&mut client, told);
    }
    // As the commands of one transaction.
    client.ask("FLUSHALL");
    lease(&mut client, &["a", "b"]);
    for line in ["MULTI", "DEHYDRATOR.PULL k a", "DEHYDRATOR.PULL k b", "EXEC"] {
        client.ask(line);
    }
    worker.heard(&mut client, &["a", "b"]);
    lease(&mut client, &["a"]);
    cmd("EVAL return(redis.call('DEHYDRATOR.REM','k','a')) 0").exec(&mut client).expect("a script");
    worker.heard(&mut client, &["a"]);
    // The same key elsewhere is another key.
    client.ask("SELECT 1");
    lease(&mut client, &["a"]);
    client.ask("DEHYDRATOR.REM k a");
    worker.heard(&mut client, &[]);
}

/// Returns what is held, each with its token.
fn held(client: &mut Connection) -> BTreeMap<String, String> {
    type Row = (String, u64, u64, u64, u64, Option<String>, Option<u64>);
    let (_, rows): (Value, Vec<Row>) =
        cmd("DEHYDRATOR.RANGE k - + WITHTOKENS").query(client).expect("rows");
    rows.into_iter().filter_map(|row| Some((row.0, row.5?))).collect()
}

#[test]
fn whatever_others_do_a_worker_is_told_of_what_it_holds_no_more_and_of_nothing_else() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let mut seed = setting("DEHYDRATOR_SEED", now.as_nanos() as u64 | 1);
    println!("DEHYDRATOR_SEED={seed}");
    let mut below = |end: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % end
    };
    let (server, mut client) = Server::with_client(&[]);
    let mut worker = Wire::connect(&server);
    worker.send("SUBSCRIBE __cancelled@0__:k");
    worker.ends_with(":1\r\n");
    let mut told_of = 0;
    for round in 0..setting("DEHYDRATOR_OPERATIONS", 3000) {
        let [a, b] = [(); 2].map(|()| char::from(b'a' + below(6) as u8));
        let [ms, g] = [[0, 5, 600_000][below(3) as usize], below(2)];
        let before = held(&mut client);
        let word = |id: char| before.get(&id.to_string()).map_or("7", String::as_str);
        let of_others = [
            format!("PUSH k {ms} element {a} REPLACE GROUP g{g}"),
            format!("PUSH k {ms} element {a} NX"),
            format!("MPUSH k {ms} element {a} 0 element {b} REPLACE"),
            format!("MPUSH k {ms} element {a} 0 element {b} NX GROUP g{g}"),
            format!("PULL k {a}"),
            format!("REM k {a} {b} {a}"),
            format!("PURGE k GROUP g{g} COUNT 2"),
            format!("UPDATE k {a} {ms}"),
            format!("TOUCH k {ms} {a}"),
            format!("TOUCH k {ms} IDS 2 {a} {b}"),
            format!("TOUCH k {ms} GT {a}"),
            format!("TOUCH k 5 AT {} {a}", [9, 4_102_444_800_000_u64][below(2) as usize]),
            format!("TOUCH k {ms} GROUP g{g}"),
            [
                format!("LIMIT k HELD {}", below(4)),
                format!("LIMIT k EACH HELD {}", below(3)),
                format!("LIMIT k REMEMBER {}", below(2) * 5),
            ][below(3) as usize]
                .clone(),
        ];
        let of_a_worker = [
            format!("POLL k COUNT 2 LEASE 600000 TOKEN t{round}"),
            format!("POLL k COUNT 2 LEASE 600000 TOKEN t{round}"),
            format!("POLL k COUNT 2 LEASE 1 TOKEN t{round}"),
            format!("POLL k COUNT {}", 1 + below(2)),
            format!("XACK k {a} {b}"),
            format!("SETTLE k {} {a} 7 {b}", word(a)),
            format!("RENEW k {ms} {} {a}", word(a)),
            format!("RELEASE k {ms} {} {a} {} {b} UNCOUNTED", word(a), word(b)),
        ];
        let of_others_only = below(2) == 0;
        let lines = if of_others_only { &of_others[..] } else { &of_a_worker };
        let line = &lines[below(lines.len() as u64) as usize];
        // Refused or not.
        _ = cmd(&format!("DEHYDRATOR.{line}")).query::<Value>(&mut client);
        let after = held(&mut client);
        let lost = before.iter().filter(|(id, token)| after.get(*id) != Some(*token));
        let expected: BTreeSet<_> = lost.map(|(id, _)| id.clone()).collect();
        let expected = if of_others_only { expected } else { BTreeSet::new() };
        client.ask(&format!("PUBLISH __cancelled@0__:k end-{round}"));
        let end = message(&format!("end-{round}"));
        let came = worker.ends_with(&end);
        let ids = came.split("\r\n").skip(6).step_by(7).map(str::to_owned);
        let mut told: BTreeSet<_> = ids.collect();
        assert!(told.remove(&format!("end-{round}")), "{came}");
        assert_eq!(told, expected, "{line}: {before:?}, {after:?}");
        told_of += told.len();
    }
    assert!(told_of > 30, "{told_of}");
}

#[test]
fn what_was_done_before_is_not_told_again() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut on_replica = Worker::subscribe(&replica, "SUBSCRIBE __cancelled@0__:k");
    let mut on_primary = Worker::subscribe(&primary, "SUBSCRIBE __cancelled@0__:k");
    let mut client = primary.connect();
    lease(&mut client, &["a", "b"]);
    client.ask("DEHYDRATOR.PULL k a");
    client.ask("DEHYDRATOR.REM k b");
    catch_up(&primary, &replica);
    // What clients publish replicates.
    on_replica.heard(&mut client, &[]);
    on_primary.heard(&mut client, &["a", "b", "no-more"]);
}

#[test]
fn a_worker_that_cancels_its_own_element_is_told_between_replies() {
    let (server, mut client) = Server::with_client(&[]);
    lease(&mut client, &["a"]);
    let mut wire = Wire::connect(&server);
    wire.send("HELLO 3");
    wire.send("SUBSCRIBE __cancelled@0__:k");
    wire.ends_with(":1\r\n");
    wire.send("DEHYDRATOR.PURGE k GROUP g");
    // Later versions put it behind the reply.
    let (told, reply) = (message("a").replace("*3", ">3"), ":1\r\n");
    let came = wire.so_far();
    let orders = [[&told, reply].concat(), [reply, &told].concat()];
    assert!(orders.iter().any(|order| came.starts_with(&order[..])), "{came}");
}

#[test]
fn in_a_cluster_the_shard_is_told_if_anybody_listens() {
    let (server, mut client) = Server::with_client(&["--cluster-enabled", "yes"]);
    client.ask("CLUSTER ADDSLOTSRANGE 0 16383");
    until("it serves", || {
        let info = format!("{:?}", client.ask("CLUSTER INFO"));
        info.contains("cluster_state:ok").then_some(())
    });
    for (key, channel) in [("k", "__cancelled@0__:{k}"), ("{k}:1", "__cancelled@0__:{k}:1")] {
        let slot = |client: &mut Connection, name| client.ask(&format!("CLUSTER KEYSLOT {name}"));
        assert_eq!(slot(&mut client, key), slot(&mut client, channel));
        let lease_one = |client: &mut Connection, id| {
            client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element {id}"));
            client.ask(&format!("DEHYDRATOR.POLL {key} LEASE 600000"));
        };
        lease_one(&mut client, "unheard");
        client.ask(&format!("DEHYDRATOR.REM {key} unheard"));
        let mut worker = Worker::subscribe(&server, &format!("SSUBSCRIBE {channel}"));
        lease_one(&mut client, "heard");
        for line in ["MULTI", &format!("DEHYDRATOR.REM {key} heard"), "EXEC"] {
            client.ask(line);
        }
        let length = channel.len();
        let message = format!("*3\r\n$8\r\nsmessage\r\n${length}\r\n{channel}\r\n$5\r\nheard\r\n");
        assert_eq!(worker.0.ends_with("heard\r\n"), message);
    }
}
