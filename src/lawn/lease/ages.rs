//! Since when elements are held: how many since each second, to find the first.
//!
//! A count for each second in which a lease began that still holds takes little memory whether many leases begin at once or
//! some are held for days. So the first is known to a second.

use std::collections::BTreeMap;

/// The number of elements that are held, by the second in which that began.
#[derive(Clone, Default)]
pub(super) struct Ages(BTreeMap<u32, u32>);

/// Returns the second of a moment in milliseconds. After the year 2106 all are the same.
fn second_of(since: u64) -> u32 {
    u32::try_from(since / 1000).unwrap_or(u32::MAX)
}

fn end_of(second: u32) -> u64 {
    u64::from(second) * 1000 + 999
}

/// Returns the end of the second of a moment, both in milliseconds.
pub fn end_of_second(since: u64) -> u64 {
    end_of(second_of(since))
}

impl Ages {
    /// Counts an element that is held since a moment. 0: nobody knows since when.
    pub(super) fn insert(&mut self, since: u64) {
        if since > 0 {
            *self.0.entry(second_of(since)).or_default() += 1;
        }
    }

    /// Undoes [`Ages::insert`].
    pub(super) fn remove(&mut self, since: u64) {
        let second = second_of(since);
        if since > 0
            && let Some(count) = self.0.get_mut(&second)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&second);
            }
        }
    }

    /// Returns the end of the second in which the first began, in milliseconds since the epoch.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first_key_value().map(|(second, _)| end_of(*second))
    }

    /// Returns the bytes allocated, roughly.
    pub(super) fn memory(&self) -> usize {
        // The standard library's nodes are half full if each new entry is the last.
        self.0.len() * size_of::<(u32, u32)>() * 2
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self, all: impl Iterator<Item = u64>) {
        let mut expected = Self::default();
        all.for_each(|since| expected.insert(since));
        assert_eq!(self.0, expected.0, "since when elements are held");
    }
}
