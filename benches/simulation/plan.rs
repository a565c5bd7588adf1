//! What is to be simulated.

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
    /// How long a worker works on an element, on average: exponentially distributed.
    pub work: Time,
    /// A worker's request and its reply are under way so long, each.
    pub one_way: Time,
    pub machines: Machines,
    /// The work fails in this time, and takes so long to.
    pub outage: Option<(Time, Time)>,
    pub fails_after: Time,
    pub retry: Retry,
    /// What was pushed before this is followed to its end: see `Tally::old_ended`.
    pub new_from: Time,
    pub seed: u64,
}

impl Plan {
    /// Workers that do nothing with what they get, and lose no time.
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

/// Elements that are put away, due at once.
#[derive(Clone, Copy)]
pub enum Arrivals {
    /// They were put away before; their deadlines are spread evenly over `within`.
    Burst { count: usize, from: Time, within: Time },
    /// A PUSH each, by nobody's clock but chance's: so many a second on average.
    Steady { a_second: f64, from: Time, until: Time },
    /// A PUSH each, so many a second, as even as a clock.
    Even { a_second: f64, from: Time, until: Time },
}

impl Arrivals {
    /// When the last of them has come.
    pub fn until(&self) -> Time {
        match *self {
            Self::Burst { from, within, .. } => from + within,
            Self::Steady { until, .. } | Self::Even { until, .. } => until,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Machines {
    /// All workers share one processor.
    One,
    /// Each worker has a processor of its own, which is awake.
    Enough,
}

/// What becomes of an element whose work has failed.
#[derive(Clone, Copy)]
pub struct Retry {
    /// The first pause; each further one is twice as long as the one before.
    pub base: Time,
    /// No pause is longer.
    pub cap: Time,
    /// A pause is drawn from the upper half up to its length.
    pub has_jitter: bool,
    /// ONDUE HOLD DELIVERIES.
    pub deliveries: u16,
}

impl Retry {
    /// The pause after so many deliveries, `share` being what chance says.
    pub fn pause(&self, deliveries: u16, share: f64) -> Time {
        let doublings = u32::from(deliveries.saturating_sub(1)).min(40);
        let pause = self.base.saturating_mul(1 << doublings).min(self.cap);
        let scale = if self.has_jitter { 0.5 + share / 2.0 } else { 1.0 };
        (pause as f64 * scale) as Time
    }
}
