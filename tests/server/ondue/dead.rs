//! Dead letters: elements that reached their delivery limit, and are due again.

use redis::{Connection, Value};

use super::{arrived, field, policy};
use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, text, texts, until};

/// Returns id, element and deliveries of the entries in a stream of dead letters, in order.
fn dead(client: &mut Connection, key: &str) -> Vec<(String, String, u64)> {
    let entries: Vec<(String, Vec<String>)> =
        cmd(&format!("XRANGE {key} - +")).query(client).expect("a stream");
    let row = |(_, fields): (String, Vec<String>)| {
        let [id, name, element, payload, deliveries, count] = &fields[..] else {
            panic!("{fields:?}")
        };
        assert_eq!([id, element, deliveries], ["id", "element", "deliveries"]);
        (name.clone(), payload.clone(), count.parse().expect("a number"))
    };
    entries.into_iter().map(row).collect()
}

fn dead_ids(client: &mut Connection, key: &str) -> Vec<String> {
    dead(client, key).into_iter().map(|(id, ..)| id).collect()
}

/// Waits until this many dead letters are in a stream, and returns their ids.
fn died(client: &mut Connection, key: &str, count: usize) -> Vec<String> {
    until(&format!("{count} are in {key}"), || {
        let ids = dead_ids(client, key);
        (ids.len() == count).then_some(ids)
    })
}

/// Returns a row of POLL with LEASE.
fn leased(id: &str, deliveries: i64) -> Value {
    Value::Array(vec![text(id), text("element"), Value::Int(deliveries)])
}

/// Returns the rows of POLL with LEASE, without the tokens.
fn without_tokens(reply: Value) -> Value {
    let Value::Array(mut rows) = reply else { return reply };
    for row in &mut rows {
        if let Value::Array(fields) = row {
            assert_eq!(fields.len(), 4, "{fields:?}");
            fields.pop();
        }
    }
    Value::Array(rows)
}

#[test]
fn an_element_at_its_delivery_limit_goes_to_the_stream_with_its_count() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 3 STREAM s MAXLEN ~ 1000");
    assert_eq!(policy(&mut client, "k"), "HOLD DELIVERIES 3 STREAM s MAXLEN ~ 1000");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    for deliveries in 1..=3 {
        let reply = client.ask("DEHYDRATOR.POLL k BLOCK 0 LEASE 40");
        assert_eq!(without_tokens(reply), Value::Array(vec![leased("id", deliveries)]));
        assert_eq!(dead(&mut client, "s"), []);
    }
    // Without any request.
    assert_eq!(died(&mut client, "s", 1), ["id"]);
    assert_eq!(dead(&mut client, "s"), [("id".into(), "element".into(), 3)]);
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
    assert_eq!((field(&server, "dead_letters"), field(&server, "deliveries")), (1, 0));
    // Elements below the limit, and those settled in time, are not affected.
    for id in ["once", "settled"] {
        client.ask(&format!("DEHYDRATOR.EFFECT k P0@5,delivered=2 element {id}"));
    }
    assert_eq!(
        client.ask("DEHYDRATOR.POLL k COUNT 1 WITHIDS"),
        Value::Array(vec![texts(&["once", "element"])])
    );
    client.ask("DEHYDRATOR.POLL k LEASE 60000");
    assert_eq!(client.ask("DEHYDRATOR.XACK k settled"), texts(&["element"]));
    assert_eq!(dead(&mut client, "s").len(), 1);
    // An empty dehydrator with a policy stays.
    assert!(client.exists("k"));
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    assert!(!client.exists("k"));
}

#[test]
fn an_elements_own_limit_takes_the_place_of_its_keys() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element patient DELIVERIES 3");
    client.ask("DEHYDRATOR.MPUSH k 0 element once 0 element also DELIVERIES 1");
    client.ask("DEHYDRATOR.PUSH k 0 element usual");
    // Without a rule there is nowhere to go, so an own limit does nothing.
    for _ in 0..2 {
        let rows: Vec<(String, String, u64, String)> =
            cmd("DEHYDRATOR.POLL k COUNT 9 LEASE 600000 TOKEN mine")
                .query(&mut client)
                .expect("rows");
        assert_eq!(rows.len(), 4);
        for (id, ..) in rows {
            client.ask(&format!("DEHYDRATOR.RELEASE k 0 mine {id}"));
        }
    }
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 2 STREAM s");
    let rows: Vec<(String, String, u64, String)> =
        cmd("DEHYDRATOR.POLL k COUNT 9 LEASE 600000 TOKEN mine").query(&mut client).expect("rows");
    assert_eq!((rows.len(), &rows[0].0[..], rows[0].2), (1, "patient", 3));
    assert_eq!(died(&mut client, "s", 3), ["once", "also", "usual"]);
    client.ask("DEHYDRATOR.RELEASE k 0 mine patient");
    assert_eq!(died(&mut client, "s", 4)[3], "patient");
}

