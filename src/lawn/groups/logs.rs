//! The logs of what groups gave out under limits of rate.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::super::element::Group;
use super::super::memory::tree_bytes;
use super::super::rate::Rate;

/// The logs of groups.
#[derive(Clone)]
pub struct Logs {
    pub by_group: BTreeMap<Group, Rate>,
    /// Groups that gave something out since somebody asked, with the number of elements.
    pub counted: BTreeMap<Group, u64>,
    /// The last log that was examined. The next one is that of the next group.
    examined: Option<Group>,
    /// No log is over before this moment, in milliseconds since the epoch, unless the clock steps back.
    end: u64,
    /// The same for the logs that were examined since the first of all, or have changed since.
    kept_end: u64,
    /// The heap allocations of the logs.
    bytes: usize,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            by_group: BTreeMap::new(),
            counted: BTreeMap::new(),
            examined: None,
            end: u64::MAX,
            kept_end: u64::MAX,
            bytes: 0,
        }
    }
}

impl Logs {
    /// Returns from when on the log of a group lets it give something out. 0 without a log.
    pub fn next(&self, group: Group, now: u64) -> u64 {
        self.by_group.get(&group).map_or(0, |log| log.next(now))
    }

    /// Records that a group gave out `count` elements. A new log has this limit, of a number and milliseconds.
    pub fn record(&mut self, group: Group, (max, per): (u64, u64), moment: u64, count: u64) {
        let log = self.by_group.entry(group).or_insert_with(|| Rate::new(max, per));
        self.bytes -= log.memory();
        log.record(moment, count);
        self.bytes += log.memory();
        let end = end_of(log);
        self.note_end(end);
    }

    /// Sets the log of a group.
    pub fn set(&mut self, group: Group, log: Rate) {
        self.note_end(end_of(&log));
        self.bytes += log.memory();
        let old = self.by_group.insert(group, log);
        self.bytes -= old.map_or(0, |old| old.memory());
    }

    fn note_end(&mut self, end: u64) {
        (self.end, self.kept_end) = (self.end.min(end), self.kept_end.min(end));
    }

    pub fn remove(&mut self, group: Group) {
        let log = self.by_group.remove(&group);
        self.bytes -= log.map_or(0, |log| log.memory());
    }

    /// Returns the group of the next log, and whether that is over at `now`. `None`: the last one was examined.
    pub fn examine(&mut self, now: u64) -> Option<(Group, bool)> {
        let from = self.examined.map_or(Bound::Unbounded, Bound::Excluded);
        let Some((group, log)) = self.by_group.range((from, Bound::Unbounded)).next() else {
            (self.examined, self.end, self.kept_end) = (None, self.kept_end, u64::MAX);
            return None;
        };
        let is_over = log.is_over(now);
        if !is_over {
            self.kept_end = self.kept_end.min(end_of(log));
        }
        self.examined = Some(*group);
        Some((*group, is_over))
    }

    /// Returns a moment before which no log is over, in milliseconds since the epoch, if there is one. O(1).
    pub fn end(&self) -> Option<u64> {
        (!self.by_group.is_empty()).then_some(self.end)
    }

    /// Returns the bytes allocated. O(1).
    pub fn memory(&self) -> usize {
        self.bytes + tree_bytes::<(Group, Rate)>(self.by_group.len())
    }

    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        let bytes = self.by_group.values().map(Rate::memory).sum::<usize>();
        assert_eq!(self.bytes, bytes, "bytes of logs");
        let first = self.by_group.values().map(end_of).min();
        assert!(first.is_none_or(|first| self.end <= first), "the first end of a log");
    }
}

fn end_of(log: &Rate) -> u64 {
    log.last().saturating_add(log.per())
}
