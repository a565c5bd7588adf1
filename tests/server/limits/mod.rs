//! LIMIT: LENGTH, HELD and RATE.

mod held;
mod kept;
mod length;
mod rate;

use std::collections::BTreeMap;

use redis::{Connection, Value};

use harness::{Server, cmd, until};

/// Returns the limits of a key, as INFO shows them: LENGTH, HELD, RATE, PER, REMEMBER.
fn limits(client: &mut Connection, key: &str) -> [u64; 5] {
    let names = ["length-limit", "held-limit", "rate-limit", "rate-per", "remember"];
    names.map(|name| match field(client, key, name) {
        Value::Int(number) => number as u64,
        other => panic!("{name}: {other:?}"),
    })
}

/// Returns a field of INFO of a key.
fn field(client: &mut Connection, key: &str, name: &str) -> Value {
    let map: BTreeMap<String, Value> =
        cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    map.get(name).unwrap_or_else(|| panic!("no {name} in {map:?}")).clone()
}

/// Waits for a few ticks, in which the server could do what it must not.
fn wait_for_ticks(server: &Server) {
    let ticks = || server.info("dehydrator", "dehydrator_ticks");
    let before = ticks();
    until("ticks went by", || (ticks() > before + 2).then_some(()));
}

/// Returns the ids in a reply of POLL with LEASE, or of MPOLL.
fn ids(reply: &Value) -> Vec<String> {
    let Value::Array(rows) = reply else { panic!("rows, and not {reply:?}") };
    let id = |row: &Value| match row {
        Value::Array(row) => redis::from_redis_value(row[0].clone()).expect("an id"),
        other => panic!("a row, and not {other:?}"),
    };
    rows.iter().map(id).collect()
}
