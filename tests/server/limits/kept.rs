//! Limits are stored in the value, and shown.

use redis::Value;

use super::{field, limits};
use harness::{Ask, Server, cmd, text, until};

#[test]
fn limits_are_set_individually_and_shown() {
    let (_server, mut client) = Server::with_client(&[]);
    assert_eq!(limits(&mut client, "k"), [0; 5]);
    assert!(!client.exists("k"));
    assert_eq!(client.ask("DEHYDRATOR.LIMIT k LENGTH 0 HELD 0 RATE 0 REMEMBER 0"), Value::Okay);
    assert!(!client.exists("k"), "nothing was said");
    assert_eq!(client.ask("DEHYDRATOR.LIMIT k HELD 5"), Value::Okay);
    assert!(client.exists("k"));
    client.ask("DEHYDRATOR.LIMIT k RATE 6 PER 7 LENGTH 8");
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 9");
    assert_eq!(limits(&mut client, "k"), [8, 5, 6, 7, 9]);
    for (name, number) in [("rate-room", 6), ("running", 0)] {
        assert_eq!(field(&mut client, "k", name), Value::Int(number), "{name}");
    }
    client.ask("DEHYDRATOR.ONDUE k DROP");
    client.ask("DEHYDRATOR.PAUSE k");
    client.ask("DEHYDRATOR.RESUME k");
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    assert_eq!(limits(&mut client, "k"), [8, 5, 6, 7, 9], "they have nothing to do with it");
    client.ask("DEHYDRATOR.LIMIT k LENGTH 0 RATE 0 PER 5 REMEMBER 0");
    assert_eq!(limits(&mut client, "k"), [0, 5, 0, 0, 0]);
    assert_eq!(field(&mut client, "k", "rate-room"), Value::Nil);
    client.ask("DEHYDRATOR.PUSH k 0 x a");
    client.ask("DEHYDRATOR.POLL k");
    assert!(client.exists("k"), "an empty one keeps its limits");
    client.ask("DEHYDRATOR.LIMIT k HELD 0");
    assert!(!client.exists("k"), "without limits an empty one goes");
    // In RESP3 it is a map.
    client.ask("HELLO 3");
    client.ask("DEHYDRATOR.LIMIT k HELD 1");
    let Value::Map(map) = client.ask("DEHYDRATOR.INFO k") else { panic!("a map") };
    let field = |name| map.iter().find(|it| it.0 == text(name)).map(|it| &it.1);
    assert_eq!(field("held-limit"), Some(&Value::Int(1)));
    assert!(matches!(field("policy"), Some(Value::Map(fields)) if fields.len() == 8));
    client.ask("SET other value");
    for line in ["DEHYDRATOR.LIMIT other HELD 1", "DEHYDRATOR.EFFECT other G1@1"] {
        assert!(client.refused(line).starts_with("WRONGTYPE"), "{line}");
    }
}

#[test]
fn watchers_see_changes_of_limits() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ask("DEHYDRATOR.LIMIT k HELD 1");
    for (line, is_change) in
        [("DEHYDRATOR.LIMIT k HELD 1", false), ("DEHYDRATOR.LIMIT k HELD 2", true)]
    {
        client.ask("WATCH k");
        other.ask(line);
        client.ask("MULTI");
        client.ask("PING");
        assert_eq!(client.ask("EXEC") == Value::Nil, is_change, "{line}");
    }
}

#[test]
fn limits_follow_their_key() {
    let server = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k LENGTH 3 HELD 1 RATE 9 PER 60000 REMEMBER 4");
    client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b");
    client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 600000");
    replica.follow(&server);
    let digest = client.digest("k");
    let mut there = replica.connect();
    until("it is there by a full sync", || (there.digest("k") == digest).then_some(()));
    client.ask("DEHYDRATOR.LIMIT k LENGTH 4");
    let digest = client.digest("k");
    until("it is there as an effect", || (there.digest("k") == digest).then_some(()));
    client.ask("COPY k copy");
    client.ask("MOVE k 1");
    client.ask("SELECT 1");
    client.ask("RENAME k moved");
    assert_eq!(client.digest("moved"), digest);
    client.ask("SELECT 0");
    assert_eq!(client.digest("copy"), digest);
    let mut moves = server.connect();
    moves.ask("SELECT 1");
    assert_eq!(moves.ask("DEHYDRATOR.POLL moved"), Value::Array(vec![]), "one is held");
    assert_eq!(limits(&mut moves, "moved"), [4, 1, 9, 60_000, 4]);
    until("the copy is there", || there.exists("copy").then_some(()));
    there.ask("REPLICAOF NO ONE");
    assert_eq!(limits(&mut there, "copy"), [4, 1, 9, 60_000, 4]);
    assert_eq!(there.ask("DEHYDRATOR.POLL copy"), Value::Array(vec![]), "one is held");
    let lengths: Vec<i64> =
        cmd("DEHYDRATOR.MPUSH copy 0 x c 0 x d 0 x e").query(&mut there).expect("numbers");
    assert_eq!(lengths, [1, 1, -1]);
}

#[test]
fn a_key_without_limits_takes_no_additional_memory() {
    let (_server, mut client) = Server::with_client(&[]);
    let memory = |client: &mut redis::Connection| match client.ask("MEMORY USAGE k") {
        Value::Int(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    client.ask("DEHYDRATOR.PUSH k 600000 x a");
    let before = memory(&mut client);
    client.ask("DEHYDRATOR.LIMIT k HELD 5");
    assert!(memory(&mut client) > before);
    client.ask("DEHYDRATOR.LIMIT k HELD 0");
    client.ask("COPY k other");
    client.ask("RENAME other k");
    assert_eq!(memory(&mut client), before);
}
