//! Clients blocked on several keys, and the order in which they are served.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use super::{at_once, from};
use crate::blocking::cpu_us;
use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, texts, until};

#[test]
fn a_client_blocked_on_several_keys_is_served_once() {
    let (server, mut client) = Server::with_client(&[]);
    for key in ["a", "b", "c"] {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 4 a b a c BLOCK 0");
        let start = Instant::now();
        client.ask(&format!("DEHYDRATOR.PUSH {key} 30 element id"));
        let (reply, after) = sleeper.reply_after(start);
        assert_eq!(reply, from(key, &["element"]));
        assert!(after + Duration::from_millis(1) >= Duration::from_millis(30), "{after:?}");
        assert_eq!(waiters(&server), 0);
        for key in ["a", "b", "c"] {
            assert!(!client.exists(key));
            client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element id"));
            assert_eq!(client.ask(&format!("DEHYDRATOR.POLL {key}")), texts(&["element"]));
        }
    }
}

#[test]
fn of_keys_that_are_due_together_the_clients_first_one_serves_it() {
    let (server, mut client) = Server::with_client(&[]);
    for _ in 0..20 {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 3 high middle low BLOCK 0");
        let push = |key: &str| format!("DEHYDRATOR.PUSH {key} 0 {key} id");
        at_once(&mut client, &[&push("low"), &push("middle")]);
        assert_eq!(sleeper.reply(), from("middle", &["middle"]));
        assert_eq!(client.ask("DEHYDRATOR.MPOLL 2 high low"), from("low", &["low"]));
        // By their deadlines, not all at once.
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 3 high middle low BLOCK 0");
        let start = client.ask("TIME");
        let (seconds, _): (u64, u64) = redis::from_redis_value(start).expect("a time");
        // A second or two from now: both are blocked by then.
        let at = (seconds + 2) * 1000;
        for key in ["low", "high"] {
            client.ask(&format!("DEHYDRATOR.PUSH {key} 0 {key} id AT {at}"));
        }
        // Another client, which would take what is left.
        let second = Sleeper::start(&server, "DEHYDRATOR.MPOLL 3 high middle low BLOCK 0");
        if sleeper.is_awake() {
            continue;
        }
        assert_eq!(sleeper.reply(), from("high", &["high"]));
        assert_eq!(second.reply(), from("low", &["low"]));
        return;
    }
    panic!("the machine is too slow for this");
}

#[test]
fn each_key_serves_its_clients_in_order_of_arrival_with_any_command() {
    let (server, mut client) = Server::with_client(&[]);
    let asleep =
        |line: &str| Sleeper::start(&server, &format!("DEHYDRATOR.{line} COUNT 1 BLOCK 0"));
    let first = asleep("POLL low");
    let second = asleep("MPOLL 2 high low");
    let third = asleep("POLL low");
    let fourth = asleep("MPOLL 2 low high");
    let fifth = asleep("POLL high");
    let mut push = |key: &str| {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element id"));
    };
    push("low");
    assert_eq!(first.reply(), texts(&["element"]));
    push("low");
    assert_eq!(second.reply(), from("low", &["element"]));
    push("high");
    assert_eq!(fourth.reply(), from("high", &["element"]));
    push("low");
    assert_eq!(third.reply(), texts(&["element"]));
    push("high");
    assert_eq!(fifth.reply(), texts(&["element"]));
    assert_eq!(waiters(&server), 0);
}

#[test]
fn a_client_that_prefers_another_key_queues_there_behind_earlier_ones() {
    let (server, mut client) = Server::with_client(&[]);
    let before = Sleeper::start(&server, "DEHYDRATOR.POLL high COUNT 1 BLOCK 0");
    let both = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 high low COUNT 1 BLOCK 0");
    let low = "DEHYDRATOR.PUSH low 0 low id";
    let high = "DEHYDRATOR.MPUSH high 0 first 1 0 second 2";
    at_once(&mut client, &[low, high]);
    assert_eq!(before.reply(), texts(&["first"]));
    assert_eq!(both.reply(), from("high", &["second"]));
    assert_eq!(client.ask("DEHYDRATOR.POLL low"), texts(&["low"]));

    // An element that was due there and is not any more makes nobody wait.
    let before = Sleeper::start(&server, "DEHYDRATOR.POLL high COUNT 1 BLOCK 0");
    let both = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 high low COUNT 1 BLOCK 0");
    at_once(&mut client, &[low, high, "DEL high"]);
    assert_eq!(both.reply(), from("low", &["low"]));
    client.ask("DEHYDRATOR.PUSH high 0 high id");
    assert_eq!(before.reply(), texts(&["high"]));

    // If nothing is left for it there, it gets an element from another key.
    let before = Sleeper::start(&server, "DEHYDRATOR.POLL high BLOCK 0");
    let both = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 high low COUNT 1 BLOCK 0");
    at_once(&mut client, &[low, high]);
    assert_eq!(before.reply(), texts(&["first", "second"]));
    assert_eq!(both.reply(), from("low", &["low"]));
}

