//! Delivery without anybody asking: to a stream, to a channel, to nobody.

use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::harness::{Ask, Server, cmd, text, texts, until};

/// The ids and elements in a stream, in order.
fn stream(client: &mut Connection, key: &str) -> Vec<(String, String)> {
    let entries: Vec<(String, Vec<String>)> =
        cmd(&format!("XRANGE {key} - +")).query(client).expect("a stream");
    let pair = |(_, fields): (String, Vec<String>)| {
        let [id, name, element, payload] = &fields[..] else { panic!("{fields:?}") };
        assert_eq!((id.as_str(), element.as_str()), ("id", "element"));
        (name.clone(), payload.clone())
    };
    entries.into_iter().map(pair).collect()
}

fn ids(client: &mut Connection, key: &str) -> Vec<String> {
    stream(client, key).into_iter().map(|(id, _)| id).collect()
}

/// Waits until so many elements are in a stream, and returns their ids.
fn arrived(client: &mut Connection, key: &str, count: usize) -> Vec<String> {
    until(&format!("{count} are in {key}"), || {
        let ids = ids(client, key);
        assert!(ids.len() <= count, "{} are in {key}: {ids:?}", ids.len());
        (ids.len() == count).then_some(ids)
    })
}

fn policy(client: &mut Connection, key: &str) -> String {
    let info: Vec<Value> = cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    let at = info.iter().position(|it| *it == text("policy")).expect("a policy");
    redis::from_redis_value(info[at + 1].clone()).expect("text")
}

fn field(server: &Server, name: &str) -> u64 {
    server.info("dehydrator", &format!("dehydrator_{name}"))
}

#[test]
fn what_comes_due_is_in_the_stream_in_order_and_not_before() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    assert_eq!(policy(&mut client, "k"), "STREAM s");
    let start = Instant::now();
    for (ttl, id) in [(2500, "late"), (1200, "a"), (1200, "b"), (0, "now"), (600_000, "far")] {
        client.ask(&format!("DEHYDRATOR.PUSH k {ttl} element-{id} {id}"));
    }
    assert_eq!(arrived(&mut client, "s", 1), ["now"]);
    assert_eq!(arrived(&mut client, "s", 3), ["now", "a", "b"]);
    assert!(start.elapsed() >= Duration::from_millis(1199));
    arrived(&mut client, "s", 4);
    assert!(start.elapsed() >= Duration::from_millis(2499));
    let last = stream(&mut client, "s").pop();
    assert_eq!(last, Some(("late".into(), "element-late".into())));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    client.ask("DEHYDRATOR.PULL k far");
    // With a policy an empty one stays.
    assert!(client.exists("k"));
    assert_eq!(field(&server, "deliveries"), 4);
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    assert!(!client.exists("k"));
}

#[test]
fn ids_and_elements_of_any_bytes_are_delivered_as_they_are() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let (key, dest, id, element) = (b"k\0 \xff", b"\r\n\0", b"\0i\r\n", b"");
    let mut ask = |words: &[&[u8]]| -> Value {
        let mut cmd = redis::Cmd::new();
        words.iter().for_each(|word| _ = cmd.arg(word));
        cmd.query(&mut client).expect("a reply")
    };
    ask(&[b"DEHYDRATOR.ONDUE", key, b"stream", dest, b"maxlen", b"~", b"5"]);
    ask(&[b"DEHYDRATOR.PUSH", key, b"0", element, id]);
    until("it is delivered", || (ask(&[b"XLEN", dest]) == Value::Int(1)).then_some(()));
    let Value::Array(entries) = ask(&[b"XRANGE", dest, b"-", b"+"]) else { panic!("an array") };
    let Value::Array(entry) = &entries[0] else { panic!("an array") };
    let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
    let fields = [bulk(b"id"), bulk(id), bulk(b"element"), bulk(element)];
    assert_eq!(entry[1], Value::Array(fields.to_vec()));
}

