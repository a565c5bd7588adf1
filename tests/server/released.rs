//! RELEASE: failed jobs that wait for a retry.

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, text, texts, until};

fn one(number: i64) -> Value {
    Value::Array(vec![Value::Int(number)])
}

/// Pushes an element and leases it under `mine`.
fn lease(client: &mut Connection) {
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let rows: Vec<(String, String, u64, String)> =
        cmd("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine").query(client).expect("rows");
    assert_eq!(rows.len(), 1);
}

#[test]
fn a_released_element_is_not_held_keeps_its_count_and_is_delivered_when_due() {
    let (_server, mut client) = Server::with_client(&[]);
    lease(&mut client);
    let before = std::time::Instant::now();
    assert_eq!(client.ask("DEHYDRATOR.RELEASE k 3000 mine id"), one(1));
    // It is not held, so it cannot be settled, and it is not due.
    for line in
        ["RELEASE k 0 mine id", "RENEW k 5 mine id", "SETTLE k mine id", "RELEASE k 5 yours id"]
    {
        assert_eq!(client.ask(&format!("DEHYDRATOR.{line}")), one(0), "{line}");
    }
    assert_eq!(client.ask("DEHYDRATOR.POLL k TOKEN mine LEASE 5"), texts(&[]));
    let rows: Vec<(String, String, u64, String)> =
        cmd("DEHYDRATOR.POLL k BLOCK 0 LEASE 600000 TOKEN next").query(&mut client).expect("rows");
    assert_eq!((&rows[0].0[..], rows[0].2), ("id", 2));
    // The server's clock, which it uses, has whole milliseconds.
    let waited = before.elapsed();
    assert!(waited.as_millis() >= 2999, "{waited:?}");
}

#[test]
fn held_elements_among_many_are_released_and_a_blocked_client_wakes() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.MPUSH k 0 A a 0 B b 0 C c");
    client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine COUNT 2");
    client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN yours");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 WITHIDS COUNT 1");
    let released = client.ask("DEHYDRATOR.RELEASE k 50 mine a mine c yours c mine a mine nowhere");
    assert_eq!(released, Value::Array([1, 0, 1, 0, 0].map(Value::Int).to_vec()));
    assert_eq!(sleeper.reply(), Value::Array(vec![texts(&["a", "A"])]));
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k mine b"), one(1));
}

#[test]
fn a_back_off_is_limited_like_a_ttl() {
    let (_server, mut client) = Server::with_client(&[]);
    lease(&mut client);
    client.ask("CONFIG SET dehydrator.max-ttl 1000");
    assert_eq!(
        client.refused("DEHYDRATOR.RELEASE k 1001 mine id"),
        "LIMIT ttl '1001' is greater than dehydrator.max-ttl (1000 ms) allows"
    );
    assert_eq!(client.ask("DEHYDRATOR.RELEASE k 1000 mine id"), one(1));
    assert_eq!(client.ask("DEHYDRATOR.RELEASE nowhere 1 mine id"), one(0));
    assert!(!client.exists("nowhere"));
}

/// Replicas and the append-only file get the effect: given back, and until when.
#[test]
fn a_replica_and_a_restart_know_that_it_is_not_held() {
    let mut primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    lease(&mut client);
    assert_eq!(client.ask("DEHYDRATOR.RELEASE k 500000 mine id"), one(1));
    catch_up(&primary, &replica);
    let digest = client.digest("k");
    let full = client.ask("DEHYDRATOR.LOOK k id FULL");
    for rewrites in [false, true] {
        let mut there = replica.connect();
        assert_eq!(there.digest("k"), digest);
        if rewrites {
            client.rewrite_aof();
        }
        primary.restart();
        client = primary.connect();
        assert_eq!(client.digest("k"), digest);
        assert_eq!(client.ask("DEHYDRATOR.LOOK k id FULL"), full);
        assert_eq!(client.ask("DEHYDRATOR.SETTLE k mine id"), one(0));
    }
    assert_eq!(client.ask("DEHYDRATOR.PULL k id"), text("element"));
}

/// A job after its last delivery becomes a dead letter when its back-off ends, and not before.
#[test]
fn a_released_dead_letter_is_moved_when_its_back_off_ends() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM dead");
    lease(&mut client);
    assert_eq!(client.ask("DEHYDRATOR.RELEASE k 500000 mine id"), one(1));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    client.ask("DEHYDRATOR.TOUCH k 0 id");
    until("it has gone", || (client.ask("XLEN dead") == Value::Int(1)).then_some(()));
}

