//! fred.

use fred::prelude::*;
use fred::types::{ClusterHash, CustomCommand, RespVersion};
use tokio::runtime::Runtime;

use crate::{Settings, serve};

/// From Cargo.lock: the crate does not provide it.
fn version() -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let (_, rest) = lock.split_once("name = \"fred\"\nversion = \"").expect("it is locked");
    rest.split('"').next().expect("a version")
}

/// `blocking`: whether fred knows that the commands block.
pub fn client(settings: &Settings, blocking: bool) {
    let runtime = Runtime::new().expect("a runtime");
    let server = if settings.is_cluster {
        ServerConfig::new_clustered(vec![("127.0.0.1", settings.port)])
    } else {
        ServerConfig::new_centralized("127.0.0.1", settings.port)
    };
    let version_of_protocol = match settings.get("protocol") {
        Some("3") => RespVersion::RESP3,
        _ => RespVersion::RESP2,
    };
    let mut builder =
        Builder::from_config(Config { server, version: version_of_protocol, ..Config::default() });
    builder.set_policy(ReconnectPolicy::new_constant(0, 50));
    builder.with_performance_config(|it| {
        if let Some(timeout) = settings.timeout() {
            it.default_command_timeout = timeout;
        }
    });
    builder.with_connection_config(|it| {
        if settings.get("resend") == Some("off") {
            it.max_command_attempts = 1;
        }
    });
    let client = runtime.block_on(async {
        let client = builder.build().expect("a client");
        client.init().await.expect("a connection");
        client
    });
    serve(version(), |words| {
        let command = CustomCommand::new(words[0], ClusterHash::FirstKey, blocking);
        let arguments: Vec<_> = words[1..].iter().map(|word| word.to_string()).collect();
        let reply: Result<Value, _> = runtime.block_on(client.custom(command, arguments));
        reply.map(|reply| format!("{reply:?}"))
    });
}
