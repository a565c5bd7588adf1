//! A client that goes when it has been woken, before it is told anything: what was taken or leased for it is given back.
//!
//! Another module listens to the event by which something is given out, and has the server stand still then: what other
//! clients send meanwhile is read before the client is told.

use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, until};

/// Has somebody who sleeps be woken by what is pushed, and the server stand still then, for long enough to be sent what
/// it reads before it tells him. (Redis 7.0 tells him at once.)
fn wake(client: &mut Connection, push: &str) {
    client.ask("LISTENER.ON 1 dehydrator.poll DEBUG SLEEP 0.3");
    client.ask(push);
    // It replies before it stands still, and cannot be asked then.
    let replied = Instant::now();
    until("it stands still", || (replied.elapsed() > Duration::from_millis(60)).then_some(()));
}

/// As [`wake`], and has another client send this line then.
fn woken(server: &Server, client: &mut Connection, other: &mut Connection, push: &str, line: &str) {
    wake(client, push);
    other.send_packed_command(&cmd(line).get_packed_command()).expect("it is sent");
    let _ = other.recv_response();
    until("nobody is asleep", || (waiters(server) == 0).then_some(()));
}

/// What RANGE tells of the one element.
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
    // From its first acknowledgement on the primary sends it what happens.
    let mut client = primary.connect();
    client.ask("SET written first");
    assert_eq!(client.ask("WAIT 1 0"), Value::Int(1));
    (primary, replica)
}

#[test]
fn what_was_leased_for_one_who_is_killed_is_as_it_was() {
    let (server, replica) = pair();
    let (mut client, mut other) = (server.connect(), server.connect());
    let told_at_once = server.version() == (7, 0) && !server.version().is_valkey;
    for (push, options, deliveries) in [
        ("DEHYDRATOR.PUSH k 0 element id", "LEASE 600000", 0),
        ("DEHYDRATOR.PUSH k 0 element id", "LEASE 600000 TOKEN mine", 0),
        ("DEHYDRATOR.PUSH k 7 element id AT 5 DELIVERIES 3 TOKEN yours", "LEASE 600000", 3),
        ("DEHYDRATOR.PUSH k 7 element id AT 5 DELIVERIES 3 TOKEN yours", "COUNT 5", 3),
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
            // Who held it before can still settle it.
            let settled = client.ask("DEHYDRATOR.SETTLE k yours id");
            assert_eq!(settled, Value::Array(vec![Value::Int(1)]));
        }
    }
}

#[test]
fn what_is_given_back_goes_where_its_database_went() {
    for (line, there) in [("FLUSHALL", None), ("FLUSHDB", None), ("SWAPDB 0 1", Some(1))] {
        for options in ["COUNT 1", "LEASE 600000"] {
            let (server, _replica) = pair();
            let (mut client, mut other) = (server.connect(), server.connect());
            let sleeper = Sleeper::start(&server, &format!("DEHYDRATOR.POLL k BLOCK 0 {options}"));
            wake(&mut client, "DEHYDRATOR.PUSH k 0 element id");
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
fn what_nobody_saw_is_no_dead_letter() {
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
fn what_the_client_was_told_by_another_connection_stays_leased() {
    let (server, replica) = pair();
    let (mut client, mut other, mut killer) =
        (server.connect(), server.connect(), server.connect());
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 LEASE 600000 TOKEN mine");
    wake(&mut client, "DEHYDRATOR.PUSH k 0 element id");
    let kill = format!("CLIENT KILL ID {}", sleeper.id);
    killer.send_packed_command(&cmd(&kill).get_packed_command()).expect("it is sent");
    let again = "DEHYDRATOR.POLL k LEASE 600000 TOKEN mine";
    other.send_packed_command(&cmd(again).get_packed_command()).expect("it is sent");
    let Value::Array(rows) = other.recv_response().expect("rows") else { panic!("rows") };
    until("nobody is asleep", || (waiters(&server) == 0).then_some(()));
    killer.recv_response().expect("a reply");
    // Whichever came first: either it is his by this connection, or it was given back, and he was given it anew.
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
fn what_was_on_its_way_when_the_server_became_a_replica_is_the_new_primary_s() {
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
        // Whoever was told has it; the rest is due on the next primary, to which what was said is on its way.
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
