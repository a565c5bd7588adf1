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

#[path = "../tests/server/harness.rs"]
#[allow(dead_code)]
mod harness;

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

fn report(what: &str, mut lateness: Vec<f64>) {
    lateness.sort_by(f64::total_cmp);
    let at = |share: f64| match lateness[(lateness.len() as f64 * share) as usize] {
        late if late.is_finite() => format!("{late:.2}"),
        _ => "over 60 s".into(),
    };
    let last = lateness.iter().copied().filter(|late| late.is_finite()).fold(0.0, f64::max);
    println!(
        "| {what:<34} | {:>9.2} | {:>9} | {:>9} | {last:>9.2} |",
        lateness[0],
        at(0.5),
        at(0.99)
    );
}

fn main() {
    println!("{SOON} deadlines while {WAITING} others wait; milliseconds late");
    println!("{}\n", harness::server_program().display());
    println!(
        "|                                    |     first |    median |       p99 |  greatest |"
    );
    println!(
        "|------------------------------------|-----------|-----------|-----------|-----------|"
    );
    report("POLL BLOCK, 1,000 clients", blocking_poll());
    report("sorted set, asked every 100 ms", polled_sorted_set());
    report("expired events", expired_events());
    let (took, answers) = backlog();
    println!("\n{WAITING} come due at once and are moved to a stream: {:.1} s", took.as_secs_f64());
    println!("Meanwhile another client's PING takes, in milliseconds:");
    report("PING during the backlog", answers);
}
