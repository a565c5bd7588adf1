//! Another module listens to the module's keyspace events, and writes to the same key: whatever it does there remains
//! valid.

use redis::{Connection, Value};

use crate::remembered::remembered;
use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, refusal, texts, until};

/// A primary with the other module, and a replica without it.
struct Pair {
    primary: Server,
    replica: Server,
}

impl Pair {
    fn start() -> Self {
        let primary = Server::start_with_listener(&[]);
        let replica = Server::start_with_port(&[]);
        replica.follow(&primary);
        Self { primary, replica }
    }

    /// Waits until the replica equals the primary.
    fn compare(&self, what: &str) {
        let (mut here, mut there) = (self.primary.connect(), self.replica.connect());
        until(&format!("the replica is equal: {what}"), || {
            (here.ask("DEBUG DIGEST") == there.ask("DEBUG DIGEST")).then_some(())
        });
    }
}

fn ran(client: &mut Connection) -> Vec<String> {
    cmd("LISTENER.RAN").query(client).expect("lines")
}

/// Commands of a listener on the key of an event. `%key` stands for the key's name.
const DEEDS: [&str; 9] = [
    "DEL %key",
    "UNLINK %key",
    "SET %key text",
    "DEHYDRATOR.POLL %key",
    "DEHYDRATOR.REM %key a b c",
    "DEHYDRATOR.PUSH %key 600000 listened listened",
    "RENAME %key elsewhere",
    "DEHYDRATOR.ONDUE %key HOLD",
    "EXPIRE %key 1000",
];

/// Commands that cause an event, and the event.
const VERBS: [(&str, &str); 20] = [
    ("DEHYDRATOR.PUSH k 600000 element new", "dehydrator.push"),
    ("DEHYDRATOR.PUSH k 600000 element a REPLACE", "dehydrator.push"),
    ("DEHYDRATOR.MPUSH k 600000 element x 600000 element y", "dehydrator.push"),
    ("DEHYDRATOR.GIDPUSH k 600000 element", "dehydrator.push"),
    ("DEHYDRATOR.UPDATE k b other", "dehydrator.update"),
    ("DEHYDRATOR.TOUCH k 700000 c", "dehydrator.touch"),
    ("DEHYDRATOR.REM k b", "dehydrator.rem"),
    ("DEHYDRATOR.PULL k b", "dehydrator.pull"),
    ("DEHYDRATOR.POLL k", "dehydrator.poll"),
    ("DEHYDRATOR.POLL k LEASE 60000", "dehydrator.poll"),
    ("DEHYDRATOR.MPOLL 2 nowhere k", "dehydrator.poll"),
    ("DEHYDRATOR.MPOLL 2 k nowhere LEASE 60000", "dehydrator.poll"),
    ("DEHYDRATOR.XACK k a", "dehydrator.xack"),
    ("DEHYDRATOR.SETTLE k 7 d", "dehydrator.settle"),
    ("DEHYDRATOR.RENEW k 700000 7 d", "dehydrator.renew"),
    ("DEHYDRATOR.RELEASE k 700000 7 d", "dehydrator.release"),
    ("DEHYDRATOR.ONDUE k PUBLISH nowhere", "dehydrator.ondue"),
    ("DEHYDRATOR.PAUSE k", "dehydrator.pause"),
    ("DEHYDRATOR.EVERY k 600000 element name", "dehydrator.every"),
    ("DEHYDRATOR.LIMIT k HELD 5 RATE 5 PER 5000", "dehydrator.limit"),
];

/// Creates one due element and three that are not due, one of them leased.
fn fill(client: &mut Connection) {
    client.ask("LISTENER.OFF");
    client.ask("FLUSHALL");
    client.ask("DEHYDRATOR.PUSH k 0 element a AT 10");
    client.ask("DEHYDRATOR.PUSH k 600000 element b");
    client.ask("DEHYDRATOR.PUSH k 600000 element c");
    client.ask("DEHYDRATOR.EFFECT k P600000@4102444799999,delivered=1,token=7 element d");
}

