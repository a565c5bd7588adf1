//! Many clients at once, of which some are killed, unblocked or hang up, while the wall clock may step: each element has one owner,
//! none is lost, none is early, and nobody sleeps beside one that is due. In which order the simulation judges.
//!
//! DEHYDRATOR_SECONDS makes each run longer or shorter. DEHYDRATOR_SEED repeats its random numbers, but not the scheduling.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::random::{Random, seed};
use harness::{Ask, Server, let_pass, server_program, setting, until};

/// Milliseconds: no lease ends, whatever the clock does.
const LEASE: u64 = 1_000_000_000_000;
const SLEEPERS: usize = 4;
const HOUR: i64 = 3_600_000;

struct Crowd {
    server: Server,
    is_stepped: bool,
    /// When no more is pushed, and nobody is disturbed any more.
    is_late: AtomicBool,
    ids: AtomicU64,
    /// When each id comes due.
    due: Mutex<HashMap<u64, Instant>>,
    owned: Mutex<BTreeSet<u64>>,
    /// The connections of those who block forever.
    victims: Mutex<Vec<u64>>,
    /// How many clients may have gone with an element.
    gone: AtomicU64,
}

/// A row of POLL with LEASE: id, element, deliveries, token.
type Row = (u64, u64, u64, String);

impl Crowd {
    fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    fn connect(&self) -> Connection {
        let client = redis::Client::open(("127.0.0.1", self.server.port())).expect("an address");
        client.get_connection().expect("a connection")
    }

    fn push(&self, client: &mut Connection, random: &mut Random) {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let ttl = random.pick(&[0, 1, 5, 20, 60]);
        self.due.lock().expect("no panic").insert(id, Instant::now() + Duration::from_millis(ttl));
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        push.arg("k").arg(ttl).arg(id).arg(id).arg("GROUP").arg(random.pick(&["", "a", "b"]));
        push.exec(client).expect("it is pushed");
    }

    /// Takes the elements of a reply, each of which must be this client's alone.
    fn own(&self, client: &mut Connection, rows: Vec<Row>) {
        for (id, element, deliveries, token) in rows {
            let due = self.due.lock().expect("no panic")[&id];
            // The server counts whole milliseconds.
            let is_early = Instant::now() + Duration::from_millis(2) < due;
            assert!(self.is_stepped || !is_early, "{id} is early");
            assert_eq!((element, deliveries), (id, 1), "what nobody got does not count");
            assert!(self.owned.lock().expect("no panic").insert(id), "{id} is given out twice");
            let mut settle = redis::cmd("DEHYDRATOR.SETTLE");
            let settled = settle.arg("k").arg(token).arg(id).query::<[u64; 1]>(client);
            // A client may be killed now.
            assert!(settled.as_ref().is_ok_and(|it| *it == [1]) || settled.is_err(), "{settled:?}");
        }
    }

    /// Blocks for so long, if not for ever, and reconnects after it was killed.
    fn consume(&self, count: u64, block: u64, is_victim: bool) {
        let (mut client, mut number) = (self.connect(), 0);
        loop {
            if number == 0 {
                number = redis::cmd("CLIENT").arg("ID").query(&mut client).unwrap_or(0);
                let mut victims = self.victims.lock().expect("no panic");
                victims.extend(Some(number).filter(|it| is_victim && *it > 0));
            }
            let mut poll = redis::cmd("DEHYDRATOR.POLL");
            poll.arg("k").arg("COUNT").arg(count).arg("BLOCK").arg(block).arg("LEASE").arg(LEASE);
            match poll.query::<Vec<Row>>(&mut client) {
                Ok(rows) => self.own(&mut client, rows),
                Err(error) if error.code() == Some("UNBLOCKED") => {}
                Err(error) if !error.is_io_error() => panic!("{error}"),
                Err(_) => {
                    self.victims.lock().expect("no panic").retain(|victim| *victim != number);
                    let address = redis::Client::open(("127.0.0.1", self.server.port()));
                    // At the end there is no server any more.
                    let Ok(again) = address.expect("an address").get_connection() else { return };
                    (client, number) = (again, 0);
                }
            }
        }
    }

    /// Polls, and hangs up at any moment.
    fn quit(&self, random: &mut Random) {
        while !self.is_late() {
            let mut client = self.connect();
            let mut poll = redis::cmd("DEHYDRATOR.POLL");
            poll.arg("k").arg("COUNT").arg(1).arg("BLOCK").arg(0).arg("LEASE").arg(LEASE);
            self.gone.fetch_add(1, Ordering::Relaxed);
            client.send_packed_command(&poll.get_packed_command()).expect("the server reads");
            let_pass(Duration::from_micros(random.below(8000)));
        }
    }

