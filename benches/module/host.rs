//! A server, and measurements of its ways to store elements, one after the other.

use std::fs;
use std::thread;
use std::time::Duration;

use redis::{Connection, Pipeline, Value};

use crate::rede;
use crate::ways::{FAR, Way};
use benches::load::{BATCH, Packed, connect, element, id, pipelines, send, timed};
use benches::table::Table;
use harness::{Ask, Server, cmd, until};

pub const COUNT: usize = 200_000;
/// The bytes of an element, large and small.
pub const LARGE: usize = 64;
const SMALL: usize = 1;
/// The number of elements when the longest pause is measured.
const MANY: usize = 10_000_000;
/// The titles of rows mention this too.
const MANY_TTLS: usize = 100_000;
const XPOLLED: usize = 20_000;
/// Repetitions of commands that take less than a microsecond.
const ASKED: usize = 100_000;

pub struct Host {
    pub server: Server,
    pub client: Connection,
    /// The ways to measure, the floor first.
    ways: Vec<Way>,
    /// The last of the ways.
    dehydrator: Way,
}

impl Host {
    /// Starts a server with our module, and measures all its ways.
    pub fn ours() -> Self {
        let mut host = Self::with(Way::Dehydrator);
        host.ways = Way::of(&mut host.client);
        host
    }

    /// Starts a server whose only way is this dehydrator.
    pub fn with(dehydrator: Way) -> Self {
        let server = dehydrator.start_server(&[]);
        let client = connect(&server);
        Self { server, client, ways: vec![dehydrator], dehydrator }
    }

    /// Frees everything. Returns the memory that the server uses then.
    pub fn emptied(&mut self) -> f64 {
        empty(&mut self.client)
    }

    /// Returns the bytes that the server uses.
    pub fn used(&mut self) -> f64 {
        used(&mut self.client)
    }

    /// Selects some of the ways. The server must support them.
    pub fn keep(&mut self, ways: &[Way]) {
        let missing: Vec<_> = ways.iter().filter(|way| !self.ways.contains(way)).collect();
        assert!(missing.is_empty(), "{} has no {}", self.version(), missing[0].name());
        self.ways = ways.to_vec();
    }

    /// Measures storing and taking by id, for each way. The columns: the times of both; bytes per large element, per
    /// small element, and left after all but one are taken.
    pub fn by_id(&mut self, table: &mut Table) {
        for way in self.ways.clone() {
            let (times, bytes) = self.there_and_back(way);
            table.note_all(way.name(), 0, &times);
            table.note_all(way.name(), times.len(), &bytes);
        }
    }

    /// Measures one way: microseconds to store and to take, and bytes as [`Host::by_id`] returns them.
    fn there_and_back(&mut self, way: Way) -> ([f64; 2], [f64; 3]) {
        let client = &mut self.client;
        let (push, small) = (pushes(way, LARGE), pushes(way, SMALL));
        let pull = pipelines(COUNT, |pipe, number| way.pull(pipe, &id(number)));
        let before = empty(client);
        let push_us = timed(client, COUNT, |client| send(client, &push));
        let large = (used(client) - before) / COUNT as f64;
        // One element stays, so that its container stays, and shows the memory that it keeps.
        let mut last = redis::pipe();
        way.push(&mut last, 0, "last", &element(0, LARGE));
        last.exec(client).expect("replies");
        let pull_us = timed(client, COUNT, |client| send(client, &pull));
        let left = (used(client) - before) / COUNT as f64;
        // Not the number from before: one module keeps memory that it should free.
        let before = empty(client);
        send(client, &small);
        let small = (used(client) - before) / COUNT as f64;
        ([push_us, pull_us], [large, small, left])
    }

    /// Measures taking everything when all elements are due: the server's time per element.
    pub fn all_at_once(&mut self, table: &mut Table) {
        // The floor is measured on the server with our module.
        if self.dehydrator == Way::Dehydrator {
            let floor = self.lpop();
            table.note("LPOP, a list without timers", 0, floor);
        }
        for way in self.ways.clone() {
            let Some(polls) = way.poll(COUNT) else { continue };
            empty(&mut self.client);
            if way == self.dehydrator {
                self.push_due(COUNT);
            } else {
                send(&mut self.client, &pushes(way, LARGE));
            }
            let mut replies = Vec::new();
            let us = timed(&mut self.client, COUNT, |client| {
                replies.extend(polls.iter().map(|poll| poll.query(client).expect("a reply")));
            });
            // One pair per member and field, or one element each.
            let taken = |reply: &Value| match reply {
                Value::Array(items) => items.len() >= COUNT,
                _ => false,
            };
            assert!(taken(&replies[0]), "{} has taken all", way.name());
            table.note(way.name(), 0, us);
        }
    }

    /// Counts the elements of a list.
    pub fn fill_list(&mut self) {
        let rpush = |pipe: &mut Pipeline, number| {
            pipe.cmd("RPUSH").arg("list").arg(element(number, LARGE));
        };
        send(&mut self.client, &pipelines(COUNT, rpush));
    }

    /// Measures a list, the floor of taking everything at once.
    fn lpop(&mut self) -> f64 {
        empty(&mut self.client);
        self.fill_list();
        let lpop = cmd(&format!("LPOP list {COUNT}"));
        timed(&mut self.client, COUNT, |client| lpop.exec(client).expect("a reply"))
    }

