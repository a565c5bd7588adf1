//! The model of what a group gives out under a limit of rate.
//!
//! A window is divided into at most 1,024 granules, and what is given out counts at the end of its granule.

/// What a group gave out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    /// The most elements in a window.
    pub most: u64,
    /// The length of a window, in milliseconds.
    pub per: u64,
    /// The ends of granules, in order, and the number of elements of each.
    given: Vec<(u64, u64)>,
}

impl Log {
    pub fn new((most, per): (u64, u64)) -> Self {
        Self { most, per, given: Vec::new() }
    }

    /// Records elements, of which none was given out later than this.
    pub fn give(&mut self, moment: u64, count: u64) {
        let granule = self.per.div_ceil(1024);
        let end = moment.next_multiple_of(granule);
        // What had left the window when the granule began is dropped, even if the window becomes longer later.
        self.given.retain(|(moment, _)| moment + self.per > end + 1 - granule);
        self.given.push((end, count));
    }

    /// Changes the limit.
    pub fn change(&mut self, limit: (u64, u64)) {
        if limit != (self.most, self.per) {
            let given = std::mem::replace(self, Self::new(limit)).given;
            given.into_iter().for_each(|(moment, count)| self.give(moment, count));
        }
    }

    /// Returns from when on the next element is allowed: when the n-th last leaves the window.
    pub fn next(&self) -> u64 {
        let mut later = 0;
        for (moment, count) in self.given.iter().rev() {
            later += count;
            if later >= self.most {
                return moment + self.per;
            }
        }
        0
    }

    /// Returns whether nothing counts any more.
    pub fn is_over(&self, now: u64) -> bool {
        self.given.last().is_none_or(|(moment, _)| moment + self.per <= now)
    }
}
