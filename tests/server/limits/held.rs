//! HELD: the maximum number of running leases.

use std::time::{Duration, Instant};

use redis::{Connection, Value};

use super::{field, ids, wait_for_ticks};
use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, texts, until};

const LEASE: &str = "LEASE 600000 TOKEN";

#[test]
fn no_more_are_leased_than_the_limit_allows() {
    for small_max in ["0", "32"] {
        let (_server, mut client) =
            Server::with_client(&["--dehydrator.small-max-elements", small_max]);
        client.ask("DEHYDRATOR.LIMIT k HELD 3");
        client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b 0 x c 0 x d 0 x e 0 x f 0 x g");
        let first = client.ask("DEHYDRATOR.POLL k COUNT 2 LEASE 600000 TOKEN one");
        assert_eq!(ids(&first), ["a", "b"]);
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN two")), ["c"]);
        assert_eq!(field(&mut client, "k", "running"), Value::Int(3));
        for options in ["", " COUNT 5", " LEASE 5", " WITHIDS", " LEASE 5 TOKEN three"] {
            assert_eq!(client.ask(&format!("DEHYDRATOR.POLL k{options}")), texts(&[]), "{options}");
        }
        assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 20"), Value::Array(vec![]));
        assert_eq!(client.ask("DEHYDRATOR.MPOLL 1 k"), Value::Nil);
        client.ask("DEHYDRATOR.PUSH other 0 x o");
        assert_eq!(
            client.ask("DEHYDRATOR.MPOLL 2 k other"),
            Value::Array(vec![text("other"), texts(&["x"])])
        );
        let mut eval = redis::cmd("EVAL");
        eval.arg("return redis.call('DEHYDRATOR.POLL', KEYS[1], 'BLOCK', 0)").arg(1).arg("k");
        assert_eq!(eval.query(&mut client), Ok(texts(&[])));
        // Resent commands get the same replies as before.
        let again = client.ask("DEHYDRATOR.POLL k COUNT 2 LEASE 600000 TOKEN one");
        assert_eq!(again, first);
        // Running leases can be renewed; a tool can lease with LEASE beyond the limit.
        assert_eq!(
            client.ask("DEHYDRATOR.RENEW k 600000 one a"),
            Value::Array(vec![Value::Int(1)])
        );
        assert_eq!(client.ask("DEHYDRATOR.EFFECT k L5@99999999999999@7 g"), Value::Int(1));
        client.ask("DEHYDRATOR.SETTLE k one a");
        assert_eq!(client.ask("DEHYDRATOR.POLL k LEASE 5"), texts(&[]), "as many as allowed");
        client.ask("DEHYDRATOR.REM k g");
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000")), ["d"]);
        // Without a lease, POLL takes up to the remaining limit, and holds nothing.
        client.ask("DEHYDRATOR.SETTLE k one b");
        for _ in ["e", "f"] {
            assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["x"]));
        }
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(2));
    }
}

#[test]
fn blocked_clients_wake_in_order_when_capacity_is_free() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k HELD 1");
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 2 DROP");
    let ways = [
        "DEHYDRATOR.SETTLE k me ID",
        "DEHYDRATOR.RENEW k 0 me ID",
        "DEHYDRATOR.REM k ID",
        "DEHYDRATOR.PULL k ID",
        "DEHYDRATOR.XACK k ID",
        "DEHYDRATOR.TOUCH k 0 ID",
        "DEHYDRATOR.PUSH k 600000 x ID REPLACE",
        "DEHYDRATOR.LIMIT k HELD 2",
        "DEHYDRATOR.TOUCH k 30 AT 1 ID",
    ];
    for (number, way) in ways.into_iter().enumerate() {
        client.ask("DEHYDRATOR.LIMIT k HELD 1");
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x a{number}"));
        let held = client.ask(&format!("DEHYDRATOR.POLL k {LEASE} me"));
        assert_eq!(ids(&held), [format!("a{number}")], "{way}");
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x b{number}"));
        let line = format!("DEHYDRATOR.POLL k BLOCK 0 COUNT 1 {LEASE}");
        let first = Sleeper::start(&server, &format!("{line} first"));
        let second = Sleeper::start(&server, &format!("{line} second"));
        wait_for_ticks(&server);
        assert!(!first.is_awake() && !second.is_awake(), "{way}");
        client.ask("CONFIG RESETSTAT");
        let start = Instant::now();
        client.ask(&way.replace("ID", &format!("a{number}")));
        let (reply, _) = first.reply_after(start);
        let took = start.elapsed().as_micros() as u64;
        let late = server.info("dehydrator", "dehydrator_lateness_max_us");
        assert!(late <= took, "{way}: {late} us late, {took} us after there was room");
        assert_eq!(ids(&reply).len(), 1, "{way}");
        assert_eq!(waiters(&server), 1, "{way}");
        client.ask("DEL k");
        client.ask("DEHYDRATOR.PUSH k 0 x end");
        assert_eq!(ids(&second.reply()), ["end"]);
        client.ask("DEL k");
        client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 2 DROP");
    }
}

