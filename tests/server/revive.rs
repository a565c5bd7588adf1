//! REVIVE: dead letters come back from the stream that ONDUE names.

use std::collections::HashMap;

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, text, texts, until};

const RULE: &str = "DEHYDRATOR.ONDUE k HOLD DELIVERIES 5 STREAM d";

/// Makes elements dead letters, in this order.
fn bury(client: &mut Connection, key: &str, ids: &[&str]) {
    for (at, id) in ids.iter().enumerate() {
        let push = format!("DEHYDRATOR.PUSH {key} 0 {id}-element {id} AT {} GROUP g-{id}", at + 1);
        client.ask(&push);
        client.ask(&format!("DEHYDRATOR.POLL {key} COUNT 1 LEASE 600000 TOKEN t-{id}"));
        let rejected = client.ask(&format!("DEHYDRATOR.REJECT {key} t-{id} {id} REASON why"));
        assert_eq!(rejected, Value::Array(vec![Value::Int(1)]), "{id}");
    }
}

/// Returns the ids of the stream's entries, each with the id of its element.
fn letters(client: &mut Connection) -> Vec<(String, String)> {
    let entries: Vec<(String, HashMap<String, String>)> =
        cmd("XRANGE d - +").query(client).expect("entries");
    entries.into_iter().map(|(entry, fields)| (entry, fields["id"].clone())).collect()
}

/// Sends a REVIVE. Returns how many came back, and where to go on.
fn revive(client: &mut Connection, words: &str) -> (i64, Option<String>) {
    cmd(format!("DEHYDRATOR.REVIVE k {words}").trim_end())
        .query(client)
        .expect("a number and a place")
}

fn ids(client: &mut Connection) -> Vec<String> {
    let (_, rows): (Value, Vec<Vec<Value>>) =
        cmd("DEHYDRATOR.RANGE k - +").query(client).expect("rows");
    rows.iter().map(|row| redis::from_redis_value_ref(&row[0]).expect("an id")).collect()
}

fn look(client: &mut Connection, id: &str) -> HashMap<String, Value> {
    cmd(&format!("DEHYDRATOR.LOOK k {id} FULL")).query(client).expect("a map")
}

#[test]
fn letters_come_back_into_their_groups_and_replicas_agree() {
    for protocol in [2, 3] {
        let primary = Server::start_with_port(&["--appendonly", "yes"]);
        let replica = replica_of(&primary, &[]);
        let mut client = primary.connect();
        client.ask(&format!("HELLO {protocol}"));
        client.ask(RULE);
        client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
        bury(&mut client, "k", &["a", "b", "c"]);
        let sleeper = Sleeper::start(&primary, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 WITHIDS");
        let first = letters(&mut client)[1].0.clone();
        assert_eq!(revive(&mut client, "COUNT 2"), (2, Some(first)));
        // It is due at once, a new element, and served to who waits.
        assert_eq!(sleeper.reply(), Value::Array(vec![texts(&["a", "a-element"])]));
        let full = look(&mut client, "b");
        assert_eq!((&full["group"], &full["element"]), (&text("g-b"), &text("b-element")));
        assert_eq!((&full["deliveries"], &full["reason"]), (&Value::Int(0), &Value::Nil));
        assert_eq!(letters(&mut client).len(), 1);
        assert_eq!(revive(&mut client, ""), (1, None));
        assert_eq!(revive(&mut client, ""), (0, None));
        assert_eq!(
            (ids(&mut client), letters(&mut client)),
            (vec!["b".into(), "c".into()], vec![])
        );
        catch_up(&primary, &replica);
        let digest = client.digest("k");
        assert_eq!(replica.connect().digest("k"), digest);
        assert_eq!(replica.connect().ask("XLEN d"), Value::Int(0));
        let mut primary = primary;
        primary.restart();
        assert_eq!(primary.connect().digest("k"), digest);
        assert_eq!(primary.connect().ask("XLEN d"), Value::Int(0));
    }
}

#[test]
fn letters_whose_ids_are_in_use_stand_before_no_others() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(RULE);
    let all: Vec<String> = (0..100).map(|number| format!("id-{number:02}")).collect();
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    bury(&mut client, "k", &names);
    for id in &all[..70] {
        client.ask(&format!("DEHYDRATOR.PUSH k 600000 again {id}"));
    }
    // What is no letter is passed over, too.
    client.ask("XADD d * other field");
    let mut from = String::new();
    let (mut revived, mut calls) = (0, 0);
    while let (count, Some(next)) = revive(&mut client, &format!("COUNT 40{from}")) {
        (revived, calls) = (revived + count, calls + 1);
        from = format!(" FROM {next}");
    }
    assert_eq!((revived, calls), (10, 2), "the last call, for 20 more, says no place");
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(100));
    assert_eq!(client.ask("XLEN d"), Value::Int(71));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k id-00"), text("again"));
}

