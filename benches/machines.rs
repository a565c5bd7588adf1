//! Delivery latency of a queue that is spread over a cluster, for several kinds of consumers and their numbers of
//! connections; and the cost of every consumer receiving every event. `make bench-wide` measures the packages' workers.
//!
//! Three primaries, each with a replica, share one machine with the consumers. [`ELEMENTS`] elements come due one after
//! the other over some seconds, in sixteen keys in turn unless a way differs. All ways take turns, and percentiles
//! cover all their elements. CPU time is that of the primaries' main threads, including pushes, cluster traffic and
//! cron: compare it between the rows only.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use benches::page;
use redis::Connection;

use harness::nodes::Cluster;
use harness::{Ask, cmd};

const ELEMENTS: usize = 600;
/// Milliseconds between two deadlines.
const APART_MS: u64 = 10;
const PRIMARIES: usize = 3;
const KEYS: usize = 16;
/// The index of this way.
const SUBSCRIBER: usize = 3;
const DUE: &str = "__keyevent@0__:dehydrator.due";

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("a clock after 1970").as_micros() as u64
}

/// The consumers' records: how many milliseconds after its deadline each element arrived.
struct Books {
    late_ms: Mutex<Vec<f64>>,
    stop: AtomicBool,
}

impl Books {
    fn note(&self, deadlines: &[u64]) {
        let now = now_us();
        let late = deadlines.iter().map(|at| (now as f64 - *at as f64 * 1000.0) / 1000.0);
        self.late_ms.lock().expect("no panic").extend(late);
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

type Consume = fn(&Cluster, usize, Vec<String>, &Books);

/// A kind of consumer.
struct Way {
    name: &'static str,
    keys: fn(usize) -> Vec<String>,
    connections: usize,
    /// Consumes the keys of one primary.
    consume: Consume,
}

fn spread(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("k:{number}")).collect()
}

/// Returns three hash tags, each on a different primary.
fn tagged(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{{jobs:{}}}:{number}", number % PRIMARIES)).collect()
}

const WAYS: [Way; 6] = [
    Way {
        name: "polling the keys in turn, every 100 ms",
        keys: spread,
        connections: 3,
        consume: in_turn,
    },
    Way {
        name: "one connection per primary, blocking on its keys in turn for 1 s each",
        keys: spread,
        connections: 3,
        consume: block_in_turn,
    },
    Way {
        name: "one connection per key, `POLL ... BLOCK`",
        keys: spread,
        connections: KEYS,
        consume: sleepers,
    },
    Way {
        name: "one subscriber per primary, `POLL` after an event",
        keys: spread,
        connections: 6,
        consume: subscriber,
    },
    Way {
        name: "three hash tags, one connection per tag, `MPOLL ... BLOCK`",
        keys: tagged,
        connections: 3,
        consume: mpoll,
    },
    Way {
        name: "three keys, one connection per key, `POLL ... BLOCK`",
        keys: |_| tagged(PRIMARIES),
        connections: 3,
        consume: sleepers,
    },
];

fn poll(node: &mut Connection, key: &str, books: &Books, options: &str) -> usize {
    let line = format!("DEHYDRATOR.POLL {key}{options}");
    let given: Option<Vec<u64>> = cmd(&line).query(node).expect("elements");
    let given = given.unwrap_or_default();
    books.note(&given);
    given.len()
}

fn in_turn(cluster: &Cluster, primary: usize, keys: Vec<String>, books: &Books) {
    let mut node = cluster.nodes[primary].connect();
    while !books.is_over() {
        keys.iter().for_each(|key| _ = poll(&mut node, key, books, ""));
        thread::sleep(Duration::from_millis(100));
    }
}

fn block_in_turn(cluster: &Cluster, primary: usize, keys: Vec<String>, books: &Books) {
    let mut node = cluster.nodes[primary].connect();
    for key in keys.iter().cycle().take_while(|_| !books.is_over()) {
        poll(&mut node, key, books, " BLOCK 1000");
    }
}

fn sleepers(cluster: &Cluster, primary: usize, keys: Vec<String>, books: &Books) {
    thread::scope(|scope| {
        for key in &keys {
            let mut node = cluster.nodes[primary].connect();
            scope.spawn(move || {
                while !books.is_over() {
                    poll(&mut node, key, books, " BLOCK 200");
                }
            });
        }
    });
}

fn subscriber(cluster: &Cluster, primary: usize, keys: Vec<String>, books: &Books) {
    let mut ear = cluster.nodes[primary].connect();
    let mut node = cluster.nodes[primary].connect();
    let mut events = ear.as_pubsub();
    events.subscribe(DUE).expect("a subscription");
    events.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    for key in &keys {
        while poll(&mut node, key, books, "") > 0 {}
    }
    while !books.is_over() {
        let Ok(event) = events.get_message() else { continue };
        let key: String = event.get_payload().expect("a key");
        if keys.contains(&key) {
            while poll(&mut node, &key, books, "") > 0 {}
        }
    }
}

fn mpoll(cluster: &Cluster, primary: usize, keys: Vec<String>, books: &Books) {
    let mut node = cluster.nodes[primary].connect();
    let line = format!("DEHYDRATOR.MPOLL {} {} BLOCK 200", keys.len(), keys.join(" "));
    while !books.is_over() {
        let given: Option<(String, Vec<u64>)> = cmd(&line).query(&mut node).expect("elements");
        given.into_iter().for_each(|(_, given)| books.note(&given));
    }
}

/// Returns the index of the primary that serves a key.
fn owner(cluster: &Cluster, key: &str) -> usize {
    let serves = |node: &usize| {
        cmd(&format!("DEHYDRATOR.LEN {key}")).exec(&mut cluster.nodes[*node].connect()).is_ok()
    };
    (0..PRIMARIES).find(serves).expect("somebody serves it")
}

/// Pushes elements, whose content is their deadline. The first one comes due a second from now.
fn push(cluster: &Cluster, keys: &[String]) {
    let owners: Vec<_> = keys.iter().map(|key| owner(cluster, key)).collect();
    let mut nodes: Vec<_> = cluster.nodes[..PRIMARIES].iter().map(|it| it.connect()).collect();
    let begin = now_us() / 1000 + 1000;
    for number in 0..ELEMENTS {
        let (key, at) = (number % keys.len(), begin + number as u64 * APART_MS);
        let line = format!("DEHYDRATOR.PUSH {} 0 {at} {at}-{number} AT {at}", keys[key]);
        nodes[owners[key]].ask(&line);
    }
}

fn cpu_us(cluster: &Cluster) -> u64 {
    let nodes = cluster.nodes[..PRIMARIES].iter();
    let ns = nodes.map(|node| {
        let path = format!("/proc/{}/schedstat", node.info("server", "process_id"));
        let text = fs::read_to_string(path).expect("a kernel that counts");
        text.split(' ').next().expect("a field").parse::<u64>().expect("a number")
    });
    ns.sum::<u64>() / 1000
}

fn polls(cluster: &Cluster) -> u64 {
    let nodes = cluster.nodes[..PRIMARIES].iter();
    let calls = nodes.map(|node| {
        let stats: String = cmd("INFO commandstats").query(&mut node.connect()).expect("text");
        let line = stats.lines().find_map(|it| it.strip_prefix("cmdstat_dehydrator.poll:calls="));
        line.map_or(0, |it| it.split(',').next().expect("a number").parse::<u64>().expect("one"))
    });
    calls.sum()
}

/// The results of a run.
struct Run {
    late_ms: Vec<f64>,
    polls: u64,
    cpu_us: u64,
}

/// Runs this many consumers of one kind, until every element is taken.
fn run(cluster: &Cluster, way: &Way, consumers: usize) -> Run {
    let keys = (way.keys)(KEYS);
    let books = Books { late_ms: Mutex::default(), stop: AtomicBool::new(false) };
    let (polls_before, cpu_before) = (polls(cluster), cpu_us(cluster));
    thread::scope(|scope| {
        for primary in 0..PRIMARIES {
            for _ in 0..consumers {
                let of_it = keys.iter().filter(|key| owner(cluster, key) == primary);
                let (keys, books) = (of_it.cloned().collect(), &books);
                scope.spawn(move || (way.consume)(cluster, primary, keys, books));
            }
        }
        push(cluster, &keys);
        harness::until("all is taken", || {
            (books.late_ms.lock().expect("no panic").len() >= ELEMENTS).then_some(())
        });
        books.stop.store(true, Ordering::Relaxed);
    });
    let late_ms = books.late_ms.into_inner().expect("no panic");
    assert_eq!(late_ms.len(), ELEMENTS, "each once");
    let [polls, cpu_us] = [polls(cluster) - polls_before, cpu_us(cluster) - cpu_before];
    Run { late_ms, polls, cpu_us }
}

fn percentiles(late_ms: &mut [f64]) -> String {
    late_ms.sort_by(f64::total_cmp);
    let at = |share: f64| late_ms[((late_ms.len() - 1) as f64 * share).round() as usize];
    format!("{:.1} | {:.1} | {:.1}", at(0.5), at(0.99), at(1.0))
}

fn main() {
    let cluster = Cluster::start(PRIMARIES, 1);
    for node in &cluster.nodes {
        node.connect().ask("CONFIG SET notify-keyspace-events Ed");
    }
    let mut told = vec![
        format!(
            "{ELEMENTS} elements, {APART_MS} ms apart, in {KEYS} keys on {PRIMARIES} primaries\n"
        ),
        "| delivery latency, ms | connections | median | p99 | max |".to_owned(),
        "| --- | ---: | ---: | ---: | ---: |".to_owned(),
    ];
    for way in &WAYS {
        let mut run = run(&cluster, way, 1);
        let late = percentiles(&mut run.late_ms);
        told.push(format!("| {} | {} | {late} |", way.name, way.connections));
    }
    told.push(String::new());
    told.push("| consumers, each with one subscriber per primary | POLLs per element | server CPU per element, us | median, ms | p99 | max |".to_owned());
    told.push("| --- | ---: | ---: | ---: | ---: | ---: |".to_owned());
    let way = &WAYS[SUBSCRIBER];
    for consumers in [1, 4, 16] {
        let mut run = run(&cluster, way, consumers);
        let each = |it: u64| it as f64 / ELEMENTS as f64;
        let late = percentiles(&mut run.late_ms);
        let (polls, cpu) = (each(run.polls), each(run.cpu_us));
        told.push(format!("| {consumers} | {polls:.1} | {cpu:.0} | {late} |"));
    }
    let told = told.join("\n");
    println!("{}\n\n{told}", harness::server_program().display());
    if std::env::var_os("DEHYDRATOR_SERVER").is_none() {
        page::put("machines", &told);
    }
}
