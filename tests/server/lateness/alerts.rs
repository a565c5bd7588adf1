//! The alerts of docs/operations.md fire when they should, and not otherwise. The test reads the conditions from
//! grafana/alerts.yml. Their minutes are seconds here.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use redis::{Connection, Value};

use super::time;
use harness::{Ask, Server, cmd, field_of, until};

/// An alert: it fires while a field of INFO, or its growth, exceeds a number.
struct Alert {
    name: String,
    field: String,
    of: Of,
    threshold: f64,
}

enum Of {
    Value,
    /// Growth per second.
    Rate,
    Increase,
}

fn alerts() -> Vec<Alert> {
    let yaml = fs::read_to_string("grafana/alerts.yml").expect("rules");
    let mut lines = yaml.lines().map(str::trim);
    let mut alerts = Vec::new();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("- alert: ") else { continue };
        let name = name.split(' ').next().expect("a name").to_owned();
        let expr = lines.next().and_then(|line| line.strip_prefix("expr: ")).expect("a condition");
        // The server itself does not report whether it is up.
        let Some((what, threshold)) = expr.split_once(" > ") else { continue };
        let (of, range) = match what.split_once('(') {
            None => (Of::Value, what),
            Some(("rate", range)) => (Of::Rate, range),
            Some(("increase", range)) => (Of::Increase, range),
            Some(other) => panic!("{other:?}"),
        };
        let field = range.strip_prefix("redis_script_values{key=\"").expect("a metric");
        let (field, rest) = field.split_once("\"}").expect("a metric");
        assert!(matches!(rest, "" | "[5m])" | "[10m])"), "{expr}");
        let threshold: f64 = threshold.parse().expect("a number");
        let threshold = if field.ends_with("_s") { threshold / 60.0 } else { threshold };
        alerts.push(Alert { name, field: field.to_owned(), of, threshold });
    }
    alerts
}

/// Returns the alerts that fire after a second of a case, and for half a second more.
fn fired(server: &Server) -> BTreeSet<String> {
    let mut client = server.connect();
    let mut look = || {
        let info: String = cmd("INFO dehydrator").query(&mut client).expect("text");
        (time(&mut client) as f64 / 1e6, info)
    };
    let alerts = alerts();
    let (began, first) = look();
    let mut firing: Option<BTreeSet<String>> = None;
    let mut last = began;
    let mut waits = server.connect();
    while last < began + 3.5 {
        waits.ask("DEHYDRATOR.POLL nothing-is-here BLOCK 50");
        let (now, info) = look();
        if now < began + 3.0 {
            continue;
        }
        last = now;
        let fires = |alert: &&Alert| {
            let value = |info: &str| field_of(info, &alert.field) as f64;
            let number = match alert.of {
                Of::Value => value(&info),
                Of::Rate => (value(&info) - value(&first)) / (now - began),
                Of::Increase => value(&info) - value(&first),
            };
            number > alert.threshold
        };
        let now: BTreeSet<_> = alerts.iter().filter(fires).map(|it| it.name.clone()).collect();
        firing = Some(firing.map_or(now.clone(), |before| &before & &now));
    }
    firing.expect("it was looked")
}

