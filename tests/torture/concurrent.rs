//! Many clients at once, each on a connection of its own, and whether what they saw can have been.
//!
//! DEHYDRATOR_SECONDS makes each run longer or shorter, DEHYDRATOR_SEED repeats its random numbers, though not what
//! the scheduler makes of them.

use std::net::TcpStream;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Cmd, Connection, RedisResult, Value};

use crate::harness::{Ask, Server, cmd, server_program, until};
use crate::history::{Act, Clock, Event, History, Id, Poll, Reply, STRANDED, Wrong, check};
use crate::random::{Random, seed, setting};

const SECONDS: u64 = 4;
/// In ms.
const LEASE: u64 = 60;
/// How long what is left may take to be given out, when nobody pushes any more.
const PATIENCE: Duration = Duration::from_secs(4);

/// Who is there.
#[derive(Clone, Copy)]
struct Plan {
    /// Clients that take one at a time, and sleep for ever.
    sleepers: usize,
    /// Clients that lease, and settle most of what they lease.
    lessees: usize,
    /// Clients that wait a while.
    waiters: usize,
    /// Clients that come, ask, and go without waiting.
    passers_by: usize,
    /// Clients that put away something now and then.
    producers: usize,
    /// Clients that hang up before what the conductor puts away is due.
    quitters: usize,
    /// Whether somebody puts away many at once, and keeps the server busy until they are overdue.
    has_conductor: bool,
    /// Whether sleepers are killed and unblocked.
    is_violent: bool,
    /// Whether the server's real-time clock is stepped.
    is_stepped: bool,
    /// Whether pushed elements are also touched, pulled and removed.
    is_restless: bool,
}

const NOBODY: Plan = Plan {
    sleepers: 0,
    lessees: 0,
    waiters: 0,
    passers_by: 0,
    producers: 3,
    quitters: 0,
    has_conductor: false,
    is_violent: false,
    is_stepped: false,
    is_restless: false,
};

/// What all clients of a run share.
struct Run {
    server: Server,
    began: Instant,
    clock: Mutex<Clock>,
    ids: AtomicU64,
    /// Nobody pushes any more.
    is_late: AtomicBool,
    /// Nobody asks any more.
    is_over: AtomicBool,
    /// From when on the conductor's elements are due.
    due: AtomicU64,
    /// Clients that may be killed or unblocked.
    victims: Mutex<Vec<usize>>,
    /// Clients that sleep for ever.
    sleepers: Mutex<Vec<usize>>,
}

/// Ends a run, also when it falls: the others must not go on for ever.
struct End<'a>(&'a Run);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_late.store(true, Ordering::Relaxed);
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// What a client does, until nobody asks any more.
type Work = fn(Client<'_>) -> Vec<Event>;

/// A client, and what it saw.
struct Client<'a> {
    run: &'a Run,
    connection: Connection,
    number: usize,
    random: Random,
    events: Vec<Event>,
}

impl Run {
    fn new(options: &[&str], is_stepped: bool) -> Self {
        let server = if is_stepped {
            Server::start_with_clock(options)
        } else {
            Server::start_with_port(options)
        };
        let began = Instant::now();
        // How far apart the clocks are is known best when they were read at nearly the same time.
        let read = || {
            let before = began.elapsed();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            (began.elapsed() - before, wall.as_micros() as i64 - before.as_micros() as i64)
        };
        let (_, ahead) = (0..100).map(|_| read()).min().expect("some");
        // Valkey 9 reads the wall clock once in a millisecond and counts on by the processor's own clock: preempted
        // between the two, or where two threads do it at once, it is beside the truth, and steps back.
        let version = server.version();
        let is_cached = version.is_valkey && version >= (9, 0);
        let error = if is_cached { 1000 } else { 0 };
        Self {
            server,
            began,
            clock: Mutex::new(Clock::steady(ahead, error)),
            ids: AtomicU64::new(1),
            is_late: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            due: AtomicU64::new(0),
            victims: Mutex::new(Vec::new()),
            sleepers: Mutex::new(Vec::new()),
        }
    }