#[test]
fn nobody_gets_a_dead_letter_even_before_the_server_moves_it() {
    let (server, mut client) = Server::with_client(&["--appendonly", "yes"]);
    let elements =
        |ids: &[&str]| Value::Array(ids.iter().map(|id| texts(&[id, "element"])).collect());
    for script in [false, true] {
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 2 STREAM s");
        // In a transaction or a script, the server cannot deliver between two commands.
        let lines = [
            "DEHYDRATOR.PUSH k 0 element a AT 1",
            "DEHYDRATOR.EFFECT k P0@2,delivered=1 element x",
            "DEHYDRATOR.PUSH k 0 element b AT 3",
            "DEHYDRATOR.EFFECT k P0@4,delivered=2 element y",
            "DEHYDRATOR.PUSH k 0 element c AT 5",
            "DEHYDRATOR.EFFECT k P0@0,delivered=65535 element z",
            "DEHYDRATOR.EFFECT k L5@2@7 x",
            "DEHYDRATOR.XPOLL k",
            "DEHYDRATOR.POLL k COUNT 2 WITHIDS",
            "DEHYDRATOR.LEN k",
            "DEHYDRATOR.POLL k BLOCK 0 WITHIDS",
            "DEHYDRATOR.LEN k",
        ];
        let replies = if script {
            let calls =
                lines.map(|line| format!("r[#r+1] = redis.call('{}')", line.replace(' ', "', '")));
            let mut eval = redis::cmd("EVAL");
            eval.arg(format!("local r = {{}} {} return r", calls.join(" "))).arg(0);
            eval.query(&mut client).expect("replies")
        } else {
            client.ask("MULTI");
            lines.iter().for_each(|line| _ = client.ask(line));
            client.ask("EXEC")
        };
        let Value::Array(replies) = replies else { panic!("{replies:?}") };
        let expected = [
            texts(&["a", "b", "c"]),
            elements(&["a", "b"]),
            Value::Int(2),
            elements(&["c"]),
            Value::Int(0),
        ];
        assert_eq!(replies[7..], expected, "in a script: {script}");
        assert_eq!(dead_ids(&mut client, "s"), ["z", "x", "y"]);
        let counts: Vec<u64> =
            dead(&mut client, "s").into_iter().map(|(.., count)| count).collect();
        assert_eq!(counts, [65_535, 2, 2]);
        let digest = client.ask("DEBUG DIGEST");
        client.ask("DEBUG LOADAOF");
        assert_eq!(client.ask("DEBUG DIGEST"), digest);
    }
    assert_eq!(field(&server, "dead_letters"), 6);
}

#[test]
fn a_dead_letter_is_moved_whatever_elements_come_before_it() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("DEHYDRATOR.PUSH k 0 element first AT 1");
    client.ask("DEHYDRATOR.EFFECT k P0@2,delivered=1 element dead");
    client.ask("DEHYDRATOR.PUSH k 0 element last AT 3");
    for away in ["POLL k COUNT 1", "PULL k first", "XACK k first", "TOUCH k 60000 first"] {
        assert_eq!(client.ask("EXISTS s"), Value::Int(0));
        assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["first", "last"]));
        client.ask(&format!("DEHYDRATOR.{away}"));
        assert_eq!(died(&mut client, "s", 1), ["dead"], "{away}");
        assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["last"]));
        client.ask("DEL s");
        client.ask("DEHYDRATOR.PUSH k 0 element first REPLACE AT 1");
        client.ask("DEHYDRATOR.EFFECT k P0@2,delivered=1 element dead");
    }
    // A limit that is set long after it was exceeded.
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    client.ask("DEHYDRATOR.REM k first");
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["dead", "last"]));
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 2 STREAM s");
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["dead", "last"]));
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    assert_eq!(died(&mut client, "s", 1), ["dead"]);
}

