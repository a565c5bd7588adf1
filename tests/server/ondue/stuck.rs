//! Failing deliveries are visible to operators.

use std::collections::HashMap;

use redis::{Connection, Value};

use super::{arrived, field};
use harness::{Ask, Server, cmd, until};

/// Returns the number of consecutive failures, since when, and the reason.
fn failures(client: &mut Connection, key: &str) -> (i64, Value, Value) {
    let mut info: HashMap<String, Value> =
        cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    let mut of = |name: &str| info.remove(name).unwrap_or_else(|| panic!("no {name}"));
    let Value::Int(count) = of("failures") else { panic!("a number") };
    (count, of("failing-since"), of("last-failure"))
}

const NONE: (i64, Value, Value) = (0, Value::Nil, Value::Nil);

#[test]
fn a_failure_is_reported_until_it_is_fixed() {
    let (server, mut client) = Server::with_client(&[]);
    for key in ["a", "b", "c"] {
        client.ask(&format!("DEHYDRATOR.ONDUE {key} STREAM {key}-s"));
        assert_eq!(failures(&mut client, key), NONE);
    }
    assert_eq!(failures(&mut client, "nowhere"), NONE);
    assert_eq!(field(&server, "failing"), 0);
    let time: Vec<i64> = cmd("TIME").query(&mut client).expect("the time");
    for key in ["a", "b"] {
        client.ask(&format!("SET {key}-s text"));
    }
    for key in ["a", "b", "c"] {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 5 element id"));
    }
    arrived(&mut client, "c-s", 1);
    until("both fail again and again", || {
        let both = ["a", "b"].map(|key| failures(&mut client, key).0 >= 3);
        (both == [true; 2]).then_some(())
    });
    assert_eq!(field(&server, "failing"), 2);
    assert_eq!(failures(&mut client, "c"), NONE);
    let (count, since, last) = failures(&mut client, "a");
    let Value::Int(since) = since else { panic!("{since:?}") };
    assert!((time[0] * 1000..(time[0] + 60) * 1000).contains(&since), "{since}");
    let last: String = redis::from_redis_value(last).expect("text");
    assert!(last.contains("WRONGTYPE"), "{last}");
    // The count goes up; the beginning stays.
    until("it has failed again", || (failures(&mut client, "a").0 > count).then_some(()));
    assert_eq!(failures(&mut client, "a").1, Value::Int(since));

    // One is fixed at its stream, one by another policy.
    client.ask("DEL a-s");
    arrived(&mut client, "a-s", 1);
    assert_eq!(failures(&mut client, "a"), NONE);
    assert_eq!(field(&server, "failing"), 1);
    client.ask("DEHYDRATOR.ONDUE b HOLD");
    assert_eq!(failures(&mut client, "b"), NONE);
    assert_eq!(field(&server, "failing"), 0);
}

#[test]
fn a_deleted_stuck_key_is_no_longer_reported() {
    let (server, mut client) = Server::with_client(&[]);
    for away in ["DEL k", "FLUSHALL", "DEHYDRATOR.PULL k id"] {
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("SET s text");
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        until("it fails", || (field(&server, "failing") == 1).then_some(()));
        client.ask(away);
        until("it is forgotten", || (field(&server, "failing") == 0).then_some(()));
        client.ask("FLUSHALL");
    }
}

#[test]
fn a_policy_whose_stream_has_another_type_is_refused() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("SET taken text");
    client.ask("DEHYDRATOR.PUSH dehydrator 600000 element id");
    for dest in ["taken", "dehydrator"] {
        for line in ["", " MAXLEN 5"] {
            let error = client.refused(&format!("DEHYDRATOR.ONDUE k STREAM {dest}{line}"));
            assert!(error.starts_with("WRONGTYPE") || error.starts_with("ERR"), "{error}");
            assert!(error.contains(dest), "{error}");
        }
    }
    assert!(!client.exists("k"));
    // A stream, and a missing key.
    client.ask("XADD s * a b");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.ONDUE k STREAM later");
    client.ask("SET later text");
    // A refused command changes nothing.
    let digest = client.digest("k");
    client.refused("DEHYDRATOR.ONDUE k STREAM taken");
    assert_eq!(client.digest("k"), digest);
}

#[test]
fn a_stuck_key_does_not_wait_for_the_backlog_of_another() {
    const BACKLOG: u64 = 200_000;
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE stuck STREAM s");
    client.ask("SET s text");
    client.ask("DEHYDRATOR.PUSH stuck 0 element id");
    until("it fails", || (field(&server, "failing") == 1).then_some(()));
    // In one transaction, so that both can be delivered from the same moment on.
    let script = "for i = 1, ARGV[1] do redis.call('DEHYDRATOR.PUSH', KEYS[1], 0, 'element', i) end \
                  redis.call('DEHYDRATOR.ONDUE', KEYS[1], 'STREAM', KEYS[2]) \
                  redis.call('DEL', KEYS[3])";
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(3).arg("backlog").arg("other").arg("s").arg(BACKLOG);
    eval.exec(&mut client).expect("OK");
    arrived(&mut client, "s", 1);
    let Value::Int(left) = client.ask("DEHYDRATOR.LEN backlog") else { panic!("a number") };
    assert!(left > 0, "the backlog came first");
}

/// As many as after an outage: they are parked once, and from then on nothing is written or replicated.
#[test]
fn fifty_thousand_stuck_dead_letters_write_nothing_while_stuck() {
    const MANY: usize = 50_000;
    let (server, mut client) = Server::with_client(&["--appendonly", "yes"]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
    client.ask("SET s text");
    for ids in (0..MANY).collect::<Vec<_>>().chunks(1000) {
        let mut pipe = redis::pipe();
        for id in ids {
            pipe.add_command(cmd(&format!("DEHYDRATOR.EFFECT k P5@5,delivered=1 element {id}")));
        }
        pipe.exec(&mut client).expect("pushes");
    }
    let stuck = |client: &mut Connection| {
        let counts = client.ask("DEHYDRATOR.XPOLL k COUNT 1");
        (counts == Value::Array(vec![])).then_some(())
    };
    until("all are put aside", || stuck(&mut client));
    let sizes = |client: &mut Connection| {
        let file = client.info("persistence", "aof_current_size");
        (file, client.info("replication", "master_repl_offset"))
    };
    let before = sizes(&mut client);
    let tried = field(&server, "retries");
    until("it is tried again and again", || (field(&server, "retries") > tried + 4).then_some(()));
    assert_eq!(sizes(&mut client), before);
    client.ask("DEL s");
    let many = Value::Int(MANY as i64);
    until("all have gone", || (client.ask("XLEN s") == many).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
}
