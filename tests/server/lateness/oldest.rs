//! The age of the oldest deliverable element: of all, of each key, and the list of the oldest keys.

use std::collections::{BTreeMap, HashMap};

use redis::{Connection, Value};

use super::{overdue, time};
use harness::{Ask, Server, cmd, until};

const DBS: usize = 3;

/// Returns the server's time in milliseconds since the epoch.
fn now(client: &mut Connection) -> u64 {
    time(client) / 1000
}

fn oldest(server: &Server) -> u64 {
    server.info("dehydrator", "dehydrator_oldest_due_s")
}

/// Returns a field of DEHYDRATOR.INFO.
fn field(client: &mut Connection, key: &str, name: &str) -> Value {
    let info: HashMap<String, Value> =
        cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
    info.get(name).cloned().unwrap_or_else(|| panic!("no {name}"))
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => Some(u64::try_from(*number).expect("not negative")),
        Value::Nil => None,
        other => panic!("{other:?}"),
    }
}

/// A row of LATE: key, database, age, overdue.
type Row = (Option<String>, Option<u64>, u64, Option<u64>);

fn worst(client: &mut Connection, count: usize) -> Vec<Row> {
    let Value::Array(rows) = client.ask(&format!("DEHYDRATOR.LATE COUNT {count}")) else {
        panic!("an array")
    };
    let row = |row: Value| {
        let Value::Array(row) = row else { panic!("a row") };
        let [key, db, age, overdue] = &row[..] else { panic!("{row:?}") };
        let key: Option<String> = redis::from_redis_value(key.clone()).expect("text");
        (key, number(db), number(age).expect("an age"), number(overdue))
    };
    rows.into_iter().map(row).collect()
}

#[test]
fn a_backlog_is_visible_while_it_waits() {
    let (server, mut client) = Server::with_client(&[]);
    assert_eq!(oldest(&server), 0);
    for id in 0..100 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 x {id}"));
        client.ask(&format!("DEHYDRATOR.PUSH later 600000 x {id}"));
    }
    let since = time(&mut client);
    let least = overdue(&mut client, since) / 1000;
    let age = number(&field(&mut client, "k", "oldest-due-ms")).expect("an age");
    assert!((least..least + 2000).contains(&age), "{age}, not {least}");
    assert_eq!(field(&mut client, "k", "overdue"), Value::Int(100));
    assert_eq!(field(&mut client, "k", "due"), Value::Int(100));
    assert_eq!(field(&mut client, "later", "oldest-due-ms"), Value::Nil);
    assert_eq!(field(&mut client, "later", "overdue"), Value::Int(0));
    assert_eq!(field(&mut client, "nowhere", "oldest-due-ms"), Value::Nil);
    until("it is 2 s old", || (oldest(&server) >= 2).then_some(()));
    // Elements that have just come due are due, but not overdue.
    client.ask("DEHYDRATOR.PUSH k 0 x new");
    assert_eq!(field(&mut client, "k", "due"), Value::Int(101));
    assert_eq!(field(&mut client, "k", "overdue"), Value::Int(100));
    // While paused, nothing is deliverable.
    client.ask("DEHYDRATOR.PAUSE k");
    assert_eq!((oldest(&server), field(&mut client, "k", "overdue")), (0, Value::Int(0)));
    assert_eq!(field(&mut client, "k", "due"), Value::Int(101));
    client.ask("DEHYDRATOR.RESUME k");
    assert_eq!(oldest(&server), 0, "it could not be delivered before");
    client.ask("DEHYDRATOR.POLL k");
    assert_eq!(oldest(&server), 0);
}

#[test]
fn a_replica_has_nothing_overdue_until_it_is_promoted() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.PUSH k 0 x a");
    replica.follow(&primary);
    let mut other = replica.connect();
    until("it is there", || (other.ask("DEHYDRATOR.LEN k") == Value::Int(1)).then_some(()));
    until("it is overdue", || (oldest(&primary) >= 2).then_some(()));
    assert_eq!((oldest(&replica), worst(&mut other, 5).len()), (0, 0));
    assert_eq!(field(&mut other, "k", "oldest-due-ms"), Value::Nil);
    let promoted = now(&mut other);
    other.ask("REPLICAOF NO ONE");
    until("it is overdue", || (oldest(&replica) >= 1).then_some(()));
    assert!(now(&mut other) >= promoted + 1000);
}

