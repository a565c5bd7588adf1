//! EVERY, SCHEDULES, UNSCHEDULE: elements that the server stores by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Connection, Value};

use crate::replication::{catch_up, replica_of};
use crate::{cluster, migration};
use harness::nodes::Cluster;
use harness::{Ask, Server, cmd, let_pass, text, until};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// Returns what SCHEDULES shows of a schedule.
fn shown(client: &mut Connection, key: &str, name: &str) -> BTreeMap<String, Value> {
    let all: Vec<BTreeMap<String, Value>> =
        cmd(&format!("DEHYDRATOR.SCHEDULES {key} {name}")).query(client).expect("a schedule");
    all.into_iter().next().expect("one name")
}

fn number(client: &mut Connection, key: &str, name: &str, field: &str) -> u64 {
    match &shown(client, key, name)[field] {
        Value::Int(number) => *number as u64,
        Value::Nil => 0,
        other => panic!("{field}: {other:?}"),
    }
}

fn time(client: &mut Connection) -> u64 {
    let (seconds, microseconds): (u64, u64) = cmd("TIME").query(client).expect("the time");
    seconds * 1000 + microseconds / 1000
}

/// Takes what is due. Returns the moments of the ids.
fn taken(client: &mut Connection, key: &str) -> Vec<u64> {
    let poll = format!("DEHYDRATOR.POLL {key} COUNT 10000 WITHIDS");
    let rows: Vec<(String, String)> = cmd(&poll).query(client).expect("rows");
    let now = time(client);
    let moments = rows.iter().map(|(id, _)| {
        let (_, moment) = id.rsplit_once('@').unwrap_or_else(|| panic!("{id}"));
        moment.parse::<u64>().expect("a moment")
    });
    let moments: Vec<_> = moments.collect();
    assert!(moments.iter().all(|moment| *moment <= now), "early: {moments:?} at {now}");
    moments
}

fn len(client: &mut Connection, key: &str) -> u64 {
    cmd(&format!("DEHYDRATOR.LEN {key}")).query(client).expect("a number")
}

/// Waits until a key has stored this many elements by a schedule.
fn until_stored(client: &mut Connection, key: &str, name: &str, count: u64) {
    until("it occurs", || (number(client, key, name, "stored") >= count).then_some(()));
}

/// Sends EVERY with a cron or an interval, which may contain spaces.
fn every(client: &mut Connection, key: &str, plan: &str, options: &str) -> i64 {
    let mut every = cmd("DEHYDRATOR.EVERY");
    every.arg(key).arg(plan).arg("element").arg("n");
    options.split_whitespace().for_each(|word| _ = every.arg(word));
    every.query(client).expect("a number")
}

