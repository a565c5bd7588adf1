//! A server whose main thread's processor time is read, and on which processor it runs.

use std::fs;
use std::ops::Deref;
use std::thread;
use std::time::Duration;

use redis::Connection;
use redis::io::tcp::TcpSettings;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use harness::Server;

/// The server is asleep if its processor time stands still for so long.
const STILL: Duration = Duration::from_micros(300);

/// Where the servers run whose costs are measured, and where their clients do.
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
    /// A server on any processor, as its children then are.
    pub fn start(options: &[&str]) -> Self {
        let server = Server::start_with_port(options);
        let schedstat = format!("/proc/{}/schedstat", server.info("server", "process_id"));
        Self { server, schedstat }
    }

    /// A server that has a processor of its own, while the threads that the caller starts from now on have another:
    /// so a client costs the server nothing but what it asks for.
    pub fn start_pinned(options: &[&str]) -> Self {
        let probe = Self::start(options);
        let pid = probe.info("server", "process_id") as i32;
        pin(Pid::from_raw(pid), &[SERVERS]);
        pin(None, &[CLIENTS]);
        probe
    }

    /// A connection by TCP, as clients on other machines have it, that waits for as long as it takes.
    pub fn connect(&self) -> Connection {
        let url = format!("redis://127.0.0.1:{}", self.port());
        let info = redis::IntoConnectionInfo::into_connection_info(url).expect("a url");
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = redis::Client::open(info).expect("a url");
        let connection = client.get_connection().expect("a connection");
        connection.set_read_timeout(None).expect("no timeout");
        connection
    }

    /// Nanoseconds of the main thread: those that it ran, and those that it waited for a processor.
    pub fn ran_and_waited_ns(&self) -> [u64; 2] {
        let text = fs::read_to_string(&self.schedstat).expect("a kernel that counts");
        let mut fields = text.split(' ').map(|field| field.parse().expect("a number"));
        [(); 2].map(|()| fields.next().expect("a field"))
    }

    /// The main thread's processor time when it has come to rest.
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

    /// Runs something, and returns the main thread's processor time for each of `count`, in microseconds.
    pub fn cost(&self, count: usize, run: impl FnOnce()) -> f64 {
        let before = self.at_rest_ns();
        run();
        (self.at_rest_ns() - before) as f64 / 1e3 / count as f64
    }
}

/// This thread, and those that it starts, may run on any processor again.
pub fn unpin() {
    pin(None, &[SERVERS, CLIENTS]);
}

/// Where there is but one processor, all stay on it.
fn pin(thread: Option<Pid>, processors: &[usize]) {
    if thread::available_parallelism().is_ok_and(|it| it.get() > CLIENTS) || thread.is_none() {
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        let _ = sched_setaffinity(thread, &set);
    }
}

/// The one in the middle.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
