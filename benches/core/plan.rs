//! The plan: which measurements run, how often, and in which order.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Measure;
use crate::builds::{BEFORE, PORTABLE, executable};
use crate::figures::Figures;
use crate::one::{COUNTED, OPERATIONS};
use crate::stores::ALL;
use crate::units;

/// The only peer with the same requirement: ids and elements of any length.
pub const ANY_LENGTH: &str = "hierarchy-any";
/// Stores whose cost grows with the number of timers: only for a few timers.
const LINEAR: [&str; 2] = ["ordered-list", "unordered-list"];
/// The stores that the goals are measured against: the best peers, and the floors.
const NEAR: [&str; 7] =
    ["lawn", "hierarchy", ANY_LENGTH, "delay-queue", "heap", "floor-arena", "floor-boxes"];
/// The best of each family, for long measurements.
pub const BEST: [&str; 5] = ["lawn", "paper", "hierarchy", "delay-queue", "heap"];
/// For ten million timers.
pub const LARGE: [&str; 5] = ["lawn", "hierarchy", ANY_LENGTH, "floor-arena", "floor-boxes"];
/// Numbers of TTLs, with each of which the life of a timer is measured; eight is included.
pub const TTLS: [usize; 4] = [1, 8, 10_000, 1_000_000];
pub const GROWTH: [&str; 4] = ["lawn", "hierarchy", "delay-queue", "floor-boxes"];
/// Stores that are measured with all kinds of deadlines in one run, and stores that are measured with them once.
pub const ANY_DEADLINE: [&str; 3] = ["lawn", ANY_LENGTH, "heap"];
pub const ANY_DEADLINE_FAR: [&str; 3] = ["hierarchy", "delay-queue", "btree"];
/// Stores that support TTLs beyond the range of a simple wheel.
pub const OVERFLOW: [&str; 4] = ["lawn", "overflow-wheel", "hierarchy", "heap"];
/// Percentages of timers beyond that range.
pub const SHARES: [usize; 5] = [0, 1, 10, 50, 100];
/// The numbers of timers for that: an O(n) pause shows beside a tenth of n.
pub const CROWDS: [usize; 2] = [100_000, 1_000_000];
pub const INSTRUCTIONS: [&str; 9] = [
    "lawn",
    BEFORE,
    PORTABLE,
    "hierarchy",
    ANY_LENGTH,
    "delay-queue",
    "heap",
    "floor-arena",
    "floor-boxes",
];
/// Rounds of the most important comparisons. The machine may be slow for one, and once was for every second round.
const ROUNDS: usize = 5;
/// Returns the file with the figures of the last run.
pub fn figures_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/core-figures.tsv")
}

/// Returns the instructions that valgrind counts within [`crate::one::measured`], if it is installed.
fn instructions(exe: &Path, words: &[&str], numbers: &[(&str, usize)]) -> Option<f64> {
    let numbers = numbers.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=core::one::measured*"])
        .arg(exe)
        .args(words)
        .args(numbers)
        .output();
    let Ok(output) = output else {
        eprintln!("no valgrind, no instructions counted");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    let count = collected.and_then(|(_, count)| count.trim().parse().ok());
    let count = count.filter(|_| output.status.success());
    if count.is_none() {
        eprintln!("valgrind says: {text}");
    }
    count
}

struct Plan {
    figures: Figures,
    began: Instant,
    quick: bool,
}

impl Plan {
    /// Runs a measure for all these stores, for `rounds` rounds.
    fn measure<'a>(
        &mut self,
        rounds: usize,
        measure: &Measure,
        stores: impl IntoIterator<Item = &'a str> + Clone,
    ) {
        self.measure_in_turn(rounds, std::slice::from_ref(measure), stores);
    }

    /// Runs measures for all these stores, for `rounds` rounds, in each of which all take a turn.
    fn measure_in_turn<'a>(
        &mut self,
        rounds: usize,
        measures: &[Measure],
        stores: impl IntoIterator<Item = &'a str> + Clone,
    ) {
        for round in 1..=rounds {
            let each = measures
                .iter()
                .flat_map(|measure| stores.clone().into_iter().map(move |store| (measure, store)));
            for (measure, store) in each {
                let Measure { kind, timers, ttls, count, ticks } = measure;
                eprintln!(
                    "{:4} s  {kind} {store}, {timers} timers, {ttls} TTLs, count {count} ({round}/{rounds})",
                    self.began.elapsed().as_secs(),
                );
                let Some((exe, name)) = executable(store) else { continue };
                let mut child = Command::new(exe);
                child.args([kind, name]);
                for (name, value) in [
                    ("--timers", *timers as u64),
                    ("--ttls", *ttls as u64),
                    ("--count", *count as u64),
                    ("--ticks", *ticks),
                ] {
                    child.args([name, &value.to_string()]);
                }
                // The process keeps freed memory, see `lifecycle`.
                child.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
                let output = child.stderr(Stdio::inherit()).output().expect("a process");
                assert!(output.status.success(), "{kind} of {store} failed");
                for line in String::from_utf8(output.stdout).expect("text").lines() {
                    let (figure, value) = line.split_once('\t').expect("a name and a value");
                    self.figures.add(measure, store, figure, value.parse().expect("a number"));
                }
            }
        }
        self.save();
    }

    /// Writes the figures, so that an interrupted run can be reported.
    fn save(&self) {
        if !self.quick {
            std::fs::write(figures_file(), self.figures.to_text()).expect("target/ is there");
        }
    }

    /// Counts instructions per operation, if valgrind is installed.
    fn count_instructions(&mut self, stores: &[&str], ttls: usize) {
        let measure = Measure::new("instructions", COUNTED, ttls);
        for store in stores {
            for operation in OPERATIONS {
                if store.starts_with("floor") && !["start", "stop"].contains(&operation) {
                    continue;
                }
                eprintln!(
                    "{:4} s  instructions {store} {operation}, {ttls} TTLs",
                    self.began.elapsed().as_secs()
                );
                let Some((exe, name)) = executable(store) else { continue };
                let words = ["one", name, operation];
                let numbers = [("--timers", COUNTED), ("--ttls", ttls)];
                let Some(count) = instructions(&exe, &words, &numbers) else { return };
                let operations = if operation == "quiet" { COUNTED - 1 } else { COUNTED };
                self.figures.add(&measure, store, operation, count / operations as f64);
            }
        }
        self.save();
    }
}