#[test]
fn a_consumer_asleep_on_the_stream_is_woken() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("XGROUP CREATE s workers $ MKSTREAM");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let mut consumer = server.connect();
    let line = "XREADGROUP GROUP workers one BLOCK 0 STREAMS s >";
    let start = Instant::now();
    let thread = std::thread::spawn(move || (consumer.ask(line), Instant::now()));
    client.ask("DEHYDRATOR.PUSH k 200 element id");
    let (reply, at) = thread.join().expect("no panic");
    assert!(format!("{reply:?}").contains("element"), "{reply:?}");
    let after = at - start;
    // Nobody else asks the server anything meanwhile: it must wake by itself.
    assert!(after >= Duration::from_millis(199), "{after:?}");
    assert!(after < Duration::from_secs(20), "{after:?}");
}

#[test]
fn a_stream_is_trimmed_to_its_length() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (maxlen, words) in [("MAXLEN 3", "= 3"), ("MAXLEN = 3", "= 3"), ("MAXLEN ~ 200", "~ 200")] {
        client.ask("FLUSHALL");
        client.ask(&format!("DEHYDRATOR.ONDUE k STREAM s {maxlen}"));
        assert_eq!(policy(&mut client, "k"), format!("STREAM s MAXLEN {words}"));
        let mut pipe = redis::pipe();
        for id in 0..1000 {
            pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(0).arg("element").arg(id);
        }
        pipe.exec(&mut client).expect("replies");
        until("all are delivered", || {
            (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(())
        });
        let Value::Int(length) = client.ask("XLEN s") else { panic!("a number") };
        let bounds = if maxlen.contains('~') { 200..=300 } else { 3..=3 };
        assert!(bounds.contains(&length), "{length} with {maxlen}");
        assert_eq!(ids(&mut client, "s").last().map(String::as_str), Some("999"));
    }
}

#[test]
fn dropped_is_gone() {
    let server = Server::start(&["--appendonly", "yes"]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k DROP");
    let mut pipe = redis::pipe();
    for id in 0..1000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(id % 50).arg("element").arg(id);
    }
    pipe.exec(&mut client).expect("replies");
    client.ask("DEHYDRATOR.PUSH k 600000 element stays");
    until("they are gone", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k stays"), text("element"));
    assert_eq!(field(&server, "deliveries"), 1000);
    let before = client.ask("DEBUG DIGEST");
    client.ask("DEBUG LOADAOF");
    assert_eq!(client.ask("DEBUG DIGEST"), before);
}

#[test]
fn subscribers_hear_what_comes_due_on_the_primary_and_on_its_replica() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    replica.connect().ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let mut client = primary.connect();
    until("the replica is there", || {
        matches!(cmd("WAIT 1 10").query(&mut client), Ok(Value::Int(1))).then_some(())
    });
    let (mut here, mut there) = (primary.connect(), replica.connect());
    let listeners = [&mut here, &mut there].map(|connection| {
        let mut listener = connection.as_pubsub();
        listener.subscribe("news").expect("a subscription");
        listener
    });
    client.ask("DEHYDRATOR.ONDUE k PUBLISH news");
    for number in 0..100 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element-{number} id-{number}", number / 10));
    }
    for mut listener in listeners {
        let mut heard: Vec<String> = (0..100)
            .map(|_| listener.get_message().expect("a message").get_payload().expect("text"))
            .collect();
        heard.sort();
        heard.dedup();
        assert_eq!(heard.len(), 100);
    }
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
}

