//! A group of the model, and from when on it gives something out.

use std::collections::{BTreeMap, BTreeSet};

use super::Bytes;
use super::entry::Place;
use super::limits::{Log, Settings};

#[derive(Clone, Debug, Default)]
pub struct Group {
    pub members: BTreeMap<Place, Bytes>,
    pub held: BTreeSet<Place>,
    pub settings: Settings,
    pub log: Log,
    /// Under which moment it is filed in `openings`.
    pub filed: Option<u64>,
    /// The number of elements that the dehydrator had given out when the group last changed.
    pub changed: u64,
    /// When its last pause ended by itself.
    pub resumed: u64,
}

/// From when on a group gives something out: at the earliest and at the latest, as RATE has it; and what.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    pub earliest: u64,
    pub latest: u64,
    /// From when on, but for RATE.
    pub unlimited: u64,
    /// The first deadline, whatever the limits are.
    pub deadline: u64,
    pub first: Place,
    /// What is first under the limits before.
    pub other: Place,
}

impl Group {
    /// Returns from when on it gives something out under these limits, and what. `None`: it has nothing.
    pub fn opening(&self, (held, rate): (u64, (u64, u64))) -> Option<Opening> {
        let (first, _) = self.members.first_key_value()?;
        let excess = if held > 0 { (self.held.len() as u64 + 1).saturating_sub(held) } else { 0 };
        let (deadline, mut at, mut first) = (*first, first.0, *first);
        if excess > 0 {
            first = *self.held.first().expect("one is held");
            // Not counted from the first: so many may be held.
            at = self.held.iter().nth_back(held as usize - 1).expect("so many are held").0;
        }
        at = at.max(self.settings.pause.unwrap_or(0));
        let [earliest, latest] = self.log.next(rate).map(|next| next.max(at));
        Some(Opening { earliest, latest, unlimited: at, deadline: deadline.0, first, other: first })
    }
}