#[test]
fn a_blocked_client_wakes_only_for_elements_that_it_can_have() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    // First a dead letter comes due, then an element whose lease has expired, then one for this client.
    client.ask("DEHYDRATOR.PUSH k 0 element leased");
    assert_eq!(
        without_tokens(client.ask("DEHYDRATOR.POLL k LEASE 300")),
        Value::Array(vec![leased("leased", 1)])
    );
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 WITHIDS");
    client.ask("DEHYDRATOR.EFFECT k P0@5,delivered=9 element dead");
    assert_eq!(died(&mut client, "s", 2), ["dead", "leased"]);
    assert!(!sleeper.is_awake());
    client.ask("DEHYDRATOR.PUSH k 50 element id");
    assert_eq!(sleeper.reply(), Value::Array(vec![texts(&["id", "element"])]));

    // Its element is behind dead letters, and comes due before them.
    let sleepers =
        [(); 2].map(|()| Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 WITHIDS"));
    client.ask("MULTI");
    for (at, id, deliveries) in
        [(1, "a", ""), (2, "b", ",delivered=1"), (3, "c", ""), (4, "d", ",delivered=1")]
    {
        client.ask(&format!("DEHYDRATOR.EFFECT k P0@{at}{deliveries} element {id}"));
    }
    client.ask("EXEC");
    let [first, second] = sleepers.map(Sleeper::reply);
    assert_eq!(first, Value::Array(vec![texts(&["a", "element"])]));
    assert_eq!(second, Value::Array(vec![texts(&["c", "element"])]));
    assert_eq!(died(&mut client, "s", 4), ["dead", "leased", "b", "d"]);
    // Only dead letters: the client blocks.
    client.ask("DEHYDRATOR.EFFECT k P0@5,delivered=1 element e");
    assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 20"), Value::Array(vec![]));
}

#[test]
fn dead_letters_are_dropped_or_published_if_configured() {
    let (server, mut client) = Server::with_client(&["--appendonly", "yes"]);
    let mut ear = server.connect();
    let mut listener = ear.as_pubsub();
    listener.subscribe("news").expect("a subscription");
    for (route, counted) in [("DROP", 100), ("PUBLISH news", 200)] {
        client.ask(&format!("DEHYDRATOR.ONDUE k HOLD DELIVERIES 2 {route}"));
        let mut pipe = redis::pipe();
        for id in 0..100 {
            pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(0).arg(format!("element-{id}")).arg(id);
            let head = format!("P0@7,delivered={}", 2 + id % 3);
            let push = pipe.cmd("DEHYDRATOR.EFFECT").arg("k").arg(head);
            push.arg(format!("dead-{id}")).arg(100 + id);
        }
        pipe.exec(&mut client).expect("replies");
        until("they are gone", || {
            (client.ask("DEHYDRATOR.LEN k") == Value::Int(100)).then_some(())
        });
        assert_eq!(field(&server, "dead_letters"), counted);
        let Value::Array(left) = client.ask("DEHYDRATOR.POLL k") else { panic!("an array") };
        let alive: Vec<_> = (0..100).map(|id| text(&format!("element-{id}"))).collect();
        assert_eq!(left, alive);
    }
    for id in 0..100 {
        let heard: String = listener.get_message().expect("a message").get_payload().expect("text");
        assert_eq!(heard, format!("dead-{id}"));
    }
    let digest = client.ask("DEBUG DIGEST");
    client.ask("DEBUG LOADAOF");
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
}