#[test]
fn a_policy_follows_its_key_wherever_it_goes() {
    let mut server = Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = server.connect();
    let ways: [(&str, &[&str]); 9] = [
        ("RENAME", &["RENAME k there"]),
        ("RENAME in MULTI", &["MULTI", "RENAME k a", "RENAME a b", "RENAME b there", "EXEC"]),
        ("RENAME over another", &["DEHYDRATOR.PUSH there 0 e i", "RENAME k there"]),
        ("MOVE", &["MOVE k 3", "SELECT 3", "RENAME k there"]),
        ("COPY", &["COPY k there", "DEL k"]),
        ("COPY to another database", &["COPY k there DB 7", "SELECT 7"]),
        ("SWAPDB", &["RENAME k there", "SWAPDB 0 5", "SELECT 5"]),
        ("DEBUG RELOAD", &["RENAME k there", "DEBUG RELOAD"]),
        ("rewriting the AOF", &["BGREWRITEAOF", "RENAME k there"]),
    ];
    for (way, lines) in ways {
        client.ask("FLUSHALL");
        client.ask("SELECT 0");
        client.ask("DEHYDRATOR.ONDUE k STREAM s MAXLEN ~ 1000");
        client.ask("DEHYDRATOR.PUSH k 1000 element id");
        for line in lines {
            client.ask(line);
        }
        assert_eq!(policy(&mut client, "there"), "STREAM s MAXLEN ~ 1000", "after {way}");
        // Nobody touches it by its new name: it must be found.
        assert_eq!(arrived(&mut client, "s", 1), ["id"], "after {way}");
    }
    until("the file is rewritten", || {
        (server.info("persistence", "aof_rewrite_in_progress") == 0).then_some(())
    });

    for crash in [false, true] {
        let mut client = server.connect();
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("DEHYDRATOR.PUSH k 1000 element id");
        client.ask("RENAME k there");
        if crash {
            server.crash_and_restart()
        } else {
            server.restart()
        }
        let mut client = server.connect();
        assert_eq!(arrived(&mut client, "s", 1), ["id"]);
    }
}

#[test]
fn a_policy_survives_a_dump_and_is_restored_by_it() {
    let mut server = Server::start(&["--save", "3600 1"]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 1500 element id");
    let dump: Value = client.ask("DUMP k");
    client.ask("DEL k");
    let mut restore = redis::cmd("RESTORE");
    let Value::BulkString(payload) = dump else { panic!("a dump") };
    restore.arg("there").arg(0).arg(payload).exec(&mut client).expect("OK");
    server.restart();
    let mut client = server.connect();
    assert_eq!(policy(&mut client, "there"), "STREAM s");
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}

#[test]
fn what_cannot_be_delivered_stays_and_is_tried_again() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("SET s text");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    for id in 0..10 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element {id}", id % 3));
    }
    until("it is tried again", || (field(&server, "retries") >= 3).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(10));
    let due: Vec<String> = cmd("DEHYDRATOR.XPOLL k").query(&mut client).expect("ids");
    client.ask("DEL s");
    assert_eq!(arrived(&mut client, "s", 10), due);
    let log = server.log();
    assert_eq!(log.matches("could not be delivered").count(), 1, "{log}");
    assert!(log.contains("WRONGTYPE"), "{log}");
    assert_eq!(field(&server, "deliveries"), 10);

    // Without memory too. To take away is allowed.
    client.ask("CONFIG SET maxmemory 1");
    let refused = client.refused("DEHYDRATOR.PUSH k 0 element id");
    assert!(refused.starts_with("OOM"), "{refused}");
    client.ask("CONFIG SET maxmemory 0");
    client.ask("DEHYDRATOR.PUSH k 1000 element last");
    client.ask("CONFIG SET maxmemory 1");
    let before = field(&server, "retries");
    until("it is tried", || (field(&server, "retries") > before).then_some(()));
    client.ask("CONFIG SET maxmemory 0");
    assert_eq!(arrived(&mut client, "s", 11)[10], "last");
    assert_eq!(server.log().matches("could not be delivered").count(), 2);

    // Somebody who asks gets what is due all the same.
    client.ask("DEL s");
    client.ask("SET s text");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    assert_eq!(client.ask("DEHYDRATOR.PULL k id"), text("element"));
}

#[test]
fn a_replica_delivers_nothing_until_it_is_promoted() {
    let primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = Server::start_with_port(&["--appendonly", "yes"]);
    replica.connect().ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let mut client = primary.connect();
    until("the replica is there", || {
        matches!(cmd("WAIT 1 10").query(&mut client), Ok(Value::Int(1))).then_some(())
    });
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let mut pipe = redis::pipe();
    for id in 0..2000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(id % 7 * 10).arg("element").arg(id);
    }
    pipe.exec(&mut client).expect("replies");
    let delivered = arrived(&mut client, "s", 2000);
    client.ask("DEHYDRATOR.PUSH k 4000 element later");
    client.ask("RENAME k there");
    client.ask("WAIT 1 0");
    let mut other = replica.connect();
    for key in ["s", "there"] {
        assert_eq!(client.digest(key), other.digest(key));
    }
    assert_eq!(ids(&mut other, "s"), delivered);
    assert_eq!(field(&replica, "deliveries"), 0);
    drop(client);
    drop(primary);
    until("it is due", || (other.ask("DEHYDRATOR.TTN there") == Value::Int(0)).then_some(()));
    // As long as it is a replica it is in vain to wait.
    assert_eq!(other.ask("DEHYDRATOR.LEN there"), Value::Int(1));
    other.ask("REPLICAOF NO ONE");
    assert_eq!(arrived(&mut other, "s", 2001)[2000], "later");
    let before = other.ask("DEBUG DIGEST");
    other.ask("DEBUG LOADAOF");
    assert_eq!(other.ask("DEBUG DIGEST"), before);
}

