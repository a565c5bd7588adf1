//! Which blocks of a queue the [directory](super::directory) lists: about every sixteenth, so that a walk may
//! begin in the middle of a long queue. A listed block stands there at the turn that it begins with, or at an earlier
//! one, but later than all before the block: what would break that takes it off the list first.

use super::super::store::{Handle, Records};
use super::super::turn::Turn;
use super::block::View;
use super::blocks::Blocks;
use super::directory::{Directory, LISTED};

impl Directory {
    /// Counts a new block that stands behind another and begins with this turn: every so many of them is listed.
    pub(super) fn count_unlisted(
        &mut self,
        blocks: &mut Blocks,
        behind: Handle,
        new: Handle,
        turn: Turn,
    ) {
        let unlisted = blocks.bits(behind).unlisted % LISTED + 1;
        let bits = blocks.bits_mut(new);
        bits.unlisted = unlisted;
        let queue = bits.queue;
        if unlisted == LISTED {
            self.insert(queue, turn, new);
        }
    }

    /// Forgets a block that goes, and has or just had this element. If it is listed, the block behind it is listed instead, unless
    /// it is the first of its queue.
    pub(super) fn unlist(
        &mut self,
        blocks: &mut Blocks,
        records: &Records,
        block: Handle,
        element: Option<Handle>,
    ) {
        let View { bits, block: links } = blocks.view(block);
        let (queue, is_head, next) = (bits.queue, bits.is_head, links.next);
        if bits.unlisted != LISTED {
            return;
        }
        let turn = records.turn(element.expect("a block has elements"));
        self.remove(queue, turn, block);
        blocks.bits_mut(block).unlisted = 1;
        if let Some(next) = next.filter(|_| !is_head)
            && blocks.bits(next).unlisted != LISTED
        {
            let first = blocks.first(next).expect("a block is not empty");
            self.insert(queue, records.turn(first), next);
            blocks.bits_mut(next).unlisted = LISTED;
        }
    }

    /// Takes a block off the list. Returns whether it was there.
    pub(super) fn forget(&mut self, blocks: &mut Blocks, records: &Records, block: Handle) -> bool {
        let View { bits, .. } = blocks.view(block);
        let (queue, is_listed) = (bits.queue, bits.unlisted == LISTED);
        if is_listed {
            let first = blocks.first(block).expect("a block is not empty");
            self.remove(queue, records.turn(first), block);
            blocks.bits_mut(block).unlisted = 1;
        }
        is_listed
    }

    /// Lists what must be when the handles of a block are put into its neighbour.
    pub(super) fn list_joined(
        &mut self,
        blocks: &mut Blocks,
        records: &Records,
        block: Handle,
        target: Handle,
    ) {
        let View { bits, block: links } = blocks.view(block);
        let (queue, first) = (bits.queue, blocks.first(block));
        if links.next != Some(target) {
            return self.unlist(blocks, records, block, first);
        }
        // What comes to stand in it may be before the turn at which it is listed.
        let was_listed = [block, target].map(|block| self.forget(blocks, records, block));
        if was_listed.contains(&true) {
            let first = first.expect("a block is not empty");
            self.insert(queue, records.turn(first), target);
            blocks.bits_mut(target).unlisted = LISTED;
        }
    }
}