#[test]
fn clients_with_circular_preferences_are_all_served() {
    let (server, mut client) = Server::with_client(&[]);
    for pushed in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let asleep = |keys: &str| {
            Sleeper::start(&server, &format!("DEHYDRATOR.MPOLL 2 {keys} COUNT 1 BLOCK 0"))
        };
        let sleepers = [asleep("a b"), asleep("b c"), asleep("c a")];
        let pushes = pushed.map(|key| format!("DEHYDRATOR.PUSH {key} 0 element id"));
        at_once(&mut client, &pushes.each_ref().map(String::as_str));
        let replies = sleepers.map(Sleeper::reply);
        assert_eq!(replies, ["a", "b", "c"].map(|key| from(key, &["element"])));

        // The second client is next not only at the third key, but also at the first.
        let sleepers = [asleep("a b"), asleep("b a"), asleep("b a")];
        let push = "DEHYDRATOR.PUSH b 0 element id";
        at_once(&mut client, &[push, "DEHYDRATOR.MPUSH a 0 one 1 0 two 2"]);
        let [first, second, third] = sleepers.map(Sleeper::reply);
        assert_eq!(first, from("a", &["one"]));
        assert_eq!(second, from("b", &["element"]));
        assert_eq!(third, from("a", &["two"]));
    }
}

#[test]
fn a_client_that_leaves_is_removed_from_the_queues_of_all_its_keys() {
    let (server, mut client) = Server::with_client(&[]);
    let line = "DEHYDRATOR.MPOLL 3 a b c BLOCK 0";
    let killed = Sleeper::start(&server, line);
    let unblocked = Sleeper::start(&server, line);
    let refused = Sleeper::start(&server, line);
    let mut hung_up = server.connect();
    hung_up.send_packed_command(&cmd(line).get_packed_command()).expect("it is sent");
    until("four are asleep", || (waiters(&server) == 4).then_some(()));
    let start = Instant::now();
    let in_time = Sleeper::start(&server, "DEHYDRATOR.MPOLL 3 a b c BLOCK 100");
    let last = Sleeper::start(&server, line);
    client.ask(&format!("CLIENT KILL ID {}", killed.id));
    client.ask(&format!("CLIENT UNBLOCK {}", unblocked.id));
    client.ask(&format!("CLIENT UNBLOCK {} ERROR", refused.id));
    drop(hung_up);
    killed.error();
    assert_eq!(unblocked.reply(), Value::Nil);
    assert!(refused.error().contains("UNBLOCKED"));
    let (reply, after) = in_time.reply_after(start);
    assert_eq!(reply, Value::Nil);
    assert!(after >= Duration::from_millis(100), "{after:?}");
    until("one is left", || (waiters(&server) == 1).then_some(()));
    client.ask("DEHYDRATOR.PUSH b 0 element id");
    assert_eq!(last.reply(), from("b", &["element"]));
    for key in ["a", "b", "c"] {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element id"));
        assert_eq!(client.ask(&format!("DEHYDRATOR.POLL {key} BLOCK 0")), texts(&["element"]));
    }
}

#[test]
fn elements_taken_for_a_killed_client_go_to_the_next() {
    let (server, mut client) = Server::with_client(&[]);
    for round in 0..100 {
        let first = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 a b BLOCK 0");
        let second = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 b a BLOCK 0");
        let key = if round % 2 == 0 { "a" } else { "b" };
        let mut pipe = redis::pipe();
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(round / 2 % 2).arg(round).arg(round);
        pipe.cmd("CLIENT").arg("KILL").arg("ID").arg(first.id);
        pipe.ignore_errors();
        let _: Vec<Value> = pipe.query(&mut client).expect("replies");
        let expected = from(key, &[&round.to_string()]);
        if let Ok(reply) = first.outcome() {
            // The delivery was faster than the kill: then the second client waits for the next element.
            assert_eq!(reply, expected);
            client.ask(&format!("DEHYDRATOR.PUSH {key} 0 {round} {round}"));
        }
        assert_eq!(second.reply(), expected);
        assert_eq!(client.ask("DBSIZE"), Value::Int(0));
    }
}

