//! Restarts preserve every deadline, id, element, TTL, and the order.

use std::collections::BTreeMap;

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd};

/// Stores a bit of everything: ties across TTLs, many blocks and pages, large and empty elements, many TTLs.
fn fill(client: &mut Connection) {
    let mut pipe = redis::pipe();
    let mut push = |ttl: u64, element: &[u8], id: &[u8], at: u64| {
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(element).arg(id).arg("AT").arg(at);
    };
    let far = 4_102_444_800_000;
    for number in 0..20_000_u64 {
        let id = format!("id-{number}");
        push(number % 13, &vec![b'x'; number as usize % 200], id.as_bytes(), far + number % 97);
    }
    for number in 0..6000_u64 {
        push(1_000_000 + number, b"rare", format!("rare-{number}").as_bytes(), far - number * 7);
    }
    push(5, &[0xff; 300_000], b"large", 5);
    push(5, b"", b"", 5);
    push(5, b"a\0b\r\n", b"\0", 4);
    push(i64::MAX as u64, b"never", b"never", i64::MAX as u64);
    for (id, times) in [("id-1", 1), ("id-2", 3), ("rare-7", 2)] {
        for _ in 0..times {
            pipe.cmd("DEHYDRATOR.EFFECT").arg("k").arg(format!("L70000@{far}@5")).arg(id);
        }
    }
    for (id, token) in
        [("id-2", "4611686018427387904"), ("id-3", "7"), ("id-4", "9223372036854775807")]
    {
        pipe.cmd("DEHYDRATOR.EFFECT").arg("k").arg(format!("L70000@{far}@{token}")).arg(id);
    }
    let head = format!("P9@{far},delivered=3");
    pipe.cmd("DEHYDRATOR.EFFECT").arg("k").arg(head).arg("given back").arg("given-back");
    pipe.exec(client).expect("pushes");
}

/// Returns everything in order, as far as commands show it: the digest, and the due elements.
fn content(client: &mut Connection) -> (Value, Value) {
    (client.digest("k"), client.ask("DEHYDRATOR.XPOLL k"))
}

fn survives_restarts(options: &[&str]) {
    let (mut server, mut client) = Server::with_client(options);
    fill(&mut client);
    client.ask("DEHYDRATOR.PULL k id-77");
    client.ask("DEHYDRATOR.UPDATE k id-78 changed");
    client.ask("DEHYDRATOR.XACK k large");
    let before = content(&mut client);
    for _ in 0..2 {
        server.restart();
        client = server.connect();
        assert_eq!(content(&mut client), before);
    }
    client.ask("DEHYDRATOR.POLL k");
    let before = content(&mut client);
    server.restart();
    assert_eq!(content(&mut server.connect()), before);
}

#[test]
fn an_rdb_file_keeps_everything() {
    survives_restarts(&["--save", "3600 1"]);
}

#[test]
fn an_rdb_file_without_compression_and_checksum_keeps_everything() {
    survives_restarts(&["--save", "3600 1", "--rdbcompression", "no", "--rdbchecksum", "no"]);
}

#[test]
fn an_append_only_file_keeps_everything() {
    survives_restarts(&["--appendonly", "yes"]);
}

