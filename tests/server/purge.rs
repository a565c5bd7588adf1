//! PURGE, and TOUCH of a group: some elements with each call.

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd, texts, until};

/// Pushes `count` elements into a group: their ids are the group's name and a number.
fn fill(client: &mut Connection, group: &str, count: usize, ttl: u64) {
    for from in (0..count).step_by(1000) {
        let mut push = cmd("DEHYDRATOR.MPUSH k");
        for number in from..count.min(from + 1000) {
            push.arg(ttl).arg("element").arg(format!("{group}{number}"));
        }
        push.arg("GROUP").arg(group);
        push.query::<Vec<String>>(client).expect("they are pushed");
    }
}

fn len(client: &mut Connection, group: &str) -> i64 {
    cmd(&format!("DEHYDRATOR.LEN k GROUP {group}")).query(client).expect("a number")
}

/// Repeats a command until it replies 0. Returns the sum, and the number of calls.
fn repeated(client: &mut Connection, line: &str) -> (i64, usize) {
    let (mut sum, mut calls) = (0, 0);
    loop {
        let Value::Int(count) = client.ask(line) else { panic!("a number") };
        if count == 0 {
            return (sum, calls);
        }
        (sum, calls) = (sum + count, calls + 1);
    }
}

#[test]
fn a_group_that_is_due_is_postponed_by_less_than_a_second_too() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element id GROUP a");
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k 700 GROUP a"), Value::Int(1));
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), Value::Array(vec![]));
}

#[test]
fn a_group_is_purged_some_at_a_time_and_nothing_else() {
    let primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    fill(&mut client, "a", 5000, 600_000);
    client.ask("DEHYDRATOR.MPUSH k 0 element due-1 0 element due-2 GROUP a");
    fill(&mut client, "b", 300, 600_000);
    client.ask("DEHYDRATOR.PUSH k 0 element none");
    client.ask("DEHYDRATOR.POLL k LEASE 600000 COUNT 5");
    assert_eq!(client.ask("DEHYDRATOR.PURGE k GROUP a"), Value::Int(1024));
    assert_eq!(client.ask("DEHYDRATOR.PURGE k GROUP a COUNT 1978"), Value::Int(1978));
    assert_eq!(repeated(&mut client, "DEHYDRATOR.PURGE k GROUP a COUNT 500"), (2000, 4));
    assert_eq!((len(&mut client, "a"), len(&mut client, "b")), (0, 300));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(301));
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().digest("k"), client.digest("k"));
    // A key without elements is deleted.
    client.ask("DEHYDRATOR.PULL k none");
    assert_eq!(repeated(&mut client, "DEHYDRATOR.PURGE k GROUP b"), (300, 1));
    assert_eq!(client.ask("EXISTS k"), Value::Int(0));
    for line in ["PURGE k", "PURGE k GROUP", "PURGE k PREFIX a", "TOUCH k 5 GROUP g GT"] {
        client.refused(&format!("DEHYDRATOR.{line}"));
    }
    client.ask("SET s x");
    client.refused("DEHYDRATOR.PURGE s GROUP a");
}

/// Waits until whatever a tick would go on with is done.
fn wait_for_ticks(client: &mut Connection) {
    let ticks = |client: &mut Connection| client.info("dehydrator", "dehydrator_ticks");
    let before = ticks(client);
    until("ticks went by", || (ticks(client) > before + 1).then_some(()));
}

/// Nothing is left to be done when the reply has come: whatever happens to the key or the database then concerns nothing else.
#[test]
fn a_purge_is_over_with_its_reply() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    other.ask("SELECT 1");
    fill(&mut client, "g", 20_000, 600_000);
    fill(&mut other, "g", 20_000, 600_000);
    assert_eq!(client.ask("DEHYDRATOR.PURGE k GROUP g"), Value::Int(1024));
    client.ask("SWAPDB 0 1");
    let count = |client: &mut Connection| len(client, "g");
    for _ in 0..3 {
        wait_for_ticks(&mut client);
        assert_eq!((count(&mut client), count(&mut other)), (20_000, 18_976));
    }
    // What is pushed after a DEL is another group.
    assert_eq!(client.ask("DEHYDRATOR.PURGE k GROUP g"), Value::Int(1024));
    client.ask("DEL k");
    fill(&mut client, "g", 100, 600_000);
    wait_for_ticks(&mut client);
    assert_eq!(count(&mut client), 100);
}

#[test]
fn purge_and_touch_do_not_block_and_say_so() {
    let (_server, mut client) = Server::with_client(&[]);
    for name in ["purge", "touch"] {
        let info = client.ask(&format!("COMMAND INFO dehydrator.{name}"));
        let info = format!("{info:?}");
        assert!(!info.contains("blocking") && !info.contains("fast"), "{name}: {info}");
    }
    // So they are as any other command in a transaction or a script.
    fill(&mut client, "a", 3000, 600_000);
    client.ask("MULTI");
    client.ask("DEHYDRATOR.TOUCH k 900000 GROUP a COUNT 10");
    client.ask("DEHYDRATOR.PURGE k GROUP a");
    assert_eq!(client.ask("EXEC"), Value::Array(vec![Value::Int(10), Value::Int(1024)]));
}

