//! Compares the core with other ways to keep timers: every scheme of Varghese and Lauck, the best libraries, the
//! paper's own pseudo-code, and stores without timers.
//!
//! ```text
//!   cargo bench -p dehydrator-benches --bench core                  everything; rewrites the tables and charts in docs/
//!   cargo bench -p dehydrator-benches --bench core -- --check       only checks that all stores are correct
//!   cargo bench -p dehydrator-benches --bench core -- --again a,b   repeats the life of a timer in these stores, with the rest from the last run
//!   cargo bench -p dehydrator-benches --bench core -- --report      rewrites the tables and charts from the figures of the last run
//!   cargo bench -p dehydrator-benches --bench core -- charts        redraws the charts, and docs/benchmarks.md, from docs/figures/
//!   cargo test --bench core                   like --check
//!   … -- life lawn --timers 1000000 --ttls 8  one measurement, see `Measure`
//!   … -- one lawn start --timers 10000        one operation, see `one`
//!   BEFORE=path cargo bench -p dehydrator-benches --bench core      compared with another build of this bench, whose core is called `before`
//! ```
//!
//! Each measurement of each store runs in its own process, one after the other, so that all find fresh memory. A round
//! covers all stores before the next one begins, so that other load on the machine affects all of them.
//!
//! | module | noun |
//! |---|---|
//! | `store` | the interface of a store of timers |
//! | `stores` | the stores, including ours |
//! | `named`, `lists` | the table of ids and the lists for the classic schemes |
//! | `oracle` | the model that each store must agree with first |
//! | `lifecycle`, `steady`, `growth`, `units`, `overflow`, `one` | the measurements |
//! | `plan` | the choice of measurements |
//! | `figures`, `report`, `markdown`, `charts`, `chart`, `page`, `machine` | the results |
//! | `load`, `due`, `memory`, `stopwatch` | ids and TTLs; TTLs or deadlines; the counting allocator; the CPU time of the thread |

mod builds;
mod charts;
mod due;
mod figures;
mod growth;
mod lifecycle;
mod lists;
mod load;
mod memory;
mod named;
mod one;
mod oracle;
mod overflow;
mod plan;
mod report;
mod steady;
mod stopwatch;
mod store;
mod stores;
mod units;

use lexopt::prelude::*;
use store::Store;

/// One measurement and its size: the command line of a measuring process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Measure {
    /// `life`, `fenced`, `steady`, `growth`, `overflow` or `units`.
    pub kind: String,
    pub timers: usize,
    /// 0: an absolute deadline for each, see [`due::Due`].
    pub ttls: usize,
    /// For measures without timers: units, percent.
    pub count: usize,
    pub ticks: u64,
}

impl Measure {
    pub fn new(kind: &str, timers: usize, ttls: usize) -> Self {
        Self { kind: kind.into(), timers, ttls, count: 1, ticks: 0 }
    }

    fn run(&self, store: &str, say: &mut dyn FnMut(&str, f64)) {
        let Self { timers, ttls, count, ticks, .. } = *self;
        match self.kind.as_str() {
            "life" => for_store!(store, life(timers, ttls, say)),
            "fenced" => for_store!(store, fenced_life(timers, ttls, say)),
            "steady" => for_store!(store, steady(timers, ttls, say)),
            "growth" => for_store!(store, growth(timers, ttls, say)),
            "overflow" => for_store!(store, overflow(timers, ttls, count, say)),
            "units" => units::run(store, count as u32, ticks, say),
            other => panic!("there is no measure called {other}"),
        }
    }
}

// The macro needs names without paths.
use growth::run as growth;
use lifecycle::{run as life, run_fenced as fenced_life};
use one::run as one_operation;
use overflow::run as overflow;
use steady::run as steady;

fn check<S: Store>(seed: u64) {
    oracle::check::<S>(seed);
}

/// Checks every store against the model, with a new seed each time.
fn check_all() {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = clock.map_or(0, |since| since.as_nanos() as u64);
    for store in stores::ALL {
        for_store!(store, check(seed));
    }
    eprintln!("{} stores agree with the model under seed {seed}", stores::ALL.len());
}

fn main() -> Result<(), lexopt::Error> {
    let mut words: Vec<String> = Vec::new();
    let mut measure = Measure::new("", 1_000_000, 8);
    // Cargo passes --bench to benches, and nothing to tests.
    let (mut bench, mut only_check, mut only_report) = (false, false, false);
    let mut again = None;
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Long("bench") => bench = true,
            Long("check") => only_check = true,
            Long("report") => only_report = true,
            Long("again") => again = Some(args.value()?.string()?),
            Long("timers") => measure.timers = args.value()?.parse()?,
            Long("ttls") => measure.ttls = args.value()?.parse()?,
            Long("count") => measure.count = args.value()?.parse()?,
            Long("ticks") => measure.ticks = args.value()?.parse()?,
            Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    let mut words = words.iter().map(String::as_str);
    match (words.next(), words.next(), words.next()) {
        (Some("one"), Some(store), Some(operation)) => {
            for_store!(store, one_operation(operation, measure.timers, measure.ttls));
        }
        (Some("charts"), None, None) => charts::draw(),
        (Some(kind), Some(store), None) => {
            measure.kind = kind.into();
            measure.run(store, &mut |figure, value| println!("{figure}\t{value}"));
        }
        (None, ..) if only_report || again.is_some() => {
            if let Some(stores) = again {
                plan::run_again(&stores.split(',').collect::<Vec<_>>());
            }
            report::write();
            charts::draw();
        }
        (None, ..) => {
            check_all();
            if only_check {
                return Ok(());
            }
            if bench {
                plan::run();
                report::write();
                charts::draw();
            }
        }
        _ => return Err("a measure and a store are wanted".into()),
    }
    Ok(())
}