#[test]
fn nothing_is_delivered_while_clients_are_paused() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 1000 element id");
    client.ask("CLIENT PAUSE 100000 WRITE");
    until("it is due", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
    let ticks = field(&server, "ticks");
    until("a tick went by", || (field(&server, "ticks") > ticks + 1).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    client.ask("CLIENT UNPAUSE");
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}

#[test]
fn a_backlog_lets_others_have_their_turn() {
    let server = Server::start(&["--enable-module-command", "yes"]);
    let mut client = server.connect();
    client.ask("CONFIG SET dehydrator.tick-budget-us 10");
    let mut pipe = redis::pipe();
    for id in 0..50_000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg("big").arg(0).arg("element").arg(id);
    }
    pipe.exec(&mut client).expect("replies");
    client.ask("DEHYDRATOR.ONDUE small STREAM s");
    client.ask("DEHYDRATOR.ONDUE big STREAM b");
    client.ask("DEHYDRATOR.PUSH small 0 element id");
    arrived(&mut client, "s", 1);
    // Nor does it go before others because somebody writes to it.
    for round in 0..10 {
        client.ask("DEHYDRATOR.TOUCH big nobody 5");
        client.ask(&format!("DEHYDRATOR.PUSH big 600000 element later-{round}"));
        client.ask(&format!("DEHYDRATOR.PUSH small 0 element {round}"));
        arrived(&mut client, "s", round + 2);
        client.ask(&format!("DEHYDRATOR.PULL big later-{round}"));
    }
    let left: i64 = cmd("DEHYDRATOR.LEN big").query(&mut client).expect("a number");
    assert!(left > 10_000, "{left} of the backlog were left when the small one had its turn");
    client.ask("CONFIG SET dehydrator.tick-budget-us 10000");
    let order: Vec<String> = (0..50_000).map(|id| id.to_string()).collect();
    until("all are delivered", || (client.ask("XLEN b") == Value::Int(50_000)).then_some(()));
    assert!(ids(&mut client, "b") == order, "each once, in order");
    assert_eq!(client.ask("DEHYDRATOR.LEN big"), Value::Int(0));
}

#[test]
fn a_policy_asks_for_the_right_to_what_it_writes_to() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("ACL SETUSER eve on nopass +@all ~k ~mine resetchannels &mine");
    let mut eve = server.connect();
    eve.ask("AUTH eve any");
    for line in ["STREAM s", "stream s MAXLEN 5", "PUBLISH news", "publish STREAM"] {
        let refused = eve.refused(&format!("DEHYDRATOR.ONDUE k {line}"));
        assert!(refused.starts_with("NOPERM"), "{line}: {refused}");
    }
    // Neither in a transaction nor in a script.
    eve.ask("MULTI");
    let refused = eve.refused("DEHYDRATOR.ONDUE k STREAM s");
    assert!(refused.starts_with("NOPERM"), "{refused}");
    let _ = cmd("DISCARD").query::<Value>(&mut eve);
    let mut script = redis::cmd("EVAL");
    script.arg("return redis.call('DEHYDRATOR.ONDUE', KEYS[1], 'STREAM', 's')").arg(1).arg("k");
    script.query::<Value>(&mut eve).expect_err("no right");
    assert!(!client.exists("k"));
    for line in ["STREAM mine", "PUBLISH mine", "DROP", "HOLD"] {
        eve.ask(&format!("DEHYDRATOR.ONDUE k {line}"));
    }
}

fn events_of(client: &mut Connection, classes: &str) {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("notify-keyspace-events").arg(classes).exec(client).expect("OK");
}

