//! Writes the tables of docs/figures/.

use crate::builds::{BEFORE, OURS, PORTABLE};
use crate::figures::Figures;
use crate::one::COUNTED;
use crate::plan::{
    ANY_DEADLINE, ANY_DEADLINE_FAR, BEST, CROWDS, GROWTH, INSTRUCTIONS, OVERFLOW, SHARES, TTLS,
    deadlines_of, figures_file, overflow, timed,
};
use crate::stores::wheel::SIMPLE;
use crate::stores::{ALL, label};
use crate::{Measure, units};
use benches::markdown::{NOTHING, cell, cell_or_dash, head, join, number, short, table};
use benches::{machine, page};

const OPERATIONS: [&str; 5] = ["start", "restart", "touch", "stop", "expire"];

/// Returns the name of a number of TTLs; 0 stands for deadlines without TTLs.
fn deadlines_name(ttls: usize) -> String {
    match ttls {
        0 => "`AT` at random".into(),
        1 => "1 TTL".into(),
        _ => format!("{} TTLs", short(ttls)),
    }
}

struct Report {
    figures: Figures,
}

impl Report {
    fn life(timers: usize, ttls: usize) -> Measure {
        Measure::new("life", timers, ttls)
    }

    /// Returns the stores that have a figure.
    fn having(
        &self,
        measure: &Measure,
        figure: &str,
        stores: &[&'static str],
    ) -> Vec<&'static str> {
        let has = |store: &&str| self.figures.least(measure, store, figure).is_some();
        stores.iter().copied().filter(has).collect()
    }

    /// Returns nanoseconds per operation, with the ratio to ours.
    fn operations(&self, timers: usize) -> String {
        let measure = Self::life(timers, 8);
        let columns =
            ["start", "restart", "touch", "stop", "expire", "quiet tick", "bytes", "left"];
        let rows = self.having(&measure, "start", &ALL).into_iter().map(|store| {
            let mut row = vec![label(store).to_owned()];
            for figure in columns {
                let value = self.figures.least(&measure, store, figure);
                let ours = self.figures.least(&measure, OURS, figure);
                // The bench moves tokio's clock, at a cost that is not the queue's.
                let alien = store == "delay-queue" && figure == "quiet tick";
                row.push(match (value, ours) {
                    _ if alien => String::new(),
                    (Some(value), Some(ours)) if store != OURS && OPERATIONS.contains(&figure) => {
                        format!("{} (×{:.1})", number(value), value / ours)
                    }
                    (value, _) => cell(value),
                });
            }
            row.push(self.figures.rounds(&measure, store).to_string());
            row
        });
        let columns: Vec<&str> = columns.into_iter().chain(["rounds"]).collect();
        table(&head("ns per operation (× ours)", &columns), rows)
    }

    /// Like [`Report::operations`] for a million timers, where the processor finishes each operation before it begins
    /// the next.
    fn fenced(&self) -> String {
        let measure = Measure::new("fenced", 1_000_000, 8);
        let rows = self.having(&measure, "start", &ALL).into_iter().map(|store| {
            let values = OPERATIONS.map(|it| cell(self.figures.least(&measure, store, it)));
            std::iter::once(label(store).to_owned()).chain(values).collect()
        });
        table(&head("ns per operation, fenced", &OPERATIONS), rows)
    }

    /// Compares ours with another build of it. Returns `None` if that was not measured.
    fn beside(&self, other: &str, said: &str) -> Option<String> {
        let life = |timers| Self::life(timers, 8);
        let rows: Vec<_> = [
            ("10^4, ns", life(10_000)),
            ("10^6, ns", life(1_000_000)),
            ("10^6, fenced, ns", Measure::new("fenced", 1_000_000, 8)),
            ("10^7, ns", life(10_000_000)),
            ("10^4, instructions", Measure::new("instructions", COUNTED, 8)),
        ]
        .into_iter()
        .filter_map(|(what, measure)| {
            let values = OPERATIONS.map(|figure| {
                let before = self.figures.least(&measure, other, figure)?;
                let now = self.figures.least(&measure, OURS, figure)?;
                Some(format!("{} / {}: {:.2}", number(before), number(now), now / before))
            });
            values[0].as_ref()?;
            let values = values.map(Option::unwrap_or_default);
            Some(std::iter::once(what.to_owned()).chain(values).collect())
        })
        .collect();
        (!rows.is_empty()).then(|| table(&head(said, &OPERATIONS), rows))
    }