#[test]
fn a_group_that_is_touched_moves_but_for_what_is_leased() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.MPUSH k 0 element leased-1 0 element leased-2 GROUP a");
    client.ask("DEHYDRATOR.POLL k COUNT 2 LEASE 600000 TOKEN t");
    fill(&mut client, "a", 3000, 500_000);
    fill(&mut client, "b", 10, 500_000);
    for (line, calls) in [
        ("DEHYDRATOR.TOUCH k 800000 GROUP a COUNT 1000", 3),
        ("DEHYDRATOR.TOUCH k 5 AT 4102444800000 GROUP a COUNT 1500", 2),
        ("DEHYDRATOR.TOUCH k 0 GROUP a", 3),
    ] {
        assert_eq!(repeated(&mut client, line), (3000, calls), "{line}");
    }
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().digest("k"), client.digest("k"));
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Int(0));
    let Value::Int(left) = client.ask("DEHYDRATOR.PTTL k leased-1") else { panic!("a number") };
    assert!(left > 500_000, "{left}");
    // They keep their order.
    let mut poll = cmd("DEHYDRATOR.POLL k COUNT 2 WITHIDS");
    let ids: Vec<(String, String)> = poll.arg(&[] as &[&str]).query(&mut client).expect("two");
    assert_eq!(ids.iter().map(|it| &it.0[..]).collect::<Vec<_>>(), ["a0", "a1"]);
}

/// While a change for each group is on its way, a client that sleeps gets what is given out for it, all of it.
#[test]
fn a_sleeping_client_gets_what_a_change_for_each_group_lets_go() {
    const GROUPS: usize = 5000;
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    for number in 0..GROUPS {
        let line =
            format!("DEHYDRATOR.MPUSH k 0 one 1/{number} 0 other 2/{number} GROUP g{number}");
        client.ask(&line);
    }
    let leased = |client: &mut Connection, line: &str| -> Vec<(String, String, i64, String)> {
        cmd(line).query(client).expect("jobs")
    };
    let mut held = leased(&mut client, "DEHYDRATOR.POLL k COUNT 100000 LEASE 600000");
    assert_eq!(held.len(), GROUPS);
    let Value::Int(left) = client.ask("DEHYDRATOR.TTN k") else { panic!("a number") };
    assert!(left > 500_000, "{left} ms though each group is full");
    let sleeper = {
        let mut sleeper = server.connect();
        std::thread::spawn(move || {
            let mut got: Vec<(String, String, i64, String)> = Vec::new();
            while got.len() < GROUPS {
                let line = "DEHYDRATOR.POLL k COUNT 7 BLOCK 20000 LEASE 600000";
                got.extend(cmd(line).query::<Vec<_>>(&mut sleeper).expect("some"));
            }
            got
        })
    };
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 2");
    let got = sleeper.join().expect("no panic");
    for (id, element, _, token) in &got {
        let expected = if id.starts_with("1/") { "one" } else { "other" };
        assert_eq!(element, expected, "{id}");
        let mut settle = cmd("DEHYDRATOR.SETTLE k");
        assert_eq!(settle.arg(token).arg(id).query::<Vec<i64>>(&mut client), Ok(vec![1]));
    }
    held.retain(|it| !got.iter().any(|other| other.0 == it.0));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(held.len() as i64));
    // A lower limit: nobody looks, and the next moment is right all the same.
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    until("each is full", || match client.ask("DEHYDRATOR.TTN k") {
        Value::Int(left) => (left > 500_000).then_some(()),
        _ => None,
    });
}

#[test]
fn a_dead_letter_takes_its_group_along() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM dead");
    client.ask("DEHYDRATOR.PUSH k 0 element id GROUP tenant");
    client.ask("DEHYDRATOR.POLL k LEASE 1");
    let mut found = Vec::new();
    until("it is dead", || {
        client.ask("DEHYDRATOR.POLL k");
        let entries: Vec<(String, Vec<String>)> =
            cmd("XRANGE dead - +").query(&mut client).expect("entries");
        found = entries.into_iter().next()?.1;
        Some(())
    });
    let group = found.chunks(2).find(|it| it[0] == "group").map(|it| &it[1][..]);
    assert_eq!(group, Some("tenant"), "{found:?}");
}

#[test]
fn one_element_in_a_group_costs_a_key_little() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH one 600000 element id");
    client.ask("DEHYDRATOR.PUSH two 600000 element id GROUP tenant");
    let bytes = |client: &mut Connection, key: &str| -> i64 {
        cmd(&format!("MEMORY USAGE {key}")).query(client).expect("bytes")
    };
    let (one, two) = (bytes(&mut client, "one"), bytes(&mut client, "two"));
    assert!(two - one <= 300, "{two} and {one} bytes");
    assert_eq!(client.ask("DEHYDRATOR.POLL two"), texts(&[]));
}
