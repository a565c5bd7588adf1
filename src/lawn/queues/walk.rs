//! Walking queues without changing them: what is due, and what comes from a turn on.

use super::super::store::{Handle, Records};
use super::super::turn::Turn;
use super::block::View;
use super::queues::{Queue, Queues};

/// A place in a queue, for walking it.
#[derive(Clone, Copy)]
pub struct Cursor {
    pub ttl: u64,
    block: Handle,
    place: usize,
}

impl Queues {
    /// Lists the TTLs that have a queue, each with a part of its elements: as often as there are blocks.
    pub fn counts(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let lengths = self.blocks.lengths();
        lengths.map(|(queue, length)| (self.queues[usize::from(queue)].ttl, length))
    }

    /// Returns how many elements are due at `now`. Reads one record of each block that has some, and six of the
    /// last one.
    pub fn count_due(&self, records: &Records, now: u64) -> usize {
        let is_due = |handle: Handle| records.turn(handle).deadline <= now;
        let in_queue = |cursor: Cursor| {
            let blocks = std::iter::successors(Some(self.blocks.view(cursor.block)), |view| {
                let next = view.block.next.map(|next| self.blocks.view(next));
                next.filter(|next| next.first().is_some_and(is_due))
            });
            // All of a block are due if the first of the next one is.
            let mut count = 0;
            let mut last = None;
            for view in blocks {
                count += last.replace(view).map_or(0, |before: View<'_>| before.bits.len());
            }
            let in_last =
                |last: View<'_>| last.last_that(is_due).map_or(0, |it| last.bits.count_to(it));
            count + last.map_or(0, in_last)
        };
        self.due(records, now).map(|(_, cursor)| in_queue(cursor)).sum()
    }

    /// Returns the heads that are due by `deadline`, each with a cursor to walk its queue from there.
    pub fn due<'a>(
        &'a self,
        records: &'a Records,
        deadline: u64,
    ) -> impl Iterator<Item = (Turn, Cursor)> + 'a {
        self.heads.due(deadline).into_iter().filter_map(move |(mut turn, number)| {
            if self.unsettled.has(number) {
                turn = self.head_turn(records, number).filter(|turn| turn.deadline <= deadline)?;
            }
            let Queue { ttl, ends, .. } = self.queues[usize::from(number)];
            let (head, _) = ends?;
            let place = self.blocks.bits(head).first_place()?;
            Some((turn, Cursor { ttl, block: head, place }))
        })
    }

    /// Returns the queue at a place of the heap of heads: no earlier turn than it has, and a cursor to walk it.
    pub fn at_place(&self, place: usize) -> Option<(Turn, Cursor)> {
        let (turn, number) = self.heads.at(place)?;
        let Queue { ttl, ends, .. } = self.queues[usize::from(number)];
        let (head, _) = ends?;
        Some((turn, Cursor { ttl, block: head, place: self.blocks.bits(head).first_place()? }))
    }

    /// Returns the first element of the queue at a place of the heap of heads whose turn is `turn` or later. Walks some blocks,
    /// however long the queue is.
    pub fn seek_at_place(
        &self,
        records: &Records,
        place: usize,
        turn: Turn,
    ) -> Option<(Turn, Cursor)> {
        let (_, number) = self.heads.at(place)?;
        let Queue { ttl, ends, latest, .. } = self.queues[usize::from(number)];
        let (head, _) = ends.filter(|_| latest >= turn.deadline)?;
        let is_earlier = |handle: Handle| records.turn(handle) < turn;
        let mut block = self.directory.last(number, turn).unwrap_or(head);
        while let Some(next) = self.blocks.block(block).next
            && self.blocks.first(next).is_some_and(is_earlier)
        {
            block = next;
        }
        let view = self.blocks.view(block);
        let from = view.last_that(is_earlier).map_or(0, |earlier| earlier + 1);
        let (block, place) = match view.bits.first_from(from) {
            Some(place) => (block, place),
            None => {
                let next = view.block.next?;
                (next, self.blocks.bits(next).first_place()?)
            }
        };
        let found = self.blocks.view(block).at(place)?;
        Some((records.turn(found), Cursor { ttl, block, place }))
    }

    /// Returns the record at a cursor, and the cursor behind it.
    pub fn at(&self, cursor: Cursor) -> Option<(Handle, Option<Cursor>)> {
        let view = self.blocks.view(cursor.block);
        let handle = view.at(cursor.place)?;
        let next = match view.bits.first_from(cursor.place + 1) {
            Some(place) => Some(Cursor { place, ..cursor }),
            None => view.block.next.and_then(|block| {
                let place = self.blocks.bits(block).first_place()?;
                Some(Cursor { block, place, ..cursor })
            }),
        };
        Some((handle, next))
    }
}
