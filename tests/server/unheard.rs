//! A client that disconnects after it was woken, before the reply: elements that were taken or leased for it are given
//! back.
//!
//! Another module listens to the event of the delivery, and makes the server pause then: the server reads what other
//! clients send meanwhile before it replies to the client.

use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, until};

/// Wakes a blocked client by this push, and makes the server pause then, long enough to receive what it reads before it
/// replies. (Redis 7.0 replies at once.)
fn wake(server: &Server, client: &mut Connection, push: &str) {
    client.ask("LISTENER.ON 1 dehydrator.poll DEBUG SLEEP 0.3");
    let mut pusher = server.connect();
    pusher.send_packed_command(&cmd(push).get_packed_command()).expect("it is sent");
    // The server replies after it has paused, and cannot be asked meanwhile.
    let sent = Instant::now();
    until("it stands still", || (sent.elapsed() > Duration::from_millis(60)).then_some(()));
}

/// Does the same as [`wake`]; then another client sends this line.
fn woken(server: &Server, client: &mut Connection, other: &mut Connection, push: &str, line: &str) {
    wake(server, client, push);
    other.send_packed_command(&cmd(line).get_packed_command()).expect("it is sent");
    let _ = other.recv_response();
    until("no client is blocked", || (waiters(server) == 0).then_some(()));
}

/// Returns what RANGE shows of the one element.
fn row(client: &mut Connection, key: &str) -> (i64, i64) {
    type Row = (String, i64, i64, i64, i64);
    let range = cmd(&format!("DEHYDRATOR.RANGE {key} - +")).query(client);
    let (_, rows): (Value, Vec<Row>) = range.expect("rows");
    let [(_, _, _, deliveries, leased)] = &rows[..] else { panic!("{rows:?}") };
    (*deliveries, *leased)
}

