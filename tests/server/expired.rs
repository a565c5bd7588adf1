//! WITHIN: elements that are too late to be given out.

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, texts, until};

/// The ids in a stream of dead letters, in order, each with its deliveries, and whether it expired.
type Dead = Vec<(String, u64, bool)>;

fn dead(client: &mut Connection, key: &str) -> Dead {
    let entries: Vec<(String, Vec<String>)> =
        cmd(&format!("XRANGE {key} - +")).query(client).expect("a stream");
    let row = |(_, fields): (String, Vec<String>)| {
        let names: Vec<_> = fields.iter().step_by(2).map(String::as_str).collect();
        let is_expired = names.len() == 4;
        let expected = ["id", "element", "deliveries", "reason"];
        assert_eq!(names, expected[..if is_expired { 4 } else { 3 }]);
        assert!(!is_expired || fields[7] == "expired", "{fields:?}");
        (fields[1].clone(), fields[5].parse().expect("a number"), is_expired)
    };
    entries.into_iter().map(row).collect()
}

/// Waits for so many dead letters.
fn died(client: &mut Connection, key: &str, count: usize) -> Dead {
    until(&format!("{count} are in {key}"), || {
        let dead = dead(client, key);
        (dead.len() >= count).then_some(dead)
    })
}

fn gone(client: &mut Connection, key: &str) {
    until("it is gone", || (!client.exists(key)).then_some(()));
}

fn one(number: i64) -> Value {
    Value::Array(vec![Value::Int(number)])
}

fn now(client: &mut Connection) -> u64 {
    let [seconds, us]: [u64; 2] = cmd("TIME").query(client).expect("the time");
    seconds * 1000 + us / 1000
}

/// Waits until a moment has passed on the server's clock.
fn passed(client: &mut Connection, moment: u64) {
    until("the moment has passed", || (now(client) > moment).then_some(()));
}

/// Waits until the module has had two more ticks, in which it does what it has to.
fn ticked(server: &Server) {
    let ticks = || server.info("dehydrator", "dehydrator_ticks");
    let before = ticks();
    until("it ticks", || (ticks() >= before + 2).then_some(()));
}

/// Asserts that a copy of a key, and one that is restored from its dump, are equal to it.
pub fn copies_are_equal(client: &mut Connection, key: &str) {
    client.ask(&format!("COPY {key} copy REPLACE"));
    assert_eq!(client.digest("copy"), client.digest(key));
    let dump: Vec<u8> = cmd(&format!("DUMP {key}")).query(client).expect("a dump");
    let mut restore = redis::cmd("RESTORE");
    restore.arg("restored").arg(0).arg(&dump).arg("REPLACE").exec(client).expect("it loads");
    assert_eq!(client.digest("restored"), client.digest(key));
}

#[test]
fn what_nobody_takes_in_time_is_dropped_or_is_a_dead_letter_by_itself() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 5 element id WITHIN 30");
    client.ask("DEHYDRATOR.PUSH k 5 element stays WITHIN 600000");
    until("it is dropped", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k stays"), text("element"));
    assert_eq!(server.info("dehydrator", "dehydrator_expired"), 1);
    assert_eq!(server.info("dehydrator", "dehydrator_dead_letters"), 0);
    client.ask("DEHYDRATOR.PUSH alone 0 element id WITHIN 1");
    gone(&mut client, "alone");

    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 3 STREAM s");
    client.ask("DEHYDRATOR.MPUSH k 5 A a 1 B b 600000 C c WITHIN 40");
    assert_eq!(died(&mut client, "s", 2), [("b".into(), 0, true), ("a".into(), 0, true)]);
    client.ask("DEHYDRATOR.GIDPUSH k 0 element WITHIN 10");
    died(&mut client, "s", 3);
    // Its TTL is that of a rejected element that is stuck.
    let ago = now(&mut client) - 50_000;
    client.ask(&format!("DEHYDRATOR.PUSH k {} element d WITHIN 1000 AT {ago}", i64::MAX - 1));
    assert_eq!(died(&mut client, "s", 4)[3], ("d".into(), 0, true));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(2));
    assert_eq!(server.info("dehydrator", "dehydrator_expired"), 6);
    assert_eq!(server.info("dehydrator", "dehydrator_dead_letters"), 4);
}

