//! Writes docs/scaling.md: the tables and charts between its markers.

use crate::constants::Constants;
use crate::lives::LIVES;
use crate::model;
use crate::node::{LOAD, MEMORY_GB, Node};
use crate::storms::{AT_ONCE, Burst, DUE, JOBS, Storm, TIMERS, WORK, WORKERS, side_by_side};
use crate::trial::Outcome;
use crate::trials;
use benches::chart::{self, Colour, Family, Line};
use benches::markdown::{head, number, table};
use benches::page;
use simulation::tally::{Second, Tally};
use simulation::{MS, SECOND};

const PAGE: &str = "scaling.md";
/// Jobs per second for the figures about bandwidth and files.
const RATE: f64 = 10_000.0;
const DAY_S: f64 = 86_400.0;
/// Figures of the simulation with this error or more are not published.
const WRONG: f64 = 0.9;
/// The suffix of figures of a server with a replica and an append-only file.
const DURABLE: &str = "_durable";

/// The sections that the page only links to.
const IN_FILES: [&str; 5] = ["burst", "costs", "error", "lives", "sync"];

fn put(section: &str, content: &str) {
    let name = format!("scaling:{section}");
    if IN_FILES.contains(&section) {
        page::put(&name, content);
    } else {
        page::put_on(PAGE, &name, content);
    }
}

