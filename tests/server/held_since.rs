//! Since when elements are held: renewals move the deadline, and not that.

use std::collections::HashMap;

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd, until};

fn map(client: &mut Connection, line: &str) -> HashMap<String, Value> {
    cmd(&format!("DEHYDRATOR.{line}")).query(client).expect("a map")
}

fn since(client: &mut Connection, id: &str) -> Option<i64> {
    match map(client, &format!("LOOK k {id} FULL"))["held-since"] {
        Value::Int(since) => Some(since),
        _ => None,
    }
}

fn oldest_ms(client: &mut Connection) -> Option<i64> {
    match map(client, "INFO k")["oldest-held-ms"] {
        Value::Int(age) => Some(age),
        _ => None,
    }
}

fn now(client: &mut Connection) -> i64 {
    let [seconds, us]: [i64; 2] = cmd("TIME").query(client).expect("the time");
    seconds * 1000 + us / 1000
}

#[test]
fn an_element_is_held_since_its_lease_began_on_every_copy() {
    for options in [&[][..], &["small-max-elements", "0"]] {
        let aof = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
        let mut server = Server::start_with_port(&[options, &aof[..]].concat());
        let replica = replica_of(&server, options);
        let mut client = server.connect();
        for id in ["renewed", "other", "free"] {
            client.ask(&format!("DEHYDRATOR.PUSH k 0 element {id} GROUP {id}"));
        }
        assert_eq!((since(&mut client, "renewed"), oldest_ms(&mut client)), (None, None));
        let before = now(&mut client);
        client.ask("DEHYDRATOR.POLL k COUNT 2 LEASE 60000 TOKEN t");
        let after = now(&mut client);
        let began = since(&mut client, "renewed").expect("a moment");
        assert!((before..=after).contains(&began), "{before}, {began}, {after}");
        until("the clock has moved", || (now(&mut client) > began + 5).then_some(()));
        client.ask("DEHYDRATOR.RENEW k 600000 t renewed");
        client.ask("DEHYDRATOR.TOUCH k 700000 renewed");
        client.ask("DEHYDRATOR.UPDATE k renewed longer-element");
        assert_eq!(since(&mut client, "renewed"), Some(began));
        let rows = client.ask("DEHYDRATOR.RANGE k - + WITHTOKENS");
        assert!(format!("{rows:?}").contains(&format!("int({began})")), "{rows:?}");
        // Another worker holds it since it was given to that one.
        client.ask("DEHYDRATOR.RELEASE k 0 t other");
        assert_eq!(since(&mut client, "other"), None);
        client.ask("DEHYDRATOR.EFFECT k L60000@4102444800000@7 other");
        assert_eq!(since(&mut client, "other"), Some(4_102_444_800_000 - 60_000));
        // To a second.
        let age = oldest_ms(&mut client).expect("an age");
        let exact = now(&mut client) - began;
        assert!((exact - 1000..=exact).contains(&age) || age == 0, "{age}, {exact}");

        let dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
        redis::cmd("RESTORE")
            .arg("restored")
            .arg(0)
            .arg(&dump)
            .exec(&mut client)
            .expect("it loads");
        client.ask("COPY k copied");
        let digest = client.digest("k");
        assert_eq!(client.digest("restored"), digest);
        assert_eq!(client.digest("copied"), digest);
        catch_up(&server, &replica);
        assert_eq!(replica.connect().digest("k"), digest);
        assert_eq!(since(&mut replica.connect(), "renewed"), Some(began));
        client.rewrite_aof();
        server.restart();
        let mut client = server.connect();
        assert_eq!(client.digest("k"), digest);
        assert_eq!(since(&mut client, "renewed"), Some(began));
        client.ask("DEHYDRATOR.SETTLE k t renewed 7 other");
        assert_eq!(oldest_ms(&mut client), None);
    }
}

#[test]
fn a_lease_that_is_undone_leaves_the_moment_of_the_one_before() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    client.ask("DEHYDRATOR.POLL k LEASE 1 TOKEN first");
    let began = since(&mut client, "id");
    assert!(began.is_some());
    until("it is due again", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
    assert_eq!(since(&mut client, "id"), began, "nobody else has it yet");
    client.ask("DEHYDRATOR.POLL k LEASE 60000 TOKEN second");
    assert!(since(&mut client, "id") > began);
    // What is rejected and stuck is nobody's work any more.
    client.ask("DEHYDRATOR.PUSH stuck 0 element id");
    client.ask("DEHYDRATOR.ONDUE stuck HOLD DELIVERIES 5 LIST l");
    client.ask("DEHYDRATOR.POLL stuck LEASE 60000 TOKEN t");
    client.ask("DEHYDRATOR.ONDUE stuck HOLD DELIVERIES 5 LIST l");
    client.ask("SET l text");
    client.ask("DEHYDRATOR.REJECT stuck t id");
    assert_eq!(map(&mut client, "INFO stuck")["oldest-held-ms"], Value::Nil);
}
