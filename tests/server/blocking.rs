//! Clients blocked in the server, and everything that can happen meanwhile.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, texts, until};

/// The unit of deadlines.
const TICK: Duration = Duration::from_millis(1);

fn elements(elements: &[&str]) -> Value {
    texts(elements)
}

#[test]
fn a_client_wakes_when_an_element_is_due_and_not_before() {
    let (server, mut client) = Server::with_client(&[]);
    for wait in [0, 1, 20, 150] {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        let start = Instant::now();
        client.ask(&format!("DEHYDRATOR.PUSH k {wait} element id"));
        let (reply, after) = sleeper.reply_after(start);
        assert_eq!(reply, elements(&["element"]));
        // The server's clock has whole milliseconds: the push may come at the end of one.
        assert!(after + TICK >= Duration::from_millis(wait), "{after:?} is early for {wait} ms");
        // Usually a millisecond, but the machine that runs the tests may be busy.
        assert!(after < Duration::from_millis(wait + 60_000), "{after:?} is late for {wait} ms");
        assert!(!client.exists("k"));
    }
}

#[test]
fn a_due_element_is_delivered_at_once() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.MPUSH k 0 a 1 0 b 2 0 c 3");
    assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 0 COUNT 2"), elements(&["a", "b"]));
    assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 2 BLOCK 100000"), elements(&["c"]));
}

#[test]
fn an_earlier_element_and_a_touch_wake_earlier() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 600000 late 1");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0 WITHIDS");
    client.ask("DEHYDRATOR.PUSH k 30 early 2");
    assert_eq!(sleeper.reply(), Value::Array(vec![elements(&["2", "early"])]));
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.TOUCH k 30 1");
    assert_eq!(sleeper.reply(), elements(&["late"]));
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 600000 other 3");
    client.ask("DEHYDRATOR.PUSH k 30 replaced 3 REPLACE");
    assert_eq!(sleeper.reply(), elements(&["replaced"]));
}

#[test]
fn clients_are_served_in_order_of_arrival() {
    let (server, mut client) = Server::with_client(&[]);
    let line = "DEHYDRATOR.POLL k BLOCK 0 COUNT 1";
    let sleepers: Vec<_> = (0..5).map(|_| Sleeper::start(&server, line)).collect();
    let mut push = redis::cmd("DEHYDRATOR.MPUSH");
    push.arg("k");
    for number in 0..5 {
        push.arg(20).arg(number).arg(number);
    }
    push.exec(&mut client).expect("pushes");
    for (number, sleeper) in sleepers.into_iter().enumerate() {
        assert_eq!(sleeper.reply(), elements(&[&number.to_string()]));
    }
    // A client that takes everything leaves nothing for the next, which stays blocked.
    let first = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    let second = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.MPUSH k 0 a 1 0 b 2");
    assert_eq!(first.reply(), elements(&["a", "b"]));
    assert_eq!(waiters(&server), 1);
    client.ask("DEHYDRATOR.PUSH k 0 c 3");
    assert_eq!(second.reply(), elements(&["c"]));
}

#[test]
fn a_client_that_times_out_gets_nothing_and_takes_no_element() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    let start = Instant::now();
    assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 50"), elements(&[]));
    assert!(start.elapsed() >= Duration::from_millis(50));
    assert_eq!(client.ask("DEHYDRATOR.POLL nowhere BLOCK 1"), elements(&[]));
    assert_eq!(waiters(&server), 0);
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    client.ask("HELLO 3");
    assert_eq!(client.ask("DEHYDRATOR.POLL nowhere BLOCK 1"), elements(&[]));
}

