//! A client, and its actions until the run ends.

use std::net::TcpStream;
use std::sync::atomic::Ordering;

use redis::{Cmd, Connection, RedisResult, Value};

use super::LEASE;
use super::run::Run;
use crate::history::{Act, Event, Id, Poll, Reply, STRANDED};
use crate::random::Random;
use harness::{Ask, cmd};

/// A client, and its observations.
pub struct Client<'a> {
    run: &'a Run,
    connection: Connection,
    number: usize,
    random: Random,
    pub events: Vec<Event>,
}

impl<'a> Client<'a> {
    pub fn new(run: &'a Run, seed: u64) -> Self {
        let mut connection = run.connect();
        let number = number_of(&mut connection);
        Self { run, connection, number, random: Random::new(seed), events: Vec::new() }
    }
}

impl Client<'_> {
    /// Runs an action, and records the reply.
    fn record<T: redis::FromRedisValue>(&mut self, command: &Cmd, act: impl FnOnce(T) -> Act) {
        let start = self.run.moment();
        let reply = command.query(&mut self.connection);
        let end = self.run.moment();
        let act = act(reply.unwrap_or_else(|error| panic!("{error}")));
        self.events.push(Event { client: self.number, start, end, act });
    }

    pub fn produce(mut self, is_restless: bool) -> Vec<Event> {
        let mut last = Vec::new();
        while !self.run.is_late() {
            // Sometimes many at once.
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
                let group = self.random.below(1 + self.run.groups);
                if group > 0 {
                    push.arg("GROUP").arg(group);
                }
                self.record(&push, |_: String| Act::Push { id, ttl, at, group });
                last.push(id);
            }
            if is_restless && self.random.one_in(3) {
                let id = self.random.pick(&last[last.len().saturating_sub(20)..]);
                self.disturb(id);
            }
            self.run.pause(self.random.below(6));
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
                let touch = touch.arg("k").arg(ttl).arg(id);
                self.record(touch, |it: u64| Act::Touch { id, ttl, touched: it == 1 });
            }
        }
    }

    /// Returns the elements, or nothing if the connection was cut.
    fn poll(&mut self, mut poll: Poll) -> Option<Vec<Id>> {
        // Every other client also watches a key that never has elements.
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
        command.arg("COUNT").arg(poll.count);
        match poll.lease {
            Some(lease) => command.arg("LEASE").arg(lease),
            None => command.arg("WITHIDS"),
        };
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
            Ok(Value::Array(rows)) if rows.is_empty() && poll.block.is_some() => Reply::Nil,
            Ok(Value::Array(rows)) => Reply::Given(rows.into_iter().map(id_of).collect()),
            Err(error) if error.code() == Some("UNBLOCKED") => Reply::Refused,
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

    /// Blocks, and reconnects after it was killed.
    pub fn sleep(mut self) -> Vec<Event> {
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

    pub fn lease(mut self) -> Vec<Event> {
        self.run.sleepers.lock().expect("no panic").push(self.number);
        while !self.run.is_over() {
            let poll = Poll { block: Some(0), lease: Some(LEASE), count: 2, ..Poll::default() };
            let ids = self.poll(poll).expect("this one is not killed");
            for id in ids {
                match self.random.below(6) {
                    // Dead, as far as others can tell.
                    0 if !self.run.is_late() => {}
                    1 => {
                        let mut touch = redis::cmd("DEHYDRATOR.TOUCH");
                        let ttl = self.random.pick(&[0, 30, 100]);
                        let touch = touch.arg("k").arg(ttl).arg(id);
                        self.record(touch, |it: u64| Act::Touch { id, ttl, touched: it == 1 });
                    }
                    _ => self.settle(id),
                }
            }
        }
        self.events
    }

    pub fn wait(mut self) -> Vec<Event> {
        while !self.run.is_over() {
            let block = Some(1 + self.random.below(40));
            self.poll(Poll { block, count: 3, ..Poll::default() });
        }
        self.events
    }

    pub fn pass_by(mut self) -> Vec<Event> {
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
            self.run.pause(self.random.below(15));
        }
        self.events
    }

    /// Polls, and hangs up before any element is due: no lost element is this client's.
    pub fn quit(mut self) -> Vec<Event> {
        /// In us, before the deadline.
        const AHEAD: u64 = 15_000;
        let mut seen = 0;
        while !self.run.is_late() {
            let due = self.run.due.load(Ordering::Relaxed);
            if due == seen || self.run.moment() + 3 * AHEAD > due {
                self.run.pause(1);
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
            self.run.pause(until.saturating_sub(self.run.moment()) / 1000);
            drop(stream);
            let end = self.run.moment();
            let poll = Poll { block: Some(0), count: 1, ..Poll::default() };
            self.events.push(Event { client: 0, start, end, act: Act::Poll(poll) });
        }
        self.events
    }

    /// Kills blocked clients, and unblocks them.
    pub fn haunt(mut self) -> Vec<Event> {
        while !self.run.is_late() {
            self.run.pause(self.random.below(30));
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

    pub fn unblock(&mut self, client: usize, how: &str) {
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

    /// Sets the server's clock forward and back, and then corrects it.
    pub fn step_clock(mut self) -> Vec<Event> {
        const HOUR: i64 = 3_600_000;
        let ahead = self.run.clock.lock().expect("no panic").steps[0].2;
        let mut last = 0;
        while !self.run.is_late() {
            // Longer than any client may be stranded.
            let until = self.run.moment() + 3 * STRANDED / 2;
            while self.run.moment() < until && !self.run.is_late() {
                self.run.pause(10);
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
        clock.steps.push((start, self.run.moment(), ahead + shift * 1000));
    }

    /// Pushes some, and keeps the server busy until they are overdue.
    pub fn conduct(mut self) -> Vec<Event> {
        const TTL: u64 = 100;
        while !self.run.is_late() {
            self.run.due.store(self.run.moment() + TTL * 1000, Ordering::Relaxed);
            // Time for the others to arrive.
            self.run.pause(40);
            let left = self.run.due.load(Ordering::Relaxed).saturating_sub(self.run.moment());
            for _ in 0..4 {
                let id = self.run.ids.fetch_add(1, Ordering::Relaxed);
                // Never before the announced moment.
                let ttl = left / 1000 + 1;
                let push = cmd(&format!("DEHYDRATOR.PUSH k {ttl} {id} {id}"));
                self.record(&push, |_: String| Act::Push { id, ttl, at: None, group: 0 });
            }
            self.connection.ask("DEBUG SLEEP 0.1");
            self.run.pause(20);
            // Elements that are gone by now cannot be delivered to later clients.
            self.record(&cmd("DEHYDRATOR.XPOLL k"), |ids| Act::XPoll { ids, all: true });
        }
        self.events
    }
}

/// Parses a pair of id and element, or a row with the number of deliveries.
fn id_of(row: Value) -> Id {
    let Value::Array(row) = row else { panic!("{row:?}") };
    assert_eq!(row[0], row[1], "an id with another's element");
    redis::from_redis_value(row[0].clone()).expect("a number")
}

fn number_of(connection: &mut Connection) -> usize {
    redis::cmd("CLIENT").arg("ID").query(connection).expect("a number")
}