#[test]
fn an_element_is_stored_again_and_again_and_is_like_any_other() {
    let (_server, mut client) = Server::with_client(&[]);
    let before = time(&mut client);
    assert_eq!([(); 2].map(|()| every(&mut client, "k", "100", "MISSED ALL")), [1, 0]);
    let mut moments = Vec::new();
    while moments.len() < 5 {
        client.ask("DEHYDRATOR.TTN k");
        moments.extend(taken(&mut client, "k"));
    }
    assert!(moments[0] >= before + 100, "{before} {moments:?}");
    assert!(moments.windows(2).all(|two| two[1] == two[0] + 100), "{moments:?}");
    let reply = client.ask("DEHYDRATOR.POLL k BLOCK 0 COUNT 1");
    assert_eq!(reply, Value::Array(vec![text("element")]));
    // Another element changes no moment.
    assert_eq!(client.ask("DEHYDRATOR.EVERY k 100 other n MISSED ALL"), Value::Int(1));
    let next = number(&mut client, "k", "n", "next");
    assert!((next - moments[0]).is_multiple_of(100), "{next}");
    assert_eq!(client.ask("DEHYDRATOR.POLL k BLOCK 0 COUNT 1"), Value::Array(vec![text("other")]));
    assert_eq!(client.ask("DEHYDRATOR.UNSCHEDULE k n none"), Value::Int(1));
    taken(&mut client, "k");
    assert_eq!(client.ask("EXISTS k"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.SCHEDULES k"), Value::Array(vec![]));
    assert_eq!(client.ask("DEHYDRATOR.SCHEDULES k n"), Value::Array(vec![Value::Nil]));
}

#[test]
fn a_schedule_shows_its_plan_and_its_elements_get_its_bounds_and_group() {
    let (server, mut client) = Server::with_client(&[]);
    let from = time(&mut client) + 1000;
    let options = format!(
        "FROM {from} UNTIL {} TIMES 2 MISSED ALL DELIVERIES 3 WITHIN 70000 GROUP g JITTER 1",
        from + HOUR
    );
    assert_eq!(every(&mut client, "k", "20", &options), 1);
    until_stored(&mut client, "k", "n", 2);
    let id = format!("n@{from}");
    let element: BTreeMap<String, Value> =
        cmd(&format!("DEHYDRATOR.LOOK k {id} FULL")).query(&mut client).expect("a map");
    let Value::Int(deadline) = element["deadline"] else { panic!("{element:?}") };
    assert!((from..=from + 1).contains(&(deadline as u64)), "{deadline}");
    assert_eq!(element["deliveries-limit"], Value::Int(3));
    assert_eq!(element["until"], Value::Int(deadline + 70000));
    assert_eq!(element["group"], text("g"));
    // It has ended, and is still known.
    let row = shown(&mut client, "k", "n");
    for (field, expected) in [
        ("plan", text("20")),
        ("zone", Value::Nil),
        ("element", text("element")),
        ("next", Value::Nil),
        ("last", Value::Int(from as i64 + 20)),
        ("stored", Value::Int(2)),
        ("paused", Value::Int(0)),
        ("times", Value::Int(2)),
        ("if-missed", text("ALL")),
        ("if-overlap", text("ALLOW")),
        ("jitter", Value::Int(1)),
        ("within", Value::Int(70000)),
        ("group", text("g")),
    ] {
        assert_eq!(row[field], expected, "{field}");
    }
    assert_eq!(every(&mut client, "k", "20", &options), 0, "it begins not again");
    assert_eq!(every(&mut client, "c", "0 9 * * 1-5", "ZONE Europe/Berlin"), 1);
    assert_eq!(shown(&mut client, "c", "n")["zone"], text("Europe/Berlin"));
    // In the night in which the clocks go on from two to three, half past two comes just behind.
    let night = "ZONE Europe/Berlin FROM 1806192000000";
    assert_eq!(every(&mut client, "c", "30 2,14 * * *", night), 1);
    assert_eq!(shown(&mut client, "c", "n")["next"], Value::Int(1_806_195_600_000));
    let info: String = cmd("INFO dehydrator").query(&mut client).expect("text");
    let zones = ["dehydrator_zones:system\r\n", "dehydrator_zones:bundled\r\n"];
    assert!(zones.iter().any(|it| info.contains(it)) && info.contains("zones_version:"), "{info}");
    assert_eq!(server.info("dehydrator", "dehydrator_schedules"), 2);
    assert_eq!(server.info("dehydrator", "dehydrator_occurrences"), 2);
}

#[test]
fn a_plan_that_is_wrong_or_never_occurs_is_refused() {
    let (_server, mut client) = Server::with_client(&[]);
    let mut refused = |plan: &str, options: &str| {
        let mut every = cmd("DEHYDRATOR.EVERY");
        every.arg("k").arg(plan).arg("element").arg("n");
        options.split_whitespace().for_each(|word| _ = every.arg(word));
        harness::refusal(&every, &mut client).expect("it is refused")
    };
    let never = "ERR the schedule never occurs: not from now on, or not before its end";
    assert_eq!(refused("0 0 31 2 *", ""), never);
    assert_eq!(refused("5", "UNTIL 1"), never);
    assert_eq!(
        refused("* * * *", ""),
        "ERR plan '* * * *' is neither a number of milliseconds nor a cron of five fields"
    );
    assert_eq!(
        refused("* * * * *", "ZONE Mars"),
        "ERR plan '* * * * *' is for an unknown ZONE 'Mars'"
    );
    assert_eq!(refused("5", "ZONE UTC"), "ERR syntax error, ZONE is for a cron");
    assert_eq!(client.ask("EXISTS k"), Value::Int(0));
    assert_eq!(client.refused("DEHYDRATOR.PAUSE k SCHEDULE n"), "ERR no such schedule 'n'");
    assert_eq!(client.ask("DEHYDRATOR.RESUME k SCHEDULE n"), Value::Int(0));
}

#[test]
fn after_a_time_without_a_server_missed_decides() {
    let mut server = Server::start_with_port(&["--appendonly", "yes"]);
    let mut client = server.connect();
    for missed in ["one", "all", "none"] {
        assert_eq!(every(&mut client, missed, "200", &format!("MISSED {missed}")), 1);
    }
    // Its next occurrence is far away when the server is back.
    assert_eq!(every(&mut client, "late", "86400000", "MISSED NONE"), 1);
    server.kill();
    let_pass(Duration::from_millis(1500));
    server.relaunch();
    let mut client = server.connect();
    for key in ["one", "all", "none"] {
        until("it occurs", || (number(&mut client, key, "n", "last") > 0).then_some(()));
    }
    assert!(number(&mut client, "one", "n", "missed") >= 6);
    assert_eq!(number(&mut client, "all", "n", "missed"), 0);
    let moments = taken(&mut client, "all");
    assert!(
        moments.len() >= 7 && moments.windows(2).all(|two| two[1] == two[0] + 200),
        "{moments:?}"
    );
    assert!(taken(&mut client, "one").len() <= 3);
}

#[test]
fn a_clock_that_steps_ahead_misses_and_one_that_steps_back_repeats_nothing() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    for missed in ["ONE", "ALL", "NONE"] {
        assert_eq!(every(&mut client, missed, "600000", &format!("MISSED {missed}")), 1);
    }
    // Five minutes after the sixth one.
    server.shift_clock((6 * 10 + 5) * MINUTE as i64);
    until_stored(&mut client, "ALL", "n", 6);
    until_stored(&mut client, "ONE", "n", 1);
    until("all are missed", || (number(&mut client, "NONE", "n", "missed") == 6).then_some(()));
    assert_eq!(["ONE", "ALL", "NONE"].map(|key| len(&mut client, key)), [1, 6, 0]);
    assert_eq!(number(&mut client, "ONE", "n", "missed"), 5);
    let late = number(&mut client, "ONE", "n", "late");
    assert!((4 * MINUTE..6 * MINUTE).contains(&late), "{late}");
    server.shift_clock(0);
    let_pass(Duration::from_millis(500));
    server.shift_clock(64 * MINUTE as i64);
    let_pass(Duration::from_millis(500));
    assert_eq!(["ONE", "ALL", "NONE"].map(|key| len(&mut client, key)), [1, 6, 0]);
    server.shift_clock((7 * 10 + 1) * MINUTE as i64);
    until_stored(&mut client, "ALL", "n", 7);
}

#[test]
fn a_full_key_or_group_is_tried_again_each_second_and_holds_up_no_other() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k LENGTH 1");
    client.ask("DEHYDRATOR.LIMIT g GROUP full LENGTH 1");
    every(&mut client, "k", "20", "MISSED ALL");
    every(&mut client, "g", "20", "MISSED ALL GROUP full");
    client.ask("DEHYDRATOR.EVERY g 20 element other MISSED ALL");
    until_stored(&mut client, "g", "other", 20);
    assert_eq!([len(&mut client, "k"), number(&mut client, "g", "n", "stored")], [1, 1]);
    for (key, pull) in [("k", "k"), ("g", "g GROUP full")] {
        let first: Vec<Value> =
            match cmd(&format!("DEHYDRATOR.RANGE {pull} - + COUNT 1"))
                .query::<(Value, Vec<Vec<Value>>)>(&mut client)
            {
                Err(_) => cmd(&format!("DEHYDRATOR.RANGE {key} - + COUNT 1 GROUP full"))
                    .query::<(Value, Vec<Vec<Value>>)>(&mut client)
                    .expect("a row")
                    .1
                    .remove(0),
                Ok((_, mut rows)) => rows.remove(0),
            };
        let id: String = redis::from_redis_value(first[0].clone()).expect("an id");
        assert_eq!(client.ask(&format!("DEHYDRATOR.REM {key} {id}")), Value::Int(1));
        until_stored(&mut client, key, "n", 2);
    }
    // Nothing is missed.
    assert_eq!(number(&mut client, "k", "n", "missed"), 0);
    client.ask("CONFIG SET maxmemory 1");
    let stored = number(&mut client, "g", "other", "stored");
    let_pass(Duration::from_millis(300));
    assert!(number(&mut client, "g", "other", "stored") <= stored + 1);
    client.ask("CONFIG SET maxmemory 0");
    until_stored(&mut client, "g", "other", stored + 20);
}

