//! The capacity of one node, and the number of nodes for a load: docs/scaling.md.
//!
//! Everything that one machine allows is measured, and stored in benches/scaling/constants.toml: the costs of commands
//! to the server's main thread, bytes, a full sync. Larger cases, such as a billion timers or an outage of an hour, are
//! simulated with those constants. Cases that can be both measured and simulated are compared, and the page states the
//! difference.
//!
//! ```text
//!   cargo bench -p dehydrator-benches --bench scaling                 measures and simulates: some minutes
//!   cargo bench -p dehydrator-benches --bench scaling -- simulate     simulates with the stored constants, and writes the page
//!   cargo bench -p dehydrator-benches --bench scaling -- ten-million  the part with ten million elements: 4 GB of memory
//!   cargo bench -p dehydrator-benches --bench scaling -- commands     only the costs of commands
//!   cargo bench -p dehydrator-benches --bench scaling -- lives        only the bytes of an element's life
//!   cargo bench -p dehydrator-benches --bench scaling -- trials       only the comparisons with the simulation
//! ```

mod commands;
mod constants;
mod job;
mod lives;
mod memory;
mod model;
mod node;
mod patience;
mod probe;
mod report;
mod storms;
mod sync;
mod trial;
mod trials;

use std::time::Instant;

use benches::machine;
use constants::Constants;
use probe::Probe;

const MILLION: usize = 1_000_000;

/// The options of a durable server: an append-only file, and a replica.
const DURABLE: [&str; 6] = [
    "--appendonly",
    "yes",
    // Neither a rewrite nor a heartbeat is part of an element's life.
    "--auto-aof-rewrite-percentage",
    "0",
    "--repl-ping-replica-period",
    "3600",
];

/// Measures the costs of commands, on a standalone and on a durable server, and the bytes of an element's life.
fn commands(constants: &mut Constants) {
    let probe = Probe::start_pinned(&[]);
    for figures in [commands::pipelined(&probe, ""), commands::one_by_one(&probe)] {
        figures.medians().for_each(|(name, figure)| constants.set(&name, figure));
    }
    drop(probe);
    let (probe, _replica) = lives(constants);
    let figures = commands::pipelined(&probe, "_durable");
    figures.medians().for_each(|(name, figure)| constants.set(&name, figure));
}

/// Measures the bytes of an element's life, to a replica and to the append-only file. Returns the primary and the
/// replica.
fn lives(constants: &mut Constants) -> (Probe, Probe) {
    probe::unpin();
    let replica = Probe::start(&[]);
    let probe = Probe::start_pinned(&DURABLE);
    replica.follow(&probe);
    for life in &lives::LIVES {
        let [replica, file] = lives::measure(life, &probe);
        constants.set(&format!("life_{}_replica_bytes", life.name), replica);
        constants.set(&format!("life_{}_aof_bytes", life.name), file);
    }
    (probe, replica)
}

/// Measures memory and a full sync, with this many elements.
fn sizes(constants: &mut Constants, count: usize, with: &str) {
    probe::unpin();
    let probe = memory::measure(count, with, constants);
    sync::measure(&probe, count, with, constants);
}

fn trials(constants: &mut Constants) {
    let costs = model::costs(constants);
    trials::measure(constants, costs);
    probe::unpin();
}

fn main() {
    // Skip the argument that cargo adds.
    let parts: Vec<_> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let mut constants = Constants::read();
    let started = Instant::now();
    let mut measured = |part: &str, measure: fn(&mut Constants)| {
        measure(&mut constants);
        constants.write();
        println!("{part}: {:.0} s after the beginning", started.elapsed().as_secs_f64());
    };
    let ten_million = |constants: &mut Constants| sizes(constants, 10 * MILLION, "_of_ten_million");
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            measured("machine", |constants| constants.set_head(machine()));
            measured("commands", commands);
            measured("sizes", |constants| sizes(constants, MILLION, ""));
            measured("trials", trials);
        }
        ["simulate"] => {}
        ["ten-million"] => measured("ten million", ten_million),
        ["commands"] => measured("commands", commands),
        ["lives"] => measured("lives", |constants| drop(lives(constants))),
        ["trials"] => measured("trials", trials),
        _ => panic!("{parts:?}: it may be simulate, ten-million, commands, lives or trials"),
    }
    // The page is about the most common server.
    if std::env::var_os("DEHYDRATOR_SERVER").is_none() {
        report::write(&constants);
    }
    println!("{:.0} s in all", started.elapsed().as_secs_f64());
}

/// Describes the machine that the figures were measured on.
fn machine() -> Vec<String> {
    let described = machine::describe();
    let machine = described.lines().next().expect("a line").trim_start_matches("- ").to_owned();
    let probe = Probe::start(&[]);
    let info: String = harness::cmd("INFO server").query(&mut probe.connect()).expect("INFO");
    let named = |name: &str| {
        let field = format!("{name}_version:");
        let version = info.lines().find_map(|line| line.strip_prefix(&field))?;
        Some(format!("{name} {}", version.trim()))
    };
    // Valkey also reports a Redis version, for compatibility.
    let version = ["valkey", "redis"].into_iter().find_map(named).expect("a version");
    vec![machine, format!("{version}; each figure is the median of several rounds")]
}
