//! The logs of what groups gave out under limits of rate.

use std::collections::BTreeMap;

use super::super::element::Group;
use super::super::rate::Rate;

/// The logs of groups.
#[derive(Clone, Default)]
pub(super) struct Logs {
    pub by_group: BTreeMap<Group, Rate>,
    /// Groups that gave something out since somebody asked, with the number of elements.
    pub counted: Vec<(Group, u64)>,
    /// The last log that was examined. The next one is that of the next group.
    pub examined: Option<Group>,
    /// When all logs are over, in milliseconds since the epoch, unless the clock steps back.
    pub end: u64,
    /// The heap allocations of the logs.
    pub bytes: usize,
}

impl Logs {
    pub fn is_empty(&self) -> bool {
        self.by_group.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_group.len()
    }

    /// Returns from when on the log of a group lets it give something out. 0 without a log.
    pub fn next(&self, group: Group, now: u64) -> u64 {
        self.by_group.get(&group).map_or(0, |log| log.next(now))
    }

    /// Returns the bytes allocated. O(1).
    pub fn memory(&self) -> usize {
        let node = 3 * size_of::<(Group, Rate)>() / 2;
        self.bytes
            + self.by_group.len() * node
            + self.counted.capacity() * size_of::<(Group, u64)>()
    }

    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        assert_eq!(
            self.bytes,
            self.by_group.values().map(Rate::memory).sum::<usize>(),
            "bytes of logs"
        );
    }
}
