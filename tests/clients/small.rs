//! Statements of the page outside of its tables.

use std::process::Command;
use std::time::Duration;

use crate::page;
use crate::probe::{KEY, Library, SINGLES, Session};
use crate::proxy::Event;
use crate::tables::{self, all};
use harness::{Ask, until};

/// Long enough for any reply that comes at all.
const PATIENCE: Duration = Duration::from_secs(120);

/// Long enough for a reply that should not come. On a slow machine, the test can only miss a failure.
const SHORT: Duration = Duration::from_secs(1);

fn called(name: &str) -> &'static Library {
    SINGLES.iter().find(|it| it.name == name).expect("a library")
}

/// Returns the result of a command.
fn say(session: &mut Session, line: &str) -> Result<String, String> {
    session.probe.say(line);
    session.probe.outcome(PATIENCE).expect("an outcome").reply
}

#[test]
fn ioredis_adds_no_prefix_to_the_key_of_call() {
    for name in ["ioredis", "iovalkey"] {
        let mut session = Session::start(called(name), &["prefix=p:"]);
        say(&mut session, "DEHYDRATOR.PUSH k 100000 element id").expect("OK");
        let mut client = session.server.connect();
        assert!(client.exists("k") && !client.exists("p:k"), "{name}");
        // It does so for keys that it recognizes as keys.
        say(&mut session, "set s value").expect("OK");
        assert!(client.exists("p:s"), "{name}");
    }
}

#[test]
fn node_redis_refuses_numbers() {
    let push = "DEHYDRATOR.PUSH k 100000 element id";
    let refused = say(&mut Session::start(called("node-redis"), &["numbers=yes"]), push);
    assert!(refused.as_ref().is_err_and(|it| it.contains("must be of type")), "{refused:?}");
    say(&mut Session::start(called("node-redis"), &[]), push).expect("OK");
}

fn is_map(info: &str) -> bool {
    // Glide for Node shows a map as a list of pairs.
    info.contains("{ key: 'length'") || info.contains("map[") || info.contains('{')
}

#[test]
fn nil_and_empty_differ_and_info_is_a_map_where_the_page_states_it() {
    let page = page::section("## Small things");
    let (_, names) = page.split_once("RESP3, which ").expect("it is said");
    let (names, _) = names.split_once(" speak by default").expect("it is said");
    let names = names.split_whitespace().collect::<Vec<_>>().join(" ").replace(" and ", ", ");
    let names: Vec<_> = names.split(", ").map(str::to_owned).collect();
    assert!(names.len() > 2, "{names:?}");
    let names: &'static [String] = names.leak();
    all(SINGLES, tables::singles(), |library, line| {
        let mut session = Session::start(library, &[]);
        line(&session.probe.version);
        shows_nothing(library, &mut session)?;
        say(&mut session, "DEHYDRATOR.PUSH k 100000 element id").expect("OK");
        let info = say(&mut session, "DEHYDRATOR.INFO k").expect("a reply");
        let full = format!("{} {}", library.name, session.probe.version);
        let is_named = names.iter().any(|it| full.starts_with(it));
        if is_map(&info) == is_named { Ok(()) } else { Err(format!("INFO is {info}")) }
    });
}

#[test]
fn info_is_a_map_in_resp3_and_an_array_in_resp2() {
    for name in ["redis-py", "node-redis", "redis-rs, async", "fred"] {
        for (protocol, expected) in [("protocol=2", false), ("protocol=3", true)] {
            let mut session = Session::start(called(name), &[protocol]);
            say(&mut session, "DEHYDRATOR.PUSH k 100000 element id").expect("OK");
            let info = say(&mut session, "DEHYDRATOR.INFO k").expect("a reply");
            let is_map = is_map(&info) || info.to_lowercase().starts_with("map");
            assert_eq!(is_map, expected, "{name} {protocol}: {info}");
        }
    }
}

/// Checks how a library shows nil and an empty array.
fn shows_nothing(library: &Library, session: &mut Session) -> Result<(), String> {
    let nil = say(session, "DEHYDRATOR.MPOLL 1 k BLOCK 1").expect("a reply");
    let empty = say(session, "DEHYDRATOR.POLL k BLOCK 1").expect("a reply");
    // phpredis does not distinguish them.
    let is_nil = match library.name {
        "phpredis" => nil == "[]",
        _ => ["None", "null", "nil", "Null", "undef"].contains(&nil.as_str()),
    };
    let is_empty = ["[]", "Array([])"].contains(&empty.as_str());
    if is_nil && is_empty { Ok(()) } else { Err(format!("it shows {nil} and {empty}")) }
}

#[test]
fn a_blocked_poll_delays_later_commands() {
    for name in ["ioredis", "node-redis", "valkey-glide for Node"] {
        let mut session = Session::start(called(name), &["parallel=yes", "timeout=100"]);
        session.probe.say(&format!("DEHYDRATOR.POLL {KEY} BLOCK 0"));
        until("it is blocked", || {
            (session.server.info("clients", "blocked_clients") == 1).then_some(())
        });
        session.probe.say("DEHYDRATOR.LEN other");
        assert!(session.probe.outcome(SHORT).is_none(), "{name}");
        session.server.connect().ask(&format!("DEHYDRATOR.PUSH {KEY} 0 element id"));
        for _ in 0..2 {
            session.probe.outcome(PATIENCE).expect("both come").reply.expect("a reply");
        }
    }
}

#[test]
fn a_command_that_ioredis_does_not_resend_with_that_setting_never_settles() {
    for name in ["ioredis", "iovalkey"] {
        let settings = ["resend=unfulfilled", "parallel=yes"];
        let mut session = Session::start(called(name), &settings);
        session.proxy.cut_replies();
        session.probe.say(&format!("DEHYDRATOR.GIDPUSH {KEY} 100000 element"));
        until("it is sent", || (session.proxy.count(Event::Sent) == 1).then_some(()));
        // Later commands get their replies, on another connection.
        until("it has connected again", || {
            session.probe.say("DEHYDRATOR.LEN other");
            session.probe.outcome(SHORT).filter(|it| it.reply.as_deref() == Ok("0")).map(|_| ())
        });
        assert!(session.probe.outcome(SHORT).is_none(), "{name}");
        assert_eq!(session.proxy.count(Event::Sent), 1, "{name}");
    }
}

#[test]
fn ioredis_does_not_know_that_poll_blocks() {
    let mut session = Session::start(called("ioredis"), &["blocking=0.2"]);
    session.probe.say(&format!("DEHYDRATOR.POLL {KEY} BLOCK 0"));
    assert!(session.probe.outcome(2 * SHORT).is_none());
    session.server.connect().ask(&format!("DEHYDRATOR.PUSH {KEY} 0 element id"));
    session.probe.outcome(PATIENCE).expect("it comes").reply.expect("a reply");
    assert_eq!(session.proxy.count(Event::Sent), 1);
}

#[test]
fn php_waits_for_a_minute_by_default() {
    for php in ["php", "target/clients/bin/php-8"] {
        let tell = ["-n", "-r", "echo ini_get('default_socket_timeout');"];
        let output = Command::new(php).args(tell).output().expect("PHP");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "60", "{php}");
    }
}
