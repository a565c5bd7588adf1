//! The cost to the server of waking a client for one element, compared with BLPOP and BZPOPMIN.
//!
//! One client asks, and blocks; another one pushes; the first one wakes and gets the element. The figure is the CPU
//! time of the server's main thread, which the kernel counts in nanoseconds (`/proc/PID/schedstat`) and which stands
//! still while the server sleeps: from just before the second client sends its command until the server sleeps again,
//! and before that while the first one blocks. The server is otherwise idle, so every pass of its event loop belongs to
//! the wake-up.
//!
//! All ways take turns on one server, with [`JOBS`] jobs in each of [`ROUNDS`] rounds. A figure is the median of the
//! rounds' medians: the server's cron, and other load on the machine, affect only a few jobs.
//!
//! And the CPU time of servers that nobody asks for anything, which all run at once for [`IDLE`] in each round.
//!
//! An argument, part of a name, selects a way, for example to profile it.

use std::fs;
use std::thread;
use std::time::Duration;

use redis::{Connection, Value};

use benches::page;
use benches::table::{Column, Table};
use harness::{Ask, Server, cmd};

const ROUNDS: usize = 5;
const JOBS: usize = 400;
/// The greatest TTL for elements that come due later, in milliseconds.
const TTL_MAX: usize = 10;
/// The server is idle if its CPU time does not change for this long.
const STILL: Duration = Duration::from_micros(200);

/// For how long idle servers are measured.
const IDLE: Duration = Duration::from_secs(5);

/// A way to wake a client.
struct Way {
    name: &'static str,
    /// The command of the client that blocks; without blocking, it asks after the push.
    ask: &'static str,
    sleeps: bool,
    /// The command of the other client, for the number of a job.
    give: fn(usize) -> String,
}

const BLPOP: &str = "BLPOP fed by RPUSH";
const WAYS: [Way; 6] = [
    Way {
        name: BLPOP,
        ask: "BLPOP list 0",
        sleeps: true,
        give: |_| format!("RPUSH list {ELEMENT}"),
    },
    Way {
        name: "BZPOPMIN fed by ZADD",
        ask: "BZPOPMIN zset 0",
        sleeps: true,
        give: |_| format!("ZADD zset 1 {ELEMENT}"),
    },
    Way {
        name: "POLL BLOCK fed by PUSH, due at once",
        ask: "DEHYDRATOR.POLL k BLOCK 0 COUNT 1",
        sleeps: true,
        give: |job| push(0, job),
    },
    Way {
        name: "POLL BLOCK fed by PUSH, due in 1 to 10 ms",
        ask: "DEHYDRATOR.POLL k BLOCK 0 COUNT 1",
        sleeps: true,
        give: |job| push(1 + job % TTL_MAX, job),
    },
    Way {
        name: "LPOP after RPUSH",
        ask: "LPOP list",
        sleeps: false,
        give: |_| format!("RPUSH list {ELEMENT}"),
    },
    Way {
        name: "POLL after PUSH",
        ask: "DEHYDRATOR.POLL k COUNT 1",
        sleeps: false,
        give: |job| push(0, job),
    },
];

const ELEMENT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn push(ttl: usize, job: usize) -> String {
    format!("DEHYDRATOR.PUSH k {ttl} {ELEMENT} {job:016}")
}

/// A server with access to its CPU time, and two clients of it.
struct Host {
    server: Server,
    schedstat: String,
    asks: Connection,
    gives: Connection,
}

impl Host {
    fn start(server: Server) -> Self {
        let schedstat = format!("/proc/{}/schedstat", server.info("server", "process_id"));
        let [asks, gives] = [server.connect(), server.connect()];
        Self { server, schedstat, asks, gives }
    }

    fn cpu_ns(&self) -> u64 {
        let text = fs::read_to_string(&self.schedstat).expect("a kernel that counts");
        text.split(' ').next().expect("a field").parse().expect("a number")
    }