#[test]
fn one_event_tells_that_something_is_due() {
    let mut server = Server::start(&["--notify-keyspace-events", "Ed", "--save", "3600 1"]);
    let mut client = server.connect();
    let mut ear = server.connect();
    let mut events = ear.as_pubsub();
    events.psubscribe("__keyevent@0__:dehydrator.*").expect("a subscription");
    let wait_for_ticks = || {
        let ticks = field(&server, "ticks");
        until("ticks went by", || (field(&server, "ticks") > ticks + 2).then_some(()));
    };
    let due = |client: &mut Connection, count| {
        until("they are due", || {
            let due: Vec<String> = cmd("DEHYDRATOR.XPOLL k").query(client).expect("ids");
            (due.len() == count).then_some(())
        });
        wait_for_ticks();
    };
    // Two come due, one after the other: the second is no news.
    client.ask("DEHYDRATOR.PUSH k 600 element a");
    client.ask("DEHYDRATOR.PUSH k 900 element b");
    due(&mut client, 2);
    client.ask("DEHYDRATOR.POLL k COUNT 2");
    client.ask("DEHYDRATOR.PUSH k 0 element c");
    due(&mut client, 1);
    client.ask("DEHYDRATOR.TOUCH k c 50");
    due(&mut client, 1);
    client.ask("DEHYDRATOR.POLL k");
    for name in ["push", "push", "due", "poll", "push", "due", "touch", "due", "poll"] {
        let event = events.get_message().expect("an event");
        let (_, found) = event.get_channel_name().split_once(":dehydrator.").expect("a name");
        assert_eq!(found, name);
        assert_eq!(event.get_payload::<String>().expect("a key"), "k");
    }
    drop(events);

    // Those that were there before events were turned on are found, renamed ones too, and those that
    // were loaded.
    for reload in [false, true] {
        let mut client = server.connect();
        client.ask("CONFIG SET notify-keyspace-events KEA");
        client.ask("DEHYDRATOR.PUSH other 5000 element id");
        client.ask("RENAME other k");
        if reload {
            server.restart();
        } else {
            events_of(&mut client, "");
        }
        let mut ear = server.connect();
        let mut client = server.connect();
        let mut events = ear.as_pubsub();
        events.psubscribe("__keyevent@0__:dehydrator.due").expect("a subscription");
        client.ask("CONFIG SET notify-keyspace-events Ed");
        let event = events.get_message().expect("an event");
        assert_eq!(event.get_payload::<String>().expect("a key"), "k");
        client.ask("DEL k");
    }
    until("it is forgotten", || (field(&server, "on_agenda") == 0).then_some(()));
}

#[test]
fn what_is_gone_is_forgotten() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for gone in ["DEL k", "UNLINK k", "FLUSHDB", "FLUSHALL ASYNC", "SET k v", "PEXPIRE k 1"] {
        client.ask("DEL k");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("DEHYDRATOR.PUSH k 600000 element id");
        assert_eq!(field(&server, "on_agenda"), 1);
        client.ask(gone);
        until(gone, || (field(&server, "on_agenda") == 0).then_some(()));
    }
}

#[test]
fn a_policy_that_is_set_again_is_no_change() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    assert!(!client.exists("k"));
    for words in ["DROP", "STREAM s", "STREAM s MAXLEN 5", "STREAM s MAXLEN ~ 5", "PUBLISH c"] {
        for (breaks, reply) in [(true, Value::Nil), (false, Value::Array(vec![]))] {
            client.ask("WATCH k");
            other.ask(&format!("DEHYDRATOR.ONDUE k {words}"));
            client.ask("MULTI");
            assert_eq!(client.ask("EXEC"), reply, "{words}: {breaks}");
        }
    }
    let digest = client.digest("k");
    client.ask("DEHYDRATOR.ONDUE k PUBLISH d");
    assert_ne!(client.digest("k"), digest);
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&[]));
    assert!(client.exists("k"));
}

#[test]
fn a_lease_that_runs_out_is_delivered() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    client.ask("DEHYDRATOR.POLL k LEASE 1500");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    assert_eq!(ids(&mut client, "s").len(), 0);
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}