#[test]
fn an_occurrence_is_skipped_while_the_last_one_waits_or_is_held() {
    let (_server, mut client) = Server::with_client(&[]);
    every(&mut client, "k", "20", "OVERLAP SKIP MISSED ALL");
    until("some are missed", || (number(&mut client, "k", "n", "missed") >= 3).then_some(()));
    assert_eq!(len(&mut client, "k"), 1);
    let lease: Vec<Value> =
        cmd("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine").query(&mut client).expect("a lease");
    assert_eq!(lease.len(), 1);
    let missed = number(&mut client, "k", "n", "missed");
    until("more", || (number(&mut client, "k", "n", "missed") >= missed + 3).then_some(()));
    assert_eq!(number(&mut client, "k", "n", "stored"), 1);
    let last = number(&mut client, "k", "n", "last");
    client.ask(&format!("DEHYDRATOR.SETTLE k mine n@{last}"));
    until_stored(&mut client, "k", "n", 2);
}

#[test]
fn all_schedules_are_listed_in_pages_while_they_occur() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("CONFIG SET dehydrator.reply-max-bytes 2000");
    // Few share one allocation, without numbers.
    for (key, count) in [("few", 5), ("many", 700)] {
        let from = time(&mut client) + 1000;
        for at in 0..count {
            // Some occur, of some no page ends between two with one moment, and some have no next one.
            let from = from + [0, at, HOUR][at as usize % 3];
            client.ask(&format!("DEHYDRATOR.EVERY {key} {HOUR} element {at} FROM {from}"));
            if at % 4 == 3 {
                client.ask(&format!("DEHYDRATOR.PAUSE {key} SCHEDULE {at}"));
            }
        }
        let (mut from, mut seen) = ("-".to_owned(), Vec::new());
        loop {
            let page = format!("DEHYDRATOR.SCHEDULES {key} FROM {from} COUNT 7");
            let (next, rows): (Option<String>, Vec<BTreeMap<String, Value>>) =
                cmd(&page).query(&mut client).expect("a page");
            assert!(rows.len() <= 7 && (key == "few" || rows.len() < 5), "{} rows", rows.len());
            seen.extend(rows.into_iter().map(|mut row| row.remove("name").expect("a name")));
            let Some(next) = next else { break };
            from = next;
            let_pass(Duration::from_millis(5));
        }
        seen.sort_by_key(|name| format!("{name:?}"));
        seen.dedup();
        assert_eq!(seen.len() as u64, count, "{key}");
        let all: Vec<Value> =
            cmd(&format!("DEHYDRATOR.SCHEDULES {key}")).query(&mut client).expect("rows");
        assert!(all.len() < 5, "{}", all.len());
        // As in RANGE, a position of another process or key leads to the same moment.
        let other: (Value, Vec<Value>) = cmd(&format!("DEHYDRATOR.SCHEDULES {key} FROM (5-1-1"))
            .query(&mut client)
            .expect("rows");
        assert_eq!(other.1, all);
    }
    let none = Value::Array(vec![Value::Nil, Value::Array(vec![])]);
    assert_eq!(client.ask("DEHYDRATOR.SCHEDULES k FROM - COUNT 1"), none);
    assert_eq!(client.ask("DEHYDRATOR.SCHEDULES few FROM"), Value::Array(vec![Value::Nil]));
    let error = client.refused("DEHYDRATOR.SCHEDULES few FROM last");
    assert!(error.starts_with("ERR FROM 'last' is not -, +, "), "{error}");
}

