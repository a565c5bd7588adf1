//! Writes the tables of docs/figures/.

use crate::builds::{BEFORE, OURS, PORTABLE};
use crate::figures::Figures;
use crate::one::COUNTED;
use crate::plan::{
    ADVERSARY, ANY_DEADLINE, ANY_DEADLINE_COUNTED, ANY_DEADLINE_FAR, ANY_LENGTH, BEST, CROWDS,
    GROWTH, INSTRUCTIONS, OVERFLOW, SHARES, TTLS, WORST, deadlines_of, figures_file, overflow,
    timed,
};
use crate::stores::wheel::SIMPLE;
use crate::stores::{ALL, label};
use crate::{Measure, adversary, deadlines, plan, small, units};
use benches::markdown::{NOTHING, cell, cell_or_dash, head, join, number, short, table};
use benches::{machine, page};

const OPERATIONS: [&str; 5] = ["start", "restart", "touch", "stop", "expire"];
/// The goals in nanoseconds, at a million and at ten million timers, and as ratios to the best peer.
const GOALS: [(&str, f64, f64, f64); 5] = [
    ("start", 80.0, 110.0, 1.6),
    ("restart", 110.0, 160.0, 3.0),
    ("touch", 70.0, 105.0, 4.5),
    ("stop", 110.0, 170.0, 2.5),
    ("expire", 60.0, 80.0, 2.0),
];

