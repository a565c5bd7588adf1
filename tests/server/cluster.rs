//! A real cluster: three primaries with a replica each; slots and roles that move under load.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Value;
use redis::cluster::ClusterConnection;

use crate::sleeper::Sleeper;
use harness::nodes::Cluster;
use harness::{Ask, Server, text, until};

pub fn start() -> Cluster {
    Cluster::start(3, 1)
}

/// The replies that clients got.
#[derive(Default)]
struct Books {
    pushed: HashSet<String>,
    taken: HashSet<String>,
    given_out_twice: Vec<String>,
}

/// Pushes to, pulls from and polls dehydrators in many slots, until told to stop.
fn trade(client: &mut ClusterConnection, name: usize, books: &Mutex<Books>, stop: &AtomicBool) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let key = format!("d:{}", number * 7 % 40);
        let id = format!("{name}-{number}");
        let ttl = if number % 2 == 0 { 0 } else { 600_000 };
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        push.arg(&key).arg(ttl).arg(&id).arg(&id);
        // Every other key has groups.
        if number * 7 % 40 % 2 == 0 {
            push.arg("GROUP").arg(["", "a", "b"][number % 3]);
        }
        assert_eq!(push.query(client), Ok(Value::Okay));
        books.lock().expect("no panic").pushed.insert(id.clone());
        let taken: Vec<String> = if number % 3 == 0 {
            let pulled: Option<String> =
                redis::cmd("DEHYDRATOR.PULL").arg(&key).arg(&id).query(client).expect("a reply");
            pulled.into_iter().collect()
        } else if number % 5 == 0 {
            redis::cmd("DEHYDRATOR.POLL").arg(&key).query(client).expect("a reply")
        } else {
            Vec::new()
        };
        let mut books = books.lock().expect("no panic");
        for id in taken {
            if !books.taken.insert(id.clone()) {
                books.given_out_twice.push(id);
            }
        }
    }
}

/// Asserts that every pushed element was taken once, or is still there.
fn audit(cluster: &Cluster, books: &Books) {
    let mut client = cluster.connect();
    assert_eq!(books.given_out_twice, [""; 0]);
    assert!(books.pushed.len() > 500 && books.taken.len() > 100, "{} pushes", books.pushed.len());
    for id in &books.pushed {
        let number: u64 = id.split('-').nth(1).expect("a number").parse().expect("a number");
        let key = format!("d:{}", number * 7 % 40);
        let look: Value =
            redis::cmd("DEHYDRATOR.LOOK").arg(&key).arg(id).query(&mut client).expect("a reply");
        let expected = if books.taken.contains(id) { Value::Nil } else { text(id) };
        assert_eq!(look, expected, "{id} in {key}");
    }
}

/// Runs clients while something changes, and checks their records.
pub fn under_load(cluster: &Cluster, change: impl FnOnce()) {
    let books = Mutex::new(Books::default());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in 0..2 {
            let mut client = cluster.connect();
            let (books, stop) = (&books, &stop);
            scope.spawn(move || {
                // A client that fails must not leave the others waiting.
                let _stop = StopWhenDropped(stop);
                trade(&mut client, name, books, stop);
            });
        }
        let _stop = StopWhenDropped(&stop);
        let pushed = || books.lock().expect("no panic").pushed.len();
        until("there is a load", || (pushed() > 500).then_some(()));
        change();
        let at_change = pushed();
        until("the load goes on", || (pushed() > at_change + 500).then_some(()));
    });
    audit(cluster, &books.into_inner().expect("no panic"));
}

struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn slots_that_move_under_load_lose_nothing_and_deliver_nothing_twice() {
    let cluster = start();
    let before = cluster.slots_of(1);
    under_load(&cluster, || {
        let (from, to) = (cluster.id_of(0), cluster.id_of(1));
        let address = cluster.address(0);
        // Not all slots: a primary without slots becomes a replica, which makes redis-cli fail.
        let slots = ["--cluster-slots", "5000", "--cluster-pipeline", "1"];
        let mut reshard = vec!["reshard", &address, "--cluster-from", &from, "--cluster-to", &to];
        reshard.extend(slots);
        cluster.manage(&reshard);
    });
    // More if it was restarted because a node was busy.
    assert!(cluster.slots_of(1) >= 5000 + before);
}