#[test]
fn a_bound_key_that_is_put_over_another_is_not_forgotten() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 1000 element id");
    let Value::BulkString(dump) = client.ask("DUMP k") else { panic!("a dump") };
    for way in ["RESTORE over itself", "RESTORE over another", "COPY", "RENAME"] {
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("DEHYDRATOR.PUSH k 1000 element id");
        client.ask("DEHYDRATOR.ONDUE other STREAM t");
        client.ask("DEHYDRATOR.PUSH other 600000 element id");
        let mut restore = redis::cmd("RESTORE");
        match way {
            "RESTORE over itself" => {
                restore.arg("k").arg(0).arg(&dump).arg("REPLACE").exec(&mut client).expect("OK");
            }
            "RESTORE over another" => {
                restore
                    .arg("other")
                    .arg(0)
                    .arg(&dump)
                    .arg("REPLACE")
                    .exec(&mut client)
                    .expect("OK");
                client.ask("DEL k");
            }
            "COPY" => {
                client.ask("COPY k other REPLACE");
                client.ask("DEL k");
            }
            _ => drop(client.ask("RENAME k other")),
        }
        until(way, || (client.ask("XLEN s") == Value::Int(1)).then_some(()));
    }
}

#[test]
fn clients_asleep_on_a_bound_key_sleep_on() {
    let server = Server::start(&[]);
    let (mut client, mut sleeper) = (server.connect(), server.connect());
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let start = Instant::now();
    let thread =
        std::thread::spawn(move || (sleeper.ask("DEHYDRATOR.POLL k BLOCK 600"), Instant::now()));
    until("it is asleep", || (field(&server, "waiters") == 1).then_some(()));
    for id in 0..5 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element {id}", id * 20));
    }
    assert_eq!(arrived(&mut client, "s", 5), ["0", "1", "2", "3", "4"]);
    let (reply, at) = thread.join().expect("no panic");
    assert_eq!(reply, Value::Nil);
    assert!(at - start >= Duration::from_millis(599), "{:?}", at - start);

    // Until somebody says that elements are to be held.
    let mut sleeper = server.connect();
    let thread = std::thread::spawn(move || sleeper.ask("DEHYDRATOR.POLL k BLOCK 0"));
    until("it is asleep", || (field(&server, "waiters") == 1).then_some(()));
    client.ask("DEHYDRATOR.PUSH k 1500 element id");
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    assert_eq!(thread.join().expect("no panic"), texts(&["element"]));
}

#[test]
fn large_elements_are_copied_one_at_a_time() {
    const SIZE: usize = 4 << 20;
    let server = Server::start(&[]);
    let mut client = server.connect();
    for id in 0..32 {
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        let at = 5 + id;
        push.arg("k").arg(0).arg(vec![b'x'; SIZE]).arg(id).arg("AT").arg(at);
        push.exec(&mut client).expect("OK");
    }
    client.ask("CONFIG RESETSTAT");
    let before = client.info("memory", "used_memory");
    client.ask("DEHYDRATOR.ONDUE k STREAM s MAXLEN 1");
    until("all are gone", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
    let peak = client.info("memory", "used_memory_peak");
    // Some copies of one, not of all.
    assert!(peak < before + 8 * SIZE as u64, "{before} bytes before, {peak} at the most");
}

#[test]
fn memory_that_is_free_again_is_seen_without_a_command() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut set = redis::cmd("SET");
    set.arg("big").arg(vec![b'x'; 50 << 20]).exec(&mut client).expect("OK");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 400 element id");
    client.ask("XGROUP CREATE s workers $ MKSTREAM");
    client.ask("CONFIG SET maxmemory 30mb");
    // The last command before there is silence began in want of memory, and ended in plenty.
    let mut consumer = server.connect();
    let line = "XREADGROUP GROUP workers one BLOCK 0 STREAMS s >";
    let thread = std::thread::spawn(move || consumer.ask(line));
    client.ask("DEL big");
    assert!(format!("{:?}", thread.join().expect("no panic")).contains("element"));
}