/// A background thread that repeats an action with ascending numbers, until it is dropped.
struct Again(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Again {
    fn start(server: &Server, mut what: impl FnMut(&mut Connection, u64) + Send + 'static) -> Self {
        let mut client = server.connect();
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            for number in 0.. {
                if until.load(Ordering::Relaxed) {
                    return;
                }
                what(&mut client, number);
            }
        });
        Self(ends, Some(thread))
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let ended = self.1.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

/// Pushes an element from time to time, with this ttl in milliseconds.
fn pushes(server: &Server, key: &'static str, ttl: u64) -> Again {
    Again::start(server, move |client, number| {
        client.ask(&format!("DEHYDRATOR.PUSH {key} {ttl} x {number}"));
        client.ask("DEHYDRATOR.POLL nothing-is-here BLOCK 30");
    })
}

/// Returns the id and the token of a delivered element.
fn taken(client: &mut Connection, key: &str, lease: u64) -> Option<(String, String)> {
    let reply = client.ask(&format!("DEHYDRATOR.POLL {key} COUNT 1 BLOCK 50 LEASE {lease}"));
    let Value::Array(rows) = reply else { return None };
    let Value::Array(row) = rows.into_iter().next()? else { panic!("a row") };
    let text = |at: usize| redis::from_redis_value(row[at].clone()).expect("text");
    Some((text(0), text(3)))
}

fn works(server: &Server, key: &'static str) -> Again {
    Again::start(server, move |client, _| {
        if let Some((id, token)) = taken(client, key, 60_000) {
            client.ask(&format!("DEHYDRATOR.SETTLE {key} {token} {id}"));
        }
    })
}

fn backlog(client: &mut Connection, key: &str) {
    for id in 0..200 {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 0 x {id}"));
    }
}

/// The cases: the data, the activity, and the alerts that fire.
type Case = (&'static str, fn(&Server, &mut Connection) -> Vec<Again>, &'static [&'static str]);

const CASES: [Case; 11] = [
    (
        "a key with a backlog and no polls",
        |_, client| {
            backlog(client, "k");
            vec![]
        },
        &["Backlog"],
    ),
    (
        "workers on one key, a backlog in another",
        |server, client| {
            backlog(client, "other");
            vec![pushes(server, "k", 5), works(server, "k"), works(server, "k")]
        },
        &["Backlog"],
    ),
    (
        "workers who have nothing to do, and elements that are not due",
        |server, client| {
            client.ask("DEHYDRATOR.PUSH k 600000 x id");
            vec![works(server, "k")]
        },
        &[],
    ),
    (
        "elements that are not due, and no clients",
        |server, _| vec![pushes(server, "k", 600_000)],
        &[],
    ),
    ("ordinary work", |server, _| vec![pushes(server, "k", 5), works(server, "k")], &[]),
    (
        "ONDUE STREAM alone",
        |server, client| {
            client.ask("DEHYDRATOR.ONDUE k STREAM s");
            vec![pushes(server, "k", 5)]
        },
        &[],
    ),
    (
        "ordinary back-off",
        |server, _| {
            let retries = Again::start(server, |client, number| {
                if let Some((id, token)) = taken(client, "k", 60_000) {
                    let verb = if number % 4 == 0 { "SETTLE k" } else { "RELEASE k 40" };
                    client.ask(&format!("DEHYDRATOR.{verb} {token} {id}"));
                }
            });
            vec![pushes(server, "k", 5), retries]
        },
        &[],
    ),
    (
        "workers die",
        |server, client| {
            for id in 0..3 {
                client.ask(&format!("DEHYDRATOR.PUSH k 5 x {id}"));
            }
            let dies = |server| Again::start(server, |client, _| _ = taken(client, "k", 50));
            vec![dies(server), dies(server)]
        },
        &["WorkersDie"],
    ),
    (
        "a stuck stream",
        |server, client| {
            client.ask("DEHYDRATOR.ONDUE k STREAM s");
            client.ask("SET s text");
            vec![pushes(server, "k", 5)]
        },
        &["Backlog", "DeliveriesFail"],
    ),
    (
        "dead letters that cannot go, and work that goes on",
        |server, client| {
            client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s");
            client.ask("SET s text");
            client.ask("DEHYDRATOR.EFFECT k P5@5,delivered=1 x dead");
            vec![pushes(server, "k", 5), works(server, "k")]
        },
        &["DeliveriesFail"],
    ),
    (
        "a backlog that is paused",
        |_, client| {
            backlog(client, "k");
            client.ask("DEHYDRATOR.PAUSE k");
            vec![]
        },
        &["PausedForLong"],
    ),
];

#[test]
fn each_alert_fires_when_it_should() {
    let names: BTreeSet<_> = alerts().into_iter().map(|alert| alert.name).collect();
    let expected =
        ["Backlog", "DeliveriesFail", "Late", "WorkersDie", "DeadLetters", "PausedForLong"];
    assert_eq!(names, expected.map(str::to_owned).into());
    let page = fs::read_to_string("docs/operations.md").expect("a page");
    let yaml = fs::read_to_string("grafana/alerts.yml").expect("rules");
    let mut severities = 0;
    for rule in yaml.split("- alert: ").skip(1) {
        let name = rule.lines().next().expect("a name");
        let severity = rule.split("severity: ").nth(1).and_then(|it| it.split(' ').next());
        let row = format!("\n| {name} | {} |", severity.expect("a severity"));
        assert!(page.contains(&row), "the page lacks {row}");
        severities += 1;
    }
    assert_eq!(severities, expected.len() + 1, "Down is one more");
    // A few at a time: if all run at once, a busy machine makes some late.
    for cases in CASES.chunks(3) {
        thread::scope(|scope| {
            for (what, begin, expected) in cases {
                scope.spawn(move || {
                    let (server, mut client) = Server::with_client(&[]);
                    let others = begin(&server, &mut client);
                    let expected: BTreeSet<_> =
                        expected.iter().map(|name| (*name).to_owned()).collect();
                    // An alert condition that holds for ten minutes is an alert; a busy machine for a while is not.
                    until(&format!("it is as it should be: {what}"), || {
                        (fired(&server) == expected).then_some(())
                    });
                    drop(others);
                });
            }
        });
    }
}

/// A late poll or a dead letter counts when it happens.
#[test]
fn infrequent_polls_and_dead_letters_fire() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE dead HOLD DELIVERIES 1 DROP");
    let _pushes = pushes(&server, "k", 0);
    let _polls = Again::start(&server, |client, _| {
        client.ask("DEHYDRATOR.POLL nothing-is-here BLOCK 600");
        client.ask("DEHYDRATOR.POLL k");
    });
    let _dies = Again::start(&server, |client, number| {
        client.ask(&format!("DEHYDRATOR.EFFECT dead P5@5,delivered=1 x {number}"));
        client.ask("DEHYDRATOR.POLL nothing-is-here BLOCK 50");
    });
    let fired = fired(&server);
    assert_eq!(fired, ["Late".to_owned(), "DeadLetters".to_owned()].into());
}
