//! Fenced leases: a stale token changes nothing.

use redis::{Connection, Value};

use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, text, until};

/// A leased element, as POLL replies it.
type Row = (String, String, u64, String);

fn poll(client: &mut Connection, options: &str) -> Vec<Row> {
    cmd(&format!("DEHYDRATOR.POLL k {options}")).query(client).expect("rows")
}

/// Leases the one due element, and returns its token.
fn lease(client: &mut Connection) -> String {
    let [(_, _, _, token)] = &poll(client, "LEASE 600000")[..] else { panic!("one element") };
    token.clone()
}

fn settle(client: &mut Connection, token: &str, id: &str) -> Value {
    let Value::Array(mut replies) = client.ask(&format!("DEHYDRATOR.SETTLE k {token} {id}")) else {
        panic!("an array")
    };
    assert_eq!(replies.len(), 1);
    replies.remove(0)
}

fn renew(client: &mut Connection, ttl: u64, token: &str, id: &str) -> Value {
    let line = format!("DEHYDRATOR.RENEW k {ttl} {token} {id}");
    let Value::Array(mut replies) = client.ask(&line) else { panic!("an array") };
    replies.remove(0)
}

/// Asserts that this token can do nothing.
fn is_fenced(client: &mut Connection, token: &str, id: &str, what: &str) {
    let before = client.digest("k");
    for ttl in [0, 1, 600_000] {
        assert_eq!(renew(client, ttl, token, id), Value::Int(0), "{what}: renewed");
        let released = client.ask(&format!("DEHYDRATOR.RELEASE k {ttl} {token} {id}"));
        assert_eq!(released, Value::Array(vec![Value::Int(0)]), "{what}: released");
    }
    assert_eq!(settle(client, token, id), Value::Int(0), "{what}: settled");
    assert_eq!(client.digest("k"), before, "{what}: changed");
}

/// In one transaction, so that all leases end in the same millisecond, and each is the first one of its element.
#[test]
fn a_lease_that_was_superseded_settles_and_renews_nothing() {
    let (_server, mut client) = Server::with_client(&[]);
    let between = [
        ("replaced", "PUSH k 0 element id REPLACE"),
        ("pulled, and pushed again", "PULL k id|PUSH k 0 element id"),
        ("removed with its key, and pushed again", "REM k id|PUSH k 0 element id"),
        ("settled without a token, and pushed again", "XACK k id|PUSH k 0 element id"),
        ("given back", "TOUCH k 0 id"),
        ("leased by its id", "EFFECT k L5@5@7 id"),
    ];
    for (what, lines) in between {
        client.ask("DEL k");
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.add_command(cmd("DEHYDRATOR.POLL k LEASE 600000"));
        lines.split('|').for_each(|line| {
            pipe.add_command(cmd(&format!("DEHYDRATOR.{line}"))).ignore();
        });
        pipe.add_command(cmd("DEHYDRATOR.POLL k LEASE 600000"));
        pipe.add_command(cmd("DEHYDRATOR.PTTL k id")).ignore();
        let (first, second): (Vec<Row>, Vec<Row>) = pipe.query(&mut client).expect("rows");
        let (first, second) = (&first[0].3, &second[0].3);
        is_fenced(&mut client, first, "id", what);
        assert_eq!(renew(&mut client, 700_000, second, "id"), Value::Int(1), "{what}");
        assert_eq!(settle(&mut client, second, "id"), Value::Int(1), "{what}");
        assert_eq!(settle(&mut client, second, "id"), Value::Int(0), "{what}: twice");
        assert!(!client.exists("k"));
    }
}

#[test]
fn an_expired_lease_is_valid_until_the_element_is_delivered_again() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.MPUSH k 0 element one 0 element two");
    let rows = poll(&mut client, "LEASE 1");
    until("the leases have run out", || {
        (client.ask("DEHYDRATOR.XPOLL k") == harness::texts(&["one", "two"])).then_some(())
    });
    assert_eq!(settle(&mut client, &rows[0].3, "one"), Value::Int(1));
    let other = lease(&mut client);
    is_fenced(&mut client, &rows[1].3, "two", "delivered again");
    assert_eq!(settle(&mut client, &other, "two"), Value::Int(1));
}