#[test]
fn a_clock_that_steps_back_does_not_put_off_what_failed() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("SET s text");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    client.ask("DEHYDRATOR.DEBUG k CLOCK 3600000");
    let retries = field(&server, "retries");
    until("it is tried", || (field(&server, "retries") > retries).then_some(()));
    client.ask("DEHYDRATOR.DEBUG k CLOCK 0");
    client.ask("DEL s");
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}

#[test]
fn a_policy_that_is_said_anew_is_tried_at_once() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (again, stream) in
        [("DEHYDRATOR.ONDUE k STREAM s", "s"), ("DEHYDRATOR.ONDUE k STREAM t", "t")]
    {
        client.ask("FLUSHALL");
        client.ask("SET s text");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        let before = field(&server, "retries");
        until("it has failed often", || (field(&server, "retries") >= before + 5).then_some(()));
        // By now it waits for more than three seconds.
        client.ask("RENAME s other");
        let start = Instant::now();
        client.ask(again);
        assert_eq!(arrived(&mut client, stream, 1), ["id"]);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?} after {again}", start.elapsed());
    }
}

#[test]
fn events_that_were_off_for_a_while_come_again() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut ear = server.connect();
    let mut events = ear.as_pubsub();
    events.psubscribe("__keyevent@0__:dehydrator.due").expect("a subscription");
    events_of(&mut client, "Ed");
    client.ask("DEHYDRATOR.PUSH near 600000 element far");
    client.ask("DEHYDRATOR.PUSH again 0 element id");
    assert_eq!(events.get_message().expect("it").get_payload::<String>().expect("it"), "again");
    events_of(&mut client, "");
    client.ask("DEHYDRATOR.PUSH near 700 element id");
    client.ask("DEHYDRATOR.POLL again");
    client.ask("DEHYDRATOR.PUSH again 900 element id");
    let ticks = field(&server, "ticks");
    until("a tick went by", || (field(&server, "ticks") > ticks + 1).then_some(()));
    events_of(&mut client, "Ed");
    let mut heard =
        [(); 2].map(|()| events.get_message().expect("it").get_payload::<String>().expect("it"));
    heard.sort();
    assert_eq!(heard, ["again", "near"]);
}

#[test]
fn many_bound_keys_do_not_make_whole_databases_slow() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let mut client = server.connect();
    for first in (0..100_000).step_by(10_000) {
        let mut pipe = redis::pipe();
        for key in first..first + 10_000 {
            pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000).arg("element").arg("id").ignore();
            pipe.cmd("DEHYDRATOR.ONDUE").arg(key).arg("DROP").ignore();
        }
        pipe.exec(&mut client).expect("replies");
    }
    assert_eq!(field(&server, "on_agenda"), 100_000);
    client.ask("SLOWLOG RESET");
    client.ask("SWAPDB 0 1");
    client.ask("FLUSHALL ASYNC");
    let log: Vec<(u64, u64, u64, Vec<String>, Value, Value)> =
        cmd("SLOWLOG GET 128").query(&mut client).expect("a log");
    for entry in log.iter().filter(|entry| ["SWAPDB", "FLUSHALL"].contains(&&entry.3[0][..])) {
        // It was 350 milliseconds, in proportion to the keys.
        assert!(entry.2 < 150_000, "{:?} took {} us", entry.3, entry.2);
    }
    assert_eq!(field(&server, "on_agenda"), 0);
}

#[test]
fn a_renamed_key_is_found_among_many_others() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEBUG POPULATE 500000");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 0 element first");
    arrived(&mut client, "s", 1);
    client.ask("DEHYDRATOR.PUSH k 100 element id");
    client.ask("RENAME k there");
    let start = Instant::now();
    assert_eq!(arrived(&mut client, "s", 2), ["first", "id"]);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn what_clients_may_not_write_is_not_delivered_either() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("CONFIG SET min-replicas-to-write 1");
    let refused = client.refused("XADD s * a b");
    assert!(refused.starts_with("NOREPLICAS"), "{refused}");
    client.ask("CONFIG SET min-replicas-to-write 0");
    client.ask("DEHYDRATOR.PUSH k 1000 element id");
    client.ask("CONFIG SET min-replicas-to-write 1");
    until("it is tried", || (field(&server, "retries") > 0).then_some(()));
    client.ask("CONFIG SET min-replicas-to-write 0");
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}
