//! The page holds the server for no longer than a moment. `--ignored`, and alone: a busy machine delays a PING too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use serde_json::{Value, json};

use super::{Page, change, named};
use harness::{Ask, Server, setting, until};

fn fill(client: &mut Connection, key: &str, count: u64, element: &[u8]) {
    let mut id = 0;
    while id < count {
        let mut push = redis::cmd("DEHYDRATOR.MPUSH");
        push.arg(key);
        for _ in 0..1000 {
            // Most share a TTL; one in ten has a moment of its own.
            let ttl = if id % 10 == 0 { 1_000_000 + id } else { 3_600_000 };
            push.arg(ttl).arg(element).arg(format!("job:{id:012}"));
            id += 1;
        }
        push.exec(client).expect("pushed");
    }
}

/// Sends a PING each millisecond, and returns the round trips in microseconds, ascending, when told to stop.
fn pinging(server: &Server) -> (Arc<AtomicBool>, thread::JoinHandle<Vec<u64>>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut client, stopped) = (server.connect(), Arc::clone(&stop));
    let pings = thread::spawn(move || {
        let mut all = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let begun = Instant::now();
            redis::cmd("PING").exec(&mut client).expect("PONG");
            all.push(begun.elapsed().as_micros() as u64);
            thread::sleep(Duration::from_millis(1).saturating_sub(begun.elapsed()));
        }
        all.sort_unstable();
        all
    });
    (stop, pings)
}

/// An entry of the slow log: its number, the moment, microseconds, words, the client's address and name.
type Slow = (i64, i64, u64, Vec<Vec<u8>>, String, String);

/// Runs something beside the PINGs, and prints how long they and it took. Also prints the
/// commands that held the server for over a millisecond, by its own slow log.
fn beside_pings(what: &str, server: &Server, run: impl FnOnce()) {
    let mut client = server.connect();
    client.ask("CONFIG RESETSTAT");
    client.ask("SLOWLOG RESET");
    let (stop, pings) = pinging(server);
    // Until the first PING.
    thread::sleep(Duration::from_millis(20));
    let begun = Instant::now();
    run();
    let took = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let all = pings.join().expect("no panic");
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    println!(
        "{what}: {took:?}; PING p50 {} µs, p99 {} µs, p99.9 {} µs, longest {} µs",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    let slow: Vec<Slow> =
        redis::cmd("SLOWLOG").arg("GET").arg(-1).query(&mut client).expect("a log");
    for (_, _, micros, words, ..) in slow.iter().take(10) {
        let words: Vec<_> =
            words.iter().take(4).map(|word| word.escape_ascii().to_string()).collect();
        println!("  slow: {micros} µs {}", words.join(" ").chars().take(100).collect::<String>());
    }
    if std::env::var_os("DEHYDRATOR_STRICT").is_some() {
        assert!(slow.is_empty(), "{what}: a command held the server for over a millisecond");
    }
}

#[test]
#[ignore = "takes minutes and gigabytes"]
fn nothing_stalls_at_ten_million_elements() {
    let count = setting("DEHYDRATOR_ELEMENTS", 10_000_000);
    let server = Server::start_with_port(&[
        "--slowlog-log-slower-than",
        "1000",
        "--slowlog-max-len",
        "1000",
    ]);
    let mut client = server.connect();
    fill(
        &mut client,
        "jobs",
        count,
        b"{\"task\": \"mails.send\", \"args\": [17, \"anna@example.org\"]}",
    );
    client.ask("SLOWLOG RESET");
    beside_pings("nothing, for 3 s", &server, || thread::sleep(Duration::from_secs(3)));
    let page = Page::of(&[&server]);
    let queue = named(&server, "jobs");
    let begun = Instant::now();
    page.get(&format!("api/elements?{queue}"));
    let first = begun.elapsed();
    println!("the first page of a page that has just begun: {first:?}");
    assert!(first < Duration::from_millis(200), "{first:?}");
    until("the overview shows it", || {
        (page.get("api/overview")["queues"][0]["length"] == count).then_some(())
    });
    let timed = |what: &str, path: &str| {
        beside_pings(what, &server, || {
            let begun = Instant::now();
            page.get(path);
            let took = begun.elapsed();
            println!("  the answer: {took:?}");
        });
    };
    timed("overview", "api/overview");
    timed("queue", &format!("api/queue?{queue}"));
    timed("first page", &format!("api/elements?{queue}"));
    timed("500 elements", &format!("api/elements?{queue}&count=500"));
    timed("a filter by id", &format!("api/elements?{queue}&id=nowhere"));
    timed("a filter by text", &format!("api/elements?{queue}&text=nowhere"));
    timed("held, of which there are none", &format!("api/elements?{queue}&view=held"));
    let deep =
        page.get(&format!("api/queue?{queue}"))["now"].as_u64().expect("a moment") + 3_500_000;
    timed("from a moment on", &format!("api/elements?{queue}&start=~{deep}"));
    beside_pings("10 s of a timeline", &server, || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            page.get(&format!("api/timeline?{queue}"));
            thread::sleep(Duration::from_millis(500));
        }
    });
    for (action, args) in [
        ("postpone", json!({ "ms": 86_400_000 })),
        ("run_now", Value::Null),
        ("cancel", Value::Null),
    ] {
        beside_pings(&format!("5 s of {action}"), &server, || {
            let on = json!({ "match": { "view": "next" } });
            let job = page.post("api/act", &change(&server, "jobs", action, args, on));
            thread::sleep(Duration::from_secs(5));
            page.post(
                &format!("api/jobs/{}/stop", job["job"].as_str().expect("a job")),
                &json!({}),
            );
            println!("  done: {}", page.end_of(&job)["done"]);
        });
    }
    // Some hundred thousand are due now.
    timed("queue with due elements", &format!("api/queue?{queue}"));
    timed("due", &format!("api/elements?{queue}&view=due"));

    fill(&mut client, "large", 1000, &vec![b'x'; 1 << 20]);
    client.ask("SLOWLOG RESET");
    let queue = named(&server, "large");
    timed("50 elements of 1 MiB", &format!("api/elements?{queue}"));
    timed("a filter over elements of 1 MiB", &format!("api/elements?{queue}&text=nowhere"));
}