    /// Kills clients that block, and unblocks them.
    fn haunt(&self, random: &mut Random) {
        let mut client = self.connect();
        while !self.is_late() {
            let_pass(Duration::from_millis(random.below(30)));
            let victims = self.victims.lock().expect("no panic").clone();
            let Some(victim) = victims.get(random.below(SLEEPERS as u64) as usize) else {
                continue;
            };
            let line = match random.below(3) {
                0 => format!("CLIENT KILL ID {victim}"),
                1 => format!("CLIENT UNBLOCK {victim} TIMEOUT"),
                _ => format!("CLIENT UNBLOCK {victim} ERROR"),
            };
            self.gone.fetch_add(1, Ordering::Relaxed);
            client.ask(&line);
        }
    }

    fn step(&self, random: &mut Random) {
        while !self.is_late() {
            let_pass(Duration::from_millis(300));
            self.server.shift_clock(random.pick(&[HOUR, -HOUR, 5000, -5000, 300, -300, 0]));
        }
        // Whatever was pushed ahead of time is due.
        self.server.shift_clock(2 * HOUR);
    }
}

fn play(options: &[&str], is_stepped: bool) {
    let start = if is_stepped { Server::start_with_clock } else { Server::start_with_port };
    let crowd = Crowd {
        server: start(options),
        is_stepped,
        is_late: AtomicBool::new(false),
        ids: AtomicU64::new(1),
        due: Mutex::default(),
        owned: Mutex::default(),
        victims: Mutex::default(),
        gone: AtomicU64::new(0),
    };
    let mut seeds = Random::new(seed());
    thread::scope(|scope| {
        let it = &crowd;
        // The server's own timeouts follow the stepped clock: then only clients that wait for ever are there.
        let waiters = if is_stepped { 0 } else { 3 };
        for _ in 0..SLEEPERS {
            scope.spawn(move || it.consume(1, 0, true));
        }
        for number in 0..waiters {
            scope.spawn(move || it.consume(3, 1 + 15 * number, false));
        }
        let mut disturb = |work: fn(&Crowd, &mut Random)| {
            let mut random = Random::new(seeds.below(u64::MAX));
            scope.spawn(move || work(it, &mut random))
        };
        let mut others = vec![disturb(Crowd::quit), disturb(Crowd::quit), disturb(Crowd::haunt)];
        others.extend(is_stepped.then(|| disturb(Crowd::step)));
        for _ in 0..3 {
            others.push(disturb(|it, random| {
                let mut client = it.connect();
                while !it.is_late() {
                    (0..random.pick(&[1, 1, 1, 10])).for_each(|_| it.push(&mut client, random));
                    let_pass(Duration::from_millis(random.below(6)));
                }
            }));
        }
        let_pass(Duration::from_secs(setting("DEHYDRATOR_SECONDS", 8)));
        crowd.is_late.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|it| it.join().expect("no panic"));
        // Nobody sleeps beside what is due.
        let mut client = crowd.connect();
        until("all that came due is given out", || {
            let next = client.ask("DEHYDRATOR.TTN k");
            matches!(next, Value::Nil | Value::Int(HOUR..)).then_some(())
        });
        let pushed: BTreeSet<u64> = (1..crowd.ids.load(Ordering::Relaxed)).collect();
        until("each has an owner, or was given to a client that had gone", || {
            let scan = "DEHYDRATOR.SCAN k 0 COUNT 1000000";
            let (_, left): (u64, BTreeSet<u64>) =
                harness::cmd(scan).query(&mut client).expect("ids");
            let owned = crowd.owned.lock().expect("no panic").clone();
            let is_all = owned.union(&left).copied().eq(pushed.iter().copied());
            let gone = crowd.gone.load(Ordering::Relaxed);
            (is_all && left.len() as u64 <= gone).then(|| {
                println!("{} pushed, {} left with {gone} clients", pushed.len(), left.len());
            })
        });
        assert!(pushed.len() > 500, "nothing was tried");
        // The others end with their connections.
        client.ask("CLIENT KILL TYPE normal SKIPME yes");
        let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").query::<Value>(&mut client);
    });
}

/// Returns the options for threaded reads, by the server's names.
fn threads() -> Vec<&'static str> {
    let version = Command::new(server_program()).arg("--version").output().expect("a version");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let mut options = vec!["--io-threads", "2"];
    if version.contains("Redis server v=7") {
        options.extend(["--io-threads-do-reads", "yes"]);
    }
    if version.contains("Valkey server v=8") {
        // Otherwise, few clients would never suffice for a thread.
        options.extend(["--events-per-io-thread", "0"]);
    }
    options
}

#[test]
fn clients_that_come_and_go_lose_nothing_and_strand_nobody() {
    play(&[], false);
}

#[test]
fn clients_that_come_and_go_lose_nothing_and_strand_nobody_with_threads() {
    play(&threads(), false);
}

#[test]
fn a_clock_that_steps_strands_nobody() {
    play(&[], true);
}

#[test]
fn a_clock_that_steps_strands_nobody_with_threads() {
    play(&threads(), true);
}