#[test]
fn a_renewed_lease_keeps_its_token_and_a_released_one_loses_it() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let token = lease(&mut client);
    assert_eq!(renew(&mut client, 1_200_000, &token, "id"), Value::Int(1));
    let Value::Int(left) = client.ask("DEHYDRATOR.PTTL k id") else { panic!("a number") };
    assert!((1_100_000..=1_200_000).contains(&left), "{left}");
    // Changes of the deadline or the element by others apply to the same lease.
    client.ask("DEHYDRATOR.TOUCH k 600000 id");
    client.ask("DEHYDRATOR.UPDATE k id other");
    assert_eq!(renew(&mut client, 1_200_000, &token, "id"), Value::Int(1));
    assert_eq!(renew(&mut client, 0, &token, "id"), Value::Int(1));
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Int(0));
    is_fenced(&mut client, &token, "id", "given back");
    let [(_, element, deliveries, next)] = &poll(&mut client, "LEASE 600000")[..] else { panic!() };
    assert_eq!((&element[..], *deliveries), ("other", 2));
    assert_eq!(settle(&mut client, next, "id"), Value::Int(1));
}

/// Without a deadline, ttl 0 gives back, as in RENEW. With one, it selects a queue, like any other ttl.
#[test]
fn a_ttl_of_0_with_a_deadline_gives_nothing_back_on_primary_replica_and_after_a_restart() {
    let mut primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.MPUSH k 0 element drawn 0 element given-back");
    let drawn = poll(&mut client, "LEASE 600000").swap_remove(0).3;
    client.ask("DEHYDRATOR.MPUSH k 0 element own 0 element past 600000 element nobodys");
    assert_eq!(poll(&mut client, "LEASE 600000 TOKEN mine").len(), 2);
    for (line, touched) in [
        ("0 AT 4102444800000 drawn", 1),
        ("0 AT 4102444800000 own", 1),
        ("0 LT AT 5 past", 1),
        ("0 AT 4102444800000 IDS 2 nobodys nowhere", 1),
        ("0 given-back", 1),
    ] {
        assert_eq!(
            client.ask(&format!("DEHYDRATOR.TOUCH k {line}")),
            Value::Int(touched),
            "{line}"
        );
    }
    // Only held elements are outside of the queue of returned ones.
    for (id, ttl) in [("drawn", 1), ("own", 1), ("past", 1), ("nobodys", 0), ("given-back", 0)] {
        let Value::Array(fields) = client.ask(&format!("DEHYDRATOR.LOOK k {id} FULL")) else {
            panic!("names and values")
        };
        assert_eq!(fields[5], Value::Int(ttl), "{id}");
    }
    assert_eq!(client.ask("WAIT 1 60000"), Value::Int(1));
    let digest = client.digest("k");
    assert_eq!(replica.connect().digest("k"), digest);
    primary.restart();
    let mut restarted = primary.connect();
    assert_eq!(restarted.digest("k"), digest);
    primary.kill();
    let mut promoted = replica.connect();
    promoted.ask("REPLICAOF NO ONE");
    primary.relaunch();
    for client in [&mut primary.connect(), &mut promoted] {
        is_fenced(client, &drawn, "given-back", "given back");
        for (token, id) in [(&drawn[..], "drawn"), ("mine", "own"), ("mine", "past")] {
            assert_eq!(settle(client, token, id), Value::Int(1), "{id}");
        }
    }
}

