//! How late what is due reaches a client: a blocking POLL, beside what there is without the module.
//!
//! In each case a million things wait for hours, and [`SOON`] of them come due one after the other over
//! some seconds. Lateness is the time at which a client has it in hand, less its deadline, both by this
//! machine's clock.
//!
//! - *POLL BLOCK*: 1,000 dehydrators, a client asleep on each.
//! - *expired events*: a million volatile keys, one subscriber to the server's `expired` events.
//! - *sorted set*: a million members, one client that asks every 100 ms.
//!
//! And what other clients notice while a million elements that came due at once are moved to a stream.

#[path = "chart.rs"]
#[allow(dead_code)]
mod chart;
#[path = "../tests/server/harness.rs"]
#[allow(dead_code)]
mod harness;
#[path = "page.rs"]
mod page;

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};

use harness::{Server, cmd};

const WAITING: usize = 1_000_000;
const KEYS: usize = 1000;
const SOON: usize = 10_000;
/// Between one deadline and the next.
const APART_US: u64 = 500;
/// Events that have not come by then are not waited for.
const PATIENCE: Duration = Duration::from_secs(60);

fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64() * 1e3
}

/// Deadlines in milliseconds, from half a second ahead.
fn deadlines() -> Vec<u64> {
    let start = now_ms() as u64 + 500;
    (0..SOON as u64).map(|number| start + number * APART_US / 1000).collect()
}

/// Sends commands in batches, made of their numbers.
fn send_all(
    client: &mut Connection,
    count: usize,
    mut add: impl FnMut(&mut redis::Pipeline, usize),
) {
    for first in (0..count).step_by(10_000) {
        let mut pipe = redis::pipe();
        (first..(first + 10_000).min(count)).for_each(|number| add(&mut pipe, number));
        pipe.exec(client).expect("replies");
    }
}

fn blocking_poll() -> Vec<f64> {
    let server = Server::start(&["--maxclients", "2000"]);
    let mut client = server.connect();
    send_all(&mut client, WAITING, |pipe, number| {
        let (key, ttl) = (format!("k{}", number % KEYS), 7_200_000 + number % 8);
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(ttl).arg(&[b'x'; 64]).arg(number);
    });
    let lateness = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for key in 0..KEYS {
            let (mut client, lateness) = (server.connect(), &lateness);
            scope.spawn(move || {
                let poll = cmd(&format!("DEHYDRATOR.POLL k{key} BLOCK 0 COUNT 1"));
                for _ in 0..SOON / KEYS {
                    let elements: Vec<u64> = poll.query(&mut client).expect("an element");
                    let late = now_ms() - elements[0] as f64;
                    lateness.lock().expect("no panic").push(late);
                }
            });
        }
        harness::until("all are asleep", || {
            (server.info("dehydrator", "dehydrator_waiters") == KEYS as u64).then_some(())
        });
        let deadlines = deadlines();
        send_all(&mut client, SOON, |pipe, number| {
            let (key, at) = (format!("k{}", number * 7 % KEYS), deadlines[number]);
            let push = pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(500).arg(at);
            push.arg(format!("soon-{number}")).arg("AT").arg(at);
        });
    });
    lateness.into_inner().expect("no panic")
}

fn expired_events() -> Vec<f64> {
    let server = Server::start(&["--notify-keyspace-events", "Ex"]);
    let mut client = server.connect();
    send_all(&mut client, WAITING, |pipe, number| {
        pipe.cmd("SET").arg(number).arg(&[b'x'; 64]).arg("EX").arg(7200);
    });
    let mut listener = server.connect();
    listener.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut events = listener.as_pubsub();
    events.subscribe("__keyevent@0__:expired").expect("a subscription");
    let deadlines = deadlines();
    send_all(&mut client, SOON, |pipe, number| {
        let at = deadlines[number];
        pipe.cmd("SET").arg(format!("{number}:{at}")).arg(&[b'x'; 64]).arg("PXAT").arg(at);
    });
    let started = Instant::now();
    let mut lateness = Vec::new();
    while lateness.len() < SOON && started.elapsed() < PATIENCE {
        let Ok(event) = events.get_message() else { break };
        let key: String = event.get_payload().expect("a key");
        let at: f64 = key.split(':').nth(1).expect("a deadline").parse().expect("a number");
        lateness.push(now_ms() - at);
    }
    // What has not come is later than this by the end.
    let missing = SOON - lateness.len();
    lateness.extend(std::iter::repeat_n(f64::INFINITY, missing));
    lateness
}

