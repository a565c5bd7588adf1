//! The counts of leased elements, of elements in back-off, and of redeliveries.

use std::collections::HashMap;

use redis::{Connection, Value};

use harness::{Ask, Server, cmd, until};

/// Returns how many are leased, given back, and given out, in all dehydrators and in one; and how many leases expired.
fn counts(client: &mut Connection, key: &str) -> ([u64; 3], u64) {
    let mut all = |field: &str| client.info("dehydrator", &format!("dehydrator_{field}"));
    let (of_all, run_out) =
        (["leased", "given_back", "given_out"].map(&mut all), all("redeliveries"));
    let info: HashMap<String, Value> =
        cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    let of_key = ["leased", "given-back", "given-out"].map(|field| {
        let Value::Int(number) = info[field] else { panic!("{field}") };
        u64::try_from(number).expect("not negative")
    });
    assert_eq!(of_all, of_key);
    (of_all, run_out)
}

fn taken(client: &mut Connection, count: usize, lease: u64) -> Vec<(String, String)> {
    until("this many are due", || {
        let due: Vec<String> =
            cmd(&format!("DEHYDRATOR.XPOLL k COUNT {count}")).query(client).expect("ids");
        (due.len() == count).then_some(())
    });
    let reply = client.ask(&format!("DEHYDRATOR.POLL k COUNT {count} LEASE {lease}"));
    let rows: Vec<(String, String, u64, String)> = redis::from_redis_value(reply).expect("rows");
    rows.into_iter().map(|(id, _, _, token)| (id, token)).collect()
}

#[test]
fn leased_and_given_back_elements_are_counted_separately() {
    for small in ["32", "0"] {
        let (_server, mut client) = Server::with_client(&[]);
        client.ask(&format!("CONFIG SET dehydrator.small-max-elements {small}"));
        assert_eq!(counts(&mut client, "k"), ([0, 0, 0], 0));
        for id in ["a", "b", "c", "d"] {
            client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id}"));
        }
        let held = taken(&mut client, 3, 600_000);
        assert_eq!(counts(&mut client, "k"), ([3, 0, 3], 0));
        // A retry that the worker requests, with a delay and without.
        for ((id, token), ms) in held.iter().zip([600_000, 0]) {
            client.ask(&format!("DEHYDRATOR.RELEASE k {ms} {token} {id}"));
        }
        assert_eq!(counts(&mut client, "k"), ([1, 2, 3], 0));
        let held = taken(&mut client, 2, 1);
        assert_eq!(held[1].0, "b");
        assert_eq!(counts(&mut client, "k"), ([3, 1, 4], 0), "it was asked for");
        // Their leases expire, and they were not delivered again since.
        let held = taken(&mut client, 2, 600_000);
        assert_eq!(counts(&mut client, "k"), ([3, 1, 4], 2));
        client.ask(&format!("DEHYDRATOR.RENEW k 1 {} {}", held[0].1, held[0].0));
        until("it is due", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
        client.ask("DEHYDRATOR.POLL k");
        assert_eq!(counts(&mut client, "k"), ([2, 1, 3], 3), "one that is taken for good, too");
        client.ask(&format!("DEHYDRATOR.SETTLE k {} {}", held[1].1, held[1].0));
        assert_eq!(counts(&mut client, "k"), ([1, 1, 2], 3));
        client.ask("COPY k other");
        client.ask("DEL k");
        assert_eq!(counts(&mut client, "other"), ([1, 1, 2], 3));
    }
}