    /// Returns the server's CPU time, after it has become idle.
    fn at_rest_ns(&self) -> u64 {
        let mut before = self.cpu_ns();
        loop {
            thread::sleep(STILL);
            let now = self.cpu_ns();
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// Runs one job. Returns the microseconds from the push to the reply, and those of both clients' commands together.
    fn job(&mut self, way: &Way, job: usize) -> (f64, f64) {
        let (ask, give) = (cmd(way.ask).get_packed_command(), cmd(&(way.give)(job)));
        let start = self.at_rest_ns();
        if way.sleeps {
            self.asks.send_packed_command(&ask).expect("it is sent");
        }
        let asleep = self.at_rest_ns();
        give.exec(&mut self.gives).expect("a reply");
        if !way.sleeps {
            self.asks.send_packed_command(&ask).expect("it is sent");
        }
        let reply = self.asks.recv_response().expect("a reply");
        assert!(!matches!(reply, Value::Nil | Value::ServerError(_)), "{}: {reply:?}", way.name);
        let end = self.at_rest_ns();
        ((end - asleep) as f64 / 1e3, (end - start) as f64 / 1e3)
    }

    fn round(&mut self, way: &Way, table: &mut Table) {
        let (mut wakes, mut jobs): (Vec<f64>, Vec<f64>) =
            (0..JOBS).map(|job| self.job(way, job)).unzip();
        let medians = [&mut wakes, &mut jobs].map(|figures| {
            figures.sort_by(f64::total_cmp);
            figures[JOBS / 2]
        });
        table.note_all(way.name, 0, &medians);
    }
}

/// Measures idle servers. Returns the table.
fn idle() -> String {
    let bare = Host::start(Server::start_with_configuration(""));
    let empty = Host::start(Server::start(&[]));
    let mut waiting = Host::start(Server::start(&[]));
    (0..1000).for_each(|job| drop(waiting.gives.ask(&push(3_600_000 + job, job))));
    let ask = cmd("DEHYDRATOR.POLL k COUNT 1 BLOCK 0").get_packed_command();
    waiting.asks.send_packed_command(&ask).expect("it is sent");
    let hosts = [
        ("without the module", &bare),
        ("with the module", &empty),
        ("with a thousand elements and a blocked client", &waiting),
    ];
    let mut table = Table::default();
    for _ in 0..ROUNDS {
        let before = hosts.map(|(_, host)| host.at_rest_ns());
        thread::sleep(IDLE);
        for ((name, host), before) in hosts.iter().zip(before) {
            table.note_all(name, 0, &[(host.cpu_ns() - before) as f64 / 1e3 / IDLE.as_secs_f64()]);
        }
    }
    let columns =
        [Column::new(0, 0, "us of CPU per second"), Column::ratio(0, 2, "× without the module")];
    table.written("an idle server", &columns)
}

fn main() {
    // Skip the argument that cargo adds.
    let wanted: Vec<_> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let is_wanted = |way: &&Way| wanted.iter().all(|part| way.name.contains(part));
    let ways: Vec<_> = WAYS.iter().filter(is_wanted).collect();
    assert!(!ways.is_empty(), "{wanted:?}: no way is called that");
    let mut host = Host::start(Server::start(&[]));
    let mut table = Table::default();
    for _ in 0..ROUNDS {
        ways.iter().for_each(|way| host.round(way, &mut table));
    }
    let columns = [
        Column::new(0, 1, "us from push to reply"),
        Column::ratio(0, 1, "× BLPOP"),
        Column::new(1, 1, "us, including blocking again"),
        Column::ratio(1, 1, "× BLPOP"),
    ];
    let told = [
        format!("{JOBS} jobs in each of {ROUNDS} rounds, {}-byte elements\n", ELEMENT.len()),
        table.written("server CPU per job", &columns),
        if wanted.is_empty() { idle() } else { String::new() },
    ]
    .join("\n");
    println!("{}\n\n{told}", harness::server_program().display());
    assert!(!host.gives.exists("k"), "every element was taken");
    drop(host.server);
    // The page is about the most common server.
    if wanted.is_empty() && std::env::var_os("DEHYDRATOR_SERVER").is_none() {
        page::put("wakeup", told.trim_end());
    }
}