/// Asserts the state of the key after the listener's command, which came last.
fn holds(client: &mut Connection, deed: &str, what: &str) {
    match deed.split(' ').next().expect("a word") {
        "DEL" | "UNLINK" | "RENAME" => assert!(!client.exists("k"), "{what}"),
        "SET" => assert_eq!(client.ask("TYPE k"), Value::SimpleString("string".into()), "{what}"),
        "DEHYDRATOR.PUSH" => {
            let there = client.ask("DEHYDRATOR.LOOK k listened");
            assert_eq!(there, Value::BulkString("listened".into()), "{what}");
        }
        _ => {}
    }
}

#[test]
fn a_listener_can_run_any_command_on_the_key_of_every_command() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    for (verb, event) in VERBS {
        for deed in DEEDS {
            fill(&mut client);
            let what = format!("{deed} at {event} of {verb}");
            client.ask(&format!("LISTENER.ON 1 {event} {deed}"));
            // Any reply is valid, as long as there is one.
            let _ = refusal(&cmd(verb), &mut client);
            assert_eq!(ran(&mut client).len(), 1, "{what}: it was not told");
            if ran(&mut client) == ["ok"] {
                holds(&mut client, deed, &what);
            }
            pair.compare(&what);
        }
    }
}

#[test]
fn a_listener_can_refill_a_key_that_expires_during_a_write() {
    // Without a replica: the server sends the expiry to it after the listener's command, so the replica would delete
    // the key.
    let server = Server::start_with_listener(&[]);
    let mut client = server.connect();
    client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    for (verb, length) in [
        ("DEHYDRATOR.PUSH k 600000 element mine", 2),
        ("DEHYDRATOR.MPUSH k 600000 element mine 600000 element other", 3),
        ("DEHYDRATOR.LIMIT k LENGTH 5", 1),
        ("DEHYDRATOR.POLL k", 1),
    ] {
        fill(&mut client);
        client.ask("PEXPIRE k 1");
        let deed = "DEHYDRATOR.PUSH k 600000 listened listened";
        client.ask(&format!("LISTENER.ON 1 expired {deed}"));
        client.ask("DEBUG SLEEP 0.005");
        client.ask(verb);
        assert_eq!(ran(&mut client), ["ok"], "{verb}");
        holds(&mut client, deed, verb);
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(length), "{verb}");
        assert_eq!(client.info("dehydrator", "dehydrator_elements"), length as u64, "{verb}");
    }
}

#[test]
fn a_listener_can_run_any_command_when_the_last_element_is_taken() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    for (verb, event) in [
        ("DEHYDRATOR.PULL k a", "dehydrator.pull"),
        ("DEHYDRATOR.POLL k", "dehydrator.poll"),
        ("DEHYDRATOR.REM k a", "dehydrator.rem"),
        ("DEHYDRATOR.XACK k a", "dehydrator.xack"),
    ] {
        // Except renaming an empty key: a replica has deleted it by then.
        for deed in DEEDS.into_iter().filter(|deed| !deed.starts_with("RENAME")) {
            for event in [event, "del"] {
                client.ask("LISTENER.OFF");
                client.ask("FLUSHALL");
                client.ask("DEHYDRATOR.PUSH k 0 element a AT 10");
                client.ask(&format!("LISTENER.ON 1 {event} {deed}"));
                client.ask(verb);
                let what = format!("{deed} at {event} of {verb}");
                if ran(&mut client) == ["ok"] {
                    holds(&mut client, deed, &what);
                }
                pair.compare(&what);
            }
        }
    }
}

#[test]
fn a_listener_can_run_any_command_when_a_blocked_client_is_served() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    let event = "dehydrator.poll";
    for asks in ["POLL k", "POLL k LEASE 60000", "MPOLL 2 k elsewhere"] {
        for deed in DEEDS {
            client.ask("LISTENER.OFF");
            client.ask("FLUSHALL");
            let line = format!("DEHYDRATOR.{asks} BLOCK 0");
            let sleeper = Sleeper::start(&pair.primary, &line);
            client.ask(&format!("LISTENER.ON 1 {event} {deed}"));
            client.ask("DEHYDRATOR.PUSH k 5 element a");
            let length = if asks.starts_with('M') { 2 } else { 1 };
            assert!(matches!(sleeper.reply(), Value::Array(taken) if taken.len() == length));
            let what = format!("{deed} at {event} of a sleeper");
            assert_eq!(ran(&mut client).len(), 1, "{what}: it was not told");
            if ran(&mut client) == ["ok"] {
                holds(&mut client, deed, &what);
            }
            pair.compare(&what);
        }
    }
}

