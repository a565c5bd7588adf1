//! What goes wrong around a server, and inside the module.

use redis::Value;

use crate::harness::{Ask, Server, text, texts};

#[test]
fn a_panic_is_an_error_reply_and_a_line_in_the_log() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    for _ in 0..3 {
        let error = client.refused("DEHYDRATOR.DEBUG k PANIC");
        assert!(error.starts_with("ERR internal error"), "{error}");
        // Half a reply has been sent: it is closed, and the connection stays in step.
        assert_eq!(client.ask("DEHYDRATOR.DEBUG k PANIC-IN-REPLY"), texts(&["first"]));
        assert_eq!(client.ask("ECHO in-step"), text("in-step"));
    }
    assert_eq!(client.ask("DEHYDRATOR.LOOK k id"), text("element"));
    assert!(server.log().contains("a bug, please report it"), "{}", server.log());
}

#[test]
fn a_release_has_no_hooks() {
    let server = Server::start(&[]);
    let error = server.connect().refused("DEHYDRATOR.DEBUG k PANIC");
    assert!(error.contains("unknown command"), "{error}");
}

#[test]
fn a_clock_that_steps_back_and_forth_changes_when_but_not_the_order() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    let hour = 3_600_000_i64;
    let mut expected = Vec::new();
    for (number, offset) in [0, -hour, hour, -2 * hour, 30, 2 * hour, 0].into_iter().enumerate() {
        client.ask(&format!("DEHYDRATOR.DEBUG k CLOCK {offset}"));
        for ttl in [5 * hour, 4 * hour, 5 * hour] {
            let id = format!("{number}-{}", expected.len());
            client.ask(&format!("DEHYDRATOR.PUSH k {ttl} {id} {id}"));
            expected.push((offset + ttl, id));
        }
    }
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&[]), "nothing is due for two hours");
    client.ask(&format!("DEHYDRATOR.DEBUG k CLOCK {}", hour));
    let Value::Int(next) = client.ask("DEHYDRATOR.TTN k") else { panic!("a number") };
    assert!((hour - 60_000..=hour).contains(&next), "{next}: the first is due at two hours");
    let digest = client.digest("k");
    client.ask("DEBUG RELOAD");
    assert_eq!(client.digest("k"), digest);

    // A stable sort: the sum of offset and ttl differs by seconds at least, or is equal in push order
    // but for the milliseconds that the test itself takes.
    expected.sort_by_key(|(deadline, _)| *deadline);
    client.ask(&format!("DEHYDRATOR.DEBUG k CLOCK {}", 10 * hour));
    let Value::Array(polled) = client.ask("DEHYDRATOR.POLL k") else { panic!("an array") };
    let expected: Vec<_> = expected.iter().map(|(_, id)| text(id)).collect();
    assert_eq!(polled, expected);
}
