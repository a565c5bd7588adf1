//! REMEMBER: the ids of settled, taken or delivered elements are refused for a while.

use std::collections::{BTreeSet, HashMap};

use redis::{Connection, Value};

use crate::migration;
use crate::replication::catch_up;
use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, field_of, text, texts, until};

const HOUR: i64 = 3_600_000;

/// Returns how many ids a key remembers.
pub fn remembered(client: &mut Connection, key: &str) -> u64 {
    let mut info: HashMap<String, Value> =
        cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    redis::from_redis_value(info.remove("remembered").expect("it is told")).expect("a number")
}

/// Returns whether a key remembers an id, that is, refuses it in every command.
fn remembers(client: &mut Connection, key: &str, id: &str) -> bool {
    let before = client.ask(&format!("DEHYDRATOR.LEN {key}"));
    if client.ask(&format!("DEHYDRATOR.PUSH {key} 600000 element {id} NX")) == Value::Okay {
        client.ask(&format!("DEHYDRATOR.REM {key} {id}"));
        return false;
    }
    let refused = client.refused(&format!("DEHYDRATOR.PUSH {key} 600000 element {id}"));
    assert_eq!(refused, format!("EXISTS id '{id}' was here and is remembered"));
    let mpush = client.ask(&format!("DEHYDRATOR.MPUSH {key} 600000 element {id} NX"));
    assert_eq!(mpush, Value::Array(vec![Value::Int(0)]));
    let refused = client.refused(&format!("DEHYDRATOR.MPUSH {key} 0 element new 0 element {id}"));
    assert_eq!(refused, format!("EXISTS id '{id}' was here and is remembered"));
    assert_eq!(client.ask(&format!("DEHYDRATOR.LEN {key}")), before, "a refusal changed something");
    true
}

/// Leases the due elements of a key, and returns the token.
fn lease(client: &mut Connection, key: &str) -> String {
    let rows: Vec<(String, String, u64, String)> =
        cmd(&format!("DEHYDRATOR.POLL {key} COUNT 1 LEASE 600000")).query(client).expect("rows");
    rows[0].3.clone()
}

/// Pushes an id to `k` and settles it.
fn settle(client: &mut Connection, id: &str) {
    client.ask(&format!("DEHYDRATOR.PUSH k 0 element {id}"));
    let token = lease(client, "k");
    let settled = client.ask(&format!("DEHYDRATOR.SETTLE k {token} {id}"));
    assert_eq!(settled, Value::Array(vec![Value::Int(1)]));
}

/// Remembers this many 16-byte ids, starting with this number.
fn settle_many(client: &mut Connection, ids: std::ops::Range<u64>) {
    for first in ids.clone().step_by(1000) {
        let mut mpush = redis::cmd("DEHYDRATOR.MPUSH");
        mpush.arg("k");
        for id in first..(first + 1000).min(ids.end) {
            mpush.arg(0).arg("x").arg(format!("{id:016}"));
        }
        mpush.exec(client).expect("they are new");
        client.ask("DEHYDRATOR.POLL k COUNT 1000");
    }
}

