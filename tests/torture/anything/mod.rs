//! Anything that clients can send, drawn from the syntax that HELP prints, interleaved with all that moves, saves, loads, copies
//! or kills: the server survives it, and its replica and its files stay equal to it. What each command does is judged by the
//! simulation, tests/simulated.
//!
//! DEHYDRATOR_SEED repeats a run, DEHYDRATOR_OPERATIONS makes it longer or shorter.

mod syntax;

use std::collections::{BTreeMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};

use self::syntax::{Drawn, Syntax};
use crate::random::{Random, seed};
use harness::{Ask, Server, cmd, setting, until};

const OPERATIONS: u64 = 20_000;
/// The lines of the log that are shown for a failure.
const REMEMBERED: usize = 60;
/// What is done to keys besides: words in the form of HELP.
const KEYSPACE: [&str; 11] = [
    "COPY key key [DB db] [REPLACE]",
    "RENAME key key",
    "RENAMENX key key",
    "MOVE key db",
    "SWAPDB 0 1",
    "SELECT db",
    "UNLINK key",
    "DEL key",
    "PEXPIRE key soon",
    "SET key element",
    "FLUSHDB",
];
const KEYS: [&str; 5] = ["a", "b\0\r\n", "c", "", "e"];
const TTLS: [u64; 8] = [0, 0, 1, 20, 500, 600_000, 1 << 40, i64::MAX as u64];
/// Every other command is one of these, or there would be little to do anything to.
const OFTEN: [&str; 5] = [
    "DEHYDRATOR.PUSH",
    "DEHYDRATOR.MPUSH",
    "DEHYDRATOR.POLL",
    "DEHYDRATOR.RENEW",
    "DEHYDRATOR.TOUCH",
];
/// Forms of effects, as a replica gets them. One that needs a level ends a replica.
const EFFECTS: [&str; 10] = ["P", "T", "U", "R", "L", "S", "G", "H", "M", "Q"];

struct Torture {
    random: Random,
    commands: Vec<Syntax>,
    keyspace: Vec<Syntax>,
    server: Server,
    replica: Server,
    client: Connection,
    /// How far the servers' clocks are set ahead, in milliseconds.
    offset: u64,
    /// How often each command did something.
    done: BTreeMap<String, u64>,
    log: VecDeque<String>,
}

impl Drop for Torture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what was done ---");
            self.log.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() as u64
}

/// Returns what stands for a name in the syntax of a command.
fn value(random: &mut Random, before: &str, name: &str, now: u64) -> Vec<u8> {
    let number = match (before, name) {
        // A client that waits for longer would stop the run.
        ("BLOCK", _) => 1 + random.below(2),
        ("LEASE" | "PER" | "REMEMBER", _) => random.pick(&[1, 20, 1000, 600_000]),
        (_, "ttl" | "ms") => random.pick(&TTLS),
        (_, "n") => random.pick(&[1, 1, 2, 3, 10, 100, 65_535]),
        ("UNTIL", _) => now + 600_000,
        (_, "unix-ms") => random.pick(&[now.saturating_sub(5000), now, now + 20, now + 600_000, 1]),
        (_, "cursor" | "soon") => random.below(20),
        (_, "db") => random.below(2),
        (_, "start") if random.one_in(2) => now,
        _ => return text(random, before, name, now),
    };
    number.to_string().into_bytes()
}