#[test]
fn stuck_dead_letters_do_not_stop_the_delivery_of_others() {
    let (server, mut client) = Server::with_client(&[]);
    for (breaks, mends, reason) in [
        ("SET s text", "DEL s", "WRONGTYPE"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"),
    ] {
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
        client.ask("MULTI");
        for id in 0..300 {
            client.ask(&format!("DEHYDRATOR.EFFECT k P0@5,delivered=1 element dead-{id}"));
        }
        client.ask("DEHYDRATOR.PUSH k 0 element alive");
        client.ask("DEHYDRATOR.PUSH k 1000 element later");
        let warned = server.log().matches("could not be delivered").count();
        client.ask(breaks);
        client.ask("EXEC");
        // To a client that polls, and to one that is blocked.
        assert_eq!(
            client.ask("DEHYDRATOR.POLL k WITHIDS BLOCK 0"),
            Value::Array(vec![texts(&["alive", "element"])])
        );
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 WITHIDS");
        assert_eq!(sleeper.reply(), Value::Array(vec![texts(&["later", "element"])]));
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(300));
        let tried = field(&server, "retries");
        until("it is tried again", || (field(&server, "retries") > tried).then_some(()));
        assert_eq!(field(&server, "failing"), 1);
        let info = format!("{:?}", client.ask("DEHYDRATOR.INFO k"));
        assert!(info.contains(reason), "{info}");
        // A stuck dead letter can be settled, taken and postponed.
        assert_eq!(client.ask("DEHYDRATOR.XACK k dead-0"), texts(&["element"]));
        assert_eq!(client.ask("DEHYDRATOR.PULL k dead-1"), text("element"));
        assert_eq!(client.ask("DEHYDRATOR.TOUCH k 600000 dead-2"), Value::Int(1));
        client.ask(mends);
        let ids = died(&mut client, "s", 297);
        assert!((3..300).all(|id| ids.contains(&format!("dead-{id}"))));
        assert_eq!(field(&server, "failing"), 0);
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
        assert_eq!(server.log().matches("could not be delivered").count(), warned + 1);
    }
}

#[test]
fn dead_letters_are_not_moved_while_clients_may_not_write() {
    let (server, mut client) = Server::with_client(&[]);
    for route in ["STREAM s", "PUBLISH news", "DROP"] {
        client.ask("FLUSHALL");
        client.ask(&format!("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 {route}"));
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        client.ask("DEHYDRATOR.POLL k LEASE 700");
        client.ask("CONFIG SET min-replicas-to-write 1");
        let tried = field(&server, "retries");
        until("it is tried", || (field(&server, "retries") > tried).then_some(()));
        // Nor are they postponed.
        assert_eq!(client.ask("DEHYDRATOR.PTTL k id"), Value::Int(0));
        client.ask("CONFIG SET min-replicas-to-write 0");
        until(route, || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
    }
    assert_eq!(field(&server, "dead_letters"), 3);
}

#[test]
fn a_poll_skips_a_bounded_number_of_dead_letters() {
    const COUNT: usize = 5000;
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    let mut pipe = redis::pipe();
    pipe.atomic();
    for id in 0..COUNT {
        let head = format!("P{}@{id},delivered=1", id % 9);
        pipe.cmd("DEHYDRATOR.EFFECT").arg("k").arg(head).arg("element").arg(id).ignore();
    }
    pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(0).arg("element").arg("alive").ignore();
    pipe.cmd("DEHYDRATOR.POLL").arg("k");
    pipe.cmd("XLEN").arg("s");
    let (given, moved): (Vec<String>, usize) = pipe.query(&mut client).expect("replies");
    assert_eq!(given, Vec::<String>::new());
    assert!((1024..1200).contains(&moved), "{moved}");
    // The server moves the rest; a client that is blocked meanwhile gets the elements behind them.
    assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 0"), texts(&["element"]));
    let order: Vec<String> = (0..COUNT).map(|id| id.to_string()).collect();
    assert!(died(&mut client, "s", COUNT) == order, "each once, in order");
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
}

#[test]
fn a_delivery_limit_and_the_counts_follow_the_key() {
    let options =
        ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--appendfsync", "always"];
    let mut server = Server::start(&options);
    let ways: [(&str, &[&str]); 8] = [
        ("RENAME", &["RENAME k there"]),
        ("MOVE", &["MOVE k 3", "SELECT 3", "RENAME k there"]),
        ("COPY", &["COPY k there", "DEL k"]),
        ("SWAPDB", &["RENAME k there", "SWAPDB 0 5", "SELECT 5"]),
        ("DEBUG RELOAD", &["RENAME k there", "DEBUG RELOAD"]),
        ("rewriting the AOF", &["RENAME k there", "BGREWRITEAOF", "rewritten", "DEBUG LOADAOF"]),
        ("a restart", &["RENAME k there", "restart"]),
        ("a crash", &["RENAME k there", "crash"]),
    ];
    for (way, lines) in ways {
        let mut client = server.connect();
        client.ask("FLUSHALL");
        let line = "HOLD DELIVERIES 2 STREAM s MAXLEN ~ 1000";
        client.ask(&format!("DEHYDRATOR.ONDUE k {line}"));
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        client.ask("DEHYDRATOR.POLL k LEASE 1");
        assert_eq!(
            without_tokens(client.ask("DEHYDRATOR.POLL k LEASE 1000 BLOCK 0")),
            Value::Array(vec![leased("id", 2)])
        );
        for line in lines {
            match *line {
                "rewritten" => client.wait_for_rewrite(),
                "restart" | "crash" => {
                    if *line == "crash" {
                        server.crash_and_restart()
                    } else {
                        server.restart()
                    }
                    client = server.connect();
                }
                line => _ = client.ask(line),
            }
        }
        assert_eq!(policy(&mut client, "there"), line, "after {way}");
        assert_eq!(died(&mut client, "s", 1), ["id"], "after {way}");
    }
}

#[test]
fn a_replica_moves_no_dead_letters_until_it_is_promoted() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    for id in 0..100 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element {id}", id % 3));
    }
    let mut given = 0;
    while given < 100 {
        let Value::Array(rows) = client.ask("DEHYDRATOR.POLL k BLOCK 0 LEASE 30 COUNT 7") else {
            panic!("an array")
        };
        given += rows.len();
    }
    died(&mut client, "s", 100);
    client.ask("DEHYDRATOR.PUSH k 0 element later AT 5");
    client.ask("DEHYDRATOR.POLL k LEASE 1500");
    client.ask("WAIT 1 0");
    let mut other = replica.connect();
    for key in ["s", "k"] {
        assert_eq!(client.digest(key), other.digest(key));
    }
    assert_eq!(policy(&mut other, "k"), "HOLD DELIVERIES 1 STREAM s");
    drop(client);
    drop(primary);
    until("it is due", || (other.ask("DEHYDRATOR.PTTL k later") == Value::Int(0)).then_some(()));
    assert_eq!(other.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    other.ask("REPLICAOF NO ONE");
    assert_eq!(died(&mut other, "s", 101)[100], "later");
    assert_eq!(field(&replica, "dead_letters"), 1);
}

