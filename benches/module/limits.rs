//! A thousand clients blocked on a key with a limit: how soon the next one wakes when capacity is free, and the cost of
//! that.
//!
//! The order in which the clients are served is known, so one thread sends, reads and measures.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};

use benches::load::{connect, cpu_us};
use benches::table::Table;
use harness::{Ask, Server, cmd};

pub const SLEEPERS: usize = 1000;
/// The maximum number of leased elements.
pub const HELD: usize = 10;
/// The maximum number of deliveries per second.
pub const RATE: usize = 100;
const LEASE_MS: u64 = 600_000;
/// The due elements of the large tenant.
pub const BACKLOG: usize = 20_000;

/// A thousand clients blocked on a key, and one that is not.
struct Bed {
    // Dropped first.
    sleepers: Vec<Connection>,
    client: Connection,
    _server: Server,
}

impl Bed {
    fn made(limits: &str) -> Self {
        let server = Server::start(&["--maxclients", "5000"]);
        let mut client = connect(&server);
        if !limits.is_empty() {
            client.ask(&format!("DEHYDRATOR.LIMIT k {limits}"));
        }
        let sleepers = (0..SLEEPERS).map(|number| {
            let mut sleeper = connect(&server);
            send_poll(&mut sleeper, number);
            while client.info("dehydrator", "dehydrator_blocked_clients") <= number as u64 {}
            sleeper
        });
        let sleepers = sleepers.collect();
        Self { sleepers, client: connect(&server), _server: server }
    }

    fn push_all(&mut self, count: usize, group: &str) {
        let mut push = redis::cmd("DEHYDRATOR.MPUSH");
        push.arg("k");
        (0..count).for_each(|number| {
            push.arg(0).arg("element").arg(number);
        });
        push.arg("GROUP").arg(group);
        let _: Value = push.query(&mut self.client).expect("numbers");
    }

    /// Waits for the reply to a blocked client, and returns the id that it got.
    fn woken(&mut self, number: usize) -> String {
        let reply = self.sleepers[number].recv_response().expect("a reply");
        let rows: Vec<(String, String, u64, String)> =
            redis::from_redis_value(reply).expect("a row");
        rows[0].0.clone()
    }

    fn settle(&mut self, number: usize, id: &str) {
        self.client.ask(&format!("DEHYDRATOR.SETTLE k t{number} {id}"));
    }
}

/// Sends a POLL that blocks, under a token of its own.
fn send_poll(sleeper: &mut Connection, number: usize) {
    let poll = format!("DEHYDRATOR.POLL k BLOCK 0 COUNT 1 LEASE {LEASE_MS} TOKEN t{number}");
    sleeper.send_packed_command(&cmd(&poll).get_packed_command()).expect("sent");
}

/// Returns the median, the 99th percentile and the maximum.
fn percentiles(mut all: Vec<f64>) -> [f64; 3] {
    all.sort_by(f64::total_cmp);
    [all.len() / 2, all.len() * 99 / 100, all.len() - 1].map(|at| all[at])
}

/// Delivers to all clients, ten leases at a time: measures from each SETTLE to the next reply.
pub fn held(table: &mut Table) {
    let mut bed = Bed::made(&format!("HELD {HELD}"));
    let before = cpu_us(&mut bed.client);
    bed.push_all(SLEEPERS, "");
    let mut ids: Vec<String> = (0..HELD).map(|number| bed.woken(number)).collect();
    let mut took = Vec::new();
    for number in HELD..SLEEPERS {
        let running = bed.client.ask("DEHYDRATOR.POLL k LEASE 1");
        assert_eq!(running, Value::Array(vec![]), "one too many");
        let start = Instant::now();
        let id = ids[number - HELD].clone();
        bed.settle(number - HELD, &id);
        ids.push(bed.woken(number));
        took.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let cpu = (cpu_us(&mut bed.client) - before) / SLEEPERS as f64;
    table.note_all(&format!("HELD {HELD}"), 0, &percentiles(took));
    table.note("HELD 10", 3, cpu);
}

/// Delivers to all clients, at a limited rate: measures from the moment that capacity is free to the reply.
pub fn rate(table: &mut Table) {
    let mut bed = Bed::made(&format!("RATE {RATE} PER 1000"));
    let before = cpu_us(&mut bed.client);
    bed.push_all(SLEEPERS, "");
    let mut heard = Vec::new();
    for number in 0..SLEEPERS {
        let id = bed.woken(number);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        heard.push((id, now.as_secs_f64() * 1e3));
    }
    let cpu = (cpu_us(&mut bed.client) - before) / SLEEPERS as f64;
    let given: Vec<u64> = heard
        .iter()
        .map(|(id, _)| {
            let map: std::collections::BTreeMap<String, Value> =
                cmd(&format!("DEHYDRATOR.LOOK k {id} FULL")).query(&mut bed.client).expect("a map");
            redis::from_redis_value::<u64>(map["deadline"].clone()).expect("a moment") - LEASE_MS
        })
        .collect();
    let late = (RATE..SLEEPERS).map(|number| {
        let may_go = given[number - RATE] + 1000;
        assert!(given[number] >= may_go, "{} is early", heard[number].0);
        heard[number].1 - may_go as f64
    });
    table.note_all(&format!("RATE {RATE} PER 1000"), 0, &percentiles(late.collect()));
    table.note(&format!("RATE {RATE} PER 1000"), 3, cpu);
}

/// The same without a limit, one after the other: from PUSH to the reply.
pub fn free(table: &mut Table) {
    let mut bed = Bed::made("");
    let before = cpu_us(&mut bed.client);
    let mut took = Vec::new();
    for number in 0..SLEEPERS {
        let start = Instant::now();
        bed.client.ask(&format!("DEHYDRATOR.PUSH k 0 element {number}"));
        let id = bed.woken(number);
        took.push(start.elapsed().as_secs_f64() * 1e3);
        bed.settle(number, &id);
    }
    let cpu = (cpu_us(&mut bed.client) - before) / SLEEPERS as f64;
    table.note_all("no limit", 0, &percentiles(took));
    table.note("no limit", 3, cpu);
}

/// Pushes an element of a small tenant behind the backlog of a large one, while workers settle ten leases at a time:
/// measures how many of the backlog are given out before it, and from its PUSH to its reply.
pub fn fair(table: &mut Table, row: &str, [large, small]: [&str; 2]) {
    let mut bed = Bed::made(&format!("HELD {HELD}"));
    bed.push_all(BACKLOG, large);
    let mut ids = Vec::new();
    let mut start = None;
    for number in 0_usize.. {
        if let Some(settled) = number.checked_sub(HELD) {
            let id: &String = &ids[settled];
            bed.settle(settled, id);
        }
        let id = bed.woken(number % SLEEPERS);
        send_poll(&mut bed.sleepers[number % SLEEPERS], number + SLEEPERS);
        if id == "small" {
            table.note(row, 0, (number - SLEEPERS) as f64);
            break;
        }
        ids.push(id);
        if number == SLEEPERS {
            start = Some(Instant::now());
            bed.client.ask(&format!("DEHYDRATOR.PUSH k 0 element small GROUP {small}"));
        }
    }
    let took = start.expect("it was pushed").elapsed();
    table.note(row, 1, took.as_secs_f64() * 1e3);
}