#[test]
fn named_letters_come_back_and_one_of_them_changed() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(RULE);
    bury(&mut client, "k", &["a", "b", "c"]);
    let entries = letters(&mut client);
    let entry = |at: usize| entries[at].0.clone();
    let changed = format!("ELEMENT edited IDS 1 {}", entry(1));
    assert_eq!(revive(&mut client, &changed), (1, None));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k b"), text("edited"));
    let named = format!("IDS 3 {} {} 1-1", entry(2), entry(1));
    assert_eq!(revive(&mut client, &named), (1, None));
    assert_eq!(letters(&mut client), entries[..1]);
    let error = client.refused("DEHYDRATOR.REVIVE k IDS 1 nonsense");
    assert!(
        error.starts_with("ERR the dead letters cannot come back: ERR Invalid stream ID"),
        "{error}"
    );
}

#[test]
fn only_a_confirmed_policy_with_a_stream_names_letters() {
    let (_server, mut client) = Server::with_client(&[]);
    assert_eq!(revive(&mut client, ""), (0, None));
    let no_rule =
        "NORULE dead letters go to no stream: say ONDUE key HOLD DELIVERIES n STREAM and its name";
    for policy in ["HOLD DELIVERIES 5 DROP", "HOLD DELIVERIES 5 LIST d", "STREAM d"] {
        client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
        assert_eq!(client.refused("DEHYDRATOR.REVIVE k"), no_rule, "{policy}");
    }
    client.ask(RULE);
    client.ask("XADD d * id stolen element secret");
    // A policy that came by RESTORE may name a stream that its user must not read.
    let dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
    client.ask("DEL k");
    redis::cmd("RESTORE").arg("k").arg(0).arg(&dump).exec(&mut client).expect("it loads");
    assert_eq!(client.refused("DEHYDRATOR.REVIVE k"), no_rule);
    client.ask(RULE);
    assert_eq!(revive(&mut client, ""), (1, None));
    client.ask("SET d text");
    let error = client.refused("DEHYDRATOR.REVIVE k");
    assert!(error.starts_with("ERR the dead letters cannot come back: WRONGTYPE"), "{error}");
    client.ask("SET plain text");
    assert!(client.refused("DEHYDRATOR.REVIVE plain").starts_with("WRONGTYPE"));
}

#[test]
fn limits_and_memory_hold_for_what_comes_back() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(RULE);
    bury(&mut client, "k", &["a", "b", "c", "e"]);
    client.ask("DEHYDRATOR.LIMIT k LENGTH 2");
    let second = letters(&mut client)[1].0.clone();
    assert_eq!(revive(&mut client, ""), (2, Some(second)));
    assert!(client.refused("DEHYDRATOR.REVIVE k").starts_with("FULL"));
    // A full group stands before no other.
    client.ask("DEHYDRATOR.LIMIT k LENGTH 0");
    client.ask("DEHYDRATOR.LIMIT k GROUP g-c LENGTH 1");
    client.ask("DEHYDRATOR.PUSH k 0 other other GROUP g-c");
    assert_eq!(revive(&mut client, ""), (1, None));
    assert_eq!(letters(&mut client)[0].1, "c");
    client.ask("CONFIG SET maxmemory 1");
    assert!(client.refused("DEHYDRATOR.REVIVE k").starts_with("OOM"));
    assert_eq!(client.ask("XLEN d"), Value::Int(1));
}

