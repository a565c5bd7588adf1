//! Restarts preserve every deadline, id, element, TTL, and the order.

use redis::{Connection, Value};

use harness::{Ask, Server};

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
