//! The nodes of a real cluster, for tests and benches of what spreads over several servers.

use std::process::Command;

use redis::Value;
use redis::cluster::{ClusterClient, ClusterConnection};

use crate::harness::{Ask, Server, cli_program, until};

/// Servers that share the slots among them. They end with it.
pub struct Cluster {
    /// Primaries first.
    pub nodes: Vec<Server>,
    primaries: usize,
}

impl Cluster {
    /// At least three primaries, for redis-cli wants no fewer, and so many replicas for each.
    pub fn start(primaries: usize, replicas: usize) -> Self {
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "3000"];
        let count = primaries * (1 + replicas);
        let nodes: Vec<_> = (0..count).map(|_| Server::start_with_port(&options)).collect();
        let cluster = Self { nodes, primaries };
        let addresses: Vec<_> = (0..count).map(|node| cluster.address(node)).collect();
        let mut create = vec!["create"];
        create.extend(addresses.iter().map(String::as_str));
        let replicas_each = replicas.to_string();
        create.extend(["--cluster-replicas", &replicas_each]);
        cluster.manage(&create);
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

    pub fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.nodes[node].port())
    }

    /// Runs `redis-cli --cluster`.
    pub fn manage(&self, arguments: &[&str]) {
        let output = Command::new(cli_program())
            .arg("--cluster")
            .args(arguments)
            .arg("--cluster-yes")
            .output()
            .expect("redis-cli");
        let said =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        let last: Vec<_> = said.iter().flat_map(|said| said.lines().rev().take(5)).collect();
        assert!(output.status.success(), "{arguments:?}: {last:?}");
    }

    pub fn connect(&self) -> ClusterConnection {
        let addresses = (0..self.primaries).map(|node| format!("redis://{}", self.address(node)));
        let client = ClusterClient::builder(addresses.collect::<Vec<_>>()).retries(100).build();
        client.expect("a client").get_connection().expect("a connection")
    }

    /// How many slots a node serves.
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
}
