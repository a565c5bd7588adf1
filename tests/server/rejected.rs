//! REJECT: jobs that can never succeed become dead letters, whatever their counts.

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd, text, texts, until};

/// A leased element, as POLL replies it.
type Row = (String, String, u64, String);

const RULE: &str = "DEHYDRATOR.ONDUE k HOLD DELIVERIES 5";

fn numbers(numbers: &[i64]) -> Value {
    Value::Array(numbers.iter().copied().map(Value::Int).collect())
}

/// Pushes elements, all due, and leases them under `mine`, in order.
fn lease(client: &mut Connection, ids: &[&str]) {
    for (at, id) in ids.iter().enumerate() {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 {id}-element {id} AT {}", at + 1));
    }
    let rows: Vec<Row> =
        cmd("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine").query(client).expect("rows");
    assert_eq!(rows.iter().map(|row| &row.0[..]).collect::<Vec<_>>(), ids);
}

fn stuck(client: &mut Connection) -> usize {
    let rows: (Value, Vec<Vec<Value>>) =
        cmd("DEHYDRATOR.RANGE k 9223372036854775807 +").query(client).expect("rows");
    rows.1.len()
}

#[test]
fn rejected_elements_become_dead_letters_in_order_and_at_once() {
    for protocol in [2, 3] {
        let (server, mut client) = Server::with_client(&[]);
        client.ask(&format!("HELLO {protocol}"));
        for (route, read, expected) in [
            ("STREAM d", "XLEN d", Value::Int(2)),
            ("LIST d", "LRANGE d 0 -1", texts(&["c-element", "a-element"])),
            ("LIST d LEFT", "LRANGE d 0 -1", texts(&["a-element", "c-element"])),
            ("DROP", "EXISTS d", Value::Int(0)),
            ("PUBLISH d", "EXISTS d", Value::Int(0)),
        ] {
            client.ask("FLUSHALL");
            client.ask(&format!("{RULE} {route}"));
            lease(&mut client, &["a", "b", "c"]);
            // In the order of the command; each once; and only held ones.
            let reply = client.ask("DEHYDRATOR.REJECT k yours c mine c mine a mine c mine nobody");
            assert_eq!(reply, numbers(&[0, 1, 1, 0, 0]), "{route}");
            assert_eq!(client.ask(read), expected, "{route}");
            assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1), "{route}");
            assert_eq!(client.ask("DEHYDRATOR.SETTLE k mine a mine b"), numbers(&[0, 1]));
        }
        assert_eq!(server.info("dehydrator", "dehydrator_dead_letters"), 10);
        // The entry has the delivery count, which is below the limit.
        client.ask("FLUSHALL");
        client.ask(&format!("{RULE} STREAM d"));
        lease(&mut client, &["a"]);
        client.ask("DEHYDRATOR.REJECT k mine a");
        let entries: Vec<(String, Vec<String>)> =
            cmd("XRANGE d - +").query(&mut client).expect("entries");
        assert_eq!(entries[0].1, ["id", "a", "element", "a-element", "deliveries", "1"]);
    }
}

/// Returns the fields of each entry of a stream.
fn letters(client: &mut Connection) -> Vec<std::collections::HashMap<String, String>> {
    let entries: Vec<(String, _)> = cmd("XRANGE d - +").query(client).expect("entries");
    entries.into_iter().map(|(_, fields)| fields).collect()
}

#[test]
fn a_dead_letter_names_its_reason_also_if_it_cannot_leave_at_once() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask(&format!("{RULE} STREAM d"));
    lease(&mut client, &["a", "b", "c", "e"]);
    client.ask("DEHYDRATOR.REJECT k mine a mine b REASON no-such-user");
    let reasons = |client: &mut Connection| -> Vec<Option<String>> {
        letters(client).iter().map(|letter| letter.get("reason").cloned()).collect()
    };
    let told = Some("no-such-user".to_string());
    assert_eq!(reasons(&mut client), [told.clone(), told.clone()]);
    // What a retry said is its reason, unless the rejection says another.
    client.ask("DEHYDRATOR.RELEASE k 0 mine c REASON timeout");
    client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN again");
    client.ask("DEHYDRATOR.REJECT k again c");
    assert_eq!(reasons(&mut client)[2].as_deref(), Some("timeout"));
    // One that is stuck keeps it, on the replica too.
    client.ask("DEL d");
    client.ask("SET d text");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine e REASON no-such-user"), numbers(&[1]));
    assert_eq!(stuck(&mut client), 1);
    catch_up(&primary, &replica);
    assert_eq!(client.digest("k"), replica.connect().digest("k"));
    client.ask("DEL d");
    until("it has left", || (stuck(&mut client) == 0).then_some(()));
    assert_eq!(reasons(&mut client), [told]);
    assert_eq!(primary.info("dehydrator", "dehydrator_dead_letters"), 4);
}

