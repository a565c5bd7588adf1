//! Reading waiting elements in order, without taking them: RANGE, and LOOK ... FULL.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::{Connection, Value};

use harness::{Ask, Server, cmd, until};

/// Id, deadline, TTL, deliveries, whether it is leased.
type Row = (String, u64, u64, u64, u64);
type Page = (Option<String>, Vec<Row>);

/// The last millisecond of the year 2099.
const FAR: u64 = 4_102_444_799_999;

fn page(client: &mut Connection, start: &str, end: &str, count: usize) -> Page {
    let line = format!("DEHYDRATOR.RANGE k {start} {end} COUNT {count}");
    cmd(&line).query(client).expect("a page")
}

/// Returns all pages; runs a function between them.
fn walk(
    client: &mut Connection,
    count: usize,
    mut between: impl FnMut(&mut Connection),
) -> Vec<Row> {
    let mut start = "-".to_owned();
    let mut all = Vec::new();
    loop {
        let (next, rows) = page(client, &start, "+", count);
        assert!(rows.len() == count || next.is_none(), "{} rows", rows.len());
        all.extend(rows);
        let Some(next) = next else { return all };
        start = next;
        between(client);
    }
}

fn ids(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| &row.0[..]).collect()
}

#[test]
fn range_shows_elements_in_the_order_of_delivery_and_takes_none() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("CONFIG SET dehydrator.small-max-elements 0");
    for (id, ttl, at) in
        [("c", 5, FAR + 2), ("due", 9, 7), ("a", 7, FAR), ("b", 5, FAR), ("d", 5, FAR + 3)]
    {
        client.ask(&format!("DEHYDRATOR.PUSH k {ttl} element-{id} {id} AT {at}"));
    }
    client.ask("DEHYDRATOR.EFFECT k P1@9,delivered=3 element-e e");
    client.ask(&format!("DEHYDRATOR.EFFECT k L60000@{FAR}@7 d"));
    let before = client.digest("k");
    let row = |id: &str, deadline, ttl, deliveries, leased| {
        (id.to_owned(), deadline, ttl, deliveries, leased)
    };
    let all = [
        row("due", 7, 9, 0, 0),
        row("e", 9, 1, 3, 0),
        row("a", FAR, 7, 0, 0),
        row("b", FAR, 5, 0, 0),
        row("d", FAR, 60_000, 1, 1),
        row("c", FAR + 2, 5, 0, 0),
    ];
    let mut range = |words: &str| -> Page {
        cmd(&format!("DEHYDRATOR.RANGE k {words}")).query(&mut client).expect("a page")
    };
    assert_eq!(range("- +"), (None, all.to_vec()));
    let far = FAR.to_string();
    for (words, from, to) in [
        ("- 7".to_owned(), 0, 1),
        ("- (7".into(), 0, 0),
        ("(7 +".into(), 1, 6),
        ("8 9".into(), 1, 2),
        (format!("{far} {far}"), 2, 5),
        (format!("({far} +"), 5, 6),
        (format!("- ({far}"), 0, 2),
        // A backwards range is empty, as in XRANGE.
        ("9 8".into(), 0, 0),
        ("+ -".into(), 0, 0),
        ("(9223372036854775807 +".into(), 0, 0),
        ("- (0".into(), 0, 0),
    ] {
        assert_eq!(range(&words), (None, all[from..to].to_vec()), "{words}");
    }
    let (next, rows) = range("- + COUNT 3");
    assert_eq!(rows, all[..3]);
    let next = next.expect("there is more");
    assert_eq!(range(&format!("{next} + COUNT 3")), (None, all[3..].to_vec()));
    assert_eq!(range(&format!("{next} {far} COUNT 3")), (None, all[3..5].to_vec()));
    type Row = (String, u64, u64, u64, u64, String);
    let (_, rows): (Value, Vec<Row>) =
        cmd("DEHYDRATOR.RANGE k - + WITHELEMENTS").query(&mut client).expect("rows");
    assert!(rows.iter().all(|row| row.5 == format!("element-{}", row.0)), "{rows:?}");
    let nothing = client.ask("DEHYDRATOR.RANGE nowhere - +");
    assert_eq!(nothing, Value::Array(vec![Value::Nil, Value::Array(Vec::new())]));
    assert_eq!(client.digest("k"), before);
}

