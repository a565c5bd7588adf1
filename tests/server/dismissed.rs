//! What a blocked client is told when its server can serve it no more, in the words that BLPOP has for it.

use redis::{Connection, RedisError, Value};

use crate::sleeper::waiters;
use harness::{Ask, Server, cmd, until};

/// Sends a POLL that blocks, and waits until its client is asleep.
fn asleep(server: &Server, mut client: Connection, key: &str) -> Connection {
    let before = waiters(server);
    let poll = cmd(&format!("DEHYDRATOR.POLL {key} BLOCK 0"));
    client.send_packed_command(&poll.get_packed_command()).expect("it is sent");
    until("it is asleep", || (waiters(server) == before + 1).then_some(()));
    client
}

/// Returns the error that a blocked client gets, or that its connection was closed.
fn error_of(mut client: Connection) -> RedisError {
    match client.recv_response() {
        Ok(Value::ServerError(error)) => error.into(),
        Ok(other) => panic!("{other:?}"),
        Err(error) => error,
    }
}

#[test]
fn a_server_that_becomes_a_replica_says_so_or_redirects() {
    let primary = Server::start_with_port(&[]);
    let server = Server::start_with_port(&[]);
    let plain = asleep(&server, server.connect(), "k");
    let mut knows = server.connect();
    let redirects = cmd("CLIENT CAPA REDIRECT").exec(&mut knows).is_ok();
    let knows = asleep(&server, knows, "k");
    let port = primary.port();
    server.connect().ask(&format!("REPLICAOF 127.0.0.1 {port}"));
    let (plain, knows) = (error_of(plain).to_string(), error_of(knows).to_string());
    assert!(!plain.contains("slot") && !plain.contains("REDIRECT"), "{plain}");
    assert!(!knows.contains("slot"), "{knows}");
    // Where a blocked BLPOP is redirected, so is POLL.
    let blpop = |client: &mut Connection| {
        let sent = client.send_packed_command(&cmd("BLPOP l 0").get_packed_command());
        sent.expect("it is sent");
    };
    server.connect().ask("REPLICAOF NO ONE");
    let mut other = server.connect();
    _ = cmd("CLIENT CAPA REDIRECT").exec(&mut other);
    blpop(&mut other);
    until("it is asleep", || (server.info("clients", "blocked_clients") == 1).then_some(()));
    server.connect().ask(&format!("REPLICAOF 127.0.0.1 {port}"));
    let is_redirected = error_of(other).to_string().contains("REDIRECT");
    assert!(redirects || !is_redirected);
    let address = format!("127.0.0.1:{port}");
    assert_eq!(knows.contains("REDIRECT") && knows.contains(&address), is_redirected, "{knows}");
}

#[test]
fn a_cluster_that_is_down_says_so() {
    let server = Server::start_with_port(&["--cluster-enabled", "yes"]);
    let mut node = server.connect();
    node.ask("CLUSTER ADDSLOTSRANGE 0 16383");
    let is = |node: &mut Connection, state: &str| {
        let info = format!("{:?}", node.ask("CLUSTER INFO"));
        info.contains(&format!("cluster_state:{state}")).then_some(())
    };
    until("the cluster is up", || is(&mut node, "ok"));
    let sleeper = asleep(&server, server.connect(), "{fHh}:k");
    // Not the key's slot, which is the first.
    node.ask("CLUSTER DELSLOTS 16383");
    until("the cluster is down", || is(&mut node, "fail"));
    let error = error_of(sleeper);
    assert_eq!(error.code(), Some("CLUSTERDOWN"), "{error}");
    assert_eq!(error.detail(), Some("The cluster is down"));
}