#[test]
fn ids_of_settled_taken_and_delivered_elements_are_refused_and_removed_ones_accepted() {
    let (server, mut client) = Server::with_client(&[]);
    let mut count = 0;
    for (id, policy, lines) in [
        ("settled", "HOLD", &["SETTLE"][..]),
        ("polled", "HOLD", &["POLL k"]),
        ("mpolled", "HOLD", &["MPOLL 1 k COUNT 1"]),
        ("pulled", "HOLD", &["PULL k pulled"]),
        ("acked", "HOLD", &["XACK k acked"]),
        ("streamed", "STREAM s", &[]),
        ("published", "PUBLISH c", &[]),
        ("listed", "LIST l", &[]),
        ("dropped", "DROP", &[]),
    ] {
        client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
        client.ask(&format!("DEHYDRATOR.ONDUE k {policy}"));
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element {id}"));
        for line in lines {
            match *line {
                "SETTLE" => {
                    let token = lease(&mut client, "k");
                    client.ask(&format!("DEHYDRATOR.SETTLE k {token} {id}"));
                }
                line => _ = client.ask(&format!("DEHYDRATOR.{line}")),
            }
        }
        until(id, || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
        client.ask("DEHYDRATOR.ONDUE k HOLD");
        assert!(remembers(&mut client, "k", id), "{id}");
        count += 1;
        assert_eq!(remembered(&mut client, "k"), count, "{id}");
        // It is gone for all commands that ask for elements.
        assert_eq!(client.ask(&format!("DEHYDRATOR.LOOK k {id}")), Value::Nil);
        assert_eq!(client.ask(&format!("DEHYDRATOR.TOUCH k 5 {id}")), Value::Int(0));
        let refused = client.refused(&format!("DEHYDRATOR.UPDATE k {id} other"));
        assert!(refused.starts_with("NOSUCHID"), "{refused}");
    }
    // Taken by a blocked client as well.
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 0 element slept");
    assert_eq!(sleeper.reply(), texts(&["element"]));
    assert!(remembers(&mut client, "k", "slept"));

    // Removed, a dead letter, replaced, deleted with its key: none of these was completed.
    client.ask("DEHYDRATOR.PUSH k 0 element removed");
    client.ask("DEHYDRATOR.REM k removed");
    for route in ["DROP", "STREAM s"] {
        client.ask(&format!("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 {route}"));
        client.ask("DEHYDRATOR.EFFECT k P0@5,delivered=1 element dead");
        until("it is gone", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
        assert!(!remembers(&mut client, "k", "dead"), "{route}");
    }
    client.ask("DEHYDRATOR.PUSH k 0 element rejected");
    let token = lease(&mut client, "k");
    client.ask(&format!("DEHYDRATOR.REJECT k {token} rejected"));
    until("it is gone", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
    assert!(!remembers(&mut client, "k", "rejected"));
    assert!(!remembers(&mut client, "k", "removed"));
    let before = remembered(&mut client, "k");
    client.ask("DEHYDRATOR.PUSH k 600000 first over");
    client.ask("DEHYDRATOR.PUSH k 600000 second over REPLACE");
    assert_eq!(remembered(&mut client, "k"), before);
    // A leased element exists.
    client.ask("DEHYDRATOR.PUSH k 0 element leased");
    lease(&mut client, "k");
    assert_eq!(remembered(&mut client, "k"), before);
    assert!(client.refused("DEHYDRATOR.PUSH k 0 element leased").contains("is there already"));
}

#[test]
fn replace_pushes_it_again_and_it_is_remembered_when_settled_again() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
    settle(&mut client, "a");
    settle(&mut client, "b");
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 0 again a REPLACE"), Value::Okay);
    assert_eq!(remembered(&mut client, "k"), 1);
    let replaced = client.ask("DEHYDRATOR.MPUSH k 0 again b 0 new c REPLACE");
    assert_eq!(replaced, Value::Array(vec![Value::Int(1); 2]));
    assert_eq!(remembered(&mut client, "k"), 0);
    assert!(client.refused("DEHYDRATOR.PUSH k 0 x a").contains("is there already"));
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["again", "again", "new"]));
    assert!(["a", "b", "c"].iter().all(|id| remembers(&mut client, "k", id)));
    // A few of many.
    let pushed = client.ask("DEHYDRATOR.MPUSH k 600000 x a 600000 x d 600000 x c 600000 x e NX");
    assert_eq!(pushed, Value::Array([0, 1, 0, 1].map(Value::Int).to_vec()));
}

#[test]
fn ids_are_forgotten_at_their_time_and_not_before_and_the_key_stays() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 1800000");
    settle(&mut client, "a");
    assert!(client.exists("k"), "the last one went, and the key stays");
    server.shift_clock(HOUR / 2 - 20_000);
    assert!(remembers(&mut client, "k", "a"));
    // From now on, another duration applies.
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 7200000");
    settle(&mut client, "b");
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
    settle(&mut client, "c");
    server.shift_clock(HOUR / 2);
    until("a is forgotten", || (!remembers(&mut client, "k", "a")).then_some(()));
    assert!(remembers(&mut client, "k", "b") && remembers(&mut client, "k", "c"));
    server.shift_clock(HOUR);
    until("c is forgotten", || (remembered(&mut client, "k") == 1).then_some(()));
    assert!(!remembers(&mut client, "k", "c") && remembers(&mut client, "k", "b"));
    server.shift_clock(3 * HOUR);
    until("b is forgotten", || (remembered(&mut client, "k") == 0).then_some(()));
    // The clock steps back: ids settled then are remembered all the same.
    server.shift_clock(-HOUR);
    settle(&mut client, "d");
    assert!(remembers(&mut client, "k", "d"));
    assert_eq!(client.ask("DEHYDRATOR.LIMIT k REMEMBER 0"), Value::Okay);
    assert!(!client.exists("k"), "it is empty and has nothing to do");
}

#[test]
fn a_limit_of_0_forgets_everything_at_once() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000 LENGTH 1000");
    settle(&mut client, "a");
    client.ask("DEHYDRATOR.LIMIT k LENGTH 0");
    assert!(remembers(&mut client, "k", "a"), "another limit has nothing to do with it");
    client.ask("DEHYDRATOR.PUSH k 600000 element stays");
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 0");
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
    assert!(!remembers(&mut client, "k", "a"));
    assert_eq!(remembered(&mut client, "k"), 0);
}

