//! What records have in allocations of their own: a content that is too long for a slot, and a reason.
//!
//! A reason says why an element that was given back has not been done. Few elements have one, so a record says nothing of it:
//! whoever removes a record looks here, if there is anything here.

use std::collections::BTreeMap;

use super::super::memory::{Mover, Steps, allotted, rounded, tree_bytes};
use super::handle::Handle;

/// Bytes by the bits of a record's handle. A B-tree, because a hash table would double at once.
type Boxes = BTreeMap<u32, Vec<u8>>;

/// Holds what records have beside their slots. `None` while there is nothing.
#[derive(Clone, Default)]
pub(super) struct Beside(Option<Box<Kept>>);

#[derive(Clone, Default)]
struct Kept {
    contents: Boxes,
    reasons: Boxes,
    /// Bytes allocated for both.
    bytes: usize,
}

impl Beside {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn has_contents(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| !kept.contents.is_empty())
    }

    pub(super) fn has_reasons(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| !kept.reasons.is_empty())
    }

    /// Returns the content of a record that has it here.
    pub(super) fn content(&self, record: Handle) -> &[u8] {
        let content = self.0.as_ref().and_then(|kept| kept.contents.get(&record.bits()));
        content.expect("a record has its content here")
    }

    pub(super) fn reason(&self, record: Handle) -> Option<&[u8]> {
        self.0.as_ref()?.reasons.get(&record.bits()).map(Vec::as_slice)
    }

    pub(super) fn put_content(&mut self, record: Handle, bytes: Vec<u8>) {
        let kept = self.0.get_or_insert_default();
        kept.bytes += allotted(&bytes);
        kept.contents.insert(record.bits(), bytes);
    }

    /// Sets the reason of a record; an empty one is none.
    pub(super) fn set_reason(&mut self, record: Handle, reason: &[u8]) {
        self.remove(record, false);
        if !reason.is_empty() {
            let (kept, reason) = (self.0.get_or_insert_default(), reason.to_vec());
            kept.bytes += allotted(&reason);
            kept.reasons.insert(record.bits(), reason);
        }
    }

    /// Removes the reason of a record and, if `has_content`, its content.
    #[inline(never)]
    pub(super) fn remove(&mut self, record: Handle, has_content: bool) {
        let Some(kept) = &mut self.0 else { return };
        let content = has_content.then(|| kept.contents.remove(&record.bits())).flatten();
        for bytes in content.into_iter().chain(kept.reasons.remove(&record.bits())) {
            kept.bytes -= allotted(&bytes);
        }
        if kept.contents.is_empty() && kept.reasons.is_empty() {
            self.0 = None;
        }
    }

    /// Moves everything to another handle: that of the same record in another slot.
    pub(super) fn rename(&mut self, old: Handle, new: Handle) {
        let Some(kept) = &mut self.0 else { return };
        let content = kept.contents.remove(&old.bits());
        kept.contents.extend(content.map(|bytes| (new.bits(), bytes)));
        self.pass_reason(old, new);
    }

    /// Gives the reason of a record to another one.
    pub(super) fn pass_reason(&mut self, old: Handle, new: Handle) {
        let Some(kept) = &mut self.0 else { return };
        let reason = kept.reasons.remove(&old.bits());
        kept.reasons.extend(reason.map(|bytes| (new.bits(), bytes)));
    }

    /// Moves an allocation in each step. No steps can follow.
    pub(super) fn defrag(&mut self, steps: &mut Steps<'_, impl Mover>) {
        let Some(kept) = &mut self.0 else { return };
        steps.each_by_key(&mut kept.contents);
        steps.each_by_key(&mut kept.reasons);
    }

    pub(super) fn memory(&self) -> usize {
        let Some(kept) = &self.0 else { return 0 };
        let trees = [&kept.contents, &kept.reasons].map(|tree| tree.len());
        let trees = trees.map(tree_bytes::<(u32, Vec<u8>)>).iter().sum::<usize>();
        rounded(size_of::<Kept>()) + kept.bytes + trees
    }

    /// Returns roughly how many allocations dropping it frees. O(1).
    pub(super) fn allocations(&self) -> usize {
        self.0.as_ref().map_or(0, |kept| kept.contents.len() + kept.reasons.len())
    }

    /// Panics unless all agrees, and exactly these records have their content here, and all reasons belong to live ones.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self, live: impl Iterator<Item = (Handle, bool)>) {
        let live: BTreeMap<_, _> =
            live.map(|(record, is_boxed)| (record.bits(), is_boxed)).collect();
        let boxed = live.iter().filter(|(_, is_boxed)| **is_boxed).map(|(record, _)| *record);
        let Some(kept) = &self.0 else { return assert_eq!(boxed.count(), 0, "lost contents") };
        assert!(boxed.eq(kept.contents.keys().copied()), "contents and their records");
        assert!(kept.reasons.keys().all(|it| live.contains_key(it)), "reasons and their records");
        let all = || kept.contents.values().chain(kept.reasons.values());
        assert!(all().count() > 0, "nothing is kept");
        assert_eq!(kept.bytes, all().map(allotted).sum::<usize>(), "bytes of allocations");
    }
}
