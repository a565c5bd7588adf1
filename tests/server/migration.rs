//! Atomic slot migration: CLUSTER MIGRATESLOTS of Valkey 9, CLUSTER MIGRATION of Redis 8.4. On older servers, these
//! tests do nothing, and say so.

use std::io::Write;

use redis::{Connection, Value};

use crate::cluster::under_load;
use harness::nodes::Cluster;
use harness::{Ask, Server, cmd, text, texts, until};

/// The slots that move: the first is that of the tag `fHh`.
pub const SLOTS: (usize, usize) = (0, 4000);

/// Returns a cluster, or `None` if this server lacks the feature.
pub fn start(replicas: usize) -> Option<Cluster> {
    let version = Server::start(&[]).version();
    let can = if version.is_valkey { version >= (9, 0) } else { version >= (8, 4) };
    if !can {
        // Print directly to the terminal: the output of a passing test is hidden.
        let _ = writeln!(std::io::stderr(), "skipped: {version:?} does not move slots at once");
    }
    can.then(|| Cluster::start(3, replicas))
}

fn xlen(node: &mut Connection, stream: &str) -> i64 {
    let Value::Int(length) = node.ask(&format!("XLEN {stream}")) else { panic!("a number") };
    length
}

/// Returns the ids that were delivered to a stream, in order.
fn delivered(node: &mut Connection, stream: &str) -> Vec<usize> {
    let entries: Vec<(String, [String; 4])> =
        cmd(&format!("XRANGE {stream} - +")).query(node).expect("a stream");
    entries.iter().map(|(_, fields)| fields[1].parse().expect("an id")).collect()
}

/// Returns a client that is blocked in a POLL.
fn sleeper(node: &Server, key: &str) -> Connection {
    let blocked = node.info("dehydrator", "dehydrator_blocked_clients");
    let mut sleeper = node.connect();
    let poll = cmd(&format!("DEHYDRATOR.POLL {key} BLOCK 0"));
    sleeper.send_packed_command(&poll.get_packed_command()).expect("it is sent");
    until("it is asleep", || {
        (node.info("dehydrator", "dehydrator_blocked_clients") == blocked + 1).then_some(())
    });
    sleeper
}

#[test]
fn slots_that_migrate_atomically_under_load_lose_nothing_and_deliver_nothing_twice() {
    let Some(cluster) = start(1) else { return };
    under_load(&cluster, || {
        for _ in 0..4 {
            cluster.move_at_once(0, 1, SLOTS);
            cluster.move_at_once(1, 0, SLOTS);
        }
    });
}

#[test]
fn elements_due_during_a_migration_are_delivered_once_in_order_by_either_owner() {
    const ELEMENTS: usize = 4000;
    let Some(cluster) = start(0) else { return };
    let [mut here, mut there] = [0, 1].map(|node| cluster.nodes[node].connect());
    here.ask("DEHYDRATOR.ONDUE {fHh}:k STREAM {fHh}:s");
    // One per millisecond, for longer than three migrations take.
    for number in 0..ELEMENTS {
        let ttl = 500 + number;
        here.ask(&format!("DEHYDRATOR.PUSH {{fHh}}:k {ttl} element {number}"));
    }
    until("some are delivered", || (xlen(&mut here, "{fHh}:s") > 500).then_some(()));
    // There and back and there again, while they come due. After each, the moved data is complete.
    let mut before = 0;
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        cluster.move_at_once(from, to, SLOTS);
        let ids = delivered(&mut cluster.nodes[to].connect(), "{fHh}:s");
        assert!(ids.iter().copied().eq(0..ids.len()), "each once, in order: {ids:?}");
        assert!(ids.len() >= before, "{} after {before}", ids.len());
        before = ids.len();
    }
    assert!(before < ELEMENTS, "all came due before the last move had ended");
    until("all are delivered", || (xlen(&mut there, "{fHh}:s") == ELEMENTS as i64).then_some(()));
    assert!(delivered(&mut there, "{fHh}:s").into_iter().eq(0..ELEMENTS), "each once, in order");
    assert_eq!(there.ask("DEHYDRATOR.LEN {fHh}:k"), Value::Int(0));
    let by = [0, 1].map(|node| cluster.nodes[node].info("dehydrator", "dehydrator_deliveries"));
    assert_eq!(by[0] + by[1], ELEMENTS as u64, "{by:?}");
    assert!(by[0] > 0 && by[1] > 0, "{by:?}");
    until("the old node has forgotten it", || {
        (cluster.nodes[0].info("dehydrator", "dehydrator_scheduled") == 0).then_some(())
    });
}