#[test]
fn a_replica_that_takes_over_loses_nothing_and_delivers_nothing_twice() {
    let cluster = start();
    under_load(&cluster, || fail_over(&cluster));
}

#[test]
fn a_client_that_asks_the_wrong_node_is_redirected() {
    let cluster = start();
    let mut moved = 0;
    for node in &cluster.nodes[..3] {
        let reply = harness::refusal(
            &harness::cmd("DEHYDRATOR.PUSH somewhere 0 element id"),
            &mut node.connect(),
        );
        moved += usize::from(reply.is_ok_and(|error| error.starts_with("MOVED")));
    }
    assert_eq!(moved, 2, "one of three nodes has the slot");
}

#[test]
fn a_blocked_client_is_unblocked_when_its_slot_moves_to_another_node() {
    let cluster = start();
    let slot = 0;
    // The key's hash tag is in slot 0.
    let poll = "DEHYDRATOR.POLL {fHh}:k BLOCK 0";
    assert_eq!(cluster.nodes[0].connect().ask("CLUSTER KEYSLOT {fHh}:k"), Value::Int(slot));
    let mut sleeper = cluster.nodes[0].connect();
    sleeper.send_packed_command(&harness::cmd(poll).get_packed_command()).expect("it is sent");
    until("it is asleep", || {
        (cluster.nodes[0].info("dehydrator", "dehydrator_blocked_clients") == 1).then_some(())
    });
    let to = cluster.id_of(1);
    for node in &cluster.nodes[..3] {
        node.connect().ask(&format!("CLUSTER SETSLOT {slot} NODE {to}"));
    }
    let error = sleeper.recv_response().expect("a reply");
    let Value::ServerError(error) = error else { panic!("{error:?}") };
    assert!(error.code().contains("UNBLOCKED"), "{error:?}");
    let error = cluster.nodes[0].connect().refused(poll);
    assert!(error.starts_with("MOVED"), "{error}");
}

#[test]
fn checking_the_slot_of_a_blocked_client_counts_no_keyspace_miss() {
    let cluster = start();
    let node = &cluster.nodes[0];
    let _sleeper = Sleeper::start(node, "DEHYDRATOR.POLL {fHh}:k BLOCK 0");
    node.connect().ask("CONFIG RESETSTAT");
    let ticks = node.info("dehydrator", "dehydrator_ticks");
    until("the tick has looked at it", || {
        (node.info("dehydrator", "dehydrator_ticks") > ticks + 3).then_some(())
    });
    assert_eq!(node.info("stats", "keyspace_misses"), 0);
    let Value::BulkString(stats) = node.connect().ask("INFO commandstats") else { panic!("text") };
    assert!(!String::from_utf8_lossy(&stats).contains("exists"));
}