#[test]
fn a_rejected_element_may_be_another_one_also_if_it_cannot_leave_at_once() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask(&format!("{RULE} STREAM d"));
    lease(&mut client, &["a", "b"]);
    // Nothing changes for one that is not held.
    assert_eq!(client.ask("DEHYDRATOR.REJECT k yours a ELEMENT other"), numbers(&[0]));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k a"), text("a-element"));
    assert_eq!(
        client.ask("DEHYDRATOR.REJECT k mine a REASON why ELEMENT second-attempt"),
        numbers(&[1])
    );
    let letter = letters(&mut client).remove(0);
    assert_eq!([&letter["element"], &letter["reason"]], ["second-attempt", "why"]);
    client.ask("DEL d");
    client.ask("SET d text");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine b ELEMENT third"), numbers(&[1]));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k b"), text("third"));
    catch_up(&primary, &replica);
    assert_eq!(client.digest("k"), replica.connect().digest("k"));
    client.ask("DEL d");
    until("it has left", || (stuck(&mut client) == 0).then_some(()));
    assert_eq!(letters(&mut client)[0]["element"], "third");
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    lease(&mut client, &["e"]);
    assert!(client.refused("DEHYDRATOR.REJECT k mine e ELEMENT other").starts_with("NORULE"));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k e"), text("e-element"));
}

#[test]
fn subscribers_get_rejected_elements() {
    let (server, mut client) = Server::with_client(&[]);
    let mut other = server.connect();
    let mut listener = other.as_pubsub();
    listener.subscribe("news").expect("a subscription");
    client.ask(&format!("{RULE} PUBLISH news"));
    lease(&mut client, &["a"]);
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine a"), numbers(&[1]));
    let heard: String = listener.get_message().expect("a message").get_payload().expect("text");
    assert_eq!(heard, "a-element");
}

#[test]
fn without_a_rule_reject_is_an_error_with_a_hint() {
    let (_server, mut client) = Server::with_client(&[]);
    lease(&mut client, &["a"]);
    let error = "NORULE no destination for dead letters: set one with ONDUE key HOLD DELIVERIES n <destination>";
    for rule in ["HOLD", "STREAM s", "DROP"] {
        client.ask(&format!("DEHYDRATOR.ONDUE k {rule}"));
        for line in ["k mine a", "k yours a", "k mine nobody"] {
            assert_eq!(client.refused(&format!("DEHYDRATOR.REJECT {line}")), error, "{rule}");
        }
        client.ask("DEHYDRATOR.ONDUE k HOLD");
    }
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k mine a"), numbers(&[1]));
    // A missing key has nothing to reject.
    assert_eq!(client.ask("DEHYDRATOR.REJECT nowhere mine a"), numbers(&[0]));
    client.ask("SET taken text");
    assert!(client.refused("DEHYDRATOR.REJECT taken mine a").starts_with("WRONGTYPE"));
    for line in ["k", "k mine", "k mine a mine"] {
        let refused = client.refused(&format!("DEHYDRATOR.REJECT {line}"));
        assert!(refused.starts_with("ERR wrong number of arguments"), "{refused}");
    }
}

#[test]
fn a_stale_token_rejects_nothing() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(&format!("{RULE} LIST d"));
    for between in [
        "PUSH k 0 other a REPLACE",
        "TOUCH k 0 a",
        "RELEASE k 5000 mine a",
        "SETTLE k mine a",
        "EFFECT k L5@4102444800000@7 a",
    ] {
        lease(&mut client, &["a"]);
        client.ask(&format!("DEHYDRATOR.{between}"));
        let digest = client.digest("k");
        assert_eq!(client.ask("DEHYDRATOR.REJECT k mine a"), numbers(&[0]), "{between}");
        assert_eq!(client.digest("k"), digest, "{between}");
        client.ask("DEHYDRATOR.REM k a");
    }
    assert!(!client.exists("d"));
    // An element with an expired lease is held until it is leased again.
    lease(&mut client, &["a"]);
    client.ask("DEHYDRATOR.TOUCH k 0 AT 5 a");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine a"), numbers(&[1]));
    assert_eq!(client.ask("LRANGE d 0 -1"), texts(&["a-element"]));
}

