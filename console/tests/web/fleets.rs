//! Clusters, several servers, and failovers.

use std::fs;
use std::process::{Child, Command, Stdio};

use redis::Value as Reply;
use redis::cluster::ClusterConnection;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Page, b64, bytes, node};
use harness::nodes::Cluster;
use harness::{Ask, Server, until};

#[test]
fn all_nodes_of_a_cluster_are_in_one_table() {
    let cluster = Cluster::start(3, 1);
    let mut client: ClusterConnection = cluster.connect();
    for key in 0..12 {
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        push.arg(format!("jobs:{key}"))
            .arg(600_000)
            .arg("element")
            .arg("id")
            .exec(&mut client)
            .expect("pushed");
    }
    let page = Page::start(&[&format!("redis://{}", cluster.address(1))]);
    let overview = until("all is found", || {
        let overview = page.get("api/overview");
        let nodes = overview["nodes"].as_array()?;
        let are_known = nodes.len() == 6 && nodes.iter().all(|node| node["role"].is_string());
        (overview["total"] == 12 && are_known).then_some(overview)
    });
    let roles = overview["nodes"].as_array().expect("nodes").iter();
    assert_eq!(roles.filter(|node| node["role"] == "master").count(), 3);
    let mut keys: Vec<_> = overview["queues"]
        .as_array()
        .expect("queues")
        .iter()
        .map(|it| bytes(&it["key_b64"]))
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 12);

    // Each is read and changed where it is, whatever node the link names, and the log is one.
    for (at, queue) in overview["queues"].as_array().expect("queues").iter().enumerate() {
        let key = queue["key_b64"].as_str().expect("text");
        let named = format!("node={}&key={key}", cluster.address(at % 6));
        let elements = page.get(&format!("api/elements?{named}"));
        assert_eq!(elements["rows"].as_array().map(Vec::len), Some(1), "{elements}");
        let shown = page.get(&format!("api/queue?{named}"));
        assert_eq!(
            (&shown["queue"]["node"], &shown["rights"]["pause"]),
            (&queue["node"], &Value::Null),
            "{shown}"
        );
        let body = json!({ "queue": { "node": cluster.address(at % 6), "key_b64": key }, "action": "pause" });
        page.post("api/act", &body);
    }
    let log = page.get(&format!("api/log?node={}", cluster.address(0)));
    assert_eq!(log["rows"].as_array().map(Vec::len), Some(12));
    let body = json!({
        "queue": { "node": cluster.address(0), "key_b64": b64("jobs:7") },
        "action": "cancel",
        "on": { "match": {} },
    });
    assert_eq!(page.end_of(&page.post("api/act", &body))["done"], 1);
}

#[test]
fn several_servers_are_in_one_table() {
    let servers = [Server::start_with_port(&[]), Server::start_with_port(&[])];
    for server in &servers {
        server.connect().ask("DEHYDRATOR.PUSH jobs 600000 element id");
    }
    let page = Page::of(&[&servers[0], &servers[1]]);
    until("both are found", || {
        let overview = page.get("api/overview");
        let nodes: Vec<_> =
            overview["queues"].as_array()?.iter().map(|it| it["node"].clone()).collect();
        (nodes.len() == 2 && nodes[0] != nodes[1]).then_some(())
    });
}

/// A Sentinel, which is ended when dropped.
struct Sentinel {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Sentinel {
    fn start(primary: &Server) -> Self {
        let folder = TempDir::new().expect("a folder");
        let port = harness::free_port();
        let file = folder.path().join("sentinel.conf");
        let lines = format!(
            "port {port}\nsentinel monitor jobs 127.0.0.1 {} 1\nsentinel down-after-milliseconds jobs 500\n\
             sentinel failover-timeout jobs 10000\n",
            primary.port()
        );
        fs::write(&file, lines).expect("a file");
        let mut command = Command::new(harness::server_program());
        command.arg(&file).arg("--sentinel").current_dir(folder.path()).stdout(Stdio::null());
        Self { child: command.spawn().expect("a Sentinel"), port, _folder: folder }
    }

    fn ask(&self, line: &str) -> Option<Reply> {
        let client =
            redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("a url");
        harness::cmd(line).query(&mut client.get_connection().ok()?).ok()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_failover_by_sentinel_is_followed() {
    let mut primary = Server::start_with_port(&[]);
    primary.connect().ask("DEHYDRATOR.PUSH jobs 600000 element id");
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let sentinel = Sentinel::start(&primary);
    until("it knows the replica", || {
        let known = format!("{:?}", sentinel.ask("SENTINEL REPLICAS jobs")?);
        known.contains(&replica.port().to_string()).then_some(())
    });
    let dead = harness::free_port();
    let url = format!("redis-sentinel://127.0.0.1:{dead},127.0.0.1:{}/jobs", sentinel.port);
    let page = Page::start(&[&url]);
    let shown = |address: String| {
        until("the primary is shown", || {
            let overview = page.get("api/overview");
            let first = &overview["nodes"][0];
            let is_there = first["node"] == "jobs"
                && first["address"] == address
                && first["role"] == "master"
                && first["trouble"].is_null()
                && overview["total"] == 1;
            is_there.then_some(())
        })
    };
    shown(node(&primary));
    until("the replica is shown", || {
        let second = &page.get("api/overview")["nodes"][1];
        (second["node"] == node(&replica) && second["role"] == "replica").then_some(())
    });

    // The same link leads to the new primary.
    let queue = format!("node=jobs&key={}", b64("jobs"));
    page.get(&format!("api/elements?{queue}"));
    primary.kill();
    shown(node(&replica));
    let elements = page.get(&format!("api/elements?{queue}"));
    assert_eq!(bytes(&elements["rows"][0]["id_b64"]), b"id");
    let body = json!({ "queue": { "node": "jobs", "key_b64": b64("jobs") }, "action": "pause" });
    page.post("api/act", &body);
}
