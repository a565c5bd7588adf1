//! Samples of the last hour, in memory: of each node, and of the queues that were looked at or are among the greatest.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

/// The time between two samples, in seconds.
pub const EVERY: u64 = 5;
/// An hour.
const SAMPLES: usize = 720;

/// The series of a node. Those of a queue are the first ones, up to [`OF_QUEUE`].
pub const SERIES: [&str; 14] = [
    "waiting",
    "due",
    "held",
    "dead",
    "net",
    "oldest_due_ms",
    "pushes",
    "out",
    "deliveries",
    "redeliveries",
    "dead_letters",
    "late_p50",
    "late_p99",
    "late_max",
];
const OF_QUEUE: usize = 6;
/// Series of which the greatest counts where several nodes are summed.
const GREATEST: [&str; 4] = ["oldest_due_ms", "late_p50", "late_p99", "late_max"];

/// Whose samples: a node's, or with a database and a key a queue's.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Subject {
    pub node: String,
    pub queue: Option<(u64, Vec<u8>)>,
}

/// The numbers of one sample, in the order of [`SERIES`]. NaN if unknown.
pub type Sample = [f32; SERIES.len()];

#[derive(Default)]
pub struct History {
    times: VecDeque<u64>,
    samples: HashMap<Subject, VecDeque<Sample>>,
}

impl History {
    /// Records samples of a moment, in unix seconds.
    pub fn record(&mut self, time: u64, samples: Vec<(Subject, Sample)>) {
        let before = self.times.len();
        self.times.push_back(time);
        for (subject, sample) in samples {
            let of_it = self.samples.entry(subject).or_default();
            of_it.resize(before, [f32::NAN; SERIES.len()]);
            of_it.push_back(sample);
        }
        let too_many = self.times.len() > SAMPLES;
        if too_many {
            self.times.pop_front();
        }
        let length = self.times.len();
        self.samples.retain(|_, of_it| {
            of_it.resize(length + usize::from(too_many), [f32::NAN; SERIES.len()]);
            if too_many {
                of_it.pop_front();
            }
            of_it.iter().any(|sample| sample.iter().any(|number| !number.is_nan()))
        });
    }

    /// Returns the samples of a queue, of a node, or without either of all nodes together.
    pub fn json(&self, node: Option<&str>, queue: Option<(u64, Vec<u8>)>) -> Value {
        let is_wanted = |subject: &&Subject| {
            subject.queue == queue && node.is_none_or(|node| node == subject.node)
        };
        let wanted: Vec<_> = self.samples.iter().filter(|(it, _)| is_wanted(it)).collect();
        let shown = if queue.is_some() { &SERIES[..OF_QUEUE] } else { &SERIES[..] };
        let mut series = Map::new();
        for (at, name) in shown.iter().enumerate() {
            let numbers = (0..self.times.len()).map(|time| {
                let known = wanted.iter().filter_map(|(_, samples)| samples.get(time));
                let known = known.map(|sample| sample[at]).filter(|number| !number.is_nan());
                let join = if GREATEST.contains(name) { f32::max } else { |a, b| a + b };
                known.reduce(join)
            });
            series.insert((*name).to_owned(), numbers.collect());
        }
        json!({ "times": self.times, "series": series })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(node: &str) -> Subject {
        Subject { node: node.into(), queue: None }
    }

    #[test]
    fn nodes_are_summed_and_the_latest_counts() {
        let mut history = History::default();
        let sample = |waiting: f32, late: f32| {
            let mut sample = [f32::NAN; SERIES.len()];
            (sample[0], sample[13]) = (waiting, late);
            sample
        };
        history.record(5, vec![(subject("a"), sample(1.0, 7.0))]);
        history
            .record(10, vec![(subject("a"), sample(2.0, 7.0)), (subject("b"), sample(3.0, 9.0))]);
        let all = history.json(None, None);
        assert_eq!(all["times"], json!([5, 10]));
        assert_eq!(all["series"]["waiting"], json!([1.0, 5.0]));
        assert_eq!(all["series"]["late_max"], json!([7.0, 9.0]));
        assert_eq!(all["series"]["pushes"], json!([null, null]));
        assert_eq!(history.json(Some("b"), None)["series"]["waiting"], json!([null, 3.0]));
    }

    #[test]
    fn an_hour_is_kept_and_who_has_gone_is_forgotten() {
        let mut history = History::default();
        history.record(0, vec![(subject("gone"), [1.0; SERIES.len()])]);
        for time in 1..=SAMPLES as u64 {
            history.record(time, vec![(subject("a"), [time as f32; SERIES.len()])]);
        }
        assert_eq!(history.times.len(), SAMPLES);
        assert_eq!(history.samples.len(), 1);
        let numbers = &history.json(Some("a"), None)["series"]["waiting"];
        assert_eq!((&numbers[0], &numbers[SAMPLES - 1]), (&json!(1.0), &json!(SAMPLES as f32)));
    }
}