#[test]
fn a_stuck_rejected_element_stays_a_dead_letter_whatever_the_limit() {
    let (mut server, mut client) = Server::with_client(&["--appendonly", "yes"]);
    client.ask(&format!("{RULE} LIST d"));
    client.ask("SET d text");
    lease(&mut client, &["a", "b", "c"]);
    client.ask("DEHYDRATOR.PUSH k 0 alive alive");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine a mine b mine a"), numbers(&[1, 1, 0]));
    assert_eq!(stuck(&mut client), 2);
    // It is not held, not delivered, and no client waits for it.
    let nothing = numbers(&[0]);
    for line in ["REJECT k mine a", "SETTLE k mine a", "RENEW k 5 mine a", "RELEASE k 5 mine a"] {
        assert_eq!(client.ask(&format!("DEHYDRATOR.{line}")), nothing, "{line}");
    }
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["alive"]));
    assert_eq!(client.ask("DEHYDRATOR.PTTL k a"), Value::Int(-1));
    // Another limit, a restart, a rewritten file: it stays rejected.
    for line in ["MULTI", "DEHYDRATOR.ONDUE k HOLD DELIVERIES 65535 LIST e", "SET e text", "EXEC"] {
        client.ask(line);
    }
    for rewrites in [false, true] {
        if rewrites {
            client.rewrite_aof();
        }
        let digest = client.digest("k");
        server.restart();
        client = server.connect();
        assert_eq!(client.digest("k"), digest);
        let before = server.info("dehydrator", "dehydrator_retries");
        until("it is tried", || {
            (server.info("dehydrator", "dehydrator_retries") > before).then_some(())
        });
        assert_eq!(stuck(&mut client), 2);
    }
    client.ask("DEL e");
    until("both are there", || {
        (client.ask("LRANGE e 0 -1") == texts(&["a-element", "b-element"])).then_some(())
    });

    // Without a rule for dead letters, it is an ordinary element with its count, and is delivered again.
    client.ask("DEL e");
    client.ask("SET e text");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine c"), numbers(&[1]));
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    let rows: Vec<Row> =
        cmd("DEHYDRATOR.POLL k BLOCK 0 LEASE 600000").query(&mut client).expect("rows");
    assert_eq!((&rows[0].0[..], rows[0].2), ("c", 2));
}

#[test]
fn reject_names_ids_so_it_works_while_the_key_is_paused() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(&format!("{RULE} LIST d"));
    lease(&mut client, &["a"]);
    client.ask("DEHYDRATOR.PAUSE k");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine a"), numbers(&[1]));
    assert_eq!(client.ask("LRANGE d 0 -1"), texts(&["a-element"]));
}

#[test]
fn in_a_full_server_it_is_stuck_until_memory_is_free_and_a_drop_needs_none() {
    let (_server, mut client) = Server::with_client(&["--maxmemory-policy", "noeviction"]);
    client.ask(&format!("{RULE} STREAM d"));
    lease(&mut client, &["a", "b"]);
    client.ask("CONFIG SET maxmemory 1");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine a"), numbers(&[1]));
    assert_eq!(stuck(&mut client), 1);
    client.ask("CONFIG SET maxmemory 0");
    until("it goes", || (client.ask("XLEN d") == Value::Int(1)).then_some(()));
    client.ask(&format!("{RULE} DROP"));
    client.ask("CONFIG SET maxmemory 1");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine b"), numbers(&[1]));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
}

#[test]
fn a_restored_rule_moves_no_rejected_element() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(&format!("{RULE} LIST d"));
    lease(&mut client, &["a"]);
    let Value::BulkString(dump) = client.ask("DUMP k") else { panic!("a dump") };
    client.ask("DEL k");
    redis::cmd("RESTORE").arg("k").arg(0).arg(dump).exec(&mut client).expect("OK");
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine a"), numbers(&[1]));
    assert!(!client.exists("d"));
    assert_eq!(stuck(&mut client), 1);
    client.ask(&format!("{RULE} LIST d"));
    until("it goes", || (client.ask("LLEN d") == Value::Int(1)).then_some(()));
}

