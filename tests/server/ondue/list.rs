//! Delivery to a list, where clients wait with BRPOP, in one transaction with the removal.

use std::time::Duration;

use redis::{Connection, Value};

use super::{field, policy};
use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd, text, texts, until};

fn list(client: &mut Connection, key: &str) -> Vec<String> {
    cmd(&format!("LRANGE {key} 0 -1")).query(client).expect("a list, or none yet")
}

/// Waits until this many elements are in a list, and returns them.
fn arrived(client: &mut Connection, key: &str, count: usize) -> Vec<String> {
    until(&format!("{count} are in {key}"), || {
        let elements = list(client, key);
        assert!(elements.len() <= count, "{} are in {key}: {elements:?}", elements.len());
        (elements.len() == count).then_some(elements)
    })
}

/// Pushes elements from 0 on, all of which come due at once.
fn push(client: &mut Connection, key: &str, count: usize) {
    let mut pipe = redis::pipe();
    pipe.atomic();
    for number in 0..count {
        let ttl = if number == 0 { 1 } else { 0 };
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(ttl).arg(number).arg(format!("id-{number}"));
        // Each has a place of its own in the order, whatever its TTL.
        pipe.arg("AT").arg(number + 1);
    }
    pipe.exec(client).expect("replies");
}

#[test]
fn due_elements_are_at_their_end_of_the_list_in_order_and_not_before() {
    let (server, mut client) = Server::with_client(&[]);
    for (words, is_left) in [("LIST l", false), ("list l right", false), ("LIST l LEFT", true)] {
        client.ask("FLUSHALL");
        client.ask("RPUSH l old");
        client.ask(&format!("DEHYDRATOR.ONDUE k {words}"));
        let shown = if is_left { "LIST l LEFT" } else { "LIST l" };
        assert_eq!(policy(&mut client, "k"), shown);
        client.ask("DEHYDRATOR.PUSH k 600000 later later");
        // More than one batch.
        push(&mut client, "k", 300);
        let mut expected: Vec<_> = (0..300).map(|number| number.to_string()).collect();
        expected.insert(0, "old".to_owned());
        if is_left {
            expected.reverse();
        }
        assert!(arrived(&mut client, "l", 301) == expected, "{words}: not in order");
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
        assert_eq!(client.ask("DEHYDRATOR.LOOK k later"), text("later"));
    }
    assert_eq!(field(&server, "deliveries"), 900);
}

/// The server's cron runs once a second, which is when it would notice otherwise.
#[test]
fn a_client_blocked_on_the_list_wakes_at_once() {
    let (server, mut client) = Server::with_client(&["--hz", "1", "--dynamic-hz", "no"]);
    let dead = "HOLD DELIVERIES 1 LIST l";
    for (policy, deliveries) in [("LIST l", ""), (dead, ",delivered=1")] {
        client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
        for verb in ["BRPOP l 0", "BLPOP l 0", "BLMOVE l m LEFT LEFT 0"] {
            let took = (0..5).map(|round| {
                let mut sleeper = server.connect();
                let (line, before) = (verb.to_owned(), client.info("clients", "blocked_clients"));
                let thread = std::thread::spawn(move || {
                    let reply = sleeper.ask(&line);
                    let now: Vec<u64> = cmd("TIME").query(&mut sleeper).expect("the time");
                    (reply, now[0] * 1_000_000 + now[1])
                });
                until("it sleeps", || {
                    (client.info("clients", "blocked_clients") > before).then_some(())
                });
                let now: Vec<u64> = cmd("TIME").query(&mut client).expect("the time");
                let at = now[0] * 1000 + now[1] / 1000 + 20;
                client.ask(&format!("DEHYDRATOR.EFFECT k P20@{at}{deliveries} e{round} id"));
                let (reply, woke_us) = thread.join().expect("no panic");
                assert!(format!("{reply:?}").contains(&format!("e{round}")), "{reply:?}");
                assert!(woke_us >= at * 1000, "too early");
                Duration::from_micros(woke_us - at * 1000)
            });
            // A busy machine may be late now and then.
            let least = took.min().expect("some");
            assert!(least < Duration::from_millis(300), "{verb} after {policy}: {least:?}");
        }
    }
}

#[test]
fn the_first_blocked_client_gets_the_first_element() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k LIST l");
    let sleepers: Vec<_> = (1..=20)
        .map(|count| {
            let mut sleeper = server.connect();
            let thread = std::thread::spawn(move || sleeper.ask("BLPOP l 0"));
            until("it sleeps", || {
                (client.info("clients", "blocked_clients") == count).then_some(())
            });
            thread
        })
        .collect();
    push(&mut client, "k", 20);
    for (number, sleeper) in sleepers.into_iter().enumerate() {
        let reply = sleeper.join().expect("no panic");
        assert_eq!(reply, texts(&["l", &number.to_string()]));
    }
    assert!(!client.exists("l"));
}