#[test]
fn an_expired_lease_frees_capacity_at_that_moment() {
    for small_max in ["0", "32"] {
        let (server, mut client) =
            Server::with_client(&["--dehydrator.small-max-elements", small_max]);
        client.ask("DEHYDRATOR.LIMIT k HELD 2");
        client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b 0 x c 0 x d");
        let start = Instant::now();
        client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 1500");
        client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 600000");
        let sleepers = ["one", "two"].map(|token| {
            Sleeper::start(&server, &format!("DEHYDRATOR.POLL k BLOCK 0 COUNT 1 {LEASE} {token}"))
        });
        let [one, two] = sleepers;
        let (reply, after) = one.reply_after(start);
        assert_eq!(ids(&reply), ["c"]);
        assert!(after >= Duration::from_millis(1499), "{after:?}");
        assert_eq!(waiters(&server), 1);
        // Expired elements are due again, after those that came before.
        client.ask("DEHYDRATOR.SETTLE k one c");
        assert_eq!(ids(&two.reply()), ["d"]);
        client.ask("DEHYDRATOR.SETTLE k two d");
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000")), ["a"]);
    }
}

#[test]
fn dead_letters_that_cannot_be_moved_use_no_capacity() {
    for small_max in ["0", "32"] {
        let (_server, mut client) =
            Server::with_client(&["--dehydrator.small-max-elements", small_max]);
        client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
        client.ask("SET s text");
        client.ask("DEHYDRATOR.LIMIT k HELD 2");
        client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b");
        client.ask("DEHYDRATOR.POLL k LEASE 1");
        until("two cannot go", || {
            let letters = ["a", "b"].map(|id| client.ask(&format!("DEHYDRATOR.PTTL k {id}")));
            (letters == [Value::Int(-1), Value::Int(-1)]).then_some(())
        });
        client.ask("DEHYDRATOR.PUSH k 0 x c");
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000")), ["c"]);
        // Nor do they free any when they are moved.
        client.ask("DEHYDRATOR.PUSH k 0 x d");
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000")), ["d"]);
        assert_eq!(client.ask("DEHYDRATOR.REM k a b"), Value::Int(2));
        client.ask("DEHYDRATOR.PUSH k 0 x e");
        assert!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000")).is_empty());
    }
}

#[test]
fn a_stuck_dead_letter_is_leased_again_only_within_the_limit() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("SET s text");
    client.ask("DEHYDRATOR.LIMIT k HELD 1");
    for (id, again) in [("a", "RENEW k 60000 a a"), ("b", "TOUCH k 60000 b")] {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id}"));
        client.ask(&format!("DEHYDRATOR.POLL k LEASE 20 TOKEN {id}"));
        until("it is stuck", || {
            (client.ask(&format!("DEHYDRATOR.PTTL k {id}")) == Value::Int(-1)).then_some(())
        });
        client.ask("DEHYDRATOR.PUSH k 0 x runs");
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN runs")), ["runs"]);
        client.ask(&format!("DEHYDRATOR.{again}"));
        assert_eq!(field(&mut client, "k", "running"), Value::Int(1), "{again}");
        client.ask("DEHYDRATOR.SETTLE k runs runs");
        client.ask(&format!("DEHYDRATOR.REM k {id}"));
    }
}