#[test]
fn an_id_in_use_ends_no_schedule() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    let first = time(&mut client) + HOUR;
    client.ask(&format!("DEHYDRATOR.PUSH k {HOUR} mine n@{first}"));
    every(&mut client, "k", "600000", &format!("FROM {first} TIMES 1"));
    server.shift_clock(65 * MINUTE as i64);
    until("it is missed", || (number(&mut client, "k", "n", "missed") == 1).then_some(()));
    assert_eq!(number(&mut client, "k", "n", "next"), first + 10 * MINUTE);
    server.shift_clock(76 * MINUTE as i64);
    until_stored(&mut client, "k", "n", 1);
    assert_eq!(
        ["next", "last"].map(|it| number(&mut client, "k", "n", it)),
        [0, first + 10 * MINUTE]
    );
}

#[test]
fn what_was_missed_counts_as_a_change_to_be_saved() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    every(&mut client, "k", "60000", "MISSED NONE");
    client.ask("SAVE");
    server.shift_clock(25 * MINUTE as i64 + 5000);
    until("it is stored", || (number(&mut client, "k", "n", "missed") > 20).then_some(()));
    let info: String = cmd("INFO persistence").query(&mut client).expect("text");
    assert!(!info.contains("rdb_changes_since_last_save:0"), "{info}");
}

