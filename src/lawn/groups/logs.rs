//! The logs of what groups gave out under limits of rate.
//!
//! A group keeps its log when it has no element left: with one job at a time it would have no limit otherwise. The owner of
//! the lawn forgets logs from time to time that are over.

use std::collections::{BTreeMap, BTreeSet};

use super::super::element::Group;
use super::super::memory::tree_bytes;
use super::super::rate::Rate;

/// The log of a group, and the moment for which it is filed: it was not over before, as far as was known then.
#[derive(Clone)]
struct Log {
    rate: Rate,
    filed: u64,
}

impl Log {
    fn file(&mut self, ends: &mut BTreeSet<(u64, Group)>, group: Group, at: u64) {
        ends.remove(&(self.filed, group));
        self.filed = at;
        ends.insert((at, group));
    }
}

/// The logs of groups.
#[derive(Clone, Default)]
pub struct Logs {
    by_group: BTreeMap<Group, Log>,
    /// The groups by the moments for which they are filed, in milliseconds since the epoch.
    ends: BTreeSet<(u64, Group)>,
    /// Groups that gave something out since somebody asked, with the number of elements.
    pub counted: BTreeMap<Group, u64>,
    /// The latest moment that is recorded. If the clock is before it, it has stepped back.
    pub latest: u64,
    /// The heap allocations of the logs.
    bytes: usize,
}

impl Logs {
    pub fn get(&self, group: Group) -> Option<&Rate> {
        self.by_group.get(&group).map(|log| &log.rate)
    }

    pub fn len(&self) -> usize {
        self.by_group.len()
    }

    /// Iterates over the groups that have a log.
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.by_group.keys().copied()
    }

    /// Records that a group gave out `count` elements. A new log has this limit, of a number and milliseconds.
    pub fn record(&mut self, group: Group, (max, per): (u64, u64), moment: u64, count: u64) {
        self.latest = self.latest.max(moment);
        let Self { by_group, ends, bytes, .. } = self;
        let log = by_group.entry(group).or_insert_with(|| {
            let filed = moment.saturating_add(per);
            ends.insert((filed, group));
            Log { rate: Rate::new(max, per), filed }
        });
        *bytes -= log.rate.memory();
        log.rate.record(moment, count);
        *bytes += log.rate.memory();
    }

    pub fn set(&mut self, group: Group, rate: Rate) {
        self.remove(group);
        self.bytes += rate.memory();
        let filed = rate.over_at();
        self.ends.insert((filed, group));
        self.by_group.insert(group, Log { rate, filed });
    }

    pub fn remove(&mut self, group: Group) {
        if let Some(log) = self.by_group.remove(&group) {
            self.bytes -= log.rate.memory();
            self.ends.remove(&(log.filed, group));
        }
    }

    /// Replaces the handle of a group that has moved.
    pub fn rename(&mut self, old: Group, new: Group) {
        if let Some(log) = self.by_group.remove(&old) {
            self.ends.remove(&(log.filed, old));
            self.ends.insert((log.filed, new));
            self.by_group.insert(new, log);
        }
        if let Some(count) = self.counted.remove(&old) {
            self.counted.insert(new, count);
        }
    }

    /// Tells the log of a group that the time is `now`: the clock may have stepped back.
    pub fn apply_clock(&mut self, group: Group, now: u64) {
        if let Some(log) = self.by_group.get_mut(&group) {
            log.rate.next(now);
            log.file(&mut self.ends, group, log.filed.min(log.rate.over_at()));
        }
    }

    /// Returns a moment before which no log is over, in milliseconds since the epoch, if there is one. O(1).
    pub fn first_end(&self) -> Option<u64> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Examines the next log that may be over at `now`. Returns its group, and whether it is; if not, it is filed anew.
    pub fn examine(&mut self, now: u64) -> Option<(Group, bool)> {
        let (_, group) = self.ends.first().copied().filter(|(end, _)| *end <= now)?;
        let log = self.by_group.get_mut(&group)?;
        let is_over = log.rate.is_over(now);
        if !is_over {
            log.file(&mut self.ends, group, log.rate.over_at().max(now.saturating_add(1)));
        }
        Some((group, is_over))
    }

    /// Returns the bytes allocated. O(1).
    pub fn memory(&self) -> usize {
        let groups = self.by_group.len();
        self.bytes + tree_bytes::<(Group, Log)>(groups) + tree_bytes::<(u64, Group)>(groups)
    }

    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        let bytes = self.by_group.values().map(|log| log.rate.memory()).sum::<usize>();
        assert_eq!(self.bytes, bytes, "bytes of logs");
        let ends: BTreeSet<_> =
            self.by_group.iter().map(|(group, it)| (it.filed, *group)).collect();
        assert_eq!(self.ends, ends, "the ends of logs");
    }
}
