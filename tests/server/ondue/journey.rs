//! A policy follows its key, and ends with the key.

use std::time::{Duration, Instant};

use redis::Value;

use super::{arrived, field, ids, policy};
use crate::blocking::{cpu_us, main_cpu_us};
use harness::{Ask, Server, until};

#[test]
fn a_policy_follows_its_key() {
    let (mut server, mut client) =
        Server::with_client(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let ways: [(&str, &[&str]); 9] = [
        ("RENAME", &["RENAME k there"]),
        ("RENAME in MULTI", &["MULTI", "RENAME k a", "RENAME a b", "RENAME b there", "EXEC"]),
        ("RENAME over another", &["DEHYDRATOR.PUSH there 0 e i", "RENAME k there"]),
        ("MOVE", &["MOVE k 3", "SELECT 3", "RENAME k there"]),
        ("COPY", &["COPY k there", "DEL k"]),
        ("COPY to another database", &["COPY k there DB 7", "SELECT 7"]),
        ("SWAPDB", &["RENAME k there", "SWAPDB 0 5", "SELECT 5"]),
        ("DEBUG RELOAD", &["RENAME k there", "DEBUG RELOAD"]),
        ("rewriting the AOF", &["BGREWRITEAOF", "RENAME k there"]),
    ];
    for (way, lines) in ways {
        client.ask("FLUSHALL");
        client.ask("SELECT 0");
        client.ask("DEHYDRATOR.ONDUE k STREAM s MAXLEN ~ 1000");
        client.ask("DEHYDRATOR.PUSH k 1000 element id");
        for line in lines {
            client.ask(line);
        }
        assert_eq!(policy(&mut client, "there"), "STREAM s MAXLEN ~ 1000", "after {way}");
        // No command uses the new name: the module must find it.
        assert_eq!(arrived(&mut client, "s", 1), ["id"], "after {way}");
    }
    client.wait_for_rewrite();

    for crash in [false, true] {
        let mut client = server.connect();
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("DEHYDRATOR.PUSH k 1000 element id");
        client.ask("RENAME k there");
        if crash {
            server.crash_and_restart()
        } else {
            server.restart()
        }
        let mut client = server.connect();
        assert_eq!(arrived(&mut client, "s", 1), ["id"]);
    }
}

#[test]
fn a_policy_survives_a_dump_and_is_restored_by_it() {
    let (mut server, mut client) = Server::with_client(&["--save", "3600 1"]);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 1500 element id");
    let dump: Value = client.ask("DUMP k");
    client.ask("DEL k");
    let mut restore = redis::cmd("RESTORE");
    let Value::BulkString(payload) = dump else { panic!("a dump") };
    restore.arg("there").arg(0).arg(payload).exec(&mut client).expect("OK");
    server.restart();
    let mut client = server.connect();
    assert_eq!(policy(&mut client, "there"), "STREAM s UNCONFIRMED");
    client.ask("DEHYDRATOR.ONDUE there STREAM s");
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}

#[test]
fn a_replica_delivers_nothing_until_it_is_promoted() {
    let primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = Server::start_with_port(&["--appendonly", "yes"]);
    replica.follow(&primary);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let mut pipe = redis::pipe();
    for id in 0..2000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(id % 7 * 10).arg("element").arg(id);
    }
    pipe.exec(&mut client).expect("replies");
    let delivered = arrived(&mut client, "s", 2000);
    client.ask("DEHYDRATOR.PUSH k 4000 element later");
    client.ask("RENAME k there");
    client.ask("WAIT 1 0");
    let mut other = replica.connect();
    for key in ["s", "there"] {
        assert_eq!(client.digest(key), other.digest(key));
    }
    assert_eq!(ids(&mut other, "s"), delivered);
    assert_eq!(field(&replica, "deliveries"), 0);
    drop(client);
    drop(primary);
    until("it is due", || (other.ask("DEHYDRATOR.TTN there") == Value::Int(0)).then_some(()));
    // As long as it is a replica, blocking is useless.
    assert_eq!(other.ask("DEHYDRATOR.LEN there"), Value::Int(1));
    other.ask("REPLICAOF NO ONE");
    assert_eq!(arrived(&mut other, "s", 2001)[2000], "later");
    let before = other.ask("DEBUG DIGEST");
    other.ask("DEBUG LOADAOF");
    assert_eq!(other.ask("DEBUG DIGEST"), before);
}

