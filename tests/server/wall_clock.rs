//! Steps of the wall clock while clients are blocked. The monotonic clock is not affected.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, field_of, texts, until};

const HOUR: i64 = 3_600_000;
/// In ticks of the server's cron, ten per second: one of them has to notice the step. While a busy machine does not run
/// the server, it does not tick.
const SOON: u64 = 5;

/// Returns the number of ticks of the server, and the replies to the commands after that, in one pass of its event loop
/// unless something blocks.
fn counted(client: &mut Connection, lines: &[&str]) -> (u64, Vec<Value>) {
    let mut pipe = redis::pipe();
    pipe.cmd("INFO").arg("dehydrator");
    for line in lines {
        pipe.add_command(cmd(line));
    }
    let mut replies: Vec<Value> = pipe.query(client).expect("replies");
    (ticks_in(&replies.remove(0)), replies)
}

fn ticks_in(info: &Value) -> u64 {
    let Value::BulkString(info) = info else { panic!("text") };
    field_of(&String::from_utf8_lossy(info), "dehydrator_ticks")
}

/// A blocked client, like a [`Sleeper`], which reads ticks and time when it wakes.
struct Counting(JoinHandle<(u64, Vec<Value>)>);

struct Woken {
    reply: Value,
    /// When it had blocked, and when it woke, in ticks.
    asked: u64,
    ticks: u64,
    /// In milliseconds since the epoch, by the server.
    at: i64,
}

impl Counting {
    fn start(server: &Server, line: &str) -> Self {
        let mut client = server.connect();
        let before = waiters(server);
        let line = line.to_owned();
        let thread =
            std::thread::spawn(move || counted(&mut client, &[&line, "INFO dehydrator", "TIME"]));
        until("the client is asleep", || (waiters(server) == before + 1).then_some(()));
        Self(thread)
    }

    fn woken(self) -> Woken {
        let (asked, mut replies) = self.0.join().expect("no panic");
        let at = milliseconds(replies.remove(2));
        let ticks = ticks_in(&replies.remove(1));
        Woken { reply: replies.remove(0), asked, ticks, at }
    }

    /// Returns the reply, and the number of ticks until it came.
    fn reply_since(self, ticks: u64) -> (Value, u64) {
        let woken = self.woken();
        (woken.reply, woken.ticks.saturating_sub(ticks))
    }
}

/// Parses the reply to TIME.
fn milliseconds(time: Value) -> i64 {
    let (seconds, microseconds): (i64, i64) = redis::from_redis_value(time).expect("the time");
    seconds * 1000 + microseconds / 1000
}

/// Returns the server's time in milliseconds since the epoch.
fn time(client: &mut Connection) -> i64 {
    milliseconds(client.ask("TIME"))
}

#[test]
fn a_step_ahead_wakes_every_client_whose_element_is_due() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    let line = |key: &str| format!("DEHYDRATOR.POLL {key} BLOCK 0");
    let sleepers = ["a", "b"].map(|key| {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 600000 element id"));
        Counting::start(&server, &line(key))
    });
    server.shift_clock(HOUR);
    let (ticks, _) = counted(&mut client, &[]);
    for sleeper in sleepers {
        let (reply, after) = sleeper.reply_since(ticks);
        assert_eq!(reply, texts(&["element"]));
        assert!(after <= SOON, "{after} ticks");
    }
    for key in ["a", "b", "c"] {
        let sleeper = Counting::start(&server, &line(key));
        let push = format!("DEHYDRATOR.PUSH {key} 10 element id");
        let (ticks, _) = counted(&mut client, &[&push]);
        let (reply, after) = sleeper.reply_since(ticks);
        assert_eq!(reply, texts(&["element"]));
        assert!(after <= SOON, "{after} ticks");
    }
}

