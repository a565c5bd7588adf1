//! LENGTH: the maximum number of elements.

use redis::{Connection, Value};

use super::limits;
use harness::{Ask, Server, cmd, until};

/// Returns the error of a push beyond a length limit.
fn full(length: u64) -> String {
    format!(
        "FULL the dehydrator holds {length} elements already, which is the LENGTH that LIMIT set"
    )
}

fn numbers(client: &mut Connection, line: &str) -> Vec<i64> {
    cmd(line).query(client).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn a_new_id_is_refused_and_a_replacement_needs_no_capacity() {
    let (_server, mut client) = Server::with_client(&[]);
    assert_eq!(client.ask("DEHYDRATOR.LIMIT k LENGTH 2"), Value::Okay);
    client.ask("DEHYDRATOR.PUSH k 60000 one a");
    assert!(matches!(client.ask("DEHYDRATOR.GIDPUSH k 0 two"), Value::BulkString(_)));
    for options in ["", " NX", " REPLACE", " SLACK 50"] {
        assert_eq!(client.refused(&format!("DEHYDRATOR.PUSH k 0 three c{options}")), full(2));
    }
    assert_eq!(client.refused("DEHYDRATOR.GIDPUSH k 0 three"), full(2));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(2));
    // The existing elements.
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 60000 other a REPLACE"), Value::Okay);
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 60000 more a NX"), Value::Nil);
    assert!(client.refused("DEHYDRATOR.PUSH k 60000 more a").starts_with("EXISTS "));
    client.ask("DEHYDRATOR.UPDATE k a longer-than-before");
    // Leased elements count; taken ones do not.
    client.ask("DEHYDRATOR.POLL k LEASE 60000");
    assert_eq!(client.refused("DEHYDRATOR.PUSH k 0 three c"), full(2));
    client.ask("DEHYDRATOR.REM k a");
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 0 three c"), Value::Okay);
    // A limit below the current length removes nothing.
    client.ask("DEHYDRATOR.LIMIT k LENGTH 1");
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(2));
    assert_eq!(client.refused("DEHYDRATOR.PUSH k 0 four d"), full(1));
    client.ask("DEHYDRATOR.LIMIT k LENGTH 0");
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 0 four d"), Value::Okay);
    assert_eq!(limits(&mut client, "k"), [0; 5]);
}

#[test]
fn mpush_reports_the_result_of_each_element() {
    let (server, mut client) = Server::with_client(&["--dehydrator.max-elements", "5"]);
    client.ask("DEHYDRATOR.LIMIT k LENGTH 3");
    let a_to_d = "60000 x a 60000 x b 60000 x c 60000 x d";
    assert_eq!(numbers(&mut client, &format!("DEHYDRATOR.MPUSH k {a_to_d}")), [1, 1, 1, -1]);
    client.ask("DEHYDRATOR.REM k a b");
    let line = format!("DEHYDRATOR.MPUSH k 60000 x c {a_to_d}");
    assert_eq!(numbers(&mut client, &format!("{line} NX")), [0, 1, 1, 0, -1]);
    assert!(client.refused(&line).starts_with("EXISTS "));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(3));
    client.ask("DEHYDRATOR.REM k a");
    let replaced = numbers(&mut client, &format!("DEHYDRATOR.MPUSH k 60000 y e {a_to_d} REPLACE"));
    assert_eq!(replaced, [1, -1, 1, 1, -1]);
    // The same id twice counts once.
    client.ask("DEHYDRATOR.REM k e");
    let twice = "DEHYDRATOR.MPUSH k 60000 y e 60000 z e 60000 y f REPLACE";
    assert_eq!(numbers(&mut client, twice), [1, 1, -1]);
    // None at all: nothing has changed.
    let mut other = server.connect();
    client.ask("WATCH k");
    assert_eq!(numbers(&mut other, "DEHYDRATOR.MPUSH k 0 x f 0 x g"), [-1, -1]);
    client.ask("MULTI");
    client.ask("PING");
    assert_ne!(client.ask("EXEC"), Value::Nil);
    // The operator's own limit is all or nothing, as always.
    client.ask("DEHYDRATOR.LIMIT k LENGTH 100");
    assert!(
        client.refused(&format!("DEHYDRATOR.MPUSH k {}", "0 x p 0 x q 0 x r")).starts_with("FULL ")
    );
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(3));
}

#[test]
fn replicas_and_loading_ignore_the_limit() {
    let mut server = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&server);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.MPUSH k 60000 x a 60000 x b 60000 x c");
    client.ask("DEHYDRATOR.LIMIT k LENGTH 1");
    // The effect of an element given back to a full key, and of a replacement.
    client.ask("DEHYDRATOR.PUSH k 60000 y a REPLACE");
    let mut there = replica.connect();
    let digest = client.digest("k");
    until("the replica is the same", || (there.digest("k") == digest).then_some(()));
    for rewrites in [false, true] {
        if rewrites {
            client.ask("CONFIG SET aof-use-rdb-preamble no");
            client.rewrite_aof();
        }
        server.crash_and_restart();
        client = server.connect();
        assert_eq!(client.digest("k"), digest, "{rewrites}");
    }
    assert_eq!(client.refused("DEHYDRATOR.PUSH k 0 x d"), full(1));
    let dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
    let restored: Value =
        redis::cmd("RESTORE").arg("other").arg(0).arg(dump).query(&mut client).expect("OK");
    assert_eq!((restored, client.digest("other")), (Value::Okay, digest));
}