#[test]
fn ids_of_every_kind_are_distinguished() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
    let long = vec![b'x'; 100_000];
    let longer = vec![b'x'; 100_001];
    let ids = [&b""[..], b"\0", b"\0\0", b"a\r\nb", b"\xff\xfe", &long, &[7; 1012], &[7; 1013]];
    let push = |client: &mut Connection, id: &[u8]| {
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        push.arg("k").arg(0).arg("element").arg(id).arg("NX").query::<Value>(client)
    };
    for id in ids {
        assert_eq!(push(&mut client, id), Ok(Value::Okay));
        client.ask("DEHYDRATOR.POLL k");
    }
    for _ in 0..2 {
        for id in ids {
            assert_eq!(push(&mut client, id), Ok(Value::Nil), "{}", id.escape_ascii());
        }
        assert_eq!(push(&mut client, &longer), Ok(Value::Okay));
        let mut rem = redis::cmd("DEHYDRATOR.REM");
        rem.arg("k").arg(&longer[..]).exec(&mut client).expect("it was there");
        client.ask("DEBUG RELOAD");
    }
    assert_eq!(remembered(&mut client, "k"), ids.len() as u64);
}

/// Remembers ids of each kind that the encoding distinguishes.
fn fill(client: &mut Connection) {
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 86400000");
    settle(client, "day");
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 9223372036854775807");
    settle(client, "ever");
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
    settle_many(client, 0..5000);
    client.ask("DEHYDRATOR.PUSH k 600000 element waits");
    client.ask("DEHYDRATOR.PUSH k 600000 again 0000000000000007 REPLACE");
}

fn holds(client: &mut Connection) {
    for id in ["day", "ever", "0000000000000006", "0000000000004999"] {
        assert!(remembers(client, "k", id), "{id}");
    }
    for id in ["waits", "0000000000000007"] {
        let refused = client.refused(&format!("DEHYDRATOR.PUSH k 0 x {id}"));
        assert!(refused.contains("is there already"), "{refused}");
    }
}

#[test]
fn ids_survive_restarts_reloads_copies_dumps_and_renames() {
    for options in [
        &["--save", "3600 1"][..],
        &["--appendonly", "yes"],
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"],
    ] {
        let (mut server, mut client) = Server::with_client(options);
        fill(&mut client);
        let before = client.digest("k");
        if options.contains(&"--appendonly") {
            // From single effects, and from a rewritten file.
            server.crash_and_restart();
            client = server.connect();
            assert_eq!(client.digest("k"), before, "{options:?}");
            client.rewrite_aof();
            server.crash_and_restart();
        } else {
            server.restart();
        }
        client = server.connect();
        assert_eq!(client.digest("k"), before, "{options:?}");
        holds(&mut client);
        assert_eq!(client.ask("COPY k copy"), Value::Int(1));
        assert_eq!(client.digest("copy"), before);
        let dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
        client.ask("DEL k");
        redis::cmd("RESTORE").arg("k").arg(0).arg(dump).exec(&mut client).expect("our own");
        assert_eq!(client.digest("k"), before);
        holds(&mut client);
        client.ask("RENAME copy k");
        holds(&mut client);
        // Changing the limits of the copy does not change the original.
        client.ask("COPY k copy");
        client.ask("DEHYDRATOR.LIMIT copy REMEMBER 0");
        assert_eq!((client.digest("k"), remembered(&mut client, "copy")), (before, 0));
    }
}

