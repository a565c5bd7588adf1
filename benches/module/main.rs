//! The module beside what Redis users have today, on the same server in the same run.
//!
//! Processor time is the server's own (`INFO cpu`), so it leaves out the client, the kernel's share of
//! another process, and waiting; the sockets' part is in it, for all sides alike. Times differ from
//! machine to machine and from hour to hour: the ratios are the result. Each figure is the median of
//! [`ROUNDS`] rounds, in each of which all sides run one after the other.

#[path = "../chart.rs"]
#[allow(dead_code)]
mod chart;
#[path = "../../tests/server/harness.rs"]
#[allow(dead_code)]
mod harness;
#[path = "../page.rs"]
mod page;
mod ways;

use std::fs;

use redis::{Connection, ConnectionLike, Pipeline, Value};

use harness::{Ask, Server, cmd, until};
use ways::Way;

const COUNT: usize = 200_000;
const ROUNDS: usize = 5;
/// Elements in a pipeline.
const BATCH: usize = 1000;
/// Bytes of an element, large and small.
const LARGE: usize = 64;
const SMALL: usize = 1;
/// As many as wait when the greatest pause is looked for.
const MANY: usize = 10_000_000;

/// 16 bytes, not in order of number, as real ids are not.
fn id(number: usize) -> String {
    format!("{:016x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Bytes that look like nothing else: a server compresses what it dumps, and real elements differ.
fn element(number: usize, length: usize) -> Vec<u8> {
    let mut state = number as u64;
    let mut word = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).to_le_bytes()
    };
    let mut bytes: Vec<u8> =
        std::iter::repeat_with(&mut word).take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}

/// Pipelines of commands, packed before anything is timed, with the number of replies to each.
fn pipelines(count: usize, mut add: impl FnMut(&mut Pipeline, usize)) -> Vec<(Vec<u8>, usize)> {
    let batch = |first: usize| {
        let mut pipe = redis::pipe();
        (first..(first + BATCH).min(count)).for_each(|number| add(&mut pipe, number));
        (pipe.get_packed_pipeline(), pipe.len())
    };
    (0..count).step_by(BATCH).map(batch).collect()
}

/// The server's own processor time so far, in microseconds.
fn cpu_us(client: &mut Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(client).expect("INFO");
    let seconds = |field: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.expect("a field").trim().parse().expect("a number")
    };
    (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6
}

/// Runs something and returns the server's processor time for each of `count`, in microseconds.
fn timed<T>(client: &mut Connection, count: usize, run: impl FnOnce(&mut Connection) -> T) -> f64 {
    let before = cpu_us(client);
    run(client);
    (cpu_us(client) - before) / count as f64
}

/// Sends everything. No reply may be an error, or nil where something was asked for.
fn send(client: &mut Connection, pipelines: &[(Vec<u8>, usize)]) {
    for (pipeline, replies) in pipelines {
        let replies = client.req_packed_commands(pipeline, 0, *replies).expect("replies");
        let is_wrong = |reply: &Value| matches!(reply, Value::ServerError(_) | Value::Nil);
        assert!(!replies.iter().any(is_wrong), "{replies:?}");
    }
}

fn pushes(way: Way, length: usize) -> Vec<(Vec<u8>, usize)> {
    pipelines(COUNT, |pipe, number| {
        way.push(pipe, number as u64, &id(number), &element(number, length));
    })
}

fn used(client: &mut Connection) -> f64 {
    client.info("memory", "used_memory") as f64
}

fn empty(client: &mut Connection) -> f64 {
    client.ask("FLUSHALL SYNC");
    until("all is freed", || {
        (client.info("memory", "lazyfree_pending_objects") == 0).then_some(())
    });
    used(client)
}

/// Rows of figures, of each of which the median over all rounds is shown.
#[derive(Default)]
struct Table {
    rows: Vec<(String, Vec<Vec<f64>>)>,
}

impl Table {
    fn note(&mut self, row: &str, column: usize, figure: f64) {
        let at = self.rows.iter().position(|(name, _)| name == row).unwrap_or_else(|| {
            self.rows.push((row.to_owned(), Vec::new()));
            self.rows.len() - 1
        });
        let columns = &mut self.rows[at].1;
        columns.resize(columns.len().max(column + 1), Vec::new());
        columns[column].push(figure);
    }

    /// The table in Markdown.
    fn written(&self, corner: &str, columns: &[&str], digits: usize) -> String {
        let mut lines = format!("| {corner} | {} |\n", columns.join(" | "));
        lines += &format!("| --- |{}\n", " ---: |".repeat(columns.len()));
        for (name, figures) in &self.rows {
            let shown = |column: usize| match figures.get(column) {
                Some(figures) if figures.iter().all(|figure| figure.fract() == 0.0) => {
                    figures.first().map_or(String::new(), |_| format!("{}", median(figures)))
                }
                Some(figures) => format!("{:.digits$}", median(figures)),
                _ => String::new(),
            };
            let cells: Vec<_> = (0..columns.len()).map(shown).collect();
            lines += &format!("| {name} | {} |\n", cells.join(" | "));
        }
        lines
    }