fn words(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Returns a row: its name, and numbers.
fn row(name: &str, numbers: &[f64]) -> Vec<String> {
    let cells = numbers.iter().map(|figure| number(*figure));
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// Rounds to two significant digits, which is enough for planning.
fn rough(figure: f64) -> String {
    let scale = 10_f64.powi(1 - figure.abs().log10().floor() as i32);
    number(if scale < 1.0 { (figure * scale).round() / scale } else { figure })
}

fn millions(figure: f64) -> String {
    format!("{} million", rough(figure / 1e6))
}

/// Writes everything on the page.
pub fn write(constants: &Constants) {
    let machine: Vec<_> = constants.head().iter().map(|line| format!("- {line}")).collect();
    put("machine", &machine.join("\n"));
    let node = Node(constants);
    put("node", &one_node(&node));
    put("costs", &costs(&node));
    put("lives", &lives(constants));
    put("nodes", &how_many(&node));
    put("burst", &bursts(&node));
    put("storm", &storms(constants));
    put("sync", &syncs(constants));
    put("error", &errors(constants));
}

fn one_node(node: &Node) -> String {
    let a_second = |us: f64| rough(1e6 / us);
    let line = |name: &str, figure: String| vec![name.to_owned(), figure];
    let rows = [
        line("elements, without saving", millions(node.elements(0.0))),
        line("elements, saving at 5,000 jobs per second", millions(node.elements(5000.0))),
        line("elements, saving at 20,000 jobs per second", millions(node.elements(20_000.0))),
        line("PUSH per second, one at a time", a_second(node.push_us("") + node.request_us())),
        line("PUSH per second, pipelined", a_second(node.push_us(""))),
        line("the same, durable", a_second(node.push_us("_durable"))),
        line(
            "leased and settled per second, one at a time",
            a_second(node.take_us(1, "") + 2.0 * node.request_us()),
        ),
        line(
            "leased and settled per second, `COUNT 100`",
            a_second(node.take_us(100, "") + node.request_us() / 50.0),
        ),
        line(
            "the same, durable",
            a_second(node.take_us(100, "_durable") + node.request_us() / 50.0),
        ),
        line("blocked clients woken per second", a_second(node.wake_us())),
    ];
    let corner = format!("one node: {MEMORY_GB:.0} GB, one core fully used");
    table(&words(&[&corner, ""]), rows)
}

fn costs(node: &Node) -> String {
    let us = |name: &str| node.0.get(&format!("{name}_us"));
    let both = |told: &str, name: &str| row(told, &[us(name), us(&format!("{name}_durable"))]);
    let rows = [
        both("PUSH", "push"),
        both("POLL of one", "take_1"),
        both("POLL of 100, per element", "take_100"),
        both("POLL LEASE of one", "lease_1"),
        both("POLL LEASE of 100, per element", "lease_100"),
        both("SETTLE of one", "settle_1"),
        both("SETTLE of 100, per element", "settle_100"),
        both("RENEW of one", "renew_1"),
        both("ONDUE STREAM, per element", "ondue_stream"),
    ];
    let pipelined =
        table(&head("pipelined, us of the server's main thread", &["standalone", "durable"]), rows);
    format!(
        "{pipelined}\nWithout pipelining, a request costs {} us more if one pass of the event loop reads many requests, and {} us \
         more on an idle server.\n",
        number(node.request_us()),
        number(us("ping_alone")),
    )
}

fn lives(constants: &Constants) -> String {
    let row = |life: &crate::lives::Life| {
        let bytes = |of: &str| constants.get(&format!("life_{}_{of}_bytes", life.name));
        row(life.told, &[bytes("replica").round(), (bytes("aof") * RATE * DAY_S / 1e9).round()])
    };
    table(
        &head(
            "commands for one element",
            &["bytes (replica or file)", "GB of file per day at 10,000 elements per second"],
        ),
        LIVES.iter().filter(|life| !["poll_100", "cancel"].contains(&life.name)).map(row),
    )
}

/// Returns the number of nodes for a billion timers.
fn nodes_for_memory(node: &Node) -> usize {
    (TIMERS / node.elements(5000.0)).ceil() as usize
}

fn how_many(node: &Node) -> String {
    let rates = [10_000.0, 100_000.0, 1_000_000.0];
    let counts = [(1, ""), (1, DURABLE), (100, ""), (100, DURABLE)];
    let rows = counts.map(|(count, with)| {
        let us = node.job_us(count, with);
        let durable = if with.is_empty() { "standalone" } else { "durable" };
        let nodes = rates.map(|rate| (rate * us / 1e6 / LOAD).ceil());
        row(&format!("`COUNT {count}`, {durable}"), &[&[us], &nodes[..]].concat())
    });
    let by_rate = table(
        &head(
            "PUSH, POLL LEASE, SETTLE",
            &["us per job", "nodes for 10,000 jobs per second", "100,000", "a million"],
        ),
        rows,
    );
    // An example, with the figures of the tables.
    const ELEMENTS: f64 = 200e6;
    const JOBS: f64 = 20_000.0;
    // As if one node did all jobs: the pessimistic row of the first table.
    let (elements, us) = (node.elements(JOBS), node.job_us(1, DURABLE));
    let (by_memory, by_work) = (ELEMENTS / elements, JOBS * us / 1e6 / LOAD);
    let nodes = by_memory.max(by_work).ceil();
    format!(
        "{by_rate}\n*Example.* 200 million elements, and 20,000 jobs per second with `COUNT 1`, durable. By memory: 200 \
         million / {} = {by_memory:.1}. By work: 20,000 * {} / 1,000,000 / {LOAD} = {by_work:.1}. So {nodes} nodes, one spare so that slots can move, and one replica each: {} servers.\n",
        millions(elements),
        number(us),
        2.0 * (nodes + 1.0),
    )
}

fn bursts(node: &Node) -> String {
    let costs = model::costs(node.0);
    let least = nodes_for_memory(node);
    let burst = |nodes, count, workers, work, within| Burst { nodes, count, workers, work, within };
    let seconds = |tally: &Tally| tally.last_delivery as f64 / SECOND as f64;

    // How fast enough workers get them.
    let nodes: Vec<_> = (0..4).map(|power| least << power).collect();
    let counts = [1, 10, 100];
    let workers = 64;
    let all: Vec<_> = counts
        .iter()
        .flat_map(|count| nodes.iter().map(|nodes| burst(*nodes, *count, workers, 0, SECOND)))
        .collect();
    let tallies = side_by_side(&all, |burst| burst.run(costs));
    let rows = nodes.iter().enumerate().map(|(at, nodes)| {
        let times = (0..counts.len()).map(|count| seconds(&tallies[count * 4 + at]));
        row(&format!("{nodes}"), &times.collect::<Vec<_>>())
    });
    let by_nodes = table(
        &head(
            "nodes, each with 64 workers that ask without pause: seconds until all are delivered",
            &["`COUNT 1`", "`COUNT 10`", "`COUNT 100`"],
        ),
        rows,
    );
    let lines = counts.iter().enumerate().map(|(count, name)| Line {
        name: format!("COUNT {name}"),
        colour: Colour(Family::Ours, count),
        points: (0..4).map(|at| (nodes[at] as f64, seconds(&tallies[count * 4 + at]))).collect(),
    });
    chart::lines(
        &page::charts().join("scaling-burst.svg"),
        "50 million of a billion timers come due in one second: time to deliver them all",
        "nodes",
        "seconds",
        &lines.rev().collect::<Vec<_>>(),
    );

    // The remedies. Their latency is not reported: if no backlog builds up, the simulation is wrong.
    let ways = [
        ("`COUNT 100`, deadlines spread over 10 s", burst(least, 100, 64, 0, 10 * SECOND)),
        ("`COUNT 10`, 64 workers that work for 10 ms", burst(least, 10, 64, 10 * MS, SECOND)),
        ("`COUNT 10`, 1,000 workers that work for 10 ms", burst(least, 10, 1000, 10 * MS, SECOND)),
        ("the same, deadlines spread over 60 s", burst(least, 10, 1000, 10 * MS, 60 * SECOND)),
    ];
    let tallies = side_by_side(&ways, |(_, burst)| burst.run(costs));
    let rows = ways.iter().zip(&tallies).map(|((told, _), tally)| row(told, &[seconds(tally)]));
    let by_way =
        table(&head(&format!("{least} nodes"), &["seconds until all are delivered"]), rows);
    format!(
        "{least} nodes hold a billion timers; on each, {} come due.\n\n{by_nodes}\n{by_way}",
        millions((DUE / least) as f64)
    )
}

fn storms(constants: &Constants) -> String {
    let costs = model::costs(constants);
    let storms = Storm::all();
    let tallies = side_by_side(&storms, |storm| storm.run(costs));
    let over = (Storm::over() / SECOND) as usize;
    let rows = storms.iter().zip(&tallies).map(|(storm, tally)| {
        let most = |seconds: &[Second]| {
            let most = seconds.iter().max_by_key(|second| second.deliveries);
            most.copied().unwrap_or_default()
        };
        // Without polls, some seconds have no entries.
        let mut seconds = tally.seconds.clone();
        seconds.resize(seconds.len().max(over), Second::default());
        let late = most(&seconds[over - 1800..over]);
        row(
            storm.told,
            &[
                tally.deliveries as f64 / tally.pushed as f64,
                late.deliveries as f64,
                (late.busy as f64 / SECOND as f64 * 100.0).round(),
                (tally.old_ended - Storm::over()) as f64 / (60 * SECOND) as f64,
                tally.dead as f64,
            ],
        )
    });
    let told = table(
        &head(
            "all work fails for an hour",
            &[
                "deliveries per job",
                "peak per second, last half hour",
                "% of a core then",
                "minutes to recover",
                "dead letters",
            ],
        ),
        rows,
    );
    let lines =
        storms.iter().zip(&tallies).skip(1).take(2).enumerate().map(|(at, (storm, tally))| Line {
            name: storm.short.into(),
            colour: Colour(Family::Ours, at),
            points: of_outage(&a_minute(tally)),
        });
    chart::curves(
        &page::charts().join("scaling-storm.svg"),
        "All work fails for an hour and is retried: deliveries in the busiest second of each minute",
        "minutes since the outage began",
        "deliveries per second",
        &lines.collect::<Vec<_>>(),
    );
    format!(
        "{} jobs per second, and {} more in the second in which the outage begins; {WORKERS} workers, {} ms per job, `COUNT 10`, one node.\n\n{told}",
        number(JOBS),
        number(AT_ONCE as f64),
        WORK / MS,
    )
}

/// Returns the minutes since the outage began, counted from 0.
fn of_outage(minutes: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let first = (crate::storms::BEFORE / (60 * SECOND)) as usize;
    let since = |(minute, point): (usize, &(f64, f64))| (minute as f64, point.1);
    minutes.iter().skip(first).enumerate().map(since).collect()
}

/// Returns the busiest second of each minute, in deliveries.
fn a_minute(tally: &Tally) -> Vec<(f64, f64)> {
    let minutes = tally.seconds.chunks(60).enumerate();
    let most = |seconds: &[Second]| {
        seconds.iter().map(|second| second.deliveries).max().unwrap_or(0) as f64
    };
    minutes.map(|(minute, seconds)| (minute as f64, most(seconds))).collect()
}

fn syncs(constants: &Constants) -> String {
    let sizes = [("a million", ""), ("ten million", "_of_ten_million")];
    let sizes =
        sizes.iter().filter(|(_, with)| constants.find(&format!("sync_total_s{with}")).is_some());
    let rows = sizes.map(|(told, with)| {
        let figure = |name: &str| constants.get(&format!("{name}{with}"));
        let count = if with.is_empty() { 1e6 } else { 1e7 };
        row(
            told,
            &[
                (figure("rdb_bytes") * count / 1e6).round(),
                figure("sync_receive_s"),
                figure("sync_load_s"),
                figure("sync_buffer_mb"),
                figure("sync_stall_ms"),
            ],
        )
    });
    table(
        &head(
            "elements (5,000 jobs per second meanwhile)",
            &[
                "RDB, MB",
                "write and receive, s",
                "load, s",
                "output buffer, MB",
                "longest client stall, ms",
            ],
        ),
        rows,
    )
}

fn errors(constants: &Constants) -> String {
    let mut trials = trials::trials(model::costs(constants));
    trials.retain(|trial| constants.find(&format!("trial_{}_waited_share", trial.name)).is_some());
    if trials.is_empty() {
        return "Not measured yet: `cargo bench -p dehydrator-benches --bench scaling -- trials`."
            .into();
    }
    let results = side_by_side(&trials, |trial| trials::simulated(&trial.plan));
    let measured =
        |trial: &trials::Trial, name: &str| constants.get(&format!("trial_{}_{name}", trial.name));
    // The error of the simulation, in percent.
    let error = |trial: &trials::Trial, result: &Outcome, name: &str| {
        let error = trials::figure(result, name) / measured(trial, name) - 1.0;
        assert!(error.abs() < WRONG, "{}, {name}: {error}", trial.told);
        (error * 100.0).round()
    };
    let row = |told: &str, begins: &str| {
        let of_kind: Vec<_> =
            trials.iter().zip(&results).filter(|(it, _)| it.name.starts_with(begins)).collect();
        let cells = ["given_out_s", "busy_s"].map(|name| {
            let errors = of_kind.iter().map(|(trial, result)| error(trial, result, name));
            let (least, greatest) = errors
                .fold((f64::INFINITY, f64::NEG_INFINITY), |so_far, it| {
                    (it.min(so_far.0), it.max(so_far.1))
                });
            // Adding zero turns -0 into 0.
            format!("{} to {} %", least + 0.0, greatest + 0.0)
        });
        let waited = of_kind.iter().map(|(trial, _)| measured(trial, "waited_share"));
        let waited = format!("{:.0} %", waited.fold(0.0, f64::max) * 100.0);
        vec![
            format!("{told}, {} trials", of_kind.len()),
            cells[0].clone(),
            cells[1].clone(),
            waited,
        ]
    };
    let bursts = table(
        &head("error", &["time until all are delivered", "server CPU", "CPU wait"]),
        [
            row("50,000 due within a second", "second"),
            row("50,000 due at the same moment", "moment"),
        ],
    );
    let storms = trials.iter().zip(&results).filter(|(trial, _)| trial.is_storm);
    let figures = ["deliveries", "peak", "dead", "recovered_s"];
    let errors = storms.flat_map(|(it, result)| figures.map(|name| error(it, result, name).abs()));
    let worst = errors.fold(0.0, f64::max);
    format!(
        "{bursts}\nIn storms of a few seconds, the simulated deliveries, peaks, dead letters and recovery times were within \
         {worst} % of the measured ones.\n"
    )
}