#[test]
fn keys_of_several_slots_are_refused_and_clients_of_several_keys_are_unblocked_with_their_slot() {
    let cluster = start();
    let mut here = cluster.nodes[0].connect();
    for keys in ["{fHh}:a elsewhere", "elsewhere {fHh}:a"] {
        let refused = here.refused(&format!("DEHYDRATOR.MPOLL 2 {keys} BLOCK 0"));
        assert!(refused.starts_with("CROSSSLOT"), "{refused}");
    }
    let line = "DEHYDRATOR.MPOLL 2 {fHh}:a {fHh}:b BLOCK 0";
    here.ask("DEHYDRATOR.PUSH {fHh}:b 0 element id");
    let given = Value::Array(vec![text("{fHh}:b"), Value::Array(vec![text("element")])]);
    assert_eq!(here.ask(line), given);
    let refused = cluster.nodes[1].connect().refused(line);
    assert!(refused.starts_with("MOVED"), "{refused}");

    let mut sleeper = cluster.nodes[0].connect();
    sleeper.send_packed_command(&harness::cmd(line).get_packed_command()).expect("it is sent");
    let asleep = || cluster.nodes[0].info("dehydrator", "dehydrator_blocked_clients");
    until("it is asleep", || (asleep() == 1).then_some(()));
    let to = cluster.id_of(1);
    for node in &cluster.nodes[..3] {
        node.connect().ask(&format!("CLUSTER SETSLOT 0 NODE {to}"));
    }
    let error = sleeper.recv_response().expect("a reply");
    let Value::ServerError(error) = error else { panic!("{error:?}") };
    assert!(error.code().contains("UNBLOCKED"), "{error:?}");
    assert_eq!(asleep(), 0);
}

#[test]
fn a_policy_is_refused_across_slots_on_another_node_and_while_the_cluster_is_down() {
    let options = ["--cluster-enabled", "yes"];
    let server = Server::start_with_port(&options);
    let mut node = server.connect();
    let refuses = |node: &mut _, line: &str, code: &str| {
        let refused = Ask::refused(node, &format!("DEHYDRATOR.ONDUE {line}"));
        assert!(refused.starts_with(code), "{line}: {refused}");
    };
    let lines = [
        "{fHh}:k DROP",
        "{fHh}:k PUBLISH news",
        "{fHh}:k STREAM {fHh}:s",
        "{fHh}:k HOLD DELIVERIES 5 STREAM {fHh}:s",
    ];
    for line in lines {
        refuses(&mut node, line, "CLUSTERDOWN");
    }
    // Half of the slots, including the key's, which is the first.
    node.ask("CONFIG SET cluster-require-full-coverage no");
    node.ask("CLUSTER ADDSLOTSRANGE 0 8000");
    until("the cluster is up", || {
        let info = format!("{:?}", node.ask("CLUSTER INFO"));
        info.contains("cluster_state:ok").then_some(())
    });
    refuses(&mut node, "{fHh}:k STREAM elsewhere", "CROSSSLOT");
    refuses(&mut node, "{fHh}:k HOLD DELIVERIES 5 STREAM elsewhere", "CROSSSLOT");
    refuses(&mut node, "{fHh}:k LIST elsewhere", "CROSSSLOT");
    refuses(&mut node, "{fHh}:k HOLD DELIVERIES 5 LIST elsewhere LEFT", "CROSSSLOT");
    // Its slot is 12,182.
    refuses(&mut node, "foo DROP", "CLUSTERDOWN");
    for line in lines {
        node.ask(&format!("DEHYDRATOR.ONDUE {line}"));
    }
}

#[test]
fn a_stream_must_be_in_the_slot_of_its_dehydrator_and_both_move_together() {
    let cluster = start();
    let mut here = cluster.nodes[0].connect();
    let refused = here.refused("DEHYDRATOR.ONDUE {fHh}:k STREAM elsewhere");
    assert!(refused.starts_with("CROSSSLOT"), "{refused}");
    here.ask("DEHYDRATOR.ONDUE {fHh}:k STREAM {fHh}:s");
    for number in 0..2000 {
        here.ask(&format!("DEHYDRATOR.PUSH {{fHh}}:k {} element {number}", number * 2));
    }
    let (from, to) = (cluster.id_of(0), cluster.id_of(1));
    let address = cluster.address(0);
    let mut reshard = vec!["reshard", &address, "--cluster-from", &from, "--cluster-to", &to];
    // Slots move from the first on, and this is the first.
    reshard.extend(["--cluster-slots", "10", "--cluster-pipeline", "1"]);
    cluster.manage(&reshard);
    let refused = here.refused("DEHYDRATOR.LEN {fHh}:k");
    assert!(refused.starts_with("MOVED"), "{refused}");
    let mut there = cluster.nodes[1].connect();
    until("all are delivered", || (there.ask("XLEN {fHh}:s") == Value::Int(2000)).then_some(()));
    let entries: Vec<(String, [String; 4])> =
        harness::cmd("XRANGE {fHh}:s - +").query(&mut there).expect("a stream");
    let ids: Vec<usize> = entries.iter().map(|(_, it)| it[1].parse().expect("an id")).collect();
    assert!(ids.into_iter().eq(0..2000), "each once, in order");
    assert_eq!(there.ask("DEHYDRATOR.LEN {fHh}:k"), Value::Int(0));
    assert!(cluster.nodes[1].info("dehydrator", "dehydrator_deliveries") > 0);
    until("the old node has forgotten it", || {
        (cluster.nodes[0].info("dehydrator", "dehydrator_scheduled") == 0).then_some(())
    });
}

