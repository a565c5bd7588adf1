//! The measured values: for each measure, store and figure, one value per round.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Measure;

#[derive(Default)]
pub struct Figures {
    values: BTreeMap<(Measure, String, String), Vec<f64>>,
}

impl Figures {
    pub fn add(&mut self, measure: &Measure, store: &str, figure: &str, value: f64) {
        let key = (measure.clone(), store.to_owned(), figure.to_owned());
        self.values.entry(key).or_default().push(value);
    }

    /// Removes the figures of a store, before it is measured again.
    pub fn forget(&mut self, measure: &Measure, store: &str) {
        self.values.retain(|key, _| key.0 != *measure || key.1 != store);
    }

    /// Returns the lowest value of the rounds: other load on the machine, in its caches above all, only makes a round
    /// slower.
    pub fn least(&self, measure: &Measure, store: &str, figure: &str) -> Option<f64> {
        let key = (measure.clone(), store.to_owned(), figure.to_owned());
        self.values.get(&key)?.iter().copied().min_by(f64::total_cmp)
    }

    /// Returns the number of rounds.
    pub fn rounds(&self, measure: &Measure, store: &str) -> usize {
        let of = |key: &&(Measure, String, String)| key.0 == *measure && key.1 == store;
        self.values.keys().find(of).map_or(0, |key| self.values[key].len())
    }

    /// Returns the measures of a kind that have figures.
    pub fn measures(&self, kind: &str) -> Vec<Measure> {
        let mut measures: Vec<_> =
            self.values.keys().map(|key| key.0.clone()).filter(|it| it.kind == kind).collect();
        measures.dedup();
        measures
    }

    /// Formats one line per figure, with tabs between the columns.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for ((measure, store, figure), values) in &self.values {
            let Measure { kind, timers, ttls, count, ticks } = measure;
            let values: Vec<String> = values.iter().map(f64::to_string).collect();
            let values = values.join(" ");
            writeln!(
                text,
                "{kind}\t{timers}\t{ttls}\t{count}\t{ticks}\t{store}\t{figure}\t{values}"
            )
            .expect("a string takes it");
        }
        text
    }

    /// Parses the output of [`Figures::to_text`]. Panics on anything else.
    pub fn from_text(text: &str) -> Self {
        let mut figures = Self::default();
        for line in text.lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let number = |column: usize| columns[column].parse().expect("a number");
            let measure = Measure {
                kind: columns[0].into(),
                timers: number(1),
                ttls: number(2),
                count: number(3),
                ticks: number(4) as u64,
            };
            for value in columns[7].split(' ') {
                figures.add(&measure, columns[5], columns[6], value.parse().expect("a number"));
            }
        }
        figures
    }
}
