//! What a run was like.

use super::{SECOND, Time};

/// What happened in one second.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Second {
    pub deliveries: usize,
    pub settled: usize,
    /// How long the node worked.
    pub busy: Time,
}

#[derive(Default, Debug, PartialEq)]
pub struct Tally {
    pub pushed: usize,
    pub settled: usize,
    pub dead: usize,
    pub deliveries: usize,
    /// Settled too late: the lease had run out.
    pub late: usize,
    pub requests: usize,
    /// From each request's arrival until its turn has come to it, all together.
    pub waited: Time,
    /// From each deadline until a worker had the element, in microseconds, in the order of delivery.
    pub lateness_us: Vec<f32>,
    /// When the last element was given out, when the last one was settled.
    pub last_delivery: Time,
    pub last_settle: Time,
    /// When the last one of those was settled that were pushed before the plan's `new_from`.
    pub old_ended: Time,
    /// The node's processor time.
    pub busy: Time,
    pub seconds: Vec<Second>,
}

impl Tally {
    pub fn second(&mut self, at: Time) -> &mut Second {
        let second = (at / SECOND) as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        &mut self.seconds[second]
    }

    /// Delivery latency that so much of all is not above, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let mut late = self.lateness_us.clone();
        let at = ((late.len() as f64 * share) as usize).min(late.len().saturating_sub(1));
        match late.is_empty() {
            true => 0.0,
            false => f64::from(*late.select_nth_unstable_by(at, f32::total_cmp).1) / 1e3,
        }
    }

    /// The most deliveries in one second.
    pub fn peak(&self) -> usize {
        self.seconds.iter().map(|second| second.deliveries).max().unwrap_or(0)
    }
}