    /// Returns the operations by number of TTLs, which is at most the number of timers.
    fn ttls(&self, timers: usize) -> String {
        let columns = ["start", "restart", "stop", "expire"];
        let counts = || TTLS.into_iter().filter(|ttls| *ttls <= timers);
        let get = |store: &str, figure: &str, ttls| {
            let known = |name: &str| self.figures.least(&Self::life(timers, ttls), store, name);
            // If the bench gave up on a store, this is all that is known.
            let least = known(&format!("{figure}, at least"));
            least.map_or_else(|| cell_or_dash(known(figure)), |it| format!("over {}", number(it)))
        };
        let is_there = |store: &&str| counts().any(|ttls| get(store, "start", ttls) != NOTHING);
        let rows = timed().filter(is_there).map(|store| {
            let values = |figure| join(counts().map(|ttls| get(store, figure, ttls)));
            std::iter::once(label(store).to_owned()).chain(columns.map(values)).collect()
        });
        table(&head(&format!("ns with {} TTLs", join(counts().map(short))), &columns), rows)
    }

    /// Returns eight TTLs, more TTLs, and deadlines without TTLs, in one run; for ours also as ratios, and for another
    /// build of it.
    fn deadlines(&self, timers: usize) -> String {
        let columns = ["start", "restart", "touch", "stop", "expire", "bytes"];
        let cases: Vec<_> = deadlines_of(timers).collect();
        let get = |store: &str, figure: &str, ttls| {
            self.figures.least(&Self::life(timers, ttls), store, figure)
        };
        let row = |store: &str, name: &str| {
            let values =
                |figure| join(cases.iter().map(|ttls| cell_or_dash(get(store, figure, *ttls))));
            std::iter::once(name.to_owned()).chain(columns.map(values)).collect::<Vec<_>>()
        };
        let mut rows = vec![row(OURS, label(OURS))];
        let times = |figure| {
            let times = |ttls| Some(get(OURS, figure, ttls)? / get(OURS, figure, 8)?);
            join(
                cases
                    .iter()
                    .map(|ttls| times(*ttls).map_or(NOTHING.into(), |it| format!("{it:.2}"))),
            )
        };
        rows.push(std::iter::once("– × 8 TTLs".into()).chain(columns.map(times)).collect());
        if get(BEFORE, "start", 0).is_some() {
            rows.push(row(BEFORE, "– before"));
        }
        let peers = ANY_DEADLINE.into_iter().filter(|store| *store != OURS).chain(ANY_DEADLINE_FAR);
        rows.extend(peers.map(|store| row(store, label(store))));
        let first = format!("ns with {}", join(cases.iter().map(|it| deadlines_name(*it))));
        table(&head(&first, &columns), rows)
    }

    fn steady(&self) -> String {
        let measures = self.figures.measures("steady");
        let ttls: Vec<String> = measures.iter().map(|it| number(it.ttls as f64)).collect();
        let ttls: Vec<&str> = ttls.iter().map(String::as_str).collect();
        let rows = BEST.into_iter().map(|store| {
            let values = measures.iter().map(|it| cell(self.figures.least(it, store, "fire")));
            std::iter::once(label(store).to_owned()).chain(values).collect()
        });
        table(&head("ns per timer that fires, by number of TTLs", &ttls), rows)
    }

    fn growth(&self) -> String {
        let measure = Measure::new("growth", 10_000_000, 8);
        let columns = [
            "fresh: slowest start",
            "fresh: at element",
            "fresh: slow starts",
            "known: slowest start",
            "known: at element",
            "known: slow starts",
        ];
        let rows = GROWTH.into_iter().map(|store| {
            let values = columns.map(|figure| cell(self.figures.least(&measure, store, figure)));
            std::iter::once(label(store).to_owned()).chain(values).collect()
        });
        let columns = [
            "fresh memory: slowest start, ms",
            "at element",
            "starts over 0.5 ms",
            "reused memory: slowest start, ms",
            "at element",
            "starts over 0.5 ms",
        ];
        table(&head("", &columns), rows)
    }

