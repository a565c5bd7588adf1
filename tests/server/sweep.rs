//! PURGE, and TOUCH of a group or a prefix: many elements, in steps.

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd, text, texts, until};

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

/// Sends a command on a thread of its own. Returns its reply, and how many other commands were served meanwhile.
fn served_during(server: &Server, line: &str) -> (Value, usize) {
    let (mut one, mut other) = (server.connect(), server.connect());
    let line = line.to_owned();
    let thread = std::thread::spawn(move || one.ask(&line));
    let mut served = 0;
    while !thread.is_finished() {
        other.ask("PING");
        served += 1;
    }
    (thread.join().expect("no panic"), served)
}

#[test]
fn a_group_is_purged_in_steps_and_nothing_else() {
    let primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    fill(&mut client, "a", 200_000, 600_000);
    client.ask("DEHYDRATOR.MPUSH k 0 element due-1 0 element due-2 GROUP a");
    fill(&mut client, "b", 300, 600_000);
    client.ask("DEHYDRATOR.PUSH k 0 element none");
    client.ask("DEHYDRATOR.POLL k LEASE 600000 COUNT 5");
    let (reply, served) = served_during(&primary, "DEHYDRATOR.PURGE k GROUP a");
    assert_eq!(reply, Value::Int(200_002));
    assert!(served > 20, "{served} commands served meanwhile");
    assert_eq!(len(&mut client, "a"), 0);
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(301));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k a7"), Value::Nil);
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().digest("k"), client.digest("k"));
    // A small group needs one step, and a key without elements is deleted.
    assert_eq!(client.ask("DEHYDRATOR.PURGE k GROUP b"), Value::Int(300));
    assert_eq!(client.ask("DEHYDRATOR.PURGE k GROUP b"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.PURGE k PREFIX none"), Value::Int(1));
    assert_eq!(client.ask("EXISTS k"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.PURGE k GROUP b"), Value::Int(0));
}

#[test]
fn a_group_that_is_touched_moves_but_for_what_is_leased() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    fill(&mut client, "a", 50_000, 0);
    fill(&mut client, "b", 2, 0);
    client.ask("DEHYDRATOR.POLL k LEASE 600000 COUNT 1");
    client.ask("DEHYDRATOR.PUSH k 900000 element a-late GROUP a");
    let (reply, served) = served_during(&primary, "DEHYDRATOR.TOUCH k GROUP a 800000");
    assert_eq!(reply, Value::Int(50_000));
    assert!(served > 5, "{served} commands served meanwhile");
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().digest("k"), client.digest("k"));
    let ids = |client: &mut Connection, line: &str| -> Vec<String> {
        let (_, rows): (Value, Vec<Vec<Value>>) = cmd(line).query(client).expect("rows");
        rows.into_iter().map(|row| redis::from_redis_value(row[0].clone()).expect("id")).collect()
    };
    // They keep their order.
    let first = ids(&mut client, "DEHYDRATOR.RANGE k - + COUNT 4 GROUP a");
    assert_eq!(first, ["a0", "a1", "a2", "a3"]);
    let all = ids(&mut client, "DEHYDRATOR.RANGE k - +");
    assert_eq!((all[0].as_str(), all.last().map(String::as_str)), ("b0", Some("a-late")));
    for id in ["b0", "b1"] {
        let expected = Value::Array(vec![Value::Array(vec![text(id), text("element")])]);
        assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 1 WITHIDS"), expected);
    }
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&[]));
    // Again with the same deadline or another, and at once.
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k GROUP a 0"), Value::Int(50_000));
    assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 1"), texts(&["element"]));
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k GROUP nobody 5"), Value::Int(0));
}

