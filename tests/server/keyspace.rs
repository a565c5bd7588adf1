//! A dehydrator among the other keys.

use redis::Value;

use crate::harness::{Ask, Server, text, texts};

#[test]
fn an_emptied_dehydrator_is_gone_with_its_event() {
    let server = Server::start(&["--notify-keyspace-events", "KEA"]);
    let mut client = server.connect();
    let mut listener = server.connect();
    listener.ask("CONFIG SET notify-keyspace-events KEA");
    let mut events = listener.as_pubsub();
    events.psubscribe("__keyevent@0__:*").expect("a subscription");
    for take in ["POLL k", "PULL k id", "XACK k id", "REM k id"] {
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        client.ask(&format!("DEHYDRATOR.{take}"));
        assert!(!client.exists("k"), "after {take}");
        let verb = take.split(' ').next().expect("a verb").to_lowercase();
        for expected in ["dehydrator.push", &format!("dehydrator.{verb}"), "del"] {
            let event = events.get_message().expect("an event");
            let (_, name) = event.get_channel_name().split_once(':').expect("a name");
            assert_eq!(name, expected);
        }
    }
}

#[test]
fn a_write_that_changes_nothing_breaks_no_watch_and_is_not_propagated() {
    let server = Server::start(&["--appendonly", "yes"]);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("SET s text");
    let idle = [
        "DEHYDRATOR.POLL k",
        "DEHYDRATOR.PULL k nobody",
        "DEHYDRATOR.XACK k id nobody",
        "DEHYDRATOR.REM k nobody",
        "DEHYDRATOR.XPOLL k",
        "DEHYDRATOR.LOOK k id",
        "DEHYDRATOR.TTN k",
    ];
    let refused = ["DEHYDRATOR.PUSH k 5 element id", "DEHYDRATOR.UPDATE k nobody element"];
    for line in idle.iter().chain(&refused) {
        let offset = |client: &mut _| Ask::ask(client, "DEBUG DIGEST-VALUE k");
        let before =
            (server.info("persistence", "rdb_changes_since_last_save"), offset(&mut other));
        client.ask("WATCH k");
        if refused.contains(line) {
            drop(other.refused(line))
        } else {
            drop(other.ask(line))
        }
        client.ask("MULTI");
        client.ask("PING");
        assert_ne!(client.ask("EXEC"), Value::Nil, "{line} broke a WATCH");
        let after = (server.info("persistence", "rdb_changes_since_last_save"), offset(&mut other));
        assert_eq!(before, after, "{line} left the data dirty");
    }
    for line in [
        "DEHYDRATOR.PUSH k 5 element id2",
        "DEHYDRATOR.UPDATE k id other",
        "DEHYDRATOR.PULL k id2",
        "DEHYDRATOR.REM k id",
    ] {
        client.ask("WATCH k");
        other.ask(line);
        client.ask("MULTI");
        client.ask("PING");
        assert_eq!(client.ask("EXEC"), Value::Nil, "{line} did not break a WATCH");
    }
}

#[test]
fn copies_are_equal_and_independent() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for number in 0..500 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element-{number} {number}", number % 7 * 1000));
    }
    client.ask("COPY k copy");
    assert_eq!(client.digest("copy"), client.digest("k"));
    client.ask("DEHYDRATOR.PULL copy 1");
    assert_ne!(client.digest("copy"), client.digest("k"));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k 1"), text("element-1"));
    client.ask("RENAME k renamed");
    assert_eq!(client.ask("DEHYDRATOR.LOOK renamed 1"), text("element-1"));
    client.ask("COPY renamed other DB 3");
    client.ask("UNLINK renamed copy");
    assert_eq!(client.ask("DBSIZE"), Value::Int(0));
    client.ask("SELECT 3");
    assert_eq!(client.ask("DEHYDRATOR.LOOK other 1"), text("element-1"));
    client.ask("FLUSHALL");
    assert_eq!(client.ask("DEHYDRATOR.POLL other"), texts(&[]));
}

#[test]
fn a_dump_restores_to_the_same() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for number in 0..2000 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element-{number} {number}", number % 9 * 10));
    }
    let Value::BulkString(dump) = client.ask("DUMP k") else { panic!("a dump") };
    let restore = |key: &str, dump: &[u8], client: &mut redis::Connection| {
        redis::cmd("RESTORE").arg(key).arg(0).arg(dump).query::<Value>(client)
    };
    restore("again", &dump, &mut client).expect("our own dump");
    assert_eq!(client.digest("again"), client.digest("k"));

    // Cut short or mutated, with the checksum off so that it reaches us: refused, or a dehydrator;
    // never a dead server.
    client.ask("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    for length in (0..dump.len()).step_by(dump.len() / 200) {
        assert!(restore("cut", &dump[..length], &mut client).is_err(), "{length} bytes");
    }
    let mut random = 42_u64;
    for _ in 0..3000 {
        let mut mutant = dump.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Not the type and module id at the start, nor version and checksum at the end.
            let at = 10 + (random >> 33) as usize % (dump.len() - 20);
            mutant[at] = (random >> 20) as u8;
        }
        if restore("mutant", &mutant, &mut client).is_ok() {
            client.ask("DEHYDRATOR.POLL mutant");
            client.ask("DEL mutant");
        }
    }
    assert!(!client.exists("cut"));
    assert_eq!(client.ask("PING"), Value::SimpleString("PONG".into()));
}