#[test]
fn a_paused_schedule_does_not_occur_and_misses_nothing() {
    let server = Server::start_with_clock(&["--appendonly", "yes"]);
    let mut client = server.connect();
    every(&mut client, "k", "600000", "MISSED ALL");
    let next = number(&mut client, "k", "n", "next");
    assert_eq!(client.ask("DEHYDRATOR.PAUSE k SCHEDULE n"), Value::Okay);
    assert_eq!(shown(&mut client, "k", "n")["paused"], Value::Int(1));
    server.shift_clock(25 * MINUTE as i64);
    let_pass(Duration::from_millis(300));
    assert_eq!(
        [(); 2].map(|()| client.ask("DEHYDRATOR.RESUME k SCHEDULE n")),
        [1, 0].map(Value::Int)
    );
    assert_eq!(number(&mut client, "k", "n", "next"), next + 20 * MINUTE);
    assert_eq!(["stored", "missed"].map(|it| number(&mut client, "k", "n", it)), [0, 0]);
    // The pause of a key holds back its elements, not its schedules.
    client.ask("DEHYDRATOR.PAUSE k");
    server.shift_clock(31 * MINUTE as i64);
    until_stored(&mut client, "k", "n", 1);
    assert_eq!(taken(&mut client, "k"), []);
    client.ask("DEHYDRATOR.RESUME k");
    assert_eq!(taken(&mut client, "k"), [next + 20 * MINUTE]);
}

