//! The nodes of a real cluster, for tests and benches of several servers.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use redis::Value;
use redis::cluster::{ClusterClient, ClusterConnection};

use crate::{Ask, Server, cli_program, until};

/// Servers that share the slots. They end when dropped.
pub struct Cluster {
    /// Primaries first.
    pub nodes: Vec<Server>,
    primaries: usize,
}

impl Cluster {
    /// Starts at least three primaries, the minimum of redis-cli, with this many replicas each.
    pub fn start(primaries: usize, replicas: usize) -> Self {
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "15000"];
        let count = primaries * (1 + replicas);
        let nodes: Vec<_> = (0..count).map(|_| Server::start_with_port(&options)).collect();
        let cluster = Self { nodes, primaries };
        let addresses: Vec<_> = (0..count).map(|node| cluster.address(node)).collect();
        let mut create = vec!["create"];
        create.extend(addresses.iter().map(String::as_str));
        let replicas_each = replicas.to_string();
        create.extend(["--cluster-replicas", &replicas_each]);
        cluster.make(&create);
        until("the cluster is up", || {
            // A primary must know its replica, or it will not hand over to it.
            let is_up = |node: &Server| {
                let info = format!("{:?}", node.connect().ask("CLUSTER INFO"));
                let nodes = format!("{:?}", node.connect().ask("CLUSTER NODES"));
                info.contains("cluster_state:ok")
                    && nodes.matches("slave ").count() == primaries * replicas
            };
            cluster.nodes.iter().all(is_up).then_some(())
        });
        cluster
    }

    /// Returns a cluster of two new servers, of which the first gets the lower half of the slots.
    #[allow(dead_code, reason = "benches and the tests of the recipes share this file")]
    pub fn of_two(nodes: [Server; 2]) -> Self {
        for (node, slots) in nodes.iter().zip(["0 8191", "8192 16383"]) {
            node.connect().ask("CONFIG SET cluster-require-full-coverage no");
            node.connect().ask(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
        }
        nodes[0].connect().ask(&format!("CLUSTER MEET 127.0.0.1 {}", nodes[1].port()));
        let cluster = Self { nodes: nodes.into(), primaries: 2 };
        cluster.wait_until_up();
        cluster
    }

    /// Waits until each node knows that all slots are served.
    #[allow(dead_code, reason = "benches and the tests of the recipes share this file")]
    pub fn wait_until_up(&self) {
        until("the cluster is up", || {
            let is_up = |node: &Server| {
                let info = format!("{:?}", node.connect().ask("CLUSTER INFO"));
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            };
            self.nodes.iter().all(is_up).then_some(())
        });
    }

    /// Moves a slot with these keys, which are all that it has, key by key.
    #[allow(dead_code, reason = "benches and the tests of the recipes share this file")]
    pub fn move_keys(&self, from: usize, to: usize, slot: usize, keys: &[&str]) {
        let (here, there) = (self.id_of(from), self.id_of(to));
        let (mut source, mut target) = (self.nodes[from].connect(), self.nodes[to].connect());
        target.ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {here}"));
        source.ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {there}"));
        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(self.nodes[to].port()).arg("").arg(0).arg(60_000);
        migrate.arg("KEYS").arg(keys).exec(&mut source).expect("the keys move");
        for node in [&mut target, &mut source] {
            node.ask(&format!("CLUSTER SETSLOT {slot} NODE {there}"));
        }
    }

    pub fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.nodes[node].port())
    }

    /// Runs `redis-cli --cluster create`. On a busy machine, a handshake between nodes times out, and redis-cli would
    /// wait forever: repeat the introductions until the cluster is healthy.
    fn make(&self, arguments: &[&str]) {
        let (out, err) = (Stdio::piped(), Stdio::piped());
        let mut making = manager(arguments).stdout(out).stderr(err).spawn().expect("redis-cli");
        let mut introduced = Instant::now();
        let started = Instant::now();
        while making.try_wait().expect("a child").is_none() {
            if started.elapsed() > Duration::from_secs(180) {
                let _ = making.kill();
            }
            if introduced.elapsed() > Duration::from_secs(5) {
                introduced = Instant::now();
                let mut first = self.nodes[0].connect();
                for node in &self.nodes[1..] {
                    first.ask(&format!("CLUSTER MEET 127.0.0.1 {}", node.port()));
                }
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert_went_well(arguments, &making.wait_with_output().expect("its output"));
    }

    /// Runs `redis-cli --cluster`.
    #[allow(dead_code, reason = "the tests of the recipes share this file")]
    pub fn manage(&self, arguments: &[&str]) {
        const TRIES: usize = 5;
        for _ in 0..TRIES {
            let output = manager(arguments).output().expect("redis-cli");
            // Valkey hands a slot over when a replica has confirmed within two seconds. On a busy machine, this can
            // fail; then the slot is left open, and must be fixed before more are moved.
            let is_late = String::from_utf8_lossy(&output.stdout).contains("NOREPLICAS")
                || String::from_utf8_lossy(&output.stderr).contains("NOREPLICAS");
            if output.status.success() || !is_late {
                return assert_went_well(arguments, &output);
            }
            _ = manager(&["fix", &self.address(0)]).output().expect("redis-cli");
        }
        panic!("{arguments:?}: replicas are late each time");
    }

    pub fn connect(&self) -> ClusterConnection {
        let addresses = (0..self.primaries).map(|node| format!("redis://{}", self.address(node)));
        let client = ClusterClient::builder(addresses.collect::<Vec<_>>()).retries(100).build();
        client.expect("a client").get_connection().expect("a connection")
    }

    /// Returns how many slots a node serves.
    pub fn slots_of(&self, node: usize) -> usize {
        let Value::BulkString(nodes) = self.nodes[node].connect().ask("CLUSTER NODES") else {
            panic!("text")
        };
        let nodes = String::from_utf8(nodes).expect("text");
        let line = nodes.lines().find(|line| line.contains("myself")).expect("itself");
        let ranges = line.split(' ').skip(8).filter(|range| !range.starts_with('['));
        let width = |range: &str| -> usize {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let slot = |slot: &str| slot.parse::<usize>().expect("a slot");
            slot(last) + 1 - slot(first)
        };
        ranges.map(width).sum()
    }

    pub fn id_of(&self, node: usize) -> String {
        let Value::BulkString(id) = self.nodes[node].connect().ask("CLUSTER MYID") else {
            panic!("an id")
        };
        String::from_utf8(id).expect("text")
    }

    /// Moves slots from one node to another atomically, and waits until every primary knows.
    #[allow(dead_code, reason = "benches and the tests of the recipes share this file")]
    pub fn move_at_once(&self, from: usize, to: usize, (first, last): (usize, usize)) {
        let moved = last + 1 - first;
        let before = self.slots_of(to);
        let target = self.id_of(to);
        if self.nodes[from].version().is_valkey {
            let range = format!("SLOTSRANGE {first} {last} NODE {target}");
            self.nodes[from].connect().ask(&format!("CLUSTER MIGRATESLOTS {range}"));
        } else {
            self.nodes[to].connect().ask(&format!("CLUSTER MIGRATION IMPORT {first} {last}"));
        }
        until("the slots have moved", || (self.slots_of(to) == before + moved).then_some(()));
        let owner = |node: &Server| {
            let Value::Array(shards) = node.connect().ask("CLUSTER SLOTS") else { panic!("slots") };
            let owner = shards.iter().find_map(|shard| {
                let Value::Array(shard) = shard else { panic!("an array") };
                let [Value::Int(low), Value::Int(high), Value::Array(node), ..] = &shard[..] else {
                    panic!("a range and its nodes")
                };
                (*low..=*high).contains(&(first as i64)).then(|| node[2].clone())
            });
            owner.expect("somebody's")
        };
        until("every primary knows", || {
            let know = |node: &Server| owner(node) == Value::BulkString(target.clone().into());
            self.nodes[..self.primaries].iter().all(know).then_some(())
        });
    }
}

/// Returns the command `redis-cli --cluster`.
fn manager(arguments: &[&str]) -> Command {
    let mut command = Command::new(cli_program());
    command.arg("--cluster").args(arguments).arg("--cluster-yes");
    command
}

fn assert_went_well(arguments: &[&str], output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    let last: Vec<_> = said.iter().flat_map(|said| said.lines().rev().take(5)).collect();
    assert!(output.status.success(), "{arguments:?}: {last:?}");
}
