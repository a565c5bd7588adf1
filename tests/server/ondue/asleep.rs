//! Clients that wait for a key whose elements are delivered elsewhere.

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, texts, until};

const POLICIES: [&str; 3] = ["DROP", "STREAM s", "PUBLISH channel"];

fn is_told_of_the_policy(error: &str) {
    // The client library takes the first word for an error code.
    assert!(error.contains("UNBLOCKED"), "{error}");
    assert!(error.contains("ONDUE"), "{error}");
}

#[test]
fn blocking_on_a_key_with_a_policy_is_an_error() {
    let (server, mut client) = Server::with_client(&[]);
    for policy in POLICIES {
        client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
        for options in ["BLOCK 0", "BLOCK 50", "BLOCK 0 LEASE 5 COUNT 1"] {
            let error = client.refused(&format!("DEHYDRATOR.POLL k {options}"));
            assert!(error.starts_with("ERR ") && error.contains("ONDUE"), "{error}");
        }
        assert_eq!(waiters(&server), 0);
        // Where nobody can block, BLOCK is ignored.
        assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&[]));
        client.ask("MULTI");
        client.ask("DEHYDRATOR.POLL k BLOCK 0");
        assert_eq!(client.ask("EXEC"), Value::Array(vec![texts(&[])]));
        let mut eval = redis::cmd("EVAL");
        eval.arg("return redis.call('DEHYDRATOR.POLL', KEYS[1], 'BLOCK', 0)").arg(1).arg("k");
        assert_eq!(eval.query(&mut client), Ok(texts(&[])));
    }
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    assert_eq!(sleeper.reply(), texts(&["element"]));
}

#[test]
fn a_client_is_unblocked_with_an_error_when_a_policy_is_set() {
    let (server, mut client) = Server::with_client(&[]);
    for policy in POLICIES {
        let asleep = [(); 3].map(|()| Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0"));
        let other = Sleeper::start(&server, "DEHYDRATOR.POLL other BLOCK 0");
        client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
        asleep.into_iter().for_each(|sleeper| is_told_of_the_policy(&sleeper.error()));
        assert_eq!(waiters(&server), 1, "a client of another key stays blocked");
        client.ask("DEHYDRATOR.PUSH other 0 element id");
        assert_eq!(other.reply(), texts(&["element"]));
        client.ask("DEL k");
    }
    // HOLD is the default anyway.
    for before in ["", "DEHYDRATOR.PUSH k 600000 element id"] {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        if !before.is_empty() {
            client.ask(before);
        }
        client.ask("DEHYDRATOR.ONDUE k HOLD");
        let ticks = server.info("dehydrator", "dehydrator_ticks");
        until("a tick has come by", || {
            (server.info("dehydrator", "dehydrator_ticks") > ticks + 2).then_some(())
        });
        assert_eq!(waiters(&server), 1);
        client.ask("DEL k");
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        assert_eq!(sleeper.reply(), texts(&["element"]));
    }
}

#[test]
fn a_client_is_unblocked_with_an_error_when_a_key_with_a_policy_arrives() {
    let (server, mut client) = Server::with_client(&[]);
    let dump_of = |client: &mut Connection, key: &str| -> Vec<u8> {
        cmd(&format!("DUMP {key}")).query(client).expect("a dump")
    };
    for policy in POLICIES {
        for way in ["RENAME", "COPY", "RESTORE"] {
            client.ask("FLUSHALL");
            let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
            client.ask(&format!("DEHYDRATOR.ONDUE bound {policy}"));
            client.ask("DEHYDRATOR.PUSH bound 600000 element id");
            if way == "RESTORE" {
                let dump = dump_of(&mut client, "bound");
                redis::cmd("RESTORE").arg("k").arg(0).arg(dump).exec(&mut client).expect("OK");
            } else {
                client.ask(&format!("{way} bound k"));
            }
            is_told_of_the_policy(&sleeper.error());
            assert_eq!(waiters(&server), 0);
        }
    }
}