#[test]
fn an_expired_lease_does_not_begin_again_beyond_a_limit() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (limit, selection) in [("EACH HELD 1", "GROUP a"), ("HELD 1", "PREFIX a")] {
        client.ask(&format!("DEHYDRATOR.LIMIT k {limit}"));
        fill(&mut client, "a", 2, 0);
        client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 1 TOKEN 7");
        let is_over = |client: &mut Connection| client.ask("DEHYDRATOR.PTTL k a0") == Value::Int(0);
        until("the lease has expired", || is_over(&mut client).then_some(()));
        assert_eq!(client.ask(&format!("DEHYDRATOR.TOUCH k {selection} 500")), Value::Int(2));
        assert_eq!(client.ask("DEHYDRATOR.SETTLE k 7 a0"), Value::Array(vec![Value::Int(0)]));
        client.ask("DEL k");
    }
    // Nor does the bound move of what a client may still settle.
    client.ask("DEHYDRATOR.PUSH k 0 element a0 WITHIN 600000 GROUP a");
    client.ask("DEHYDRATOR.POLL k LEASE 1 TOKEN 7");
    let bound = |client: &mut Connection| {
        let facts: Vec<Value> = cmd("DEHYDRATOR.LOOK k a0 FULL").query(client).expect("facts");
        let at = facts.iter().position(|it| *it == text("until")).expect("a bound");
        facts[at + 1].clone()
    };
    let before = bound(&mut client);
    until("the lease has expired", || {
        let left = client.ask("DEHYDRATOR.PTTL k a0");
        (left == Value::Int(0)).then_some(())
    });
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k GROUP a 500000"), Value::Int(1));
    assert_eq!(bound(&mut client), before);
}

#[test]
fn a_lease_that_is_over_keeps_its_place_in_a_group_that_is_touched_and_runs_no_more_than_are_allowed()
 {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (which, limit) in ["GROUP g", "PREFIX g"].into_iter().zip(["k EACH", "k"]) {
        client.ask("FLUSHALL");
        fill(&mut client, "g", 2, 0);
        client.ask("DEHYDRATOR.POLL k LEASE 1 TOKEN anna");
        until("the leases are over", || {
            (client.ask("DEHYDRATOR.PTTL k g1") == Value::Int(0)).then_some(())
        });
        client.ask("DEHYDRATOR.PUSH k 10 element g-soon GROUP g");
        client.ask(&format!("DEHYDRATOR.LIMIT {limit} HELD 1"));
        assert_eq!(client.ask(&format!("DEHYDRATOR.TOUCH k {which} 600000")), Value::Int(3));
        type Rows = Vec<(String, u64, u64, u64, u64)>;
        let (_, rows): (Value, Rows) =
            cmd("DEHYDRATOR.RANGE k - + GROUP g").query(&mut client).expect("rows");
        assert!(rows.iter().all(|row| row.4 == 0), "{which}: leases run: {rows:?}");
        // There is no order of ids.
        if which == "GROUP g" {
            assert!(rows.iter().map(|row| &row.0[..]).eq(["g0", "g1", "g-soon"]), "{rows:?}");
        }
    }
}

#[test]
fn ids_with_a_prefix_are_purged_or_touched() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for count in [20, 20_000] {
        fill(&mut client, "order", count, 600_000);
        fill(&mut client, "other", count, 600_000);
        let count = count as i64;
        assert_eq!(client.ask("DEHYDRATOR.TOUCH k PREFIX order 0"), Value::Int(count));
        assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 1"), texts(&["element"]));
        assert_eq!(client.ask("DEHYDRATOR.PURGE k PREFIX ord"), Value::Int(count - 1));
        assert_eq!((len(&mut client, "order"), len(&mut client, "other")), (0, count));
        assert_eq!(client.ask("DEHYDRATOR.PURGE k PREFIX nothing"), Value::Int(0));
        let mut all = cmd("DEHYDRATOR.PURGE k PREFIX");
        assert_eq!(all.arg("").query::<i64>(&mut client), Ok(count));
    }
    assert_eq!(client.ask("EXISTS k"), Value::Int(0));
    // An id may be called like a word.
    client.ask("DEHYDRATOR.PUSH k 5000 element GROUP");
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k GROUP 600000 GT"), Value::Int(1));
    for line in
        ["TOUCH k GROUP g x", "PURGE k", "PURGE k GROUP", "PURGE k ALL x", "PURGE k GROUP a b"]
    {
        client.refused(&format!("DEHYDRATOR.{line}"));
    }
    let mut unnamed = cmd("DEHYDRATOR.PURGE k GROUP");
    assert!(harness::refusal(unnamed.arg(""), &mut client).is_ok());
    client.ask("SET s x");
    client.refused("DEHYDRATOR.PURGE s GROUP a");
}

