//! The results of a run.

use super::{SECOND, Time};

/// The events of one second.
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
    /// Settled too late: the lease had expired.
    pub late: usize,
    pub requests: usize,
    /// The total time from the arrival of requests until their processing.
    pub waited: Time,
    /// The delivery latency of each element in microseconds, in the order of delivery.
    pub lateness_us: Vec<f32>,
    /// When the last element was delivered, and when the last one was settled.
    pub last_delivery: Time,
    pub last_settle: Time,
    /// When the last of the elements was settled that were pushed before the plan's `new_from`.
    pub old_ended: Time,
    /// The CPU time of the node.
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

    /// Returns a percentile of the delivery latency, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let mut late = self.lateness_us.clone();
        let at = ((late.len() as f64 * share) as usize).min(late.len().saturating_sub(1));
        match late.is_empty() {
            true => 0.0,
            false => f64::from(*late.select_nth_unstable_by(at, f32::total_cmp).1) / 1e3,
        }
    }

    /// Returns the deliveries of the busiest second.
    pub fn peak(&self) -> usize {
        self.seconds.iter().map(|second| second.deliveries).max().unwrap_or(0)
    }
}
