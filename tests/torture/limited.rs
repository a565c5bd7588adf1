//! kill -9 while groups are at their limits: what they hold and what they gave out still counts.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use redis::{Connection, Value};

use harness::{Ask, Server, until};

const ROUNDS: usize = 10;
const CLIENTS: usize = 3;
/// The elements of each group.
const ELEMENTS: usize = 400;
/// The first has no limit.
const GROUPS: [&str; 4] = ["", "a", "b", "c"];

/// The ids that each group gave out, as far as that was acknowledged.
type Given = Mutex<BTreeMap<String, Vec<usize>>>;

/// Starts a server with a limit of each group, and with due elements in all of them, in the order of their ids.
fn start(limit: &str) -> Server {
    let server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = server.connect();
    client.ask(&format!("DEHYDRATOR.LIMIT k EACH {limit}"));
    let mut pipe = redis::pipe();
    for id in 0..ELEMENTS {
        for group in GROUPS {
            let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(0).arg("element");
            push.arg(format!("{group}:{id}")).arg("GROUP").arg(group).ignore();
        }
    }
    pipe.exec(&mut client).expect("replies");
    server
}

/// Returns the group of an id, and the number in it.
fn parts(id: &str) -> (String, usize) {
    let (group, number) = id.split_once(':').expect("two parts");
    (group.to_owned(), number.parse().expect("a number"))
}

/// Polls one by one until the server is gone, and settles every third lease.
fn work(mut client: Connection, options: &str, given: &Given) {
    let poll = format!("DEHYDRATOR.POLL k COUNT 1 {options}");
    for number in 0.. {
        let Ok(rows) = harness::cmd(&poll).query::<Vec<Vec<Value>>>(&mut client) else { return };
        let Some(row) = rows.into_iter().next() else { continue };
        let id: String = redis::from_redis_value(row[0].clone()).expect("an id");
        let (group, place) = parts(&id);
        given.lock().expect("no panic").entry(group).or_default().push(place);
        if let (Some(token), 0) = (row.get(3), number % 3) {
            let token: String = redis::from_redis_value(token.clone()).expect("a token");
            let settle = redis::cmd("DEHYDRATOR.SETTLE").arg("k").arg(token).arg(id).to_owned();
            if settle.exec(&mut client).is_err() {
                return;
            }
        }
    }
}

/// Kills and restarts the server again and again, while clients poll. `inspect` is called after each restart.
fn kill(mut server: Server, options: &str, mut inspect: impl FnMut(&mut Connection, &Given)) {
    let given = Given::default();
    let count = || given.lock().expect("no panic").values().map(Vec::len).sum::<usize>();
    for round in 0..ROUNDS {
        let before = count();
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let (client, given) = (server.connect(), &given);
                scope.spawn(move || work(client, options, given));
            }
            until("there is a load", || (count() >= before + 20 + round % 7).then_some(()));
            server.kill();
        });
        server.relaunch();
        inspect(&mut server.connect(), &given);
    }
}

/// Returns the id, the deliveries and the token, if it is leased, of each element of a group.
fn rows(client: &mut Connection, group: &str) -> Vec<(usize, u64, Option<String>)> {
    let mut range = redis::cmd("DEHYDRATOR.RANGE");
    range.arg("k").arg("-").arg("+").arg("COUNT").arg(100_000).arg("WITHTOKENS");
    type Rows = Vec<(String, u64, u64, u64, u64, Option<String>, Option<u64>)>;
    let (next, rows): (Option<String>, Rows) =
        range.arg("GROUP").arg(group).query(client).expect("rows");
    assert_eq!(next, None);
    let row = |(id, _, _, deliveries, _, token, _): (String, _, _, _, _, _, _)| {
        (parts(&id).1, deliveries, token)
    };
    rows.into_iter().map(row).collect()
}

#[test]
fn killed_ten_times_no_group_holds_more_than_each_may_and_each_is_in_its_order() {
    const MOST: usize = 2;
    let mut at_most = 0;
    kill(start("HELD 2"), "LEASE 600000", |client, given| {
        for group in &GROUPS[1..] {
            let rows = rows(client, group);
            let held = rows.iter().filter_map(|(id, _, token)| Some((*id, token.as_ref()?)));
            let held: Vec<_> = held.collect();
            assert!(held.len() <= MOST, "{group}: {held:?}");
            at_most = at_most.max(held.len());
            let given = given.lock().expect("no panic").get(*group).cloned().unwrap_or_default();
            let last = given.iter().copied().max().unwrap_or(0);
            let waits = rows.iter().find(|(_, deliveries, _)| *deliveries == 0);
            assert!(waits.is_none_or(|(id, ..)| given.is_empty() || *id > last), "{group}: {last}");
            assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len(), "{group}: twice");
            // So that the group goes on.
            for (id, token) in held {
                client.ask(&format!("DEHYDRATOR.SETTLE k {token} {group}:{id}"));
            }
        }
    });
    assert_eq!(at_most, MOST, "the limit was never reached");
}

#[test]
fn killed_ten_times_no_group_gives_out_more_in_a_window_than_each_may() {
    const MOST: usize = 30;
    let mut last = Vec::new();
    kill(start("RATE 30 PER 3600000"), "WITHIDS", |client, given| {
        last.clear();
        for group in &GROUPS[1..] {
            let given = given.lock().expect("no panic").get(*group).map_or(0, Vec::len);
            let gone = ELEMENTS - rows(client, group).len();
            // Elements in flight are gone, and count.
            assert!(given <= gone && gone <= MOST, "{group}: {given} given, {gone} gone");
            last.push(gone);
        }
    });
    assert_eq!(last, [MOST; GROUPS.len() - 1], "the limit was never reached");
}
