//! Schedules, as the server tells of them.

use redis::Connection;

use super::{SECOND, drawn_in, watch, words};
use crate::model::Model;
use crate::watch::Watch;
use harness::{Ask, Server, cmd, until};

/// A moment of 2097.
const FAR: u64 = 4_000_000_000_000;

fn every(client: &mut Connection, key: &str, plan: &str, name: &[u8], options: &[&str]) {
    let mut every = redis::cmd("DEHYDRATOR.EVERY");
    every.arg(key).arg(plan).arg("element").arg(name).arg(options).exec(client).expect("set");
}

#[test]
fn a_key_with_schedules_lists_them_in_the_order_of_their_occurrences() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    every(&mut client, "jobs", "90000", b"often", &["FROM", &FAR.to_string()]);
    every(&mut client, "jobs", "172800000", b"second", &[]);
    every(&mut client, "jobs", "86400000", b"first", &[]);
    every(&mut client, "jobs", "0 9 * * 1-5", b"halted", &["ZONE", "Europe/Berlin"]);
    client.ask("DEHYDRATOR.PAUSE jobs SCHEDULE halted");
    // No escape sequence reaches the terminal.
    every(&mut client, "jobs", "259200000", b"\x1b[31m<b>\xff", &[]);
    every(&mut client, "jobs", "1", b"over", &["TIMES", "1"]);
    until("it has ended", || {
        let ended = format!("{:?}", client.ask("DEHYDRATOR.SCHEDULES jobs over"));
        ended.contains(r#"bulk-string('"next"'), nil"#).then_some(())
    });
    cmd("DEHYDRATOR.PUSH plain 600000 element id").exec(&mut client).expect("pushed");
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    model.select(0);
    watch.refresh_selected(&mut model);
    let names: Vec<_> = model.parts.schedules.iter().map(|it| it.name.as_slice()).collect();
    assert_eq!(names[..4], [&b"first"[..], b"second", b"\x1b[31m<b>\xff", b"often"]);
    let drawn = drawn_in(80, &model);
    let all = words(&drawn);
    assert!(all.contains("schedules of jobs: 6, the next"), "{drawn:#?}");
    assert!(all.contains("schedule occurs next in last late missed"), "{drawn:#?}");
    for row in ["first every 1 d ", "second every 2 d ", r"\x1b[31m<b>\xff every 3 d "] {
        assert!(all.contains(row), "no {row:?} in {drawn:#?}");
    }
    assert!(drawn.iter().all(|line| line.chars().count() == 80), "{drawn:#?}");

    for name in ["first", "second", "often"] {
        client.ask(&format!("DEHYDRATOR.UNSCHEDULE jobs {name}"));
    }
    watch.refresh(&mut model, 2 * SECOND);
    let drawn = drawn_in(80, &model);
    let all = words(&drawn);
    assert!(all.contains("halted 0 9 * * 1-5 Europe/Berlin paused - - 0"), "{drawn:#?}");
    assert!(all.contains("over every 1 ms ended "), "{drawn:#?}");
    assert!(all.contains("schedules of jobs: 3"), "{drawn:#?}");

    // One without schedules, and a user who may not read them.
    model.select(1);
    watch.refresh_selected(&mut model);
    assert!(words(&drawn_in(80, &model)).contains("TTLs of plain"));
    client.ask("ACL SETUSER looker on >secret ~* +info +scan +dehydrator.info");
    let url = format!("redis://looker:secret@127.0.0.1:{}", server.port());
    let client = redis::Client::open(url).expect("a url");
    let (mut watch, mut model) = (Watch::new(client), Model::default());
    watch.refresh(&mut model, SECOND);
    assert_eq!((model.trouble.clone(), model.parts.schedules.len()), (None, 0));
}