#[test]
fn a_replica_and_an_append_only_file_get_its_result_in_one_transaction() {
    let mut primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask(&format!("{RULE} LIST d"));
    let ids: Vec<_> = (0..300).map(|id| id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    lease(&mut client, &ids);
    let pairs: String = ids[..200].iter().map(|id| format!(" mine {id}")).collect();
    assert_eq!(client.ask(&format!("DEHYDRATOR.REJECT k{pairs}")), numbers(&[1; 200]));
    client.ask("RENAME d e");
    client.ask("SET d text");
    let pairs: String = ids[100..].iter().map(|id| format!(" mine {id}")).collect();
    let expected = [[0; 100], [1; 100]].concat();
    assert_eq!(client.ask(&format!("DEHYDRATOR.REJECT k{pairs}")), numbers(&expected));
    let list: Vec<String> = cmd("LRANGE e 0 -1").query(&mut client).expect("elements");
    let elements: Vec<_> = ids[..200].iter().map(|id| format!("{id}-element")).collect();
    assert!(list == elements, "each once, in order");
    catch_up(&primary, &replica);
    let digests = ["k", "e"].map(|key| client.digest(key));
    assert_eq!(["k", "e"].map(|key| replica.connect().digest(key)), digests);
    primary.restart();
    client = primary.connect();
    assert_eq!(["k", "e"].map(|key| client.digest(key)), digests);

    // The promoted replica knows that they are dead letters, although they were delivered only once.
    let mut there = replica.connect();
    there.ask("REPLICAOF NO ONE");
    there.ask("DEL d");
    until("they have gone", || (there.ask("LLEN d") == Value::Int(100)).then_some(()));
    assert_eq!(there.ask("DEHYDRATOR.LEN k"), Value::Int(0));
}

#[test]
fn reject_works_the_same_in_transactions_and_scripts() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask(&format!("{RULE} LIST d"));
    lease(&mut client, &["a", "b"]);
    client.ask("MULTI");
    client.ask("DEHYDRATOR.REJECT k mine a");
    client.ask("LLEN d");
    let Value::Array(replies) = client.ask("EXEC") else { panic!("an array") };
    assert_eq!(replies, [numbers(&[1]), Value::Int(1)]);
    let script = "return redis.call('DEHYDRATOR.REJECT', KEYS[1], 'mine', 'b', 'mine', 'b')";
    let mut eval = redis::cmd("EVAL");
    let reply: Vec<u64> = eval.arg(script).arg(1).arg("k").query(&mut client).expect("numbers");
    assert_eq!(reply, [1, 0]);
    assert_eq!(client.ask("LRANGE d 0 -1"), texts(&["a-element", "b-element"]));
}

/// The server delivers without a user: a user who may reject needs no permission for the destination.
#[test]
fn rejecting_needs_no_permission_for_the_destination() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask(&format!("{RULE} LIST d"));
    lease(&mut client, &["a"]);
    client.ask("ACL SETUSER worker on nopass -@all +dehydrator.reject ~k");
    let mut worker = server.connect();
    worker.ask("AUTH worker any");
    assert_eq!(worker.ask("DEHYDRATOR.REJECT k mine a"), numbers(&[1]));
    assert!(worker.refused("DEHYDRATOR.REJECT d mine a").starts_with("NOPERM"));
    assert_eq!(client.ask("LRANGE d 0 -1"), texts(&["a-element"]));
}

#[test]
fn a_client_blocked_on_the_destination_wakes() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask(&format!("{RULE} LIST d"));
    lease(&mut client, &["a"]);
    let mut sleeper = server.connect();
    let thread = std::thread::spawn(move || sleeper.ask("BRPOP d 0"));
    until("it sleeps", || (client.info("clients", "blocked_clients") == 1).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.REJECT k mine a"), numbers(&[1]));
    assert_eq!(thread.join().expect("no panic"), texts(&["d", "a-element"]));
    assert_eq!(client.ask("LLEN d"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k a"), Value::Nil);
    // Elements are moved in the order in which they were rejected.
    lease(&mut client, &["x", "y"]);
    client.ask("DEHYDRATOR.REJECT k mine y mine x");
    assert_eq!(client.ask("RPOP d"), text("x-element"));
}

/// A listener can reject more elements while rejected ones are being moved.
#[test]
fn a_listener_that_rejects_meanwhile_rejects_each_once() {
    let server = Server::start_with_listener(&[]);
    let mut client = server.connect();
    for (route, event) in
        [("LIST d", "rpush"), ("LIST d", "dehydrator.deliver"), ("STREAM d", "xadd")]
    {
        client.ask("LISTENER.OFF");
        client.ask("FLUSHALL");
        client.ask(&format!("{RULE} {route}"));
        lease(&mut client, &["a", "b", "c"]);
        client.ask(&format!("LISTENER.ON 1 {event} DEHYDRATOR.REJECT k mine b mine c"));
        let replied = client.ask("DEHYDRATOR.REJECT k mine a mine b");
        assert_eq!(client.ask("LISTENER.RAN"), texts(&["ok"]), "{event}");
        assert!([numbers(&[1, 1]), numbers(&[1, 0])].contains(&replied), "{event}: {replied:?}");
        let length = if route == "LIST d" { "LLEN d" } else { "XLEN d" };
        until(&format!("all have gone, after {event}"), || {
            (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(())
        });
        assert_eq!(client.ask(length), Value::Int(3), "{event}");
    }
}