#[test]
fn nobody_gets_an_expired_element_even_before_the_server_moves_it() {
    let (_server, mut client) = Server::with_client(&[]);
    for rule in ["HOLD", "HOLD DELIVERIES 9 STREAM s"] {
        client.ask(&format!("DEHYDRATOR.ONDUE k {rule}"));
        client.ask("MULTI");
        // In a transaction the server cannot remove anything between two commands.
        for line in [
            "DEHYDRATOR.PUSH k 0 element a AT 1 WITHIN 5",
            "DEHYDRATOR.PUSH k 0 element b AT 2 WITHIN 9223372036854775807",
            "DEHYDRATOR.EFFECT k P0@3,until=9 element c",
            "DEHYDRATOR.PUSH k 0 element d AT 4 DELIVERIES 9",
            "DEHYDRATOR.XPOLL k",
            "DEHYDRATOR.POLL k WITHIDS COUNT 9",
            "DEHYDRATOR.LEN k",
        ] {
            client.ask(line);
        }
        let Value::Array(replies) = client.ask("EXEC") else { panic!("no replies") };
        let given = ["b", "d"].map(|id| texts(&[id, "element"])).to_vec();
        let expected = [texts(&["b", "d"]), Value::Array(given), Value::Int(0)];
        assert_eq!(replies[4..], expected, "{rule}");
    }
    assert_eq!(dead(&mut client, "s"), [("a".into(), 0, true), ("c".into(), 0, true)]);
}

#[test]
fn a_lease_that_began_in_time_may_end_late_but_not_begin_again() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 9 STREAM s");
    for id in ["settled", "lost", "released", "renewed"] {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element {id} WITHIN 800"));
    }
    let poll = |client: &mut Connection, lease: u64, token: &str| {
        client.ask(&format!("DEHYDRATOR.POLL k COUNT 1 LEASE {lease} TOKEN {token}"));
    };
    poll(&mut client, 600_000, "one");
    poll(&mut client, 1000, "two");
    poll(&mut client, 600_000, "three");
    poll(&mut client, 1000, "four");
    assert_eq!(client.ask("DEHYDRATOR.RENEW k 600000 four renewed"), one(1));
    assert_eq!(died(&mut client, "s", 1), [("lost".into(), 1, true)]);
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k one settled"), one(1));
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k two lost"), one(0));
    // Given back, it is due, and too late.
    assert_eq!(client.ask("DEHYDRATOR.RELEASE k 0 three released"), one(1));
    assert_eq!(died(&mut client, "s", 2)[1], ("released".into(), 1, true));
    // A back-off ends first.
    assert_eq!(client.ask("DEHYDRATOR.RELEASE k 80 four renewed"), one(1));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    assert_eq!(died(&mut client, "s", 3)[2], ("renewed".into(), 1, true));
    // One that is rejected was not too late.
    client.ask("DEHYDRATOR.PUSH k 0 element rejected WITHIN 500");
    let end = now(&mut client) + 500;
    poll(&mut client, 600_000, "five");
    passed(&mut client, end);
    assert_eq!(client.ask("DEHYDRATOR.REJECT k five rejected"), one(1));
    assert_eq!(dead(&mut client, "s")[3], ("rejected".into(), 1, false));
}

#[test]
fn a_new_deadline_moves_the_end_too_and_a_new_element_has_its_own() {
    let (_server, mut client) = Server::with_client(&[]);
    let until_of = |client: &mut Connection, id: &str| {
        let fields: std::collections::HashMap<String, Value> =
            cmd(&format!("DEHYDRATOR.LOOK k {id} FULL")).query(client).expect("a map");
        (fields["deliveries-limit"].clone(), fields["until"].clone())
    };
    let at = now(&mut client) + 600_000;
    client.ask(&format!("DEHYDRATOR.PUSH k 5 element id AT {at} WITHIN 1000 DELIVERIES 7"));
    let bounds = |until: u64| (Value::Int(7), Value::Int(until as i64));
    assert_eq!(until_of(&mut client, "id"), bounds(at + 1000));
    client.ask(&format!("DEHYDRATOR.TOUCH k 5 AT {} id", at + 300));
    assert_eq!(until_of(&mut client, "id"), bounds(at + 1300));
    client.ask(&format!("DEHYDRATOR.TOUCH k 5 AT {} IDS 1 id", at - 300_000));
    assert_eq!(until_of(&mut client, "id"), bounds(at - 299_000));
    client.ask("DEHYDRATOR.UPDATE k id other");
    assert_eq!(until_of(&mut client, "id"), bounds(at - 299_000));
    client.ask("DEHYDRATOR.PUSH k 5 element id NX WITHIN 1");
    assert_eq!(until_of(&mut client, "id"), bounds(at - 299_000));
    // Its worker does not postpone it.
    client.ask(&format!("DEHYDRATOR.EFFECT k L5@{at}@7 id"));
    client.ask("DEHYDRATOR.RENEW k 600000 7 id");
    client.ask(&format!("DEHYDRATOR.TOUCH k 5 AT {at} id"));
    assert_eq!(until_of(&mut client, "id"), bounds(at - 299_000));
    client.ask("DEHYDRATOR.PUSH k 600000 element id REPLACE");
    assert_eq!(until_of(&mut client, "id"), (Value::Int(0), Value::Nil));
    client.ask("DEHYDRATOR.PUSH k 600000 element id REPLACE WITHIN 5");
    client.ask("DEHYDRATOR.TOUCH k 0 id");
    gone(&mut client, "k");
}

