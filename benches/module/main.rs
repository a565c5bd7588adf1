//! Compares the module with what Redis users have today, on the same server in the same run.
//!
//! CPU time is the server's own (`INFO cpu`), so it excludes the client, kernel time of other processes, and waiting.
//! It includes the server's socket calls, for all sides alike. Times differ between machines and between hours: the
//! ratios are the result. Each figure is the median of [`ROUNDS`] rounds, in each of which all sides run one after the
//! other. A ratio is that of the printed medians.
//!
//! `REDE_MODULE` is the path of ReDe's .so, to measure it as well. An argument selects one part: `deadlines`,
//! `workers`, `limits`, or `hash-fields` (hashes whose fields expire, on servers that have them); or `charts`, which
//! only redraws the charts from the tables in docs/figures/.

mod deadlines;
mod host;
mod limits;
mod rede;
mod ways;
mod workers;

use std::env;

use benches::chart::{Bar, Family};
use benches::table::{Column, Table, columns};
use benches::{chart, page};
use harness::nodes::Cluster;
use host::{COUNT, Host};
use ways::Way;

const ROUNDS: usize = 5;

/// Titles of the columns of [`Host::by_id`].
const PUT_AWAY: &str = "store, us";
const TAKEN: &str = "take by id, us";
const SIZES: [&str; 3] = ["16 + 64", "16 + 1", "left after all but one are taken"];

fn times() -> [Column; 4] {
    [
        Column::new(0, 2, PUT_AWAY),
        Column::ratio(0, 2, "× SET"),
        Column::new(1, 2, TAKEN),
        Column::ratio(1, 2, "× GETDEL"),
    ]
}

fn sizes() -> Vec<Column> {
    columns(2, 1, &SIZES)
}

/// Returns the line above the tables.
fn head(host: &mut Host) -> String {
    let version = host.version();
    format!(
        "{COUNT} elements, 16-byte ids, 64-byte elements; medians of {ROUNDS} rounds; {version}\n"
    )
}

/// Returns our server with all its ways, and ReDe's, if there is one.
fn hosts() -> Vec<Host> {
    let mut hosts = vec![Host::ours()];
    match rede::module() {
        Some(_) => hosts.push(Host::with(Way::Rede)),
        None => eprintln!("{} names no module: the tables have no ReDe", rede::VARIABLE),
    }
    hosts
}

/// The measurements with one client.
#[derive(Default)]
struct Tables {
    by_id: Table,
    at_once: Table,
    /// One column per dehydrator.
    verbs: Table,
    dumps: Table,
    pauses: Table,
}

impl Tables {
    fn note_round(&mut self, hosts: &mut [Host]) {
        for (column, host) in hosts.iter_mut().enumerate() {
            host.by_id(&mut self.by_id);
            host.all_at_once(&mut self.at_once);
            host.verbs(&mut self.verbs, column);
            host.dumps(&mut self.dumps);
        }
    }

    fn note_pauses(&mut self, ways: &[Way]) {
        for way in ways {
            self.pauses.note_all(way.name(), 0, &host::slowest(*way));
        }
    }

    fn told(&self, dehydrators: &[Way]) -> String {
        let names: Vec<_> = dehydrators.iter().map(|way| way.name()).collect();
        let mut pauses = columns(0, 1, &["slowest command, ms"]);
        pauses.extend(columns(1, 0, &["commands over 0.5 ms"]));
        let mut dumps = columns(0, 2, &["save, us per element", "load, us per element"]);
        dumps.extend(columns(2, 1, &["bytes per element"]));
        let at_once = [Column::new(0, 3, "us per element"), Column::ratio(0, 3, "× LPOP")];
        [
            self.by_id.written("server CPU", &times()),
            self.by_id.written("bytes per element", &sizes()),
            self.at_once.written("taking all due elements at once", &at_once),
            self.verbs.written("server CPU, us", &columns(0, 2, &names)),
            self.dumps.written("dumps", &dumps),
            self.pauses.written("growing to ten million", &pauses),
        ]
        .join("\n")
    }
}