#[test]
fn a_client_that_hangs_up_is_killed_or_unblocked_takes_no_element() {
    let (server, mut client) = Server::with_client(&[]);
    let killed = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    let unblocked = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    let refused = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    let mut hung_up = server.connect();
    hung_up
        .send_packed_command(&cmd("DEHYDRATOR.POLL k BLOCK 0").get_packed_command())
        .expect("it is sent");
    until("four are asleep", || (waiters(&server) == 4).then_some(()));
    let last = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask(&format!("CLIENT KILL ID {}", killed.id));
    client.ask(&format!("CLIENT UNBLOCK {}", unblocked.id));
    client.ask(&format!("CLIENT UNBLOCK {} ERROR", refused.id));
    drop(hung_up);
    until("one is left", || (waiters(&server) == 1).then_some(()));
    killed.error();
    assert_eq!(unblocked.reply(), elements(&[]));
    assert!(refused.error().contains("UNBLOCKED"));
    client.ask("DEHYDRATOR.PUSH k 10 element id");
    assert_eq!(last.reply(), elements(&["element"]));
}

#[test]
fn a_client_killed_after_it_was_woken_leaves_everything_to_the_next() {
    let (server, mut client) = Server::with_client(&[]);
    for round in 0..200 {
        let first = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        let second = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        // At once, so that the timer and the kill come in one pass of the event loop.
        let mut pipe = redis::pipe();
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(round % 2).arg(round).arg(round);
        pipe.cmd("CLIENT").arg("KILL").arg("ID").arg(first.id);
        pipe.ignore_errors();
        let _: Vec<Value> = pipe.query(&mut client).expect("replies");
        let reply = first.outcome();
        if let Ok(reply) = reply {
            // The delivery was faster than the kill: then the second client waits for the next element.
            assert_eq!(reply, elements(&[&round.to_string()]));
            client.ask(&format!("DEHYDRATOR.PUSH k 0 {round} {round}"));
        }
        assert_eq!(second.reply(), elements(&[&round.to_string()]));
        assert!(!client.exists("k"));
    }
}

#[test]
fn transactions_and_scripts_do_not_block() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("MULTI");
    client.ask("DEHYDRATOR.POLL k BLOCK 0");
    assert_eq!(client.ask("EXEC"), Value::Array(vec![elements(&[])]));
    let mut eval = redis::cmd("EVAL");
    eval.arg("return redis.call('DEHYDRATOR.POLL', KEYS[1], 'BLOCK', 0)").arg(1).arg("k");
    assert_eq!(eval.query(&mut client), Ok(elements(&[])));
    assert_eq!(waiters(&server), 0);
}

#[test]
fn a_server_that_becomes_a_replica_unblocks_its_clients() {
    let primary = Server::start_with_port(&[]);
    let server = Server::start_with_port(&[]);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    server.connect().ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    assert!(sleeper.error().contains("UNBLOCKED"));
    assert_eq!(waiters(&server), 0);
    let error = server.connect().refused("DEHYDRATOR.POLL k BLOCK 0");
    assert!(error.starts_with("READONLY"), "{error}");
}

#[test]
fn nobody_wakes_while_writes_are_paused() {
    let (server, mut client) = Server::with_client(&["--hz", "100"]);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 50 element id");
    client.ask("CLIENT PAUSE 100000 WRITE");
    until("it is due", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
    let ticks = server.info("dehydrator", "dehydrator_ticks");
    until("some time has passed", || {
        (server.info("dehydrator", "dehydrator_ticks") > ticks + 20).then_some(())
    });
    assert_eq!(waiters(&server), 1);
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    client.ask("CLIENT UNPAUSE");
    assert_eq!(sleeper.reply(), elements(&["element"]));
}

#[test]
fn a_failover_with_blocked_clients_kills_no_server_and_loses_nothing() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
    let sleepers: Vec<_> =
        (0..20).map(|_| Sleeper::start(&primary, "DEHYDRATOR.POLL k BLOCK 0 COUNT 1")).collect();
    let mut pipe = redis::pipe();
    for number in 0..2000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(number / 4).arg(number).arg(number);
    }
    pipe.exec(&mut client).expect("pushes");
    client.ask("FAILOVER");
    until("the roles have changed", || {
        let Value::Array(role) = replica.connect().ask("ROLE") else { panic!("an array") };
        (role[0] == text("master")).then_some(())
    });
    let replies = sleepers.into_iter().map(|sleeper| sleeper.outcome());
    let taken: usize = replies.filter(|reply| reply.is_ok()).count();
    let mut promoted = replica.connect();
    assert_eq!(promoted.ask("DEHYDRATOR.LEN k"), Value::Int(2000 - taken as i64));
}

