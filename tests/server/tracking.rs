//! CLIENT TRACKING: a client with a cache is told of changes to what it has read, and of nothing else.

use redis::{Connection, Value};

use crate::wire::Wire;
use harness::{Ask, Server, cmd, until};

/// Returns the keys that a client was told of until now, each once.
fn told(wire: &mut Wire, keys: &[&str]) -> Vec<String> {
    let came = wire.so_far();
    let is_named = |key: &&&str| {
        came.split("invalidate\r\n*").skip(1).any(|push| push.contains(&format!("\r\n{key}\r\n")))
    };
    keys.iter().filter(is_named).map(|key| (*key).to_owned()).collect()
}

fn tracking(server: &Server, how: &str) -> Wire {
    let mut wire = Wire::connect(server);
    wire.send("HELLO 3");
    wire.send(&format!("CLIENT TRACKING ON{how}"));
    wire.so_far();
    wire
}

/// Creates a dehydrator with a due, a leased and a waiting element.
fn fill(client: &mut Connection) {
    for line in [
        "DEL k",
        "DEHYDRATOR.MPUSH k 0 element leased",
        "DEHYDRATOR.POLL k LEASE 600000 TOKEN token",
        "DEHYDRATOR.MPUSH k 0 element due 0 element due2 600000 element later",
    ] {
        client.ask(line);
    }
}

/// Commands that change it.
const CHANGES: [&str; 23] = [
    "PUSH k 600000 element new",
    "PUSH k 600000 other later REPLACE",
    "PUSH k 600000 other new NX",
    "MPUSH k 600000 element new 600000 element new2",
    "GIDPUSH k 600000 element",
    "POLL k COUNT 1",
    "POLL k COUNT 1 BLOCK 0",
    "POLL k COUNT 1 LEASE 600000",
    "MPOLL 2 j k COUNT 1",
    "RENEW k 5000 token leased",
    "RENEW k 0 token leased",
    "RELEASE k 5000 token leased",
    "SETTLE k token leased",
    "XACK k leased",
    "EFFECT k L5000@4102444800000@7 later",
    "PULL k later",
    "REM k later",
    "UPDATE k later other",
    "TOUCH k 5000 later",
    "ONDUE k DROP",
    "ONDUE k HOLD DELIVERIES 5 STREAM dead",
    "PAUSE k",
    "PAUSE k FOR 600000",
];

/// Commands that change nothing.
const NO_CHANGES: [&str; 19] = [
    "PUSH k 600000 other later NX",
    "PUSH k 600000 other later",
    "PULL k none",
    "REM k none",
    "XACK k none",
    "UPDATE k none other",
    "TOUCH k 5000 none",
    "SETTLE k wrong leased",
    "RENEW k 5000 wrong leased",
    "RELEASE k 5000 wrong leased",
    "EFFECT k L5000@4102444800000@7 none",
    "RESUME k",
    "XPOLL k",
    "LOOK k later",
    "RANGE k - +",
    "INFO k",
    "SCAN k 0",
    "TTN k",
    "POLL j",
];

/// Commands that read it.
const READS: [&str; 8] = [
    "LOOK k later",
    "LEN k",
    "RANGE k - +",
    "INFO k",
    "SCAN k 0",
    "TTN k",
    "PTTL k later",
    "XPOLL k",
];

#[test]
fn a_client_that_has_read_a_key_is_told_of_its_changes_and_of_nothing_else() {
    let (server, mut client) = Server::with_client(&[]);
    let mut wire = tracking(&server, "");
    for (number, line) in CHANGES.iter().enumerate() {
        fill(&mut client);
        let read = READS[number % READS.len()];
        wire.send(&format!("DEHYDRATOR.{read}"));
        assert_eq!(told(&mut wire, &["k"]), [""; 0], "by {read}");
        client.ask(&format!("DEHYDRATOR.{line}"));
        assert_eq!(told(&mut wire, &["k"]), ["k"], "{line} after {read}");
    }
    for read in READS {
        fill(&mut client);
        wire.send(&format!("DEHYDRATOR.{read}"));
        wire.so_far();
        for line in NO_CHANGES {
            let _ = cmd(&format!("DEHYDRATOR.{line}")).query::<Value>(&mut client);
            assert_eq!(told(&mut wire, &["k"]), [""; 0], "{line} after {read}");
        }
        client.ask("DEHYDRATOR.REM k later");
        assert_eq!(told(&mut wire, &["k"]), ["k"], "after {read}");
    }
}