#[test]
fn a_client_wakes_for_a_due_element_whatever_happened_to_its_keys() {
    let (server, mut client) = Server::with_client(&[]);
    let tick = |server: &Server| {
        let ticks = server.info("dehydrator", "dehydrator_ticks");
        until("the tick has come by", || {
            (server.info("dehydrator", "dehydrator_ticks") > ticks + 1).then_some(())
        });
    };
    client.ask("DEHYDRATOR.PUSH a 600000 element id");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 a b BLOCK 0");
    for line in ["RENAME a elsewhere", "SET a text", "DEL a", "SET b text", "DEBUG RELOAD"] {
        client.ask(line);
        tick(&server);
        assert_eq!(waiters(&server), 1, "after {line}");
    }
    client.ask("DEHYDRATOR.TOUCH elsewhere 0 id");
    client.ask("RENAME elsewhere b");
    assert_eq!(sleeper.reply(), from("b", &["element"]));

    let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 a b BLOCK 0");
    client.ask("SELECT 1");
    client.ask("DEHYDRATOR.PUSH b 0 element id");
    tick(&server);
    assert_eq!(waiters(&server), 1, "that is another database's key");
    client.ask("MOVE b 0");
    assert_eq!(sleeper.reply(), from("b", &["element"]));
}

#[test]
fn a_server_that_becomes_a_replica_unblocks_them() {
    let primary = Server::start_with_port(&[]);
    let server = Server::start_with_port(&[]);
    let sleepers = ["a b", "b a"]
        .map(|keys| Sleeper::start(&server, &format!("DEHYDRATOR.MPOLL 2 {keys} BLOCK 0")));
    server.connect().ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    for sleeper in sleepers {
        assert!(sleeper.error().contains("UNBLOCKED"));
    }
    assert_eq!(waiters(&server), 0);
}

#[test]
fn nobody_wakes_while_writes_are_refused() {
    let (server, mut client) = Server::with_client(&[]);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 a b BLOCK 0");
    client.ask("DEHYDRATOR.PUSH a 600000 a id");
    client.ask("DEHYDRATOR.PUSH b 600 b id");
    client.ask("CONFIG SET min-replicas-to-write 1");
    until("it is due", || (client.ask("DEHYDRATOR.TTN b") == Value::Int(0)).then_some(()));
    let ticks = server.info("dehydrator", "dehydrator_ticks");
    until("some time has passed", || {
        (server.info("dehydrator", "dehydrator_ticks") > ticks + 3).then_some(())
    });
    assert!(!sleeper.is_awake());
    assert_eq!(client.ask("DEHYDRATOR.LEN b"), Value::Int(1));
    client.ask("CONFIG SET min-replicas-to-write 0");
    assert_eq!(sleeper.reply(), from("b", &["b"]));
}

#[test]
fn in_a_crowd_every_element_is_delivered_once_and_from_its_own_key() {
    const PUSHED: usize = 6000;
    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
    let server = Server::start(&[]);
    let given = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (mut client, given) = (server.connect(), &given);
            scope.spawn(move || {
                // Each with another order, and some with few keys.
                let mut keys = KEYS;
                keys.rotate_left(number % 5);
                if number % 2 == 0 {
                    keys.reverse();
                }
                let keys = &keys[..1 + number % 5];
                let block = if number % 3 == 0 { 3 } else { 100 };
                let mpoll =
                    format!("MPOLL {} {} COUNT 2 BLOCK {block}", keys.len(), keys.join(" "));
                loop {
                    match client.ask(&format!("DEHYDRATOR.{mpoll}")) {
                        Value::Nil => {
                            if given.lock().expect("no panic").len() == PUSHED {
                                return;
                            }
                        }
                        reply => {
                            let (key, elements): (String, Vec<String>) =
                                redis::from_redis_value(reply).expect("a pair");
                            assert!(!elements.is_empty() && elements.len() <= 2, "{elements:?}");
                            assert!(keys.contains(&key.as_str()), "{key} was not asked for");
                            let elements = elements.into_iter().map(|it| (key.clone(), it));
                            given.lock().expect("no panic").extend(elements);
                        }
                    }
                }
            });
        }
        let mut client = server.connect();
        for batch in 0..PUSHED / 20 {
            let mut pipe = redis::pipe();
            if batch % 2 == 0 {
                pipe.atomic();
            }
            for number in batch * 20..(batch + 1) * 20 {
                let key = KEYS[number * 7 / 3 % 5];
                let id = format!("{key}-{number}");
                let push = pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(number % 4);
                push.arg(&id).arg(&id).ignore();
            }
            pipe.exec(&mut client).expect("pushes");
        }
        until("all are given", || (given.lock().expect("no panic").len() >= PUSHED).then_some(()));
    });
    let given = given.into_inner().expect("no panic");
    assert_eq!(given.len(), PUSHED);
    for (key, element) in &given {
        assert!(element.starts_with(key), "{element} was given by {key}");
    }
    let once: HashSet<_> = given.iter().map(|(_, element)| element).collect();
    assert_eq!(once.len(), PUSHED, "something was given twice");
    assert_eq!((waiters(&server), server.connect().ask("DBSIZE")), (0, Value::Int(0)));
}