/// On a replica, and from a tool: the element is given back, whatever the clock.
#[test]
fn an_effect_with_a_ttl_of_0_gives_back() {
    for effect in ["T0@4102444800000 id", "T0@5 id", "U4102444800000 id", "U5 id"] {
        let primary = Server::start_debug(&[]);
        let replica = Server::start_debug(&[]);
        replica.follow(&primary);
        let mut client = primary.connect();
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        assert_eq!(poll(&mut client, "LEASE 600000 TOKEN mine").len(), 1);
        client.ask(&format!("DEHYDRATOR.DEBUG k SAY DEHYDRATOR.EFFECT k {effect}"));
        assert_eq!(client.ask("WAIT 1 60000"), Value::Int(1));
        let mut promoted = replica.connect();
        promoted.ask("REPLICAOF NO ONE");
        is_fenced(&mut promoted, "mine", "id", effect);
        let there = promoted.digest("k");
        assert_eq!(client.ask(&format!("DEHYDRATOR.EFFECT k {effect}")), Value::Int(1));
        is_fenced(&mut client, "mine", "id", effect);
        assert_eq!(client.digest("k"), there, "{effect}");
    }
}

#[test]
fn a_token_is_replied_as_the_client_wrote_it() {
    let (server, mut client) = Server::with_client(&[]);
    let longest = "x".repeat(255);
    let words = ["anna-1", "7", "007", "0", "-1", "9223372036854775808", "a@b", &longest];
    for word in words {
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        let options = format!("LEASE 600000 TOKEN {word}");
        let rows = [poll(&mut client, &options), poll(&mut client, &options)];
        assert!(rows.iter().all(|rows| rows[0].3 == word), "{rows:?}");
        let Value::Array(named) = client.ask(&format!("DEHYDRATOR.MPOLL 2 nowhere k {options}"))
        else {
            panic!("the key, and its rows")
        };
        let rows: Vec<Row> = redis::from_redis_value(named[1].clone()).expect("rows");
        assert_eq!(rows[0].3, word);
        assert_eq!(settle(&mut client, word, "id"), Value::Int(1), "{word}");
    }
    // Blocked clients too.
    for line in ["POLL k", "MPOLL 2 nowhere k"] {
        let sleeper = Sleeper::start(
            &server,
            &format!("DEHYDRATOR.{line} BLOCK 0 LEASE 600000 TOKEN anna-1"),
        );
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        assert!(format!("{:?}", sleeper.reply()).contains("anna-1"), "{line}");
        assert_eq!(settle(&mut client, "anna-1", "id"), Value::Int(1), "{line}");
    }
    let refused = client.refused(&format!("DEHYDRATOR.POLL k LEASE 5 TOKEN {longest}y"));
    let start = format!("{}...", "x".repeat(32));
    assert_eq!(refused, format!("ERR TOKEN '{start}' is longer than 255 bytes"));
    // No id of this name was ever leased.
    assert_eq!(settle(&mut client, &format!("{longest}y"), "id"), Value::Int(0));
}

#[test]
fn a_hundred_are_renewed_and_settled_in_one_command_each_with_its_own_reply() {
    let (_server, mut client) = Server::with_client(&[]);
    for id in 0..100 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element {id}"));
    }
    let rows = [poll(&mut client, "LEASE 600000 COUNT 50"), poll(&mut client, "LEASE 600000")];
    let rows = rows.concat();
    assert_eq!(rows.len(), 100);
    client.ask("DEHYDRATOR.PULL k 7");
    client.ask("DEHYDRATOR.PUSH k 0 element 8 REPLACE");
    let pairs = rows.iter().map(|(id, _, _, token)| format!("{token} {id}"));
    let pairs = pairs.collect::<Vec<_>>().join(" ");
    let expected: Vec<_> = (0..100).map(|id| u64::from(id != 7 && id != 8)).collect();
    let renewed: Vec<u64> =
        cmd(&format!("DEHYDRATOR.RENEW k 700000 {pairs}")).query(&mut client).expect("numbers");
    assert_eq!(renewed, expected);
    let settled: Vec<u64> =
        cmd(&format!("DEHYDRATOR.SETTLE k {pairs}")).query(&mut client).expect("numbers");
    assert_eq!(settled, expected);
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), harness::texts(&["8"]));
    // An id that is named twice is settled once.
    let token = lease(&mut client);
    let twice = cmd(&format!("DEHYDRATOR.SETTLE k {token} 8 {token} 8"));
    assert_eq!(twice.query::<Vec<u64>>(&mut client), Ok(vec![1, 0]));
    assert!(!client.exists("k"));
}

