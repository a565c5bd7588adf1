//! The behaviour of a library, in the words of docs/clients.md.

use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::probe::{KEY, Library, Session};
use crate::proxy::Event;
use harness::{Ask, until};

/// A wait longer than this counts as forever.
const LONG: Duration = Duration::from_secs(8);

/// Retries more frequent than this count as endless.
const MANY: usize = 20;

/// A read timeout that a busy machine does not reach while it connects.
const TIMEOUT: &str = "timeout=1.5";

/// PHP's `default_socket_timeout` for the probes, in seconds; the default is a minute.
pub const PHP_TIMEOUT: f64 = 3.0;

/// The maximum time for a library's retries. Only a library that fails waits that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection that is open for longer after a timeout counts as kept.
const HANGS_UP: Duration = Duration::from_secs(5);

fn poll(block: u64) -> String {
    format!("DEHYDRATOR.POLL {KEY} BLOCK {block}")
}

/// Returns the number of elements in the key, which no client has taken.
fn length(session: &Session) -> i64 {
    let Value::Int(length) = session.server.connect().ask(&format!("DEHYDRATOR.LEN {KEY}")) else {
        panic!("a length")
    };
    length
}

/// Returns the server's time in milliseconds since the epoch.
fn time(client: &mut Connection) -> u64 {
    let (seconds, microseconds): (u64, u64) = redis::cmd("TIME").query(client).expect("the time");
    seconds * 1000 + microseconds / 1000
}