#[test]
fn deleted_keys_are_forgotten() {
    let (server, mut client) = Server::with_client(&[]);
    for gone in ["DEL k", "UNLINK k", "FLUSHDB", "FLUSHALL ASYNC", "SET k v", "PEXPIRE k 1"] {
        client.ask("DEL k");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("DEHYDRATOR.PUSH k 600000 element id");
        assert_eq!(field(&server, "scheduled"), 1);
        client.ask(gone);
        until(gone, || (field(&server, "scheduled") == 0).then_some(()));
    }
}

#[test]
fn a_bound_key_that_replaces_another_is_not_forgotten() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 1000 element id");
    let Value::BulkString(dump) = client.ask("DUMP k") else { panic!("a dump") };
    for way in ["RESTORE over itself", "RESTORE over another", "COPY", "RENAME"] {
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("DEHYDRATOR.PUSH k 1000 element id");
        client.ask("DEHYDRATOR.ONDUE other STREAM t");
        client.ask("DEHYDRATOR.PUSH other 600000 element id");
        let mut restore = redis::cmd("RESTORE");
        match way {
            "RESTORE over itself" => {
                restore.arg("k").arg(0).arg(&dump).arg("REPLACE").exec(&mut client).expect("OK");
            }
            "RESTORE over another" => {
                restore
                    .arg("other")
                    .arg(0)
                    .arg(&dump)
                    .arg("REPLACE")
                    .exec(&mut client)
                    .expect("OK");
                client.ask("DEL k");
            }
            "COPY" => {
                client.ask("COPY k other REPLACE");
                client.ask("DEL k");
            }
            _ => drop(client.ask("RENAME k other")),
        }
        // A key from RESTORE delivers nothing until its policy is confirmed.
        if let Some(key) = way.strip_prefix("RESTORE over ") {
            let key = if key == "itself" { "k" } else { "other" };
            client.ask(&format!("DEHYDRATOR.ONDUE {key} STREAM s"));
        }
        until(way, || (client.ask("XLEN s") == Value::Int(1)).then_some(()));
    }
}

#[test]
fn many_bound_keys_do_not_slow_commands_on_whole_databases() {
    let (server, mut client) = Server::with_client(&["--slowlog-log-slower-than", "0"]);
    for first in (0..100_000).step_by(10_000) {
        let mut pipe = redis::pipe();
        for key in first..first + 10_000 {
            pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000).arg("element").arg("id").ignore();
            pipe.cmd("DEHYDRATOR.ONDUE").arg(key).arg("DROP").ignore();
        }
        pipe.exec(&mut client).expect("replies");
    }
    assert_eq!(field(&server, "scheduled"), 100_000);
    for line in ["SWAPDB 0 1", "FLUSHALL ASYNC"] {
        let before = main_cpu_us(&mut client);
        client.ask(line);
        let took = main_cpu_us(&mut client) - before;
        // It was 350 milliseconds, in proportion to the keys. A busy machine does not make CPU time longer.
        assert!(took < 150_000.0, "{line} took {took} us");
    }
    assert_eq!(field(&server, "scheduled"), 0);
}

#[test]
fn a_renamed_key_is_found_among_many_others() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEBUG POPULATE 20000");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 0 element first");
    arrived(&mut client, "s", 1);
    client.ask("DEHYDRATOR.PUSH k 100 element id");
    client.ask("RENAME k there");
    // A walk takes three percent of the time, in dozens of slices. What interrupts a slice lengthens the rest after it by 33 times
    // as much: on a busy machine, a walk over 500,000 keys took two minutes.
    assert_eq!(arrived(&mut client, "s", 2), ["first", "id"]);
}

#[test]
fn finding_frequently_renamed_keys_costs_a_few_percent_of_the_time() {
    const ROUNDS: u32 = 150;
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEBUG POPULATE 300000");
    client.ask("DEHYDRATOR.ONDUE ruled:0 STREAM s");
    client.ask("SET plain:0 text");
    // The server's CPU time, as a share of wall-clock time, while a key is renamed a hundred times a second.
    let mut load = |key: &str| {
        let (before, started) = (cpu_us(&mut client), Instant::now());
        for round in 0..ROUNDS {
            client.ask(&format!("RENAME {key}:{round} {key}:{}", round + 1));
            until("a hundredth of a second has gone by", || {
                (started.elapsed() > Duration::from_millis(10) * (round + 1)).then_some(())
            });
        }
        (cpu_us(&mut client) - before) / started.elapsed().as_micros() as f64
    };
    let (without, with) = (load("plain"), load("ruled"));
    assert!(with - without < 0.08, "{with} of the time, beside {without}");
}