#[test]
fn a_step_back_strands_nobody() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    // These keep timers of the server that were set by the old clock.
    client.ask("DEHYDRATOR.PUSH far 600000 element id");
    let far = Sleeper::start(&server, "DEHYDRATOR.POLL far BLOCK 0");
    let early = Counting::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1");
    server.shift_clock(-HOUR);
    for (block, ttl) in [(None, 10), (Some(early), 20)] {
        let line = "DEHYDRATOR.POLL k BLOCK 0 COUNT 1";
        let sleeper = block.unwrap_or_else(|| Counting::start(&server, line));
        let push = |id: &str| format!("DEHYDRATOR.PUSH k {ttl} element {id}");
        let (ticks, _) = counted(&mut client, &[&push("id"), &push("id2")]);
        let (reply, after) = sleeper.reply_since(ticks);
        assert_eq!(reply, texts(&["element"]));
        assert!(after <= SOON, "{after} ticks");
    }
    for _ in 0..3 {
        let start = Instant::now();
        let lines = ["DEHYDRATOR.POLL nowhere BLOCK 100", "INFO dehydrator"];
        let (ticks, replies) = counted(&mut server.connect(), &lines);
        assert!(start.elapsed() >= Duration::from_millis(99), "{:?}", start.elapsed());
        assert_eq!(replies[0], Value::Array(vec![]));
        let after = ticks_in(&replies[1]) - ticks;
        assert!(after <= 1 + SOON, "{after} ticks");
    }
    // The clock is corrected.
    server.shift_clock(0);
    let sleeper = Counting::start(&server, "DEHYDRATOR.POLL later BLOCK 0");
    let (ticks, _) = counted(&mut client, &["DEHYDRATOR.PUSH later 10 element id"]);
    let (reply, after) = sleeper.reply_since(ticks);
    assert_eq!(reply, texts(&["element"]));
    assert!(after <= SOON, "{after} ticks");
    assert!(!far.is_awake(), "its element is not due for ten minutes");
    client.ask("DEHYDRATOR.TOUCH far 0 id");
    assert_eq!(far.reply(), texts(&["element"]));
}

#[test]
fn a_step_back_with_a_pending_element_strands_nobody() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    let sleeper = Counting::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 3000 pending pending");
    server.shift_clock(-HOUR);
    // The timer of the first one, which is an hour off now, must not serve this one.
    let (ticks, _) = counted(&mut client, &["DEHYDRATOR.PUSH k 3200 element id"]);
    let (reply, after) = sleeper.reply_since(ticks);
    assert_eq!(reply, texts(&["element"]));
    assert!(after <= 32 + SOON, "{after} ticks");
}

#[test]
fn a_block_timeout_lasts_its_time_whatever_the_clock_does() {
    let server = Server::start_with_clock(&[]);
    for shift in [-HOUR, HOUR, 0] {
        let sleeper = Counting::start(&server, "DEHYDRATOR.POLL k BLOCK 1000");
        server.shift_clock(shift);
        let woken = sleeper.woken();
        assert_eq!(woken.reply, Value::Array(vec![]));
        let after = woken.ticks - woken.asked;
        // A clock that steps ahead may end it; none may prolong it.
        assert!(after <= 10 + SOON, "{after} ticks with {shift}");
    }
}

#[test]
fn deliveries_and_leases_continue_when_the_clock_steps() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE streamed STREAM s");
    client.ask("DEHYDRATOR.ONDUE dropped DROP");
    for (round, shift) in (0..).zip([HOUR, -HOUR, 2 * HOUR, 0, -2 * HOUR, 5, 0]) {
        client.ask("DEHYDRATOR.PUSH far-away 100000000 element id REPLACE");
        server.shift_clock(shift);
        // Pipelined commands run in one pass of the event loop, up to a command that blocks.
        let lines = [
            "XADD s * round begins",
            &format!("DEHYDRATOR.PUSH streamed 10 element {round}"),
            &format!("DEHYDRATOR.PUSH dropped 10 element {round}"),
            &format!("DEHYDRATOR.PUSH leased 0 element {round}"),
            "DEHYDRATOR.POLL leased LEASE 10",
            "DEHYDRATOR.POLL leased BLOCK 0",
            "INFO dehydrator",
        ];
        let (ticks, replies) = counted(&mut client, &lines);
        assert_eq!(replies[5], texts(&["element"]));
        let after = ticks_in(&replies[6]) - ticks;
        assert!(after <= SOON, "{after} ticks with {shift}");
        let Value::BulkString(begun) = &replies[0] else { panic!("an id") };
        let begun = String::from_utf8_lossy(begun);
        let read = format!("XREAD BLOCK 0 COUNT 1 STREAMS s {begun}");
        let (_, replies) = counted(&mut client, &[&read, "INFO dehydrator"]);
        let after = ticks_in(&replies[1]) - ticks;
        assert!(after <= SOON, "{after} ticks with {shift}");
        until("all is delivered", || {
            let left =
                ["streamed", "dropped"].map(|key| client.ask(&format!("DEHYDRATOR.LEN {key}")));
            (left == [Value::Int(0), Value::Int(0)]).then_some(())
        });
        assert_eq!(client.ask("XLEN s"), Value::Int(2 * (round + 1)));
    }
}