#[test]
fn nothing_is_refused_that_has_begun() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(RULE);
    bury(&mut client, "k", &["a", "b", "c"]);
    client.ask("DEHYDRATOR.LIMIT k LENGTH 1");
    let entries: Vec<_> = letters(&mut client).into_iter().map(|it| it.0).collect();
    assert_eq!(revive(&mut client, &format!("IDS 3 {}", entries.join(" "))), (1, None));
    assert_eq!(ids(&mut client), ["a"]);
    client.ask("DEHYDRATOR.LIMIT k LENGTH 0");
    assert_eq!(revive(&mut client, &format!("IDS 2 {} nonsense", entries[2])), (1, None));
    assert_eq!(ids(&mut client), ["a", "c"]);
    assert_eq!(letters(&mut client)[0].1, "b");
}

#[test]
fn a_policy_set_by_nx_is_set_only_where_none_is() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    let policy = |client: &mut Connection| -> HashMap<String, Value> {
        let info: HashMap<String, Value> = cmd("DEHYDRATOR.INFO k").query(client).expect("a map");
        redis::from_redis_value_ref(&info["policy"]).expect("a map")
    };
    let nx = "DEHYDRATOR.ONDUE k NX HOLD DELIVERIES";
    assert_eq!(client.ask(&format!("{nx} 5 STREAM d")), Value::Okay);
    assert_eq!(client.ask(&format!("{nx} 9 STREAM other")), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.ONDUE k NX DROP"), Value::Nil);
    assert_eq!(policy(&mut client)["deliveries"], Value::Int(5));
    // An operator changes it, and a worker that starts does not.
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 3 STREAM d");
    client.ask(&format!("{nx} 5 STREAM d"));
    assert_eq!(policy(&mut client)["deliveries"], Value::Int(3));
    catch_up(&primary, &replica);
    assert_eq!(client.digest("k"), replica.connect().digest("k"));
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    assert_eq!(client.ask("DEHYDRATOR.ONDUE k NX LIST nx"), Value::Okay);
    // The server finds the second key behind NX.
    let keys = client.ask("COMMAND GETKEYS DEHYDRATOR.ONDUE k NX HOLD DELIVERIES 5 STREAM d");
    assert_eq!(keys, texts(&["k", "d"]));
    let keys = client.ask("COMMAND GETKEYS DEHYDRATOR.ONDUE k NX LIST nx");
    assert_eq!(keys, texts(&["k", "nx"]));
    catch_up(&primary, &replica);
    assert_eq!(client.digest("k"), replica.connect().digest("k"));
}

/// What one call may take, in time too.
#[test]
fn a_call_looks_at_a_thousand_letters_or_a_megabyte_of_them() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(RULE);
    let mut pipe = redis::pipe();
    for number in 0..1500 {
        pipe.add_command(cmd(&format!("XADD d * id id-{number} element e"))).ignore();
    }
    pipe.exec(&mut client).expect("entries");
    assert_eq!(revive(&mut client, "").0, 100);
    let (count, next) = revive(&mut client, "COUNT 100000");
    assert!(count == 1000 && next.is_some(), "{count}, {next:?}");
    client.ask("DEL d k");
    client.ask(RULE);
    let large = "x".repeat(100_000);
    for number in 0..100 {
        client.ask(&format!("XADD d * id id-{number} element {large}"));
    }
    let (count, next) = revive(&mut client, "");
    assert!((11..=64).contains(&count) && next.is_some(), "{count}, {next:?}");
    until("all are back", || (revive(&mut client, "") == (0, None)).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(100));
}