#[test]
fn a_schedule_stays_in_files_dumps_copies_and_under_other_names() {
    let mut server =
        Server::start_with_port(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = server.connect();
    let occurs = |client: &mut Connection, key: &str| {
        let stored = number(client, key, "n", "stored");
        until_stored(client, key, "n", stored + 2);
    };
    every(&mut client, "k", "30", "JITTER 5 MISSED ALL");
    client.ask("DEHYDRATOR.EVERY k 86400000 element far GROUP g");
    client.ask("DEHYDRATOR.PAUSE k SCHEDULE far");
    occurs(&mut client, "k");
    client.ask("COPY k copy");
    occurs(&mut client, "copy");
    let dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
    cmd("RESTORE restored 0").arg(&dump[..]).exec(&mut client).expect("it is restored");
    occurs(&mut client, "restored");
    client.ask("RENAME k renamed");
    occurs(&mut client, "renamed");
    client.ask("SWAPDB 0 1");
    client.ask("SELECT 1");
    occurs(&mut client, "renamed");
    client.ask("MOVE copy 2");
    client.ask("SELECT 2");
    occurs(&mut client, "copy");
    client.ask("SELECT 1");
    // The file of effects, as it was written, and then rewritten.
    for rewritten in [false, true, true] {
        if rewritten {
            client.ask("BGREWRITEAOF");
            until("it is rewritten", || {
                (server.info("persistence", "aof_rewrite_in_progress") == 0
                    && server.info("persistence", "aof_rewrite_scheduled") == 0)
                    .then_some(())
            });
        }
        client.ask("DEHYDRATOR.UNSCHEDULE restored n");
        for schedule in ["renamed", "restored"] {
            client.ask(&format!("DEHYDRATOR.PAUSE {schedule} SCHEDULE far"));
        }
        client.ask("DEHYDRATOR.PAUSE renamed SCHEDULE n");
        let before = ["renamed", "restored"].map(|key| client.digest(key));
        server.restart();
        client = server.connect();
        client.ask("SELECT 1");
        assert_eq!(["renamed", "restored"].map(|key| client.digest(key)), before);
        assert_eq!(client.ask("DEHYDRATOR.RESUME renamed SCHEDULE n"), Value::Int(1));
        occurs(&mut client, "renamed");
    }
}

#[test]
fn replicas_are_told_each_occurrence_and_go_on_when_they_are_promoted() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let (mut client, mut other) = (primary.connect(), replica.connect());
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
    every(&mut client, "k", "10", "MISSED ALL DELIVERIES 5 WITHIN 60000 GROUP g");
    client.ask("DEHYDRATOR.EVERY k 15 element skipped OVERLAP SKIP");
    client.ask("DEHYDRATOR.EVERY k 86400000 element far");
    until_stored(&mut client, "k", "n", 30);
    taken(&mut client, "k");
    for name in ["n", "skipped", "far"] {
        client.ask(&format!("DEHYDRATOR.PAUSE k SCHEDULE {name}"));
    }
    catch_up(&primary, &replica);
    assert_eq!(client.digest("k"), other.digest("k"));
    for name in ["n", "skipped"] {
        client.ask(&format!("DEHYDRATOR.RESUME k SCHEDULE {name}"));
    }
    until_stored(&mut other, "k", "n", 40);
    // All moments that the replica has are the primary's, and those that follow are its own.
    other.ask("REPLICAOF NO ONE");
    let at = number(&mut other, "k", "n", "stored");
    until_stored(&mut other, "k", "n", at + 20);
    client.ask("DEHYDRATOR.UNSCHEDULE k n skipped far");
    let moments = taken(&mut other, "k");
    let mut of_n: Vec<_> = moments;
    of_n.sort_unstable();
    assert!(of_n.len() >= 20, "{of_n:?}");
    assert_eq!(number(&mut other, "k", "n", "missed"), 0);
}

