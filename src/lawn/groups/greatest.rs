//! The groups with the most elements.
//!
//! Groups of [`LISTED_MIN`] elements or more are in a list by their size in steps of a quarter. Steps begin at multiples of a
//! quarter of that size, so only there a change is looked at.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::element::Group;
use super::super::memory::tree_bytes;
use super::super::tiny::TINY;
use super::table::Table;

const LISTED_MIN: u32 = if TINY { 4 } else { 64 };
/// The most groups that are all compared.
const COMPARED_MAX: usize = if TINY { 8 } else { 1024 };

/// Groups by the step of their size.
#[derive(Clone, Default)]
pub struct Greatest(BTreeSet<(u8, Group)>);

/// Returns the step of a size, four of them for each doubling. 0: it is not listed.
fn step(len: u32) -> u8 {
    let log = len.max(4).ilog2();
    if len < LISTED_MIN { 0 } else { (4 * log + (len >> (log - 2) & 3)) as u8 }
}

impl Greatest {
    /// Updates a group's place after its size has changed by one.
    #[inline(always)]
    pub fn update(&mut self, group: Group, before: u32, len: u32) {
        let greater = before.max(len);
        if greater.is_multiple_of(LISTED_MIN / 4) && greater >= LISTED_MIN {
            self.relist(group, step(before), step(len));
        }
    }

    #[inline(never)]
    fn relist(&mut self, group: Group, before: u8, step: u8) {
        if before != step {
            self.0.remove(&(before, group));
            self.0.extend((step > 0).then_some((step, group)));
        }
    }

    /// Replaces the handle of a group of this size that has moved.
    pub fn rename(&mut self, len: u32, old: Group, new: Group) {
        if self.0.remove(&(step(len), old)) {
            self.0.insert((step(len), new));
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

    /// Panics unless each group is listed that should be.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, table: &Table) {
        let steps = table.all().into_iter().map(|group| (step(table.get(group).len), group));
        assert_eq!(self.0, steps.filter(|it| it.0 > 0).collect(), "the greatest groups");
    }
}