/// Formats a label for use within a cell.
fn plain(store: &str) -> String {
    label(store).replace('*', "").replace("one allocation per record", "boxes")
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

    /// Returns the best of the other stores that keep time.
    fn best_peer(&self, measure: &Measure, figure: &str) -> Option<(&'static str, f64)> {
        let peers = ALL.into_iter().filter(|store| *store != OURS && !store.starts_with("floor"));
        let known = peers.filter_map(|it| Some((it, self.figures.least(measure, it, figure)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn goals(&self) -> String {
        let million = Self::life(1_000_000, 8);
        let most = Self::life(10_000_000, 8);
        let ours = |measure: &Measure, figure: &str| self.figures.least(measure, OURS, figure);
        let ratio = |over: Option<f64>, under: Option<f64>| {
            over.zip(under).map_or_else(String::new, |(over, under)| format!("{:.2}", over / under))
        };
        let alike = |figure: &str| self.figures.least(&million, ANY_LENGTH, figure);
        let mut rows = Vec::new();
        for (figure, goal, goal_most, goal_ratio) in GOALS {
            let peer = self.best_peer(&million, figure);
            let floor = self.figures.least(&million, "floor-arena", figure);
            rows.push(vec![
                format!("{figure}, ns"),
                format!("{goal} / {goal_most}"),
                format!("{} / {}", cell(ours(&million, figure)), cell(ours(&most, figure))),
                peer.map_or_else(String::new, |(it, value)| {
                    format!("{}: {}", plain(it), number(value))
                }),
                format!("{goal_ratio}"),
                ratio(peer.map(|peer| peer.1), ours(&million, figure)),
                cell(alike(figure)),
                ratio(alike(figure), ours(&million, figure)),
                ratio(ours(&million, figure), floor),
            ]);
        }
        let peer = self.best_peer(&million, "bytes");
        rows.push(vec![
            "bytes per timer".into(),
            "112".into(),
            format!("{} / {}", cell(ours(&million, "bytes")), cell(ours(&most, "bytes"))),
            peer.map_or_else(String::new, |(it, value)| {
                format!("{}: {}", plain(it), number(value))
            }),
            "0.7: ours / peer".into(),
            ratio(ours(&million, "bytes"), peer.map(|peer| peer.1)),
            cell(alike("bytes")),
            ratio(ours(&million, "bytes"), alike("bytes")),
            ratio(ours(&million, "bytes"), self.figures.least(&million, "floor-arena", "bytes")),
        ]);
        let row = |what: &str, goal: &str, got: String| {
            let mut row = vec![what.into(), goal.into(), got];
            row.resize(9, String::new());
            row
        };
        let quiet = cell(ours(&million, "quiet tick"));
        rows.push(row("quiet tick, ns", "under 5", quiet));
        let steady = [10, 1_000, 10_000, 100_000, 1_000_000].map(|ttls| {
            cell(self.figures.least(&Measure::new("steady", 1_000_000, ttls), OURS, "fire"))
        });
        let flat = "under 180, flat";
        rows.push(row(
            "a timer that fires, with 10 / 10^3 / 10^4 / 10^5 / 10^6 TTLs, ns",
            flat,
            steady.join(" / "),
        ));
        let growth = Measure::new("growth", 10_000_000, 8);
        let slowest = ["fresh", "known"].map(|memory| {
            cell(self.figures.least(&growth, OURS, &format!("{memory}: slowest start")))
        });
        let slowest = slowest.join(" / ");
        let what = "slowest start while growing to 10^7, fresh / reused memory, ms";
        rows.push(row(what, "under 0.5", slowest));
        let columns = [
            "goal, 10^6 / 10^7",
            "ours",
            "best peer",
            "goal: peer / ours",
            "peer / ours",
            "wheel, any length",
            "wheel / ours",
            "ours / arena floor",
        ];
        table(&head("", &columns), rows)
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
        let first = format!("ns with {}", join(cases.iter().map(|it| deadlines::name(*it))));
        table(&head(&first, &columns), rows)
    }

    /// Returns the adversary's effect: average and worst.
    fn adversary(&self) -> String {
        let measure = plan::adversary_of_a_million();
        let mut stores = vec![(OURS, label(OURS))];
        let was = self.having(&measure, &format!("{}: ns", adversary::said()[0]), &[BEFORE]);
        stores.extend(was.into_iter().map(|store| (store, "before")));
        stores.extend(ADVERSARY.into_iter().skip(1).map(|store| (store, label(store))));
        let rows = adversary::said().into_iter().map(|said| {
            let cells = stores.iter().map(|(store, _)| {
                let get = |it: &str| self.figures.least(&measure, store, &format!("{said}: {it}"));
                join(["ns", "slowest", "slowest of a run"].map(|it| cell_or_dash(get(it))))
            });
            std::iter::once(said.clone()).chain(cells).collect()
        });
        let columns: Vec<_> = stores.iter().map(|(_, name)| *name).collect();
        table(&head("ns / slowest, us / slowest of a run, us", &columns), rows)
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

    fn worst(&self) -> String {
        let measure = Measure::new("worst", 1_000_000, 1);
        let distinct = Self::life(1_000_000, 1_000_000);
        let rows = WORST.into_iter().map(|store| {
            let get = |figure| cell(self.figures.least(&measure, store, figure));
            vec![
                label(store).to_owned(),
                cell(self.figures.least(&distinct, store, "start")),
                cell(self.figures.least(&distinct, store, "expire")),
                get("all due at once"),
                get("hot id"),
                get("hot id, bytes left behind"),
                get("oldest pulled"),
            ]
        });
        let columns = [
            "one TTL per element: start",
            "expire",
            "all due at once",
            "hot id replaced",
            "bytes left behind",
            "oldest stopped, new one started",
        ];
        table(&head("ns per operation", &columns), rows)
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

    fn collisions(&self) -> String {
        let measure = Measure::new("collisions", 10_000, 1);
        let get = |ids: &str, keys: &str| {
            cell(self.figures.least(&measure, OURS, &format!("{ids} ids, keys {keys}")))
        };
        let rows = ["random", "colliding"]
            .into_iter()
            .map(|ids| vec![format!("{ids} ids"), get(ids, "known"), get(ids, "random")]);
        table(&head("ns to start or stop", &["known hash keys", "random hash keys"]), rows)
    }

    fn workers(&self) -> String {
        let rows = self.figures.measures("workers").into_iter().map(|measure| {
            let get = |figure| cell(self.figures.most(&measure, OURS, figure));
            vec![measure.count.to_string(), get("each its own"), get("one for all")]
        });
        let columns = ["one Lawn per thread, no locks", "one Lawn behind a lock"];
        table(&head("threads: million operations per second", &columns), rows)
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

    fn sessions(&self) -> String {
        let Some(measure) = self.figures.measures("sessions").pop() else { return String::new() };
        let stores = self.having(&measure, "operations", &ALL);
        let rows = stores.iter().map(|store| {
            let get = |figure| self.figures.least(&measure, store, figure);
            for figure in ["operations", "pings", "reconnections given up", "expiries"] {
                assert_eq!(
                    get(figure),
                    self.figures.least(&measure, OURS, figure),
                    "{store}: {figure}"
                );
            }
            let ours = self.figures.least(&measure, OURS, "ns per operation");
            let ratio = get("ns per operation").zip(ours).map(|(value, ours)| value / ours);
            vec![label(store).to_owned(), cell(get("ns per operation")), cell(ratio)]
        });
        let all = |figure| cell(self.figures.least(&measure, OURS, figure));
        format!(
            "{}\n{} operations. Each store fired {} pings, {} abandoned reconnections and {} \
             expiries.\n",
            table(&head("", &["ns per operation", "× ours"]), rows),
            all("operations"),
            all("pings"),
            all("reconnections given up"),
            all("expiries"),
        )
    }

    /// Returns the costs of a lawn of a few elements, in either form.
    fn small(&self) -> String {
        small::show(|form, elements, figure| {
            self.figures.least(&small::measure(elements), form, figure)
        })
    }

    /// Returns the sections about the number of TTLs.
    fn any_deadline(&self) -> [(&'static str, String); 5] {
        [
            ("deadlines-few", self.deadlines(10_000)),
            ("deadlines", self.deadlines(1_000_000)),
            ("steady", self.steady()),
            ("adversary", self.adversary()),
            ("instructions-any", self.instructions_any()),
        ]
    }

    /// Returns instructions with one TTL per element, and with deadlines without TTLs.
    fn instructions_any(&self) -> String {
        let cases = [8, COUNTED, 0];
        let rows = ANY_DEADLINE_COUNTED.into_iter().filter(|store| *store != BEFORE).map(|store| {
            let values = OPERATIONS.map(|figure| {
                join(cases.map(|ttls| {
                    let measure = Measure::new("instructions", COUNTED, ttls);
                    cell_or_dash(self.figures.least(&measure, store, figure))
                }))
            });
            std::iter::once(label(store).to_owned()).chain(values).collect()
        });
        let first = format!("instructions with {}", join(cases.map(deadlines::name)));
        table(&head(&first, &OPERATIONS), rows)
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

/// Writes the results of [`plan::run_any_deadline`], and nothing else.
pub fn write_any_deadline(figures: Figures) {
    let report = Report { figures };
    for (section, content) in report.any_deadline() {
        page::put(&format!("core:{section}"), &content);
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
        ("goals", report.goals()),
        ("few", report.operations(10_000)),
        ("million", report.operations(1_000_000)),
        ("fenced", report.fenced()),
        ("most", report.operations(10_000_000)),
        ("ttls", report.ttls(1_000_000)),
        ("ttls-few", report.ttls(10_000)),
        ("growth", report.growth()),
        ("worst", report.worst()),
        ("overflow", report.overflow()),
        ("collisions", report.collisions()),
        ("workers", report.workers()),
        ("units", report.units()),
        ("small", report.small()),
        ("sessions", report.sessions()),
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
