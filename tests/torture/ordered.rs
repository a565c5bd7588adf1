//! Groups whose elements are worked on one at a time (EACH HELD 1), under kill -9 of the server and of clients.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};

use crate::random::{Random, seed};
use harness::{Ask, Server, let_pass, until};

const ROUNDS: usize = 10;
const WORKERS: usize = 5;
const GROUPS: u64 = 4;
/// The elements of a group in a round.
const ELEMENTS: u64 = 150;
const LEASE: Duration = Duration::from_millis(200);
/// The server counts whole milliseconds.
const TOLERANCE: Duration = Duration::from_millis(3);

/// A lease that is known to run.
struct Lease {
    worker: usize,
    number: u64,
    /// Until when it runs for certain, if it is not settled.
    until: Instant,
}

/// The observations about one group.
#[derive(Default)]
struct Group {
    live: Option<Lease>,
    /// All up to this one were to be settled: the request was sent.
    asked: u64,
    /// All up to this one were settled, and when the reply was read.
    settled: Option<(u64, Instant)>,
    /// The latest one that was given out, and how often an element was given out again.
    latest: u64,
    again: usize,
}

type Groups = Mutex<BTreeMap<u64, Group>>;

/// A client, which survives the server.
struct Worker {
    number: usize,
    token: String,
    random: Random,
}

impl Group {
    /// Notes that a worker read the reply with an element that it had requested at some moment. `is_new`: it did not hold it
    /// before.
    fn given(&mut self, worker: usize, number: u64, requested: Instant, is_new: bool) {
        let now = Instant::now();
        let until = (requested + LEASE).checked_sub(TOLERANCE).expect("a moment");
        let until = if is_new { until } else { now };
        if let Some(other) = self.live.take_if(|other| other.worker != worker) {
            let both = now < other.until && now < until;
            assert!(!both, "{number} and {} are leased at a time", other.number);
        }
        // The reply may have been on its way for long.
        let is_over = |(settled, at): (u64, Instant)| number <= settled && at < requested;
        assert!(!self.settled.is_some_and(is_over), "{number} is given out after it was settled");
        assert!(number <= self.asked + 1, "{number} is given out before {}", self.asked + 1);
        self.again += usize::from(number <= self.latest);
        self.latest = self.latest.max(number);
        self.live = Some(Lease { worker, number, until });
    }

    /// Notes that a worker is going to settle an element, and so ends its lease.
    fn ends(&mut self, worker: usize, number: u64) {
        self.live.take_if(|lease| lease.worker == worker);
        self.asked = self.asked.max(number);
    }
}

impl Worker {
    /// Takes its time, so that the others overtake it.
    fn think(&mut self) {
        let_pass(Duration::from_millis(self.random.below(3)));
    }

    /// Leases and settles until the server is gone, or there is nothing left.
    fn work(&mut self, client: &mut Connection, groups: &Groups) -> RedisResult<()> {
        // What it held when the server was killed, it gets again.
        let mut is_new = false;
        loop {
            let requested = Instant::now();
            let mut poll = redis::cmd("DEHYDRATOR.POLL");
            poll.arg("k").arg("LEASE").arg(LEASE.as_millis() as u64);
            poll.arg("TOKEN").arg(&self.token).arg("COUNT");
            poll.arg(if is_new { 1 + self.random.below(2) } else { GROUPS });
            let is_patient = self.random.one_in(3);
            poll.arg(is_patient.then_some("BLOCK")).arg(is_patient.then_some(50));
            type Row = (String, String, u64, String);
            let rows: Option<Vec<Row>> = poll.query(client)?;
            let held: Vec<(u64, u64)> =
                rows.into_iter().flatten().map(|row| read(&row.1)).collect();
            for (group, number) in &held {
                let mut groups = groups.lock().expect("no panic");
                groups.entry(*group).or_default().given(self.number, *number, requested, is_new);
            }
            is_new = true;
            if held.is_empty() {
                if client.query_len()? == 0 {
                    return Ok(());
                }
                self.think();
            }
            self.think();
            if self.random.one_in(60) {
                // It dies, and another takes its place. Nobody settles what it held.
                self.number += WORKERS;
                self.token = format!("{}-{}", self.number, self.random.below(1 << 32));
                return Ok(());
            }
            for (group, number) in held {
                let note = |note: &dyn Fn(&mut Group)| {
                    note(groups.lock().expect("no panic").entry(group).or_default());
                };
                note(&|it| it.ends(self.number, number));
                let mut settle = redis::cmd("DEHYDRATOR.SETTLE");
                settle.arg("k").arg(&self.token).arg(format!("{group}:{number}"));
                let is_settled: (u64,) = settle.query(client)?;
                if is_settled == (1,) {
                    note(&|it| it.settled = it.settled.max(Some((number, Instant::now()))));
                }
            }
        }
    }
}

trait Len {
    fn query_len(&mut self) -> RedisResult<u64>;
}

impl Len for Connection {
    fn query_len(&mut self) -> RedisResult<u64> {
        redis::cmd("DEHYDRATOR.LEN").arg("k").query(self)
    }
}

/// Reads the group of an element and its number there.
fn read(element: &str) -> (u64, u64) {
    let (group, number) = element.split_once(':').expect("two numbers");
    (group.parse().expect("a number"), number.parse().expect("a number"))
}

#[test]
fn killed_under_load_it_gives_out_one_element_of_a_group_at_a_time_and_in_order() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    server.connect().ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    let mut seeds = Random::new(seed());
    let worker = |number| Worker {
        number,
        token: format!("{number}-first"),
        random: Random::new(seeds.below(u64::MAX)),
    };
    let mut workers: Vec<_> = (0..WORKERS).map(worker).collect();
    let groups = Groups::default();
    let settled = |groups: &Groups| {
        let settled = |it: &Group| it.settled.map_or(0, |(number, _)| number);
        groups.lock().expect("no panic").values().map(settled).sum::<u64>()
    };
    for round in 0..ROUNDS as u64 {
        let mut pipe = redis::pipe();
        for number in round * ELEMENTS + 1..=(round + 1) * ELEMENTS {
            for group in 0..GROUPS {
                let name = format!("{group}:{number}");
                let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(0).arg(&name).arg(&name);
                push.arg("GROUP").arg(group);
            }
        }
        pipe.exec(&mut server.connect()).expect("pushes");
        let is_last = round + 1 == ROUNDS as u64;
        let before = settled(&groups);
        std::thread::scope(|scope| {
            for worker in &mut workers {
                let groups = &groups;
                let mut client = server.connect();
                scope.spawn(move || {
                    while worker.work(&mut client, groups).is_ok() {
                        if client.query_len() == Ok(0) {
                            break;
                        }
                    }
                });
            }
            if !is_last {
                until("there is a load", || (settled(&groups) > before + 200).then_some(()));
                server.kill();
            }
        });
        if !is_last {
            server.relaunch();
        }
    }
    let groups = groups.into_inner().expect("no panic");
    let all = ROUNDS as u64 * ELEMENTS;
    let again: usize = groups.values().map(|it| it.again).sum();
    println!("{again} were given out again");
    assert!(again > 10, "nobody died");
    assert!(groups.len() as u64 == GROUPS && groups.values().all(|it| it.asked == all));
}