fn pair() -> (Server, Server) {
    let primary = Server::start_with_listener(&[]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    // The primary sends effects to it only after its first acknowledgement.
    let mut client = primary.connect();
    client.ask("SET written first");
    assert_eq!(client.ask("WAIT 1 0"), Value::Int(1));
    (primary, replica)
}

#[test]
fn an_element_leased_for_a_killed_client_returns_to_its_former_state() {
    let (server, replica) = pair();
    let (mut client, mut other) = (server.connect(), server.connect());
    let told_at_once = server.version() == (7, 0) && !server.version().is_valkey;
    for (push, options, deliveries) in [
        ("DEHYDRATOR.PUSH k 0 element id", "LEASE 600000", 0),
        ("DEHYDRATOR.PUSH k 0 element id", "LEASE 600000 TOKEN mine", 0),
        ("DEHYDRATOR.EFFECT k P7@5,delivered=3,token=7 element id", "LEASE 600000", 3),
        ("DEHYDRATOR.EFFECT k P7@5,delivered=3,token=7 element id", "COUNT 5", 3),
        ("DEHYDRATOR.PUSH k 0 element id", "COUNT 5", 0),
    ] {
        client.ask("FLUSHALL");
        let sleeper = Sleeper::start(&server, &format!("DEHYDRATOR.POLL k BLOCK 0 {options}"));
        let kill = format!("CLIENT KILL ID {}", sleeper.id);
        woken(&server, &mut client, &mut other, push, &kill);
        if sleeper.outcome().is_ok() {
            assert!(told_at_once, "{options}: it was told though it was killed");
            continue;
        }
        until("it is given back", || {
            (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(())
        });
        assert_eq!(row(&mut client, "k"), (deliveries, 0), "{push}, {options}");
        let mut there = replica.connect();
        until(&format!("both are equal: {push}, {options}"), || {
            (client.digest("k") == there.digest("k")).then_some(())
        });
        if deliveries > 0 {
            // Its former holder can still settle it.
            let settled = client.ask("DEHYDRATOR.SETTLE k 7 id");
            assert_eq!(settled, Value::Array(vec![Value::Int(1)]));
        }
    }
}

#[test]
fn a_returned_element_follows_its_swapped_database() {
    for (line, there) in [("FLUSHALL", None), ("FLUSHDB", None), ("SWAPDB 0 1", Some(1))] {
        for options in ["COUNT 1", "LEASE 600000"] {
            let (server, _replica) = pair();
            let (mut client, mut other) = (server.connect(), server.connect());
            let sleeper = Sleeper::start(&server, &format!("DEHYDRATOR.POLL k BLOCK 0 {options}"));
            wake(&server, &mut client, "DEHYDRATOR.PUSH k 0 element id");
            let lines = [line.to_owned(), format!("CLIENT KILL ID {}", sleeper.id)];
            let both = lines.iter().flat_map(|line| cmd(line).get_packed_command());
            other.send_packed_command(&both.collect::<Vec<_>>()).expect("they are sent");
            let _ = (other.recv_response(), other.recv_response());
            if sleeper.outcome().is_ok() {
                continue;
            }
            until("all is given back that is", || {
                (server.info("dehydrator", "dehydrator_blocked_clients") == 0).then_some(())
            });
            if let Some(db) = there {
                assert!(!client.exists("k"), "{line}, {options}");
                client.ask(&format!("SELECT {db}"));
                until("it is given back", || {
                    (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(())
                });
                assert_eq!(row(&mut client, "k"), (0, 0), "{line}, {options}");
            } else {
                client.ask("PING");
                assert_eq!(client.ask("DBSIZE"), Value::Int(0), "{line}, {options}");
            }
        }
    }
}

#[test]
fn an_element_that_nobody_received_is_no_dead_letter() {
    let (server, _replica) = pair();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM dead");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 LEASE 60000");
    let kill = format!("CLIENT KILL ID {}", sleeper.id);
    woken(&server, &mut client, &mut other, "DEHYDRATOR.PUSH k 0 element id", &kill);
    if sleeper.outcome().is_ok() {
        return;
    }
    let Value::Array(rows) = client.ask("DEHYDRATOR.POLL k BLOCK 0 LEASE 60000") else {
        panic!("rows")
    };
    assert!(
        matches!(&rows[..], [Value::Array(row)] if row[..3] == [text("id"), text("element"), Value::Int(1)])
    );
    assert!(!client.exists("dead"));
}

#[test]
fn an_element_that_another_connection_of_the_client_got_stays_leased() {
    let (server, replica) = pair();
    let (mut client, mut other, mut killer) =
        (server.connect(), server.connect(), server.connect());
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 LEASE 600000 TOKEN mine");
    wake(&server, &mut client, "DEHYDRATOR.PUSH k 0 element id");
    let kill = format!("CLIENT KILL ID {}", sleeper.id);
    killer.send_packed_command(&cmd(&kill).get_packed_command()).expect("it is sent");
    let again = "DEHYDRATOR.POLL k LEASE 600000 TOKEN mine";
    other.send_packed_command(&cmd(again).get_packed_command()).expect("it is sent");
    let Value::Array(rows) = other.recv_response().expect("rows") else { panic!("rows") };
    until("no client is blocked", || (waiters(&server) == 0).then_some(()));
    killer.recv_response().expect("a reply");
    // Whichever came first: either the second connection got it, or it was given back and then delivered to it.
    if rows.is_empty() {
        until("it is given back", || {
            (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(())
        });
        assert_eq!(row(&mut client, "k"), (0, 0));
    } else {
        assert_eq!(row(&mut client, "k"), (1, 1));
        let settled = client.ask("DEHYDRATOR.SETTLE k mine id");
        assert_eq!(settled, Value::Array(vec![Value::Int(1)]));
    }
    let mut there = replica.connect();
    until("both are equal", || {
        (client.ask("DEBUG DIGEST") == there.ask("DEBUG DIGEST")).then_some(())
    });
}

#[test]
fn elements_on_their_way_when_the_server_becomes_a_replica_are_on_the_new_primary() {
    for options in ["COUNT 1", "COUNT 1 LEASE 600000", "COUNT 1 LEASE 600000 TOKEN mine"] {
        let (old, new) = pair();
        let (mut client, mut other) = (old.connect(), old.connect());
        let (mut sleepers, mut pushes) = (Vec::new(), String::from("DEHYDRATOR.MPUSH k"));
        for id in 0..5 {
            sleepers.push(Sleeper::start(&old, &format!("DEHYDRATOR.POLL k BLOCK 0 {options}")));
            pushes.push_str(&format!(" 0 element-{id} {id}"));
        }
        let line = format!("REPLICAOF 127.0.0.1 {}", new.port());
        woken(&old, &mut client, &mut other, &pushes, &line);
        let told = sleepers.into_iter().map(Sleeper::outcome).filter(Result::is_ok).count() as i64;
        let mut there = new.connect();
        // A client that got its reply has the element; the rest is due on the next primary, to which the effects are on
        // their way.
        let due = if options.ends_with("mine") && told > 0 { 4 } else { 5 - told };
        until(&format!("{due} are due, as {told} were told ({options})"), || {
            let ids: Vec<String> = cmd("DEHYDRATOR.XPOLL k").query(&mut there).expect("ids");
            (ids.len() as i64 == due).then_some(())
        });
        there.ask("REPLICAOF NO ONE");
        old.wait_for_link();
        until("both are equal", || (there.digest("k") == client.digest("k")).then_some(()));
    }
}
