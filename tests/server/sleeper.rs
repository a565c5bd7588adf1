//! A blocked client.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, Value};

use harness::{Ask, Server, cmd, until};

/// A blocked client on its own thread.
pub struct Sleeper {
    pub id: i64,
    thread: JoinHandle<(RedisResult<Value>, Instant)>,
}

impl Sleeper {
    /// Sends a command that blocks, and waits until the server has blocked its client.
    pub fn start(server: &Server, line: &str) -> Self {
        Self::start_with(server, server.connect(), line)
    }

    pub fn start_with(server: &Server, mut client: Connection, line: &str) -> Self {
        let Value::Int(id) = client.ask("CLIENT ID") else { panic!("an id") };
        let before = waiters(server);
        let line = line.to_owned();
        let thread = std::thread::spawn(move || (cmd(&line).query(&mut client), Instant::now()));
        until("the client is asleep", || (waiters(server) == before + 1).then_some(()));
        Self { id, thread }
    }

    /// Returns whether it has got a reply yet.
    pub fn is_awake(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns its reply: a value, an error, or that the server hung up.
    pub fn outcome(self) -> RedisResult<Value> {
        self.thread.join().expect("no panic").0
    }

    /// Waits until the server has exited. Returns whether there was no reply until then.
    pub fn hangs_up(self) -> bool {
        self.outcome().is_err_and(|error| error.is_io_error())
    }

    pub fn reply(self) -> Value {
        self.outcome().expect("a reply")
    }

    /// Returns the reply, and how long after `start` it came.
    pub fn reply_after(self, start: Instant) -> (Value, Duration) {
        let (reply, at) = self.thread.join().expect("no panic");
        (reply.expect("a reply"), at - start)
    }

    pub fn error(self) -> String {
        self.outcome().expect_err("an error").to_string()
    }
}

/// Returns how many clients the server has blocked.
pub fn waiters(server: &Server) -> u64 {
    server.info("dehydrator", "dehydrator_blocked_clients")
}
