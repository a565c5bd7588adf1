//! The plan of a simulation.

use super::costs::Costs;
use super::{SECOND, Time};

#[derive(Clone)]
pub struct Plan {
    pub costs: Costs,
    pub arrivals: Vec<Arrivals>,
    pub workers: usize,
    /// When the workers begin to ask.
    pub workers_from: Time,
    /// COUNT of each POLL.
    pub count: usize,
    pub lease: Time,
    /// The mean duration of the work on an element, exponentially distributed.
    pub work: Time,
    /// The network delay of a request, and of its reply.
    pub one_way: Time,
    pub machines: Machines,
    /// The period in which the work fails, and how long a failure takes.
    pub outage: Option<(Time, Time)>,
    pub fails_after: Time,
    pub retry: Retry,
    /// Elements that were pushed before this are followed to their end: see `Tally::old_ended`.
    pub new_from: Time,
    pub seed: u64,
}

impl Plan {
    /// Returns a plan with workers that do nothing with their elements, and ask without pause.
    pub fn new(costs: Costs) -> Self {
        Self {
            costs,
            arrivals: Vec::new(),
            workers: 1,
            workers_from: 0,
            count: 1,
            lease: 600 * SECOND,
            work: 0,
            one_way: 0,
            machines: Machines::Enough,
            outage: None,
            fails_after: 0,
            retry: Retry { base: 0, cap: 0, has_jitter: false, deliveries: u16::MAX },
            new_from: 0,
            seed: 1,
        }
    }
}

/// Elements that are pushed, due at once.
#[derive(Clone, Copy)]
pub enum Arrivals {
    /// Pushed before; their deadlines are spread evenly over `within`.
    Burst { count: usize, from: Time, within: Time },
    /// One PUSH each, at random times with this average rate per second.
    Steady { a_second: f64, from: Time, until: Time },
    /// One PUSH each, at a fixed rate per second.
    Even { a_second: f64, from: Time, until: Time },
}

impl Arrivals {
    /// Returns when the last element has arrived.
    pub fn until(&self) -> Time {
        match *self {
            Self::Burst { from, within, .. } => from + within,
            Self::Steady { until, .. } | Self::Even { until, .. } => until,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Machines {
    /// All workers share one core.
    One,
    /// Each worker has a core of its own, which never sleeps.
    Enough,
}

/// The fate of an element whose work has failed.
#[derive(Clone, Copy)]
pub struct Retry {
    /// The first delay; each further one is twice as long.
    pub base: Time,
    /// The longest delay.
    pub cap: Time,
    /// A delay is drawn between half and all of its length.
    pub has_jitter: bool,
    /// ONDUE HOLD DELIVERIES.
    pub deliveries: u16,
}

impl Retry {
    /// Returns the delay after this many deliveries; `share` is a random number.
    pub fn pause(&self, deliveries: u16, share: f64) -> Time {
        let doublings = u32::from(deliveries.saturating_sub(1)).min(40);
        let pause = self.base.saturating_mul(1 << doublings).min(self.cap);
        let scale = if self.has_jitter { 0.5 + share / 2.0 } else { 1.0 };
        (pause as f64 * scale) as Time
    }
}
