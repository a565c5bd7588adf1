//! Counts the module's functions, and their files, that a request runs through.
//!
//! It counts in the debug build, where the compiler inlines nothing, on a server with an append-only file and a key in
//! the full form. A function counts once, however often it runs; a closure counts as a function. Each row is counted
//! several times, and the smallest count is shown, because the server's cron or a flush of the file can interfere.
//!
//! Needs valgrind. An argument, part of a row's name, selects rows; `--list` also prints the functions.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;

use redis::{Connection, Value};

use benches::callgrind::{Host, Profile};
use harness::{cmd, debug_module, until};

const TIMES: usize = 8;
/// Many more than fit into the small form of a lawn.
const ELEMENTS: usize = 2000;
/// The delay of elements that come due during the count, in milliseconds: less than the second between two runs of the
/// server's cron, so that some counts contain none. The client blocks sooner, even under callgrind.
const DELAY: usize = 600;

/// A request: its name, and the function that counts it.
type Row = (&'static str, fn(&mut Host, usize) -> Profile);

fn main() {
    let arguments: Vec<_> = env::args().skip(1).filter(|it| it != "--bench").collect();
    let lists = arguments.iter().any(|it| it == "--list");
    let part = arguments.iter().find(|it| *it != "--list").cloned().unwrap_or_default();
    let module = env::var_os("DEHYDRATOR_MODULE").map_or_else(debug_module, PathBuf::from);
    let mut host = Host::start(&module, true);
    for number in 0..ELEMENTS {
        ask(
            &mut host.client,
            &format!("DEHYDRATOR.PUSH k {} element id-{number}", 3_600_000 + number % 8),
        );
    }
    let rows: [Row; 4] = [
        ("a PUSH", push),
        ("a SETTLE", settle),
        ("a sleeper that is woken with a lease", woken),
        ("a dead letter", dead_letter),
    ];
    for (row, run) in rows.into_iter().filter(|(row, _)| row.contains(&part)) {
        let counted = (0..TIMES).map(|time| run(&mut host, time).functions_below("src/"));
        let ours = counted.map(|functions| {
            functions.into_iter().filter(|(file, _)| is_ours(file)).collect::<BTreeSet<_>>()
        });
        let functions = ours.min_by_key(BTreeSet::len).expect("a count");
        let files: BTreeSet<_> = functions.iter().map(|(file, _)| file).collect();
        println!("{row:40} {:>4} functions, {:>3} files", functions.len(), files.len());
        if lists {
            functions.iter().for_each(|(file, name)| println!("    {file} {name}"));
        }
    }
}

/// Returns whether a file belongs to the module or to the core: paths within a crate of the workspace.
fn is_ours(file: &str) -> bool {
    let root = harness::root().canonicalize().expect("the repository");
    file.starts_with(root.join("src").to_str().expect("text")) || file.starts_with("src/")
}

fn ask(client: &mut Connection, line: &str) -> Value {
    cmd(line).query(client).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn push(host: &mut Host, time: usize) -> Profile {
    host.profile(|client| {
        ask(client, &format!("DEHYDRATOR.PUSH k 3600001 element pushed-{time}"));
    })
}

fn settle(host: &mut Host, time: usize) -> Profile {
    ask(&mut host.client, &format!("DEHYDRATOR.PUSH k 0 element settled-{time}"));
    ask(&mut host.client, &format!("DEHYDRATOR.POLL k COUNT 1 LEASE 3600000 TOKEN settle-{time}"));
    host.profile(|client| {
        let settled = ask(client, &format!("DEHYDRATOR.SETTLE k settle-{time} settled-{time}"));
        assert_eq!(settled, Value::Array(vec![Value::Int(1)]));
    })
}

/// Blocks a client, pushes an element, which comes due and is leased to the client. The POLL and the PUSH themselves
/// are not counted.
fn woken(host: &mut Host, time: usize) -> Profile {
    let mut sleeper = host.server.connect();
    let poll = cmd("DEHYDRATOR.POLL k COUNT 1 BLOCK 0 LEASE 3600000");
    let packed = poll.get_packed_command();
    sleeper.send_packed_command(&packed).expect("sent");
    until("a blocked client", || {
        let clients: String = cmd("INFO clients").query(&mut host.client).expect("INFO");
        clients.contains("blocked_clients:1").then_some(())
    });
    ask(&mut host.client, &format!("DEHYDRATOR.PUSH k {DELAY} element woken-{time}"));
    let profile = host.profile(|_| {
        let reply = sleeper.recv_response().expect("a reply");
        assert!(matches!(reply, Value::Array(rows) if rows.len() == 1));
    });
    ask(&mut host.client, &format!("DEHYDRATOR.PULL k woken-{time}"));
    profile
}

/// Lets the lease of an exhausted element expire, so that it is moved to a stream.
fn dead_letter(host: &mut Host, time: usize) -> Profile {
    ask(&mut host.client, "DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM dead");
    ask(&mut host.client, &format!("DEHYDRATOR.PUSH k 0 element dead-{time}"));
    ask(&mut host.client, &format!("DEHYDRATOR.POLL k COUNT 1 LEASE {DELAY}"));
    let profile = host.profile(|client| {
        until("a dead letter", || {
            let length = ask(client, "XLEN dead");
            (length == Value::Int(time as i64 + 1)).then_some(())
        });
    });
    ask(&mut host.client, "DEHYDRATOR.ONDUE k HOLD");
    profile
}
