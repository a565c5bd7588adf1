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

use std::collections::HashMap;

use redis::{Connection, Value};

use harness::{Server, cmd, until};

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

/// Returns the words of ONDUE that INFO shows of a key, and `UNCONFIRMED` if nobody has confirmed them.
fn policy(client: &mut Connection, key: &str) -> String {
    let mut info: HashMap<String, Value> =
        cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    let fields: HashMap<String, Option<String>> =
        redis::from_redis_value(info.remove("policy").expect("a policy")).expect("a map");
    assert_eq!(fields.len(), 8, "{fields:?}");
    let of = |name: &str| fields[name].clone();
    let mut words = vec![of("action")];
    if fields["deliveries"].as_deref() != Some("0") {
        words.extend([Some("DELIVERIES".to_owned()), of("deliveries"), of("dead-letters")]);
    }
    words.push(of("dest"));
    words.push(of("end").filter(|end| end == "LEFT"));
    if fields["maxlen"].as_deref() != Some("0") {
        let is_exact = fields["approximate"].as_deref() == Some("0");
        let how = if is_exact { "MAXLEN =" } else { "MAXLEN ~" };
        words.extend([Some(how.to_owned()), of("maxlen")]);
    }
    words.push((of("confirmed").as_deref() != Some("1")).then(|| "UNCONFIRMED".to_owned()));
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn field(server: &Server, name: &str) -> u64 {
    server.info("dehydrator", &format!("dehydrator_{name}"))
}
