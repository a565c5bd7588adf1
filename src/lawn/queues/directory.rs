//! Where to begin to look in a long queue: some of its blocks, by turn.
//!
//! A queue is a list of blocks, which can only be walked. Every sixteenth block of a queue, or so, is listed here with
//! a turn that parts it from what comes before: every element before the block has an earlier turn, and every element
//! in it that turn or a later one. So whoever looks for a turn begins at the last block that is listed at or before
//! it, and walks some blocks from there, however long the queue is.
//!
//! An entry costs a twentieth of a byte for each element. The first block of a queue needs none.

use std::collections::BTreeMap;

use super::super::store::Handle;
use super::super::tiny::TINY;
use super::super::turn::Turn;
use super::heads::QueueNumber;

/// So many blocks are to one that is listed.
pub(super) const LISTED: u8 = if TINY { 2 } else { 16 };

/// Blocks of all queues of a lawn.
#[derive(Clone, Default)]
pub(super) struct Directory {
    blocks: BTreeMap<(QueueNumber, Turn), Handle>,
}

impl Directory {
    /// Lists a block.
    pub(super) fn insert(&mut self, queue: QueueNumber, turn: Turn, block: Handle) {
        let before = self.blocks.insert((queue, turn), block);
        debug_assert!(before.is_none(), "two blocks begin with {turn:?}");
    }

    /// Forgets a block that is listed and has, or just had, an element with this turn.
    pub(super) fn remove(&mut self, queue: QueueNumber, turn: Turn, block: Handle) {
        let entry = self.entry(queue, turn).filter(|(_, found)| *found == block);
        self.blocks.remove(&(queue, entry.expect("the block is listed").0));
    }

    /// Forgets the first block of a queue, which is listed.
    pub(super) fn remove_first(&mut self, queue: QueueNumber, block: Handle) {
        let first = self.blocks.range((queue, Turn::FIRST)..).next();
        let first = first.filter(|(_, found)| **found == block).map(|(key, _)| *key);
        self.blocks.remove(&first.expect("the block is listed"));
    }

    /// Takes note that a block has moved that is listed, and has an element with this turn.
    pub(super) fn replace(&mut self, queue: QueueNumber, turn: Turn, new: Handle) {
        let (listed, _) = self.entry(queue, turn).expect("the block is listed");
        self.blocks.insert((queue, listed), new);
    }

    /// Returns the last block that is listed at or before a turn.
    pub(super) fn last(&self, queue: QueueNumber, turn: Turn) -> Option<Handle> {
        self.entry(queue, turn).map(|(_, block)| block)
    }

    fn entry(&self, queue: QueueNumber, turn: Turn) -> Option<(Turn, Handle)> {
        let mut range = self.blocks.range((queue, Turn::FIRST)..=(queue, turn));
        range.next_back().map(|((_, turn), block)| (*turn, *block))
    }

    /// Takes it apart, to be freed an entry at a time.
    pub(super) fn into_entries(self) -> impl Iterator<Item = impl Sized> {
        self.blocks.into_iter()
    }

    /// Returns the bytes allocated, about. O(1).
    pub(super) fn memory(&self) -> usize {
        self.blocks.len() * size_of::<((QueueNumber, Turn), Handle)>() * 3 / 2
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub(super) fn allocations(&self) -> usize {
        self.blocks.len() / 7
    }

    /// Returns the turn at which a block is listed.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn listed(&self, queue: QueueNumber, turn: Turn, block: Handle) -> Option<Turn> {
        self.entry(queue, turn).filter(|(_, found)| *found == block).map(|(turn, _)| turn)
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }
}