    fn moment(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// The server's time, in unix ms.
    fn wall(&self) -> u64 {
        let clock = self.clock.lock().expect("no panic");
        let ahead = clock.steps.last().expect("it shows something").2;
        self.moment().saturating_add_signed(ahead) / 1000
    }

    fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn connect(&self) -> Connection {
        // Threads read what comes from a network alone.
        let client = redis::Client::open(("127.0.0.1", self.server.port())).expect("an address");
        let connection = client.get_connection().expect("a connection");
        // Longer than anybody sleeps: in the end all are woken.
        let timeout = Duration::from_secs(30 + 4 * setting("DEHYDRATOR_SECONDS", SECONDS));
        connection.set_read_timeout(Some(timeout)).expect("a timeout");
        connection
    }

    fn client(&self, seed: u64) -> Client<'_> {
        let mut connection = self.connect();
        let number = number_of(&mut connection);
        let random = Random::new(seed);
        Client { run: self, connection, number, random, events: Vec::new() }
    }
}

fn number_of(connection: &mut Connection) -> usize {
    redis::cmd("CLIENT").arg("ID").query(connection).expect("a number")
}

fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

impl Client<'_> {
    /// Does it, and notes what was replied.
    fn record<T: redis::FromRedisValue>(&mut self, command: &Cmd, act: impl FnOnce(T) -> Act) {
        let start = self.run.moment();
        let reply = command.query(&mut self.connection);
        let end = self.run.moment();
        let act = act(reply.unwrap_or_else(|error| panic!("{error}")));
        self.events.push(Event { client: self.number, start, end, act });
    }

    fn produce(mut self, is_restless: bool) -> Vec<Event> {
        let mut last = Vec::new();
        while !self.run.is_late() {
            // Now and then many at once.
            let burst = if self.random.one_in(20) { 10 } else { 1 };
            for _ in 0..burst {
                let id = self.run.ids.fetch_add(1, Ordering::Relaxed);
                let ttl = self.random.pick(&[0, 1, 5, 20, 60]) + self.random.below(3);
                let at = self.random.one_in(4).then(|| self.run.wall() + self.random.below(60));
                let mut push = redis::cmd("DEHYDRATOR.PUSH");
                push.arg("k").arg(ttl).arg(id).arg(id);
                if let Some(at) = at {
                    push.arg("AT").arg(at);
                }
                self.record(&push, |_: String| Act::Push { id, ttl, at });
                last.push(id);
            }
            if is_restless && self.random.one_in(3) {
                let id = self.random.pick(&last[last.len().saturating_sub(20)..]);
                self.disturb(id);
            }
            pause(self.random.below(6));
        }
        self.events
    }

    fn disturb(&mut self, id: Id) {
        match self.random.below(4) {
            0 => {
                let mut pull = redis::cmd("DEHYDRATOR.PULL");
                let is_there = |it: Option<Id>| Act::Take { id, taken: it.is_some() };
                self.record(pull.arg("k").arg(id), is_there);
            }
            1 => {
                let mut rem = redis::cmd("DEHYDRATOR.REM");
                self.record(rem.arg("k").arg(id), |it: u64| Act::Take { id, taken: it == 1 });
            }
            _ => {
                let ttl = self.random.below(80);
                let mut touch = redis::cmd("DEHYDRATOR.TOUCH");
                let touch = touch.arg("k").arg(id).arg(ttl);
                self.record(touch, |it: u64| Act::Touch { id, ttl, touched: it == 1 });
            }
        }
    }

    /// Returns what was given, or nothing if the connection was cut.
    fn poll(&mut self, mut poll: Poll) -> Option<Vec<Id>> {
        // Every other client watches a key beside it, of which nothing ever comes.
        let watches_two = self.number.is_multiple_of(2);
        let mut command = if watches_two {
            let mut command = redis::cmd("DEHYDRATOR.MPOLL");
            command.arg(2).arg("none").arg("k");
            command
        } else {
            let mut command = redis::cmd("DEHYDRATOR.POLL");
            command.arg("k");
            command
        };
        command.arg("COUNT").arg(poll.count).arg("WITHIDS");
        if let Some(lease) = poll.lease {
            command.arg("LEASE").arg(lease);
        }
        if let Some(block) = poll.block {
            command.arg("BLOCK").arg(block);
        }
        let start = self.run.moment();
        let reply: RedisResult<Value> = command.query(&mut self.connection);
        let end = self.run.moment();
        poll.reply = match reply {
            Ok(Value::Nil) => Reply::Nil,
            Ok(Value::Array(reply)) if watches_two => {
                let (key, rows): (String, Vec<Value>) =
                    redis::from_redis_value(Value::Array(reply)).expect("a key and rows");
                assert_eq!(key, "k");
                Reply::Given(rows.into_iter().map(id_of).collect())
            }
            Ok(Value::Array(rows)) => Reply::Given(rows.into_iter().map(id_of).collect()),
            Err(error) if error.code() == Some("UNBLOCKED") => Reply::Refused,
            Err(error) if error.is_timeout() => panic!("a sleeper that nobody can wake: {error}"),
            Err(error) if error.is_io_error() => Reply::Unread,
            reply => panic!("{reply:?}"),
        };
        let given = match &poll.reply {
            Reply::Given(ids) => Some(ids.clone()),
            Reply::Unread => None,
            Reply::Nil | Reply::Refused => Some(Vec::new()),
        };
        self.events.push(Event { client: self.number, start, end, act: Act::Poll(poll) });
        given
    }

    /// Sleeps, and comes again when it was killed.
    fn sleep(mut self) -> Vec<Event> {
        self.run.victims.lock().expect("no panic").push(self.number);
        self.run.sleepers.lock().expect("no panic").push(self.number);
        while !self.run.is_over() {
            if self.poll(Poll { block: Some(0), count: 1, ..Poll::default() }).is_some() {
                continue;
            }
            self.connection = self.run.connect();
            let gone = std::mem::replace(&mut self.number, number_of(&mut self.connection));
            let mut victims = self.run.victims.lock().expect("no panic");
            victims.retain(|victim| *victim != gone);
            victims.push(self.number);
            self.run.sleepers.lock().expect("no panic").push(self.number);
        }
        self.events
    }

    fn settle(&mut self, id: Id) {
        let mut xack = redis::cmd("DEHYDRATOR.XACK");
        let is_settled = |it: Vec<Option<Id>>| Act::Take { id, taken: it[0] == Some(id) };
        self.record(xack.arg("k").arg(id), is_settled);
    }

    fn lease(mut self) -> Vec<Event> {
        self.run.sleepers.lock().expect("no panic").push(self.number);
        while !self.run.is_over() {
            let poll = Poll { block: Some(0), lease: Some(LEASE), count: 2, ..Poll::default() };
            let ids = self.poll(poll).expect("nobody kills this one");
            for id in ids {
                match self.random.below(6) {
                    // Dead, as far as anybody can tell.
                    0 if !self.run.is_late() => {}
                    1 => {
                        let mut touch = redis::cmd("DEHYDRATOR.TOUCH");
                        let ttl = self.random.pick(&[0, 30, 100]);
                        let touch = touch.arg("k").arg(id).arg(ttl);
                        self.record(touch, |it: u64| Act::Touch { id, ttl, touched: it == 1 });
                    }
                    _ => self.settle(id),
                }
            }
        }
        self.events
    }

    fn wait(mut self) -> Vec<Event> {
        while !self.run.is_over() {
            let block = Some(1 + self.random.below(40));
            self.poll(Poll { block, count: 3, ..Poll::default() });
        }
        self.events
    }

    fn pass_by(mut self) -> Vec<Event> {
        while !self.run.is_over() {
            if self.random.one_in(2) {
                self.poll(Poll { count: 5, ..Poll::default() });
            } else {
                let mut shown = Vec::new();
                let xpoll = redis::cmd("DEHYDRATOR.XPOLL").arg("k").arg("COUNT").arg(3).to_owned();
                self.record(&xpoll, |ids: Vec<Id>| {
                    shown.clone_from(&ids);
                    Act::XPoll { ids, all: false }
                });
                shown.into_iter().for_each(|id| self.settle(id));
            }
            pause(self.random.below(15));
        }
        self.events
    }

    /// Asks, and hangs up before there is anything to be given: none of the lost are this one's.
    fn quit(mut self) -> Vec<Event> {
        /// In us, before it is due.
        const AHEAD: u64 = 15_000;
        let mut seen = 0;
        while !self.run.is_late() {
            let due = self.run.due.load(Ordering::Relaxed);
            if due == seen || self.run.moment() + 3 * AHEAD > due {
                pause(1);
                continue;
            }
            seen = due;
            let stream = TcpStream::connect(("127.0.0.1", self.run.server.port()));
            let mut stream = stream.expect("a connection");
            let mut command = redis::cmd("DEHYDRATOR.POLL");
            let command = command.arg("k").arg("COUNT").arg(1).arg("BLOCK").arg(0);
            let start = self.run.moment();
            let sent = std::io::Write::write_all(&mut stream, &command.get_packed_command());
            sent.expect("the server reads");
            // Some while the server reads, most when it is busy already.
            let until = due - AHEAD - self.random.below(AHEAD);
            pause(until.saturating_sub(self.run.moment()) / 1000);
            drop(stream);
            let end = self.run.moment();
            let poll = Poll { block: Some(0), count: 1, ..Poll::default() };
            self.events.push(Event { client: 0, start, end, act: Act::Poll(poll) });
        }
        self.events
    }

    /// Kills sleepers, and unblocks them.
    fn haunt(mut self) -> Vec<Event> {
        while !self.run.is_late() {
            pause(self.random.below(30));
            let victims = self.run.victims.lock().expect("no panic").clone();
            let client = self.random.pick(&victims);
            if self.random.one_in(3) {
                let mut kill = redis::cmd("CLIENT");
                let kill = kill.arg("KILL").arg("ID").arg(client);
                kill.exec(&mut self.connection).expect("a number");
                continue;
            }
            let how = self.random.pick(&["TIMEOUT", "ERROR"]);
            self.unblock(client, how);
        }
        self.events
    }

    fn unblock(&mut self, client: usize, how: &str) {
        let mut unblock = redis::cmd("CLIENT");
        unblock.arg("UNBLOCK").arg(client).arg(how);
        let start = self.run.moment();
        let count: u64 = unblock.query(&mut self.connection).expect("a number");
        let end = self.run.moment();
        if count == 1 {
            let act = Act::Unblock { client };
            self.events.push(Event { client: self.number, start, end, act });
        }
    }

    /// Sets the server's clock forward and back, and right again.
    fn step_clock(mut self) -> Vec<Event> {
        const HOUR: i64 = 3_600_000;
        let ahead = self.run.clock.lock().expect("no panic").steps[0].2;
        let mut last = 0;
        while !self.run.is_late() {
            // Longer than anybody may be stranded.
            let until = self.run.moment() + 3 * STRANDED / 2;
            while self.run.moment() < until && !self.run.is_late() {
                pause(10);
            }
            let steps = [HOUR, -HOUR, 5000, -5000, 300, -300];
            let shift = if last == 0 { self.random.pick(&steps) } else { 0 };
            self.set_clock(ahead, shift);
            last = shift;
        }
        self.set_clock(ahead, 0);
        self.events
    }

    fn set_clock(&self, ahead: i64, shift: i64) {
        let mut clock = self.run.clock.lock().expect("no panic");
        let start = self.run.moment();
        self.run.server.shift_clock(shift);
        // Not every server asks for the time whenever it needs it. No step is shorter than 300 ms.
        let mut client = self.run.server.connect();
        until("the server has the time", || {
            let (seconds, us): (u64, u64) = cmd("TIME").query(&mut client).expect("the time");
            let true_us = self.run.moment().saturating_add_signed(ahead + shift * 1000);
            ((seconds * 1_000_000 + us).abs_diff(true_us) < 100_000).then_some(())
        });
        clock.steps.push((start, self.run.moment(), ahead + shift * 1000));
    }

    /// Puts away some, and keeps the server busy until they are overdue.
    fn conduct(mut self) -> Vec<Event> {
        const TTL: u64 = 100;
        while !self.run.is_late() {
            self.run.due.store(self.run.moment() + TTL * 1000, Ordering::Relaxed);
            // Time for the others to come.
            pause(40);
            let left = self.run.due.load(Ordering::Relaxed).saturating_sub(self.run.moment());
            for _ in 0..4 {
                let id = self.run.ids.fetch_add(1, Ordering::Relaxed);
                // Never before what was announced.
                let ttl = left / 1000 + 1;
                let push = cmd(&format!("DEHYDRATOR.PUSH k {ttl} {id} {id}"));
                self.record(&push, |_: String| Act::Push { id, ttl, at: None });
            }
            self.connection.ask("DEBUG SLEEP 0.1");
            pause(20);
            // What is gone by now, nobody was given who comes later.
            self.record(&cmd("DEHYDRATOR.XPOLL k"), |ids| Act::XPoll { ids, all: true });
        }
        self.events
    }
}