/// Returns whether there is a result within this time.
fn within(time: Duration, mut ask: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !ask() {
        if started.elapsed() > time {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}

fn times(sent: usize) -> String {
    match sent - 1 {
        0 => "no".into(),
        1 => "once".into(),
        more => format!("{more} times"),
    }
}

/// Measures how long a POLL waits for its reply before the library gives up, in seconds, with the library's default.
/// `None`: it keeps waiting, and gets its element.
pub fn reads_for(library: &Library) -> (String, Option<f64>) {
    let mut session = Session::start(library, &[]);
    session.probe.say(&poll(0));
    until("it is sent", || (session.proxy.count(Event::Sent) > 0).then_some(()));
    let sent = session.proxy.seen()[0].0;
    while sent.elapsed() < LONG {
        let next = session.proxy.seen().get(1).map(|(at, _)| *at);
        let gave_up = next.or_else(|| {
            let outcome = session.probe.outcome(Duration::from_millis(5))?;
            assert!(outcome.reply.is_err(), "{}: {outcome:?}", library.name);
            Some(outcome.at)
        });
        if let Some(at) = gave_up {
            return (session.probe.version.clone(), Some((at - sent).as_secs_f64()));
        }
    }
    session.server.connect().ask(&format!("DEHYDRATOR.PUSH {KEY} 0 element id"));
    let outcome = session.probe.outcome(PATIENCE).expect("the element comes");
    assert!(outcome.reply.as_ref().is_ok_and(|it| it.contains("element")), "{outcome:?}");
    (session.probe.version.clone(), None)
}

/// Measures what happens if the reply does not come in time. The library's version comes first, as in all of these.
pub fn at_the_timeout(library: &Library) -> (String, String) {
    let mut session = Session::start(library, &[TIMEOUT]);
    connect(&mut session);
    let found = give_up(library, &mut session);
    (session.probe.version.clone(), found)
}

/// Measures what happens if a cluster client gets no reply in time. What it does next is left out: here the cluster is
/// one node.
pub fn in_cluster_at_the_timeout(library: &Library) -> (String, String) {
    let mut session = Session::start(library, &[TIMEOUT]);
    connect(&mut session);
    session.probe.say(&poll(0));
    let mut outcome = None;
    within(PATIENCE, || {
        outcome = session.probe.outcome(Duration::from_millis(5));
        // Some resend on the same connection.
        let sent = session.proxy.count(Event::Sent);
        outcome.is_some() || session.proxy.count(Event::Closed) > 0 || sent >= 3
    });
    let closes = within(HANGS_UP, || session.proxy.count(Event::Closed) > 0);
    let found = if closes { "closes".into() } else { keeps_connection(library, &mut session) };
    (session.probe.version.clone(), found)
}

/// Waits until the probe has connected, however long a busy machine takes.
fn connect(session: &mut Session) {
    until("it is connected", || {
        session.probe.say("DEHYDRATOR.LEN other");
        session.probe.outcome(PATIENCE).expect("a reply").reply.ok()
    });
}

fn give_up(library: &Library, session: &mut Session) -> String {
    session.probe.say(&poll(0));
    let mut outcome = None;
    within(PATIENCE, || {
        outcome = session.probe.outcome(Duration::from_millis(5));
        outcome.is_some() || session.proxy.count(Event::Sent) > MANY
    });
    let mut client = session.server.connect();
    if outcome.is_none() {
        assert!(session.proxy.count(Event::Closed) >= MANY, "{library:?} has no timeout");
        client.ask(&format!("DEHYDRATOR.PUSH {KEY} 0 element id"));
        let outcome = session.probe.outcome(PATIENCE).expect("the element comes");
        assert!(outcome.reply.as_ref().is_ok_and(|it| it.contains("element")), "{outcome:?}");
        return "resends without end".into();
    }
    let sent = session.proxy.count(Event::Sent);
    if within(HANGS_UP, || session.proxy.count(Event::Closed) == sent) {
        // No blocked client is left that would take anything.
        until("it has hung up", || {
            (session.server.info("clients", "blocked_clients") == 0).then_some(())
        });
        client.ask(&format!("DEHYDRATOR.PUSH {KEY} 0 element id"));
        assert_eq!(length(session), 1, "{library:?}");
        // The first command afterwards may fail, because of data left on the connection.
        let connects_again = (0..3).any(|_| {
            session.probe.say(&format!("DEHYDRATOR.POLL {KEY}"));
            let next = session.probe.outcome(PATIENCE).expect("a reply");
            next.reply.is_ok()
        });
        return match (sent, connects_again) {
            (1, true) => "closes".into(),
            (1, false) => "closes for good".into(),
            _ => format!("resends {}", times(sent)),
        };
    }
    keeps_connection(library, session)
}

/// After a timeout: measures the fate of three elements, and of the next reply.
fn keeps_connection(library: &Library, session: &mut Session) -> String {
    // This many commands have nobody to receive their replies.
    while session.proxy.count(Event::Sent) < 3 {
        session.probe.say(&poll(0));
        let outcome = session.probe.outcome(PATIENCE);
        assert!(outcome.is_some_and(|it| it.reply.is_err()), "{library:?} has no timeout");
    }
    let mut client = session.server.connect();
    for n in 0..3 {
        client.ask(&format!("DEHYDRATOR.PUSH {KEY} 0 element{n} id{n}"));
    }
    // A client blocked in the server is served within a pass or two of its event loop.
    let ticks = || session.server.info("dehydrator", "dehydrator_ticks");
    let pushed = ticks();
    until("it was delivered, or will not be", || {
        (length(session) == 0 || ticks() > pushed + 5).then_some(())
    });
    let lost = 3 - length(session);
    session.probe.say("DEHYDRATOR.LEN other");
    let next = session.probe.outcome(PATIENCE).expect("a reply");
    let mixes_up = next.reply.is_ok_and(|it| it.contains("element"));
    let also = if mixes_up { "mixes up, " } else { "" };
    format!("{also}drops {lost} of 3 replies")
}

/// Counts how often a command is resent if its replies never arrive, because the connection is cut.
pub fn sends_again(library: &Library, settings: &[&str]) -> (String, String) {
    let mut session = Session::start(library, settings);
    session.proxy.cut_replies();
    session.probe.say(&format!("DEHYDRATOR.GIDPUSH {KEY} 100000 element"));
    let mut outcome = None;
    within(PATIENCE, || {
        outcome = session.probe.outcome(Duration::from_millis(5));
        outcome.is_some() || session.proxy.count(Event::Sent) > MANY
    });
    let sent = session.proxy.count(Event::Sent);
    // The server has executed it as often.
    assert!((sent..sent + 2).contains(&(length(&session) as usize)), "{library:?}");
    let found = match outcome {
        None if sent > MANY => "without end".into(),
        None => "never settles".into(),
        Some(outcome) => {
            assert!(outcome.reply.is_err(), "{library:?}: {outcome:?}");
            times(sent)
        }
    };
    (session.probe.version.clone(), found)
}

/// With a timeout longer than the block, a block can end with nothing, and a late element is not lost.
pub fn waits_for_all_of_a_block(library: &Library) -> String {
    let mut session = Session::start(library, &["timeout=11"]);
    session.probe.say(&poll(1));
    let nothing = session.probe.outcome(PATIENCE).expect("it ends");
    assert!(nothing.reply.is_ok(), "{library:?}: {nothing:?}");
    session.probe.say(&poll(10_000));
    until("it is sent", || (session.proxy.count(Event::Sent) == 2).then_some(()));
    // Longer than the longest default that is measured, by the server's clock.
    let mut client = session.server.connect();
    let sent = time(&mut client);
    until("it has waited", || (time(&mut client) > sent + 5500).then_some(()));
    session.server.connect().ask(&format!("DEHYDRATOR.PUSH {KEY} 0 element id"));
    let element = session.probe.outcome(PATIENCE).expect("it comes");
    assert!(
        element.reply.as_ref().is_ok_and(|it| it.contains("element")),
        "{library:?}: {element:?}"
    );
    assert_eq!(session.proxy.count(Event::Sent), 2, "{library:?}");
    session.probe.version.clone()
}
