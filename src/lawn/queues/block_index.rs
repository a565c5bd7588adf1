//! A sparse index of the blocks of long queues, by turn.
//!
//! A queue is a linked list of blocks. About every sixteenth block is in this index, under a turn that separates it
//! from the blocks before it: every element before the block has an earlier turn, and every element in the block has
//! that turn or a later one. A search begins at the last indexed block at or before its turn and walks a few blocks
//! from there, however long the queue is. A block's entry may be earlier than its first element. An operation that
//! would break the rule removes the entry first.
//!
//! An entry costs a twentieth of a byte per element. The first block of a queue needs none.

use std::collections::BTreeMap;

use super::super::memory::tree_bytes;
use super::super::store::{Handle, Records};
use super::super::tiny::TINY;
use super::super::turn::Turn;
use super::block::BlockView;
use super::blocks::Blocks;
use super::heads::QueueNumber;

/// Blocks of a queue per entry of the index.
pub(super) const BLOCKS_PER_ENTRY: u8 = if TINY { 2 } else { 16 };

/// The indexed blocks of all queues of a lawn.
#[derive(Clone, Default)]
pub(super) struct BlockIndex {
    blocks: BTreeMap<(QueueNumber, Turn), Handle>,
}

impl BlockIndex {
    /// Adds an entry.
    pub(super) fn insert(&mut self, queue: QueueNumber, turn: Turn, block: Handle) {
        let before = self.blocks.insert((queue, turn), block);
        debug_assert!(before.is_none(), "two blocks begin with {turn:?}");
    }

    /// Removes the entry of the first block of a queue.
    pub(super) fn remove_first(&mut self, queue: QueueNumber, block: Handle) {
        let first = self.blocks.range((queue, Turn::FIRST)..).next();
        let first = first.filter(|(_, found)| **found == block).map(|(key, _)| *key);
        self.blocks.remove(&first.expect("the block is indexed"));
    }

    /// Replaces the handle of an indexed block that has an element with this turn.
    pub(super) fn replace(&mut self, queue: QueueNumber, turn: Turn, new: Handle) {
        let (indexed, _) = self.entry(queue, turn).expect("the block is indexed");
        self.blocks.insert((queue, indexed), new);
    }

    /// Returns the last block that is indexed at or before a turn.
    pub(super) fn last(&self, queue: QueueNumber, turn: Turn) -> Option<Handle> {
        self.entry(queue, turn).map(|(_, block)| block)
    }

    fn entry(&self, queue: QueueNumber, turn: Turn) -> Option<(Turn, Handle)> {
        let mut range = self.blocks.range((queue, Turn::FIRST)..=(queue, turn));
        range.next_back().map(|((_, turn), block)| (*turn, *block))
    }

    /// Counts a new block that follows `behind` and starts at `turn`. Every [`BLOCKS_PER_ENTRY`]-th block gets an
    /// entry.
    pub(super) fn add_block(
        &mut self,
        blocks: &mut Blocks,
        behind: Handle,
        new: Handle,
        turn: Turn,
    ) {
        let since_indexed = blocks.meta(behind).since_indexed % BLOCKS_PER_ENTRY + 1;
        let meta = blocks.meta_mut(new);
        meta.since_indexed = since_indexed;
        let queue = meta.queue;
        if since_indexed == BLOCKS_PER_ENTRY {
            self.insert(queue, turn, new);
        }
    }

    /// Removes the entry of a block that is about to be dropped and has, or just had, this element. The next block gets
    /// an entry instead, unless the dropped block was the first of its queue.
    pub(super) fn remove_block(
        &mut self,
        blocks: &mut Blocks,
        records: &Records,
        block: Handle,
        element: Option<Handle>,
    ) {
        let BlockView { meta, block: links } = blocks.view(block);
        let (queue, is_head, next) = (meta.queue, meta.is_head, links.next);
        if self.remove_entry(blocks, records, block, element)
            && let Some(next) = next.filter(|_| !is_head)
            && blocks.meta(next).since_indexed != BLOCKS_PER_ENTRY
        {
            let first = blocks.view(next).first().expect("a block is not empty");
            self.insert(queue, records.turn(first), next);
            blocks.meta_mut(next).since_indexed = BLOCKS_PER_ENTRY;
        }
    }

    /// Removes the entry of a block that has, or just had, this element. Returns whether there was one.
    fn remove_entry(
        &mut self,
        blocks: &mut Blocks,
        records: &Records,
        block: Handle,
        element: Option<Handle>,
    ) -> bool {
        let meta = blocks.meta_mut(block);
        let has_entry = meta.since_indexed == BLOCKS_PER_ENTRY;
        if has_entry {
            meta.since_indexed = 1;
            let turn = records.turn(element.expect("a block has elements"));
            let entry = self.entry(meta.queue, turn).filter(|(_, found)| *found == block);
            self.blocks.remove(&(meta.queue, entry.expect("the block is indexed").0));
        }
        has_entry
    }

    /// Updates the index before the handles of a block move to its neighbour `target`.
    pub(super) fn join_blocks(
        &mut self,
        blocks: &mut Blocks,
        records: &Records,
        block: Handle,
        target: Handle,
    ) {
        let BlockView { meta, block: links } = blocks.view(block);
        let (queue, first) = (meta.queue, blocks.view(block).first());
        if links.next != Some(target) {
            return self.remove_block(blocks, records, block, first);
        }
        // The elements that move into `target` may precede its entry.
        let elements = [(block, first), (target, blocks.view(target).first())];
        let had_entry = elements.map(|(block, it)| self.remove_entry(blocks, records, block, it));
        if had_entry.contains(&true) {
            let first = first.expect("a block is not empty");
            self.insert(queue, records.turn(first), target);
            blocks.meta_mut(target).since_indexed = BLOCKS_PER_ENTRY;
        }
    }

    /// Returns the bytes allocated, roughly. O(1).
    pub(super) fn memory(&self) -> usize {
        tree_bytes::<((QueueNumber, Turn), Handle)>(self.blocks.len())
    }

    /// Returns the turn of a block's entry.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn indexed_turn(
        &self,
        queue: QueueNumber,
        turn: Turn,
        block: Handle,
    ) -> Option<Turn> {
        self.entry(queue, turn).filter(|(_, found)| *found == block).map(|(turn, _)| turn)
    }

    #[cfg(any(test, feature = "checks"))]
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }
}