fn text(random: &mut Random, before: &str, name: &str, now: u64) -> Vec<u8> {
    let text = match name {
        "key" => random.pick(&KEYS).to_owned(),
        "dest" if before == "LIST" => random.pick(&["l1", "l2"]).to_owned(),
        "dest" => random.pick(&["s1", "s2", "a"]).to_owned(),
        "id" if random.one_in(20) => random.pick(&["", "\0\u{ff}", "-", "IDS"]).to_owned(),
        "id" => format!("id-{}", random.below(12)),
        "token" => random.pick(&["t1", "t2", "t3", "4611686018427387905"]).to_owned(),
        "start" => "-".to_owned(),
        "end" => "+".to_owned(),
        "pattern" => random.pick(&["*", "id-1*", "?"]).to_owned(),
        "plan" => random.pick(&["5000", "600000", "* * * * *", "0 9 * * 1-5"]).to_owned(),
        "zone" => random.pick(&["UTC", "Europe/Berlin"]).to_owned(),
        "name" => random.pick(&["g0", "g0", "g1", "g2"]).to_owned(),
        "letter" => random.pick(&["1-1", "2-1", "3-0"]).to_owned(),
        "command" => random.pick(&["PUSH", "TTN"]).to_owned(),
        "word" if before == "key" => {
            format!("{}{}@{}", random.pick(&EFFECTS), random.pick(&TTLS), now + random.below(5000))
        }
        "word" => format!("id-{}", random.below(12)),
        _ => {
            let length = if random.one_in(30) { 5000 } else { random.below(80) };
            return (0..length).map(|_| random.below(256) as u8).collect();
        }
    };
    text.into_bytes()
}