/// Of a pair of id and element, or with the number of deliveries.
fn id_of(row: Value) -> Id {
    let Value::Array(row) = row else { panic!("{row:?}") };
    assert_eq!(row[0], row[1], "an id with another's element");
    redis::from_redis_value(row[0].clone()).expect("a number")
}

fn left(run: &Run) -> Vec<Id> {
    let mut scan = redis::cmd("DEHYDRATOR.SCAN");
    scan.arg("k").arg(0).arg("COUNT").arg(1_000_000);
    let (cursor, ids): (u64, Vec<Id>) = scan.query(&mut run.connect()).expect("ids");
    assert_eq!(cursor, 0);
    ids
}

fn play(plan: Plan, options: &[&str]) {
    let run = Run::new(options, plan.is_stepped);
    let seconds = setting("DEHYDRATOR_SECONDS", SECONDS);
    // A clock shows each time for a while.
    let seconds = if plan.is_stepped { 3 * seconds } else { seconds };
    let mut seeds = Random::new(seed());
    let mut events = Vec::new();
    let mut end = 0;
    let mut remains = Vec::new();
    thread::scope(|scope| {
        let _end = End(&run);
        let mut start = |many: usize, work: Work| -> Vec<_> {
            let client = |_| run.client(seeds.below(u64::MAX));
            let clients: Vec<_> = (0..many).map(client).collect();
            clients.into_iter().map(|it| scope.spawn(move || work(it))).collect()
        };
        let produce: Work =
            if plan.is_restless { |it| it.produce(true) } else { |it| it.produce(false) };
        let consumers = [
            start(plan.sleepers, |it| it.sleep()),
            start(plan.lessees, |it| it.lease()),
            start(plan.waiters, |it| it.wait()),
            start(plan.passers_by, |it| it.pass_by()),
        ];
        let others = [
            start(plan.quitters, |it| it.quit()),
            start(plan.is_violent.into(), |it| it.haunt()),
            start(plan.is_stepped.into(), |it| it.step_clock()),
            start(plan.has_conductor.into(), |it| it.conduct()),
            start(plan.producers, produce),
        ];
        thread::sleep(Duration::from_secs(seconds));
        run.is_late.store(true, Ordering::Relaxed);
        let ended = others.into_iter().flatten().map(|it| it.join().expect("no panic"));
        events = ended.flatten().collect();
        // All of it is given out soon; if not, the check will say why that is wrong.
        let late = Instant::now();
        let mut client = run.connect();
        while client.exists("k") && late.elapsed() < PATIENCE {
            pause(10);
        }
        // What is taken between the two is left, and was not taken before the end.
        end = run.moment();
        remains = left(&run);
        run.is_over.store(true, Ordering::Relaxed);
        // Who sleeps for ever sleeps still.
        let mut woken = run.client(1);
        while !consumers.iter().flatten().all(|it| it.is_finished()) {
            let sleepers = run.sleepers.lock().expect("no panic").clone();
            sleepers.into_iter().for_each(|client| woken.unblock(client, "TIMEOUT"));
            pause(10);
        }
        events.extend(woken.events);
        let ended = consumers.into_iter().flatten().map(|it| it.join().expect("no panic"));
        events.extend(ended.flatten());
    });
    let clock = run.clock.into_inner().expect("no panic");
    let history = History { clock, events, left: remains, end };
    // What was taken for a client that has gone is given back, and others may have been served meanwhile.
    let may_be_late = plan.is_violent || plan.quitters > 0;
    judge(&history, if may_be_late { &[Wrong::OutOfOrder] } else { &[] });
}

