//! Delivery latency: a blocking POLL, compared with the alternatives without the module.
//!
//! In each case a million things wait for hours, and [`SOON`] of them come due one after the other over some seconds.
//! Delivery latency is the time from the element's deadline until a client has the element, both by the clock of this
//! machine.
//!
//! - *POLL with BLOCK*: 1,000 dehydrators, a client blocked on each.
//! - *expired events*: a million keys with a TTL, one subscriber to the server's `expired` events.
//! - *sorted set*: a million members, one client that polls every 10 ms, or every 100.
//!
//! It also measures what other clients notice while a million elements that came due at once are moved to a stream.
//!
//! ```text
//!   cargo bench -p dehydrator-benches --bench lateness            measures, and writes the table and the chart
//!   cargo bench -p dehydrator-benches --bench lateness -- charts  redraws the chart from the table in docs/figures/
//! ```

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};

use benches::chart::{Family, Reach, Span};
use benches::{chart, page};
use harness::{Server, cmd};

const WAITING: usize = 1_000_000;
const KEYS: usize = 1000;
const SOON: usize = 10_000;
/// The time between two deadlines.
const APART_US: u64 = 500;
/// How long late events are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64() * 1e3
}

/// Returns deadlines in milliseconds, from half a second ahead.
fn deadlines() -> Vec<u64> {
    let start = now_ms() as u64 + 500;
    (0..SOON as u64).map(|number| start + number * APART_US / 1000).collect()
}

/// Sends commands in batches; each is made from its number.
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
            (server.info("dehydrator", "dehydrator_blocked_clients") == KEYS as u64).then_some(())
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
    // Events that have not come by the end are later than this.
    let missing = SOON - lateness.len();
    lateness.extend(std::iter::repeat_n(f64::INFINITY, missing));
    lateness
}

fn polled_sorted_set(every: Duration) -> Vec<f64> {
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
        std::thread::sleep(every);
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

/// Moves a million elements, due at once, to a stream, while another client sends PINGs. Returns how long the move
/// takes, and the reply times in milliseconds.
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

/// The alternatives: their names in the table and in the chart.
const BLOCKING: (&str, &str) =
    ("POLL with BLOCK, 1,000 clients blocked on 1,000 keys", "Dehydrator, POLL with BLOCK");
const EVERY_10_MS: (&str, &str) =
    ("sorted set, polled every 10 ms", "sorted set, polled every 10 ms");
const EVERY_100_MS: (&str, &str) =
    ("sorted set, polled every 100 ms", "sorted set, polled every 100 ms");
const EXPIRED: (&str, &str) =
    ("`expired` events of keys with a TTL", "expired events of keys with a TTL");

/// Precedes a lower bound in the table.
const OVER: &str = "over ";

/// Returns a row of milliseconds. Events that never came are infinitely late.
fn row(what: &str, mut late: Vec<f64>) -> String {
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late[(late.len() as f64 * share) as usize];
    let shown = |late: f64| match late {
        late if late.is_finite() => format!("{late:.2}"),
        _ => format!("{OVER}60,000"),
    };
    let greatest = late.iter().copied().fold(0.0, f64::max);
    let cells = [late[0], at(0.5), at(0.99), greatest].map(shown);
    format!("| {what} | {} |\n", cells.join(" | "))
}

/// Parses a cell of the table, as [`row`] writes it.
fn reach(cell: &str) -> Reach {
    let number = |text: &str| page::number(text).expect("a number");
    match cell.strip_prefix(OVER) {
        Some(least) => Reach::Over(number(least)),
        None => Reach::Measured(number(cell)),
    }
}

/// Draws the chart from the table on the page.
fn draw() {
    let table = page::tables("lateness").swap_remove(0);
    let spans = [BLOCKING, EVERY_10_MS, EVERY_100_MS, EXPIRED].map(|way| {
        let (row, name) = way;
        let cell = |column| {
            reach(table.cell(row, column).unwrap_or_else(|| panic!("{row} has no {column}")))
        };
        Span {
            name: name.into(),
            median: cell("median"),
            p99: cell("p99"),
            colour: match way {
                BLOCKING => Family::Ours,
                EXPIRED => Family::Expiry,
                _ => Family::Sorted,
            }
            .into(),
        }
    });
    let title = "Delivery latency: from the deadline to the client";
    chart::dots(&page::charts().join("lateness.svg"), title, &spans);
}

fn main() {
    // Skip the argument that cargo adds.
    if std::env::args().any(|argument| argument == "charts") {
        return draw();
    }
    let every = |ms| polled_sorted_set(Duration::from_millis(ms));
    let late = [
        row(BLOCKING.0, blocking_poll()),
        row(EVERY_10_MS.0, every(10)),
        row(EVERY_100_MS.0, every(100)),
        row(EXPIRED.0, expired_events()),
    ];
    let (took, answers) = backlog();
    let answers = row("PING while a million elements are delivered", answers);
    let head = "min | median | p99 | max |\n| --- | ---: | ---: | ---: | ---: |\n";
    let told = [
        format!("{SOON} deadlines; {WAITING} other elements wait\n"),
        format!("| delivery latency, ms | {head}{}", late.concat()),
        format!(
            "{WAITING} elements that come due at once are in a stream after {:.1} s. Meanwhile:\n",
            took.as_secs_f64()
        ),
        format!("| reply time, ms | {head}{answers}"),
    ]
    .join("\n");
    println!("{}\n\n{told}", harness::server_program().display());
    // The page is about the most common server.
    if std::env::var_os("DEHYDRATOR_SERVER").is_none() {
        page::put("lateness", told.trim_end());
        draw();
    }
}