#[test]
fn keys_and_elements_of_any_bytes_are_delivered_unchanged() {
    let (_server, mut client) = Server::with_client(&[]);
    let (key, dest) = (b"k\0 \xff", b"LEFT");
    let mut ask = |words: &[&[u8]]| -> Value {
        let mut cmd = redis::Cmd::new();
        words.iter().for_each(|word| _ = cmd.arg(word));
        cmd.query(&mut client).expect("a reply")
    };
    ask(&[b"DEHYDRATOR.ONDUE", key, b"LIST", dest]);
    for (id, element) in [(&b""[..], &b""[..]), (b"i", b"\0\r\n\xff")] {
        ask(&[b"DEHYDRATOR.PUSH", key, b"0", element, id]);
    }
    until("they are delivered", || (ask(&[b"LLEN", dest]) == Value::Int(2)).then_some(()));
    let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
    let expected = Value::Array(vec![bulk(b""), bulk(b"\0\r\n\xff")]);
    assert_eq!(ask(&[b"LRANGE", dest, b"0", b"-1"]), expected);
}

#[test]
fn a_destination_of_another_type_is_refused_and_retried() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("SET taken text");
    client.ask("XADD stream * a b");
    client.ask("DEHYDRATOR.PUSH dehydrator 600000 element id");
    for dest in ["taken", "stream", "dehydrator"] {
        for policy in ["LIST", "HOLD DELIVERIES 5 LIST"] {
            let refused = client.refused(&format!("DEHYDRATOR.ONDUE k {policy} {dest}"));
            assert_eq!(refused, format!("WRONGTYPE LIST '{dest}' is not a list"));
        }
    }
    let refused = client.refused("DEHYDRATOR.ONDUE k LIST k");
    assert_eq!(refused, "ERR LIST must not be the dehydrator's own key");
    assert!(!client.exists("k"));

    client.ask("DEHYDRATOR.ONDUE k LIST l");
    client.ask("SET l text");
    push(&mut client, "k", 100);
    until("it is tried again", || (field(&server, "retries") >= 3).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(100));
    let info = format!("{:?}", client.ask("DEHYDRATOR.INFO k"));
    assert!(info.contains("WRONGTYPE"), "{info}");
    client.ask("DEL l");
    let expected: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(arrived(&mut client, "l", 100), expected);
    let info = format!("{:?}", client.ask("DEHYDRATOR.INFO k"));
    assert!(!info.contains("WRONGTYPE"), "{info}");

    // Nor is there memory for it in a full server.
    let refused = {
        client.ask("CONFIG SET maxmemory 1");
        client.refused("DEHYDRATOR.ONDUE k LIST other")
    };
    assert!(refused.starts_with("OOM"), "{refused}");
    client.ask("CONFIG SET maxmemory 0");
    client.ask("DEHYDRATOR.PUSH k 300 last last");
    client.ask("CONFIG SET maxmemory 1");
    let before = field(&server, "retries");
    until("it is tried", || (field(&server, "retries") > before).then_some(()));
    client.ask("CONFIG SET maxmemory 0");
    assert_eq!(arrived(&mut client, "l", 101)[100], "last");
}

#[test]
fn replicas_and_the_append_only_file_get_push_and_removal_in_one_transaction() {
    let mut primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.ONDUE k LIST l");
    push(&mut client, "k", 1000);
    client.ask("DEHYDRATOR.PUSH k 600000 later later");
    arrived(&mut client, "l", 1000);
    catch_up(&primary, &replica);
    let digests = ["k", "l"].map(|key| client.digest(key));
    assert_eq!(["k", "l"].map(|key| replica.connect().digest(key)), digests);

    let folder = primary.file("appendonlydir");
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    let files = files.map(|file| std::fs::read(file.path()).expect("a file"));
    let told: String = files.map(|file| String::from_utf8_lossy(&file).into_owned()).collect();
    let words: Vec<_> = told
        .lines()
        .filter(|it| ["MULTI", "EXEC", "RPUSH", "DEHYDRATOR.REM"].contains(it))
        .collect();
    let (pushes, removals) = ["RPUSH", "DEHYDRATOR.REM"]
        .map(|word| words.iter().filter(|it| **it == word).count())
        .into();
    // Many elements in one command, and never one command without the other.
    assert_eq!(pushes, removals);
    assert!((16..200).contains(&pushes), "{pushes}");
    let mut is_open = false;
    for word in words {
        match word {
            "MULTI" => is_open = true,
            "EXEC" => is_open = false,
            _ => assert!(is_open, "{word} stands alone"),
        }
    }
    for rewrites in [false, true] {
        if rewrites {
            client = primary.connect();
            client.rewrite_aof();
        }
        primary.restart();
        let mut client = primary.connect();
        assert_eq!(["k", "l"].map(|key| client.digest(key)), digests);
    }
}

