//! The data of the live view: the last replies of the server, and what the user has chosen.

use crate::dehydrators::{Dehydrator, Dehydrators};
use crate::facts::Parts;
use crate::figures::Figures;
use crate::trouble::Trouble;

#[derive(Default)]
pub struct Model {
    pub figures: Figures,
    pub dehydrators: Dehydrators,
    /// The elements per TTL, the greatest groups and the schedules of the selected dehydrator.
    pub parts: Parts,
    pub order: Order,
    pub selected: Option<Vec<u8>>,
    /// The dehydrators that are overdue the longest, of all databases, if their names are known: key, database,
    /// milliseconds. Older modules do not report this.
    pub worst: Vec<(Vec<u8>, u64, u64)>,
    /// The problem of the last refresh, if it failed.
    pub trouble: Option<Trouble>,
}

/// The sort order of the dehydrators: descending, but ascending by key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Order {
    #[default]
    Length,
    Due,
    GivenOut,
    Net,
    Memory,
    Key,
}

impl Order {
    pub const ALL: [Self; 6] =
        [Self::Length, Self::Due, Self::GivenOut, Self::Net, Self::Memory, Self::Key];

    pub fn next(self) -> Self {
        let place = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }
}

impl Model {
    /// Returns the dehydrators in the chosen order.
    pub fn sorted(&self) -> Vec<(&Vec<u8>, &Dehydrator)> {
        let mut sorted: Vec<_> = self.dehydrators.all.iter().collect();
        let number = |dehydrator: &Dehydrator| match self.order {
            Order::Length => dehydrator.facts.length as f64,
            Order::Due => dehydrator.facts.due as f64,
            Order::GivenOut => dehydrator.facts.given_out as f64,
            Order::Net => dehydrator.net.unwrap_or(0.0),
            Order::Memory => dehydrator.facts.memory as f64,
            Order::Key => 0.0,
        };
        // They are sorted by key already, and the sort is stable.
        sorted.sort_by(|(_, a), (_, b)| number(b).total_cmp(&number(a)));
        sorted
    }

    /// Returns the place of the selected dehydrator in that order.
    pub fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.sorted().iter().position(|(key, _)| *key == selected)
    }

    /// Moves the selection by `further` lines.
    pub fn select(&mut self, further: isize) {
        let last = self.dehydrators.all.len().saturating_sub(1);
        let place = self.place().map_or(0, |place| place.saturating_add_signed(further).min(last));
        let key = self.sorted().get(place).map(|(key, _)| (*key).clone());
        if key != self.selected {
            self.parts = Parts::default();
        }
        self.selected = key;
    }
}
