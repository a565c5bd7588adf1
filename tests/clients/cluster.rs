//! Whether a cluster client sends a command to the node that has its key: three primaries, each with a replica.

use std::thread;
use std::time::Duration;

use redis::Value;

use crate::page;
use crate::probe::{ASTRAY, CLUSTERS, Library, Probe};
use harness::nodes::Cluster;
use harness::{Ask, Server, until};

/// The number of commands per question, each with its own key.
const COMMANDS: u64 = 30;

/// A client that learns the slots may be redirected a few times; one that guesses, two times of three.
const FEW: u64 = 6;

/// Returns a number in a line of INFO.
fn number(server: &Server, section: &str, line: &str, field: &str) -> u64 {
    let Value::BulkString(info) = server.connect().ask(&format!("INFO {section}")) else {
        panic!("text")
    };
    let info = String::from_utf8(info).expect("text");
    let line = info.lines().find_map(|it| it.strip_prefix(line)).unwrap_or_default();
    let field = line.split(',').find_map(|it| it.trim_start_matches(':').strip_prefix(field));
    field.map_or(0, |it| it.trim_start_matches('=').parse().expect("a number"))
}

/// Returns how often a node of the cluster has redirected a client.
fn sent_on(cluster: &Cluster) -> u64 {
    cluster.nodes.iter().map(|it| number(it, "errorstats", "errorstat_MOVED", "count")).sum()
}

/// Returns how often the replicas have replied to a command that reads.
fn read_from_replicas(cluster: &Cluster) -> u64 {
    let is_replica = |node: &&Server| node.info("replication", "connected_slaves") == 0;
    let replicas = cluster.nodes.iter().filter(is_replica);
    replicas.map(|it| number(it, "commandstats", "cmdstat_dehydrator.len", "calls")).sum()
}

/// Sends one command for each key, and returns the errors.
fn send(probe: &mut Probe, line: impl Fn(u64) -> String) -> Vec<String> {
    let outcomes = (0..COMMANDS).map(|n| {
        probe.say(&line(n));
        probe.outcome(Duration::from_secs(120)).expect("an outcome").reply
    });
    outcomes.filter_map(Result::err).collect()
}

fn push(n: u64) -> String {
    format!("DEHYDRATOR.PUSH k{n} 1000000 element id REPLACE")
}

fn start_all(
    libraries: &'static [Library],
    port: u16,
    settings: &'static [&'static str],
) -> Vec<(&'static Library, Probe)> {
    let start = |library| thread::spawn(move || (library, Probe::start(library, port, settings)));
    let threads: Vec<_> = libraries.iter().map(start).collect();
    threads.into_iter().map(|it| it.join().expect("a probe")).collect()
}

#[test]
fn a_cluster_client_asks_the_node_that_has_the_key() {
    let cluster = Cluster::start(3, 1);
    let port = cluster.nodes[0].port();
    let mut wrong = Vec::new();

    for (library, mut probe) in start_all(ASTRAY, port, &[]) {
        let before = sent_on(&cluster);
        let refused = send(&mut probe, push);
        assert!(refused.is_empty(), "{library:?}: {refused:?}");
        let astray = sent_on(&cluster) - before;
        if astray <= FEW {
            wrong.push(format!("{library:?} goes astray {astray} times only"));
        }
    }

    let mut probes = start_all(CLUSTERS, port, &[]);
    for (library, probe) in &mut probes {
        let before = sent_on(&cluster);
        let refused = send(probe, push);
        let astray = sent_on(&cluster) - before;
        if astray > FEW || !refused.is_empty() {
            wrong.push(format!("{library:?} goes astray {astray} times, {refused:?}"));
        }
    }

    let section = page::section("## Cluster").split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, sentence) = section.split_once("Some read from replicas").expect("it is said");
    let (sentence, _) = sentence.split_once("; do not read").expect("it ends");
    for (library, mut probe) in start_all(CLUSTERS, port, &["replicas=yes"]) {
        let before = read_from_replicas(&cluster);
        let refused = send(&mut probe, |n| format!("DEHYDRATOR.LEN k{n}"));
        let read = read_from_replicas(&cluster) - before;
        let may_read = sentence.contains(&format!("({})", library.name));
        if (read > 0) != may_read || !refused.is_empty() {
            wrong.push(format!("{library:?} reads {read} from replicas"));
        }
    }

    // A replica takes over from its primary, without notice to the clients.
    let replica = &cluster.nodes[3];
    until("it takes over", || {
        // At that moment, the nodes may not know each other well enough.
        let _ = redis::cmd("CLUSTER").arg("FAILOVER").query::<Value>(&mut replica.connect());
        let role = format!("{:?}", replica.connect().ask("ROLE"));
        role.contains("master").then_some(())
    });
    for (library, probe) in &mut probes {
        // One or two errors are allowed, if it had a connection to the old primary.
        let mut refused = send(probe, push);
        for _ in 0..3 {
            if !refused.is_empty() {
                refused = send(probe, push);
            }
        }
        // It does not follow, and a new client is needed.
        if library.name == "phpredis" {
            if refused.is_empty() {
                wrong.push(format!("{library:?} follows a failover"));
            }
            refused = send(&mut Probe::start(library, port, &[]), push);
        }
        if !refused.is_empty() {
            wrong.push(format!("{library:?}, after a failover: {}", refused[0]));
        }
    }
    assert!(wrong.is_empty(), "docs/clients.md is not so:\n{}", wrong.join("\n"));
}

#[test]
fn predis_sends_nothing_to_a_cluster_without_a_handler() {
    for predis in CLUSTERS.iter().filter(|it| it.name == "Predis") {
        let cluster = crate::probe::Session::start(predis, &["route=none"]);
        let mut probe = cluster.probe;
        let refused = send(&mut probe, push);
        assert_eq!(refused.len(), COMMANDS as usize);
        assert!(refused[0].contains("NotSupportedException"), "{refused:?}");
    }
}