/// As when a worker stops: what it has not begun does not count as an attempt.
#[test]
fn an_uncounted_release_is_as_if_it_had_not_been_given_out() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 2 STREAM dead");
    lease(&mut client);
    let full = "DEHYDRATOR.LOOK k id FULL";
    for released in ["0 mine id UNCOUNTED", "0 mine id mine nothing uncounted"] {
        let released = client.ask(&format!("DEHYDRATOR.RELEASE k {released}"));
        let Value::Array(released) = released else { panic!("{released:?}") };
        assert_eq!(released[0], Value::Int(1));
        let fields: std::collections::HashMap<String, Value> =
            cmd(full).query(&mut client).expect("a map");
        assert_eq!((&fields["deliveries"], &fields["leased"]), (&Value::Int(0), &Value::Int(0)));
        let rows: Vec<(String, String, u64, String)> =
            cmd("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine").query(&mut client).expect("rows");
        assert_eq!(rows[0].2, 1);
    }
    assert_eq!(client.ask("DEHYDRATOR.RELEASE k 0 yours id UNCOUNTED"), one(0));
    // A counted one, and an uncounted one after it.
    client.ask("DEHYDRATOR.RELEASE k 0 mine id");
    client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine");
    client.ask("DEHYDRATOR.RELEASE k 0 mine id UNCOUNTED");
    assert_eq!(
        client.ask("DEHYDRATOR.POLL k WITHIDS"),
        Value::Array(vec![texts(&["id", "element"])])
    );
    assert_eq!(client.ask("XLEN dead"), Value::Int(0));
}

/// Returns the ids in the order in which they would be given out.
fn order(client: &mut Connection) -> Vec<String> {
    let (_, rows): (Value, Vec<Vec<Value>>) =
        cmd("DEHYDRATOR.RANGE k - +").query(client).expect("rows");
    rows.iter().map(|row| redis::from_redis_value_ref(&row[0]).expect("an id")).collect()
}

fn look(client: &mut Connection, key: &str, id: &str) -> std::collections::HashMap<String, Value> {
    cmd(&format!("DEHYDRATOR.LOOK {key} {id} FULL")).query(client).expect("a map")
}

#[test]
fn what_is_given_back_uncounted_has_its_old_place_on_every_copy() {
    for options in [&[][..], &["small-max-elements", "0"]] {
        let aof = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
        let mut primary = Server::start_with_port(&[options, &aof[..]].concat());
        let replica = replica_of(&primary, options);
        let mut client = primary.connect();
        // The first three came due at one moment, and so did the last two.
        client.ask("DEHYDRATOR.MPUSH k 0 A a 0 B b 0 C c AT 1000");
        client.ask("DEHYDRATOR.MPUSH k 0 D d 0 E e AT 2000");
        let all = ["a", "b", "c", "d", "e"];
        for token in ["t1", "t2"] {
            client.ask(&format!("DEHYDRATOR.POLL k COUNT 2 LEASE 600000 TOKEN {token}"));
        }
        catch_up(&primary, &replica);
        // Each by itself or several of one POLL, of which the first was taken first; none is held after that.
        let given = client.ask("DEHYDRATOR.RELEASE k 0 t2 c t2 d t2 c UNCOUNTED");
        assert_eq!(given, Value::Array([1, 1, 0].map(Value::Int).to_vec()));
        // A renewal changes nothing about where it was.
        client.ask("DEHYDRATOR.RENEW k 700000 t1 a t1 b");
        client.ask("DEHYDRATOR.RELEASE k 0 t1 a t1 b UNCOUNTED REASON stopped");
        assert_eq!(order(&mut client), all, "{options:?}");
        assert_eq!(look(&mut client, "k", "a")["deadline"], Value::Int(1000));
        assert_eq!(look(&mut client, "k", "a")["deliveries"], Value::Int(0));
        // A counted one goes behind what is due, one with a ttl where that says, also if it is not counted.
        client.ask("DEHYDRATOR.POLL k COUNT 2 LEASE 600000 TOKEN t1");
        client.ask("DEHYDRATOR.RELEASE k 500000 t1 b UNCOUNTED");
        client.ask("DEHYDRATOR.RELEASE k 0 t1 a");
        assert_eq!(order(&mut client), ["c", "d", "e", "a", "b"]);
        client.ask("DEHYDRATOR.POLL k COUNT 3 LEASE 600000 TOKEN t3");
        let digest = client.digest("k");
        catch_up(&primary, &replica);
        assert_eq!(replica.connect().digest("k"), digest);
        // The old place is known after a restart, from the rewritten file too, and to a copy.
        let mut client = stays(&mut primary, &digest);
        client.ask("DEHYDRATOR.RELEASE k 0 t3 c t3 d t3 e UNCOUNTED");
        assert_eq!(order(&mut client), ["c", "d", "e", "a", "b"]);
    }
}

/// Asserts that `k` stays the same in both files, in a dump (as `r`) and in a copy (as `c`). Returns a connection.
fn stays(server: &mut Server, digest: &Value) -> Connection {
    for rewrites in [false, true] {
        if rewrites {
            server.connect().rewrite_aof();
        }
        server.restart();
        assert_eq!(&server.connect().digest("k"), digest, "rewritten: {rewrites}");
    }
    let mut client = server.connect();
    let dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
    redis::cmd("RESTORE").arg("r").arg(0).arg(&dump).exec(&mut client).expect("it loads");
    client.ask("COPY k c");
    assert_eq!((&client.digest("r"), &client.digest("c")), (digest, digest));
    client
}

