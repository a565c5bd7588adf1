//! The groups with the most elements.
//!
//! Groups of [`LISTED_MIN`] elements or more are in a list by their size, which is brought up to date only when a size
//! has changed by a quarter: that costs a small part of what the change itself costs.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::element::Group;
use super::super::memory::tree_bytes;
use super::super::tiny::TINY;
use super::entries::{Entries, Entry};

const LISTED_MIN: u32 = if TINY { 4 } else { 64 };
/// The most groups that are all compared.
const COMPARED_MAX: usize = if TINY { 8 } else { 1024 };

/// Groups by their size, roughly.
#[derive(Clone, Default)]
pub struct Greatest(BTreeSet<(u32, Group)>);

impl Greatest {
    /// Updates a group's place after its size has changed.
    #[inline(always)]
    pub fn update(&mut self, entry: &mut Entry, group: Group) {
        let Entry { len, listed, .. } = *entry;
        if len.abs_diff(listed) > listed.max(LISTED_MIN - 1) / 4 && listed.max(len) >= LISTED_MIN {
            self.relist(entry, group);
        }
    }

    #[inline(never)]
    fn relist(&mut self, entry: &mut Entry, group: Group) {
        if entry.listed > 0 {
            self.0.remove(&(entry.listed, group));
        }
        entry.listed = if entry.len >= LISTED_MIN { entry.len } else { 0 };
        if entry.listed > 0 {
            self.0.insert((entry.listed, group));
        }
    }

    /// Lists up to `most` groups with the most elements, by number and name. Exact for up to [`COMPARED_MAX`] groups. With
    /// more, it compares that many of the greatest by their rough sizes, and none of less than [`LISTED_MIN`] elements.
    pub fn list<'a>(&self, entries: &'a Entries, most: usize) -> Vec<(&'a [u8], usize)> {
        let groups = if entries.len() <= COMPARED_MAX {
            entries.all()
        } else {
            self.0.iter().rev().take(COMPARED_MAX).map(|(_, group)| *group).collect()
        };
        let all = groups.into_iter().map(|it| (entries.name(it), entries.get(it).len as usize));
        let mut all: Vec<_> = all.filter(|(_, length)| *length > 0).collect();
        all.sort_unstable_by_key(|(name, length)| (Reverse(*length), *name));
        all.truncate(most);
        all
    }

    /// Returns the bytes allocated, roughly.
    pub fn memory(&self) -> usize {
        tree_bytes::<(u32, Group)>(self.0.len())
    }

    /// Panics unless each group is listed that should be, by about its size.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, entries: &Entries) {
        let mut listed = 0;
        for group in entries.all() {
            let Entry { len, listed: size, .. } = *entries.get(group);
            assert!(
                len.abs_diff(size) <= size.max(LISTED_MIN - 1) / 4 || len.max(size) < LISTED_MIN
            );
            assert_eq!(self.0.contains(&(size, group)), size > 0, "a group of {len} as {size}");
            listed += usize::from(size > 0);
        }
        assert_eq!(self.0.len(), listed, "lost groups");
    }
}