#[test]
fn a_transaction_or_a_script_changes_no_more_than_fits_into_a_step() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    fill(&mut client, "a", 1000, 600_000);
    fill(&mut client, "b", 2000, 600_000);
    client.ask("MULTI");
    client.ask("DEHYDRATOR.TOUCH k GROUP a 900000");
    client.ask("DEHYDRATOR.PURGE k GROUP a");
    assert_eq!(client.ask("EXEC"), Value::Array(vec![Value::Int(1000), Value::Int(1000)]));
    client.ask("MULTI");
    client.ask("DEHYDRATOR.PURGE k GROUP b");
    client.refused("EXEC");
    assert_eq!(len(&mut client, "b"), 2000);
    let mut script = cmd("EVAL");
    script.arg("return redis.call('DEHYDRATOR.PURGE', KEYS[1], 'GROUP', 'b')").arg(1).arg("k");
    assert!(harness::refusal(&script, &mut client).is_ok());
    assert_eq!(len(&mut client, "b"), 2000);
}

#[test]
fn a_purge_goes_on_after_its_client_has_gone() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    fill(&mut client, "a", 200_000, 600_000);
    let mut gone = server.connect();
    let Value::Int(id) = gone.ask("CLIENT ID") else { panic!("an id") };
    gone.send_packed_command(&cmd("DEHYDRATOR.PURGE k GROUP a").get_packed_command())
        .expect("it is sent");
    until("it has begun", || (len(&mut client, "a") < 200_000).then_some(()));
    let left = len(&mut client, "a");
    client.ask(&format!("CLIENT KILL ID {id}"));
    assert!(left > 0, "it was killed in the middle");
    until("nothing is left", || (len(&mut client, "a") == 0).then_some(()));
    // CLIENT UNBLOCK ends the wait alone, and FLUSHALL the work.
    fill(&mut client, "a", 200_000, 600_000);
    let thread = {
        let mut other = server.connect();
        let Value::Int(id) = other.ask("CLIENT ID") else { panic!("an id") };
        let thread = std::thread::spawn(move || other.ask("DEHYDRATOR.PURGE k GROUP a"));
        until("it waits", || {
            (client.ask(&format!("CLIENT UNBLOCK {id}")) == Value::Int(1)).then_some(())
        });
        thread
    };
    assert_eq!(thread.join().expect("no panic"), Value::Nil);
    until("nothing is left", || (len(&mut client, "a") == 0).then_some(()));
    fill(&mut client, "a", 200_000, 600_000);
    let mut other = server.connect();
    let thread = std::thread::spawn(move || other.ask("DEHYDRATOR.PURGE k GROUP a"));
    until("it has begun", || (len(&mut client, "a") < 200_000).then_some(()));
    client.ask("FLUSHALL");
    let Value::Int(count) = thread.join().expect("no panic") else { panic!("a number") };
    assert!((1..200_000).contains(&count), "{count} removed before FLUSHALL");
}

#[test]
fn a_replica_gets_each_step_and_no_step_is_done_on_one() {
    let mut primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    fill(&mut client, "a", 200_000, 600_000);
    catch_up(&primary, &replica);
    let mut other = primary.connect();
    let thread = std::thread::spawn(move || {
        cmd("DEHYDRATOR.PURGE k GROUP a").query::<i64>(&mut other).expect_err("an error")
    });
    until("it has begun", || (len(&mut client, "a") < 200_000).then_some(()));
    replica.connect().ask("REPLICAOF NO ONE");
    primary.follow(&replica);
    primary.wait_for_link();
    let error = thread.join().expect("no panic").to_string();
    assert!(error.contains("UNBLOCKED") || error.contains("EOF"), "{error}");
    let mut promoted = replica.connect();
    let left = len(&mut promoted, "a");
    assert!(left > 0, "it was not done");
    catch_up(&replica, &primary);
    assert_eq!(primary.connect().digest("k"), promoted.digest("k"));
    assert_eq!(promoted.ask("DEHYDRATOR.PURGE k GROUP a"), Value::Int(left));
    primary.kill();
}
