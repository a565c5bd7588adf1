//! The event `dehydrator.due`.

use std::time::Duration;

use redis::{Connection, PubSub, Value};

use super::field;
use harness::{Ask, Server, cmd, until};

/// How long to listen for an event at a time.
const LISTEN: Duration = Duration::from_secs(1);

fn events_of(client: &mut Connection, classes: &str) {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("notify-keyspace-events").arg(classes).exec(client).expect("OK");
}

#[test]
fn one_event_announces_that_something_is_due() {
    let (mut server, mut client) =
        Server::with_client(&["--notify-keyspace-events", "Ed", "--save", "3600 1"]);
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
    // Two come due, one after the other: the second is not announced.
    client.ask("DEHYDRATOR.PUSH k 600 element a");
    client.ask("DEHYDRATOR.PUSH k 900 element b");
    due(&mut client, 2);
    client.ask("DEHYDRATOR.POLL k COUNT 2");
    client.ask("DEHYDRATOR.PUSH k 0 element c");
    due(&mut client, 1);
    client.ask("DEHYDRATOR.TOUCH k 50 c");
    due(&mut client, 1);
    client.ask("DEHYDRATOR.POLL k");
    for name in ["push", "push", "due", "poll", "push", "due", "touch", "due", "poll"] {
        let event = events.get_message().expect("an event");
        let (_, found) = event.get_channel_name().split_once(":dehydrator.").expect("a name");
        assert_eq!(found, name);
        assert_eq!(event.get_payload::<String>().expect("a key"), "k");
    }
    drop(events);

    // Keys from before events were turned on are found, including renamed and loaded ones.
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
    until("it is forgotten", || (field(&server, "scheduled") == 0).then_some(()));
}

#[test]
fn events_that_were_off_for_a_while_resume() {
    let (server, mut client) = Server::with_client(&[]);
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

/// Databases that are swapped while the module looks for all dehydrators.
#[test]
fn those_of_a_database_that_is_swapped_meanwhile_are_found() {
    const KEYS: usize = 1000;
    let (server, mut client) = Server::with_client(&[]);
    // A walk over them takes some ticks.
    client.ask("DEBUG POPULATE 200000");
    client.ask("SELECT 1");
    let mut pipe = redis::pipe();
    for key in 0..KEYS {
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(1).arg("element").arg("id").ignore();
    }
    pipe.exec(&mut client).expect("they are pushed");
    let mut ear = server.connect();
    ear.set_read_timeout(Some(LISTEN)).expect("a timeout");
    let mut events = ear.as_pubsub();
    events.psubscribe("__keyevent@*__:dehydrator.due").expect("a subscription");
    let ticks = field(&server, "ticks");
    events_of(&mut client, "Ed");
    until("the walk has begun", || (field(&server, "ticks") > ticks + 2).then_some(()));
    assert_eq!(field(&server, "scheduled"), 0, "the walk is over already");
    client.ask("SWAPDB 0 1");
    let mut heard = std::collections::HashSet::new();
    until("all are announced", || {
        let event = events.get_message().ok()?;
        heard.insert(event.get_payload::<String>().expect("a key"));
        (heard.len() == KEYS).then_some(())
    });
}

/// Waits for an event of `k`. If interrupted, waits again.
fn hear(events: &mut PubSub<'_>, what: &str) {
    let event = until(what, || events.get_message().ok());
    assert_eq!(event.get_payload::<String>().expect("a key"), "k");
}

#[test]
fn an_element_due_during_a_long_reply_is_announced() {
    let (server, mut client) = Server::with_client(&["--notify-keyspace-events", "Ed"]);
    client.ask("CONFIG SET dehydrator.reply-max-bytes 0");
    let mut ear = server.connect();
    ear.set_read_timeout(Some(LISTEN)).expect("a timeout");
    let mut events = ear.as_pubsub();
    events.psubscribe("__keyevent@0__:dehydrator.due").expect("a subscription");
    let happened = (0..10).any(|_| {
        let mut push = redis::cmd("DEHYDRATOR.MPUSH");
        push.arg("k");
        for id in 0..100_000 {
            push.arg(0).arg("element").arg(id);
        }
        push.exec(&mut client).expect("they are pushed");
        hear(&mut events, "what is due");
        // The reply takes longer than that.
        let mut both = redis::pipe();
        both.cmd("DEHYDRATOR.PUSH").arg("k").arg(5).arg("last").arg("last").ignore();
        both.cmd("DEHYDRATOR.POLL").arg("k");
        let (elements,): (Vec<String>,) = both.query(&mut client).expect("elements");
        let is_left = elements.len() == 100_000;
        if is_left {
            hear(&mut events, "what came due meanwhile");
            let left: Vec<String> = cmd("DEHYDRATOR.POLL k").query(&mut client).expect("one");
            assert_eq!(left, ["last"]);
        }
        is_left
    });
    assert!(happened, "the last one was never late for the reply");
}

/// A consumer that takes elements until there are none, and then waits for an event, gets everything, including
/// elements that a limit holds back for a while.
#[test]
fn free_capacity_is_announced() {
    let (server, mut client) = Server::with_client(&["--notify-keyspace-events", "Ed"]);
    let mut ear = server.connect();
    ear.set_read_timeout(Some(LISTEN)).expect("a timeout");
    let mut events = ear.as_pubsub();
    events.psubscribe("__keyevent@0__:dehydrator.due").expect("a subscription");
    let (long, short) = ("DEHYDRATOR.POLL k LEASE 600000", "DEHYDRATOR.POLL k LEASE 300");
    for (limit, rule, poll, settles) in [
        ("RATE 1 PER 300", "HOLD", long, true),
        ("RATE 1 PER 300", "HOLD DELIVERIES 5 DROP", long, true),
        ("HELD 1", "HOLD", long, true),
        ("HELD 1", "HOLD DELIVERIES 5 DROP", long, true),
        // The worker does nothing, and its lease expires.
        ("HELD 1", "HOLD", short, false),
    ] {
        client.ask(&format!("DEHYDRATOR.LIMIT k {limit}"));
        client.ask(&format!("DEHYDRATOR.ONDUE k {rule}"));
        client.ask("DEHYDRATOR.MPUSH k 0 element a 0 element b 0 element c");
        for id in ["a", "b", "c"] {
            hear(&mut events, &format!("{limit}, {id}"));
            // In one transaction, so that no capacity is free in between.
            let mut both = redis::pipe();
            for token in ["one", "two"] {
                both.add_command(cmd(&format!("{poll} TOKEN {id}-{token}")));
            }
            let given: Vec<Vec<Value>> = both.query(&mut client).expect("rows");
            assert_eq!(given.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0], "{limit}, {id}");
            if settles {
                let settle = format!("DEHYDRATOR.SETTLE k {id}-one {id}");
                assert_eq!(client.ask(&settle), Value::Array(vec![Value::Int(1)]));
            }
        }
        client.ask("DEL k");
    }
}
