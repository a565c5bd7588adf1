//! Failures around a server, and inside the module.

use redis::{Connection, Value};

use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, text, texts, until};

#[test]
fn a_panic_is_an_error_reply_and_a_line_in_the_log() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    for _ in 0..3 {
        let error = client.refused("DEHYDRATOR.DEBUG k PANIC");
        assert!(error.starts_with("ERR internal error"), "{error}");
        // Half a reply was sent: it is closed, and the connection stays in sync.
        assert_eq!(client.ask("DEHYDRATOR.DEBUG k PANIC-IN-REPLY"), texts(&["first"]));
        assert_eq!(client.ask("ECHO in-step"), text("in-step"));
    }
    assert_eq!(client.ask("DEHYDRATOR.LOOK k id"), text("element"));
    assert!(server.log().contains("a bug, please report it"), "{}", server.log());
}

#[test]
fn an_open_key_is_not_opened_twice_nor_while_others_are_called() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    for word in ["OPEN-TWICE", "CALL-OUT"] {
        let error = client.refused(&format!("DEHYDRATOR.DEBUG k {word}"));
        assert!(error.starts_with("ERR internal error"), "{word}: {error}");
        // It is closed again.
        assert_eq!(client.ask("DEHYDRATOR.PULL k id"), text("element"));
        client.ask("DEHYDRATOR.PUSH k 600000 element id");
    }
    assert_eq!(server.log().matches("a key's value is held").count(), 2, "{}", server.log());
}

/// Returns a server that loses nothing it has acknowledged.
fn start_durable() -> Server {
    Server::start_debug(&["--appendonly", "yes", "--appendfsync", "always", "--hz", "100"])
}

/// Makes the server panic at a place that `act` reaches, so that it exits with a report. Checks its data after a
/// restart.
fn ends_at(server: &mut Server, place: &str, act: impl FnOnce(&mut Connection)) {
    let mut client = server.connect();
    let before = client.ask("DEBUG DIGEST");
    let reports = server.log().matches("ASSERTION FAILED").count();
    client.ask(&format!("DEHYDRATOR.DEBUG k PANIC-AT {place}"));
    act(&mut client);
    server.wait_for_end();
    let log = server.log();
    let panic = format!("trap at {place}");
    assert!(log.contains("a bug, please report it") && log.contains(&panic), "{place}: {log}");
    assert_eq!(log.matches("ASSERTION FAILED").count(), reports + 1, "{place}: {log}");
    assert!(log.contains("dehydrator_elements:"), "the report has our section of INFO: {log}");
    server.relaunch();
    assert_eq!(server.connect().ask("DEBUG DIGEST"), before, "{place}");
}

/// Sends a command that gets no reply, because the server exits.
fn sends(line: &str) -> impl FnOnce(&mut Connection) {
    move |client| {
        let reply = cmd(line).query::<Value>(client);
        assert!(reply.as_ref().is_err_and(|error| error.is_io_error()), "{line}: {reply:?}");
    }
}

#[test]
fn a_panic_between_a_change_and_its_replication_ends_the_server_and_undoes_the_change() {
    let mut server = start_durable();
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element a");
    client.ask("DEHYDRATOR.PUSH k 600000 element b AT 10");
    for (place, line) in [
        ("replicate", "DEHYDRATOR.PUSH k 600000 element c"),
        ("changed", "DEHYDRATOR.PUSH k 600000 element c"),
        ("replicate", "DEHYDRATOR.PUSH new 600000 element c"),
        ("changed", "DEHYDRATOR.PUSH new 600000 element c"),
        ("replicate", "DEHYDRATOR.POLL k"),
        ("changed", "DEHYDRATOR.POLL k"),
        ("replicate", "DEHYDRATOR.POLL k LEASE 60000"),
        ("changed", "DEHYDRATOR.PULL k a"),
        ("changed", "DEHYDRATOR.TOUCH k 5 a"),
        ("changed", "DEHYDRATOR.ONDUE k DROP"),
        ("changed", "DEHYDRATOR.ONDUE new DROP"),
        ("changed", "DEHYDRATOR.PAUSE k"),
    ] {
        ends_at(&mut server, place, sends(line));
    }
}

#[test]
fn a_panic_between_delivery_and_removal_ends_the_server_and_undoes_the_delivery() {
    let mut server = start_durable();
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 600000 element a");
    for place in ["sent", "open", "replicate", "changed"] {
        ends_at(&mut server, place, comes_due);
        assert!(!server.connect().exists("s"), "{place}");
    }
}

/// Makes elements that are due within ten minutes come due now. There may be no time for a reply.
fn comes_due(client: &mut Connection) {
    let _ = cmd("DEHYDRATOR.DEBUG k CLOCK 700000").query::<Value>(client);
}