#[test]
fn an_end_keeps_its_distance_while_its_element_is_put_off_for_good() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    let until_of = |client: &mut Connection, id: &str| {
        let fields: std::collections::HashMap<String, Value> =
            cmd(&format!("DEHYDRATOR.LOOK k {id} FULL")).query(client).expect("a map");
        fields["until"].clone()
    };
    let [far, farther] = [1_i64 << 53, i64::MAX - 1];
    client.ask("DEHYDRATOR.PUSH k 1 element moved WITHIN 600000");
    client.ask(&format!("DEHYDRATOR.PUSH k 1 element pushed AT {far} WITHIN 600000"));
    client.ask(&format!("DEHYDRATOR.TOUCH k 1 AT {far} moved"));
    for id in ["moved", "pushed"] {
        assert_eq!(until_of(&mut client, id), Value::Int(far + 600_000), "{id}");
        client.ask(&format!("DEHYDRATOR.TOUCH k 1 AT {farther} {id}"));
        client.ask(&format!("DEHYDRATOR.TOUCH k 1 AT {far} IDS 1 {id}"));
        copies_are_equal(&mut client, "k");
        assert_eq!(until_of(&mut client, id), Value::Int(far + 600_000), "{id}");
        let at = now(&mut client) as i64 + 600_000;
        client.ask(&format!("DEHYDRATOR.TOUCH k 1 AT {at} {id}"));
        assert_eq!(until_of(&mut client, id), Value::Int(at + 600_000), "{id}");
        client.ask(&format!("DEHYDRATOR.TOUCH k 1 AT {far} {id}"));
    }
    client.ask("DEHYDRATOR.TOUCH k 1 IDS 2 moved pushed");
    let Value::Array(taken) = until("both are due", || {
        (client.ask("DEHYDRATOR.TTN k") == Value::Int(0))
            .then(|| client.ask("DEHYDRATOR.POLL k LEASE 600000"))
    }) else {
        panic!("elements")
    };
    assert_eq!(taken.len(), 2, "they are given out, and have not expired");
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().digest("k"), client.digest("k"));
}

#[test]
fn what_is_late_is_not_delivered_either_and_a_pause_holds_it() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PAUSE k");
    client.ask("DEHYDRATOR.MPUSH k 0 A a 0 B b WITHIN 10");
    client.ask("DEHYDRATOR.PUSH k 0 element c");
    client.ask("DEHYDRATOR.PUSH k 0 element d WITHIN 600000");
    let end = now(&mut client) + 10;
    passed(&mut client, end);
    ticked(&server);
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(4), "nothing leaves in a pause");
    client.ask("DEHYDRATOR.RESUME k");
    let ids = until("two are delivered", || {
        let entries: Vec<(String, Vec<String>)> =
            cmd("XRANGE s - +").query(&mut client).expect("a stream");
        let ids: Vec<_> = entries.into_iter().map(|(_, fields)| fields[1].clone()).collect();
        (ids.len() >= 2).then_some(ids)
    });
    assert_eq!(ids, ["c", "d"]);
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
    let counted = |name: &str| server.info("dehydrator", &format!("dehydrator_{name}"));
    assert_eq!((counted("expired"), counted("deliveries")), (2, 2));
}