#[test]
fn a_client_wakes_however_its_key_appears() {
    let (server, mut client) = Server::with_client(&[]);
    let fill = |client: &mut Connection, key: &str| {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element id"));
    };
    let asleep = || Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");

    let sleeper = asleep();
    fill(&mut client, "other");
    client.ask("RENAME other k");
    assert_eq!(sleeper.reply(), elements(&["element"]));

    let sleeper = asleep();
    fill(&mut client, "other");
    client.ask("COPY other k");
    assert_eq!(sleeper.reply(), elements(&["element"]));

    let sleeper = asleep();
    let Value::BulkString(dump) = client.ask("DUMP other") else { panic!("a dump") };
    redis::cmd("RESTORE").arg("k").arg(0).arg(dump).exec(&mut client).expect("OK");
    assert_eq!(sleeper.reply(), elements(&["element"]));

    let sleeper = asleep();
    client.ask("SELECT 1");
    fill(&mut client, "k");
    client.ask("MOVE k 0");
    assert_eq!(sleeper.reply(), elements(&["element"]));

    let sleeper = asleep();
    fill(&mut client, "k");
    client.ask("SWAPDB 0 1");
    assert_eq!(sleeper.reply(), elements(&["element"]));
    client.ask("SELECT 0");

    // If the key goes away, they stay blocked.
    let sleeper = asleep();
    for line in [
        "DEL k",
        "FLUSHALL SYNC",
        "FLUSHALL ASYNC",
        "FLUSHDB",
        "DEBUG RELOAD",
        "SET k text",
        "DEBUG RELOAD",
        "UNLINK k",
        "DEHYDRATOR.PUSH k 600000 later later",
        "DEBUG RELOAD",
        "RENAME k elsewhere",
        "COPY elsewhere k",
        "DEHYDRATOR.REM k later",
    ] {
        client.ask(line);
        let ticks = server.info("dehydrator", "dehydrator_ticks");
        until("the tick has come by", || {
            (server.info("dehydrator", "dehydrator_ticks") > ticks + 1).then_some(())
        });
        assert_eq!(waiters(&server), 1, "after {line}");
    }
    client.ask("DEHYDRATOR.PUSH k 300 soon soon");
    client.ask("DEBUG RELOAD");
    assert_eq!(sleeper.reply(), elements(&["soon"]));
}

#[test]
fn elements_taken_by_blocked_clients_are_replicated_as_removals() {
    let (server, mut client) = Server::with_client(&["--appendonly", "yes"]);
    for round in 0..50 {
        let line = format!("DEHYDRATOR.POLL k{round} BLOCK 0 COUNT 2");
        let sleepers: Vec<_> = (0..4).map(|_| Sleeper::start(&server, &line)).collect();
        let mut pipe = redis::pipe();
        for number in 0..10 {
            let id = format!("{round}-{number}");
            let key = format!("k{round}");
            pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(number % 3).arg(&id).arg(&id);
        }
        pipe.exec(&mut client).expect("pushes");
        sleepers.into_iter().for_each(|sleeper| drop(sleeper.reply()));
    }
    let before = client.ask("DEBUG DIGEST");
    client.ask("DEBUG LOADAOF");
    assert_eq!(client.ask("DEBUG DIGEST"), before);
}

/// Returns the server's CPU time, in microseconds.
pub fn cpu_us(client: &mut Connection) -> f64 {
    cpu_us_of(client, "")
}