#[test]
fn a_listener_can_run_any_command_when_a_push_wakes_a_client() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    for deed in DEEDS {
        client.ask("LISTENER.OFF");
        client.ask("FLUSHALL");
        let sleeper = Sleeper::start(&pair.primary, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1");
        client.ask(&format!("LISTENER.ON 1 dehydrator.push {deed}"));
        let _ = refusal(&cmd("DEHYDRATOR.PUSH k 0 element a"), &mut client);
        client.ask("LISTENER.OFF");
        // If the listener took the element, push another one for the blocked client.
        client.ask("DEL k");
        client.ask("DEHYDRATOR.PUSH k 0 element a");
        assert_eq!(sleeper.reply(), texts(&["element"]), "{deed}");
        pair.compare(deed);
    }
}

#[test]
fn a_listener_can_run_any_command_when_an_element_is_delivered() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    for (policy, events) in [
        ("STREAM s", &["dehydrator.deliver", "dehydrator.due", "xadd"][..]),
        ("LIST l", &["dehydrator.deliver", "dehydrator.due", "rpush"]),
        ("LIST l LEFT", &["lpush"]),
        ("PUBLISH channel", &["dehydrator.deliver", "dehydrator.due"]),
        ("DROP", &["dehydrator.drop", "dehydrator.due"]),
        ("HOLD DELIVERIES 1 STREAM s", &["dehydrator.deliver", "dehydrator.due", "xadd"]),
        ("HOLD DELIVERIES 1 DROP", &["dehydrator.drop"]),
    ] {
        for event in events {
            for deed in DEEDS {
                client.ask("LISTENER.OFF");
                client.ask("FLUSHALL");
                client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
                // The event of the stream names the stream.
                let deed = deed.replace("%key", "k");
                let what = format!("{deed} at {event} with {policy}");
                client.ask(&format!("LISTENER.ON 1 {event} {deed}"));
                // If there is a limit, the element has reached it.
                client.ask(if policy.starts_with("HOLD") {
                    "DEHYDRATOR.EFFECT k P5@5,delivered=1 element a"
                } else {
                    "DEHYDRATOR.PUSH k 5 element a"
                });
                until(&format!("it is told: {what}"), || {
                    (!ran(&mut client).is_empty()).then_some(())
                });
                let is_over = |client: &mut Connection| {
                    client.ask("TYPE k") != Value::SimpleString("dehy-type".into())
                        || client.ask("DEHYDRATOR.TTN k") != Value::Int(0)
                };
                if !deed.ends_with("HOLD") {
                    until(&format!("it is over: {what}"), || is_over(&mut client).then_some(()));
                }
                pair.compare(&what);
            }
        }
    }
}

