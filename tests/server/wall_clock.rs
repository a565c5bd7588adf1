//! A wall clock that somebody sets while clients sleep. The monotonic clock goes on.

use std::time::{Duration, Instant, SystemTime};

use redis::{Connection, Value};

use crate::harness::{Ask, Server, texts, until};
use crate::sleeper::{Sleeper, waiters};

const HOUR: i64 = 3_600_000;
/// Two ticks of the cron are 200 ms; the machine that runs the tests may be busy.
const SOON: Duration = Duration::from_millis(900);

/// Milliseconds since the epoch, as the server has them now.
fn time(client: &mut Connection) -> i64 {
    let time: Vec<i64> = redis::cmd("TIME").query(client).expect("the time");
    time[0] * 1000 + time[1] / 1000
}

/// Sets the clock, and waits until the server has it: Valkey 9 asks for the time once in a millisecond.
fn step(server: &Server, milliseconds: i64) {
    server.shift_clock(milliseconds);
    let mut client = server.connect();
    until("the server has the time", || {
        let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let ahead = time(&mut client) - here.as_millis() as i64;
        ((ahead - milliseconds).abs() < 1000).then_some(())
    });
}

#[test]
fn a_step_ahead_wakes_everybody_whose_time_has_come() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    let line = |key: &str| format!("DEHYDRATOR.POLL {key} BLOCK 0");
    let sleepers = ["a", "b"].map(|key| {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 600000 element id"));
        Sleeper::start(&server, &line(key))
    });
    let start = Instant::now();
    step(&server, HOUR);
    for sleeper in sleepers {
        let (reply, after) = sleeper.reply_after(start);
        assert_eq!(reply, texts(&["element"]));
        assert!(after < SOON, "{after:?}");
    }
    for key in ["a", "b", "c"] {
        let sleeper = Sleeper::start(&server, &line(key));
        let start = Instant::now();
        client.ask(&format!("DEHYDRATOR.PUSH {key} 10 element id"));
        let (reply, after) = sleeper.reply_after(start);
        assert_eq!(reply, texts(&["element"]));
        assert!(after < SOON, "{after:?}");
    }
}

#[test]
fn a_step_back_strands_nobody() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    // These keep timers of the server's that were set by the clock as it was.
    client.ask("DEHYDRATOR.PUSH far 600000 element id");
    let far = Sleeper::start(&server, "DEHYDRATOR.POLL far BLOCK 0");
    let early = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1");
    step(&server, -HOUR);
    for (block, ttl) in [(None, 10), (Some(early), 20)] {
        let line = "DEHYDRATOR.POLL k BLOCK 0 COUNT 1";
        let sleeper = block.unwrap_or_else(|| Sleeper::start(&server, line));
        let start = Instant::now();
        client.ask(&format!("DEHYDRATOR.PUSH k {ttl} element id"));
        client.ask(&format!("DEHYDRATOR.PUSH k {ttl} element id2"));
        let (reply, after) = sleeper.reply_after(start);
        assert_eq!(reply, texts(&["element"]));
        assert!(after < SOON, "{after:?}");
    }
    for _ in 0..3 {
        let start = Instant::now();
        assert_eq!(server.connect().ask("DEHYDRATOR.POLL nowhere BLOCK 100"), Value::Nil);
        let after = start.elapsed();
        assert!((Duration::from_millis(99)..SOON).contains(&after), "{after:?}");
    }
    // The clock is right again.
    step(&server, 0);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL later BLOCK 0");
    let start = Instant::now();
    client.ask("DEHYDRATOR.PUSH later 10 element id");
    let (reply, after) = sleeper.reply_after(start);
    assert_eq!(reply, texts(&["element"]));
    assert!(after < SOON, "{after:?}");
    assert!(!far.is_awake(), "its element is not due for ten minutes");
    client.ask("DEHYDRATOR.TOUCH far id 0");
    assert_eq!(far.reply(), texts(&["element"]));
}

#[test]
fn a_step_back_with_an_element_pending_strands_nobody() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 1000 pending pending");
    step(&server, -HOUR);
    // What waits for the first one, which is an hour off now, will not do for this one.
    let start = Instant::now();
    client.ask("DEHYDRATOR.PUSH k 1200 element id");
    let (reply, after) = sleeper.reply_after(start);
    assert_eq!(reply, texts(&["element"]));
    assert!(after < Duration::from_millis(1200) + SOON, "{after:?}");
}