#[test]
fn what_cannot_be_moved_is_stuck_and_delays_nobody() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 9 STREAM s");
    client.ask("SET s text");
    client.ask("DEHYDRATOR.MPUSH k 0 A a 0 B b WITHIN 20");
    until("they are stuck", || {
        let stuck = ["a", "b"].map(|id| client.ask(&format!("DEHYDRATOR.PTTL k {id}")));
        (stuck == [Value::Int(-1), Value::Int(-1)]).then_some(())
    });
    client.ask("DEHYDRATOR.PUSH k 0 element live WITHIN 600000");
    let given = Value::Array(vec![texts(&["live", "element"])]);
    assert_eq!(client.ask("DEHYDRATOR.POLL k WITHIDS"), given);
    client.ask("DEL s");
    assert_eq!(died(&mut client, "s", 2), [("a".into(), 0, true), ("b".into(), 0, true)]);
    // Without a rule those that are stuck are dropped.
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 9 STREAM t");
    client.ask("SET t text");
    client.ask("DEHYDRATOR.PUSH k 0 element c WITHIN 20");
    until("it is stuck", || (client.ask("DEHYDRATOR.PTTL k c") == Value::Int(-1)).then_some(()));
    client.ask("DEHYDRATOR.ONDUE k HOLD");
    gone(&mut client, "k");
}

#[test]
fn a_blocked_client_gets_the_one_behind() {
    let (server, mut client) = Server::with_client(&[]);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 WITHIDS");
    client.ask("MULTI");
    for id in 0..1500 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element late-{id} AT 1 WITHIN 5"));
    }
    client.ask("DEHYDRATOR.PUSH k 0 element live WITHIN 600000");
    client.ask("EXEC");
    assert_eq!(sleeper.reply(), Value::Array(vec![texts(&["live", "element"])]));
    gone(&mut client, "k");
    assert_eq!(server.info("dehydrator", "dehydrator_expired"), 1500);
}

#[test]
fn a_client_that_waits_gets_no_empty_reply_where_all_that_was_due_has_expired() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    let polls = [
        "POLL k BLOCK 0",
        "POLL k BLOCK 0 COUNT 1",
        "POLL k BLOCK 0 LEASE 60000 TOKEN mine",
        "MPOLL 2 other k BLOCK 0",
    ];
    for rule in ["HOLD", "HOLD DELIVERIES 1 STREAM s", "HOLD DELIVERIES 1 DROP"] {
        // More than one call passes over.
        for (count, poll) in [1, 3000].into_iter().flat_map(|it| polls.map(|poll| (it, poll))) {
            client.ask(&format!("DEHYDRATOR.ONDUE k {rule}"));
            let mut waiting = primary.connect();
            let mut push = redis::cmd("DEHYDRATOR.MPUSH");
            push.arg("k");
            for number in 0..count {
                push.arg(0).arg("late").arg(number);
            }
            push.arg("AT").arg(1_000_000_000_000_u64).arg("WITHIN").arg(1);
            let both = [push, cmd(&format!("DEHYDRATOR.{poll}"))].map(|it| it.get_packed_command());
            waiting.send_packed_command(&both.concat()).expect("it is sent");
            let pushed = waiting.recv_response().expect("a reply");
            assert!(matches!(pushed, Value::Array(pushed) if pushed.len() == count));
            until("the client sleeps, and the late ones are gone", || {
                let is_empty = client.ask("DEHYDRATOR.LEN k") == Value::Int(0);
                (is_empty && waiters(&primary) == 1).then_some(())
            });
            client.ask("DEHYDRATOR.PUSH k 0 element in-time");
            let reply = format!("{:?}", waiting.recv_response().expect("a reply"));
            assert!(reply.contains("element"), "{rule}, {count}, {poll}: {reply}");
            client.ask("DEL k s");
        }
    }
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().ask("DEBUG DIGEST"), client.ask("DEBUG DIGEST"));
    // One that does not wait, and one in a transaction, get their empty reply.
    let replies: Vec<Value> = redis::pipe()
        .atomic()
        .add_command(cmd("DEHYDRATOR.PUSH k 0 element id AT 1000000000000 WITHIN 1"))
        .ignore()
        .add_command(cmd("DEHYDRATOR.POLL k BLOCK 0"))
        .add_command(cmd("DEHYDRATOR.MPOLL 1 k BLOCK 0"))
        .query(&mut primary.connect())
        .expect("replies");
    assert_eq!(replies, [Value::Array(vec![]), Value::Nil]);
}

