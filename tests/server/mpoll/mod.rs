//! MPOLL: several keys at once.

mod asleep;

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, text, texts, until};

/// Returns the reply of MPOLL: the elements, and their key.
fn from(key: &str, elements: &[&str]) -> Value {
    Value::Array(vec![text(key), texts(elements)])
}

/// Runs all commands in one pass of the server's event loop.
fn at_once(client: &mut Connection, lines: &[&str]) {
    client.ask("MULTI");
    for line in lines {
        client.ask(line);
    }
    client.ask("EXEC");
}

#[test]
fn the_first_key_with_due_elements_serves() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH later 600000 element id");
    assert_eq!(client.ask("DEHYDRATOR.MPOLL 2 nowhere later"), Value::Nil);
    client.ask("DEHYDRATOR.MPUSH b 0 b1 1 0 b2 2 0 b3 3");
    client.ask("DEHYDRATOR.MPUSH c 0 c1 1 0 c2 2");
    let mpoll = |client: &mut Connection, options: &str| {
        client.ask(&format!("DEHYDRATOR.MPOLL 4 nowhere later b c{options}"))
    };
    assert_eq!(mpoll(&mut client, " COUNT 1"), from("b", &["b1"]));
    let pair = Value::Array(vec![texts(&["2", "b2"])]);
    let named = |key: &str, rows: Value| Value::Array(vec![text(key), rows]);
    assert_eq!(mpoll(&mut client, " withids count 1 BLOCK 0"), named("b", pair));
    assert_eq!(mpoll(&mut client, ""), from("b", &["b3"]));
    assert!(!client.exists("b"));
    let row = vec![text("1"), text("c1"), Value::Int(1), text("7")];
    let leased = named("c", Value::Array(vec![Value::Array(row)]));
    assert_eq!(mpoll(&mut client, " COUNT 1 LEASE 60000 TOKEN 7"), leased);
    assert_eq!(mpoll(&mut client, " BLOCK 0"), from("c", &["c2"]));
    assert_eq!(mpoll(&mut client, ""), Value::Nil);
    assert_eq!(mpoll(&mut client, " BLOCK 20"), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.SETTLE c 7 1"), Value::Array(vec![Value::Int(1)]));
    client.ask("HELLO 3");
    assert_eq!(mpoll(&mut client, ""), Value::Nil);
    // A key that is named twice counts once.
    client.ask("DEHYDRATOR.MPUSH b 0 b1 1 0 b2 2");
    assert_eq!(client.ask("DEHYDRATOR.MPOLL 3 b b b"), from("b", &["b1", "b2"]));
}

#[test]
fn an_invalid_number_of_keys_is_refused_and_changes_nothing() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let before = client.digest("k");
    let is_none = "is not a whole number from 1 on";
    let too_large = "is greater than the number of keys";
    for (line, said) in [
        ("0 k", format!("numkeys '0' {is_none}")),
        ("-1 k", format!("numkeys '-1' {is_none}")),
        ("k k", format!("numkeys 'k' {is_none}")),
        ("01 k", format!("numkeys '01' {is_none}")),
        ("1.0 k", format!("numkeys '1.0' {is_none}")),
        ("2 k", format!("numkeys '2' {too_large}")),
        ("4294967297 k", format!("numkeys '4294967297' {too_large}")),
        ("9223372036854775807 k", format!("numkeys '9223372036854775807' {too_large}")),
        (
            "9223372036854775808 k",
            "numkeys '9223372036854775808' is too large: it must fit in 63 bits".to_owned(),
        ),
        ("1 k k", "syntax error, unexpected 'k'".to_owned()),
        ("1 k COUNT 0", "COUNT '0' is not a whole number from 1 on".to_owned()),
        // An option within the number of keys is a key.
        (
            "2 k COUNT 1",
            "syntax error, unexpected '1': the name of an option is missing: COUNT, BLOCK or LEASE"
                .to_owned(),
        ),
        ("1 k TOKEN t", "syntax error, TOKEN needs LEASE".to_owned()),
        (
            "2 k other LEASE 9223372036854775807",
            "LEASE '9223372036854775807' is too large: now + ttl must fit in 63 bits".to_owned(),
        ),
    ] {
        let error = client.refused(&format!("DEHYDRATOR.MPOLL {line}"));
        assert_eq!(error, format!("ERR {said}"), "{line}");
        assert_eq!(client.ask("ECHO in-step"), text("in-step"));
    }
    // Even if something is due before it.
    client.ask("SET text text");
    for line in ["2 k text", "2 text k", "2 k text BLOCK 0", "2 nowhere text BLOCK 0"] {
        let error = client.refused(&format!("DEHYDRATOR.MPOLL {line}"));
        assert!(error.starts_with("WRONGTYPE"), "{line}: {error}");
    }
    assert_eq!(client.digest("k"), before);
    assert_eq!(waiters(&server), 0);
}