fn judge(history: &History, excused: &[Wrong]) {
    /// What is shown of each kind.
    const SHOWN: usize = 5;
    let count = |which: fn(&Act) -> bool| history.events.iter().filter(|it| which(&it.act)).count();
    let pushes = count(|act| matches!(act, Act::Push { .. }));
    let given = count(
        |act| matches!(act, Act::Poll(Poll { reply: Reply::Given(ids), .. }) if !ids.is_empty()),
    );
    println!("{} events, {pushes} pushes, {given} polls with elements", history.events.len());
    assert!(pushes > 20 && given > 5, "nothing was tried");
    let mut findings = check(history);
    findings.retain(|(wrong, _)| !excused.contains(wrong));
    findings.sort();
    for same in findings.chunk_by(|one, other| one.0 == other.0) {
        println!("{:?}: {} times", same[0].0, same.len());
        same.iter().take(SHOWN).for_each(|(_, what)| println!("    {what}"));
    }
    assert!(findings.is_empty(), "{} things cannot have been: see above", findings.len());
}

/// Options that have threads read what clients send, by what this server calls them.
fn threads() -> Vec<&'static str> {
    let version = Command::new(server_program()).arg("--version").output().expect("a version");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let mut options = vec!["--io-threads", "2"];
    if version.contains("Redis server v=7") {
        options.extend(["--io-threads-do-reads", "yes"]);
    }
    if version.contains("Valkey server v=8") {
        // Or few clients would never be enough for a thread.
        options.extend(["--events-per-io-thread", "0"]);
    }
    options
}