#[test]
fn stuck_dead_letters_are_the_same_on_a_replica_which_retries_them_when_promoted() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("SET s text");
    for id in 0..200 {
        client.ask(&format!("DEHYDRATOR.EFFECT k P5@5,delivered=1 element {id}"));
    }
    let mut other = replica.connect();
    until("all are put aside", || {
        (client.ask("DEHYDRATOR.PTTL k 199") == Value::Int(-1)).then_some(())
    });
    until("the replica has it too", || (client.digest("k") == other.digest("k")).then_some(()));
    assert_eq!(other.ask("DEHYDRATOR.LEN k"), Value::Int(200));
    drop(client);
    drop(primary);
    other.ask("REPLICAOF NO ONE");
    other.ask("DEL s");
    let order: Vec<String> = (0..200).map(|id| id.to_string()).collect();
    assert_eq!(died(&mut other, "s", 200), order);
}

#[test]
fn a_stuck_dead_letter_is_not_leased_again_by_its_token_and_can_be_settled() {
    let (_server, mut client) = Server::with_client(&[]);
    for filler in [0, 100] {
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM st");
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        client.ask("DEHYDRATOR.PUSH k 0 other id2");
        for id in 0..filler {
            client.ask(&format!("DEHYDRATOR.PUSH k 600000 element later-{id}"));
        }
        client.ask("SET st text");
        client.ask("DEHYDRATOR.POLL k LEASE 30 TOKEN a");
        until("it is stuck", || {
            (client.ask("DEHYDRATOR.PTTL k id2") == Value::Int(-1)).then_some(())
        });
        assert_eq!(client.ask("DEHYDRATOR.POLL k LEASE 30 TOKEN a"), Value::Array(vec![]));
        assert_eq!(client.ask("DEHYDRATOR.MPOLL 1 k LEASE 30 TOKEN a"), Value::Nil);
        let sleeper = client.ask("DEHYDRATOR.POLL k LEASE 30 TOKEN a BLOCK 20");
        assert_eq!(sleeper, Value::Array(vec![]));
        let Value::Array(fields) = client.ask("DEHYDRATOR.LOOK k id FULL") else {
            panic!("fields")
        };
        assert_eq!(fields[8..10], [text("leased"), Value::Int(0)]);
        let range = format!("{:?}", client.ask("DEHYDRATOR.RANGE k 9223372036854775807 +"));
        assert!(range.contains("\"id\""), "{range}");
        // A stuck dead letter does not count as coming due.
        if filler == 0 {
            assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Nil);
        }
        let settled = client.ask("DEHYDRATOR.SETTLE k a id");
        assert_eq!(settled, Value::Array(vec![Value::Int(1)]));
        client.ask("DEL st");
        assert_eq!(died(&mut client, "st", 1), ["id2"]);
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(filler));
    }
}