#[test]
fn a_small_dehydrator_shows_elements_together_that_it_cannot_split() {
    let (_server, mut client) = Server::with_client(&[]);
    for id in 0..12 {
        client.ask(&format!("DEHYDRATOR.PUSH k 5 e {id:02} AT {}", FAR + id / 4));
    }
    let (next, first) = page(&mut client, "-", "+", 3);
    assert_eq!((next.as_deref(), first.len()), (Some(&format!("({FAR}")[..]), 4));
    // Elements before the end of the page may be removed, and a tie may be added: neither is shown, the rest is.
    client.ask("DEHYDRATOR.REM k 00 03");
    client.ask(&format!("DEHYDRATOR.PUSH k 5 e new AT {FAR}"));
    // It grows into the full form in between.
    client.ask("CONFIG SET dehydrator.small-max-elements 0");
    client.ask(&format!("DEHYDRATOR.PUSH k 5 e 12 AT {}", FAR + 9));
    let (end, rest) = page(&mut client, &next.expect("there is more"), "+", 100);
    let expected: Vec<_> = (4..13).map(|id| format!("{id:02}")).collect();
    assert_eq!((end, ids(&rest)), (None, expected.iter().map(|id| &id[..]).collect()));
}

#[test]
fn look_full_shows_the_same_of_one_element() {
    let (_server, mut client) = Server::with_client(&[]);
    for id in 0..3000 {
        // Each with a TTL of its own, so that most have no queue.
        client.ask(&format!("DEHYDRATOR.PUSH k {id} element-{id} {id} AT {}", FAR + id % 50));
    }
    client.ask(&format!("DEHYDRATOR.EFFECT k L60000@{FAR}@7 7 2990"));
    // Given back, it waits in back-off, and nobody holds it.
    client.ask("DEHYDRATOR.RELEASE k 600000 7 7");
    let (_, rows) = page(&mut client, "-", "+", 5000);
    assert_eq!(rows.len(), 3000);
    let leased: Vec<_> = rows.iter().filter(|row| row.4 == 1).map(|row| &row.0[..]).collect();
    assert_eq!(leased, ["2990"]);
    for (id, deadline, ttl, deliveries, leased) in rows {
        let look = cmd(&format!("DEHYDRATOR.LOOK k {id} FULL"));
        let found: HashMap<String, Value> = look.query(&mut client).expect("names and values");
        let number = |name: &str| redis::from_redis_value::<u64>(found[name].clone()).expect(name);
        let numbers = ["deadline", "ttl", "deliveries", "leased"].map(number);
        assert_eq!(numbers, [deadline, ttl, deliveries, leased]);
        assert_eq!(found["element"], Value::BulkString(format!("element-{id}").into()));
        let token = if leased > 0 { Value::BulkString("7".into()) } else { Value::Nil };
        assert_eq!((&found["token"], found.len()), (&token, 11));
    }
    assert_eq!(client.ask("DEHYDRATOR.LOOK k nobody FULL"), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.LOOK nowhere nobody FULL"), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.LOOK k 7"), Value::BulkString("element-7".into()));
}

#[test]
fn pages_show_permanent_elements_once_while_others_change() {
    let (_server, mut client) = Server::with_client(&[]);
    let mut pipe = redis::pipe();
    // Thousands in one millisecond, of several TTLs.
    for id in 0..20_000_u64 {
        let (ttl, at) = (id % 3 * 10, FAR + id / 5000);
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg("e").arg(id).arg("AT").arg(at);
    }
    pipe.exec(&mut client).expect("pushes");
    let mut gone = HashSet::new();
    let mut turn = 0_u64;
    let rows = walk(&mut client, 100, |client| {
        turn += 1;
        let mut pipe = redis::pipe();
        for step in 0..40_u64 {
            // Before, at and after the position of the walk, including the last element shown.
            let id = (turn * 100 + step * 977) % 20_000;
            pipe.cmd("DEHYDRATOR.REM").arg("k").arg(id);
            gone.insert(id.to_string());
            let at = FAR + step % 4;
            let new = format!("new-{turn}-{step}");
            pipe.cmd("DEHYDRATOR.PUSH")
                .arg("k")
                .arg(step % 3 * 10)
                .arg("e")
                .arg(new)
                .arg("AT")
                .arg(at);
        }
        let last = (turn * 100 - 1).to_string();
        pipe.cmd("DEHYDRATOR.REM").arg("k").arg(&last);
        gone.insert(last);
        pipe.exec(client).expect("it is done");
    });
    assert!(rows.is_sorted_by_key(|row| row.1), "out of order");
    let mut seen = BTreeMap::new();
    for row in &rows {
        *seen.entry(&row.0[..]).or_insert(0) += 1;
    }
    assert!(seen.values().all(|times| *times == 1), "an element is shown twice");
    let stayed = (0..20_000).map(|id| id.to_string()).filter(|id| !gone.contains(id));
    for id in stayed {
        assert!(seen.contains_key(&id[..]), "{id} is not shown");
    }
}