const SLEEPERS: Plan = Plan { sleepers: 4, ..NOBODY };
const CROWD: Plan =
    Plan { sleepers: 2, lessees: 2, waiters: 2, passers_by: 2, is_restless: true, ..NOBODY };
const VIOLENCE: Plan = Plan { sleepers: 4, lessees: 1, is_violent: true, ..NOBODY };
const QUITTERS: Plan =
    Plan { sleepers: 1, waiters: 1, producers: 0, quitters: 4, has_conductor: true, ..NOBODY };
// The server's own timeouts are by the clock that is stepped, and so nobody waits for a while here.
const STEPPED: Plan = Plan { sleepers: 3, lessees: 1, is_stepped: true, ..NOBODY };
const ONE: Plan = Plan { sleepers: 1, ..NOBODY };

#[test]
fn one_sleeper_is_given_everything_in_order() {
    play(ONE, &[]);
}

#[test]
fn one_sleeper_is_given_everything_in_order_with_threads() {
    play(ONE, &threads());
}

#[test]
fn sleepers_are_served_in_turn() {
    play(SLEEPERS, &[]);
}

#[test]
fn sleepers_are_served_in_turn_with_threads() {
    play(SLEEPERS, &threads());
}

#[test]
fn in_a_crowd_each_element_has_one_owner_at_a_time() {
    play(CROWD, &[]);
}

#[test]
fn in_a_crowd_each_element_has_one_owner_at_a_time_with_threads() {
    play(CROWD, &threads());
}

#[test]
fn sleepers_that_are_killed_and_unblocked_swallow_nothing() {
    play(VIOLENCE, &[]);
}

#[test]
fn sleepers_that_are_killed_and_unblocked_swallow_nothing_with_threads() {
    play(VIOLENCE, &threads());
}

#[test]
fn sleepers_that_hang_up_beside_a_busy_server_swallow_nothing() {
    play(QUITTERS, &[]);
}

#[test]
fn sleepers_that_hang_up_beside_a_busy_server_swallow_nothing_with_threads() {
    play(QUITTERS, &threads());
}

#[test]
fn a_clock_that_steps_strands_nobody() {
    play(STEPPED, &[]);
}

#[test]
fn a_clock_that_steps_strands_nobody_with_threads() {
    play(STEPPED, &threads());
}