/// Measures everything that one client can, on our server and on ReDe's.
fn one_worker() {
    let mut hosts = hosts();
    let mut tables = Tables::default();
    for _ in 0..ROUNDS {
        tables.note_round(&mut hosts);
    }
    let dehydrators = &[Way::Dehydrator, Way::Rede][..hosts.len()];
    tables.note_pauses(&[&[Way::Set, Way::Pipelined], dehydrators].concat());
    let told = [head(&mut hosts[0]), tables.told(dehydrators)].join("\n");
    println!("{told}");
    if is_for_the_page() {
        page::put("module", told.trim_end());
        draw();
    }
}

/// Returns whether the results are for the page, which is about the most common server.
fn is_for_the_page() -> bool {
    env::var_os("DEHYDRATOR_SERVER").is_none()
}

/// Returns the name of a way in charts.
fn chart_name(row: &str) -> String {
    let name = match row {
        "SET" => "SET, no timer",
        "SET PX" => "SET PX, no notification",
        "ZSET + HASH, pipelined" => "sorted set and hash, pipelined",
        "ZSET + HASH, by Lua" => "sorted set and hash, by Lua",
        "dehydrator" => "Dehydrator",
        "ReDe" => "ReDe, its predecessor",
        other => other,
    };
    name.to_owned()
}

/// Returns the family of a way.
fn family(row: &str) -> Family {
    match row {
        "SET" => Family::Plain,
        "SET PX" => Family::Expiry,
        "dehydrator" => Family::Ours,
        "ReDe" => Family::Forebear,
        _ => Family::Sorted,
    }
}

/// Draws the chart from the table on the page, ours first.
fn draw() {
    let table = page::tables("module").swap_remove(0);
    let bar = |row: &str| {
        let numbers = [PUT_AWAY, TAKEN].map(|column| table.number(row, column));
        let value = numbers.into_iter().sum::<Option<f64>>()?;
        Some(Bar { name: chart_name(row), value, colour: family(row).into() })
    };
    let mut bars: Vec<_> = table.rows().filter_map(bar).collect();
    bars.sort_by_key(|bar| bar.colour.0 != Family::Ours);
    let title = "Store and take by id: microseconds of server CPU";
    chart::bars(&page::charts().join("module-time.svg"), title, &bars);
}

/// Measures hashes whose fields expire, with the floor and ours, on a server that has them.
fn hash_fields() {
    let mut host = Host::ours();
    host.keep(&[Way::Set, Way::HashField, Way::Dehydrator]);
    let mut by_id = Table::default();
    for _ in 0..ROUNDS {
        host.by_id(&mut by_id);
    }
    let told = [
        head(&mut host),
        by_id.written("server CPU", &times()),
        by_id.written("bytes per element", &sizes()),
    ]
    .join("\n");
    println!("{told}");
    page::put("module-hash-fields", told.trim_end());
}

/// Measures the cost of any deadline, compared with a few TTLs.
fn any_deadline() {
    let mut host = Host::ours();
    let mut table = Table::default();
    for _ in 0..ROUNDS {
        deadlines::measure(&mut host, &mut table);
    }
    let titles = ["PUSH", "TOUCH", "PULL", "bytes", "bytes, touched"];
    let columns = titles.into_iter().enumerate().flat_map(|(at, title)| {
        let digits = if at < 3 { 2 } else { 0 };
        [Column::new(at, digits, title), Column::ratio(at, digits, "× eight TTLs")]
    });
    let told = [
        format!(
            "{} elements in one key, 16-byte ids, 64-byte elements; microseconds of the main thread, TOUCH and PULL in \
             random order; medians of {ROUNDS} rounds; {}\n",
            deadlines::COUNT,
            host.version()
        ),
        table.written("us", &columns.collect::<Vec<_>>()),
    ]
    .join("\n");
    println!("{told}");
    if is_for_the_page() {
        page::put("module-deadlines", told.trim_end());
    }
}