#[test]
fn occurrences_are_delivered_by_a_policy_and_wake_who_waits() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k LIST out");
    every(&mut client, "k", "20", "TIMES 3 MISSED ALL");
    until("they are moved", || (client.ask("LLEN out") == Value::Int(3)).then_some(()));
    assert_eq!(len(&mut client, "k"), 0);
    // An id that is in use is not stored again.
    let from = time(&mut client) + 200;
    client.ask(&format!("DEHYDRATOR.PUSH used 600000 other n@{from}"));
    every(&mut client, "used", "100", &format!("FROM {from} MISSED ALL"));
    until_stored(&mut client, "used", "n", 1);
    assert_eq!(number(&mut client, "used", "n", "missed"), 1);
    assert_eq!(client.ask(&format!("DEHYDRATOR.LOOK used n@{from}")), text("other"));
}

/// Checks that a schedule goes on on another node of a cluster: each moment is there once, none is missed.
fn moves(cluster: &Cluster, move_it: impl FnOnce(&Cluster)) {
    const KEY: &str = "{fHh}:k";
    let mut here = cluster.nodes[0].connect();
    every(&mut here, KEY, "20", "MISSED ALL");
    until_stored(&mut here, KEY, "n", 5);
    move_it(cluster);
    let mut there = cluster.nodes[1].connect();
    let stored = number(&mut there, KEY, "n", "stored");
    until_stored(&mut there, KEY, "n", stored + 20);
    assert!(here.refused(&format!("DEHYDRATOR.LEN {KEY}")).starts_with("MOVED"));
    there.ask(&format!("DEHYDRATOR.PAUSE {KEY} SCHEDULE n"));
    let stored = number(&mut there, KEY, "n", "stored");
    let moments = taken(&mut there, KEY);
    assert_eq!(moments.len() as u64, stored);
    assert!(moments.windows(2).all(|two| two[1] == two[0] + 20), "{moments:?}");
}

#[test]
fn a_schedule_moves_with_its_slot_and_stores_each_occurrence_once() {
    moves(&cluster::start(), |cluster| {
        let (from, to) = (cluster.id_of(0), cluster.id_of(1));
        let address = cluster.address(0);
        let mut reshard = vec!["reshard", &address, "--cluster-from", &from, "--cluster-to", &to];
        reshard.extend(["--cluster-slots", "10", "--cluster-pipeline", "1"]);
        cluster.manage(&reshard);
    });
}

#[test]
fn a_schedule_migrates_at_once() {
    let Some(cluster) = migration::start(0) else { return };
    moves(&cluster, |cluster| cluster.move_at_once(0, 1, migration::SLOTS));
}

/// The effects of a pass are one transaction in the append-only file.
#[test]
fn a_pass_ends_after_some_hundred_occurrences() {
    const ALL: usize = 3000;
    let options = ["--appendonly", "yes", "--dehydrator.tick-budget-us", "100000"];
    let mut lead = 2000;
    let (server, mut client, from) = loop {
        let (server, mut client) = Server::with_client(&options);
        let from = time(&mut client) + lead;
        let mut pipe = redis::pipe();
        for at in 0..ALL {
            pipe.add_command(cmd(&format!("DEHYDRATOR.EVERY k 3600000 element {at} FROM {from}")));
        }
        pipe.exec(&mut client).expect("all are stored");
        // On a busy machine they are stored too late.
        if time(&mut client) < from {
            break (server, client, from);
        }
        lead *= 2;
    };
    until("all have occurred", || (len(&mut client, "k") == ALL as u64).then_some(()));
    let file = server.file("appendonlydir/appendonly.aof.1.incr.aof");
    let written = std::fs::read(file).expect("a file");
    let written = String::from_utf8_lossy(&written);
    let passes = written.split("MULTI").map(|it| it.matches(&format!("\r\nO{from}@")).count());
    let passes: Vec<_> = passes.filter(|count| *count > 0).collect();
    assert_eq!(passes.iter().sum::<usize>(), ALL);
    assert!(passes.iter().all(|it| *it < 192), "{passes:?}");
}
