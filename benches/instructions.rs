//! The cost of each command to the server, in processor instructions, compared with the equivalents in Redis; and the
//! bytes that the life of an element sends to a replica.
//!
//! Instructions differ by no more than a few per mille between runs, whatever else the machine does. Valgrind's
//! callgrind counts everything in the server's process: reading the command, running it, replying, the event loop, and
//! the append-only file, if there is one. It does not count the kernel.
//!
//! [`COUNT`] commands of each kind, in pipelines of [`BATCH`]. A *leased job* is pushed, leased and settled; in a
//! stream, it is added, read by a consumer, acknowledged and deleted.
//!
//! The same commands without groups, beside [`GROUPS`] groups, and in them, show what groups cost.
//!
//! Needs valgrind. `PROFILE=folder` keeps callgrind's output, one file per row, for `callgrind_annotate`. The argument
//! `plain` or `file` counts only without or with an append-only file, and `groups` only the price of groups.

use std::env;
use std::fs;
use std::path::PathBuf;

use redis::{Cmd, Connection, ConnectionLike, FromRedisValue, Value};

use benches::callgrind::{Host, SERVER, server_itself};
use benches::load::{connect, element, id};
use benches::page;
use harness::{Server, cmd};

const COUNT: usize = 20_000;
const BATCH: usize = 64;
const BYTES: usize = 64;
/// The number of different TTLs, few as in most uses.
const TTLS: usize = 8;

fn packed(commands: &[Cmd]) -> (Vec<u8>, usize) {
    let packed = commands.iter().flat_map(Cmd::get_packed_command).collect();
    (packed, commands.len())
}

/// Sends commands. Returns the instructions per command, and the replies.
fn count(host: &mut Host, row: &str, commands: &[Cmd]) -> (f64, Vec<Value>) {
    let pipelines: Vec<_> = commands.chunks(BATCH).map(packed).collect();
    let mut replies = Vec::with_capacity(commands.len());
    let profile = host.profile(|client| {
        for (packed, count) in pipelines {
            let some = client.req_packed_commands(&packed, 0, count).expect("replies");
            let is_wrong = |reply: &Value| matches!(reply, Value::ServerError(_) | Value::Nil);
            assert!(!some.iter().any(is_wrong), "{row}: {some:?}");
            replies.extend(some);
        }
    });
    if let Some(kept) = env::var_os("PROFILE").map(PathBuf::from) {
        fs::create_dir_all(&kept).expect("a folder");
        fs::write(kept.join(row.replace(' ', "-")), profile.text()).expect("a file");
    }
    (profile.instructions() / commands.len() as f64, replies)
}

/// Returns a command for each number.
fn each(mut command: impl FnMut(usize) -> Cmd) -> Vec<Cmd> {
    (0..COUNT).map(&mut command).collect()
}

fn push(key: &str, ttl: usize, number: usize) -> Cmd {
    let mut push = redis::cmd("DEHYDRATOR.PUSH");
    push.arg(key).arg(ttl).arg(element(number, BYTES)).arg(id(number));
    push
}

/// Returns a TTL that is far from due.
fn far(number: usize) -> usize {
    3_600_000 + 1000 * (number % TTLS)
}

/// Returns the token and the id of a lease, from the reply of POLL.
fn held(replies: &[Value]) -> Vec<(String, String)> {
    let row = |reply: &Value| {
        let rows: Vec<(String, Value, u64, String)> =
            FromRedisValue::from_redis_value(reply.clone()).expect("rows");
        let (id, _, _, token) = rows.into_iter().next().expect("a row");
        (token, id)
    };
    replies.iter().map(row).collect()
}

/// Returns the commands that settle what POLL leased.
fn settles(key: &str, replies: &[Value]) -> Vec<Cmd> {
    let settle = |(token, id)| cmd(&format!("DEHYDRATOR.SETTLE {key} {token} {id}"));
    held(replies).into_iter().map(settle).collect()
}

const LEASE: &str = "DEHYDRATOR.POLL due COUNT 1 LEASE 3600000";

