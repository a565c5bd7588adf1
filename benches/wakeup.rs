//! The cost of waking a client for one element, compared with BLPOP, BZPOPMIN and, with leases, XREADGROUP.
//!
//! One client asks, and blocks; another one pushes; the first one wakes and gets the element. The figure is the CPU
//! time of the server's main thread, which the kernel counts in nanoseconds (`/proc/PID/schedstat`) and which stands
//! still while the server sleeps: from just before the second client sends its command until the server sleeps again,
//! and before that while the first one blocks. The server is otherwise idle, so every pass of its event loop belongs to
//! the wake-up.
//!
//! Without the module, somebody else keeps the time of an element that is due later: a client, which pushes it to a list
//! then. So in that comparison the CPU time of the client that pushes, with its timer, is added to the server's.
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

use redis::{Connection, FromRedisValue, Value};
use rustix::time::{ClockId, clock_gettime};

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

/// The CPU time of which part of a job is compared with which: the corner of its table.
const AT_ONCE: &str = "server CPU per job";
const LEASED: &str = "server CPU per leased job";
const LATER: &str = "CPU per job due in 1 to 10 ms, of the server and the client that pushes";

/// A way to wake a client.
struct Way {
    table: &'static str,
    name: &'static str,
    /// The command of the client that blocks; without blocking, it asks after the push.
    ask: &'static str,
    sleeps: bool,
    /// The command of the other client, for the number of a job.
    give: fn(usize) -> String,
    /// Set if that client waits until the element is due, and only then sends the command.
    waits: bool,
    /// The commands with which the first client settles what it got.
    settle: fn(&Value) -> Vec<String>,
}

impl Way {
    const fn new(
        table: &'static str,
        name: &'static str,
        ask: &'static str,
        give: fn(usize) -> String,
    ) -> Self {
        let settle = |_: &Value| Vec::new();
        Self { table, name, ask, sleeps: true, give, waits: false, settle }
    }
}

const POLL: &str = "DEHYDRATOR.POLL k BLOCK 0 COUNT 1";
const LEASE: &str = "DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE 60000";
const READ: &str = "XREADGROUP GROUP group worker COUNT 1 BLOCK 0 STREAMS stream >";
const WAYS: [Way; 9] = [
    Way::new(AT_ONCE, "BLPOP fed by RPUSH", "BLPOP list 0", rpush),
    Way::new(AT_ONCE, "BZPOPMIN fed by ZADD", "BZPOPMIN zset 0", |_| {
        format!("ZADD zset 1 {ELEMENT}")
    }),
    Way::new(AT_ONCE, "POLL BLOCK fed by PUSH, due at once", POLL, |job| push(0, job)),
    Way { sleeps: false, ..Way::new(AT_ONCE, "LPOP after RPUSH", "LPOP list", rpush) },
    Way {
        sleeps: false,
        ..Way::new(AT_ONCE, "POLL after PUSH", "DEHYDRATOR.POLL k COUNT 1", |job| push(0, job))
    },
    Way {
        settle: |reply| {
            let id = items(&items(&items(&items(reply)[0])[1])[0]);
            ["XACK stream group", "XDEL stream"]
                .map(|command| format!("{command} {}", text(&id[0])))
                .into()
        },
        ..Way::new(LEASED, "XREADGROUP BLOCK fed by XADD, XACK and XDEL", READ, |job| {
            format!("XADD stream * {job:016} {ELEMENT}")
        })
    },
    Way {
        settle: |reply| {
            let row = items(&items(reply)[0]);
            vec![format!("DEHYDRATOR.SETTLE k {} {}", text(&row[3]), text(&row[0]))]
        },
        ..Way::new(LEASED, "POLL BLOCK LEASE fed by PUSH, SETTLE", LEASE, |job| push(0, job))
    },
    Way {
        waits: true,
        ..Way::new(LATER, "BLPOP fed by RPUSH at that time", "BLPOP list 0", rpush)
    },
    Way::new(LATER, "POLL BLOCK fed by PUSH", POLL, |job| push(ttl(job), job)),
];

const ELEMENT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Returns the TTL of a job that is due later, in milliseconds.
fn ttl(job: usize) -> usize {
    1 + job % TTL_MAX
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => panic!("{value:?}: no array"),
    }
}

fn text(value: &Value) -> String {
    String::from_redis_value(value.clone()).expect("text")
}

fn rpush(_job: usize) -> String {
    format!("RPUSH list {ELEMENT}")
}

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

    /// Runs one job. Returns the microseconds from the push to the reply, and those of all commands together.
    fn job(&mut self, way: &Way, job: usize) -> (f64, f64) {
        let (ask, give) = (cmd(way.ask).get_packed_command(), cmd(&(way.give)(job)));
        let start = self.at_rest_ns();
        if way.sleeps {
            self.asks.send_packed_command(&ask).expect("it is sent");
        }
        let asleep = self.at_rest_ns();
        let client = thread_ns();
        if way.waits {
            thread::sleep(Duration::from_millis(ttl(job) as u64));
        }
        give.exec(&mut self.gives).expect("a reply");
        let client = if way.table == LATER { thread_ns() - client } else { 0 };
        if !way.sleeps {
            self.asks.send_packed_command(&ask).expect("it is sent");
        }
        let reply = self.asks.recv_response().expect("a reply");
        assert!(!matches!(reply, Value::Nil | Value::ServerError(_)), "{}: {reply:?}", way.name);
        let woken = self.at_rest_ns();
        for settle in (way.settle)(&reply) {
            cmd(&settle).exec(&mut self.asks).expect("it is settled");
        }
        let end = self.at_rest_ns();
        ((woken - asleep + client) as f64 / 1e3, (end - start + client) as f64 / 1e3)
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

/// Returns the CPU time of this thread, which is the client that pushes.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec) as u64
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
    cmd("XGROUP CREATE stream group $ MKSTREAM").exec(&mut host.gives).expect("a group");
    let mut tables = [AT_ONCE, LEASED, LATER].map(|corner| (corner, Table::default()));
    for _ in 0..ROUNDS {
        for way in &ways {
            let table = tables.iter_mut().find(|(corner, _)| *corner == way.table);
            host.round(way, &mut table.expect("a table").1);
        }
    }
    let columns = [
        Column::new(0, 1, "us from push to reply"),
        Column::ratio(0, 1, "× the first"),
        Column::new(1, 1, "us, including blocking again and settling"),
        Column::ratio(1, 1, "× the first"),
    ];
    let written = tables.iter().map(|(corner, table)| table.written(corner, &columns));
    let first =
        format!("{JOBS} jobs in each of {ROUNDS} rounds, {}-byte elements\n", ELEMENT.len());
    let told: Vec<_> =
        std::iter::once(first).chain(written).chain(wanted.is_empty().then(idle)).collect();
    let told = told.join("\n");
    println!("{}\n\n{told}", harness::server_program().display());
    assert!(!host.gives.exists("k"), "every element was taken");
    drop(host.server);
    // The page is about the most common server.
    if wanted.is_empty() && std::env::var_os("DEHYDRATOR_SERVER").is_none() {
        page::put("wakeup", told.trim_end());
    }
}
