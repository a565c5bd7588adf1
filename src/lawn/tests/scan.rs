//! Scans: of a lawn that changes meanwhile, and of one that does not.

use std::collections::BTreeSet;

use super::super::*;
use super::model::Oracle;

/// A scan between whose calls the lawn changes.
#[derive(Default)]
pub(super) struct Scan {
    cursor: u64,
    shown: Vec<Vec<u8>>,
    /// The ids that have been there since the scan began.
    stayed: BTreeSet<Vec<u8>>,
}

impl Scan {
    /// Scans on. At the end, all that stayed must have been shown.
    pub(super) fn step(&mut self, lawn: &Lawn, oracle: &Oracle, count: usize) {
        if self.cursor == 0 {
            let stayed = sorted_ids(oracle).into_iter().collect();
            *self = Self { stayed, ..Self::default() };
        }
        self.cursor = lawn.scan(self.cursor, count, |element| self.shown.push(element.id.to_vec()));
        if self.cursor == 0 {
            self.shown.retain(|id| self.stayed.contains(id));
            self.shown.sort();
            assert!(self.shown.iter().eq(&self.stayed), "{:?}, not {:?}", self.shown, self.stayed);
        }
    }

    /// Forgets ids that are gone.
    pub(super) fn forget_removed(&mut self, oracle: &Oracle) {
        self.stayed.retain(|id| oracle.find(id).is_some());
    }
}

/// Returns the ids that a scan shows, about `count` per call, sorted.
pub(super) fn scanned(lawn: &Lawn, count: usize) -> Vec<Vec<u8>> {
    let mut ids = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = lawn.scan(cursor, count, |element| ids.push(element.id.to_vec()));
        if cursor == 0 {
            ids.sort();
            return ids;
        }
    }
}

pub(super) fn sorted_ids(oracle: &Oracle) -> Vec<Vec<u8>> {
    let mut ids: Vec<_> = oracle.elements.iter().map(|element| element.0.clone()).collect();
    ids.sort();
    ids
}
