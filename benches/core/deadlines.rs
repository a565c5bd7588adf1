//! A quick comparison of many TTLs, and of deadlines without TTLs, with eight TTLs.
//!
//! ```text
//!   cargo bench -p dehydrator-benches --bench core -- --deadlines               about two minutes; with --rounds 1, one
//!   cargo bench -p dehydrator-benches --bench core -- --adversary               deadlines of an adversary; --timers 100000
//!   BEFORE=path cargo bench -p dehydrator-benches --bench core -- --deadlines   compared with another build of this bench; twice as long
//! ```
//!
//! All cases take turns in each round, so that other load on the machine affects all of them. Cache pollution by other
//! programs only makes a round slower, so the fastest round is shown.

use crate::builds::{BEFORE, OURS};
use crate::figures::Figures;
use crate::one::COUNTED;
use crate::{Measure, adversary};
use benches::markdown::{cell, head, number, short, table};

/// Numbers of TTLs; 0 stands for deadlines without TTLs.
pub const CASES: [usize; 5] = [8, 1_000, 10_000, 1_000_000, 0];
/// Like [`CASES`], for timers that fire and start again.
pub const STEADY: [usize; 4] = [10, 10_000, 100_000, 1_000_000];
/// Like [`CASES`], for ten thousand timers whose instructions are counted.
pub const COUNTED_CASES: [usize; 3] = [8, COUNTED, 0];

const OPERATIONS: [&str; 5] = ["start", "restart", "touch", "stop", "expire"];

/// Returns the name of a number of TTLs.
pub fn name(ttls: usize) -> String {
    match ttls {
        0 => "`AT` at random".into(),
        1 => "1 TTL".into(),
        _ => format!("{} TTLs", short(ttls)),
    }
}

/// Returns a table of these figures: a row for each case, with its ratio to the first case, and the same for the other
/// build if it was measured.
fn cases(
    figures: &Figures,
    corner: &str,
    columns: &[&str],
    measures: impl Iterator<Item = Measure>,
) -> String {
    let mut rows = Vec::new();
    let mut first: Option<Measure> = None;
    for measure in measures {
        let first = first.get_or_insert_with(|| measure.clone());
        let mut row = |said: &str, cell: &dyn Fn(&str) -> Option<String>| {
            let cells: Vec<_> = columns.iter().map(|it| cell(it).unwrap_or_default()).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                rows.push([vec![said.to_owned()], cells].concat());
            }
        };
        for (store, said) in [(OURS, name(measure.ttls)), (BEFORE, "– before".into())] {
            row(&said, &|column| {
                let value = figures.least(&measure, store, column)?;
                let times = value / figures.least(first, store, column)?;
                Some(format!("{} (×{times:.2})", number(value)))
            });
        }
        row("– now / before", &|column| {
            let now = figures.least(&measure, OURS, column)?;
            Some(format!("{:.2}", now / figures.least(&measure, BEFORE, column)?))
        });
    }
    table(&head(corner, columns), rows)
}

/// Returns the adversary's effect on ours, and on the other build of it.
pub fn show_adversary(figures: &Figures, measure: &Measure) -> String {
    let columns = ["ns", "slowest", "slowest of a run", "slowest, instructions"];
    let rows = adversary::said().into_iter().map(|said| {
        let cells = columns.map(|column| {
            let of = |store| figures.least(measure, store, &format!("{said}: {column}"));
            match (of(OURS), of(BEFORE)) {
                (Some(now), Some(before)) => format!("{} / {}", number(before), number(now)),
                (now, _) => cell(now),
            }
        });
        std::iter::once(said.clone()).chain(cells).collect()
    });
    let titles = ["ns", "slowest, us", "slowest of a run, us", "slowest, instructions"];
    let corner = format!("{} timers, before / now", number(measure.timers as f64));
    table(&head(&corner, &titles), rows)
}

/// Returns all results.
pub fn show(figures: &Figures, timers: usize, rounds: usize) -> String {
    let life = CASES.map(|ttls| Measure::new("life", timers, ttls));
    let steady = STEADY.map(|ttls| Measure::new("steady", timers, ttls));
    let counted = COUNTED_CASES.map(|ttls| Measure::new("instructions", COUNTED, ttls));
    let times = [&OPERATIONS[..], &["bytes"]].concat();
    let corner = format!("{} timers, ns (× the first row)", number(timers as f64));
    [
        format!("The least of {rounds} rounds.\n"),
        cases(figures, &corner, &times, life.into_iter()),
        cases(figures, "a timer that fires and starts again, ns", &["fire"], steady.into_iter()),
        cases(figures, "10,000 timers, instructions", &OPERATIONS, counted.into_iter()),
    ]
    .join("\n")
}