#[test]
fn invalid_tokens_and_missing_ids_change_nothing() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let token = lease(&mut client);
    let before = client.digest("k");
    for line in [
        "SETTLE k %",
        "SETTLE k % id %",
        "RENEW k 5 %",
        "RENEW k 5 % id %",
        "RENEW k 5",
        "RELEASE k 5 %",
        "RELEASE k 5 % id %",
        "RELEASE k 5",
    ] {
        let refused = client.refused(&format!("DEHYDRATOR.{}", line.replace('%', &token)));
        assert!(refused.starts_with("ERR wrong number of arguments"), "{line}: {refused}");
    }
    let mut empty = redis::cmd("DEHYDRATOR.SETTLE");
    empty.arg("k").arg("").arg("id");
    let refused = harness::refusal(&empty, &mut client);
    assert_eq!(refused.as_deref(), Ok("ERR TOKEN must not be empty"));
    let mut half = redis::cmd("DEHYDRATOR.SETTLE");
    half.arg("k").arg(&token).arg("id").arg("").arg("id");
    assert!(harness::refusal(&half, &mut client).is_ok(), "half of it was done");
    for (line, error) in [
        ("RENEW k ten % id", "ERR ttl 'ten' is not a whole number of milliseconds from 0 on"),
        (
            "RENEW k 9223372036854775807 % id",
            "ERR ttl '9223372036854775807' is too large: now + ttl must fit in 63 bits",
        ),
        ("RELEASE k ten % id", "ERR ttl 'ten' is not a whole number of milliseconds from 0 on"),
        (
            "RELEASE k 9223372036854775807 % id",
            "ERR ttl '9223372036854775807' is too large: now + ttl must fit in 63 bits",
        ),
        (
            "RELEASE k 9223372036854775808 % id",
            "ERR ttl '9223372036854775808' is too large: now + ttl must fit in 63 bits",
        ),
        ("POLL k TOKEN mine", "ERR syntax error, TOKEN needs LEASE"),
        ("POLL k LEASE 5 TOKEN", "ERR TOKEN needs a value"),
        ("POLL k LEASE 5 TOKEN a TOKEN b", "ERR syntax error, 'TOKEN' is given twice"),
        (
            "POLL k LEASE 5 TOKEN 4611686018427387904",
            "ERR TOKEN '4611686018427387904' is one of the server's own: numbers must be below 2^62",
        ),
        ("PUSH k 5 element new AT 5 TOKEN 7", "ERR syntax error, unexpected 'TOKEN'"),
        ("PUSH k 5 element new AT 5 DELIVERED 7", "ERR syntax error, unexpected 'DELIVERED'"),
    ] {
        let refused = client.refused(&format!("DEHYDRATOR.{}", line.replace('%', &token)));
        assert_eq!(refused, error);
    }
    assert_eq!(client.digest("k"), before);
    for word in ["0", "-1", "1.5", "x", "9223372036854775808", "\\xff"] {
        is_fenced(&mut client, word, "id", word);
        is_fenced(&mut client, &token, word, word);
    }
    assert_eq!(client.ask("DEHYDRATOR.SETTLE nowhere x id"), Value::Array(vec![Value::Int(0)]));
    assert!(!client.exists("nowhere"));
    assert_eq!(settle(&mut client, &token, "id"), Value::Int(1));
}

#[test]
fn tokens_work_in_transactions_and_scripts() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.MPUSH k 0 element one 0 element two");
    let script = "
        local settled = {}
        for _, row in ipairs(redis.call('DEHYDRATOR.POLL', KEYS[1], 'COUNT', 1, 'LEASE', 60000)) do
            redis.call('DEHYDRATOR.RENEW', KEYS[1], 70000, row[4], row[1])
            settled = redis.call('DEHYDRATOR.SETTLE', KEYS[1], row[4], row[1], 'other', row[1])
        end
        return settled";
    let mut eval = redis::cmd("EVAL");
    let settled: Vec<u64> = eval.arg(script).arg(1).arg("k").query(&mut client).expect("numbers");
    assert_eq!(settled, [1, 0]);
    let token = lease(&mut client);
    let mut pipe = redis::pipe();
    pipe.atomic();
    pipe.add_command(cmd(&format!("DEHYDRATOR.RENEW k 0 {token} two")));
    pipe.add_command(cmd(&format!("DEHYDRATOR.SETTLE k {token} two")));
    let replies: (Vec<u64>, Vec<u64>) = pipe.query(&mut client).expect("numbers");
    assert_eq!(replies, (vec![1], vec![0]), "what was given back is not held");
}