#[test]
fn a_key_with_a_policy_cannot_be_waited_for() {
    let (server, mut client) = Server::with_client(&[]);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 held bound BLOCK 0");
    client.ask("DEHYDRATOR.ONDUE bound STREAM s");
    assert!(sleeper.error().contains("ONDUE delivers this key now"));
    assert_eq!(waiters(&server), 0);
    client.ask("DEHYDRATOR.PUSH held 0 element id");
    let error = client.refused("DEHYDRATOR.MPOLL 2 held bound BLOCK 0");
    assert_eq!(error, "ERR BLOCK is not allowed: ONDUE delivers one of these keys");
    assert_eq!(client.ask("DEHYDRATOR.LEN held"), Value::Int(1));
    // Without BLOCK, it is like POLL.
    assert_eq!(client.ask("DEHYDRATOR.MPOLL 2 bound held"), from("held", &["element"]));
    client.ask("MULTI");
    client.ask("DEHYDRATOR.PUSH bound 0 element id");
    client.ask("DEHYDRATOR.MPOLL 2 held bound BLOCK 0");
    let Value::Array(replies) = client.ask("EXEC") else { panic!("an array") };
    assert_eq!(replies[1], from("bound", &["element"]));
    assert!(!client.exists("s"));
}

#[test]
fn a_paused_key_is_skipped() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH a 0 a id");
    client.ask("DEHYDRATOR.PAUSE a");
    assert_eq!(client.ask("DEHYDRATOR.MPOLL 2 a b"), Value::Nil);
    client.ask("DEHYDRATOR.PUSH b 0 b id");
    assert_eq!(client.ask("DEHYDRATOR.MPOLL 2 a b BLOCK 0"), from("b", &["b"]));
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 a b BLOCK 0");
    client.ask("DEHYDRATOR.PUSH b 0 b id");
    assert_eq!(sleeper.reply(), from("b", &["b"]));
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 a b BLOCK 0");
    client.ask("DEHYDRATOR.RESUME a");
    assert_eq!(sleeper.reply(), from("a", &["a"]));
}

#[test]
fn dead_letters_are_moved_and_the_next_key_is_tried() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE a HOLD DELIVERIES 1 STREAM dead");
    client.ask("MULTI");
    client.ask("DEHYDRATOR.EFFECT a P0@5,delivered=1 element 1");
    client.ask("DEHYDRATOR.EFFECT a P0@6,delivered=1 element 2");
    client.ask("DEHYDRATOR.PUSH b 0 b id");
    client.ask("DEHYDRATOR.MPOLL 2 a b");
    client.ask("XLEN dead");
    let Value::Array(replies) = client.ask("EXEC") else { panic!("an array") };
    assert_eq!(replies[3..], [from("b", &["b"]), Value::Int(2)]);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.MPOLL 2 a b BLOCK 0");
    client.ask("DEHYDRATOR.EFFECT a P0@5,delivered=1 element 1");
    until("it has died", || (client.ask("XLEN dead") == Value::Int(3)).then_some(()));
    assert!(!sleeper.is_awake());
    client.ask("DEHYDRATOR.PUSH a 0 alive 2");
    assert_eq!(sleeper.reply(), from("a", &["alive"]));
}

#[test]
fn transactions_and_scripts_do_not_block() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("MULTI");
    client.ask("DEHYDRATOR.MPOLL 2 a b BLOCK 0");
    assert_eq!(client.ask("EXEC"), Value::Array(vec![Value::Nil]));
    let script = "return redis.call('DEHYDRATOR.MPOLL', 2, KEYS[1], KEYS[2], 'BLOCK', 0)";
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(2).arg(&["a", "b"]);
    assert_eq!(eval.query(&mut client), Ok(Value::Nil));
    client.ask("DEHYDRATOR.PUSH b 0 element id");
    assert_eq!(eval.query(&mut client), Ok(from("b", &["element"])));
    assert_eq!(waiters(&server), 0);
}