#[test]
fn a_replica_remembers_the_same_ids_and_keeps_them_when_promoted() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    let mut client = primary.connect();
    fill(&mut client);
    replica.follow(&primary);
    let mut other = replica.connect();
    assert_eq!(client.digest("k"), other.digest("k"), "by a full sync");
    // Single effects, in transactions and scripts too.
    settle(&mut client, "one");
    client.ask("DEHYDRATOR.MPUSH k 0 x two 0 x three 0 x four");
    client.ask("MULTI");
    client.ask("DEHYDRATOR.PULL k two");
    client.ask("DEHYDRATOR.XACK k three none");
    client.ask("DEHYDRATOR.PUSH k 0 x three REPLACE");
    client.ask("EXEC");
    let mut eval = redis::cmd("EVAL");
    eval.arg("return redis.call('DEHYDRATOR.PULL', KEYS[1], 'four')").arg(1).arg("k");
    eval.exec(&mut client).expect("a reply");
    let sleeper = Sleeper::start(&primary, "DEHYDRATOR.POLL empty BLOCK 0");
    client.ask("DEHYDRATOR.LIMIT empty REMEMBER 600000");
    client.ask("DEHYDRATOR.PUSH empty 0 element five");
    sleeper.reply();
    client.ask("DEHYDRATOR.ONDUE s STREAM stream");
    client.ask("DEHYDRATOR.LIMIT s REMEMBER 600000");
    client.ask("DEHYDRATOR.PUSH s 0 element six");
    until("it is delivered", || (client.ask("XLEN stream") == Value::Int(1)).then_some(()));
    catch_up(&primary, &replica);
    for key in ["k", "empty", "s"] {
        assert_eq!(client.digest(key), other.digest(key), "{key}");
    }
    client.ask("FAILOVER");
    until("the roles have changed", || {
        let Value::Array(role) = other.ask("ROLE") else { panic!("an array") };
        (role[0] == text("master")).then_some(())
    });
    holds(&mut other);
    for (key, id, is) in [
        ("k", "one", true),
        ("k", "two", true),
        ("k", "four", true),
        ("empty", "five", true),
        ("s", "six", true),
        ("s", "seven", false),
    ] {
        assert_eq!(remembers(&mut other, key, id), is, "{id}");
    }
    assert!(other.refused("DEHYDRATOR.PUSH k 0 x three").contains("is there already"));
}

#[test]
fn remembered_ids_move_with_their_slot() {
    let Some(cluster) = migration::start(0) else { return };
    let [mut here, mut there] = [0, 1].map(|node| cluster.nodes[node].connect());
    here.ask("DEHYDRATOR.LIMIT {fHh}:k REMEMBER 600000");
    here.ask("DEHYDRATOR.MPUSH {fHh}:k 0 element a 0 element b");
    here.ask("DEHYDRATOR.POLL {fHh}:k");
    cluster.move_at_once(0, 1, migration::SLOTS);
    assert!(["a", "b"].iter().all(|id| remembers(&mut there, "{fHh}:k", id)));
    assert!(!remembers(&mut there, "{fHh}:k", "c"));
}

fn usage(client: &mut Connection, key: &str) -> u64 {
    cmd(&format!("MEMORY USAGE {key} SAMPLES 0")).query(client).expect("a number")
}

