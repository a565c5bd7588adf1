//! Errors of a server, translated for the user.

use std::time::Duration;

use redis::{Client, ConnectionAddr, ErrorKind, RedisError, ServerErrorKind};

/// The timeout for the server, after which the user is told.
pub const PATIENCE: Duration = Duration::from_secs(3);

const HOW_TO_CONNECT: &str = "Is a server running there? Give the URL of another one, such as \
    redis://user:password@host:6379/0, or rediss:// for TLS (`make top URL=...`, or PORT=6380).";
const HOW_TO_TRUST: &str = "Give the CA of the server's certificate with --cacert, and a client certificate, if the server \
    requires one, with --cert and --key. Use rediss:// for a port with TLS, and redis:// for one without. \
    (`make top URL=... OPTIONS='--cacert ca.crt'`)";
const HOW_TO_LOG_IN: &str = "Put the user and the password into the URL, as in \
    redis://user:password@host:6379/0; the password can also be in REDISCLI_AUTH.";
const HOW_TO_PERMIT: &str = "The user needs +info +scan +dehydrator.info, and ~*.";
const HOW_TO_LOAD: &str = "Load it with `loadmodule /path/to/libdehydrator.so` in redis.conf, or with MODULE \
    LOAD; `make run` starts a server that has it.";

/// Why a refresh failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// The problem, in a sentence or two.
    pub what: String,
    /// What to do about it. Empty if the user can only wait.
    pub advice: &'static str,
}

impl Trouble {
    /// Translates an error. `connected`: whether there was a connection.
    pub fn new(client: &Client, error: &RedisError, connected: bool) -> Self {
        let address = client.get_connection_info().addr().to_string();
        let is_with_tls =
            matches!(client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. });
        let refuses_user = error.kind() == ErrorKind::AuthenticationFailed
            || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"));
        let refuses_command = error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm);
        let (what, advice) = match connected {
            _ if refuses_user => (
                format!("The server at {address} wants another user or password: {error}."),
                HOW_TO_LOG_IN,
            ),
            _ if refuses_command => {
                (format!("The server at {address} refuses: {error}."), HOW_TO_PERMIT)
            }
            _ if error.is_timeout() => {
                let seconds = PATIENCE.as_secs();
                let what =
                    format!("The server at {address} has not replied within {seconds} seconds.");
                // A server without TLS takes the handshake for an incomplete command, and waits.
                let advice = if !connected && is_with_tls { HOW_TO_TRUST } else { "" };
                (what, advice)
            }
            _ if is_about_tls(error) => {
                (format!("Cannot connect to {address}: {error}."), HOW_TO_TRUST)
            }
            false => (format!("Cannot connect to {address}: {error}."), HOW_TO_CONNECT),
            true if error.is_io_error() => {
                (format!("The connection to {address} is lost: {error}."), "")
            }
            true => (format!("The server at {address} replied with an error: {error}."), ""),
        };
        Self { what, advice }
    }

    pub fn no_module(client: &Client, server: &str) -> Self {
        let address = client.get_connection_info().addr();
        let what = format!("The server at {address} ({server}) has no module called dehydrator.");
        Self { what, advice: HOW_TO_LOAD }
    }
}

/// Returns whether an error is about TLS, judged by its text, because the library has no kind for it.
fn is_about_tls(error: &RedisError) -> bool {
    let error = error.to_string();
    ["certificate", "Certificate", "InvalidContentType", "HandshakeFailure", "fatal alert"]
        .iter()
        .any(|word| error.contains(word))
}