/// Elements that are shown twice are of one millisecond at most.
#[test]
fn a_walk_continues_after_a_restart_and_on_a_replica_and_omits_nothing() {
    let mut server = Server::start_with_port(&["--save", "3600 1"]);
    let mut client = server.connect();
    client.ask("CONFIG SET dehydrator.small-max-elements 0");
    for id in 0..100 {
        client.ask(&format!("DEHYDRATOR.PUSH k 5 e {id:02} AT {}", FAR + id / 20));
    }
    // Sequence numbers that start elsewhere than those of a file.
    for id in (0..100).rev().step_by(3) {
        client.ask(&format!("DEHYDRATOR.PUSH k 5 e {id:02} REPLACE AT {}", FAR + id / 20));
    }
    let (_, all) = page(&mut client, "-", "+", 1000);
    let (next, first) = page(&mut client, "-", "+", 30);
    let next = next.expect("there is more");
    let replica = Server::start_with_port(&[]);
    replica.follow(&server);
    server.restart();
    let mut again = server.connect();
    for client in [&mut again, &mut replica.connect()] {
        let (end, rest) = page(client, &next, "+", 1000);
        assert_eq!((end, ids(&rest)), (None, ids(&all[20..])));
        let mut shown: Vec<_> = first.iter().chain(&rest).map(|row| row.0.clone()).collect();
        shown.sort();
        shown.dedup();
        assert_eq!(shown.len(), 100);
    }
    until("the replica follows again", || {
        replica.log().contains("Finished with success").then_some(())
    });
}

#[test]
fn invalid_ranges_are_refused() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 5 e i");
    let start = "-, +, a whole number of unix milliseconds, or where a list ended";
    let end = "-, + or a whole number of unix milliseconds";
    for (line, error) in [
        ("RANGE k ten +", format!("ERR start 'ten' is not {start}")),
        ("RANGE k (5-6 +", format!("ERR start '(5-6' is not {start}")),
        ("RANGE k - 5-6-7", format!("ERR end '5-6-7' is not {end}")),
        ("RANGE k - + COUNT 0", "ERR COUNT '0' is not a whole number from 1 on".into()),
        ("RANGE k - + BLOCK 5", "ERR syntax error, unexpected 'BLOCK'".into()),
        ("LOOK k i LONG", "ERR syntax error, unexpected 'LONG'".into()),
    ] {
        assert_eq!(client.refused(&format!("DEHYDRATOR.{line}")), error);
    }
}

/// By the server's own CPU time, in a dehydrator of a million elements with eight TTLs, far from its beginning and its
/// end.
#[test]
fn a_hundred_of_a_million_cost_no_more_than_a_hundred_looks() {
    const ELEMENTS: u64 = 1_000_000;
    let (_server, mut client) = Server::with_client(&[]);
    for chunk in 0..100 {
        let mut pipe = redis::pipe();
        for id in chunk * ELEMENTS / 100..(chunk + 1) * ELEMENTS / 100 {
            let (ttl, at) = (id % 8 * 1000, FAR + id / 4);
            pipe.cmd("DEHYDRATOR.PUSH")
                .arg("k")
                .arg(ttl)
                .arg("an element")
                .arg(id)
                .arg("AT")
                .arg(at);
        }
        pipe.exec(&mut client).expect("pushes");
    }
    let mut cost = |verb: &str, lines: &[String]| -> u64 {
        client.ask("CONFIG RESETSTAT");
        let mut pipe = redis::pipe();
        for line in lines {
            pipe.add_command(cmd(line)).ignore();
        }
        pipe.exec(&mut client).expect("replies");
        let stats: String = cmd("INFO commandstats").query(&mut client).expect("statistics");
        let line = stats.lines().find(|line| line.contains(verb)).expect("a line");
        let (_, usec) = line.split_once("usec=").expect("a time");
        usec.split(',').next().expect("a number").parse().expect("a number")
    };
    let starts = (0..200).map(|at| FAR + at * 1237 + 7);
    let ranges: Vec<_> = starts.map(|at| format!("DEHYDRATOR.RANGE k {at} + COUNT 100")).collect();
    let looks: Vec<_> = (0..200 * 100_u64)
        .map(|at| format!("DEHYDRATOR.LOOK k {}", at * 7919 % ELEMENTS))
        .collect();
    // The least of several runs, because others use the machine.
    let (mut least, mut runs) = ((u64::MAX, u64::MAX), 0);
    while runs < 5 || (least.0 > least.1 && runs < 40) {
        let (ranges, looks) = (cost("dehydrator.range", &ranges), cost("dehydrator.look", &looks));
        least = (least.0.min(ranges), least.1.min(looks));
        runs += 1;
    }
    let (ranges, looks) = least;
    eprintln!("200 ranges of 100: {ranges} us, 20,000 looks: {looks} us");
    assert!(ranges <= looks, "200 ranges took {ranges} us, 20,000 looks {looks} us");
}
