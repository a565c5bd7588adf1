//! Walking queues without changing them: what is due, and what comes from a turn on.

use super::super::store::{Handle, Records};
use super::super::turn::Turn;
use super::block::View;
use super::heads::{QueueNumber, TIMELINE};
use super::order::Order;
use super::queues::{Queue, Queues};

/// A place in a queue or in the timeline, for walking it.
pub struct Cursor {
    /// That of the queue.
    ttl: u64,
    block: Handle,
    place: usize,
    /// The order of the block, in the timeline.
    order: Option<Box<Order>>,
}

impl Queues {
    /// Lists the TTLs, each with a part of its elements: as often as there are blocks, and once for each element of the timeline.
    pub fn counts(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let lengths = self.blocks.lengths().filter(|(queue, _)| *queue != TIMELINE);
        let queued = lengths.map(|(queue, length)| (self.queues[usize::from(queue)].ttl, length));
        queued.chain(self.timed_ttls().map(|ttl| (ttl, 1)))
    }

    /// Returns how many elements are due at `now`. Reads one record of each block that has some, and six of the
    /// last one.
    pub fn count_due(&self, records: &Records, now: u64) -> usize {
        let is_due = |handle: Handle| records.turn(handle).deadline <= now;
        let in_queue = |head: Handle| {
            let blocks = std::iter::successors(Some(self.blocks.view(head)), |view| {
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
        let queues = self.heads.due(now).into_iter().filter(|(_, number)| *number != TIMELINE);
        let heads = queues.filter_map(|(_, number)| {
            let (head, _) = self.queues[usize::from(number)].ends?;
            self.blocks.first(head).filter(|first| is_due(*first)).map(|_| head)
        });
        heads.map(in_queue).sum::<usize>() + self.count_due_in_timeline(records, now)
    }

    /// Returns the turn at a place of the heap of heads: no later one than that queue's first element has.
    pub fn turn_at_place(&self, place: usize) -> Option<Turn> {
        self.heads.at(place).map(|(turn, _)| turn)
    }

    /// Returns a cursor to walk the queue at a place of the heap of heads, and no later turn than its first element has.
    pub fn at_place(&self, records: &Records, place: usize) -> Option<(Turn, Cursor)> {
        let (turn, number) = self.heads.at(place)?;
        let Queue { ttl, ends, .. } = self.queues[usize::from(number)];
        let (head, _) = ends?;
        if number == TIMELINE {
            return Some((turn, self.enter(records, head)?));
        }
        let place = self.blocks.bits(head).first_place()?;
        Some((turn, Cursor { ttl, block: head, place, order: None }))
    }

    /// Returns a cursor at the first element of a block of the timeline.
    fn enter(&self, records: &Records, block: Handle) -> Option<Cursor> {
        let order = Box::new(self.blocks.order(records, block));
        Some(Cursor { ttl: 0, block, place: order.place()?, order: Some(order) })
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
        let cursor = match number {
            TIMELINE => self.seek_in_timeline(records, turn),
            number => self.seek(records, number, turn),
        };
        let cursor = cursor?;
        let (_, found) = self.at(&cursor)?;
        Some((records.turn(found), cursor))
    }

    fn seek(&self, records: &Records, number: QueueNumber, turn: Turn) -> Option<Cursor> {
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
        Some(Cursor { ttl, block, place, order: None })
    }

    fn seek_in_timeline(&self, records: &Records, turn: Turn) -> Option<Cursor> {
        let (head, _) = self.queues[usize::from(TIMELINE)].ends?;
        let block = self.ranges.find(turn).map_or(head, |(_, block)| block);
        let view = self.blocks.view(block);
        let mut order = Box::new(self.blocks.order(records, block));
        order.skip(|place| view.at(place).is_some_and(|handle| records.turn(handle) < turn));
        match order.place() {
            Some(place) => Some(Cursor { ttl: 0, block, place, order: Some(order) }),
            None => self.enter(records, view.block.next?),
        }
    }

    /// Returns the TTL and the record at a cursor.
    pub fn at(&self, cursor: &Cursor) -> Option<(u64, Handle)> {
        let handle = self.blocks.view(cursor.block).at(cursor.place)?;
        let is_timed = cursor.order.is_some();
        let ttl = if is_timed { self.blocks.ttl(cursor.block, cursor.place) } else { cursor.ttl };
        Some((ttl, handle))
    }

    /// Moves a cursor to the next element, if there is one, and returns its record.
    pub fn step(&self, records: &Records, cursor: &mut Cursor) -> Option<Handle> {
        let view = self.blocks.view(cursor.block);
        if let Some(order) = &mut cursor.order {
            order.step();
            match order.place() {
                Some(place) => cursor.place = place,
                None => *cursor = self.enter(records, view.block.next?)?,
            }
        } else {
            match view.bits.first_from(cursor.place + 1) {
                Some(place) => cursor.place = place,
                None => {
                    cursor.block = view.block.next?;
                    cursor.place = self.blocks.bits(cursor.block).first_place()?;
                }
            }
        }
        self.at(cursor).map(|(_, handle)| handle)
    }
}
