//! `dehydrator.wake-interval`: what comes due one by one is given out together.

use std::collections::HashMap;

use redis::Value;

use super::{all_is_in_time, late, time};
use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, texts, until};

/// Milliseconds between two wake-ups at least.
const INTERVAL: u64 = 100;

fn start() -> Server {
    // At the maximum interval, only ticks would give anything out before.
    let server = Server::start(&["--hz", "1", "--dynamic-hz", "no"]);
    server.connect().ask(&format!("CONFIG SET dehydrator.wake-interval {INTERVAL}"));
    server
}

#[test]
fn deliveries_that_come_due_one_by_one_are_made_together() {
    let server = start();
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE jobs STREAM due");
    let first = time(&mut client) / 1000 + 200;
    for id in 0..20 {
        client.ask(&format!("DEHYDRATOR.PUSH jobs 0 x {id} AT {}", first + 10 * id));
    }
    until("all are delivered", || (client.ask("XLEN due") == Value::Int(20)).then_some(()));
    let entries: Vec<(String, HashMap<String, String>)> =
        cmd("XRANGE due - +").query(&mut client).expect("entries");
    let moment = |id: &str| id.split('-').next().and_then(|it| it.parse::<u64>().ok());
    let moments: Vec<_> = entries.iter().filter_map(|(id, _)| moment(id)).collect();
    let batches = 1 + moments.windows(2).filter(|two| two[1] - two[0] > 4).count();
    // The elements come due over 190 ms, and a tick may fall among them.
    assert!(batches <= 5, "{batches} batches: {moments:?}");
    let ids = entries.iter().map(|(_, fields)| fields["id"].clone());
    assert!(ids.eq((0..20).map(|id| id.to_string())), "their order");
}

#[test]
fn a_client_is_woken_once_the_interval_since_the_last_one_is_over() {
    let server = start();
    let mut client = server.connect();
    let [first, second] =
        [0, 1].map(|_| Sleeper::start(&server, "DEHYDRATOR.POLL w COUNT 1 BLOCK 0"));
    let due = time(&mut client) / 1000 + 200;
    client.ask(&format!("DEHYDRATOR.PUSH w 0 x a AT {due}"));
    client.ask(&format!("DEHYDRATOR.PUSH w 0 y b AT {}", due + 10));
    assert_eq!(first.reply(), texts(&["x"]));
    assert_eq!(second.reply(), texts(&["y"]));
    assert!(late(&server, "max") >= 1000 * INTERVAL / 2, "{} us late", late(&server, "max"));
    // It is held back no longer than that.
    all_is_in_time(&server, "a wake-up that was held back");
    client.ask("CONFIG SET dehydrator.wake-interval 0");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL w COUNT 1 BLOCK 0");
    client.ask("DEHYDRATOR.PUSH w 1 z c");
    assert_eq!(sleeper.reply(), texts(&["z"]));
}