/// Counts what it takes to take due elements, and to lease and settle them. `due` pushes them.
fn count_due(
    host: &mut Host,
    due: &[Cmd],
    note: &mut impl FnMut(&mut Host, &'static str, &[Cmd]) -> Vec<Value>,
) {
    count(host, "due", due);
    note(host, "POLL COUNT 1", &each(|_| cmd("DEHYDRATOR.POLL due COUNT 1")));
    count(host, "due", due);
    let replies = note(host, "POLL COUNT 1 LEASE", &each(|_| cmd(LEASE)));
    note(host, "SETTLE", &settles("due", &replies));
}

/// Returns the id of the first entry, from the reply of XREADGROUP.
fn entry(reply: &Value) -> String {
    type Entries = Vec<(String, Vec<(String, Value)>)>;
    let streams: Entries = FromRedisValue::from_redis_value(reply.clone()).expect("entries");
    streams[0].1[0].0.clone()
}

/// The number of groups, each of which has elements.
const GROUPS: usize = 100;

/// Where the elements of a row are, and the command that puts one there.
type Placed = (&'static str, fn(&str, usize, usize) -> Cmd);

fn push_in_group(key: &str, ttl: usize, number: usize) -> Cmd {
    let mut push = push(key, ttl, number);
    push.arg("GROUP").arg(format!("tenant {}", number % GROUPS));
    push
}

/// Counts the instructions per command, and the bytes of an element, without groups, beside groups and in them. Returns
/// the rows of a table.
fn of_groups() -> Vec<(&'static str, [f64; 3])> {
    let places: [Placed; 3] = [("no group", push), ("beside", push), ("in", push_in_group)];
    let mut host = Host::start(&harness::release_module(), false);
    let mut rows: Vec<(&'static str, [f64; 3])> = Vec::new();
    for (column, (place, push)) in places.into_iter().enumerate() {
        let mut put = |row, number| match rows.iter_mut().find(|it| it.0 == row) {
            Some((_, numbers)) => numbers[column] = number,
            None => rows.push((row, [number, 0.0, 0.0])),
        };
        let mut note = |host: &mut Host, row, commands: &[Cmd]| {
            let named = format!("{row}, {place}");
            eprintln!("{named}");
            let (count, replies) = count(host, &named, commands);
            put(row, count);
            replies
        };
        cmd("FLUSHALL").exec(&mut host.client).expect("OK");
        if place == "beside" {
            for key in ["k", "due"] {
                let others = (COUNT..COUNT + GROUPS).map(|it| push_in_group(key, far(it), it));
                count(&mut host, "others", &others.collect::<Vec<_>>());
            }
        }
        note(&mut host, "PUSH", &each(|number| push("k", far(number), number)));
        let bytes: u64 = cmd("MEMORY USAGE k").query(&mut host.client).expect("bytes");
        let touch = |number| cmd(&format!("DEHYDRATOR.TOUCH k {} {}", far(number + 1), id(number)));
        note(&mut host, "TOUCH", &each(touch));
        let pull = |number| cmd(&format!("DEHYDRATOR.PULL k {}", id(number)));
        note(&mut host, "PULL", &each(pull));
        let due = each(|number| push("due", number % TTLS, number));
        count_due(&mut host, &due, &mut note);
        put("bytes per element", bytes as f64 / COUNT as f64);
    }
    rows
}

/// Instructions per command, by row.
type Counted = Vec<(&'static str, f64)>;

fn counted(with_file: bool) -> Counted {
    let module = harness::release_module();
    let mut host = Host::start(&module, with_file);
    let mut counted = Counted::new();
    let mut note = |host: &mut Host, row: &'static str, commands: &[Cmd]| {
        eprintln!("{row}{}", if with_file { ", with a file" } else { "" });
        let (count, replies) = count(host, row, commands);
        counted.push((row, count));
        replies
    };
    let set = |number| {
        let mut set = redis::cmd("SET");
        set.arg(id(number)).arg(element(number, BYTES));
        set
    };
    note(&mut host, "SET", &each(set));
    note(&mut host, "GETDEL", &each(|number| cmd(&format!("GETDEL {}", id(number)))));
    let set_px = |number| {
        let mut set = set(number);
        set.arg("PX").arg(far(number));
        set
    };
    note(&mut host, "SET PX", &each(set_px));
    cmd("FLUSHALL").exec(&mut host.client).expect("OK");

    note(&mut host, "PUSH", &each(|number| push("k", far(number), number)));
    let touch = |number| cmd(&format!("DEHYDRATOR.TOUCH k {} {}", far(number + 1), id(number)));
    note(&mut host, "TOUCH", &each(touch));
    let pull = |number| cmd(&format!("DEHYDRATOR.PULL k {}", id(number)));
    note(&mut host, "PULL", &each(pull));

    let rpush = |number| {
        let mut rpush = redis::cmd("RPUSH");
        rpush.arg("list").arg(element(number, BYTES));
        rpush
    };
    note(&mut host, "RPUSH", &each(rpush));
    note(&mut host, "LPOP", &each(|_| cmd("LPOP list")));
    let due = each(|number| push("due", number % TTLS, number));
    count_due(&mut host, &due, &mut note);

    cmd("DEHYDRATOR.ONDUE due HOLD DELIVERIES 5 STREAM dead").exec(&mut host.client).expect("OK");
    note(&mut host, "PUSH, HOLD DELIVERIES", &due);
    let replies = note(&mut host, "POLL COUNT 1 LEASE, HOLD DELIVERIES", &each(|_| cmd(LEASE)));
    note(&mut host, "SETTLE, HOLD DELIVERIES", &settles("due", &replies));

    cmd("XGROUP CREATE stream group $ MKSTREAM").exec(&mut host.client).expect("OK");
    let xadd = |number| {
        let mut xadd = redis::cmd("XADD");
        xadd.arg("stream").arg("*").arg(id(number)).arg(element(number, BYTES));
        xadd
    };
    note(&mut host, "XADD", &each(xadd));
    let read = "XREADGROUP GROUP group worker COUNT 1 STREAMS stream >";
    let read = note(&mut host, "XREADGROUP COUNT 1", &each(|_| cmd(read)));
    let read: Vec<_> = read.iter().map(entry).collect();
    note(&mut host, "XACK", &each(|number| cmd(&format!("XACK stream group {}", read[number]))));
    note(&mut host, "XDEL", &each(|number| cmd(&format!("XDEL stream {}", read[number]))));
    counted
}

/// Measures the bytes that a replica receives for each command.
fn sent() -> Vec<(&'static str, f64)> {
    // SAFETY: this program has one thread.
    unsafe { env::set_var(SERVER, server_itself()) };
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = connect(&primary);
    let offset = || primary.info("replication", "master_repl_offset") as f64;
    let mut sent = Vec::new();
    let mut note = |row, client: &mut Connection, commands: &[Cmd]| {
        let before = offset();
        let mut replies = Vec::new();
        for (packed, count) in commands.chunks(BATCH).map(packed) {
            replies.extend(client.req_packed_commands(&packed, 0, count).expect("replies"));
        }
        sent.push((row, (offset() - before) / COUNT as f64));
        replies
    };
    note("PUSH", &mut client, &each(|number| push("jobs", number % TTLS, number)));
    let lease = each(|_| cmd("DEHYDRATOR.POLL jobs COUNT 1 LEASE 60000"));
    let replies = note("POLL COUNT 1 LEASE", &mut client, &lease);
    note("SETTLE", &mut client, &settles("jobs", &replies));
    let push = each(|number| push("jobs", far(number), number));
    note("PUSH, ttl of an hour", &mut client, &push);
    let touch = |number| cmd(&format!("DEHYDRATOR.TOUCH jobs {} {}", far(number + 1), id(number)));
    note("TOUCH", &mut client, &each(touch));
    note("PULL", &mut client, &each(|number| cmd(&format!("DEHYDRATOR.PULL jobs {}", id(number)))));
    sent
}

/// Ratios: a name, and the rows whose instructions are added up on each side.
const BESIDE: [(&str, &[&str], &[&str]); 6] = [
    ("PUSH / SET", &["PUSH"], &["SET"]),
    ("PUSH / SET PX", &["PUSH"], &["SET PX"]),
    ("PULL / GETDEL", &["PULL"], &["GETDEL"]),
    ("POLL COUNT 1 / LPOP", &["POLL COUNT 1"], &["LPOP"]),
    ("a leased job / a stream's", &JOB, &STREAM_JOB),
    ("a leased job, HOLD DELIVERIES / a stream's", &HOLD_JOB, &STREAM_JOB),
];
const JOB: [&str; 3] = ["PUSH", "POLL COUNT 1 LEASE", "SETTLE"];
const HOLD_JOB: [&str; 3] =
    ["PUSH, HOLD DELIVERIES", "POLL COUNT 1 LEASE, HOLD DELIVERIES", "SETTLE, HOLD DELIVERIES"];
const STREAM_JOB: [&str; 4] = ["XADD", "XREADGROUP COUNT 1", "XACK", "XDEL"];

fn sum(counted: &Counted, rows: &[&str]) -> f64 {
    let of = |row: &&str| counted.iter().find(|(name, _)| name == row).expect("it was counted").1;
    rows.iter().map(of).sum()
}

/// Formats a number with commas between thousands.
fn printed(number: f64) -> String {
    let number = number.round() as u64;
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{thousands},{:03}", number % 1000),
    }
}

fn groups_table() -> String {
    let mut told = format!(
        "| no file, no replica | no group | beside {GROUPS} groups | × no group | in one of {GROUPS} groups | × no group |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for (row, [none, beside, within]) in of_groups() {
        let [first, second, third] = [none, beside, within].map(printed);
        let (one, other) = (beside / none, within / none);
        told += &format!("| {row} | {first} | {second} | {one:.2} | {third} | {other:.2} |\n");
    }
    told
}

fn main() {
    let is_usual = env::var_os(SERVER).is_none();
    let server = server_itself();
    // Skip the argument that cargo adds.
    if let Some(part) = env::args().skip(1).find(|it| it != "--bench") {
        if part == "groups" {
            return println!("{}", groups_table());
        }
        assert!(["plain", "file"].contains(&&*part), "{part}: plain, file or groups");
        let counted = counted(part == "file");
        counted.iter().for_each(|(row, count)| println!("{row:40} {:>7}", printed(*count)));
        let ratio = |ours, theirs| sum(&counted, ours) / sum(&counted, theirs);
        BESIDE
            .iter()
            .for_each(|(row, ours, theirs)| println!("{row:50} {:.2}", ratio(ours, theirs)));
        return;
    }
    let (plain, file) = (counted(false), counted(true));
    let mut told = format!(
        "{COUNT} of each, in pipelines of {BATCH}; 16-byte ids, {BYTES}-byte elements\n\n\
         | instructions per command | no file, no replica | with an append-only file |\n| --- | ---: | ---: |\n"
    );
    for ((row, plain), (_, file)) in plain.iter().zip(&file) {
        told += &format!("| {row} | {} | {} |\n", printed(*plain), printed(*file));
    }
    told += "\n| ratios of the above | no file, no replica | with an append-only file |\n| --- | ---: | ---: |\n";
    for (row, ours, theirs) in BESIDE {
        let ratio = |counted| sum(counted, ours) / sum(counted, theirs);
        told += &format!("| {row} | {:.2} | {:.2} |\n", ratio(&plain), ratio(&file));
    }
    told += "\n| sent to a replica | bytes |\n| --- | ---: |\n";
    let sent = sent();
    for (row, bytes) in &sent {
        told += &format!("| {row} | {bytes:.0} |\n");
    }
    told += &format!("| PUSH, POLL COUNT 1 LEASE and SETTLE | {:.0} |\n\n", sum(&sent, &JOB));
    told += &groups_table();
    println!("{}\n\n{told}", server.display());
    // The page is about the most common server.
    if is_usual && env::var_os("PROFILE").is_none() {
        page::put("instructions", told.trim_end());
    }
}