    /// Pushes this many elements, of eight TTLs, all due.
    pub fn push_due(&mut self, count: usize) {
        const TTLS: u64 = 8;
        let way = self.dehydrator;
        let push = |pipe: &mut Pipeline, number| {
            let ttl = number as u64 % TTLS;
            way.push_for(pipe, ttl, &id(number), &element(number, LARGE));
        };
        send(&mut self.client, &pipelines(count, push));
        // The server uses the clock of this machine.
        thread::sleep(Duration::from_millis(TTLS));
    }

    /// Measures commands while nothing is due, with very many TTLs, and other commands.
    pub fn verbs(&mut self, table: &mut Table, column: usize) {
        let way = self.dehydrator;
        empty(&mut self.client);
        let push = |pipe: &mut Pipeline, number| {
            let ttl = 1_000_000 + number as u64;
            way.push_for(pipe, ttl, &id(number), &element(number, LARGE));
        };
        send(&mut self.client, &pipelines(MANY_TTLS, push));
        let (asked, gidpushed) = match way {
            Way::Rede => (rede::ASKED, rede::GIDPUSHED),
            _ => (ASKED, COUNT),
        };
        let mut ask = |row: &str, count: usize, asked: &redis::Cmd| {
            let asks = pipelines(count, |pipe, _| _ = pipe.add_command(asked.clone()));
            let us = timed(&mut self.client, count, |client| send(client, &asks));
            table.note(row, column, us);
        };
        ask("PING", ASKED, &cmd("PING"));
        ask("TTN with 100,000 TTLs", asked, way.verb("TTN").arg("k"));
        ask("POLL with 100,000 TTLs, nothing due", asked, way.verb("POLL").arg("k"));
        empty(&mut self.client);
        let gidpush = pipelines(gidpushed, |pipe, number| {
            let mut push = way.verb("GIDPUSH");
            push.arg("k").arg(FAR + number as u64 % 8).arg(element(number, LARGE));
            pipe.add_command(push);
        });
        let us = timed(&mut self.client, gidpushed, |client| send(client, &gidpush));
        table.note("GIDPUSH", column, us);
        empty(&mut self.client);
        self.push_due(XPOLLED);
        let mut due: Vec<Value> = Vec::new();
        let us = timed(&mut self.client, 1, |client| {
            due = way.verb("XPOLL").arg("k").query(client).expect("ids");
        });
        assert_eq!(due.len(), XPOLLED, "all are due");
        table.note("XPOLL of all 20,000", column, us);
    }

    /// Measures saving and loading, per element.
    pub fn dumps(&mut self, table: &mut Table) {
        for way in self.ways.iter().filter(|way| **way != Way::Lua) {
            let client = &mut self.client;
            empty(client);
            send(client, &pushes(*way, LARGE));
            let save = timed(client, COUNT, |client| client.ask("SAVE"));
            let bytes = fs::metadata(self.server.file("dump.rdb")).expect("a dump").len();
            let load = timed(client, COUNT, |client| client.ask("DEBUG RELOAD NOSAVE"));
            table.note_all(way.name(), 0, &[save, load, bytes as f64 / COUNT as f64]);
        }
    }

    /// Returns the server's name and version.
    pub fn version(&mut self) -> String {
        let info: String = cmd("INFO server").query(&mut self.client).expect("INFO");
        let named = |name: &str| {
            let field = format!("{name}_version:");
            let version = info.lines().find_map(|line| line.strip_prefix(&field))?;
            Some(format!("{name} {}", version.trim()))
        };
        ["valkey", "redis"].into_iter().find_map(named).expect("a version")
    }
}

/// Finds the slowest single command among millions in the server's slow log, in milliseconds, and the number of
/// commands that took longer than half a millisecond.
pub fn slowest(way: Way) -> [f64; 2] {
    const NOTED_US: &str = "500";
    let options = ["--slowlog-log-slower-than", NOTED_US, "--slowlog-max-len", "10000"];
    let server = way.start_server(&options);
    let mut client = connect(&server);
    for first in (0..MANY).step_by(10 * BATCH) {
        let batch = |pipe: &mut Pipeline, number| {
            let number = first + number;
            way.push(pipe, number as u64, &id(number), &element(number, LARGE));
        };
        send(&mut client, &pipelines(10 * BATCH, batch));
    }
    let logged: Vec<(u64, u64, u64, Value, Value, Value)> =
        cmd("SLOWLOG GET -1").query(&mut client).expect("a log");
    let slowest = logged.iter().map(|entry| entry.2).max().unwrap_or(0);
    [slowest as f64 / 1e3, logged.len() as f64]
}

fn pushes(way: Way, length: usize) -> Vec<Packed> {
    pipelines(COUNT, |pipe, number| {
        way.push(pipe, number as u64, &id(number), &element(number, length));
    })
}

fn used(client: &mut Connection) -> f64 {
    client.info("memory", "used_memory") as f64
}

fn empty(client: &mut Connection) -> f64 {
    client.ask("FLUSHALL SYNC");
    until("all is freed", || {
        (client.info("memory", "lazyfree_pending_objects") == 0).then_some(())
    });
    used(client)
}