#[test]
fn a_delivery_sees_the_changes_of_a_listener() {
    let server = Server::start_with_listener(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PAUSE k");
    client.ask("DEHYDRATOR.MPUSH k 0 old a 0 old b");
    client.ask("LISTENER.ON 1 xadd DEHYDRATOR.UPDATE k b new");
    client.ask("DEHYDRATOR.RESUME k");
    until("both are delivered", || (client.ask("XLEN s") == Value::Int(2)).then_some(()));
    let entries: Vec<(String, Vec<String>)> = cmd("XRANGE s - +").query(&mut client).expect("rows");
    let of = |entry: &(String, Vec<String>)| entry.1.join(" ");
    let told: Vec<_> = entries.iter().map(of).collect();
    assert!(told[0].contains("old") && told[1].contains("new"), "{told:?}");
}

#[test]
fn a_listener_can_run_any_command_when_a_poll_moves_a_dead_letter() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    for (route, events) in [
        ("STREAM s", &["dehydrator.poll", "dehydrator.deliver", "xadd"][..]),
        ("LIST s", &["dehydrator.poll", "dehydrator.deliver", "rpush"]),
        ("DROP", &["dehydrator.poll", "dehydrator.drop"]),
    ] {
        for event in events {
            for deed in DEEDS {
                client.ask("LISTENER.OFF");
                client.ask("FLUSHALL");
                client.ask(&format!("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 {route}"));
                let deed = deed.replace("%key", "k");
                let what = format!("{deed} at {event} with {route}");
                client.ask(&format!("LISTENER.ON 1 {event} {deed}"));
                client.ask("MULTI");
                for (at, id, deliveries) in [
                    (1, "a", ""),
                    (2, "dead-1", ",delivered=1"),
                    (3, "b", ""),
                    (4, "dead-2", ",delivered=1"),
                    (5, "c", ""),
                ] {
                    client.ask(&format!("DEHYDRATOR.EFFECT k P5@{at}{deliveries} {id} {id}"));
                }
                client.ask("DEHYDRATOR.POLL k");
                let Value::Array(mut replies) = client.ask("EXEC") else { panic!("an array") };
                let given: Vec<String> =
                    redis::from_redis_value(replies.remove(5)).expect("elements");
                // A listener that removes the delivery limit gets its way.
                let is_limited = !deed.ends_with("HOLD");
                let gives_dead = given.iter().any(|it| it.starts_with("dead"));
                assert!(!(is_limited && gives_dead), "{what}: {given:?}");
                assert!(!ran(&mut client).is_empty(), "{what}: it was not told");
                if *event != "xadd" && ran(&mut client) == ["ok"] && route == "DROP" {
                    holds(&mut client, &deed, &what);
                }
                let read = if route == "LIST s" { "LRANGE s 0 -1" } else { "XRANGE s - +" };
                let entries = format!("{:?}", client.ask(read));
                // One entry has it twice: a key renamed during the delivery sends it again under its new name.
                let most = if deed.starts_with("RENAME") { 4 } else { 2 };
                for id in ["dead-1", "dead-2"] {
                    assert!(entries.matches(id).count() <= most, "{what}: {entries}");
                }
                pair.compare(&what);
            }
        }
    }
}

/// Kills a client that is blocked on a key with an expiry, at the moment when the last element is taken for it.
fn killed_when_served(pair: &Pair, at: u64, expiry: u64, slow: &str) {
    let mut client = pair.primary.connect();
    client.ask("LISTENER.OFF");
    client.ask("FLUSHALL");
    let sleeper = Sleeper::start(&pair.primary, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask(&format!("LISTENER.ON 1 dehydrator.poll {slow}"));
    client.ask(&format!("LISTENER.ON 1 dehydrator.poll CLIENT KILL ID {}", sleeper.id));
    client.ask("MULTI");
    client.ask(&format!("DEHYDRATOR.PUSH k 5 element id AT {at}"));
    client.ask(&format!("PEXPIREAT k {expiry}"));
    client.ask("EXEC");
    assert!(sleeper.outcome().is_err(), "it was killed");
    assert_eq!(ran(&mut client), ["ok", "ok"]);
}

#[test]
fn elements_given_back_to_a_deleted_key_keep_its_expiry() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    killed_when_served(&pair, 5, 4_102_444_800_000, "PING");
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1), "it was given back");
    assert_eq!(client.ask("PEXPIRETIME k"), Value::Int(4_102_444_800_000));
    pair.compare("an expiry");
    assert_eq!(pair.replica.connect().ask("PEXPIRETIME k"), Value::Int(4_102_444_800_000));
    // A client that has refilled the key sets its expiry.
    killed_when_served(
        &pair,
        5,
        4_102_444_800_000,
        "DEHYDRATOR.PUSH %key 600000 listened listened",
    );
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(2), "it was given back");
    assert_eq!(client.ask("PEXPIRETIME k"), Value::Int(-1));
    pair.compare("another key");
}