#[test]
fn the_same_token_gets_the_same_elements_of_the_same_key() {
    let (server, mut client) = Server::with_client(&[]);
    let line = "DEHYDRATOR.MPOLL 2 high low COUNT 1 LEASE 60000 TOKEN mine";
    client.ask("DEHYDRATOR.PUSH low 0 low id");
    let given = client.ask(line);
    let Value::Array(named) = &given else { panic!("{given:?}") };
    assert_eq!(named[0], text("low"));
    client.ask("DEHYDRATOR.PUSH high 0 high id");
    assert_eq!(client.ask(line), given);
    assert_eq!(client.ask(&format!("{line} BLOCK 0")), given);
    // Without a token of its own, it is another lease.
    let other = client.ask("DEHYDRATOR.MPOLL 2 high low COUNT 1 LEASE 60000");
    let Value::Array(named) = other else { panic!("an array") };
    assert_eq!(named[0], text("high"));

    // Blocked twice, because the first connection broke: both get the elements of one.
    client.ask("FLUSHALL");
    let first = Sleeper::start(&server, &format!("{line} BLOCK 0"));
    let second = Sleeper::start(&server, &format!("{line} BLOCK 0"));
    client.ask("DEHYDRATOR.PUSH low 0 low id");
    let given = first.reply();
    client.ask("DEHYDRATOR.PUSH high 0 high id");
    assert_eq!(second.reply(), given);
    assert_eq!(client.ask("DEHYDRATOR.POLL high"), texts(&["high"]));
}

#[test]
fn its_effects_are_replicated_like_those_of_poll() {
    let server = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&server);
    let mut client = server.connect();
    let options = ["", " COUNT 1", " LEASE 60000", " COUNT 1 LEASE 60000 TOKEN mine"];
    for options in options {
        client.ask("DEHYDRATOR.MPUSH a 0 a1 1 0 a2 2 600000 later later");
        client.ask("DEHYDRATOR.MPUSH b 0 b1 1 0 b2 2");
        client.ask(&format!("DEHYDRATOR.MPOLL 3 nowhere b a{options}"));
        let line = format!("DEHYDRATOR.MPOLL 3 x y z{options} BLOCK 0");
        let sleeper = Sleeper::start(&server, &line);
        at_once(&mut client, &["DEHYDRATOR.PUSH z 0 z 1", "DEHYDRATOR.MPUSH y 0 y1 1 0 y2 2"]);
        let Value::Array(named) = sleeper.reply() else { panic!("an array") };
        assert_eq!(named[0], text("y"));
        let digest = client.ask("DEBUG DIGEST");
        let mut there = replica.connect();
        until("the replica is equal", || (there.ask("DEBUG DIGEST") == digest).then_some(()));
        client.ask("DEBUG LOADAOF");
        assert_eq!(client.ask("DEBUG DIGEST"), digest, "{options}");
        client.ask("FLUSHALL");
    }
    // An empty POLL replicates nothing.
    let offset = |client: &mut Connection| client.info("replication", "master_repl_offset");
    let mut quiet = server.connect();
    until("only what is asked for moves the offset", || {
        let before = offset(&mut quiet);
        assert_eq!(quiet.ask("DEHYDRATOR.MPOLL 3 a b c"), Value::Nil);
        (offset(&mut quiet) == before).then_some(())
    });
}

#[test]
fn the_server_knows_its_keys_and_checks_the_permissions_for_each() {
    let (server, mut client) = Server::with_client(&[]);
    let keys = client.ask("COMMAND GETKEYS DEHYDRATOR.MPOLL 2 a b COUNT 5");
    assert_eq!(keys, texts(&["a", "b"]));
    for line in ["0 a", "3 a b", "-1 a", "x a"] {
        client.refused(&format!("COMMAND GETKEYS DEHYDRATOR.MPOLL {line}"));
    }
    client.ask("DEHYDRATOR.PUSH a 0 element id");
    client.ask("DEHYDRATOR.PUSH b 0 element id");
    client.ask("ACL SETUSER eve on nopass +@all ~a");
    let mut eve = server.connect();
    eve.ask("AUTH eve any");
    for line in ["1 b", "2 a b", "2 b a", "2 a b BLOCK 0"] {
        let error = eve.refused(&format!("DEHYDRATOR.MPOLL {line}"));
        assert!(error.starts_with("NOPERM"), "{line}: {error}");
    }
    // If the server finds no keys, neither does the module.
    for line in ["0 b", "2 b", "01 b", "+1 b", "4294967297 b"] {
        let error = eve.refused(&format!("DEHYDRATOR.MPOLL {line}"));
        assert!(error.starts_with("ERR") || error.starts_with("NOPERM"), "{line}: {error}");
    }
    assert_eq!(client.ask("DEHYDRATOR.LEN b"), Value::Int(1));
    assert_eq!(eve.ask("DEHYDRATOR.MPOLL 1 a"), from("a", &["element"]));
}