/// Stores two elements, one leased under a generated token and one under the client's own; returns also the old token
/// of a replaced element.
fn leased(client: &mut Connection) -> [String; 2] {
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let old = lease(client);
    client.ask("DEHYDRATOR.PUSH k 0 element id REPLACE");
    let token = lease(client);
    client.ask("DEHYDRATOR.PUSH k 0 element own");
    assert_eq!(poll(client, "LEASE 600000 TOKEN mine")[0].0, "own");
    [old, token]
}

fn are_held(client: &mut Connection, [old, token]: &[String; 2]) {
    is_fenced(client, old, "id", "the old lease");
    is_fenced(client, "yours", "own", "another's word");
    let again = poll(client, "LEASE 600000 TOKEN mine");
    assert_eq!((again.len(), &again[0].0[..], again[0].2), (1, "own", 1));
    assert_eq!(renew(client, 700_000, token, "id"), Value::Int(1));
    assert_eq!(renew(client, 700_000, "mine", "own"), Value::Int(1));
}

#[test]
fn tokens_survive_restarts_from_both_kinds_of_file() {
    for options in [
        &["--save", "3600 1"][..],
        &["--appendonly", "yes"],
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"],
    ] {
        let (mut server, mut client) = Server::with_client(options);
        let tokens = leased(&mut client);
        for _ in 0..2 {
            server.restart();
            client = server.connect();
            are_held(&mut client, &tokens);
        }
        if options[0] == "--appendonly" {
            client.rewrite_aof();
            server.restart();
            client = server.connect();
            are_held(&mut client, &tokens);
        }
        // So does the token of a dumped key, and of a copied one.
        client.ask("COPY k other");
        client.ask("RENAME other k2");
        let dump: Vec<u8> = cmd("DUMP k2").query(&mut client).expect("a dump");
        client.ask("DEL k");
        let mut restore = redis::cmd("RESTORE");
        restore.arg("k").arg(0).arg(dump).exec(&mut client).expect("it is restored");
        are_held(&mut client, &tokens);
        assert_eq!(settle(&mut client, &tokens[1], "id"), Value::Int(1));
    }
}

#[test]
fn tokens_survive_a_failover() {
    let mut primary = Server::start_with_port(&[]);
    let mut client = primary.connect();
    // One lease before the full sync, one after it.
    let early = leased(&mut client);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    client.ask("RENAME k early");
    let late = leased(&mut client);
    assert_eq!(client.ask("WAIT 1 60000"), Value::Int(1));
    let digests = ["k", "early"].map(|key| client.digest(key));
    primary.kill();
    let mut promoted = replica.connect();
    promoted.ask("REPLICAOF NO ONE");
    assert_eq!(["k", "early"].map(|key| promoted.digest(key)), digests);
    are_held(&mut promoted, &late);
    promoted.ask("DEL k");
    promoted.ask("RENAME early k");
    are_held(&mut promoted, &early);
    assert_eq!(settle(&mut promoted, &early[1], "id"), Value::Int(1));
    assert_eq!(settle(&mut promoted, "mine", "own"), Value::Int(1));
}