#[test]
fn a_rewritten_append_only_file_of_commands_keeps_everything() {
    let (mut server, mut client) =
        Server::with_client(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    fill(&mut client);
    let before = content(&mut client);
    client.rewrite_aof();
    assert!(server.log().contains("Background AOF rewrite finished successfully"));
    server.crash_and_restart();
    assert_eq!(content(&mut server.connect()), before);
}

#[test]
fn the_append_only_file_gets_effects_not_intentions() {
    // With `everysec`, the last command may not be in the file yet.
    let (server, mut client) =
        Server::with_client(&["--appendonly", "yes", "--appendfsync", "always"]);
    client.ask("DEHYDRATOR.PUSH k 0 first one");
    client.ask("DEHYDRATOR.GIDPUSH k 0 second");
    client.ask("DEHYDRATOR.POLL k");
    client.ask("DEHYDRATOR.PUSH k 0 third three");
    client.ask("DEHYDRATOR.XACK k three four five");
    client.ask("DEHYDRATOR.MPUSH k 9000 four 4 9000 five 5 NX");
    client.ask("DEHYDRATOR.MPUSH k 9000 four 4 9000 five 5 NX");
    client.ask("DEHYDRATOR.MPUSH k 9000 other 4 AT 4102444800000 REPLACE");
    client.ask("DEHYDRATOR.TOUCH k 8000 AT 4102444800000 IDS 3 4 5 6");
    let mut words = String::new();
    for entry in std::fs::read_dir(server.file("appendonlydir")).expect("a folder").flatten() {
        if entry.file_name().to_string_lossy().contains(".incr.") {
            let bytes = std::fs::read(entry.path()).expect("a file");
            words.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    // The level that readers need precedes the first effect, in one transaction with it. One more transaction contains
    // two effects.
    assert_eq!(words.matches("\r\nN1\r\n").count(), 1, "{words}");
    assert_eq!(words.matches("MULTI").count(), 2, "{words}");
    assert!(!words.contains("DEL"), "{words}");
    assert_eq!(words.matches("DEHYDRATOR.EFFECT").count(), 8, "{words}");
    assert_eq!(words.matches("P9000@4102444800000").count(), 1, "{words}");
    assert_eq!(words.matches("T8000@4102444800000").count(), 1, "{words}");
    assert_eq!(words.matches("\r\nP0@1").count(), 3, "{words}");
    assert_eq!(words.matches("DEHYDRATOR.REM").count(), 2, "{words}");
    for asked in ["POLL", "GID", "PUSH", "TOUCH", "IDS", "NX", "REPLACE"] {
        assert!(!words.contains(asked), "{asked}: {words}");
    }
}

#[test]
fn writes_acknowledged_by_waitaof_are_in_the_files_of_primary_and_replica() {
    for flushed in ["always", "everysec"] {
        let options = ["--appendonly", "yes", "--appendfsync", flushed];
        let mut primary = Server::start_with_port(&options);
        if primary.version() < (7, 2) {
            println!("skipped: this server has no WAITAOF");
            return;
        }
        let mut replica = Server::start_with_port(&options);
        replica.follow(&primary);
        let mut client = primary.connect();
        client.ask("DEHYDRATOR.ONDUE later STREAM stream");
        for line in [
            "PUSH k 600000 element id",
            "MPUSH k 0 element due 0 element taken",
            "POLL k LEASE 600000 COUNT 1 TOKEN token",
            "POLL k COUNT 1",
            "TOUCH k 700000 id",
            "PUSH later 0 element id",
        ] {
            client.ask(&format!("DEHYDRATOR.{line}"));
            // Both have flushed this client's writes, within a minute.
            let flushed_by = client.ask("WAITAOF 1 1 60000");
            assert_eq!(flushed_by, Value::Array(vec![Value::Int(1), Value::Int(1)]), "{line}");
        }
        let all = |client: &mut Connection| {
            (client.digest("k"), client.ask("DEHYDRATOR.LEN later"), client.ask("XLEN stream"))
        };
        let before = all(&mut client);
        assert_eq!(before.2, Value::Int(1), "it was delivered");
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(2));
        replica.kill();
        primary.crash_and_restart();
        assert_eq!(all(&mut primary.connect()), before);
        primary.kill();
        replica.relaunch();
        assert_eq!(all(&mut replica.connect()), before);
    }
}

/// What a value may have beside its elements, and what an element may have.
const ALL: [&str; 22] = [
    "LIMIT k LENGTH 900 HELD 50 RATE 40 PER 86400000 REMEMBER 86400000",
    "LIMIT k EACH LENGTH 80",
    "LIMIT k GROUP a SHARE 7 HELD 9 RATE 30 PER 86400000",
    "LIMIT k GROUP  SHARE 2",
    "PAUSE k GROUP p",
    "PAUSE k AT 4102444799999 GROUP q",
    "PUSH k 0 element a1 GROUP a",
    "PUSH k 0 element a2 GROUP a DELIVERIES 3",
    "PUSH k 0 element b1 GROUP b WITHIN 86400000",
    "PUSH k 0 element p1 GROUP p",
    "PUSH k 0 element taken",
    "PUSH k 600000 element later SLACK 50",
    "POLL k LEASE 600000 TOKEN mine",
    "RENEW k 700000 mine a1",
    "RELEASE k 500000 mine a2 REASON timeout",
    "RELEASE k 0 mine b1 UNCOUNTED",
    "PULL k taken",
    "EVERY k 86400000 element daily TIMES 5 JITTER 5",
    "EVERY k 3600000 element halted MISSED ALL GROUP a",
    "PAUSE k SCHEDULE halted",
    "ONDUE k HOLD DELIVERIES 9 STREAM s MAXLEN ~ 1000",
    "PAUSE k AT 4102444799999",
];

#[test]
fn whatever_a_key_has_is_in_every_file_and_copy_and_on_replicas() {
    let mut primary =
        Server::start_with_port(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    ALL.iter().for_each(|line| _ = client.ask(&format!("DEHYDRATOR.{line}")));
    let shown = |client: &mut Connection, key: &str| -> Vec<Value> {
        let groups = ["a", "b", "p", "q", ""].map(|it| format!("INFO {key} GROUP {it}"));
        let ids = ["a1", "a2", "b1", "p1", "later"].map(|it| format!("LOOK {key} {it} FULL"));
        let lines = groups.into_iter().chain(ids).chain([format!("SCHEDULES {key}")]);
        let mut shown: Vec<_> =
            lines.map(|line| client.ask(&format!("DEHYDRATOR.{line}"))).collect();
        let mut info: BTreeMap<String, Value> =
            cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
        let fields = [
            "length-limit",
            "held-limit",
            "rate-limit",
            "rate-room",
            "each-length-limit",
            "remember",
            "remembered",
            "paused-until",
            "policy",
            "given-back",
        ];
        shown.extend(fields.map(|field| info.remove(field).expect(field)));
        shown.push(client.digest(key));
        shown
    };
    let before = shown(&mut client, "k");
    catch_up(&primary, &replica);
    assert_eq!(shown(&mut replica.connect(), "k"), before, "on a replica");
    for way in ["the effects", "a rewritten file", "a snapshot"] {
        match way {
            "a rewritten file" => client.rewrite_aof(),
            "a snapshot" => _ = client.ask("CONFIG SET aof-use-rdb-preamble yes"),
            _ => {}
        }
        if way == "a snapshot" {
            client.ask("DEBUG RELOAD");
        } else {
            primary.restart();
            client = primary.connect();
        }
        assert_eq!(shown(&mut client, "k"), before, "from {way}");
    }
    client.ask("COPY k copy");
    assert_eq!(shown(&mut client, "copy"), before, "a copy");
    client.ask("RENAME k renamed");
    assert_eq!(shown(&mut client, "renamed"), before, "under another name");
}
