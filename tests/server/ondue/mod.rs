//! Delivery without a request.

mod asleep;
mod dead;
mod default;
mod delivery;
mod event;
mod ids;
mod journey;
mod list;
mod refusal;
mod restored;
mod stuck;

use redis::{Connection, Value};

use harness::{Server, cmd, text, until};

/// Returns the ids and elements in a stream, in order.
fn stream(client: &mut Connection, key: &str) -> Vec<(String, String)> {
    let entries: Vec<(String, Vec<String>)> =
        cmd(&format!("XRANGE {key} - +")).query(client).expect("a stream");
    let pair = |(_, fields): (String, Vec<String>)| {
        let [id, name, element, payload] = &fields[..] else { panic!("{fields:?}") };
        assert_eq!((id.as_str(), element.as_str()), ("id", "element"));
        (name.clone(), payload.clone())
    };
    entries.into_iter().map(pair).collect()
}

fn ids(client: &mut Connection, key: &str) -> Vec<String> {
    stream(client, key).into_iter().map(|(id, _)| id).collect()
}

/// Waits until this many elements are in a stream, and returns their ids.
fn arrived(client: &mut Connection, key: &str, count: usize) -> Vec<String> {
    until(&format!("{count} are in {key}"), || {
        let ids = ids(client, key);
        assert!(ids.len() <= count, "{} are in {key}: {ids:?}", ids.len());
        (ids.len() == count).then_some(ids)
    })
}

fn policy(client: &mut Connection, key: &str) -> String {
    let info: Vec<Value> = cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    let at = info.iter().position(|it| *it == text("policy")).expect("a policy");
    redis::from_redis_value(info[at + 1].clone()).expect("text")
}

fn field(server: &Server, name: &str) -> u64 {
    server.info("dehydrator", &format!("dehydrator_{name}"))
}