#[test]
fn an_id_takes_56_bytes_and_returns_them_without_any_write() {
    let server = Server::start_with_clock(&["--hz", "100"]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 3600000");
    let empty = usage(&mut client, "k");
    settle_many(&mut client, 0..100_000);
    let full = usage(&mut client, "k");
    let each = (full - empty) as f64 / 100_000.0;
    println!("{each:.1} bytes");
    assert!(each <= 60.0, "{each} bytes");
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
    assert_eq!(remembered(&mut client, "k"), 100_000);
    server.shift_clock(2 * HOUR);
    until("it is all given back", || (usage(&mut client, "k") < empty + 8000).then_some(()));
    assert_eq!(remembered(&mut client, "k"), 0);
}

#[test]
fn memory_is_returned_under_any_name_of_a_key() {
    let server = Server::start_with_clock(&["--hz", "100"]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 3600000");
    let empty = usage(&mut client, "k");
    let fill = |client: &mut Connection, keys: &[&str]| {
        client.ask("DEHYDRATOR.LIMIT k REMEMBER 3600000");
        // Elements of a burst leave in any order as well.
        settle_many(client, 0..5000);
        // Clients are faster than the cron, so all of them have memory to return.
        for line in keys {
            client.ask(line);
        }
    };
    // Each command that renames, and where all keys are in the end.
    let ways: [(&[&str], &str); 6] = [
        (&[], "k"),
        (&["RENAME k renamed"], "renamed"),
        (&["COPY k copy", "DEL k"], "copy"),
        (&["RENAME k a", "RENAME a b", "COPY b copied"], "copied"),
        (&["MOVE k 1", "SELECT 1"], "k"),
        (&["SWAPDB 0 2", "SELECT 2"], "k"),
    ];
    for (round, (lines, key)) in (1..).zip(ways) {
        client.ask("SELECT 0");
        client.ask("FLUSHALL");
        fill(&mut client, lines);
        until(key, || (remembered(&mut client, key) == 5000).then_some(()));
        let full = usage(&mut client, key);
        assert!(full > 100_000, "{full} bytes by {lines:?}");
        server.shift_clock(2 * HOUR * round);
        until(&format!("it is all given back after {lines:?}"), || {
            (usage(&mut client, key) < empty + 8000).then_some(())
        });
        assert_eq!(remembered(&mut client, key), 0);
    }
}

#[test]
fn a_dump_of_ids_with_random_times_stays_small_when_restored() {
    let (_server, mut client) = Server::with_client(&[]);
    let now = 4_102_444_800_000_u64;
    // A window of a hundred days, and one that is made smaller each time.
    for (key, random) in [("random", true), ("smaller", false)] {
        client.ask(&format!("DEHYDRATOR.LIMIT {key} REMEMBER 3600000"));
        let mut pipe = redis::pipe();
        for id in 0..50_000_u64 {
            let offset = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 31;
            let until = if random { now + offset } else { now - 10_000 * id };
            let settled = pipe.cmd("DEHYDRATOR.EFFECT").arg(key).arg(format!("S{until}"));
            settled.arg(&id.to_le_bytes()[..]).ignore();
        }
        pipe.exec(&mut client).expect("replies");
        let before = usage(&mut client, key);
        let dump: Vec<u8> = cmd(&format!("DUMP {key}")).query(&mut client).expect("a dump");
        client.ask(&format!("DEL {key}"));
        redis::cmd("RESTORE").arg(key).arg(0).arg(&dump).exec(&mut client).expect("our own");
        assert_eq!(remembered(&mut client, key), 50_000);
        let after = usage(&mut client, key);
        println!("{before} bytes, {} of a dump, {after} when it is restored", dump.len());
        assert!(before < 50_000 * 90 && after < 50_000 * 90, "{before} and {after} bytes");
        assert!(after < 13 * dump.len() as u64, "{after} of {}", dump.len());
    }
}

#[test]
fn forgetting_very_many_ids_stalls_nobody() {
    let server = Server::start_with_clock(&["--hz", "100"]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 3600000");
    settle_many(&mut client, 0..300_000);
    client.ask("COPY k expires");
    let used = |info: &Value| {
        let Value::BulkString(text) = info else { panic!("text") };
        field_of(&String::from_utf8_lossy(text), "used_memory")
    };
    let full = used(&client.ask("INFO memory"));
    // The command itself frees nothing: later ticks do, a little at a time.
    let mut pipe = redis::pipe();
    pipe.atomic().add_command(cmd("DEHYDRATOR.LIMIT k REMEMBER 0"));
    pipe.add_command(cmd("INFO memory"));
    let replies: Vec<Value> = pipe.query(&mut client).expect("replies");
    let (before, at_once) = (full, used(&replies[1]));
    assert!(at_once + 2_000_000 > before, "{at_once} of {before}");
    assert!(!client.exists("k"));
    until("the memory is free", || {
        (used(&client.ask("INFO memory")) + 9_000_000 < full).then_some(())
    });

    // Expired ids are freed while clients run, and reads show fewer and fewer.
    let full = usage(&mut client, "expires");
    server.shift_clock(2 * HOUR);
    let mut seen = BTreeSet::new();
    until("all are forgotten", || {
        client.ask("DEHYDRATOR.PUSH expires 0 element id REPLACE");
        client.ask("DEHYDRATOR.POLL expires");
        let left = usage(&mut client, "expires");
        seen.insert(left);
        (left < full / 20).then_some(())
    });
    assert!(seen.len() > 10, "{} numbers between all and none", seen.len());
    assert_eq!(remembered(&mut client, "expires"), 1);
}

#[test]
fn settled_is_for_replication_and_removes_existing_elements() {
    let (_server, mut client) = Server::with_client(&[]);
    assert_eq!(client.ask("DEHYDRATOR.EFFECT nowhere S4102444800000 a"), Value::Int(0));
    assert!(!client.exists("nowhere"));
    client.ask("DEHYDRATOR.MPUSH k 0 element a 600000 element b");
    // Without REMEMBER, nothing is remembered.
    assert_eq!(client.ask("DEHYDRATOR.EFFECT k S4102444800000 a none"), Value::Int(1));
    assert!(!remembers(&mut client, "k", "a"));
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 5");
    assert_eq!(client.ask("DEHYDRATOR.EFFECT k S4102444800000 b none"), Value::Int(1));
    assert_eq!(remembered(&mut client, "k"), 2);
    assert!(remembers(&mut client, "k", "b") && remembers(&mut client, "k", "none"));
    assert_eq!(client.ask("DEHYDRATOR.EFFECT k S5 none"), Value::Int(1));
    assert!(!remembers(&mut client, "k", "none"));
    for wrong in ["S-1", "Sx", "S9223372036854775808"] {
        let refused = client.refused(&format!("DEHYDRATOR.EFFECT k {wrong} a"));
        assert!(refused.contains("is not the head of an effect"), "{refused}");
    }
}