#[test]
fn a_lease_that_never_ends_counts_and_is_no_dead_letter() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k HELD 2");
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b 0 x c 0 x d");
    let never = [
        "TOUCH k 5 AT 9223372036854775807 ID",
        "TOUCH k 9223372036854775807 AT 9223372036854775807 ID",
    ];
    for (id, never) in ["a", "b"].into_iter().zip(never) {
        assert_eq!(ids(&client.ask(&format!("DEHYDRATOR.POLL k COUNT 1 {LEASE} {id}"))), [id]);
        assert_eq!(client.ask(&format!("DEHYDRATOR.{}", never.replace("ID", id))), Value::Int(1));
        let reply = client.ask("DEHYDRATOR.RANGE k 9223372036854775806 + COUNT 9");
        assert!(format!("{reply:?}").contains(&format!("{:?}", text(id))), "{reply:?}");
    }
    assert_eq!(field(&mut client, "k", "running"), Value::Int(2));
    assert_eq!(client.ask("DEHYDRATOR.POLL k LEASE 5"), texts(&[]));
    assert_eq!(client.ask("XLEN s"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k a a"), Value::Array(vec![Value::Int(1)]));
    assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000")), ["c"]);
    // The timer of a stuck dead letter is the module's own.
    client.ask("DEHYDRATOR.PUSH k 5 x e AT 9223372036854775807");
    let full = format!("{:?}", client.ask("DEHYDRATOR.LOOK k e FULL"));
    assert!(full.contains("9223372036854775806"), "{full}");
}

#[test]
fn an_expired_lease_does_not_restart_beyond_the_limit() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k HELD 1");
    client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b");
    client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 1 TOKEN late");
    let polled = || Some(server.connect().ask("DEHYDRATOR.POLL k LEASE 600000 COUNT 1 TOKEN now"));
    let is_some = |reply: &Value| *reply != texts(&[]);
    assert_eq!(ids(&until("there is room", || polled().filter(is_some))), ["b"]);
    let renewed = |client: &mut redis::Connection| {
        let reply: Vec<u8> = cmd("DEHYDRATOR.RENEW k 600000 late a").query(client).expect("one");
        reply[0]
    };
    assert_eq!(renewed(&mut client), 0);
    assert_eq!(field(&mut client, "k", "running"), Value::Int(1));
    client.ask("DEHYDRATOR.SETTLE k now b");
    assert_eq!(renewed(&mut client), 1);
    assert_eq!(field(&mut client, "k", "running"), Value::Int(1));
    // Setting its deadline does not restart it either: the lease has ended.
    client.ask("DEHYDRATOR.RENEW k 1 late a");
    until("it runs no more", || {
        (field(&mut client, "k", "running") == Value::Int(0)).then_some(())
    });
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k 600000 a"), Value::Int(1));
    assert_eq!(field(&mut client, "k", "running"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k late a"), Value::Array(vec![Value::Int(0)]));
    // A running lease can be postponed, and continues.
    client.ask("DEHYDRATOR.PUSH k 0 x c");
    client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN runs");
    client.ask("DEHYDRATOR.TOUCH k 700000 c");
    assert_eq!(field(&mut client, "k", "running"), Value::Int(1));
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k runs c"), Value::Array(vec![Value::Int(1)]));
}

#[test]
fn clients_that_leave_while_blocked_or_woken_use_no_capacity() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k HELD 1");
    client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b");
    client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 600000 TOKEN me");
    let gone = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000");
    let there = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 600000 TOKEN you");
    let list = client.ask("CLIENT LIST");
    let Value::BulkString(list) = list else { panic!("text") };
    let list = String::from_utf8(list).expect("text");
    let blocked =
        list.lines().find(|line| line.contains("cmd=dehydrator.poll") && line.contains("flags=b"));
    let id = blocked.expect("one is blocked").split(' ').next().expect("an id").replace("id=", "");
    // At once: it is killed when it is its turn.
    let mut pipe = redis::pipe();
    pipe.add_command(cmd("DEHYDRATOR.SETTLE k me a"))
        .add_command(cmd(&format!("CLIENT KILL ID {id}")));
    let _: Vec<Value> = pipe.query(&mut client).expect("replies");
    assert!(gone.outcome().is_err());
    assert_eq!(ids(&there.reply()), ["b"]);
    assert_eq!(field(&mut client, "k", "running"), Value::Int(1));
}

#[test]
fn a_client_of_several_keys_gets_an_element_of_a_key_with_capacity() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT limited HELD 1");
    client.ask("DEHYDRATOR.MPUSH limited 0 x a 0 x b");
    client.ask("DEHYDRATOR.POLL limited COUNT 1 LEASE 600000 TOKEN me");
    let line = "DEHYDRATOR.MPOLL 2 limited free BLOCK 0 COUNT 1 LEASE 600000 TOKEN";
    let first = Sleeper::start(&server, &format!("{line} first"));
    let second = Sleeper::start(&server, &format!("{line} second"));
    client.ask("DEHYDRATOR.PUSH free 0 x f");
    let from = |reply: Value| match reply {
        Value::Array(parts) => parts[0].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(from(first.reply()), text("free"));
    assert_eq!(waiters(&server), 1);
    client.ask("DEHYDRATOR.SETTLE limited me a");
    assert_eq!(from(second.reply()), text("limited"));
}

/// Stores elements and leases all of them: ten for long, the others for a millisecond.
fn lease_many(client: &mut Connection, count: usize) {
    let mut push = redis::cmd("DEHYDRATOR.MPUSH");
    push.arg("k");
    (0..count).for_each(|id| {
        push.arg(0).arg("x").arg(id);
    });
    let _: Value = push.query(client).expect("numbers");
    client.ask(&format!("DEHYDRATOR.POLL k COUNT {} LEASE 1", count - 10));
    client.ask("DEHYDRATOR.POLL k COUNT 10 LEASE 600000");
}

#[test]
fn a_limit_set_over_many_leases_knows_which_run_whatever_happens_to_the_key() {
    let mut server = Server::start(&[]);
    for (bring, db, name) in [
        ("PERSIST k", 0, "k"),
        ("RENAME k other", 0, "other"),
        ("MOVE k 1", 1, "k"),
        ("SWAPDB 0 1", 1, "k"),
        ("COPY k other", 0, "other"),
    ] {
        let mut client = server.connect();
        lease_many(&mut client, 30_000);
        until("the short leases have run out", || {
            (field(&mut client, "k", "due") == Value::Int(29_990)).then_some(())
        });
        client.ask("DEHYDRATOR.LIMIT k HELD 12");
        assert_eq!(field(&mut client, "k", "running"), Value::Int(10), "{bring}");
        client.ask(bring);
        client.ask(&format!("SELECT {db}"));
        assert_eq!(field(&mut client, name, "running"), Value::Int(10), "{bring}");
        let given = client.ask(&format!("DEHYDRATOR.POLL {name} BLOCK 0 COUNT 1000 LEASE 600000"));
        assert_eq!(ids(&given).len(), 2, "{bring}");
        assert_eq!(field(&mut client, name, "running"), Value::Int(12), "{bring}");
        assert_eq!(client.ask(&format!("DEHYDRATOR.POLL {name}")), texts(&[]), "{bring}");
        client.ask(&format!("DEHYDRATOR.LIMIT {name} HELD 0"));
        let given = client.ask(&format!("DEHYDRATOR.POLL {name} COUNT 20 LEASE 600000"));
        assert_eq!(ids(&given).len(), 20, "{bring}");
        server.restart();
    }
}

#[test]
fn under_a_lower_limit_the_next_element_waits_for_the_lease_that_makes_room() {
    for small_max in ["0", "32"] {
        let (_server, mut client) =
            Server::with_client(&["--dehydrator.small-max-elements", small_max]);
        client.ask("DEHYDRATOR.MPUSH k 0 x a 0 x b 0 x c 0 x d");
        for (id, ms) in [("a", 600_000), ("b", 60_000), ("c", 300_000)] {
            let reply = client.ask(&format!("DEHYDRATOR.POLL k COUNT 1 LEASE {ms} TOKEN t-{id}"));
            assert_eq!(ids(&reply), [id]);
        }
        for (held, most) in [(1, 600_000), (2, 300_000), (3, 60_000)] {
            client.ask(&format!("DEHYDRATOR.LIMIT k HELD {held}"));
            let Value::Int(ms) = client.ask("DEHYDRATOR.TTN k") else { panic!("no number") };
            assert!((most - 20_000..=most).contains(&ms), "HELD {held}: {ms} of {most} ms");
        }
        client.ask("DEHYDRATOR.LIMIT k HELD 4");
        assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Int(0));
    }
}
