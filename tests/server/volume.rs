//! Many elements: each exactly once, in order.

use std::collections::HashSet;

use redis::Value;

use harness::{Ask, Server, until};

const COUNT: usize = 200_000;
/// TTLs in milliseconds, short enough that everything is due soon.
const TTLS: [u64; 8] = [1, 2, 5, 10, 20, 50, 100, 200];

#[test]
fn two_hundred_thousand_elements_a_third_pulled_the_rest_polled_each_once_in_order() {
    let (_server, mut client) = Server::with_client(&[]);
    let now: (u64, u64) = redis::cmd("TIME").query(&mut client).expect("TIME");
    let base = now.0 * 1000;

    // Absolute deadlines, so that the order is known: by deadline, ties in push order.
    let mut expected: Vec<(u64, usize)> = Vec::with_capacity(COUNT);
    for chunk in (0..COUNT).collect::<Vec<_>>().chunks(20_000) {
        let mut pipe = redis::pipe();
        for number in chunk {
            let ttl = TTLS[number * 7 % TTLS.len()];
            let at = base + *number as u64 / 100 + ttl;
            expected.push((at, *number));
            let element = format!("element-{number}");
            pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(element).arg(format!("id-{number}"));
            pipe.arg("AT").arg(at);
        }
        pipe.exec(&mut client).expect("pushes");
    }

    let mut pulled = HashSet::new();
    for chunk in (0..COUNT).step_by(3).collect::<Vec<_>>().chunks(20_000) {
        let mut pipe = redis::pipe();
        for number in chunk {
            pipe.cmd("DEHYDRATOR.PULL").arg("k").arg(format!("id-{number}"));
        }
        let replies: Vec<String> = pipe.query(&mut client).expect("pulls");
        for (number, reply) in chunk.iter().zip(replies) {
            assert_eq!(reply, format!("element-{number}"));
            assert!(pulled.insert(*number));
        }
    }
    expected.retain(|(_, number)| !pulled.contains(number));
    expected.sort_unstable();
    let expected: Vec<_> = expected.iter().map(|(_, number)| format!("element-{number}")).collect();

    let mut polled: Vec<String> = Vec::new();
    until("all is polled", || {
        let batch: Vec<String> = redis::cmd("DEHYDRATOR.POLL").arg("k").query(&mut client).ok()?;
        polled.extend(batch);
        (polled.len() >= expected.len()).then_some(())
    });
    assert_eq!(polled.len(), expected.len());
    let wrong = polled.iter().zip(&expected).position(|(polled, expected)| polled != expected);
    assert_eq!(wrong, None, "the first that is out of order");
    assert!(!client.exists("k"));
}

#[test]
fn as_many_ttls_as_elements() {
    let (_server, mut client) = Server::with_client(&[]);
    let count = 50_000_u64;
    for chunk in (0..count).collect::<Vec<_>>().chunks(10_000) {
        let mut pipe = redis::pipe();
        for number in chunk {
            // 7919 is prime: every TTL once, in no order, with deadlines in the order of TTLs.
            let ttl = number * 7919 % count;
            pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(ttl).arg(number).arg("AT").arg(ttl);
        }
        pipe.exec(&mut client).expect("pushes");
    }
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Int(0));
    let polled: Vec<u64> = redis::cmd("DEHYDRATOR.POLL").arg("k").query(&mut client).expect("all");
    assert_eq!(polled, (0..count).collect::<Vec<_>>());
}