#[test]
fn a_client_that_tracks_by_prefix_is_told_of_each_change_without_reading() {
    let (server, mut client) = Server::with_client(&[]);
    let mut wire = tracking(&server, " BCAST PREFIX k PREFIX dead");
    for line in CHANGES {
        fill(&mut client);
        told(&mut wire, &["k"]);
        client.ask(&format!("DEHYDRATOR.{line}"));
        assert_eq!(told(&mut wire, &["k"]), ["k"], "{line}");
    }
    fill(&mut client);
    wire.so_far();
    for line in NO_CHANGES {
        let _ = cmd(&format!("DEHYDRATOR.{line}")).query::<Value>(&mut client);
        assert_eq!(told(&mut wire, &["k"]), [""; 0], "{line}");
    }
    client.ask("DEHYDRATOR.PUSH other 0 element id");
    assert_eq!(told(&mut wire, &["k", "other"]), [""; 0]);
}

/// Waits until the client is told of these keys, one after the other or all at once.
fn is_told(wire: &mut Wire, keys: &[&str]) {
    let mut left: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
    until(&format!("it is told of {keys:?}"), || {
        let found = told(wire, keys);
        left.retain(|key| !found.contains(key));
        left.is_empty().then_some(())
    });
}

/// Pushes or leases with `begin`, for a time after which the server removes the elements by itself, and lets the client
/// read before that: a busy machine may need several attempts.
fn read_in_time(wire: &mut Wire, client: &mut Connection, begin: &dyn Fn(&mut Connection, u32)) {
    for milliseconds in [20, 200, 2000, 20_000] {
        begin(client, milliseconds);
        wire.so_far();
        for read in ["DEHYDRATOR.LEN k", "XLEN s"] {
            wire.send(read);
        }
        wire.so_far();
        if client.ask("DEHYDRATOR.LEN k") == Value::Int(2) {
            return;
        }
    }
    panic!("the client was never in time");
}

#[test]
fn a_client_that_has_read_a_key_is_told_of_the_servers_own_changes() {
    let (server, mut client) = Server::with_client(&[]);
    for how in ["", " BCAST"] {
        let mut wire = tracking(&server, how);
        // A blocked client is served.
        let mut sleeper = server.connect();
        client.ask("DEHYDRATOR.PUSH k 40 element id");
        wire.send("DEHYDRATOR.LOOK k id");
        wire.so_far();
        sleeper.ask("DEHYDRATOR.POLL k BLOCK 0");
        is_told(&mut wire, &["k"]);

        let push = |client: &mut Connection, policy: &str, milliseconds: u32| {
            client.ask("DEL k s");
            client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
            client.ask("DEHYDRATOR.PUSH k 600000 element later");
            client.ask(&format!("DEHYDRATOR.PUSH k {milliseconds} element id"));
        };
        // A delivery changes the dehydrator and the stream.
        read_in_time(&mut wire, &mut client, &|client, ms| push(client, "STREAM s", ms));
        is_told(&mut wire, &["k", "s"]);
        // When the last lease expires, the element becomes a dead letter.
        read_in_time(&mut wire, &mut client, &|client, ms| {
            push(client, "HOLD DELIVERIES 1 STREAM s", 0);
            client.ask(&format!("DEHYDRATOR.POLL k LEASE {ms} COUNT 1"));
        });
        is_told(&mut wire, &["k", "s"]);
        // A drop changes the dehydrator.
        read_in_time(&mut wire, &mut client, &|client, ms| push(client, "DROP", ms));
        is_told(&mut wire, &["k"]);
        client.ask("DEL k s");
    }
}

#[test]
fn an_expiring_lease_changes_nothing_until_the_element_is_delivered() {
    let (server, mut client) = Server::with_client(&[]);
    for how in ["", " BCAST"] {
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        client.ask("DEHYDRATOR.POLL k LEASE 20");
        let mut wire = tracking(&server, how);
        wire.send("DEHYDRATOR.LOOK k id FULL");
        until("it is due again", || {
            (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(())
        });
        assert_eq!(told(&mut wire, &["k"]), [""; 0]);
        client.ask("DEHYDRATOR.POLL k");
        assert_eq!(told(&mut wire, &["k"]), ["k"]);
    }
}