    /// One column as bars, ours first.
    fn bars(&self, column: usize) -> Vec<(String, f64)> {
        let figure = |figures: &[Vec<f64>]| median(&figures[column]);
        let named = |name: &str| match name {
            "dehydrator" => "our dehydrator".to_owned(),
            other => other.to_owned(),
        };
        let mut bars: Vec<_> =
            self.rows.iter().map(|(name, it)| (named(name), figure(it))).collect();
        bars.sort_by_key(|(name, _)| !name.starts_with("our "));
        bars
    }
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Each way to put away and to take by id: time, memory, what is left.
fn by_id(client: &mut Connection, times: &mut Table, bytes: &mut Table) {
    let mut floor = [f64::NAN; 2];
    for way in Way::of(client) {
        let (push, small) = (pushes(way, LARGE), pushes(way, SMALL));
        let pull = pipelines(COUNT, |pipe, number| way.pull(pipe, &id(number)));
        let before = empty(client);
        let each = |client: &mut Connection| (used(client) - before) / COUNT as f64;
        let push_us = timed(client, COUNT, |client| send(client, &push));
        bytes.note(way.name(), 0, each(client));
        // One element stays, so that what holds them does, and shows what it keeps.
        let mut last = redis::pipe();
        way.push(&mut last, 0, "last", &element(0, LARGE));
        last.exec(client).expect("replies");
        let pull_us = timed(client, COUNT, |client| send(client, &pull));
        bytes.note(way.name(), 2, each(client));
        empty(client);
        send(client, &small);
        bytes.note(way.name(), 1, each(client));
        if way == Way::Set {
            floor = [push_us, pull_us];
        }
        let figures = [push_us, push_us / floor[0], pull_us, pull_us / floor[1]];
        (0..).zip(figures).for_each(|(column, figure)| times.note(way.name(), column, figure));
    }
}

/// Everything is due, and taken at once: how long the server is busy with it, for each element.
fn all_at_once(client: &mut Connection, table: &mut Table) {
    empty(client);
    send(
        client,
        &pipelines(COUNT, |pipe, number| {
            _ = pipe.cmd("RPUSH").arg("list").arg(element(number, LARGE))
        }),
    );
    let lpop = cmd(&format!("LPOP list {COUNT}"));
    let floor = timed(client, COUNT, |client| lpop.exec(client).expect("a reply"));
    table.note("LPOP, a list without timers", 0, floor);
    table.note("LPOP, a list without timers", 1, 1.0);
    for way in Way::of(client) {
        let Some(polls) = way.poll(COUNT) else { continue };
        empty(client);
        if way == Way::Dehydrator {
            send(
                client,
                &pipelines(COUNT, |pipe, number| {
                    let push = pipe
                        .cmd("DEHYDRATOR.PUSH")
                        .arg("k")
                        .arg(number % 8)
                        .arg(element(number, LARGE));
                    push.arg(id(number));
                }),
            );
            until("all is due", || {
                let info: Vec<Value> = cmd("DEHYDRATOR.INFO k").query(client).expect("a map");
                (info[3] == Value::Int(COUNT as i64)).then_some(())
            });
        } else {
            send(client, &pushes(way, LARGE));
        }
        let us = timed(client, COUNT, |client| {
            polls.iter().for_each(|poll| poll.exec(client).expect("a reply"));
        });
        table.note(way.name(), 0, us);
        table.note(way.name(), 1, us / floor);
    }
}

/// What is asked for while nothing is due, with very many TTLs; and what else the verbs cost.
fn others(client: &mut Connection, table: &mut Table) {
    const TTLS: usize = 100_000;
    const ASKED: usize = 100_000;
    empty(client);
    send(
        client,
        &pipelines(TTLS, |pipe, number| {
            let push = pipe
                .cmd("DEHYDRATOR.PUSH")
                .arg("k")
                .arg(1_000_000 + number)
                .arg(element(number, LARGE));
            push.arg(id(number));
        }),
    );
    let mut ask = |name: &str, words: &[&str]| {
        let asks = pipelines(ASKED, |pipe, _| _ = pipe.cmd(words[0]).arg(&words[1..]));
        let us = timed(client, ASKED, |client| send(client, &asks));
        table.note(name, 0, us);
    };
    ask("PING", &["PING"]);
    ask("TTN with 100,000 TTLs", &["DEHYDRATOR.TTN", "k"]);
    ask("POLL with 100,000 TTLs, nothing due", &["DEHYDRATOR.POLL", "k"]);
    empty(client);
    let gidpush = pipelines(COUNT, |pipe, number| {
        pipe.cmd("DEHYDRATOR.GIDPUSH")
            .arg("k")
            .arg(ways::FAR + number as u64 % 8)
            .arg(element(number, LARGE));
    });
    let us = timed(client, COUNT, |client| send(client, &gidpush));
    table.note("GIDPUSH", 0, us);
    empty(client);
    send(
        client,
        &pipelines(20_000, |pipe, number| {
            pipe.cmd("DEHYDRATOR.PUSH")
                .arg("k")
                .arg(number % 8)
                .arg(element(number, LARGE))
                .arg(id(number));
        }),
    );
    until("all is due", || {
        let due: Vec<Value> = cmd("DEHYDRATOR.XPOLL k").query(client).expect("ids");
        (due.len() == 20_000).then_some(())
    });
    let us = timed(client, 1, |client| cmd("DEHYDRATOR.XPOLL k").exec(client).expect("ids"));
    table.note("XPOLL of 20,000, all of them", 0, us);
}

/// Saving and loading, for each element.
fn dumps(server: &Server, client: &mut Connection, table: &mut Table) {
    for way in Way::of(client).into_iter().filter(|way| *way != Way::Lua) {
        empty(client);
        send(client, &pushes(way, LARGE));
        let save = timed(client, COUNT, |client| client.ask("SAVE"));
        let bytes = fs::metadata(server.file("dump.rdb")).expect("a dump").len();
        let load = timed(client, COUNT, |client| client.ask("DEBUG RELOAD NOSAVE"));
        let figures = [save, load, bytes as f64 / COUNT as f64];
        (0..).zip(figures).for_each(|(column, figure)| table.note(way.name(), column, figure));
    }
}

/// The slowest single command of millions, by the server's slow log, in milliseconds, and how many took
/// longer than half of one.
fn slowest(way: Way) -> [f64; 2] {
    const NOTED_US: &str = "500";
    let server =
        Server::start(&["--slowlog-log-slower-than", NOTED_US, "--slowlog-max-len", "10000"]);
    let mut client = server.connect();
    for first in (0..MANY).step_by(10 * BATCH) {
        let batch = |pipe: &mut Pipeline, number| {
            let number = first + number;
            way.push(pipe, number as u64, &id(number), &element(number, LARGE));
        };
        send(&mut client, &pipelines(10 * BATCH, batch));
    }
    let logged: Vec<(u64, u64, u64, Value, Value, Value)> =
        cmd("SLOWLOG GET -1").query(&mut client).expect("a log");
    let slowest = logged.iter().map(|entry| entry.2).max().unwrap_or(0);
    [slowest as f64 / 1e3, logged.len() as f64]
}

fn main() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let [mut times, mut bytes, mut at_once, mut verbs, mut saved] = <[Table; 5]>::default();
    for _ in 0..ROUNDS {
        by_id(&mut client, &mut times, &mut bytes);
        all_at_once(&mut client, &mut at_once);
        others(&mut client, &mut verbs);
        dumps(&server, &mut client, &mut saved);
    }
    let mut pauses = Table::default();
    for way in [Way::Set, Way::Pipelined, Way::Dehydrator] {
        (0..)
            .zip(slowest(way))
            .for_each(|(column, figure)| pauses.note(way.name(), column, figure));
    }
    let by_id = ["put away, us", "beside SET", "taken by id, us", "beside GETDEL"];
    let sizes = ["16 + 64", "16 + 1", "left when all but one are taken"];
    let info = client.ask("INFO server");
    let version = format!("{info:?}");
    let version = ["valkey_version:", "redis_version:"].iter().find_map(|field| {
        let (_, rest) = version.split_once(field)?;
        Some(format!("{field}{}", rest.split("\\r").next()?))
    });
    let told = [
        format!(
            "{COUNT} elements, ids of 16 bytes, elements of 64; medians of {ROUNDS} rounds; {}\n",
            version.unwrap_or_default().replace("_version:", " ")
        ),
        times.written("the server's processor time", &by_id, 2),
        bytes.written("bytes for each", &sizes, 1),
        at_once.written("all are due, and taken at once", &["us for each", "beside LPOP"], 2),
        verbs.written("the server's processor time", &["us"], 2),
        saved.written("dumps", &["save, us for each", "load, us for each", "bytes for each"], 2),
        pauses.written(
            "on the way to ten million",
            &["slowest command, ms", "commands over 0.5 ms"],
            1,
        ),
    ]
    .join("\n");
    println!("{told}");
    // The page is about the server that most have.
    if std::env::var_os("DEHYDRATOR_SERVER").is_none() {
        page::put("module", told.trim_end());
        let charts = page::charts();
        let title = "To put away and take back by id: the server's processor time, us";
        let together = times.bars(0).into_iter().zip(times.bars(2));
        let together: Vec<_> =
            together.map(|((name, push), (_, pull))| (name, push + pull)).collect();
        chart::bars(&charts.join("module-time.svg"), title, &together, false);
        let title = "Memory for an element of 64 bytes with an id of 16, bytes";
        chart::bars(&charts.join("module-memory.svg"), title, &bytes.bars(0), false);
    }
}
