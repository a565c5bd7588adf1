//! The default policy of keys that have none.

use redis::{Connection, Value};

use super::policy;
use harness::{Ask, Server, cmd, until};

fn set(client: &mut Connection, rules: &str) -> Result<(), String> {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("dehydrator.default-ondue").arg(rules);
    set.exec(client).map_err(|error| error.to_string())
}

fn shown(client: &mut Connection) -> String {
    let pair: Vec<String> =
        cmd("CONFIG GET dehydrator.default-ondue").query(client).expect("a pair");
    pair[1].clone()
}

const RULES: &str = "jobs:* HOLD DELIVERIES 2 STREAM *:dead ; mail DROP ; * HOLD DELIVERIES 9 DROP";

#[test]
fn a_new_key_gets_the_first_matching_rule() {
    let (_server, mut client) = Server::with_client(&[]);
    assert_eq!(shown(&mut client), "");
    client.ask("DEHYDRATOR.PUSH jobs:old 600000 x id");
    set(&mut client, RULES).expect("it is set");
    assert_eq!(shown(&mut client), RULES);
    client.ask("DEHYDRATOR.PUSH jobs:old 600000 x id2");
    assert_eq!(policy(&mut client, "jobs:old"), "HOLD", "it was there");
    for push in ["PUSH % 600000 x a", "MPUSH % 600000 x a 600000 x b", "GIDPUSH % 600000 x"] {
        for (key, expected) in [
            ("jobs:1", "HOLD DELIVERIES 2 STREAM jobs:1:dead"),
            ("mail", "DROP"),
            ("other", "HOLD DELIVERIES 9 DROP"),
        ] {
            client.ask(&format!("DEHYDRATOR.{}", push.replace('%', key)));
            assert_eq!(policy(&mut client, key), expected, "{push}");
            // Lost with its key, and set again.
            client.ask("FLUSHALL");
        }
    }
    for makes in ["LIMIT jobs:1 HELD 5", "PAUSE jobs:1"] {
        client.ask(&format!("DEHYDRATOR.{makes}"));
        assert_eq!(
            policy(&mut client, "jobs:1"),
            "HOLD DELIVERIES 2 STREAM jobs:1:dead",
            "{makes}"
        );
        client.ask("DEL jobs:1");
    }
    // An explicit policy stays.
    client.ask("DEHYDRATOR.ONDUE jobs:1 STREAM mine");
    client.ask("DEHYDRATOR.PUSH jobs:1 600000 x id");
    assert_eq!(policy(&mut client, "jobs:1"), "STREAM mine");
    client.ask("DEHYDRATOR.ONDUE jobs:1 HOLD");
    client.ask("DEHYDRATOR.PUSH jobs:1 600000 x id2");
    assert_eq!(policy(&mut client, "jobs:1"), "HOLD");
    // A command that pushes nothing creates no key.
    client.refused("DEHYDRATOR.PUSH jobs:2 9223372036854775807 x id");
    client.ask("DEHYDRATOR.POLL jobs:2");
    assert!(!client.exists("jobs:2"));
    client.ask("DEHYDRATOR.PUSH jobs:3 600000 x id");
    client.ask("COPY jobs:1 jobs:4");
    assert_eq!(policy(&mut client, "jobs:4"), "HOLD");
    set(&mut client, "").expect("it is taken away");
    client.ask("DEHYDRATOR.PUSH jobs:5 600000 x id");
    assert_eq!(policy(&mut client, "jobs:5"), "HOLD");
}

#[test]
fn dead_letters_go_to_the_stream_even_after_a_flush() {
    let (_server, mut client) = Server::with_client(&[]);
    set(&mut client, RULES).expect("it is set");
    for _ in 0..2 {
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.PUSH jobs:1 0 x poison");
        for _ in 0..2 {
            until("it is delivered", || {
                let reply = client.ask("DEHYDRATOR.POLL jobs:1 LEASE 1");
                matches!(reply, Value::Array(rows) if !rows.is_empty()).then_some(())
            });
        }
        until("it has gone", || (client.ask("XLEN jobs:1:dead") == Value::Int(1)).then_some(()));
        assert_eq!(client.ask("DEHYDRATOR.POLL jobs:1"), Value::Array(vec![]));
    }
}

