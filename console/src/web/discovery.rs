//! The nodes of a url: of a server, of its cluster, or those that Sentinels know.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{Client, RedisResult, Value};

use super::node::{Node, Seed, address_of, client_at, connect};
use crate::ask;

/// Returns the nodes of a seed.
pub fn find(seed: &Seed, known: &[Arc<Node>]) -> Vec<Node> {
    match seed {
        Seed::Node(client) => {
            // If the seed is down, another node of its cluster tells.
            let others = known.iter().filter(|node| node.is_of_cluster).map(|node| &node.client);
            let nodes = std::iter::once(client).chain(others).find_map(|asked| slots(asked).ok());
            match nodes {
                Some(nodes) if !nodes.is_empty() => {
                    let node = |client: Client| Node::new(address_of(&client), client, true);
                    nodes.into_iter().map(node).collect()
                }
                _ => vec![Node::new(address_of(client), client.clone(), false)],
            }
        }
        Seed::Sentinel { sentinels, service, template } => {
            let found = sentinels.iter().find_map(|sentinel| ask_sentinel(sentinel, service).ok());
            let before = known.iter().find(|node| &node.name == service);
            let Some((primary, replicas)) = found else {
                let client = before.map_or(template, |node| &node.client).clone();
                return vec![Node::new(service.clone(), client, false)];
            };
            let client = |(host, port): &(String, u16)| client_at(template, host, *port).ok();
            let primary = client(&primary).map(|client| Node::new(service.clone(), client, false));
            let replicas = replicas.iter().filter_map(client);
            let replicas = replicas.map(|client| Node::new(address_of(&client), client, false));
            primary.into_iter().chain(replicas).collect()
        }
    }
}

type Address = (String, u16);

/// Returns the addresses of a service's primary and replicas.
fn ask_sentinel(sentinel: &Client, service: &str) -> RedisResult<(Address, Vec<Address>)> {
    let mut connection = connect(sentinel)?;
    let mut asked = redis::cmd("SENTINEL");
    let primary = asked.arg("GET-MASTER-ADDR-BY-NAME").arg(service).query(&mut connection)?;
    let mut asked = redis::cmd("SENTINEL");
    let replicas: Vec<HashMap<String, String>> =
        asked.arg("REPLICAS").arg(service).query(&mut connection)?;
    let address = |replica: &HashMap<String, String>| {
        let is_up = !replica.get("flags").is_some_and(|flags| flags.contains("_down"));
        let address = (replica.get("ip")?.clone(), replica.get("port")?.parse().ok()?);
        is_up.then_some(address)
    };
    Ok((primary, replicas.iter().filter_map(address).collect()))
}

/// Returns a client for each node of the cluster, none for a server that is not in one.
fn slots(client: &Client) -> RedisResult<Vec<Client>> {
    let mut connection = connect(client)?;
    let is_cluster = ask::info(&mut connection, &["cluster"])?.contains("cluster_enabled:1");
    if !is_cluster {
        return Ok(Vec::new());
    }
    let asked = address_of(client);
    let own_host = asked.rsplit_once(':').map_or(asked.as_str(), |(host, _)| host);
    let ranges: Vec<Vec<Value>> = redis::cmd("CLUSTER").arg("SLOTS").query(&mut connection)?;
    let mut nodes: Vec<Client> = Vec::new();
    for node in ranges.iter().flat_map(|range| range.iter().skip(2)) {
        let Value::Array(node) = node else { continue };
        let [host, port, ..] = node.as_slice() else { continue };
        let host: Option<String> = redis::from_redis_value_ref(host).unwrap_or_default();
        let host =
            host.filter(|host| !host.is_empty() && host != "?").unwrap_or(own_host.to_owned());
        let client = client_at(client, &host, redis::from_redis_value_ref(port)?)?;
        if nodes.iter().all(|known| address_of(known) != address_of(&client)) {
            nodes.push(client);
        }
    }
    Ok(nodes)
}
