//! A server with access to the CPU time of its main thread, and with control over its core.

use std::fs;
use std::ops::Deref;
use std::thread;
use std::time::Duration;

use redis::Connection;
use redis::io::tcp::TcpSettings;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use harness::Server;

/// A server is idle if its CPU time does not change for this long.
const STILL: Duration = Duration::from_micros(300);

/// The cores of measured servers, and of their clients.
const SERVERS: usize = 0;
const CLIENTS: usize = 1;

pub struct Probe {
    server: Server,
    schedstat: String,
}

impl Deref for Probe {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Probe {
    /// Starts a server on any core, like its children.
    pub fn start(options: &[&str]) -> Self {
        let server = Server::start_with_port(options);
        let schedstat = format!("/proc/{}/schedstat", server.info("server", "process_id"));
        Self { server, schedstat }
    }

    /// Starts a server on a core of its own, and moves the threads that the caller starts from now on to another: so a
    /// client costs the server nothing but its requests.
    pub fn start_pinned(options: &[&str]) -> Self {
        let probe = Self::start(options);
        let pid = probe.info("server", "process_id") as i32;
        pin(Pid::from_raw(pid), &[SERVERS]);
        pin(None, &[CLIENTS]);
        probe
    }

    /// Opens a connection over TCP, like clients on other machines, without a timeout.
    pub fn connect(&self) -> Connection {
        let url = format!("redis://127.0.0.1:{}", self.port());
        let info = redis::IntoConnectionInfo::into_connection_info(url).expect("a url");
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = redis::Client::open(info).expect("a url");
        let connection = client.get_connection().expect("a connection");
        connection.set_read_timeout(None).expect("no timeout");
        connection
    }

    /// Returns the nanoseconds that the main thread ran, and that it waited for a core.
    pub fn ran_and_waited_ns(&self) -> [u64; 2] {
        let text = fs::read_to_string(&self.schedstat).expect("a kernel that counts");
        let mut fields = text.split(' ').map(|field| field.parse().expect("a number"));
        [(); 2].map(|()| fields.next().expect("a field"))
    }

    /// Returns the main thread's CPU time, after it has become idle.
    pub fn at_rest_ns(&self) -> u64 {
        let mut before = self.ran_and_waited_ns()[0];
        loop {
            thread::sleep(STILL);
            let now = self.ran_and_waited_ns()[0];
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// Runs a function, and returns the main thread's CPU time for each of `count`, in microseconds.
    pub fn cost(&self, count: usize, run: impl FnOnce()) -> f64 {
        let before = self.at_rest_ns();
        run();
        (self.at_rest_ns() - before) as f64 / 1e3 / count as f64
    }
}

/// Allows this thread, and those that it starts, to run on any core again.
pub fn unpin() {
    pin(None, &[SERVERS, CLIENTS]);
}

/// Pins a thread. With only one core, all stay on it.
fn pin(thread: Option<Pid>, processors: &[usize]) {
    if thread::available_parallelism().is_ok_and(|it| it.get() > CLIENTS) || thread.is_none() {
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        let _ = sched_setaffinity(thread, &set);
    }
}

/// Returns the median.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