    /// Returns the cost if a share of the timers is beyond the range of a wheel.
    fn overflow(&self) -> String {
        let [fewer, many] = CROWDS;
        let of_fewer = format!("slowest tick of {} timers, **ms**", number(fewer as f64));
        let columns = [
            ("start", "start", many),
            ("restart", "restart", many),
            ("stop", "stop", many),
            ("tick", "average tick, expiry included", many),
            ("slowest tick", "slowest tick, **ms**", many),
            ("slowest tick", &of_fewer, fewer),
        ];
        for (timers, share) in CROWDS.into_iter().flat_map(|it| SHARES.map(|at| (it, at))) {
            let fired = |store| self.figures.least(&overflow(timers, share), store, "fired");
            assert!(
                OVERFLOW.iter().all(|store| fired(store) == fired(OURS)),
                "stores disagree on what fires with {share} % beyond reach"
            );
        }
        let rows = OVERFLOW.into_iter().map(|store| {
            let of = |(figure, _, timers)| {
                let value = |share| {
                    cell_or_dash(self.figures.least(&overflow(timers, share), store, figure))
                };
                join(SHARES.map(value))
            };
            std::iter::once(label(store).to_owned()).chain(columns.map(of)).collect()
        });
        let shares = join(SHARES.map(|share| share.to_string()));
        let first = format!("ns with {shares} % beyond {} ms", number(SIMPLE as f64));
        table(&head(&first, &columns.map(|column| column.1)), rows)
    }

    fn units(&self) -> String {
        let rows = self.figures.measures("units").into_iter().map(|measure| {
            for figure in ["schedules", "executions", "sum"] {
                let of = |store: &str| self.figures.least(&measure, store, figure);
                assert!(
                    units::STORES.iter().all(|store| of(store) == of(OURS)),
                    "stores disagree on the {figure} of {} units",
                    measure.count
                );
            }
            let mut row = vec![
                number(measure.count as f64),
                number(measure.ticks as f64),
                cell(self.figures.least(&measure, OURS, "schedules")),
                cell(self.figures.least(&measure, OURS, "executions")),
            ];
            row.extend(
                units::STORES.map(|it| cell(self.figures.least(&measure, it, "ns per schedule"))),
            );
            row
        });
        let columns = [
            "ticks",
            "schedules",
            "executions",
            "**our Lawn**, by id",
            "wheel and table of ids",
            "wheel, by handle",
        ];
        table(&head("units: ns per schedule", &columns), rows)
    }

    /// Returns the sections about the number of TTLs.
    fn any_deadline(&self) -> [(&'static str, String); 3] {
        [
            ("deadlines-few", self.deadlines(10_000)),
            ("deadlines", self.deadlines(1_000_000)),
            ("steady", self.steady()),
        ]
    }

    fn instructions(&self) -> String {
        let measure = Measure::new("instructions", COUNTED, 8);
        let columns = ["start", "restart", "touch", "stop", "expire", "quiet"];
        let rows = INSTRUCTIONS
            .into_iter()
            .filter(|store| ![BEFORE, PORTABLE].contains(store))
            .map(|store| {
                let values =
                    columns.map(|figure| cell(self.figures.least(&measure, store, figure)));
                std::iter::once(label(store).to_owned()).chain(values).collect()
            });
        table(&head("instructions per operation", &columns), rows)
    }
}

/// Writes the tables from the figures of the last run.
pub fn write() {
    let file = figures_file();
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|_| panic!("{} comes from a whole run", file.display()));
    let report = Report { figures: Figures::from_text(&text) };
    for (section, content) in [
        ("machine", machine::describe()),
        ("few", report.operations(10_000)),
        ("million", report.operations(1_000_000)),
        ("fenced", report.fenced()),
        ("most", report.operations(10_000_000)),
        ("ttls", report.ttls(1_000_000)),
        ("ttls-few", report.ttls(10_000)),
        ("growth", report.growth()),
        ("overflow", report.overflow()),
        ("units", report.units()),
        ("instructions", report.instructions()),
    ]
    .into_iter()
    .chain(report.any_deadline())
    {
        page::put(&format!("core:{section}"), &content);
    }
    if let Some(content) = report.beside(PORTABLE, "portable / default: ratio") {
        page::put("core:portable", &content);
    }
    if let Some(content) = report.beside(BEFORE, "before / now: ratio") {
        println!("{content}");
    }
}
