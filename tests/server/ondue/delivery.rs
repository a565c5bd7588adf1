//! What is delivered, and when: to a stream, to a channel, to nowhere.

use std::time::{Duration, Instant};

use redis::Value;

use super::{arrived, field, ids, policy, stream};
use harness::{Ask, Server, cmd, text, texts, until};

#[test]
fn due_elements_are_in_the_stream_in_order_and_not_before() {
    let (server, mut client) = Server::with_client(&[]);
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
    // An empty dehydrator with a policy stays.
    assert!(client.exists("k"));
    assert_eq!(field(&server, "deliveries"), 4);
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    assert!(!client.exists("k"));
}

#[test]
fn ids_and_elements_of_any_bytes_are_delivered_unchanged() {
    let (_server, mut client) = Server::with_client(&[]);
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
fn a_consumer_blocked_on_the_stream_wakes() {
    let (server, mut client) = Server::with_client(&[]);
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
    // There are no other requests meanwhile: the server must wake by itself.
    assert!(after >= Duration::from_millis(199), "{after:?}");
    assert!(after < Duration::from_secs(60), "{after:?}");
}

/// The server's cron runs once a second, which is when it would notice otherwise.
#[test]
fn a_consumer_blocked_on_the_stream_wakes_at_once() {
    let (server, mut client) = Server::with_client(&["--hz", "1", "--dynamic-hz", "no"]);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let took = (0..5).map(|round| {
        let mut consumer = server.connect();
        let thread = std::thread::spawn(move || {
            consumer.ask("XREAD BLOCK 0 STREAMS s $");
            let now: Vec<u64> = cmd("TIME").query(&mut consumer).expect("the time");
            now[0] * 1_000_000 + now[1]
        });
        until("it sleeps", || (client.info("clients", "blocked_clients") == 1).then_some(()));
        let now: Vec<u64> = cmd("TIME").query(&mut client).expect("the time");
        let at = now[0] * 1000 + now[1] / 1000 + 20;
        client.ask(&format!("DEHYDRATOR.PUSH k 20 element {round} AT {at}"));
        Duration::from_micros(thread.join().expect("no panic") - at * 1000)
    });
    // A busy machine may be late now and then.
    let least = took.min().expect("some");
    assert!(least < Duration::from_millis(300), "{least:?}");
}

#[test]
fn a_stream_is_trimmed_to_its_length() {
    let (_server, mut client) = Server::with_client(&[]);
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
fn dropped_elements_are_gone() {
    let (server, mut client) = Server::with_client(&["--appendonly", "yes"]);
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
fn subscribers_get_due_elements_on_the_primary_and_on_its_replica() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
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
fn a_backlog_lets_other_clients_run() {
    let (_server, mut client) = Server::with_client(&["--enable-module-command", "yes"]);
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
    // Nor does a write to it give it precedence.
    for round in 0..10 {
        client.ask("DEHYDRATOR.TOUCH big 5 nobody");
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
fn setting_the_same_policy_again_is_no_change() {
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
fn an_element_whose_lease_expires_is_delivered() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    client.ask("DEHYDRATOR.POLL k LEASE 1500");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    assert_eq!(ids(&mut client, "s").len(), 0);
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}

#[test]
fn large_elements_are_copied_one_at_a_time() {
    const SIZE: usize = 4 << 20;
    let (_server, mut client) = Server::with_client(&[]);
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
    // A few copies of one element, not of all.
    assert!(peak < before + 8 * SIZE as u64, "{before} bytes before, {peak} at the most");
}