#[test]
fn limits_and_pauses_move_with_their_slot_and_refuse_no_arriving_data() {
    let cluster = start();
    let mut here = cluster.nodes[0].connect();
    for number in 0..300 {
        here.ask(&format!("DEHYDRATOR.PUSH {{fHh}}:k 0 element {number}"));
    }
    here.ask("DEHYDRATOR.LIMIT {fHh}:k LENGTH 1 HELD 2 RATE 3 PER 600000");
    let given = here.ask("DEHYDRATOR.POLL {fHh}:k LEASE 600000 TOKEN me");
    assert!(matches!(given, Value::Array(rows) if rows.len() == 2));
    let (from, to) = (cluster.id_of(0), cluster.id_of(1));
    let address = cluster.address(0);
    let mut reshard = vec!["reshard", &address, "--cluster-from", &from, "--cluster-to", &to];
    reshard.extend(["--cluster-slots", "10", "--cluster-pipeline", "1"]);
    cluster.manage(&reshard);
    for line in ["INFO {fHh}:k", "LIMIT {fHh}:k HELD 9", "EFFECT {fHh}:k G1@1"] {
        let refused = here.refused(&format!("DEHYDRATOR.{line}"));
        assert!(refused.starts_with("MOVED"), "{line}: {refused}");
    }
    let mut there = cluster.nodes[1].connect();
    assert_eq!(there.ask("DEHYDRATOR.LEN {fHh}:k"), Value::Int(300));
    assert!(there.refused("DEHYDRATOR.PUSH {fHh}:k 0 element new").starts_with("FULL"));
    assert_eq!(there.ask("DEHYDRATOR.POLL {fHh}:k"), Value::Array(vec![]), "two are held");
    there.ask("DEHYDRATOR.SETTLE {fHh}:k me 0 me 1");
    let given = there.ask("DEHYDRATOR.POLL {fHh}:k COUNT 2");
    assert!(matches!(given, Value::Array(rows) if rows.len() == 1), "three in ten minutes");
}

#[test]
fn a_purge_of_a_group_goes_on_where_its_slot_has_gone() {
    let cluster = start();
    let mut here = cluster.nodes[0].connect();
    for from in (0..3000).step_by(500) {
        let mut push = harness::cmd("DEHYDRATOR.MPUSH {fHh}:k");
        (from..from + 500).for_each(|number| _ = push.arg(600_000).arg("element").arg(number));
        push.arg("GROUP").arg("g").exec(&mut here).expect("they are pushed");
    }
    let purge = "DEHYDRATOR.PURGE {fHh}:k GROUP g";
    assert_eq!(here.ask(purge), Value::Int(1024));
    let (from, to) = (cluster.id_of(0), cluster.id_of(1));
    let address = cluster.address(0);
    let mut reshard = vec!["reshard", &address, "--cluster-from", &from, "--cluster-to", &to];
    reshard.extend(["--cluster-slots", "10", "--cluster-pipeline", "1"]);
    cluster.manage(&reshard);
    let refused = here.refused(purge);
    assert!(refused.starts_with("MOVED"), "{refused}");
    let mut there = cluster.nodes[1].connect();
    assert_eq!([there.ask(purge), there.ask(purge)], [Value::Int(1024), Value::Int(952)]);
    assert_eq!(there.ask("EXISTS {fHh}:k"), Value::Int(0));
    let blocked =
        |node: usize| cluster.nodes[node].info("dehydrator", "dehydrator_blocked_clients");
    assert_eq!([blocked(0), blocked(1)], [0, 0]);
}