#[test]
fn a_resent_poll_gets_the_same_elements_again() {
    let (server, mut client) = Server::with_client(&[]);
    for id in 0..6 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element-{id} {id}"));
    }
    let first = poll(&mut client, "COUNT 3 LEASE 600000 TOKEN poll-1");
    assert_eq!(first.iter().map(|row| &row.0[..]).collect::<Vec<_>>(), ["0", "1", "2"]);
    let before = client.digest("k");
    let offset = server.info("replication", "master_repl_offset");
    for options in ["COUNT 3 LEASE 600000", "COUNT 3 LEASE 5", "BLOCK 0 LEASE 600000"] {
        let again = poll(&mut client, &format!("{options} TOKEN poll-1"));
        assert_eq!(again, first, "{options}");
    }
    assert_eq!(poll(&mut client, "COUNT 2 LEASE 600000 TOKEN poll-1"), first[..2]);
    assert_eq!(client.digest("k"), before);
    assert_eq!(server.info("replication", "master_repl_offset"), offset);
    // Except those that were settled meanwhile, or that another worker got.
    assert_eq!(settle(&mut client, "poll-1", "0"), Value::Int(1));
    client.ask("DEHYDRATOR.TOUCH k 0 1");
    let other = poll(&mut client, "LEASE 600000 TOKEN poll-2");
    assert_eq!(other.iter().map(|row| &row.0[..]).collect::<Vec<_>>(), ["3", "4", "5", "1"]);
    assert_eq!(poll(&mut client, "LEASE 600000 TOKEN poll-1"), first[2..]);
    // The reply has the client's own token.
    assert!(first.iter().all(|row| row.3 == "poll-1"), "{first:?}");
    assert_eq!(settle(&mut client, &first[2].3, "2"), Value::Int(1));
    assert!(poll(&mut client, "LEASE 600000 TOKEN poll-1").is_empty());
}

#[test]
fn a_poll_resent_after_its_lease_is_a_new_poll() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    assert_eq!(poll(&mut client, "LEASE 1 TOKEN mine")[0].2, 1);
    until("the lease has run out", || {
        (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(())
    });
    assert_eq!(poll(&mut client, "LEASE 600000 TOKEN mine")[0].2, 2);
    assert_eq!(poll(&mut client, "LEASE 600000 TOKEN mine")[0].2, 2);
    assert_eq!(settle(&mut client, "mine", "id"), Value::Int(1));
}

/// The reply to a blocked client is lost, as when its machine is cut off: the server does not notice.
#[test]
fn a_client_that_lost_its_connection_while_blocked_gets_its_elements() {
    let (server, mut client) = Server::with_client(&[]);
    let line = "DEHYDRATOR.POLL k BLOCK 0 LEASE 600000 TOKEN mine";
    let lost = Sleeper::start(&server, line);
    let again = Sleeper::start(&server, line);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let Value::Array(rows) = lost.reply() else { panic!("rows") };
    assert_eq!(again.reply(), Value::Array(rows));
    assert_eq!(poll(&mut client, "LEASE 600000 TOKEN mine").len(), 1);
    assert_eq!(settle(&mut client, "mine", "id"), Value::Int(1));
}

#[test]
fn a_poll_resent_while_the_first_is_blocked_gets_the_same_elements_when_it_times_out() {
    let (server, mut client) = Server::with_client(&[]);
    let line =
        |block: u64| format!("DEHYDRATOR.POLL k COUNT 1 BLOCK {block} LEASE 600000 TOKEN mine");
    // The connection is lost, but the server does not know.
    let first = Sleeper::start(&server, &line(0));
    // Another client is between the two in the queue, and there is nothing for it.
    let other = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 500 LEASE 600000 TOKEN other");
    let again = Sleeper::start(&server, &line(500));
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let given = first.reply();
    assert!(matches!(&given, Value::Array(rows) if rows.len() == 1));
    assert_eq!(again.reply(), given);
    assert_eq!(other.reply(), Value::Array(vec![]));
}