impl Torture {
    fn new(seed: u64) -> Self {
        // A server that was restarted delivers nothing until it is told to.
        let server = Server::start_debug(&[
            "--appendonly",
            "yes",
            "--appendfsync",
            "no",
            "--hz",
            "500",
            "--dehydrator.deliver",
            "no",
        ]);
        let replica = Server::start_debug(&["--repl-diskless-load", "swapdb"]);
        replica.follow(&server);
        let mut client = server.connect();
        client.ask("CONFIG SET dehydrator.deliver yes");
        let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut client).expect("lines");
        let commands = help.iter().filter(|line| line.starts_with("DEHYDRATOR."));
        let commands = commands.filter(|line| !line.starts_with("DEHYDRATOR.DEBUG"));
        let commands = commands.map(|line| Syntax::new(line)).collect();
        let (random, keyspace) = (Random::new(seed), KEYSPACE.map(Syntax::new).into());
        let (offset, done, log) = (0, BTreeMap::new(), VecDeque::new());
        Self { random, commands, keyspace, server, replica, client, offset, done, log }
    }

    fn note(&mut self, line: String) {
        self.log.push_back(line);
        if self.log.len() > REMEMBERED {
            self.log.pop_front();
        }
    }

    /// Sends a command: alone, in a transaction, or in a script.
    fn step(&mut self) {
        let now = wall() + self.offset;
        let of = if self.random.one_in(80) { &self.keyspace } else { &self.commands };
        let mut at = self.random.below(of.len() as u64) as usize;
        if of.len() > KEYSPACE.len() && self.random.one_in(2) {
            let often = self.random.pick(&OFTEN);
            at = of.iter().position(|it| it.name() == often).expect("a command");
        }
        let mut value =
            |random: &mut Random, before: &str, name: &str| value(random, before, name, now);
        let mut drawn = of[at].draw(&mut self.random, &mut value);
        // The server's own errors repeat words that a client may not understand.
        if drawn.len() > 1 && drawn[0].0.starts_with("DEHYDRATOR") && self.random.one_in(20) {
            self.spoil(&mut drawn);
        }
        let words: Vec<_> = drawn.iter().map(|it| it.1.clone()).collect();
        let how = self.random.below(8);
        let shown = words.iter().map(|word| word[..word.len().min(40)].escape_ascii().to_string());
        let shown = shown.collect::<Vec<_>>().join(" ");
        self.note(format!("{shown} (way {how})"));
        let mut command = redis::Cmd::new();
        command.arg(&words);
        let reply: Result<Value, redis::RedisError> = match how {
            0 => {
                let mut pipe = redis::pipe();
                let pipe = pipe.atomic().ignore_errors().add_command(command);
                let all: Result<Vec<Value>, _> = pipe.query(&mut self.client);
                all.and_then(|mut all| all.remove(0).extract_error())
            }
            1 => {
                let mut eval = redis::cmd("EVAL");
                eval.arg("return redis.call(unpack(ARGV))").arg(0).arg(&words);
                eval.query(&mut self.client)
            }
            _ => command.query(&mut self.client),
        };
        match reply {
            Ok(Value::Nil | Value::Int(0)) => {}
            Ok(_) => *self.done.entry(drawn[0].0.clone()).or_default() += 1,
            Err(error) => {
                assert!(!error.is_io_error(), "{shown}: {error}");
                assert!(!error.to_string().contains("a bug"), "{shown}: {error}");
            }
        }
    }

    /// Leaves a word out, repeats one, or puts another in its place.
    fn spoil(&mut self, drawn: &mut Vec<Drawn>) {
        let at = 1 + self.random.below(drawn.len() as u64 - 1) as usize;
        let odd: &[u8] =
            self.random.pick(&[&b""[..], b"-1", b"\xff\0", b"NX", b"18446744073709551616"]);
        match self.random.below(3) {
            0 => drop(drawn.remove(at)),
            1 => drawn.push(drawn[at].clone()),
            _ => drawn[at].1 = odd.to_vec(),
        }
    }

    /// Steps the clocks of both servers, mostly ahead.
    fn pass(&mut self) {
        let ms = self.random.pick(&[10, 1000, 60_000]);
        let is_back = self.random.one_in(6);
        self.offset = if is_back { self.offset.saturating_sub(ms) } else { self.offset + ms };
        self.note(format!("the clocks are {} ms ahead", self.offset));
        self.set_clocks();
    }

    fn set_clocks(&mut self) {
        for server in [&self.replica, &self.server] {
            server.connect().ask(&format!("DEHYDRATOR.DEBUG k CLOCK {}", self.offset));
        }
    }

    /// Actions that must change nothing: what the replica has is what the server has afterwards.
    fn upheave(&mut self) {
        let what = self.random.below(6);
        let names = ["reload", "append-only file", "kill -9", "restart", "replica", "full sync"];
        self.note(names[what as usize].to_owned());
        let mut replica = self.replica.connect();
        self.client.ask("CONFIG SET dehydrator.deliver no");
        self.wait_until_equal();
        if what < 4 {
            // A copy that a full sync does not touch.
            replica.ask("CONFIG SET dehydrator.deliver no");
            replica.ask("REPLICAOF NO ONE");
        }
        match what {
            0 => drop(self.client.ask("DEBUG RELOAD")),
            1 => {
                let preamble = self.random.pick(&["yes", "no"]);
                self.client.ask(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
                self.client.rewrite_aof();
                self.client.ask("DEBUG LOADAOF");
            }
            2 | 3 => {
                if what == 2 {
                    self.server.crash_and_restart()
                } else {
                    self.server.restart()
                }
                self.client = self.server.connect();
                self.set_clocks();
            }
            4 => {}
            _ => {
                replica.ask("REPLICAOF NO ONE");
                replica.ask("FLUSHALL");
                self.replica.follow(&self.server);
            }
        }
        self.wait_until_equal();
        if what < 4 {
            self.replica.follow(&self.server);
            self.wait_until_equal();
        }
        self.client.ask("CONFIG SET dehydrator.deliver yes");
    }

    /// Waits until the replica is equal, or the copy.
    fn wait_until_equal(&mut self) {
        let mut replica = self.replica.connect();
        until("both are equal", || {
            (replica.ask("DEBUG DIGEST") == self.client.ask("DEBUG DIGEST")).then_some(())
        });
    }
}

#[test]
fn whatever_is_sent_the_server_survives_it_equal_to_its_replica_and_its_files() {
    let operations = setting("DEHYDRATOR_OPERATIONS", OPERATIONS);
    let mut torture = Torture::new(seed());
    for _ in 0..operations {
        match torture.random.below(400) {
            0..10 => torture.pass(),
            10..18 => torture.wait_until_equal(),
            18 => torture.upheave(),
            _ => torture.step(),
        }
    }
    torture.upheave();
    let log = torture.server.log() + &torture.replica.log();
    assert!(!log.contains("a bug, please report it"), "{log}");
    let done = &torture.done;
    let names = torture.commands.iter().map(Syntax::name);
    let missing: Vec<_> = names.filter(|it| !done.contains_key(*it)).collect();
    assert!(operations < OPERATIONS || missing.is_empty(), "never did anything: {missing:?}");
}