fn polled_sorted_set() -> Vec<f64> {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let hours = now_ms() as u64 + 7_200_000;
    send_all(&mut client, WAITING, |pipe, number| {
        pipe.cmd("ZADD").arg("z").arg(hours + number as u64).arg(number);
    });
    let deadlines = deadlines();
    send_all(&mut client, SOON, |pipe, number| {
        pipe.cmd("ZADD")
            .arg("z")
            .arg(deadlines[number])
            .arg(format!("{number}:{}", deadlines[number]));
    });
    let mut lateness = Vec::new();
    while lateness.len() < SOON {
        std::thread::sleep(Duration::from_millis(100));
        let now = now_ms() as u64;
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("ZRANGEBYSCORE").arg("z").arg(0).arg(now);
        pipe.cmd("ZREMRANGEBYSCORE").arg("z").arg(0).arg(now);
        let (members, _): (Vec<String>, Value) = pipe.query(&mut client).expect("members");
        for member in members {
            let at: f64 = member.split(':').nth(1).expect("a deadline").parse().expect("a number");
            lateness.push(now_ms() - at);
        }
    }
    lateness
}

/// A million elements come due at once and are moved to a stream, while another client asks for nothing but
/// an answer. How long that takes, and how long each answer, in milliseconds.
fn backlog() -> (Duration, Vec<f64>) {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let at = now_ms() as u64 + 20_000;
    send_all(&mut client, WAITING, |pipe, number| {
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(number % 8).arg(&[b'x'; 64]);
        push.arg(format!("{number:016}")).arg("AT").arg(at);
    });
    assert!(now_ms() < at as f64, "this machine is too slow for this");
    cmd("DEHYDRATOR.ONDUE k STREAM s").exec(&mut client).expect("OK");
    while now_ms() < at as f64 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (started, mut answers) = (Instant::now(), Vec::new());
    loop {
        for _ in 0..100 {
            let asked = Instant::now();
            cmd("PING").exec(&mut client).expect("an answer");
            answers.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        let left: usize = cmd("DEHYDRATOR.LEN k").query(&mut client).expect("a number");
        if left == 0 {
            return (started.elapsed(), answers);
        }
    }
}

/// One way, and how late things came by it, in milliseconds.
struct Late {
    what: &'static str,
    /// Sorted. What never came is infinitely late.
    late: Vec<f64>,
}

impl Late {
    fn new(what: &'static str, mut late: Vec<f64>) -> Self {
        late.sort_by(f64::total_cmp);
        Self { what, late }
    }

    fn at(&self, share: f64) -> f64 {
        self.late[(self.late.len() as f64 * share) as usize]
    }

    /// A row of a table.
    fn row(&self) -> String {
        let shown = |late: f64| match late {
            late if late.is_finite() => format!("{late:.2}"),
            _ => "over 60,000".into(),
        };
        let greatest = self.late.iter().copied().fold(0.0, f64::max);
        let cells = [self.late[0], self.at(0.5), self.at(0.99), greatest].map(shown);
        format!("| {} | {} |\n", self.what, cells.join(" | "))
    }

    /// The median as a bar; what never came counts as the time that was waited.
    fn bar(&self, name: &str, share: f64) -> (String, f64) {
        (name.to_owned(), self.at(share).min(PATIENCE.as_secs_f64() * 1e3))
    }
}

fn main() {
    let ours = Late::new("POLL BLOCK, 1,000 clients asleep on 1,000 keys", blocking_poll());
    let polled = Late::new("sorted set, asked every 100 ms", polled_sorted_set());
    let expired = Late::new("`expired` events of volatile keys", expired_events());
    let (took, answers) = backlog();
    let answers = Late::new("PING while a million are delivered", answers);
    let head = "first | median | p99 | greatest |\n| --- | ---: | ---: | ---: | ---: |\n";
    let told = [
        format!("{SOON} deadlines while {WAITING} others wait\n"),
        format!("| milliseconds late | {head}{}{}{}", ours.row(), polled.row(), expired.row()),
        format!(
            "{WAITING} elements that come due at once are in a stream {:.1} s later. Meanwhile:\n",
            took.as_secs_f64()
        ),
        format!("| milliseconds until the answer | {head}{}", answers.row()),
    ]
    .join("\n");
    println!("{}\n\n{told}", harness::server_program().display());
    // The page is about the server that most have.
    if std::env::var_os("DEHYDRATOR_SERVER").is_none() {
        page::put("lateness", told.trim_end());
        let bars = [
            ours.bar("our POLL BLOCK, median", 0.5),
            ours.bar("our POLL BLOCK, 99th percentile", 0.99),
            polled.bar("sorted set, asked every 100 ms, median", 0.5),
            polled.bar("the same, 99th percentile", 0.99),
            expired.bar("expired events, median (over)", 0.5),
        ];
        let title = "How late what is due is in hand, milliseconds";
        chart::bars(&page::charts().join("lateness.svg"), title, &bars, true);
    }
}