#[test]
fn a_thousand_clients_blocked_on_the_same_hundred_keys_do_not_slow_a_write() {
    let (server, mut client) = Server::with_client(&["--maxclients", "3000"]);
    let (asleep, keys) = (1000, 100);
    let names: Vec<_> = (0..keys).map(|key| format!("k{key}")).collect();
    let line = format!("DEHYDRATOR.MPOLL {keys} {} BLOCK 0 COUNT 1", names.join(" "));
    let mpoll = cmd(&line).get_packed_command();
    let mut sleepers: Vec<_> = (0..asleep).map(|_| server.connect()).collect();
    for (before, sleeper) in (0..).zip(&mut sleepers) {
        sleeper.send_packed_command(&mpoll).expect("it is sent");
        until("it is asleep", || {
            (client.info("dehydrator", "dehydrator_blocked_clients") == before + 1).then_some(())
        });
    }

    // A write that wakes nobody.
    let count = 10_000;
    let writes = |client: &mut Connection, prefix: &str| {
        let mut pipe = redis::pipe();
        for id in 0..count {
            let key = format!("{prefix}{}", id % keys);
            pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000).arg("element").arg(id).ignore();
        }
        let before = cpu_us(client);
        pipe.exec(client).expect("pushes");
        (cpu_us(client) - before) / count as f64
    };
    let [watched, unwatched] = ["k", "other"].map(|prefix| writes(&mut client, prefix));
    eprintln!("{watched:.1} us for a write to a watched key, {unwatched:.1} us to another");
    assert!(watched < 30.0, "{watched} us of the server's time for each write");

    // A write that wakes the first client, which leaves ninety-nine queues.
    let woken = 500;
    let before = cpu_us(&mut client);
    for (number, sleeper) in sleepers.iter_mut().enumerate().take(woken) {
        let key = &names[number * 37 % keys];
        let push = format!("DEHYDRATOR.PUSH {key} 0 {number} now-{number}");
        client.ask(&push);
        let reply = sleeper.recv_response().expect("a reply");
        assert_eq!(reply, from(key, &[&number.to_string()]));
    }
    let each = (cpu_us(&mut client) - before) / woken as f64;
    eprintln!("{each:.0} us for a write that wakes one");
    assert!(each < 400.0, "{each} us of the server's time for each element");
    assert_eq!(waiters(&server), (asleep - woken) as u64);

    // All of them at once.
    let mut pipe = redis::pipe();
    for number in 0..asleep - woken {
        let (key, id) = (&names[number % keys], format!("all-{number}"));
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(0).arg(&id).arg(&id).ignore();
    }
    let before = cpu_us(&mut client);
    pipe.exec(&mut client).expect("pushes");
    let mut given = HashSet::new();
    for sleeper in &mut sleepers[woken..] {
        let reply = sleeper.recv_response().expect("a reply");
        let (_, elements): (String, Vec<String>) = redis::from_redis_value(reply).expect("a pair");
        assert!(given.insert(elements[0].clone()), "{elements:?} was given twice");
    }
    let each = (cpu_us(&mut client) - before) / (asleep - woken) as f64;
    eprintln!("{each:.0} us each, for five hundred at once");
    assert!(each < 400.0, "{each} us of the server's time for each element");
    assert_eq!((waiters(&server), given.len()), (0, asleep - woken));
}