/// Returns the lowest cost of a command over several runs, in microseconds.
fn least_cost(server: &Server, client: &mut Connection, line: &str) -> f64 {
    const TIMES: usize = 20;
    let verb = line.split(' ').next().expect("a verb").to_ascii_lowercase();
    let costs = (0..10).map(|_| {
        client.ask("CONFIG RESETSTAT");
        (0..TIMES).for_each(|_| drop(client.ask(line)));
        let stats: String = cmd("INFO commandstats").query(client).expect("statistics");
        let stats = stats.split(&format!("cmdstat_{verb}:")).nth(1).expect("it was called");
        let usec = stats.split("usec=").nth(1).and_then(|rest| rest.split(',').next());
        usec.expect("its time").parse::<f64>().expect("a number") / TIMES as f64
    });
    let least = costs.fold(f64::MAX, f64::min);
    assert!(server.info("dehydrator", "dehydrator_dehydrators") > 0);
    least
}

#[test]
fn resending_a_poll_costs_the_same_however_many_elements_are_held() {
    let (server, mut client) = Server::with_client(&[]);
    let lines = [
        "DEHYDRATOR.POLL k COUNT 1 LEASE 600000 TOKEN 7",
        "DEHYDRATOR.MPOLL 2 nowhere k COUNT 1 LEASE 600000 TOKEN 7",
        // All leases have expired, and nothing is due, because the key is paused.
        "DEHYDRATOR.POLL k COUNT 1 LEASE 600000 TOKEN 8",
    ];
    let mut costs = Vec::new();
    let mut from = 0;
    for count in [1000, 200_000] {
        for first in (from..count).step_by(1000) {
            let mut pipe = redis::pipe();
            for (word, token, ttl, at) in [("held", 7, 600_000, i64::MAX - 1), ("over", 8, 1, 1)] {
                let ids: Vec<_> = (first..first + 1000).map(|id| format!("{word}-{id}")).collect();
                let push = pipe.cmd("DEHYDRATOR.MPUSH").arg("k").ignore();
                for id in &ids {
                    push.arg(ttl).arg("element").arg(id);
                }
                let timer = format!("L{ttl}@{at}@{token}");
                pipe.cmd("DEHYDRATOR.EFFECT").arg("k").arg(timer).arg(ids).ignore();
            }
            pipe.exec(&mut client).expect("leases");
        }
        from = count;
        client.ask("DEHYDRATOR.PAUSE k");
        for (line, given) in lines.iter().zip([1, 2, 0]) {
            let Value::Array(rows) = client.ask(line) else { panic!("{line}") };
            assert_eq!(rows.len(), given, "{line}");
        }
        costs.push(lines.map(|line| least_cost(&server, &mut client, line)));
    }
    for ((few, many), line) in costs[0].iter().zip(&costs[1]).zip(lines) {
        assert!(*many < 8.0 * few + 20.0, "{line}: {few} us of a thousand, {many} us of many");
    }
}

#[test]
fn an_operator_sees_the_token_of_a_held_element() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.MPUSH k 0 x drawn 0 x chosen 600000 x waits");
    let drawn = cmd("DEHYDRATOR.POLL k COUNT 1 LEASE 600000");
    let [(_, _, _, drawn)]: [(String, String, u64, String); 1] =
        drawn.query(&mut client).expect("one");
    client.ask("DEHYDRATOR.POLL k COUNT 1 LEASE 600000 TOKEN anna");
    type Row = (String, u64, u64, u64, u64, Option<String>, Option<u64>);
    let rows = cmd("DEHYDRATOR.RANGE k - + WITHTOKENS").query(&mut client);
    let (_, rows): (Value, Vec<Row>) = rows.expect("rows");
    let token_of = |id: &str| rows.iter().find(|row| row.0 == id).expect("it is there").5.clone();
    assert_eq!((token_of("drawn"), token_of("waits")), (Some(drawn), None));
    // A chosen token is shown as its number.
    let anna = token_of("chosen").expect("it is held");
    for id in ["drawn", "chosen", "waits"] {
        let full: std::collections::HashMap<String, Value> =
            cmd(&format!("DEHYDRATOR.LOOK k {id} FULL")).query(&mut client).expect("a map");
        let token = token_of(id).map_or(Value::Nil, |token| text(&token));
        assert_eq!(full["token"], token, "{id}");
    }
    assert_eq!(
        client.ask(&format!("DEHYDRATOR.SETTLE k {anna} chosen")),
        Value::Array(vec![Value::Int(1)])
    );
}