/// Returns the CPU time of the thread that executes commands, in microseconds.
pub fn main_cpu_us(client: &mut Connection) -> f64 {
    cpu_us_of(client, "_main_thread")
}

fn cpu_us_of(client: &mut Connection, part: &str) -> f64 {
    let Value::BulkString(info) = client.ask("INFO cpu") else { panic!("text") };
    let info = String::from_utf8(info).expect("text");
    let seconds = |field: &str| -> f64 {
        let name = format!("{field}{part}:");
        let line = info.lines().find_map(|line| line.strip_prefix(&name));
        line.expect("a field").trim().parse().expect("a number")
    };
    (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6
}

#[test]
fn two_thousand_clients_blocked_on_one_key_cost_no_more_than_one() {
    let (server, mut client) = Server::with_client(&["--maxclients", "3000"]);
    let asleep = 2000;
    let poll = cmd("DEHYDRATOR.POLL k BLOCK 0 COUNT 1").get_packed_command();
    let mut sleepers: Vec<_> = (0..asleep).map(|_| server.connect()).collect();
    // One after the other: a server that finds several readable sockets reads them in an order of its own, and the test
    // asserts the order of arrival.
    for (before, sleeper) in (0..).zip(&mut sleepers) {
        sleeper.send_packed_command(&poll).expect("it is sent");
        until("it is asleep", || {
            (client.info("dehydrator", "dehydrator_blocked_clients") == before + 1).then_some(())
        });
    }
    let count = 500;
    let before = cpu_us(&mut client);
    for (number, sleeper) in sleepers.iter_mut().enumerate().take(count) {
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        push.arg("k").arg(0).arg(number).arg(number).exec(&mut client).expect("OK");
        // The first client wakes, and no other.
        let reply = sleeper.recv_response().expect("a reply");
        assert_eq!(reply, elements(&[&number.to_string()]));
    }
    let each = (cpu_us(&mut client) - before) / count as f64;
    assert!(each < 200.0, "{each} us of the server's time for each element");
    assert_eq!(waiters(&server), asleep - count as u64);
}

#[test]
fn a_timeout_at_a_deadline_is_replied_once_and_the_connection_stays_in_sync() {
    let server = Server::start(&[]);
    let (mut client, mut sleeper) = (server.connect(), server.connect());
    for (block, ttl) in [(20, 30), (50, 60), (30, 30), (29, 30), (30, 29), (100, 105)] {
        for _ in 0..5 {
            client.ask("DEL k");
            client.ask(&format!("DEHYDRATOR.PUSH k {ttl} element id"));
            match sleeper.ask(&format!("DEHYDRATOR.POLL k BLOCK {block}")) {
                Value::Array(none) if none.is_empty() => {
                    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
                }
                reply => assert_eq!(reply, elements(&["element"])),
            }
            assert_eq!(sleeper.ask("ECHO in-step"), text("in-step"));
        }
    }
    assert_eq!(waiters(&server), 0);
}

#[test]
fn thousands_that_time_out_together_do_not_stall_the_server() {
    let (server, mut client) = Server::with_client(&["--maxclients", "5000"]);
    let asleep = 4000;
    let poll = cmd("DEHYDRATOR.POLL k BLOCK 1000").get_packed_command();
    let mut sleepers: Vec<_> = (0..asleep).map(|_| server.connect()).collect();
    for sleeper in &mut sleepers {
        sleeper.send_packed_command(&poll).expect("it is sent");
    }
    let before = cpu_us(&mut client);
    for sleeper in &mut sleepers {
        assert_eq!(sleeper.recv_response().expect("a reply"), elements(&[]));
    }
    // A few microseconds for each. With a walk over all others for each, it was a hundred.
    let each = (cpu_us(&mut client) - before) / f64::from(asleep);
    assert!(each < 100.0, "{each} us of the server's time for each client");
    assert_eq!(waiters(&server), 0);
}

#[test]
fn thousands_that_are_unblocked_together_do_not_stall_the_server() {
    const ASLEEP: u64 = 3000;
    /// Some are unblocked in each pass of the event loop. On a busy machine, the test's client may miss most of these
    /// passes: then try again.
    const TRIES: usize = 10;
    let (server, mut client) = Server::with_client(&["--maxclients", "4000"]);
    let poll = cmd("DEHYDRATOR.POLL k BLOCK 0").get_packed_command();
    let mut sleepers: Vec<_> = (0..ASLEEP).map(|_| server.connect()).collect();
    let mut seen = 0;
    for _ in 0..TRIES {
        for sleeper in &mut sleepers {
            sleeper.send_packed_command(&poll).expect("it is sent");
        }
        until("all are asleep", || (waiters(&server) == ASLEEP).then_some(()));
        client.ask("DEHYDRATOR.ONDUE k DROP");
        // Other clients are served in between, and see how many are left. Ask without a pause as long as there are any.
        let left =
            std::iter::repeat_with(|| client.info("dehydrator", "dehydrator_blocked_clients"));
        let left: BTreeSet<_> = left.take_while(|left| *left > 0).collect();
        seen = seen.max(left.into_iter().filter(|left| *left < ASLEEP).count());
        for sleeper in &mut sleepers {
            let Value::ServerError(error) = sleeper.recv_response().expect("a reply") else {
                panic!("no error")
            };
            assert!(error.code().contains("UNBLOCKED"), "{error:?}");
        }
        if seen > 3 {
            return;
        }
        client.ask("DEL k");
    }
    panic!("{seen} numbers between all and none were seen at the most");
}

#[test]
fn a_client_that_blocks_while_others_are_unblocked_stays() {
    let (server, mut client) = Server::with_client(&[]);
    let mut sleepers: Vec<_> = (0..300).map(|_| server.connect()).collect();
    for sleeper in &mut sleepers {
        let poll = cmd("DEHYDRATOR.POLL k BLOCK 0").get_packed_command();
        sleeper.send_packed_command(&poll).expect("it is sent");
    }
    until("all are asleep", || (waiters(&server) == 300).then_some(()));
    // Together, so that the last one arrives while the others are being unblocked.
    let mut later = server.connect();
    let lines = ["DEHYDRATOR.ONDUE k DROP", "DEHYDRATOR.ONDUE k HOLD", "DEHYDRATOR.POLL k BLOCK 0"];
    let packed: Vec<u8> = lines.iter().flat_map(|it| cmd(it).get_packed_command()).collect();
    later.send_packed_command(&packed).expect("it is sent");
    for sleeper in &mut sleepers {
        sleeper.recv_response().expect("a reply");
    }
    assert_eq!(waiters(&server), 1);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let ok = || Value::Okay;
    let replies: Vec<_> = (0..3).map(|_| later.recv_response().expect("a reply")).collect();
    assert_eq!(replies, [ok(), ok(), elements(&["element"])]);
}

#[test]
fn many_watched_keys_do_not_stop_the_tick_from_compacting() {
    let (server, mut client) = Server::with_client(&["--maxclients", "5000", "--hz", "100"]);
    let mut sleepers: Vec<_> = (0..3000).map(|_| server.connect()).collect();
    for (number, sleeper) in sleepers.iter_mut().enumerate() {
        let poll = cmd(&format!("DEHYDRATOR.POLL watched-{number} BLOCK 0")).get_packed_command();
        sleeper.send_packed_command(&poll).expect("it is sent");
    }
    until("all are asleep", || (waiters(&server) == 3000).then_some(()));
    let mut pipe = redis::pipe();
    for id in 0..50_000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(600_000).arg("element").arg(id);
    }
    for id in (0..50_000).filter(|id| id % 20 != 0) {
        pipe.cmd("DEHYDRATOR.REM").arg("k").arg(id);
    }
    pipe.exec(&mut client).expect("replies");
    until("the tick has compacted it", || {
        (client.info("dehydrator", "dehydrator_compaction_pending") == 0).then_some(())
    });
    // All watched keys are visited, in turn.
    client.ask("DEHYDRATOR.PUSH other 0 element id");
    client.ask("RENAME other watched-2999");
    let reply = sleepers[2999].recv_response().expect("a reply");
    assert_eq!(reply, elements(&["element"]));
}