#[test]
fn the_oldest_keys_are_listed_with_their_current_names() {
    let (_server, mut client) = Server::with_client(&[]);
    for (number, key) in ["a", "b", "c"].iter().enumerate() {
        client.ask(&format!("SELECT {number}"));
        client.ask(&format!("DEHYDRATOR.PUSH {key} 0 x 1"));
        let since = time(&mut client);
        until("some time", || (time(&mut client) > since + 1_100_000).then_some(()));
    }
    client.ask("SELECT 0");
    let named = |client: &mut Connection, names: &[(&str, u64)]| {
        until("all are found", || {
            let rows = worst(client, names.len());
            let found = rows.iter().zip(names).all(|((key, db, _, overdue), (name, number))| {
                key.as_deref() == Some(*name) && *db == Some(*number) && *overdue == Some(1)
            });
            (found && rows.len() == names.len()).then_some(rows)
        })
    };
    let rows = named(&mut client, &[("a", 0), ("b", 1), ("c", 2)]);
    assert!(rows[0].2 >= rows[1].2 + 1000 && rows[1].2 >= rows[2].2 + 1000, "{rows:?}");
    assert_eq!(worst(&mut client, 1).len(), 1);
    assert_eq!(client.ask("DEHYDRATOR.LEN a"), Value::Int(1), "the same database is selected");
    // Memory of the name does not count as the key's.
    let usage = cmd("MEMORY USAGE a").query::<u64>(&mut client).expect("a number");
    client.ask("RENAME a other");
    named(&mut client, &[("other", 0), ("b", 1)]);
    client.ask("RENAME other a");
    named(&mut client, &[("a", 0), ("b", 1)]);
    // Some servers store the name with the value, and report another size after a rename.
    let again = cmd("MEMORY USAGE a").query::<u64>(&mut client).expect("a number");
    assert!(again.abs_diff(usage) <= 16, "{again} bytes after {usage}");
    client.ask("SWAPDB 0 1");
    named(&mut client, &[("a", 1), ("b", 0)]);
    client.ask("MOVE b 5");
    named(&mut client, &[("a", 1), ("b", 5), ("c", 2)]);
    client.ask("SELECT 1");
    client.ask("DEL a");
    client.ask("SET a text");
    named(&mut client, &[("b", 5), ("c", 2)]);
    client.ask("FLUSHALL");
    // They may be freed in the background.
    until("no key is left", || worst(&mut client, 64).is_empty().then_some(()));
    for line in ["DEHYDRATOR.LATE COUNT 0", "DEHYDRATOR.LATE COUNT x", "DEHYDRATOR.LATE k"] {
        assert!(client.refused(line).starts_with("ERR "), "{line}");
    }
}

/// The keys, and for each the earliest moment since when an overdue element could be delivered.
type Model = [BTreeMap<String, u64>; DBS];

struct Draw(u64);

impl Draw {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % below
    }
}

