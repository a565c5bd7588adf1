//! redis-rs: its synchronous connection, the asynchronous ones, and those of a cluster.

use redis::aio::{ConnectionLike, ConnectionManagerConfig};
use redis::cluster::ClusterClientBuilder;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisResult, Value};
use tokio::runtime::Runtime;

use crate::{Settings, serve};

/// From Cargo.lock: the crate does not provide it.
fn version() -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let (_, rest) = lock.split_once("name = \"redis\"\nversion = \"").expect("it is locked");
    rest.split('"').next().expect("a version")
}

fn command(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
}

fn show(reply: &Value) -> String {
    match reply {
        Value::BulkString(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(show).collect();
            format!("Array([{}])", items.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn open(settings: &Settings) -> Client {
    let protocol =
        settings.get("protocol").map_or(String::new(), |it| format!("?protocol=resp{it}"));
    Client::open(format!("redis://127.0.0.1:{}/{protocol}", settings.port)).expect("a url")
}

fn cluster(settings: &Settings) -> ClusterClientBuilder {
    let mut builder =
        redis::cluster::ClusterClient::builder([format!("redis://127.0.0.1:{}", settings.port)]);
    if let Some(timeout) = settings.timeout() {
        builder = builder.response_timeout(timeout);
    }
    if settings.get("replicas").is_some() {
        builder = builder.read_routing_strategy(redis::cluster_read_routing::RandomReplicaStrategy);
    }
    if settings.get("resend") == Some("off") {
        builder = builder.retries(0);
    }
    builder
}

/// A single connection, kept whatever happens to it.
pub fn sync(settings: &Settings) {
    if settings.is_cluster {
        let client = cluster(settings).build().expect("a client");
        let mut connection = client.get_connection().expect("a connection");
        return serve(version(), |words| {
            command(words).query::<Value>(&mut connection).map(|reply| show(&reply))
        });
    }
    let mut connection = open(settings).get_connection().expect("a connection");
    connection.set_read_timeout(settings.timeout()).expect("a timeout");
    serve(version(), |words| {
        command(words).query::<Value>(&mut connection).map(|reply| show(&reply))
    });
}

/// A connection that is dropped at an error and replaced.
pub fn sync_dropping(settings: &Settings) {
    let client = open(settings);
    let mut kept = None;
    serve(version(), |words| {
        let mut connection = kept.take().map_or_else(|| client.get_connection(), Ok)?;
        connection.set_read_timeout(settings.timeout())?;
        let reply = command(words).query::<Value>(&mut connection)?;
        kept = Some(connection);
        RedisResult::Ok(show(&reply))
    });
}

fn serve_async(runtime: &Runtime, mut connection: impl ConnectionLike) {
    serve(version(), |words| {
        let command = command(words);
        let reply = runtime.block_on(connection.req_packed_command(&command));
        reply.and_then(Value::extract_error).map(|reply| show(&reply))
    });
}

pub fn multiplexed(settings: &Settings) {
    let runtime = Runtime::new().expect("a runtime");
    if settings.is_cluster {
        let client = cluster(settings).build().expect("a client");
        let connection = runtime.block_on(client.get_async_connection()).expect("a connection");
        return serve_async(&runtime, connection);
    }
    let mut config = AsyncConnectionConfig::new();
    if let Some(timeout) = settings.timeout() {
        config = config.set_response_timeout(Some(timeout));
    }
    let client = open(settings);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    serve_async(&runtime, runtime.block_on(connecting).expect("a connection"));
}

pub fn manager(settings: &Settings) {
    let runtime = Runtime::new().expect("a runtime");
    let mut config = ConnectionManagerConfig::new();
    if let Some(timeout) = settings.timeout() {
        config = config.set_response_timeout(Some(timeout));
    }
    let client = open(settings);
    let connecting = client.get_connection_manager_with_config(config);
    serve_async(&runtime, runtime.block_on(connecting).expect("a connection"));
}
