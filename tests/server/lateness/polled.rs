//! Elements taken by POLL and MPOLL count as late, from the moment when they could first have been delivered.

use redis::{Connection, Value};

use super::{all_is_less_late_than, late, overdue, time};
use harness::{Ask, Server, cmd, texts, until};

/// Waits for this many milliseconds by the server's clock.
fn wait(client: &mut Connection, milliseconds: u64) {
    let began = time(client);
    until("time passes", || (time(client) >= began + milliseconds * 1000).then_some(()));
}

fn polls() -> [&'static str; 4] {
    [
        "DEHYDRATOR.POLL k",
        "DEHYDRATOR.POLL k COUNT 5 LEASE 600000",
        "DEHYDRATOR.MPOLL 2 nowhere k COUNT 1",
        "DEHYDRATOR.MPOLL 2 nowhere k LEASE 600000",
    ]
}

#[test]
fn an_element_that_waited_for_a_poll_is_late_by_its_wait() {
    for small in ["32", "0"] {
        for poll in polls() {
            let (server, mut client) = Server::with_client(&[]);
            client.ask(&format!("CONFIG SET dehydrator.small-max-elements {small}"));
            client.ask("DEHYDRATOR.PUSH k 0 x 1");
            let since = time(&mut client);
            // Deadlines are whole milliseconds.
            let least = overdue(&mut client, since) - 2000;
            client.ask(poll);
            for which in ["last", "p50", "max"] {
                let late = late(&server, which);
                let most = time(&mut client) - since + 200_000;
                assert!((least..most).contains(&late), "{poll}: {which} is {late}, not {least}");
            }
            assert_eq!(client.info("dehydrator", "dehydrator_late"), 1);
        }
    }
}

/// Each of them counts by its own deadline, even within one call.
#[test]
fn each_element_of_a_large_poll_counts() {
    let (server, mut client) = Server::with_client(&[]);
    let now = time(&mut client) / 1000;
    // They were pushed a moment ago, so they are on time.
    for id in 0..900 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id} AT {}", now + 10));
    }
    for id in 900..1000 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id} AT {}", now + 1500));
    }
    until("all are due", || (time(&mut client) > (now + 1600) * 1000).then_some(()));
    let taken: Vec<String> = cmd("DEHYDRATOR.POLL k COUNT 600").query(&mut client).expect("ids");
    assert_eq!(taken.len(), 600);
    let taken: Vec<String> = cmd("DEHYDRATOR.POLL k").query(&mut client).expect("ids");
    assert_eq!(taken.len(), 400);
    assert!(late(&server, "p50") >= 1_500_000, "{}", late(&server, "p50"));
    assert!(late(&server, "max") >= late(&server, "last") + 1_400_000, "each by its deadline");
    let percentile = |which| late(&server, which);
    assert_eq!(percentile("p99"), percentile("p999"));
}

#[test]
fn an_element_pushed_with_a_past_deadline_is_late_since_the_push() {
    let doors: [(&str, &[&str]); 5] = [
        ("a push", &["DEHYDRATOR.PUSH k 0 x a AT 10"]),
        ("several", &["DEHYDRATOR.MPUSH k 0 x a 0 x b AT 10", "DEHYDRATOR.PUSH k 0 x c AT 5"]),
        ("a touch", &["DEHYDRATOR.PUSH k 600000 x a", "DEHYDRATOR.TOUCH k 5 AT 10 a"]),
        ("a copy", &["DEHYDRATOR.PUSH other 0 x a AT 10", "COPY other k"]),
        ("before another", &["DEHYDRATOR.PUSH k 0 x z", "DEHYDRATOR.PUSH k 0 x a AT 10"]),
    ];
    for poll in polls() {
        for (what, commands) in doors {
            let (server, mut client) = Server::with_client(&[]);
            let began = time(&mut client);
            commands.iter().for_each(|command| _ = client.ask(command));
            wait(&mut client, 30);
            client.ask(poll);
            client.ask(poll);
            let most = time(&mut client) - began + 1000;
            all_is_less_late_than(most, &server, &format!("{what}, {poll}"));
            assert!(late(&server, "max") >= 28_000, "{what}, {poll}: {}", late(&server, "max"));
        }
    }
}

/// Older elements are as late as they were.
#[test]
fn an_older_element_keeps_its_lateness_when_earlier_ones_are_pushed() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 x old");
    let since = time(&mut client);
    let least = overdue(&mut client, since);
    client.ask("DEHYDRATOR.PUSH k 0 y new AT 10");
    assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 1"), texts(&["y"]));
    assert!(late(&server, "max") < 1_000_000, "{}", late(&server, "max"));
    assert_eq!(client.ask("DEHYDRATOR.POLL k COUNT 1"), texts(&["x"]));
    assert!(late(&server, "max") >= least - 2000);
}

#[test]
fn a_paused_element_is_late_since_the_end_of_the_pause() {
    for (pause, resume) in [("DEHYDRATOR.PAUSE k", true), ("DEHYDRATOR.PAUSE k FOR 1200", false)] {
        let (server, mut client) = Server::with_client(&[]);
        client.ask("DEHYDRATOR.PUSH k 0 x a");
        client.ask(pause);
        let since = time(&mut client);
        let least = overdue(&mut client, since);
        if resume {
            client.ask("DEHYDRATOR.RESUME k");
        }
        assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["x"]));
        assert!(late(&server, "max") < least - 800_000, "{pause}: {}", late(&server, "max"));
    }
}

#[test]
fn a_clock_that_steps_ahead_makes_no_polled_element_late_and_keeps_existing_lateness() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH old 0 x a");
    client.ask("DEHYDRATOR.PUSH k 600000 x a");
    let since = time(&mut client);
    let least = overdue(&mut client, since);
    server.shift_clock(3_600_000);
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["x"]));
    all_is_less_late_than(least, &server, "a step of an hour");
    assert_eq!(client.ask("DEHYDRATOR.POLL old"), texts(&["x"]));
    let late = late(&server, "max");
    assert!(late + 300_000 > least && late < 600_000_000, "{late}, not {least}");
}

#[test]
fn an_element_due_before_a_restart_or_promotion_is_late_since_then() {
    let mut server = Server::start_with_port(&["--appendonly", "yes"]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 0 x a");
    client.ask("DEHYDRATOR.PUSH k 0 x b");
    let since = time(&mut client);
    let least = overdue(&mut client, since);
    server.restart();
    let mut client = server.connect();
    client.ask("DEHYDRATOR.POLL k COUNT 1");
    all_is_less_late_than(least, &server, "a restart");

    let replica = Server::start_with_port(&[]);
    replica.follow(&server);
    let mut other = replica.connect();
    until("it is there", || (other.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(()));
    let since = time(&mut other);
    let least = overdue(&mut other, since);
    drop(server);
    other.ask("REPLICAOF NO ONE");
    assert_eq!(other.ask("DEHYDRATOR.POLL k"), texts(&["x"]));
    all_is_less_late_than(least, &replica, "a promotion");
}