#[test]
fn a_reason_is_kept_with_the_element_on_every_copy_until_another_is_said() {
    for options in [&[][..], &["small-max-elements", "0"]] {
        let aof = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
        let mut primary = Server::start_with_port(&[options, &aof[..]].concat());
        let replica = replica_of(&primary, options);
        let mut client = primary.connect();
        lease(&mut client);
        client.ask("DEHYDRATOR.PUSH k 0 other other GROUP g");
        assert_eq!(look(&mut client, "k", "id")["reason"], Value::Nil);
        client.ask("DEHYDRATOR.RELEASE k 5 mine id mine nothing REASON timeout");
        let reason = |client: &mut Connection| look(client, "k", "id")["reason"].clone();
        assert_eq!(reason(&mut client), text("timeout"));
        assert_eq!(look(&mut client, "k", "other")["reason"], Value::Nil);
        // It stays when the element is given out, postponed, replaced, or given back without one.
        client.ask("DEHYDRATOR.TOUCH k 0 id");
        client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN second");
        client.ask("DEHYDRATOR.UPDATE k id longer-element");
        client.ask("DEHYDRATOR.RELEASE k 0 second id second other");
        assert_eq!(reason(&mut client), text("timeout"));
        catch_up(&primary, &replica);
        let digest = client.digest("k");
        assert_eq!(replica.connect().digest("k"), digest);
        let mut client = stays(&mut primary, &digest);
        // The last one counts, an empty one is none, and a digest covers it.
        client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN third");
        client.ask("DEHYDRATOR.RELEASE k 0 third id REASON again");
        assert_eq!(reason(&mut client), text("again"));
        let said = client.digest("k");
        client.ask("DEHYDRATOR.EFFECT k R otherwise id");
        assert_ne!(client.digest("k"), said);
        client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN fourth");
        redis::cmd("DEHYDRATOR.RELEASE")
            .arg(&["k", "0", "fourth", "id", "REASON", ""])
            .exec(&mut client)
            .expect("it is given back");
        assert_eq!(reason(&mut client), Value::Nil);
        // A new element under its id has none.
        client.ask("DEHYDRATOR.EFFECT k R late id");
        client.ask("DEHYDRATOR.PUSH k 0 new id REPLACE");
        assert_eq!(reason(&mut client), Value::Nil);
        let long = "x".repeat(4097);
        let error = client.refused(&format!("DEHYDRATOR.RELEASE k 0 mine id REASON {long}"));
        assert_eq!(error, "ERR a REASON has at most 4096 bytes");
    }
}

#[test]
fn a_retry_may_have_another_element_in_the_same_step() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    lease(&mut client);
    let release = "DEHYDRATOR.RELEASE k 0";
    assert_eq!(client.ask(&format!("{release} yours id ELEMENT stolen")), one(0));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k id"), text("element"));
    let error = client.refused(&format!("{release} mine id mine other ELEMENT e"));
    assert_eq!(error, "ERR syntax error, ELEMENT is for one id");
    assert_eq!(
        client.ask(&format!("{release} mine id ELEMENT second REASON first-failed")),
        one(1)
    );
    catch_up(&primary, &replica);
    for client in [&mut client, &mut replica.connect()] {
        let full = look(client, "k", "id");
        assert_eq!((&full["element"], &full["reason"]), (&text("second"), &text("first-failed")));
        assert_eq!(full["deliveries"], Value::Int(1));
    }
    assert_eq!(client.digest("k"), replica.connect().digest("k"));
    // Without memory for a longer one, nothing has changed. A shorter one, and the same without its reason, go back.
    client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine");
    client.ask("CONFIG SET maxmemory 1");
    let error = client.refused(&format!("{release} mine id ELEMENT much-longer"));
    assert!(error.starts_with("OOM"), "{error}");
    assert_eq!(client.ask(&format!("{release} mine id ELEMENT short REASON more")), one(1));
    client.ask("CONFIG SET maxmemory 0");
    let full = look(&mut client, "k", "id");
    assert_eq!((&full["element"], &full["reason"]), (&text("short"), &text("first-failed")));
}

#[test]
fn a_daily_job_runs_every_day_and_once_as_the_page_shows() {
    let page = std::fs::read_to_string("docs/worker.md").expect("the page");
    let row = page.split("| repeats the job tomorrow | `").nth(1).expect("a row");
    let line = row.split('`').next().expect("a command").replace("86400000", "5");
    let (_server, mut client) = Server::with_client(&[]);
    // With SETTLE and PUSH, the chain would end here.
    client.ask("DEHYDRATOR.LIMIT jobs REMEMBER 600000");
    client.ask("DEHYDRATOR.PUSH jobs 0 element order:17");
    for day in 1..=3 {
        let poll = "DEHYDRATOR.POLL jobs BLOCK 5000 LEASE 60000 TOKEN anna-1";
        let Value::Array(given) = client.ask(poll) else { panic!("day {day}") };
        assert_eq!(given.len(), 1);
        assert_eq!(client.ask(&line), Value::Array(vec![Value::Int(1)]));
        // Again, as from a stale worker: no second chain.
        assert_eq!(client.ask(&line), Value::Array(vec![Value::Int(0)]));
        assert_eq!(client.ask("DEHYDRATOR.LEN jobs"), Value::Int(1));
    }
}