#[test]
fn an_element_given_back_is_not_remembered() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
    let sleeper = Sleeper::start(&pair.primary, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask(&format!("LISTENER.ON 1 dehydrator.poll CLIENT KILL ID {}", sleeper.id));
    client.ask("DEHYDRATOR.PUSH k 5 element id AT 5");
    assert!(sleeper.outcome().is_err(), "it was killed");
    until("it is given back", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(()));
    assert_eq!(remembered(&mut client, "k"), 0);
    pair.compare("what was given back");
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["element"]));
    assert_eq!(remembered(&mut client, "k"), 1);
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 5 element id NX"), Value::Nil);
    pair.compare("what was taken then");
}

#[test]
fn an_element_that_would_have_expired_with_its_key_is_not_given_back() {
    let pair = Pair::start();
    let mut client = pair.primary.connect();
    let (seconds, micros): (u64, u64) = cmd("TIME").query(&mut client).expect("the time");
    let now = seconds * 1000 + micros / 1000;
    killed_when_served(&pair, now, now + 4000, "DEBUG SLEEP 4.1");
    assert!(!client.exists("k"), "it came back");
    pair.compare("nothing");
}

/// A key that has just been created. The server itself does not survive everything that a listener can do then.
///
/// Deleting or overwriting the key frees memory that the server's own `setKey` uses next (on Redis 7.0 and 8, it takes
/// its reference after it has sent `new`): a plain SET has the same fault. So this test only uses commands that keep
/// the value alive.
#[test]
fn a_listener_can_write_to_a_new_key() {
    let server = Server::start_with_listener(&[]);
    let mut client = server.connect();
    // From 8.2 on, Redis stores name, value and expiry together. EXPIRE moves this, and `dbAdd` reads it once more
    // after it has sent `new`: a plain SET or LPUSH crashes too, without our module.
    let version = server.version();
    let moves_values = !version.is_valkey && version >= (8, 2);
    // Redis 7.0 asserts that the key still exists.
    let wants_key = !version.is_valkey && version < (8, 0);
    let deeds: [&[&str]; 6] = [
        &["DEHYDRATOR.PUSH %key 600000 listened listened"],
        &["PEXPIRE %key 600000"],
        &["PEXPIRE %key 600000", "PERSIST %key"],
        &["RENAME %key elsewhere", "RENAME elsewhere %key"],
        &["PEXPIRE %key 600000", "RENAME %key elsewhere", "RENAME elsewhere %key"],
        &["RENAME %key elsewhere"],
    ];
    for verb in ["PUSH k 600000 element a", "MPUSH k 600000 element a", "ONDUE k PUBLISH nowhere"] {
        for deeds in deeds {
            if moves_values && !deeds[0].contains("PUSH")
                || wants_key && deeds.len() == 1 && deeds[0].starts_with("RENAME")
            {
                continue;
            }
            client.ask("LISTENER.OFF");
            client.ask("FLUSHALL");
            for deed in deeds {
                client.ask(&format!("LISTENER.ON 1 new {deed}"));
            }
            client.ask(&format!("DEHYDRATOR.{verb}"));
            assert_eq!(ran(&mut client), vec!["ok"; deeds.len()], "{deeds:?} at new of {verb}");
            let key =
                if deeds.last() == Some(&"RENAME %key elsewhere") { "elsewhere" } else { "k" };
            assert_eq!(client.ask("DBSIZE"), Value::Int(1), "{deeds:?} at new of {verb}");
            let length = client.ask(&format!("DEHYDRATOR.LEN {key}"));
            let pushes = verb.contains("PUSH") || deeds[0].contains("PUSH");
            let pushed = if pushes {
                1 + i64::from(verb.contains("PUSH") && deeds[0].contains("PUSH"))
            } else {
                0
            };
            assert_eq!(length, Value::Int(pushed), "{deeds:?} at new of {verb}");
            let digest = client.digest(key);
            client.ask("DEBUG RELOAD");
            assert_eq!(client.digest(key), digest);
        }
    }
}