#[test]
fn leases_deadlines_and_policies_migrate_and_blocked_clients_are_unblocked() {
    let Some(cluster) = start(0) else { return };
    let [mut here, mut there] = [0, 1].map(|node| cluster.nodes[node].connect());
    here.ask("DEHYDRATOR.ONDUE {fHh}:bound PUBLISH news");
    for (ttl, id) in [(0, "long"), (0, "short"), (600_000, "later"), (400, "soon")] {
        here.ask(&format!("DEHYDRATOR.PUSH {{fHh}}:l {ttl} element-{id} {id}"));
    }
    type Row = (String, String, u64, String);
    let poll = |node: &mut Connection, options: &str| -> Vec<Row> {
        cmd(&format!("DEHYDRATOR.POLL {{fHh}}:l {options}")).query(node).expect("rows")
    };
    let held = poll(&mut here, "COUNT 1 LEASE 600000").remove(0);
    poll(&mut here, "COUNT 1 LEASE 1");
    let mut sleepers = ["{fHh}:w", "{fHh}:w", "{fHh}:x"].map(|key| sleeper(&cluster.nodes[0], key));
    let pttl = |node: &mut Connection, id: &str| -> i64 {
        cmd(&format!("DEHYDRATOR.PTTL {{fHh}}:l {id}")).query(node).expect("a number")
    };
    let left = ["long", "later"].map(|id| pttl(&mut here, id));
    cluster.move_at_once(0, 1, SLOTS);

    for sleeper in &mut sleepers {
        let reply = sleeper.recv_response().expect("a reply");
        let Value::ServerError(error) = reply else { panic!("{reply:?}") };
        assert!(error.code().contains("UNBLOCKED") || error.code().contains("MOVED"), "{error:?}");
    }
    let refused = here.refused("DEHYDRATOR.LEN {fHh}:l");
    assert!(refused.starts_with("MOVED"), "{refused}");
    // The long lease holds; the short one has expired, and counts.
    for (id, before) in ["long", "later"].into_iter().zip(left) {
        let after = pttl(&mut there, id);
        assert!((1..=before).contains(&after), "{id}: {before}, and then {after}");
    }
    until("both are due", || {
        (there.ask("DEHYDRATOR.XPOLL {fHh}:l") == texts(&["short", "soon"])).then_some(())
    });
    let leased = poll(&mut there, "LEASE 600000");
    let leased: Vec<_> = leased.iter().map(|(id, _, count, _)| (&id[..], *count)).collect();
    assert_eq!(leased, [("short", 2), ("soon", 1)]);
    // Its holder settles it there; nobody else can.
    for (token, settled) in [("another", 0), (&held.3[..], 1)] {
        let reply = there.ask(&format!("DEHYDRATOR.SETTLE {{fHh}}:l {token} {}", held.0));
        assert_eq!(reply, Value::Array(vec![Value::Int(settled)]));
    }
    let settled = there.ask("DEHYDRATOR.XACK {fHh}:l long short later");
    assert_eq!(settled, Value::Array(vec![Value::Nil, text("element-short"), Value::Nil]));
    let policy = format!("{:?}", there.ask("DEHYDRATOR.INFO {fHh}:bound"));
    assert!(policy.contains("PUBLISH") && policy.contains("news"), "{policy}");
    // An unblocked client blocks there, and is woken there.
    let mut woken = sleeper(&cluster.nodes[1], "{fHh}:w");
    there.ask("DEHYDRATOR.PUSH {fHh}:w 0 element id");
    assert_eq!(woken.recv_response().expect("a reply"), texts(&["element"]));
    until("the old node is empty", || {
        let left = ["dehydrators", "scheduled", "blocked_clients"];
        let left =
            left.map(|field| cluster.nodes[0].info("dehydrator", &format!("dehydrator_{field}")));
        (left == [0; 3]).then_some(())
    });
}
