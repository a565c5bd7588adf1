//! The bytes of a reply are bounded, so that it arrives over a slow link and within the limit of an output buffer.

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, text, until};

/// Pushes elements of so many bytes, with the ids 1, 2 and so on, perhaps in groups.
fn push(client: &mut Connection, key: &str, count: usize, bytes: usize, groups: usize) {
    for number in 1..=count {
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        push.arg(key).arg(0).arg(vec![b'x'; bytes]).arg(number);
        if groups > 0 {
            push.arg("GROUP").arg(number % groups);
        }
        push.exec(client).expect("it is stored");
    }
}

fn array(value: Value) -> Vec<Value> {
    let Value::Array(items) = value else { panic!("{value:?}") };
    items
}

/// Returns the ids of a reply: of POLL with LEASE or WITHIDS, or of RANGE.
fn ids(rows: Vec<Value>) -> Vec<String> {
    let id = |row| match array(row).swap_remove(0) {
        Value::BulkString(id) => String::from_utf8(id).expect("text"),
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(id).collect()
}

#[test]
fn a_slow_reader_with_a_small_output_buffer_gets_all_jobs() {
    const MEGABYTE: usize = 1 << 20;
    let limit = "normal 8mb 8mb 0";
    let (server, mut client) = Server::with_client(&["--client-output-buffer-limit", limit]);
    push(&mut client, "k", 20, MEGABYTE, 0);
    let mut done = 0;
    while done < 20 {
        let mut worker = server.connect();
        let poll = cmd("DEHYDRATOR.POLL k LEASE 600000 TOKEN worker");
        worker.send_packed_command(&poll.get_packed_command()).expect("it is sent");
        // It reads nothing until the server has replied to another.
        until("the reply is in its buffer", || {
            (server.info("dehydrator", "dehydrator_leased") > 0).then_some(())
        });
        let given = ids(array(worker.recv_response().expect("it is not disconnected")));
        assert!((1..=4).contains(&given.len()), "{given:?}");
        let mut settle = redis::cmd("DEHYDRATOR.SETTLE");
        settle.arg("k");
        given.iter().for_each(|id| _ = settle.arg("worker").arg(id));
        settle.exec(&mut worker).expect("it is settled");
        done += given.len();
    }
    assert!(!client.exists("k"));
    // So does one that lists.
    push(&mut client, "k", 20, MEGABYTE, 0);
    let (mut start, mut listed) = ("-".to_owned(), Vec::new());
    while listed.len() < 20 {
        let page = client.ask(&format!("DEHYDRATOR.RANGE k {start} + WITHELEMENTS"));
        let [next, rows] = <[Value; 2]>::try_from(array(page)).expect("two");
        listed.extend(ids(array(rows)));
        if let Value::BulkString(next) = next {
            start = String::from_utf8(next).expect("text");
        }
    }
    assert_eq!(listed, (1..=20).map(|number| number.to_string()).collect::<Vec<_>>());
    let page = array(client.ask("DEHYDRATOR.RANGE k - + COUNT 20"));
    assert!(page[0] == Value::Nil, "without elements, all are in one page");
}

#[test]
fn every_reply_stops_at_its_bytes_but_has_one_element_at_least() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    // Room for three elements with their ids.
    client.ask("CONFIG SET dehydrator.reply-max-bytes 3300");
    for rules in ["HOLD", "HOLD DELIVERIES 5 DROP"] {
        for groups in [0, 1, 3] {
            for (poll, is_named) in [
                ("POLL k WITHIDS", false),
                ("POLL k COUNT 9 WITHIDS", false),
                ("POLL k LEASE 600000", false),
                ("MPOLL 2 none k WITHIDS BLOCK 0", true),
                ("MPOLL 1 k LEASE 600000 TOKEN t COUNT 5", true),
            ] {
                client.ask("FLUSHALL");
                client.ask(&format!("DEHYDRATOR.ONDUE k {rules}"));
                push(&mut client, "k", 7, 1000, groups);
                let mut seen = Vec::new();
                for expected in [3, 3, 1] {
                    let mut reply = array(client.ask(&format!("DEHYDRATOR.{poll}")));
                    let rows = if is_named { array(reply.swap_remove(1)) } else { reply };
                    let given = ids(rows);
                    assert_eq!(given.len(), expected, "{rules}, {groups} groups, {poll}");
                    if poll.contains("TOKEN") {
                        // Sent again, it gets the same.
                        let again = array(client.ask(&format!("DEHYDRATOR.{poll}")));
                        assert_eq!(ids(array(again[1].clone())), given);
                        client.ask(&format!("DEHYDRATOR.SETTLE k t {}", given.join(" t ")));
                    }
                    seen.extend(given);
                }
                seen.sort();
                assert_eq!(seen, ["1", "2", "3", "4", "5", "6", "7"], "{rules}, {groups}, {poll}");
            }
        }
    }
    // A client that slept gets no more either.
    client.ask("FLUSHALL");
    let sleeper = Sleeper::start(&primary, "DEHYDRATOR.POLL k BLOCK 0 LEASE 600000");
    let mut push_all = redis::cmd("DEHYDRATOR.MPUSH");
    push_all.arg("k");
    (1..=7).for_each(|number| _ = push_all.arg(0).arg(vec![b'x'; 1000]).arg(number));
    push_all.exec(&mut client).expect("they are stored");
    assert_eq!(ids(array(sleeper.reply())), ["1", "2", "3"]);
    assert_eq!(ids(array(client.ask("DEHYDRATOR.POLL k WITHIDS"))), ["4", "5", "6"]);
    // Larger than the whole reply, and alone in it.
    client.ask("FLUSHALL");
    push(&mut client, "k", 3, 10_000, 0);
    for id in ["1", "2", "3"] {
        let page = array(client.ask("DEHYDRATOR.RANGE k - + WITHELEMENTS")).swap_remove(1);
        assert_eq!(ids(array(page)), [id]);
        assert_eq!(ids(array(client.ask("DEHYDRATOR.POLL k WITHIDS"))), [id]);
    }
    // Ids count too.
    client.ask("CONFIG SET dehydrator.reply-max-bytes 0");
    push(&mut client, "k", 7, 1000, 0);
    assert_eq!(array(client.ask("DEHYDRATOR.POLL k")).len(), 7, "0 is no limit");
    client.ask("CONFIG SET dehydrator.reply-max-bytes 200");
    for number in 1..=5 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element {number}"));
    }
    assert_eq!(array(client.ask("DEHYDRATOR.XPOLL k")).len(), 3);
    assert_eq!(client.ask("DEHYDRATOR.PULL k 1"), text("element"));
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().digest("k"), client.digest("k"));
}