/// Measures workers that share a key, and workers that share nothing.
fn many_workers() {
    const ROUNDS: usize = 3;
    let [mut sharing, mut spread] = <[Table; 2]>::default();
    let mut host = Host::ours();
    let cluster = Cluster::start(workers::NODES, 0);
    for _ in 0..ROUNDS {
        workers::consumers(&mut host, &mut sharing);
        workers::spread(&cluster, &mut spread);
    }
    let told = [
        format!(
            "Medians of {ROUNDS} rounds; {}; clients and servers share {} cores\n",
            host.version(),
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
        sharing.written(
            &format!("consumers of one key, {} elements per request", workers::TAKEN),
            &rates(&[
                "POLL: thousand per second",
                "server CPU each, us",
                "LPOP: thousand per second",
                "server CPU each, us",
            ]),
        ),
        spread.written(
            "workers that PUSH and POLL, pipelined",
            &rates(&["thousand commands per second", "server CPU each, us"]),
        ),
    ]
    .join("\n");
    println!("{told}");
    if is_for_the_page() {
        page::put("module-workers", told.trim_end());
    }
}

/// Measures blocked clients on a key with a limit.
fn held_back() {
    const ROUNDS: usize = 3;
    let mut table = Table::default();
    for _ in 0..ROUNDS {
        limits::held(&mut table);
        limits::rate(&mut table);
        limits::free(&mut table);
    }
    let mut titles = columns(0, 2, &["median, ms", "p99", "max"]);
    titles.extend(columns(3, 1, &["server CPU each, us"]));
    let told = [
        format!(
            "{} sleepers on one key; from the moment that capacity is free (SETTLE is sent, the window ends, or, without a \
             limit, PUSH is sent) to the next reply; medians of {ROUNDS} rounds; {}\n",
            limits::SLEEPERS,
            Host::ours().version()
        ),
        table.written("woken", &titles),
    ]
    .join("\n");
    println!("{told}");
    if is_for_the_page() {
        page::put("module-limits", told.trim_end());
    }
    let mut table = Table::default();
    for _ in 0..ROUNDS {
        limits::fair(&mut table, "without groups", ["", ""]);
        limits::fair(&mut table, "a group for each tenant", ["large", "small"]);
    }
    let mut titles = columns(0, 0, &["elements before it"]);
    titles.extend(columns(1, 1, &["PUSH to reply, ms"]));
    let told = [
        format!(
            "{} sleepers on one key with HELD {}, where {} elements of a large tenant are due: the next element of a small \
             one; medians of {ROUNDS} rounds; {}\n",
            limits::SLEEPERS,
            limits::HELD,
            limits::BACKLOG,
            Host::ours().version()
        ),
        table.written("the small tenant's element", &titles),
    ]
    .join("\n");
    println!("{told}");
    if is_for_the_page() {
        page::put("module-groups", told.trim_end());
    }
}

/// Returns the columns that [`workers`] records: alternating operations and microseconds.
fn rates(titles: &[&'static str]) -> Vec<Column> {
    let column = |(at, title): (usize, &&'static str)| Column::new(at, at % 2 * 2, title);
    titles.iter().enumerate().map(column).collect()
}

fn main() {
    // Skip the argument that cargo adds.
    let parts: Vec<_> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            one_worker();
            any_deadline();
            many_workers();
            held_back();
        }
        ["deadlines"] => any_deadline(),
        ["workers"] => many_workers(),
        ["limits"] => held_back(),
        ["hash-fields"] => hash_fields(),
        ["charts"] => draw(),
        _ => panic!("{parts:?}: it may be deadlines, workers, limits, hash-fields or charts"),
    }
}
