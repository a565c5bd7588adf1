//! The trials: cases that run both on real servers and in the simulation, to find the error of the simulation.

use crate::commands::fill;
use crate::constants::Constants;
use crate::probe::Probe;
use crate::trial::{self, Outcome};
use simulation::costs::Costs;
use simulation::plan::{Arrivals, Machines, Plan, Retry};
use simulation::run::run;
use simulation::{MS, SECOND, Time};

/// The maximum number of rounds, and the number of undisturbed rounds that is enough.
const ROUNDS: usize = 8;
const QUIET_ROUNDS: usize = 2;
/// Waiting elements, and the number of them that come due.
const WAITING: usize = 1_000_000;
const DUE: usize = WAITING / 20;
/// The storm: the period in which the work fails.
const OUTAGE: (Time, Time) = (SECOND, 9 * SECOND);

/// A trial, with the name of its figures in the file of constants.
pub struct Trial {
    pub name: String,
    pub told: String,
    pub plan: Plan,
    pub is_storm: bool,
}

pub fn trials(costs: Costs) -> Vec<Trial> {
    let base = Plan { machines: Machines::One, ..Plan::new(costs) };
    let mut trials = Vec::new();
    for (within, when, name) in
        [(SECOND, "due within a second", "second"), (0, "due in one moment", "moment")]
    {
        for (workers, count) in [(1, 10), (1, 100), (8, 1), (8, 10), (32, 1), (32, 100)] {
            let arrivals = vec![Arrivals::Burst { count: DUE, from: 0, within }];
            let s = if workers == 1 { "" } else { "s" };
            trials.push(Trial {
                name: format!("{name}_{workers}_{count}"),
                told: format!("50,000 {when}, {workers} worker{s}, COUNT {count}"),
                plan: Plan { arrivals, workers, count, ..base.clone() },
                is_storm: false,
            });
        }
    }
    for (has_jitter, name, told) in [(false, "storm", "without"), (true, "storm_jitter", "with")] {
        let arrivals = vec![Arrivals::Even { a_second: 2000.0, from: 0, until: 12 * SECOND }];
        let retry = Retry { base: 100 * MS, cap: SECOND, has_jitter, deliveries: 9 };
        let outage = Some(OUTAGE);
        trials.push(Trial {
            name: name.into(),
            told: format!("storm {told} jitter: 2,000 jobs a second, out for 8 s"),
            plan: Plan { arrivals, workers: 8, count: 10, outage, retry, ..base.clone() },
            is_storm: true,
        });
    }
    trials
}

/// The figures of a trial that are stored.
const BURST: [&str; 4] = ["given_out_s", "median_ms", "p99_ms", "busy_s"];
const STORM: [&str; 4] = ["deliveries", "peak", "dead", "recovered_s"];

/// Returns a figure of an outcome by its name.
pub fn figure(outcome: &Outcome, name: &str) -> f64 {
    match name {
        "given_out_s" => outcome.given_out_s,
        "median_ms" => outcome.median_ms,
        "p99_ms" => outcome.p99_ms,
        "busy_s" => outcome.busy_s,
        "deliveries" => outcome.deliveries,
        "peak" => outcome.peak,
        "dead" => outcome.dead,
        "recovered_s" => outcome.settled_s - OUTAGE.1 as f64 / SECOND as f64,
        _ => panic!("{name}"),
    }
}

fn figures(trial: &Trial) -> &'static [&'static str] {
    if trial.is_storm { &STORM } else { &BURST }
}

/// Runs a plan in the simulation.
pub fn simulated(plan: &Plan) -> Outcome {
    let tally = run(plan);
    let seconds = |time: Time| time as f64 / SECOND as f64;
    Outcome {
        given_out_s: seconds(tally.last_delivery),
        settled_s: seconds(tally.last_settle),
        median_ms: tally.percentile_ms(0.5),
        p99_ms: tally.percentile_ms(0.99),
        deliveries: tally.deliveries as f64,
        peak: tally.peak() as f64,
        dead: tally.dead as f64,
        busy_s: seconds(tally.busy),
        waited_share: 0.0,
    }
}

/// Runs all trials on a real server, each until the server has had its core for itself often enough, or too many rounds
/// have passed. Uses the round in which the server waited least.
pub fn measure(constants: &mut Constants, costs: Costs) {
    let probe = Probe::start_pinned(&[]);
    fill(&mut probe.connect(), WAITING - DUE);
    for trial in trials(costs) {
        let most = if trial.is_storm { 2 } else { ROUNDS };
        let mut outcomes = Vec::new();
        while outcomes.len() < most && quiet(&outcomes) < QUIET_ROUNDS {
            outcomes.push(trial::run(&probe, &trial.plan));
        }
        let least =
            |one: &Outcome, other: &Outcome| one.waited_share.total_cmp(&other.waited_share);
        let outcome = outcomes.into_iter().min_by(least).expect("a round");
        for name in figures(&trial) {
            let figure = figure(&outcome, name);
            constants.set(&format!("trial_{}_{name}", trial.name), figure);
        }
        constants.set(&format!("trial_{}_waited_share", trial.name), outcome.waited_share);
        constants.write();
        println!("{}: {outcome:?}", trial.told);
    }
}

/// Returns the number of nearly undisturbed rounds.
fn quiet(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.waited_share < 0.05).count()
}