#[test]
fn a_client_that_waits_for_a_while_waits_that_long_whatever_the_clock_does() {
    let server = Server::start_with_clock(&[]);
    for shift in [-HOUR, HOUR, 0] {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 300");
        let start = Instant::now();
        step(&server, shift);
        let (reply, after) = sleeper.reply_after(start);
        assert_eq!(reply, Value::Nil);
        // A clock that steps ahead may end it; none may keep it.
        assert!(after < Duration::from_millis(300) + SOON, "{after:?} with {shift}");
    }
}

#[test]
fn deliveries_and_leases_go_on_when_the_clock_steps() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE streamed STREAM s");
    client.ask("DEHYDRATOR.ONDUE dropped DROP");
    for (round, shift) in (0..).zip([HOUR, -HOUR, 2 * HOUR, 0, -2 * HOUR, 5, 0]) {
        client.ask("DEHYDRATOR.PUSH far-away 100000000 element id REPLACE");
        step(&server, shift);
        let start = Instant::now();
        client.ask(&format!("DEHYDRATOR.PUSH streamed 10 element {round}"));
        client.ask(&format!("DEHYDRATOR.PUSH dropped 10 element {round}"));
        client.ask(&format!("DEHYDRATOR.PUSH leased 0 element {round}"));
        client.ask("DEHYDRATOR.POLL leased LEASE 10");
        let line = "DEHYDRATOR.POLL leased BLOCK 0";
        assert_eq!(server.connect().ask(line), texts(&["element"]));
        until("all is delivered", || {
            let left =
                ["streamed", "dropped"].map(|key| client.ask(&format!("DEHYDRATOR.LEN {key}")));
            (left == [Value::Int(0), Value::Int(0)]).then_some(())
        });
        assert!(start.elapsed() < 2 * SOON, "{:?} with {shift}", start.elapsed());
        assert_eq!(client.ask("XLEN s"), Value::Int(round + 1));
    }
}

#[test]
fn a_clock_that_is_set_again_and_again_strands_nobody_and_nothing_comes_early() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    // A generator of numbers that anybody can run again.
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for round in 0..60 {
        let shift = random(4 * HOUR as u64) as i64 - 2 * HOUR;
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 WITHIDS");
        if round % 2 == 0 {
            step(&server, shift);
        }
        let before = time(&mut client);
        let deadline = before + 5 + random(30) as i64;
        client.ask(&format!("DEHYDRATOR.PUSH k 0 {deadline} {round} AT {deadline}"));
        if round % 2 == 1 {
            step(&server, shift);
            let now = time(&mut client);
            if now < deadline {
                // It is not due for long now: it stays, and so does who waits for it.
                assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
                client.ask(&format!("DEHYDRATOR.TOUCH k {round} 5"));
            }
        }
        let start = Instant::now();
        let reply = sleeper.reply();
        let expected = texts(&[&round.to_string(), &deadline.to_string()]);
        assert!(reply == expected || reply == Value::Array(vec![expected.clone()]), "{reply:?}");
        assert!(start.elapsed() < 2 * SOON, "{:?} in round {round}", start.elapsed());
        if round % 2 == 0 {
            assert!(time(&mut client) >= deadline, "{round} came early");
        }
    }
    assert_eq!(waiters(&server), 0);
    step(&server, 0);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 10 element id");
    assert_eq!(sleeper.reply(), texts(&["element"]));
}

#[test]
fn without_a_timer_of_the_kernel_s_the_server_s_own_will_do() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("DEHYDRATOR.DEBUG k SERVER-TIMERS"), Value::Okay);
    client.ask("DEHYDRATOR.ONDUE streamed STREAM s");
    for round in 0..20 {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        let start = Instant::now();
        client.ask(&format!("DEHYDRATOR.PUSH k {} element id", round % 4 * 10));
        client.ask(&format!("DEHYDRATOR.PUSH streamed {} element {round}", round % 3 * 10));
        assert_eq!(sleeper.reply(), texts(&["element"]));
        assert!(start.elapsed() < 2 * SOON, "{:?}", start.elapsed());
        until("it is delivered", || (client.ask("XLEN s") == Value::Int(round + 1)).then_some(()));
    }
    let refused = client.refused("DEHYDRATOR.DEBUG k SERVER-TIMERS");
    assert!(refused.contains("in use"), "{refused}");
}