#[test]
fn invalid_rules_are_refused_and_the_old_ones_stay() {
    let (_server, mut client) = Server::with_client(&[]);
    set(&mut client, RULES).expect("it is set");
    for (rules, why) in [
        ("jobs:*", "default-ondue: jobs:*: what ONDUE says behind its key must follow"),
        ("jobs:* HOLD", "default-ondue: jobs:*: HOLD without DELIVERIES is the default anyway"),
        ("* HOLD DELIVERIES 0 DROP", "DELIVERIES '0' is not a whole number from 1 to 65535"),
        ("* HOLD DELIVERIES 5", "DELIVERIES needs"),
        ("* STREAM", "STREAM needs a value"),
        ("* LIST", "LIST needs a value"),
        ("* STREAM *", "STREAM must not be the dehydrator's own key"),
        ("* STREAM s UNCONFIRMED", "unexpected 'UNCONFIRMED'"),
        ("a DROP ; b NONSENSE", "default-ondue: b: syntax error, unexpected 'NONSENSE'"),
        ("a DROP b", "syntax error, unexpected 'b'"),
    ] {
        let refused = set(&mut client, rules).expect_err(rules);
        assert!(refused.contains(why), "{rules}: {refused}");
        assert_eq!(shown(&mut client), RULES);
    }
    client.ask("DEHYDRATOR.PUSH mail 600000 x id");
    assert_eq!(policy(&mut client, "mail"), "DROP");
    let log = Server::start_in_vain(&["default-ondue", "jobs"], &[]);
    assert!(log.contains("default-ondue: jobs: what ONDUE says"), "{log}");
}

#[test]
fn replicas_and_files_get_it_as_ondue_and_do_not_apply_their_own() {
    let mut primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = Server::start_with_port(&[]);
    let mut client = primary.connect();
    let mut other = replica.connect();
    set(&mut client, RULES).expect("it is set");
    set(&mut other, "* PUBLISH other").expect("it is set");
    replica.follow(&primary);
    client.ask("DEHYDRATOR.PUSH jobs:1 600000 x id");
    client.ask("DEHYDRATOR.MPUSH mail 600000 x id");
    let mut multi = redis::pipe();
    multi.atomic().add_command(cmd("DEHYDRATOR.PUSH other 600000 x id")).ignore();
    multi.exec(&mut client).expect("it is done");
    let keys = ["jobs:1", "mail", "other"];
    for key in keys {
        until("it is there", || {
            (other.ask(&format!("DEHYDRATOR.LEN {key}")) == Value::Int(1)).then_some(())
        });
        until("it is the same", || (client.digest(key) == other.digest(key)).then_some(()));
        assert_eq!(policy(&mut other, key), policy(&mut client, key));
    }
    set(&mut client, "* DROP").expect("it is set");
    let before = keys.map(|key| client.digest(key));
    primary.restart();
    let mut client = primary.connect();
    assert_eq!(keys.map(|key| client.digest(key)), before);
    set(&mut client, "* DROP").expect("it is set");
    client.ask("DEBUG LOADAOF");
    assert_eq!(keys.map(|key| client.digest(key)), before);
}

#[test]
fn in_a_cluster_the_destination_of_a_rule_is_in_the_slot_of_the_key() {
    let server = Server::start_with_port(&["--cluster-enabled", "yes"]);
    let mut client = server.connect();
    client.ask("CLUSTER ADDSLOTSRANGE 0 16383");
    until("it serves", || (client.info("cluster", "cluster_enabled") == 1).then_some(()));
    until("it is up", || {
        let info: String = cmd("CLUSTER INFO").query(&mut client).expect("text");
        info.contains("cluster_state:ok").then_some(())
    });
    let refused = set(&mut client, "* STREAM dead").expect_err("it is elsewhere");
    assert!(refused.contains("to be in the key's slot"), "{refused}");
    set(&mut client, "* LIST dead").expect_err("it is elsewhere");
    set(&mut client, "* HOLD DELIVERIES 1 STREAM *:dead").expect("it is set");
    for (key, dest) in
        [("jobs", "{jobs}:dead"), ("{jobs}:1", "{jobs}:1:dead"), ("a{b}c", "a{b}c:dead")]
    {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 600000 x id"));
        assert_eq!(policy(&mut client, key), format!("HOLD DELIVERIES 1 STREAM {dest}"));
        let slot =
            |client: &mut Connection, key: &str| client.ask(&format!("CLUSTER KEYSLOT {key}"));
        assert_eq!(slot(&mut client, key), slot(&mut client, dest));
    }
    // No name that contains this one is in its slot.
    client.ask("DEHYDRATOR.PUSH {}a 600000 x id");
    assert_eq!(policy(&mut client, "{}a"), "HOLD");
    assert!(server.log().contains("default-ondue does not hold for '{}a'"));
}

#[test]
fn an_empty_rule_is_refused() {
    let (_server, mut client) = Server::with_client(&[]);
    for rules in ["; x DROP", "x DROP ;", "x DROP ; ; y DROP", ";"] {
        let error = set(&mut client, rules).expect_err(rules);
        assert!(error.contains("a rule is empty"), "{error}");
    }
    assert_eq!(shown(&mut client), "");
    set(&mut client, "x DROP ; y DROP").expect("it is set");
    set(&mut client, " ").expect("it is taken away");
}