#[test]
fn a_limit_and_a_pause_move_with_their_slot() {
    let cluster = start();
    let mut here = cluster.nodes[0].connect();
    here.ask("DEHYDRATOR.ONDUE {fHh}:k HOLD DELIVERIES 1 STREAM {fHh}:s");
    here.ask("DEHYDRATOR.PAUSE {fHh}:k");
    for number in 0..300 {
        let at = number + 1;
        here.ask(&format!("DEHYDRATOR.EFFECT {{fHh}}:k P0@{at},delivered=1 element {number}"));
    }
    let (from, to) = (cluster.id_of(0), cluster.id_of(1));
    let address = cluster.address(0);
    let mut reshard = vec!["reshard", &address, "--cluster-from", &from, "--cluster-to", &to];
    reshard.extend(["--cluster-slots", "10", "--cluster-pipeline", "1"]);
    cluster.manage(&reshard);
    let refused = here.refused("DEHYDRATOR.PAUSE {fHh}:k");
    assert!(refused.starts_with("MOVED"), "{refused}");
    let mut there = cluster.nodes[1].connect();
    assert_eq!(there.ask("DEHYDRATOR.POLL {fHh}:k"), Value::Array(vec![]));
    assert_eq!(there.ask("DEHYDRATOR.LEN {fHh}:k"), Value::Int(300));
    let paused = |node: usize| cluster.nodes[node].info("dehydrator", "dehydrator_paused");
    assert_eq!([paused(0), paused(1)], [0, 1]);
    assert_eq!(there.ask("DEHYDRATOR.RESUME {fHh}:k"), Value::Int(1));
    until("all have died", || (there.ask("XLEN {fHh}:s") == Value::Int(300)).then_some(()));
    assert_eq!(cluster.nodes[1].info("dehydrator", "dehydrator_dead_letters"), 300);
    assert_eq!(there.ask("DEHYDRATOR.LEN {fHh}:k"), Value::Int(0));
}

/// Makes the replica of the first primary take over.
fn fail_over(cluster: &Cluster) {
    let port = Value::Int(cluster.nodes[0].port().into());
    let mut replica = until("a replica is in step with its primary", || {
        cluster.nodes.iter().map(Server::connect).find_map(|mut node| {
            let Value::Array(role) = node.ask("ROLE") else { panic!("an array") };
            let is_its = role.get(2) == Some(&port) && role.get(3) == Some(&text("connected"));
            is_its.then_some(node)
        })
    });
    replica.ask("CLUSTER FAILOVER");
    until("the replica has taken over", || {
        let Value::Array(role) = replica.ask("ROLE") else { panic!("an array") };
        (role[0] == text("master")).then_some(())
    });
}

/// Leases elements of a key, settles those with even numbers, and rejects the others, until none is left. Records the
/// settled ones.
fn work(client: &mut ClusterConnection, name: usize, settled: &Mutex<HashSet<usize>>) {
    for turn in 0.. {
        // Resends the same command if a reply is lost.
        let token = format!("{name}-{turn}");
        let mut poll = redis::cmd("DEHYDRATOR.POLL");
        poll.arg("{fHh}:k").arg("COUNT").arg(5).arg("LEASE").arg(600_000).arg("TOKEN").arg(&token);
        let rows: Vec<(usize, String, u64, String)> = poll.query(client).expect("rows");
        for (id, ..) in rows {
            let verb = if id % 2 == 0 { "DEHYDRATOR.SETTLE" } else { "DEHYDRATOR.REJECT" };
            let mut done = redis::cmd(verb);
            let done: Vec<u64> =
                done.arg("{fHh}:k").arg(&token).arg(id).query(client).expect("a number");
            assert_eq!(done, [1], "{verb} {id}");
            if id % 2 == 0 {
                assert!(settled.lock().expect("no panic").insert(id), "{id} is settled twice");
            }
        }
        let left: usize =
            redis::cmd("DEHYDRATOR.LEN").arg("{fHh}:k").query(client).expect("a number");
        if left == 0 {
            return;
        }
    }
}