/// Runs one command, and updates the model accordingly.
fn step(client: &mut Connection, model: &mut Model, draw: &mut Draw, number: usize) {
    let (db, key, other) = (draw.below(DBS), draw.below(12), draw.below(12));
    let (key, other) = (format!("k{key}"), format!("k{other}"));
    client.ask(&format!("SELECT {db}"));
    let there = model[db].contains_key(&key);
    let kind = draw.below(40);
    match kind {
        0..16 => {
            let ttl = [0, 0, 30, 700, 100_000][draw.below(5)];
            client.ask(&format!("DEHYDRATOR.PUSH {key} {ttl} x {number}"));
        }
        16..20 => _ = client.ask(&format!("DEHYDRATOR.POLL {key} COUNT {}", 1 + draw.below(3))),
        20..23 => _ = client.ask(&format!("DEHYDRATOR.POLL {key} COUNT 1 LEASE 400")),
        23..26 => _ = client.ask(&format!("{} {key}", ["DEL", "UNLINK"][draw.below(2)])),
        26..28 if there => {
            client.ask(&format!("RENAME {key} {other}"));
            if key != other
                && let Some(floor) = model[db].remove(&key)
            {
                model[db].insert(other, floor);
            }
        }
        28..30 if there && key != other => {
            let at = now(client);
            client.ask(&format!("COPY {key} {other} REPLACE"));
            model[db].insert(other, at);
        }
        30..32 => {
            let to = draw.below(DBS);
            if to != db && client.ask(&format!("MOVE {key} {to}")) == Value::Int(1) {
                let floor = model[db].remove(&key).expect("it was there");
                model[to].insert(key, floor);
            }
        }
        32 => {
            let with = draw.below(DBS);
            client.ask(&format!("SWAPDB {db} {with}"));
            model.swap(db, with);
        }
        33..35 => _ = client.ask(&format!("DEHYDRATOR.PAUSE {key}")),
        35..37 => {
            let at = now(client);
            if client.ask(&format!("DEHYDRATOR.RESUME {key}")) == Value::Int(1) {
                model[db].insert(key, at);
            }
        }
        37..39 if there => {
            let at = now(client);
            let dump = redis::cmd("DUMP").arg(&key).query::<Vec<u8>>(client).expect("a dump");
            let mut restore = redis::cmd("RESTORE");
            restore.arg(&other).arg(0).arg(dump).arg("REPLACE").exec(client).expect("it is back");
            model[db].insert(other, at);
        }
        39 if number.is_multiple_of(7) => {
            client.ask(["FLUSHDB ASYNC", "FLUSHDB SYNC"][draw.below(2)]);
        }
        _ => {}
    }
    // Some commands create keys, and some delete them.
    for (db, keys) in model.iter_mut().enumerate() {
        client.ask(&format!("SELECT {db}"));
        let there: Vec<String> = cmd("KEYS *").query(client).expect("keys");
        keys.retain(|key, _| there.contains(key));
        there.into_iter().for_each(|key| _ = keys.entry(key).or_insert(0));
    }
}

/// Returns the ages of all keys with deliverable elements, in milliseconds, the oldest first.
fn ages(client: &mut Connection, model: &Model) -> Vec<(u64, String, u64)> {
    let mut ages = Vec::new();
    for (db, keys) in model.iter().enumerate() {
        client.ask(&format!("SELECT {db}"));
        for (key, floor) in keys {
            let info: HashMap<String, Value> =
                cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
            let now = now(client);
            let next = number(&info["next-deadline"]).filter(|_| info["paused"] == Value::Int(0));
            let told = number(&info["oldest-due-ms"]);
            let age = next.filter(|next| *next <= now).map(|next| now - next.max(*floor).min(now));
            if let (Some(age), Some(told)) = (age, told) {
                assert!(told.abs_diff(age) < 1000, "{key}: {told}, not {age}");
                ages.push((age, key.clone(), db as u64));
            }
        }
    }
    ages.sort();
    ages.reverse();
    ages
}

#[test]
fn the_age_of_the_oldest_is_exact_to_a_second_whatever_happens_to_keys() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    let (mut model, mut draw) = (Model::default(), Draw(7));
    for number in 0..600 {
        step(&mut client, &mut model, &mut draw, number);
        if !number.is_multiple_of(12) {
            continue;
        }
        let before = ages(&mut client, &model).first().map_or(0, |first| first.0);
        let told = oldest(&server) * 1000;
        let after = ages(&mut client, &model).first().map_or(0, |first| first.0);
        assert!(told + 2000 > before && told <= after, "{before} <= {told} <= {after}");
    }
    // In the end, all of the oldest are found.
    until("all are found", || {
        let ages = ages(&mut client, &model);
        let rows = worst(&mut client, 64);
        let is_of = |row: &Row| {
            let mut names = ages.iter();
            let one = names.find(|(_, key, db)| Some(key) == row.0.as_ref() && Some(*db) == row.1);
            one.is_some_and(|(age, ..)| age.abs_diff(row.2) < 1000)
        };
        let overdue = ages.iter().filter(|(age, ..)| *age > 1500).count();
        (rows.len() >= overdue.min(64) && rows.iter().all(is_of)).then_some(())
    });
    // A thread of the server frees them.
    client.ask("FLUSHALL ASYNC");
    until("none is left", || (oldest(&server) == 0).then_some(()));
}
