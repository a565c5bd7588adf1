//! Memory has the alignment that the module needs, whatever the server's allocator guarantees: see
//! scripts/unaligned.sh.

use redis::{Connection, Value};

use harness::{Ask, Server, texts};

/// Pushes thousands of elements with this many TTLs, by MPUSH.
fn put_away(client: &mut Connection, key: &str, ttls: u64) {
    for first in (0..4000).step_by(1000) {
        let mut push = redis::cmd("DEHYDRATOR.MPUSH");
        push.arg(key);
        for number in first..first + 1000 {
            push.arg(600_000 + number % ttls).arg(format!("element-{number}")).arg(number);
        }
        let started: Vec<i64> = push.query(client).expect("all are pushed");
        assert_eq!(started, [1; 1000]);
    }
}

#[test]
fn thousands_of_elements_in_many_queues_with_leases_survive_a_restart() {
    let (mut server, mut client) = Server::with_client(&["--save", "3600 1000000"]);
    for (key, ttls) in [("few", 3), ("many", 900), ("all", 4000)] {
        put_away(&mut client, key, ttls);
        for number in 0..300 {
            client.ask(&format!("DEHYDRATOR.TOUCH {key} 0 {number}"));
        }
        let Value::Array(leased) =
            client.ask(&format!("DEHYDRATOR.POLL {key} COUNT 250 LEASE 600000 TOKEN 7"))
        else {
            panic!("an array")
        };
        assert_eq!(leased.len(), 250);
        assert_eq!(
            client.ask(&format!("DEHYDRATOR.SETTLE {key} 7 5")),
            Value::Array(vec![Value::Int(1)])
        );
        client.ask(&format!("COPY {key} {key}-copied"));
        assert_eq!(client.digest(key), client.digest(&format!("{key}-copied")));
    }
    let keys = ["few", "many", "all", "few-copied", "many-copied", "all-copied"];
    let before = keys.map(|key| client.digest(key));
    server.restart();
    let mut client = server.connect();
    assert_eq!(keys.map(|key| client.digest(key)), before);
    for key in keys {
        let due = texts(
            &(250..300)
                .map(|number| format!("element-{number}"))
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        );
        assert_eq!(client.ask(&format!("DEHYDRATOR.POLL {key}")), due, "{key}");
        assert_eq!(client.ask(&format!("DEHYDRATOR.LEN {key}")), Value::Int(3949), "{key}");
        assert_eq!(client.ask(&format!("DEL {key}")), Value::Int(1));
    }
}
