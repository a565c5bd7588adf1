//! Cases beyond one machine: a billion timers, and an outage of an hour.

use std::thread;

use simulation::costs::Costs;
use simulation::plan::{Arrivals, Plan, Retry};
use simulation::run::run;
use simulation::tally::Tally;
use simulation::{MS, SECOND, Time, US};

pub const TIMERS: f64 = 1e9;
/// The timers that come due in one second.
pub const DUE: usize = 50_000_000;
/// The network delay from a worker to a node in the same data centre.
const ONE_WAY: Time = 100 * US;
const MINUTE: Time = 60 * SECOND;
const HOUR: Time = 60 * MINUTE;

/// Returns a plan with enough machines for the workers, and a network between them and the node.
fn base(costs: Costs) -> Plan {
    Plan { one_way: ONE_WAY, ..Plan::new(costs) }
}

/// A node's share of the timers that come due.
pub struct Burst {
    pub nodes: usize,
    pub count: usize,
    /// Per node.
    pub workers: usize,
    pub work: Time,
    /// The period over which the deadlines are spread.
    pub within: Time,
}

impl Burst {
    pub fn run(&self, costs: Costs) -> Tally {
        let count = DUE / self.nodes;
        let arrivals = vec![Arrivals::Burst { count, from: 0, within: self.within }];
        let Self { workers, work, .. } = *self;
        run(&Plan { arrivals, workers, work, count: self.count, ..base(costs) })
    }
}

/// An hour in which all work fails, or no worker polls.
pub struct Storm {
    pub told: &'static str,
    pub short: &'static str,
    retry: Retry,
    /// Workers are gone for the hour, instead of failing.
    is_silent: bool,
}

/// Jobs per second, all on one node.
pub const JOBS: f64 = 250.0;
/// Further jobs that come due in the second in which the outage begins.
pub const AT_ONCE: usize = 100_000;
pub const WORKERS: usize = 100;
pub const WORK: Time = 20 * MS;
/// How long jobs run before the hour, and after it.
pub const BEFORE: Time = MINUTE;
const AFTER: Time = 20 * MINUTE;

impl Storm {
    pub fn all() -> Vec<Self> {
        let retry =
            |cap, has_jitter, deliveries| Retry { base: SECOND, cap, has_jitter, deliveries };
        let failing = |short, told, retry| Self { told, short, retry, is_silent: false };
        let without_limit = u16::MAX;
        let silent = "workers stop polling";
        vec![
            Self { is_silent: true, ..failing(silent, silent, retry(0, false, without_limit)) },
            failing(
                "up to 5 minutes, no jitter",
                "retried after 1 s, 2 s, ... up to 5 minutes",
                retry(5 * MINUTE, false, without_limit),
            ),
            failing(
                "up to 5 minutes, jitter",
                "the same with jitter",
                retry(5 * MINUTE, true, without_limit),
            ),
            failing(
                "up to an hour, jitter",
                "up to an hour, with jitter",
                retry(HOUR, true, without_limit),
            ),
            failing(
                "dead letters",
                "up to 5 minutes, with jitter, `DELIVERIES 12`",
                retry(5 * MINUTE, true, 12),
            ),
        ]
    }

    pub fn run(&self, costs: Costs) -> Tally {
        let end = BEFORE + HOUR;
        let mut plan = Plan {
            arrivals: vec![
                Arrivals::Steady { a_second: JOBS, from: 0, until: end + AFTER },
                Arrivals::Burst { count: AT_ONCE, from: BEFORE, within: SECOND },
            ],
            workers: WORKERS,
            count: 10,
            work: WORK,
            fails_after: MS,
            retry: self.retry,
            ..base(costs)
        };
        plan.new_from = end;
        match self.is_silent {
            true => plan.workers_from = end,
            false => plan.outage = Some((BEFORE, end)),
        }
        run(&plan)
    }

    /// Returns when the work succeeds again.
    pub fn over() -> Time {
        BEFORE + HOUR
    }
}

/// Runs independent simulations side by side.
pub fn side_by_side<T: Sync, R: Send>(all: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let width = thread::available_parallelism().map_or(1, usize::from);
    let mut results = Vec::new();
    for part in all.chunks(width) {
        thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = part.iter().map(|it| scope.spawn(move || run(it))).collect();
            results.extend(threads.into_iter().map(|it| it.join().expect("no panic")));
        });
    }
    results
}
