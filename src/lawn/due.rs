//! Taking and leasing the elements of a full lawn that are due.

use super::element::Element;
use super::full::Full;
use super::index::IdHash;
use super::lease::Token;
use super::processor::prefetch;
use super::queues::{AHEAD, PLACES, TIMELINE};
use super::rank::{DEADLINE_MAX, Rank};
use super::store::{Handle, Records, Spot};

/// Longer ids, in bytes, are not hashed ahead: hashing them takes longer than waiting for the bucket.
const ID_AHEAD_MAX: usize = 256;

/// The record of an element that is given away. Freed on drop, even if the receiver panics.
struct TakenRecord<'a> {
    records: &'a mut Records,
    handle: Handle,
}

impl TakenRecord<'_> {
    #[inline(always)]
    fn element(&self) -> Element<'_> {
        self.records.get(self.handle).into()
    }
}

impl Drop for TakenRecord<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.records.remove(self.handle);
    }
}

impl Full {
    /// Takes consecutive elements of one queue in a run, which prefetches records and updates the heap once.
    pub fn drain(
        &mut self,
        now: u64,
        count: usize,
        mut give: impl FnMut(u64, Element<'_>),
    ) -> usize {
        // Starting a run costs as much as taking a single element.
        if count == 1 {
            return self.drain_one(now, give).is_some().into();
        }
        let mut done = 0;
        while done < count {
            if self.takes_turns(now) {
                if self.drain_one(now, &mut give).is_none() {
                    break;
                }
                done += 1;
                continue;
            }
            if self.queues.first_deadline().is_none_or(|deadline| deadline > now) {
                break;
            }
            self.queues.refresh_heads(&mut self.records);
            let end = Rank::after(now);
            let end = self.queues.second_rank().map_or(end, |rank| rank.min(end));
            let run = self.drain_run(end, count - done, &mut give);
            if run == 0 {
                break;
            }
            done += run;
        }
        done
    }

    fn drain_one(&mut self, now: u64, give: impl FnOnce(u64, Element<'_>)) -> Option<()> {
        let handle = self.first_due(now, Self::prefetch_to_remove)?;
        let ttl = self.take_out(handle);
        let taken = TakenRecord { records: &mut self.records, handle };
        give(ttl, taken.element());
        Some(())
    }

    /// Removes a record from everything but the store. Returns its TTL.
    #[inline(always)]
    pub(super) fn take_out(&mut self, handle: Handle) -> u64 {
        let record = self.records.get(handle);
        let (hash, spot) = (self.index.hash(record.id()), record.spot());
        let ttl = self.queues_of(handle).0.ttl(spot);
        self.index.remove_handle(hash, handle);
        self.unlease(handle);
        self.remove_from_queues(handle, spot);
        ttl
    }

    /// Takes out the elements of the earliest queue that come before `end`, at most `most`. The heads must be up to
    /// date.
    fn drain_run(
        &mut self,
        end: Rank,
        most: usize,
        give: &mut impl FnMut(u64, Element<'_>),
    ) -> usize {
        let Some((number, ttl)) = self.queues.earliest() else { return 0 };
        let mut done = 0;
        // The distance of the prefetch. It starts at 1 and doubles, because a short run wastes what it prefetches.
        let mut ahead = 1;
        let mut run = [(Handle::PLACEHOLDER, 0_u8); PLACES];
        let mut hashes = [IdHash::default(); PLACES];
        while let Some(block) = self.queues.first_block(number, ttl) {
            if number == TIMELINE {
                self.queues.sort_head(&mut self.records);
            }
            let view = self.queues.blocks.view(block);
            let mut length = 0;
            for ((place, handle), slot) in view.handles().zip(&mut run) {
                *slot = (handle, place as u8);
                length += 1;
            }
            let run = &run[..length];
            let (mut prefetched, mut hashed) = (0, 0);
            for (at, (handle, place)) in run.iter().enumerate() {
                while prefetched < length.min(at + 2 * ahead) {
                    self.records.prefetch(run[prefetched].0);
                    prefetched += 1;
                }
                while hashed < length.min(at + ahead) {
                    let record = self.records.get(run[hashed].0);
                    hashes[hashed] = self.index.hash(record.id());
                    self.index.prefetch(hashes[hashed]);
                    // The payload begins near the id; only now is its end known.
                    record.payload().last().into_iter().for_each(prefetch);
                    hashed += 1;
                }
                let record = self.records.get(*handle);
                let rank = record.rank();
                if done == most || rank >= end {
                    return done;
                }
                if length - at == AHEAD / 2 {
                    self.queues.prefetch_second_block(number);
                }
                let deliveries = record.deliveries();
                let spot = Spot { block, place: *place };
                let ttl = if number == TIMELINE { self.queues.ttl(spot) } else { ttl };
                self.index.remove_handle(hashes[at], *handle);
                self.queues.remove_head(spot, rank);
                if deliveries > 0 {
                    self.unlease(*handle);
                }
                self.remove_expiry(*handle);
                let taken = TakenRecord { records: &mut self.records, handle: *handle };
                give(ttl, taken.element());
                done += 1;
                ahead = (2 * ahead).min(AHEAD / 2);
            }
        }
        done
    }

    pub fn lease_due(
        &mut self,
        now: u64,
        ttl: u64,
        token: Option<Token>,
    ) -> Option<(u64, Element<'_>)> {
        debug_assert_ne!(ttl, 0, "a lease of 0 ms");
        let handle = self.first_due(now, Self::prefetch_records)?;
        let deadline = self.records.rank(handle).deadline;
        self.lease(handle, ttl, now.saturating_add(ttl).min(DEADLINE_MAX), token);
        Some((deadline, self.records.get(handle).into()))
    }

    /// Returns the record with the first rank, if it is due at `now`. The records behind it in its queue are likely to
    /// be read next: before the first of a group is given out, `read` prefetches the whole group, so that the misses
    /// overlap.
    #[inline(always)]
    fn first_due(
        &mut self,
        now: u64,
        read: impl FnOnce(&Self, &[Option<Handle>; AHEAD]),
    ) -> Option<Handle> {
        if self.takes_turns(now) {
            return self.take_next(now);
        }
        // The most frequent query, at every look at the clock, reads neither block nor record.
        if self.queues.first_deadline()? > now {
            return None;
        }
        self.queues.refresh_heads(&mut self.records);
        let (rank, handle) = self.queues.first(&self.records)?;
        if rank.deadline > now {
            return None;
        }
        if let Some(handles) = self.queues.handles_to_prefetch() {
            read(self, &handles);
        }
        Some(handle)
    }

    fn prefetch_records(&self, handles: &[Option<Handle>; AHEAD]) {
        for handle in handles.iter().flatten() {
            self.records.prefetch(*handle);
        }
    }

    /// Prefetches records, and the index buckets that they are about to be removed from.
    fn prefetch_to_remove(&self, handles: &[Option<Handle>; AHEAD]) {
        self.prefetch_records(handles);
        for handle in handles.iter().flatten() {
            let record = self.records.get(*handle);
            if record.id().len() <= ID_AHEAD_MAX {
                self.index.prefetch(self.index.hash(record.id()));
            }
        }
    }
}