#[test]
fn bounds_are_part_of_the_value_wherever_it_goes() {
    let mut primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    let at = now(&mut client) + 600_000;
    for number in 0..200 {
        let bounds =
            ["DELIVERIES 9", "WITHIN 777", "DELIVERIES 3", "DELIVERIES 65535 WITHIN 9"][number % 4];
        let push = ["NX", "REPLACE", "SLACK 9"][number % 3];
        client.ask(&format!("DEHYDRATOR.PUSH k 600000 element i{number} {push} {bounds}"));
        client.ask(&format!("DEHYDRATOR.PUSH k 5 element j{number} AT {at} {bounds}"));
    }
    client.ask("DEHYDRATOR.MPUSH k 600000 A a 600000 B b WITHIN 5 DELIVERIES 2");
    client.ask("DEHYDRATOR.GIDPUSH k 600000 element WITHIN 5 DELIVERIES 2");
    client.ask(&format!("DEHYDRATOR.EFFECT k L600000@{at}@7 i1 i2 i3 i4"));
    client.ask("DEHYDRATOR.RELEASE k 500000 7 i1 7 i2 UNCOUNTED");
    client.ask("DEHYDRATOR.TOUCH k 700000 IDS 2 i5 i7");
    // A small one.
    client.ask("DEHYDRATOR.PUSH tiny 600000 element id WITHIN 7 DELIVERIES 2");
    client.ask(&format!("DEHYDRATOR.EFFECT tiny L600000@{at}@7 id"));
    catch_up(&primary, &replica);
    let keys = ["k", "tiny"];
    let digests = keys.map(|key| client.digest(key));
    let look = "DEHYDRATOR.LOOK k i7 FULL";
    let full = client.ask(look);
    assert_eq!(keys.map(|key| replica.connect().digest(key)), digests);
    for rewrites in [false, true] {
        if rewrites {
            client.rewrite_aof();
        }
        primary.restart();
        client = primary.connect();
        assert_eq!(keys.map(|key| client.digest(key)), digests);
        assert_eq!(client.ask(look), full);
    }
    keys.iter().for_each(|key| copies_are_equal(&mut client, key));
    // The copies expire too.
    client.ask("FLUSHALL");
    client.ask("DEHYDRATOR.PUSH k 100 element id WITHIN 100");
    client.ask("COPY k copy");
    primary.restart();
    client = primary.connect();
    gone(&mut client, "k");
    gone(&mut client, "copy");
}

#[test]
fn a_replica_expires_nothing_until_it_is_promoted() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    let mut there = replica.connect();
    client.ask("DEHYDRATOR.PUSH k 0 element id WITHIN 200");
    client.ask("DEHYDRATOR.PUSH k 600000 element stays");
    catch_up(&primary, &replica);
    until("the primary drops it", || {
        (client.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(())
    });
    catch_up(&primary, &replica);
    assert_eq!(there.digest("k"), client.digest("k"));
    client.ask("DEHYDRATOR.PUSH k 0 element late WITHIN 1000");
    let end = now(&mut client) + 1000;
    catch_up(&primary, &replica);
    drop(primary);
    passed(&mut there, end);
    ticked(&replica);
    assert_eq!(there.ask("DEHYDRATOR.LEN k"), Value::Int(2), "a replica waits for its primary");
    there.ask("REPLICAOF NO ONE");
    until("the new primary drops it", || {
        (there.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(())
    });
}

/// An element may come due and expire in any order among others, in lawns of either form.
#[test]
fn each_of_many_is_given_out_in_time_or_expires() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 9 STREAM s");
    let count = 20_000;
    let mut pipe = redis::pipe();
    for id in 0..count {
        // Some last as long as this takes on a busy machine.
        let within = if id % 100 == 0 { 600_000 } else { 1 + id * 104_729 % 500 };
        let ttl = id * 7919 % 500;
        pipe.cmd("DEHYDRATOR.PUSH")
            .arg("k")
            .arg(ttl)
            .arg("element")
            .arg(id)
            .arg("WITHIN")
            .arg(within);
        pipe.ignore();
    }
    pipe.exec(&mut client).expect("they are pushed");
    let mut given = std::collections::HashSet::new();
    until("all have left", || {
        let rows: Vec<(u64, String)> =
            cmd("DEHYDRATOR.POLL k COUNT 7 WITHIDS").query(&mut client).expect("rows");
        for (id, _) in rows {
            assert!(given.insert(id), "{id} is given out twice");
        }
        (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(())
    });
    let dead: Vec<u64> = dead(&mut client, "s")
        .into_iter()
        .map(|(id, deliveries, is_expired)| {
            assert_eq!((deliveries, is_expired), (0, true));
            id.parse().expect("a number")
        })
        .collect();
    assert_eq!(dead.len() + given.len(), count as usize);
    assert!(dead.iter().all(|id| !given.contains(id)));
    assert!(!dead.is_empty() && !given.is_empty());
    assert_eq!(server.info("dehydrator", "dehydrator_expired"), dead.len() as u64);
}