#[test]
fn dead_letters_go_to_the_list_by_themselves_and_on_a_poll() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 2 LIST dead LEFT");
    let at = |moment: u64, id: &str, deliveries: &str| {
        cmd(&format!("DEHYDRATOR.EFFECT k P5@{moment}{deliveries} {id} {id}"))
    };
    let mut pipe = redis::pipe();
    pipe.atomic();
    pipe.add_command(at(1, "a", ",delivered=2")).add_command(at(2, "b", ""));
    pipe.add_command(at(3, "c", ",delivered=2")).add_command(at(4, "d", ",delivered=1"));
    pipe.add_command(cmd("DEHYDRATOR.POLL k")).add_command(cmd("LRANGE dead 0 -1"));
    let replies: Vec<Value> = pipe.query(&mut client).expect("replies");
    assert_eq!(replies[4..], [texts(&["b", "d"]), texts(&["c", "a"])]);
    at(1, "e", ",delivered=2").exec(&mut client).expect("OK");
    assert_eq!(arrived(&mut client, "dead", 3), ["e", "c", "a"]);
    assert_eq!(field(&server, "dead_letters"), 3);
    // Stuck ones do not block others, and are moved when possible.
    client.ask("DEL dead");
    client.ask("SET dead text");
    for id in ["f", "g"] {
        at(5, id, ",delivered=2").exec(&mut client).expect("OK");
    }
    client.ask("DEHYDRATOR.PUSH k 0 alive alive");
    until("it is delivered", || {
        (client.ask("DEHYDRATOR.POLL k") == texts(&["alive"])).then_some(())
    });
    client.ask("DEL dead");
    assert_eq!(arrived(&mut client, "dead", 2), ["g", "f"]);
}

#[test]
fn a_restored_policy_pushes_nothing_until_it_is_confirmed() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k LIST l LEFT");
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    let Value::BulkString(dump) = client.ask("DUMP k") else { panic!("a dump") };
    let mut restore = redis::cmd("RESTORE");
    restore.arg("there").arg(0).arg(dump).exec(&mut client).expect("OK");
    assert_eq!(policy(&mut client, "there"), "LIST l LEFT UNCONFIRMED");
    client.ask("DEHYDRATOR.TOUCH there 0 id");
    until("it is tried", || (field(&server, "retries") > 0).then_some(()));
    assert!(!client.exists("l"));
    client.ask("DEHYDRATOR.ONDUE there LIST l LEFT");
    assert_eq!(arrived(&mut client, "l", 1), ["element"]);
}

/// In a transaction, and in a script.
#[test]
fn elements_due_within_a_transaction_are_delivered_after_it() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("MULTI");
    client.ask("DEHYDRATOR.ONDUE k LIST l");
    client.ask("DEHYDRATOR.PUSH k 0 one 1");
    client.ask("LLEN l");
    let Value::Array(replies) = client.ask("EXEC") else { panic!("an array") };
    assert_eq!(replies[2], Value::Int(0));
    arrived(&mut client, "l", 1);
    let script = "redis.call('DEHYDRATOR.ONDUE', KEYS[1], 'LIST', KEYS[2], 'LEFT') \
                  redis.call('DEHYDRATOR.PUSH', KEYS[1], 0, 'two', 2) \
                  return redis.call('LLEN', KEYS[2])";
    let mut eval = redis::cmd("EVAL");
    let length: u64 = eval.arg(script).arg(2).arg("k").arg("l").query(&mut client).expect("it");
    assert_eq!(length, 1);
    assert_eq!(arrived(&mut client, "l", 2), ["two", "one"]);
}

#[test]
fn a_failover_during_delivery_leaves_each_element_in_one_place() {
    const COUNT: usize = 20_000;
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask("CONFIG SET dehydrator.tick-budget-us 200");
    push(&mut client, "k", COUNT);
    // A new replica is not online at once, and nothing may be delivered until it can take over.
    until("the replica is online", || (client.ask("WAIT 1 100") == Value::Int(1)).then_some(()));
    client.ask("DEHYDRATOR.ONDUE k LIST l");
    until("some are delivered", || {
        matches!(client.ask("LLEN l"), Value::Int(length) if length > 500).then_some(())
    });
    client.ask(&format!("FAILOVER TO 127.0.0.1 {}", replica.port()));
    let mut there = replica.connect();
    until("it has taken over", || {
        format!("{:?}", there.ask("ROLE")).contains("master").then_some(())
    });
    let expected: Vec<_> = (0..COUNT).map(|number| number.to_string()).collect();
    until("all are delivered", || (there.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
    assert!(list(&mut there, "l") == expected, "each once, in order");
    // The replica delivered the rest, and its new replica is equal.
    let delivered = field(&replica, "deliveries");
    assert!(delivered > 0, "nothing was left when it took over");
    primary.wait_for_link();
    catch_up(&replica, &primary);
    assert_eq!(primary.connect().digest("l"), there.digest("l"));
}