/// Measures everything, into [`figures_file`].
pub fn run() {
    let mut plan = Plan { figures: Figures::default(), began: Instant::now(), quick: false };
    everything(&mut plan);
    eprintln!("{:4} s  done", plan.began.elapsed().as_secs());
}

/// Repeats the life of a timer in some stores, in turn. All other figures stay as in the last run.
pub fn run_again(stores: &[&str]) {
    let text = std::fs::read_to_string(figures_file()).expect("the figures of a whole run");
    let figures = Figures::from_text(&text);
    let mut plan = Plan { figures, began: Instant::now(), quick: false };
    for (rounds, measure) in [
        (3, Measure::new("life", 10_000, 8)),
        (3, Measure::new("life", 1_000_000, 8)),
        (3, Measure::new("fenced", 1_000_000, 8)),
        (1, Measure::new("life", 10_000_000, 8)),
    ] {
        stores.iter().for_each(|store| plan.figures.forget(&measure, store));
        plan.measure(rounds, &measure, stores.iter().copied());
    }
    let measure = Measure::new("instructions", COUNTED, 8);
    stores.iter().for_each(|store| plan.figures.forget(&measure, store));
    plan.count_instructions(stores, 8);
}

/// Returns the cases of one run: eight TTLs, more of them, and deadlines without TTLs.
pub fn deadlines_of(timers: usize) -> impl Iterator<Item = usize> {
    TTLS.into_iter().filter(move |ttls| (8..=timers).contains(ttls)).chain([0])
}

/// Returns the measure for this many timers, with this percentage beyond the range of a simple wheel.
pub fn overflow(timers: usize, share: usize) -> Measure {
    Measure { count: share, ..Measure::new("overflow", timers, 8) }
}

/// Returns the stores with timers, that is, all but the floors.
pub fn timed() -> impl Iterator<Item = &'static str> + Clone {
    ALL.into_iter().filter(|store| !store.starts_with("floor"))
}

fn scalable(store: &&str) -> bool {
    !LINEAR.contains(store)
}

/// Measures everything, with the most rounds for the main comparisons.
fn everything(plan: &mut Plan) {
    let in_turn = |store: &&str| ANY_DEADLINE.contains(store);
    any_deadline(plan);
    plan.measure(3, &Measure::new("life", 10_000, 8), ALL.into_iter().filter(|it| !in_turn(it)));
    let all_scalable = ALL.into_iter().filter(scalable);
    let (near, far): (Vec<_>, Vec<_>) = all_scalable.partition(|store| NEAR.contains(store));
    let others = near.iter().copied().filter(|it| !in_turn(it));
    plan.measure(ROUNDS, &Measure::new("life", 1_000_000, 8), others.chain([PORTABLE]));
    let fenced = near.iter().copied().chain([BEFORE, PORTABLE]);
    plan.measure(ROUNDS, &Measure::new("fenced", 1_000_000, 8), fenced);
    plan.measure(1, &Measure::new("life", 1_000_000, 8), far);
    plan.measure(1, &Measure::new("growth", 10_000_000, 8), GROWTH);
    plan.measure(1, &Measure::new("life", 10_000_000, 8), LARGE.into_iter().chain([BEFORE]));
    for share in SHARES {
        for timers in CROWDS {
            plan.measure(1, &overflow(timers, share), OVERFLOW);
        }
    }
    for count in [32, 256, 2_048, 32_768] {
        let ticks = units::ticks(count as u32, 256);
        plan.measure(3, &Measure { count, ticks, ..Measure::new("units", 0, 0) }, units::STORES);
    }
    plan.count_instructions(&INSTRUCTIONS, 8);
    for ttls in TTLS.into_iter().filter(|ttls| *ttls != 8) {
        let others = timed().filter(|it| ttls < 8 || !in_turn(it));
        let few = Measure::new("life", 10_000, ttls);
        if few.ttls <= few.timers {
            plan.measure(3, &few, others.clone());
        }
        plan.measure(1, &Measure::new("life", 1_000_000, ttls), others.filter(scalable));
    }
}

/// Measures the effect of the number of TTLs, and of deadlines without TTLs.
fn any_deadline(plan: &mut Plan) {
    for timers in [10_000, 1_000_000] {
        let cases: Vec<_> =
            deadlines_of(timers).map(|ttls| Measure::new("life", timers, ttls)).collect();
        plan.measure_in_turn(ROUNDS, &cases, ANY_DEADLINE.into_iter().chain([BEFORE]));
        plan.measure(1, &Measure::new("life", timers, 0), ANY_DEADLINE_FAR);
    }
    for ttls in [10, 1_000, 10_000, 100_000, 1_000_000] {
        plan.measure(3, &Measure::new("steady", 1_000_000, ttls), BEST.into_iter().chain([BEFORE]));
    }
}
