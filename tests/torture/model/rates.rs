//! The model of what a group gives out under a limit of rate.
//!
//! A window is divided into at most 1,024 granules, and what is given out counts at the end of its granule.

use super::MAX;

/// What a group gave out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    /// The most elements in a window.
    pub most: u64,
    /// The length of a window, in milliseconds.
    pub per: u64,
    /// The ends of granules, in order, and the number of elements of each.
    given: Vec<(u64, u64)>,
    /// Nothing was given out later than this, as far as is known.
    latest: u64,
}

impl Log {
    pub fn new((most, per): (u64, u64)) -> Self {
        Self { most, per, given: Vec::new(), latest: MAX }
    }

    /// Records elements, of which none was given out later than this.
    pub fn give(&mut self, moment: u64, count: u64) {
        self.latest = MAX;
        self.load(moment, count);
    }

    fn load(&mut self, moment: u64, count: u64) {
        let granule = self.granule();
        let end = moment.next_multiple_of(granule);
        // What had left the window when the granule began is dropped, even if the window becomes longer later.
        self.given.retain(|(moment, _)| moment + self.per > end + 1 - granule);
        self.given.push((end, count));
    }

    fn granule(&self) -> u64 {
        self.per.div_ceil(1024)
    }

    /// Changes the limit.
    pub fn change(&mut self, limit: (u64, u64)) {
        if limit != (self.most, self.per) {
            let old = std::mem::replace(self, Self::new(limit));
            old.given.into_iter().for_each(|(moment, count)| self.load(moment, count));
            self.latest = old.latest;
        }
    }

    /// Learns that nothing was given out later than this.
    pub fn note(&mut self, moment: u64) {
        let end = moment.next_multiple_of(self.granule());
        if self.last().min(self.latest) > end {
            self.latest = end;
        }
    }

    /// Forgets what was noted, as a file does.
    pub fn reload(&mut self) {
        self.latest = MAX;
    }

    /// Returns the latest moment that it has; 0 for none.
    pub fn last(&self) -> u64 {
        self.given.last().map_or(0, |(moment, _)| *moment)
    }

    /// Returns from when on the next element is allowed: when the n-th last leaves the window.
    pub fn next(&self) -> u64 {
        let mut later = 0;
        for (moment, count) in self.given.iter().rev() {
            later += count;
            if later >= self.most {
                return moment.min(&self.latest) + self.per;
            }
        }
        0
    }

    /// Returns whether nothing counts any more.
    pub fn is_over(&self, now: u64) -> bool {
        self.given.last().is_none_or(|(moment, _)| moment.min(&self.latest) + self.per <= now)
    }
}
