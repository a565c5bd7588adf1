//! The groups with the most elements.
//!
//! Groups of [`LISTED_MIN`] elements or more are in a list by their size in steps of a quarter, which is brought up to date
//! only when a size has changed by two of them: that costs a small part of what the change itself costs. Steps begin at multiples
//! of a quarter of that, so only these are compared.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::element::Group;
use super::super::memory::tree_bytes;
use super::super::tiny::TINY;
use super::table::{GroupRecord, Table};

const LISTED_MIN: u32 = if TINY { 4 } else { 64 };
/// The most groups that are all compared.
const COMPARED_MAX: usize = if TINY { 8 } else { 1024 };

/// Groups by the step of their size.
#[derive(Clone, Default)]
pub struct Greatest(BTreeSet<(u8, Group)>);

/// Returns the step of a size of 4 or more: four of them for each doubling.
fn step(len: u32) -> u8 {
    let log = len.ilog2();
    (4 * log + (len >> (log - 2) & 3)) as u8
}

impl Greatest {
    /// Updates a group's place after its size has changed.
    #[inline(always)]
    pub fn update(&mut self, record: &mut GroupRecord, group: Group) {
        if record.len.is_multiple_of(LISTED_MIN / 4)
            && (record.len >= LISTED_MIN || record.listed > 0)
        {
            self.relist(record, group);
        }
    }

    #[inline(never)]
    fn relist(&mut self, record: &mut GroupRecord, group: Group) {
        let GroupRecord { len, listed, .. } = *record;
        // A group that is a little below the least size stays listed, lest one at the edge be listed over and over.
        let size = if len < LISTED_MIN * 3 / 4 { 0 } else { step(len.max(4)) };
        if size.abs_diff(listed) < 2 {
            return;
        }
        self.0.remove(&(listed, group));
        record.listed = size;
        if size > 0 {
            self.0.insert((size, group));
        }
    }

    /// Replaces the handle of a group that has moved.
    pub fn rename(&mut self, record: &GroupRecord, old: Group, new: Group) {
        if self.0.remove(&(record.listed, old)) {
            self.0.insert((record.listed, new));
        }
    }

    /// Lists up to `most` groups with the most elements, by number and name. Exact for up to [`COMPARED_MAX`] groups. With
    /// more, it compares that many of the greatest by their rough sizes, and none of less than [`LISTED_MIN`] elements.
    pub fn list<'a>(&self, table: &'a Table, most: usize) -> Vec<(&'a [u8], usize)> {
        let groups = if table.len() <= COMPARED_MAX {
            table.all()
        } else {
            self.0.iter().rev().take(COMPARED_MAX).map(|(_, group)| *group).collect()
        };
        let all = groups.into_iter().map(|it| (table.name(it), table.get(it).len as usize));
        let mut all: Vec<_> = all.filter(|(_, length)| *length > 0).collect();
        all.sort_unstable_by_key(|(name, length)| (Reverse(*length), *name));
        all.truncate(most);
        all
    }

    /// Returns the bytes allocated, roughly.
    pub fn memory(&self) -> usize {
        tree_bytes::<(u8, Group)>(self.0.len())
    }

    /// Panics unless each group is listed that should be, by about its size.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, table: &Table) {
        let mut listed = 0;
        for group in table.all() {
            let GroupRecord { len, listed: size, .. } = *table.get(group);
            assert!(len < LISTED_MIN || step(len).abs_diff(size) <= 2, "{len} as {size}");
            assert_eq!(self.0.contains(&(size, group)), size > 0, "a group of {len} as {size}");
            listed += usize::from(size > 0);
        }
        assert_eq!(self.0.len(), listed, "lost groups");
    }
}