#[test]
fn a_stuck_dead_letter_is_written_once_however_often_it_is_retried() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let (server, mut client) = Server::with_client(&options);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("SET s text");
    for id in 0..500 {
        client.ask(&format!("DEHYDRATOR.EFFECT k P5@5,delivered=1 element {id}"));
    }
    until("all are put aside", || {
        (client.ask("DEHYDRATOR.PTTL k 499") == Value::Int(-1)).then_some(())
    });
    let size = client.info("persistence", "aof_current_size");
    let tried = field(&server, "retries");
    until("it is tried again and again", || (field(&server, "retries") > tried + 2).then_some(()));
    assert_eq!(client.info("persistence", "aof_current_size"), size);
    client.ask("DEL s");
    died(&mut client, "s", 500);
    let digest = client.ask("DEBUG DIGEST");
    client.ask("DEBUG LOADAOF");
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
}

#[test]
fn a_stuck_dead_letter_is_retried_even_if_the_clock_steps_back() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("SET s text");
    client.ask("DEHYDRATOR.EFFECT k P5@5,delivered=1 element id");
    until("it is stuck", || (field(&server, "failing") == 1).then_some(()));
    server.shift_clock(-3_600_000);
    client.ask("DEL s");
    assert_eq!(died(&mut client, "s", 1), ["id"]);
}

#[test]
fn a_stuck_dead_letter_is_moved_by_a_new_policy_and_after_a_restart() {
    let options = ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble"];
    for preamble in ["yes", "no"] {
        let mut server = Server::start(&[&options[..], &[preamble]].concat());
        let ids: Vec<String> = (0..100).map(|id| id.to_string()).collect();
        for (round, policy) in [
            "HOLD",
            "HOLD DELIVERIES 9 DROP",
            "STREAM other",
            "HOLD DELIVERIES 1 STREAM other",
            "restart",
            "rewritten",
        ]
        .into_iter()
        .enumerate()
        {
            let mut client = server.connect();
            client.ask("FLUSHALL");
            client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
            client.ask("SET s text");
            for id in &ids {
                client.ask(&format!("DEHYDRATOR.EFFECT k P5@5,delivered=1 element {id}"));
            }
            until("all are put aside", || {
                (client.ask("DEHYDRATOR.PTTL k 99") == Value::Int(-1)).then_some(())
            });
            match policy {
                "restart" => {
                    server.crash_and_restart();
                    client = server.connect();
                    client.ask("DEL s");
                    assert_eq!(died(&mut client, "s", 100), ids, "{round}");
                }
                "rewritten" => {
                    client.rewrite_aof();
                    server.crash_and_restart();
                    client = server.connect();
                    client.ask("DEL s");
                    assert_eq!(died(&mut client, "s", 100), ids, "{round}");
                }
                policy => {
                    client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
                    if policy.starts_with("STREAM") {
                        assert_eq!(arrived(&mut client, "other", 100), ids);
                    } else if policy.contains("STREAM") {
                        assert_eq!(died(&mut client, "other", 100), ids);
                    } else {
                        let mut given = Vec::new();
                        until("all are delivered again", || {
                            let reply = cmd("DEHYDRATOR.POLL k WITHIDS").query(&mut client);
                            let more: Vec<(String, String)> = reply.expect("pairs");
                            given.extend(more.into_iter().map(|(id, _)| id));
                            (given.len() == 100).then_some(())
                        });
                        assert_eq!(given, ids, "{policy}");
                    }
                    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
                }
            }
        }
    }
}
