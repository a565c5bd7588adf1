//! Reads from the server, with INFO and SCAN alone, and with a bounded number of commands per refresh.

use std::time::Duration;

use redis::{
    Client, Connection, ConnectionAddr, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value,
};

use crate::model::{Facts, Model, Trouble};

/// The COUNT of a SCAN, which takes well below a millisecond.
const COUNT: usize = 500;
/// The number of dehydrators shown as overdue the longest.
const WORST: usize = 3;
/// SCANs per refresh; the next refresh continues. A million keys take 40 refreshes.
const SCANS: usize = 50;
/// Dehydrators whose INFO is read per refresh; the next refresh continues with the others.
const ASKED: usize = 500;
/// The timeout for the server, after which the user is told.
const PATIENCE: Duration = Duration::from_secs(3);

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

pub struct Watch {
    client: Client,
    connection: Option<Connection>,
    cursor: u64,
    /// The dehydrator whose INFO is read next.
    next: Vec<u8>,
}

impl Watch {
    pub fn new(client: Client) -> Self {
        Self { client, connection: None, cursor: 0, next: Vec::new() }
    }

    /// Updates the model. Stores an error in it, and retries at the next refresh.
    pub fn refresh(&mut self, model: &mut Model, now: Duration) {
        let result = self.connect().map_err(|error| self.trouble(&error, false));
        let result = result.and_then(|()| {
            self.try_refresh(model, now).map_err(|error| self.trouble(&error, true))?;
            if model.fields.is_empty() { Err(self.no_module(model)) } else { Ok(()) }
        });
        self.conclude(model, result);
    }

    /// Updates only the TTLs of the selected dehydrator, after a selection.
    pub fn refresh_selected(&mut self, model: &mut Model) {
        if let Some(connection) = &mut self.connection {
            let result = ask_selected(connection, model);
            let result = result.map_err(|error| self.trouble(&error, true));
            self.conclude(model, result);
        }
    }

    fn conclude(&mut self, model: &mut Model, result: Result<(), Trouble>) {
        model.trouble = result.err();
        if model.trouble.is_some() {
            // Late replies would be taken for replies to the next commands.
            self.connection = None;
            self.cursor = 0;
        }
    }

    fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    fn is_with_tls(&self) -> bool {
        matches!(self.client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Translates an error for the user. `connected`: whether there was a connection.
    fn trouble(&self, error: &RedisError, connected: bool) -> Trouble {
        let address = self.address();
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
                let advice = if !connected && self.is_with_tls() { HOW_TO_TRUST } else { "" };
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
        Trouble { what, advice }
    }

    fn no_module(&self, model: &Model) -> Trouble {
        let what = format!(
            "The server at {} ({}) has no module called dehydrator.",
            self.address(),
            model.server
        );
        Trouble { what, advice: HOW_TO_LOAD }
    }

    fn connect(&mut self) -> RedisResult<()> {
        if self.connection.is_none() {
            let connection = self.client.get_connection_with_timeout(PATIENCE)?;
            connection.set_read_timeout(Some(PATIENCE))?;
            connection.set_write_timeout(Some(PATIENCE))?;
            self.connection = Some(connection);
        }
        Ok(())
    }

    /// Reads everything; only INFO if the module is not loaded.
    fn try_refresh(&mut self, model: &mut Model, now: Duration) -> RedisResult<()> {
        let connection = self.connection.as_mut().expect("connect() was called");
        let info: String = redis::cmd("INFO").arg("server").arg("dehydrator").query(connection)?;
        model.take_info(&info, now);
        if model.fields.is_empty() {
            return Ok(());
        }

        model.worst = ask_worst(connection)?;
        for _ in 0..SCANS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(self.cursor).arg("COUNT").arg(COUNT).arg("TYPE").arg("dehy-type");
            let (cursor, keys): (u64, Vec<Vec<u8>>) = scan.query(connection)?;
            keys.into_iter().for_each(|key| model.saw(key));
            self.cursor = cursor;
            if cursor == 0 {
                model.end_walk();
                break;
            }
        }

        let mut keys: Vec<Vec<u8>> =
            model.dehydrators.range(self.next.clone()..).map(|(key, _)| key.clone()).collect();
        self.next = if keys.len() > ASKED { keys.swap_remove(ASKED) } else { Vec::new() };
        keys.truncate(ASKED);
        let mut asked = redis::pipe();
        keys.iter().for_each(|key| {
            asked.cmd("DEHYDRATOR.INFO").arg(key);
        });
        // A key that is no longer a dehydrator replies an error, which does not concern the others.
        let replies = if keys.is_empty() {
            Vec::new()
        } else {
            asked.ignore_errors().query::<Vec<Value>>(connection)?
        };
        for (key, reply) in keys.iter().zip(&replies) {
            if let Some((facts, _)) = parse(reply) {
                model.take_facts(key, facts, now);
            }
        }

        // Keep a dehydrator selected, even if the selected one is gone.
        model.select(0);
        ask_selected(connection, model)
    }
}

/// Returns whether an error is about TLS, judged by its text, because the library has no kind for it.
fn is_about_tls(error: &RedisError) -> bool {
    let error = error.to_string();
    ["certificate", "Certificate", "InvalidContentType", "HandshakeFailure", "fatal alert"]
        .iter()
        .any(|word| error.contains(word))
}

/// A row of LATE: the key and its database, if known, how long it is overdue, and how many elements are due.
type Worst = (Option<Vec<u8>>, Option<u64>, u64, Option<u64>);

/// Reads the keys that are overdue the longest. Returns none if the user lacks the permission, or the module the command.
fn ask_worst(connection: &mut Connection) -> RedisResult<Vec<(Vec<u8>, u64, u64)>> {
    let late = redis::cmd("DEHYDRATOR.LATE").arg("COUNT").arg(WORST).query(connection);
    let rows: Vec<Worst> = match late {
        Err(error) if error.code().is_some() => return Ok(Vec::new()),
        rows => rows?,
    };
    Ok(rows.into_iter().filter_map(|(key, db, age, _)| Some((key?, db?, age))).collect())
}

fn ask_selected(connection: &mut Connection, model: &mut Model) -> RedisResult<()> {
    let Some(key) = &model.selected else { return Ok(()) };
    let mut full = redis::cmd("DEHYDRATOR.INFO");
    full.arg(key).arg("FULL");
    match full.query::<Value>(connection) {
        Ok(reply) => {
            model.by_ttl = parse(&reply).map(|(_, by_ttl)| by_ttl).unwrap_or_default();
            Ok(())
        }
        // The key has just changed its type.
        Err(error) if error.code().is_some() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Parses the reply of `DEHYDRATOR.INFO key [FULL]`, with the elements per TTL. Skips unknown fields; missing ones are 0.
fn parse(reply: &Value) -> Option<(Facts, Vec<(u64, u64)>)> {
    let mut facts = Facts::default();
    let mut by_ttl = Vec::new();
    let number = |value: &Value| redis::from_redis_value_ref::<Option<u64>>(value).ok().flatten();
    let text = |value: &Value| redis::from_redis_value_ref::<Option<Vec<u8>>>(value).ok().flatten();
    for (name, value) in reply.as_map_iter()? {
        let Value::BulkString(name) = name else { continue };
        match name.as_slice() {
            b"length" => facts.length = number(value).unwrap_or(0),
            b"due" => facts.due = number(value).unwrap_or(0),
            b"given-out" => facts.given_out = number(value).unwrap_or(0),
            b"ttls" => facts.ttls = number(value).unwrap_or(0),
            b"next-deadline" => facts.next_deadline = number(value),
            b"memory" => facts.memory = number(value).unwrap_or(0),
            b"policy" => facts.policy = text(value),
            b"failures" => facts.failures = number(value).unwrap_or(0),
            b"failing-since" => facts.failing_since = number(value),
            b"last-failure" => facts.last_failure = text(value),
            b"paused" => facts.paused = number(value) == Some(1),
            b"paused-until" => facts.paused_until = number(value),
            b"overdue" => facts.overdue = number(value).unwrap_or(0),
            b"oldest-due-ms" => facts.oldest_due_ms = number(value),
            b"elements-by-ttl" => {
                let pairs = value.as_map_iter()?;
                by_ttl = pairs.filter_map(|(ttl, n)| Some((number(ttl)?, number(n)?))).collect();
                by_ttl.sort_unstable();
            }
            _ => (),
        }
    }
    Some((facts, by_ttl))
}