/// Settles and rejects elements while `change` runs, which returns whether to continue, and checks where each element
/// is.
pub fn reject_under_load(cluster: &Cluster, route: &str, mut change: impl FnMut() -> bool) {
    const ELEMENTS: usize = 3000;
    let mut client = cluster.connect();
    let mut ondue = redis::cmd("DEHYDRATOR.ONDUE");
    ondue.arg("{fHh}:k").arg("HOLD").arg("DELIVERIES").arg(5);
    ondue.arg(route.split(' ').collect::<Vec<_>>()).arg("{fHh}:dead");
    ondue.query::<()>(&mut client).expect("OK");
    for number in 0..ELEMENTS {
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        push.arg("{fHh}:k").arg(0).arg(number).arg(number);
        push.query::<()>(&mut client).expect("OK");
    }
    let settled = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|name| {
                let (mut client, settled) = (cluster.connect(), &settled);
                scope.spawn(move || work(&mut client, name, settled))
            })
            .collect();
        until("there is a load", || (settled.lock().expect("no panic").len() > 50).then_some(()));
        while change() && workers.iter().any(|worker| !worker.is_finished()) {}
    });
    let settled = settled.into_inner().expect("no panic");
    let mut look = redis::cmd(if route == "LIST" { "LRANGE" } else { "XRANGE" });
    look.arg("{fHh}:dead");
    let dead: Vec<usize> = if route == "LIST" {
        look.arg(0).arg(-1).query(&mut client).expect("a list")
    } else {
        let entries: Vec<(String, Vec<String>)> =
            look.arg("-").arg("+").query(&mut client).expect("a stream");
        entries.iter().map(|(_, fields)| fields[1].parse().expect("an id")).collect()
    };
    let once: HashSet<usize> = dead.iter().copied().collect();
    assert_eq!(once.len(), dead.len(), "one is a dead letter twice");
    assert!((0..ELEMENTS).step_by(2).all(|id| settled.contains(&id)), "one was never settled");
    assert!(once.iter().all(|id| id % 2 == 1), "what was settled has died");
    assert_eq!(once.len(), ELEMENTS / 2, "a dead letter is lost");
}

#[test]
fn an_element_rejected_while_its_slot_moves_is_a_dead_letter_once() {
    let cluster = start();
    for route in ["LIST", "STREAM"] {
        let mut delete = redis::cmd("DEL");
        delete.arg("{fHh}:dead").query::<u64>(&mut cluster.connect()).expect("a number");
        let (mut from, mut to) = (0, 1);
        reject_under_load(&cluster, route, || {
            // Slots move from the first on, and this is the first.
            let (source, target) = (cluster.id_of(from), cluster.id_of(to));
            let address = cluster.address(0);
            let mut reshard = vec!["reshard", &address, "--cluster-from", &source];
            reshard.extend(["--cluster-to", &target, "--cluster-slots", "1"]);
            reshard.extend(["--cluster-pipeline", "1"]);
            cluster.manage(&reshard);
            (from, to) = (to, from);
            true
        });
    }
}

#[test]
fn an_element_rejected_during_failovers_is_a_dead_letter_once() {
    let cluster = start();
    reject_under_load(&cluster, "LIST", || {
        fail_over(&cluster);
        false
    });
}