#[test]
fn a_dead_letter_moves_when_the_clock_steps_back_before_what_had_its_turn() {
    const MINUTE: i64 = 60_000;
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 LIST l");
    client.ask("DEHYDRATOR.PUSH k 0 element dead GROUP a");
    client.ask("DEHYDRATOR.POLL k LEASE 60000");
    client.ask("DEHYDRATOR.PUSH k 50000 first first GROUP a");
    client.ask("DEHYDRATOR.PUSH k 120000 element alive GROUP b");
    server.shift_clock(3 * MINUTE);
    assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 1"), texts(&["first"]));
    let (ticks, _) = counted(&mut client, &[]);
    until("the server has looked", || (counted(&mut client, &[]).0 > ticks + SOON).then_some(()));
    assert_eq!(client.ask("LLEN l"), Value::Int(0), "it is the turn of the other group");
    server.shift_clock(3 * MINUTE / 2);
    until("it is moved", || (client.ask("LLEN l") == Value::Int(1)).then_some(()));
}

#[test]
fn a_clock_that_is_set_repeatedly_strands_nobody_and_nothing_is_early() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    // A random number generator with a reproducible seed.
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for round in 0..60 {
        let shift = random(4 * HOUR as u64) as i64 - 2 * HOUR;
        let sleeper = Counting::start(&server, "DEHYDRATOR.POLL k BLOCK 0 WITHIDS");
        if round % 2 == 0 {
            server.shift_clock(shift);
        }
        let before = time(&mut client);
        let deadline = before + 5 + random(30) as i64;
        let push = format!("DEHYDRATOR.PUSH k 0 {deadline} {round} AT {deadline}");
        let (mut ticks, _) = counted(&mut client, &[&push]);
        let mut earliest = deadline;
        if round % 2 == 1 {
            server.shift_clock(shift);
            let now = time(&mut client);
            if now < deadline {
                // It is not due for long now: it stays, and so does its client, unless it had come before.
                let touch = format!("DEHYDRATOR.TOUCH k 5 {round}");
                let (touched, replies) = counted(&mut client, &[&touch]);
                ticks = touched;
                // Elements delivered by the old clock may be followed by a TIME of the new one.
                earliest = if replies[0] == Value::Int(1) { now + 5 } else { 0 };
            } else {
                (ticks, _) = counted(&mut client, &[]);
            }
        }
        let Woken { reply, ticks: woken, at, .. } = sleeper.woken();
        let after = woken.saturating_sub(ticks);
        let expected = texts(&[&round.to_string(), &deadline.to_string()]);
        assert!(reply == expected || reply == Value::Array(vec![expected.clone()]), "{reply:?}");
        assert!(after <= SOON, "{after} ticks in round {round}");
        // Valkey 9 reads the time once per millisecond.
        assert!(at + 1 >= earliest, "{round} came early, at {at}: {earliest}");
    }
    assert_eq!(waiters(&server), 0);
    server.shift_clock(0);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 10 element id");
    assert_eq!(sleeper.reply(), texts(&["element"]));
}

#[test]
fn without_a_kernel_timer_the_servers_own_timer_works() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("DEHYDRATOR.DEBUG k SERVER-TIMERS"), Value::Okay);
    client.ask("DEHYDRATOR.ONDUE streamed STREAM s");
    for round in 0..20 {
        let sleeper = Counting::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        let push = format!("DEHYDRATOR.PUSH k {} element id", round % 4 * 10);
        let (ticks, _) = counted(&mut client, &[&push]);
        client.ask(&format!("DEHYDRATOR.PUSH streamed {} element {round}", round % 3 * 10));
        let (reply, after) = sleeper.reply_since(ticks);
        assert_eq!(reply, texts(&["element"]));
        assert!(after <= SOON, "{after} ticks");
        until("it is delivered", || (client.ask("XLEN s") == Value::Int(round + 1)).then_some(()));
    }
    let refused = client.refused("DEHYDRATOR.DEBUG k SERVER-TIMERS");
    assert!(refused.contains("in use"), "{refused}");
}