#[test]
fn a_clock_that_jumps_ahead_wakes_clients_whose_elements_become_due() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("DEHYDRATOR.DEBUG k CLOCK 700000");
    assert_eq!(sleeper.reply(), elements(&["element"]));
    // And back: nothing is early.
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 300");
    client.ask("DEHYDRATOR.PUSH k 100000 element id");
    client.ask("DEHYDRATOR.DEBUG k CLOCK 699900");
    assert_eq!(sleeper.reply(), elements(&[]));
}

#[test]
fn a_client_blocked_on_a_writable_replica_wakes() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&["--replica-read-only", "no"]);
    replica.follow(&primary);
    let sleeper = Sleeper::start(&replica, "DEHYDRATOR.POLL mine BLOCK 0");
    replica.connect().ask("DEHYDRATOR.PUSH mine 20 element id");
    assert_eq!(sleeper.reply(), elements(&["element"]));
}

#[test]
fn a_backlog_with_many_polling_clients_does_not_starve_other_keys() {
    let (server, mut client) = Server::with_client(&["--maxclients", "1000"]);
    let count = 200 * 50;
    let mut pipe = redis::pipe();
    for id in 0..count {
        pipe.cmd("DEHYDRATOR.PUSH").arg("a").arg(0).arg("element").arg(id).arg("AT").arg(10);
    }
    pipe.exec(&mut client).expect("pushes");
    let mut other = server.connect();
    let poll = cmd("DEHYDRATOR.POLL b BLOCK 0").get_packed_command();
    other.send_packed_command(&poll).expect("it is sent");
    until("it is asleep", || (waiters(&server) == 1).then_some(()));
    // One client is blocked on the backlog, so that all others queue up.
    client.ask("DEHYDRATOR.POLL a COUNT 1");
    let again = cmd("DEHYDRATOR.POLL a BLOCK 0 COUNT 1").get_packed_command().repeat(50);
    let mut pollers: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for poller in &mut pollers {
        poller.send_packed_command(&again).expect("it is sent");
    }
    client.ask("DEHYDRATOR.PUSH b 0 element id");
    assert_eq!(other.recv_response().expect("a reply"), elements(&["element"]));
    let lateness = client.info("dehydrator", "dehydrator_lateness_max_us");
    assert!(lateness < 5_000_000, "{lateness} us");
}

#[test]
fn a_client_unblocked_twice_gets_one_reply() {
    let (server, mut client) = Server::with_client(&[]);
    for _ in 0..20 {
        let mut sleeper = server.connect();
        let Value::Int(id) = sleeper.ask("CLIENT ID") else { panic!("an id") };
        let poll = cmd("DEHYDRATOR.POLL k BLOCK 0").get_packed_command();
        sleeper.send_packed_command(&poll).expect("it is sent");
        until("it is asleep", || (waiters(&server) == 1).then_some(()));
        let mut pipe = redis::pipe();
        pipe.cmd("DEHYDRATOR.ONDUE").arg("k").arg("DROP");
        pipe.cmd("CLIENT").arg("UNBLOCK").arg(id);
        let _: Vec<Value> = pipe.query(&mut client).expect("replies");
        let _ = sleeper.recv_response();
        assert_eq!(sleeper.ask("ECHO in-step"), text("in-step"));
        client.ask("DEHYDRATOR.ONDUE k HOLD");
    }
}