#[test]
fn a_panic_after_taking_for_a_blocked_client_ends_the_server_and_the_element_survives() {
    let mut server = start_durable();
    server.connect().ask("DEHYDRATOR.PUSH k 600000 element a");
    for place in ["replicate", "changed", "taken", "woken"] {
        let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        ends_at(&mut server, place, comes_due);
        assert!(sleeper.hangs_up(), "{place}: it was given something");
    }
}

#[test]
fn a_panic_in_the_reply_to_a_blocked_client_gives_back_its_elements() {
    let server = start_durable();
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element a");
    let before = client.digest("k");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.DEBUG k PANIC-AT reply");
    client.ask("DEHYDRATOR.DEBUG k CLOCK 700000");
    let error = sleeper.error();
    assert!(error.contains("internal error"), "{error}");
    until("it is there again", || (client.digest("k") == before).then_some(()));
    client.ask("DEBUG LOADAOF");
    assert_eq!(client.digest("k"), before, "the append-only file has it too");
}

#[test]
fn a_panic_while_memory_is_released_ends_the_server() {
    let mut server = start_durable();
    let ids = 0..20_000;
    let mut pipe = redis::pipe();
    for id in ids.clone() {
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(600_000).arg(&[b'x'; 64]).arg(id);
    }
    pipe.exec(&mut server.connect()).expect("pushes");
    let mut remove = redis::cmd("DEHYDRATOR.REM");
    remove.arg("k");
    for id in ids.filter(|id| id % 20 != 0) {
        remove.arg(id);
    }
    // In one transaction: a tick in between could already have work to do. The next one may come before the reply.
    let mut pipe = redis::pipe();
    pipe.atomic().add_command(cmd("DEHYDRATOR.DEBUG k PANIC-AT compact")).add_command(remove);
    let is_told = pipe.query::<Value>(&mut server.connect()).is_ok();
    server.wait_for_end();
    assert!(server.log().contains("ASSERTION FAILED"), "{}", server.log());
    server.relaunch();
    // What was not acknowledged may not have been written either.
    let left = server.connect().ask("DEHYDRATOR.LEN k");
    assert!(left == Value::Int(1000) || !is_told && left == Value::Int(20_000), "{left:?}");
}

/// See `memory.rs`: few servers have active defragmentation.
#[test]
fn a_panic_while_the_server_moves_memory_ends_it() {
    let mut server = start_durable();
    let mut client = server.connect();
    let enable = cmd("CONFIG SET activedefrag yes");
    if enable.exec(&mut client).is_err() {
        return;
    }
    client.ask("CONFIG SET activedefrag no");
    client.ask("CONFIG SET active-defrag-ignore-bytes 1");
    client.ask("CONFIG SET active-defrag-threshold-lower 1");
    let mut pipe = redis::pipe();
    for key in 0..20_000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000).arg(&[b'x'; 64]).arg("id");
    }
    for key in (0..20_000).filter(|key| key % 10 != 0) {
        pipe.cmd("DEL").arg(key);
    }
    pipe.exec(&mut client).expect("pushes and removals");
    ends_at(&mut server, "defrag", |client| drop(enable.query::<Value>(client)));
}

#[test]
fn a_panic_before_a_change_or_after_all_its_effects_is_an_error_reply() {
    let server = start_durable();
    let mut client = server.connect();
    for (place, elements) in [("open", 0), ("closed", 1)] {
        client.ask(&format!("DEHYDRATOR.DEBUG k PANIC-AT {place}"));
        let error = client.refused("DEHYDRATOR.PUSH k 600000 element id");
        assert!(error.starts_with("ERR internal error"), "{error}");
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(elements), "{place}");
    }
    let before = client.digest("k");
    client.ask("DEBUG LOADAOF");
    assert_eq!(client.digest("k"), before, "the append-only file has what the server has");
}

#[test]
fn a_release_build_has_no_hooks() {
    let server = Server::start(&[]);
    let error = server.connect().refused("DEHYDRATOR.DEBUG k PANIC");
    assert!(error.contains("unknown command"), "{error}");
}

#[test]
fn a_clock_that_steps_back_and_forth_does_not_change_the_order() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    let hour = 3_600_000_i64;
    let mut expected = Vec::new();
    for (number, offset) in [0, -hour, hour, -2 * hour, 30_000, 2 * hour, 0].into_iter().enumerate()
    {
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

    // A stable sort: sums of offset and ttl differ by at least seconds, or are equal in push order except for the
    // milliseconds that the test itself takes.
    expected.sort_by_key(|(deadline, _)| *deadline);
    client.ask(&format!("DEHYDRATOR.DEBUG k CLOCK {}", 10 * hour));
    let Value::Array(polled) = client.ask("DEHYDRATOR.POLL k") else { panic!("an array") };
    let expected: Vec<_> = expected.iter().map(|(_, id)| text(id)).collect();
    assert_eq!(polled, expected);
}
