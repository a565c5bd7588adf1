//! The full form of a lawn, for any size: an index of ids, records in pages, queues by TTL and the timeline.

use std::collections::{BTreeMap, BTreeSet};

use ahash::RandomState;

use super::element::{Bounds, Counts, Element, Group, Row};
use super::element::{StartError, UpdateError};
use super::groups::Groups;
use super::index::{IdHash, Index};
use super::lease::{Leases, Token};
use super::queues::{Blanked, PredictedRange, Queues, Walk};
use super::rank::{DEADLINE_MAX, Rank, Start};
use super::store::{Handle, Records, Spot};

/// Returns whether an element counts against the limit of what its group holds. One that never comes due does not.
pub(super) fn counts_as_held(is_held: bool, deadline: u64) -> bool {
    is_held && deadline < DEADLINE_MAX
}

/// The full form of a lawn. Methods are documented in [`Lawn`](super::Lawn) under the same name.
#[derive(Clone)]
pub struct Full {
    pub(super) records: Records,
    pub(super) index: Index,
    pub(super) queues: Queues,
    /// The next push number, or [`Rank::PUSHES`] if that is the first again.
    pub(super) pushes: u64,
    /// The push number of the element that was put first last, or [`Rank::PUSHES_FROM`] if the next such number is below that.
    pub(super) firsts: u64,
    /// Elements that were given out under a lease and are still in the lawn.
    pub(super) delivered: usize,
    pub(super) leases: Leases,
    /// When each element expires whose [`Bounds::until`] is set, with its record: the later of that moment and its
    /// deadline. So it must be updated whenever the deadline changes, as by a lease or a back-off.
    pub(super) expiries: BTreeSet<(u64, Handle)>,
    /// `None` until there is a group.
    pub(super) groups: Option<Box<Groups>>,
    pub(super) hasher: RandomState,
    /// Set if elements may have bounds: one had some.
    pub(super) has_bounded: bool,
}

impl Full {
    /// Creates an empty lawn. See [`Shared`](super::Shared) for the hasher.
    pub fn new(hasher: RandomState) -> Self {
        Self {
            records: Records::new(),
            index: Index::new(hasher.clone()),
            queues: Queues::new(hasher.clone()),
            pushes: Rank::PUSHES_FROM,
            firsts: Rank::PUSHES_FROM,
            delivered: 0,
            leases: Leases::default(),
            expiries: BTreeSet::new(),
            groups: None,
            hasher,
            has_bounded: false,
        }
    }

    pub fn len(&self) -> usize {
        self.index.len
    }

    pub fn counts(&self) -> Counts {
        Counts {
            elements: self.index.len,
            given_out: self.delivered,
            leased: self.leases.len(),
            ttls: self.queues.ttls() + self.groups.as_ref().map_or(0, |it| it.queues.ttls()),
        }
    }

    /// Returns the rank of an element that is pushed next. The caller must count it.
    #[inline(always)]
    fn next_rank(&mut self, deadline: u64) -> Rank {
        if self.pushes == Rank::PUSHES {
            self.start_over();
        }
        Rank { deadline, push: self.pushes }
    }

    /// Lets push numbers start over.
    #[cold]
    fn start_over(&mut self) {
        self.pushes = Rank::PUSHES_FROM;
        self.queues.start_over();
        self.groups.iter_mut().for_each(|groups| groups.queues.start_over());
    }

    pub fn start(&mut self, ttl: u64, new: &Element<'_>) -> Result<(), StartError> {
        self.insert(ttl, new, None)
    }

    /// Starts an element in a group, which exists, or in none. Compiled for each of the two, because nearly all elements are
    /// in no group.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: Option<Group>,
    ) -> Result<(), StartError> {
        if new.deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        let rank = self.next_rank(new.deadline);
        self.pushes += 1;
        let hash = self.index.hash(new.id);
        let Self { index, records, queues, groups, .. } = self;
        let queues = match groups {
            Some(groups) if group.is_some() => &groups.queues,
            _ => queues,
        };
        // Prefetch bucket and block together, to wait for both at once.
        let predicted = queues.predict_range(ttl, rank, || index.prefetch(hash));
        let vacancy = index.vacancy(hash, |handle| records.get(handle).has_id(new.id));
        let vacancy = vacancy.ok_or(StartError::Exists)?;
        let handle = self.store(new, group, (ttl, rank), predicted).ok_or(StartError::Full)?;
        self.index.fill(vacancy, handle);
        Ok(())
    }

    /// Stores an element in a group, which exists, or in none, and files it everywhere but in the index. `None` if there is
    /// no room; then nothing has changed.
    #[inline(always)]
    fn store(
        &mut self,
        new: &Element<'_>,
        group: Option<Group>,
        (ttl, rank): (u64, Rank),
        predicted: PredictedRange,
    ) -> Option<Handle> {
        let Element { id, payload, bounds, .. } = *new;
        let Self { index, records, queues, groups, .. } = self;
        let reservation = records.reserve(id, payload, bounds, group.is_some())?;
        let handle = reservation.handle;
        let queues = match groups {
            Some(groups) if group.is_some() => &mut groups.queues,
            _ => queues,
        };
        let spot = queues.push(records, handle, (ttl, rank), index.len, predicted);
        records.write(reservation, id, payload, (bounds, group), (rank, spot));
        self.has_bounded |= !bounds.is_none();
        if let Some(moment) = bounds.expiry(rank.deadline) {
            self.expiries.insert((moment, handle));
        }
        if let (Some(group), Some(groups)) = (group, &mut self.groups) {
            groups.insert(&mut self.records, group, handle, rank);
        }
        Some(handle)
    }

    /// Replaces an element by one in a group, which exists, or in none.
    pub fn replace(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: Option<Group>,
    ) -> Result<(), StartError> {
        let hash = self.index.hash(new.id);
        let Some(old) = self.find_hashed(hash, new.id) else {
            return self.insert(ttl, new, group);
        };
        if new.deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        let rank = self.next_rank(new.deadline);
        self.pushes += 1;
        // The new element is stored first, so that its group keeps its place in the round.
        let new = self.store(new, group, (ttl, rank), None).ok_or(StartError::Full)?;
        self.index.replace(hash, old, new);
        let spot = self.records.get(old).spot();
        self.unlease(old);
        self.remove_from_queues(old, spot);
        self.records.remove(old);
        Ok(())
    }

    pub fn restart_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        if deadline > DEADLINE_MAX {
            return false;
        }
        let hash = self.index.hash(id);
        let rank = self.next_rank(deadline);
        // Prefetch bucket and block together, to wait for both at once.
        let predicted = self.queues.predict_range(ttl, rank, || self.index.prefetch(hash));
        // Not `find_hashed`: only a closure with one caller is inlined.
        let found = self.index.find(hash, |handle| self.records.get(handle).has_id(id));
        let Some(handle) = found else { return false };
        let is_simple = self.leases.is_empty() && self.expiries.is_empty();
        if is_simple && self.groups_of(handle).is_none() {
            self.pushes += 1;
            self.move_to_rank(handle, (ttl, rank), predicted);
        } else {
            self.restart_held(handle, ttl, deadline);
        }
        true
    }

    /// Removes an element from everything but the store, where it stays until [`Full::free`]. Returns the bits of its
    /// record's handle.
    #[must_use = "it must be freed"]
    pub fn stop(&mut self, id: &[u8]) -> Option<usize> {
        let hash = self.index.hash(id);
        let Self { index, records, .. } = self;
        // Read here what removing it needs, with the same look at the record.
        let (mut spot, mut deliveries) = (None, 0);
        let handle = index.remove(hash, |handle| {
            let record = records.get(handle);
            (spot, deliveries) = (Some(record.spot()), record.deliveries());
            record.has_id(id)
        })?;
        if deliveries > 0 {
            self.unlease(handle);
        }
        self.remove_from_queues(handle, spot.expect("the closure read it"));
        Some(handle.bits() as usize)
    }

    /// Does what [`Full::stop`] does, if the element is held under this token.
    #[must_use = "it must be freed"]
    pub fn settle(&mut self, id: &[u8], token: Token) -> Option<usize> {
        let hash = self.index.hash(id);
        let Self { index, records, leases, .. } = self;
        let handle = index.remove(hash, |handle| {
            let record = records.get(handle);
            record.has_id(id) && record.deliveries() > 0 && leases.end(record.rank(), Some(token))
        })?;
        self.delivered -= 1;
        self.remove_from_queues(handle, self.records.get(handle).spot());
        Some(handle.bits() as usize)
    }

    /// Returns the element of a record, given the bits of its handle.
    #[inline(always)]
    pub fn at(&self, bits: usize) -> Element<'_> {
        self.records.get(Handle::from_bits(bits as u32).expect("the bits of a handle")).into()
    }

    /// Frees the record of an element that was taken out.
    #[inline(always)]
    pub fn free(&mut self, bits: usize) {
        self.records.remove(Handle::from_bits(bits as u32).expect("the bits of a handle"));
    }

    /// Replaces an element's payload. Returns the bits of the old record's handle; the caller must free it with
    /// [`Full::free`].
    #[must_use = "it must be freed"]
    pub fn update(&mut self, id: &[u8], payload: &[u8]) -> Result<usize, UpdateError> {
        let hash = self.index.hash(id);
        let old = self.find_hashed(hash, id).ok_or(UpdateError::Missing)?;
        let record = self.records.get(old);
        let (bounds, group) = (record.bounds(), record.group());
        let (place, deliveries) = ((record.rank(), record.spot()), record.deliveries());
        let reservation = self.records.reserve(id, payload, bounds, group.is_some());
        let reservation = reservation.ok_or(UpdateError::Full)?;
        self.records.write(reservation, id, payload, (bounds, group), place);
        let new = reservation.handle;
        if group.is_some() {
            self.records.copy_front(old, new);
        }
        self.records.set_deliveries(new, deliveries);
        self.records.pass_reason(old, new);
        self.replace_handle(hash, old, new);
        Ok(old.bits() as usize)
    }

    pub fn set_until(&mut self, id: &[u8], until: u64) -> bool {
        let Some(handle) = self.find(id) else { return false };
        let record = self.records.get(handle);
        let (bounds, deadline) = (record.bounds(), record.rank().deadline);
        let Some(before) = bounds.expiry(deadline) else { return false };
        let bounds = Bounds { until: until.clamp(1, Bounds::UNTIL_MAX), ..bounds };
        self.records.set_bounds(handle, bounds);
        self.expiries.remove(&(before, handle));
        self.expiries.insert((bounds.until.max(deadline), handle));
        true
    }

    pub fn reason(&self, id: &[u8]) -> Option<&[u8]> {
        if !self.records.has_reasons() {
            return None;
        }
        self.records.reason(self.find(id)?)
    }

    pub fn set_reason(&mut self, id: &[u8], reason: &[u8]) -> bool {
        let Some(handle) = self.find(id) else { return false };
        self.records.set_reason(handle, reason);
        true
    }

    pub fn has_bounds(&self) -> bool {
        let is_bounded = |row: Row<'_>| !row.element.bounds.is_none();
        self.has_bounded && self.rows(Start::FIRST, DEADLINE_MAX).any(is_bounded)
    }

    pub fn first_expiry(&self) -> Option<u64> {
        self.expiries.first().map(|(moment, _)| *moment)
    }

    pub fn expired(&self, now: u64) -> impl Iterator<Item = Row<'_>> {
        let expired = self.expiries.iter().take_while(move |(moment, _)| *moment <= now);
        expired.map(|(_, handle)| self.row_of(*handle))
    }

    /// Returns the number of queues, and the number of elements in the timeline.
    #[cfg(test)]
    pub(super) fn shape(&self) -> (usize, usize) {
        (self.queues.len(), self.queues.timeline_len)
    }

    pub fn count_due(&self, now: u64) -> usize {
        self.all_queues().map(|queues| queues.count_due(&self.records, now)).sum()
    }

    pub fn counts_by_ttl(&self) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        for (ttl, count) in self.all_queues().flat_map(|queues| queues.counts()) {
            *counts.entry(ttl).or_default() += count;
        }
        counts
    }

    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut show: impl FnMut(Element<'a>)) -> u64 {
        self.index.scan(cursor, count, |handle| show(self.records.get(handle).into()))
    }

    pub fn rows(&self, start: Start, end: u64) -> Walk<'_> {
        Walk::new(&self.records, self.all_queues(), start.rank(), end)
    }

    /// Iterates over the queues of elements without a group, and those of elements in groups.
    pub(super) fn all_queues(&self) -> impl Iterator<Item = &Queues> {
        std::iter::once(&self.queues).chain(self.groups.iter().map(|groups| &groups.queues))
    }

    pub fn row(&self, id: &[u8]) -> Option<Row<'_>> {
        Some(self.row_of(self.find(id)?))
    }

    pub(super) fn row_of(&self, handle: Handle) -> Row<'_> {
        let record = self.records.get(handle);
        let queues = match &self.groups {
            Some(groups) if record.is_grouped() => &groups.queues,
            _ => &self.queues,
        };
        let ttl = queues.ttl(record.spot());
        Row { ttl, element: record.into(), number: Some(record.rank().push) }
    }

    #[inline(always)]
    pub(super) fn find(&self, id: &[u8]) -> Option<Handle> {
        self.find_hashed(self.index.hash(id), id)
    }

    #[inline(always)]
    fn find_hashed(&self, hash: IdHash, id: &[u8]) -> Option<Handle> {
        self.index.find(hash, |handle| self.records.get(handle).has_id(id))
    }

    pub(super) fn refresh_first(&mut self) -> Option<u64> {
        self.queues.refresh_heads(&mut self.records);
        let first = self.queues.first_deadline();
        // The heads of the queues of elements in groups are only for walks, which know that some are stale.
        let Some(groups) = &self.groups else { return first };
        let eligible = groups.first_eligible().map(|it| it.0.deadline);
        first.into_iter().chain(eligible).min()
    }

    /// Restarts a record's timer. `is_held`: it is held under a token from now on. Returns its new rank.
    pub(super) fn restart(
        &mut self,
        handle: Handle,
        ttl: u64,
        deadline: u64,
        is_held: bool,
    ) -> Rank {
        let rank = self.next_rank(deadline);
        self.pushes += 1;
        self.restart_in_rank(handle, rank, is_held, |full| {
            let predicted = full.queues_of(handle).0.predict_range(ttl, rank, || {});
            full.move_to_rank(handle, (ttl, rank), predicted);
        });
        rank
    }

    pub fn put_first(&mut self, id: &[u8], deadline: u64) -> bool {
        let Some(handle) = self.find(id).filter(|_| deadline <= DEADLINE_MAX) else { return false };
        let before = self.records.rank(handle);
        if self.firsts == 0 {
            self.firsts = Rank::PUSHES_FROM;
        }
        self.firsts -= 1;
        let rank = Rank { deadline, push: self.firsts };
        self.restart_in_rank(handle, rank, false, |full| {
            let (queues, records) = full.queues_of(handle);
            queues.remove(records, records.get(handle).spot());
            let spot = queues.push_out_of_order(records, handle, 0, rank);
            records.header(handle).set_rank(rank, spot);
        });
        self.leases.set(handle, None, (Some(before), rank), None);
        true
    }

    /// Gives a record another rank: `move_it` moves it in the order of deadlines. `is_held`: it is held under a token from now on.
    #[inline(always)]
    fn restart_in_rank(
        &mut self,
        handle: Handle,
        Rank { deadline, .. }: Rank,
        is_held: bool,
        move_it: impl FnOnce(&mut Self),
    ) {
        self.remove_expiry(handle);
        let decides =
            self.groups_of(handle).map(|(groups, records)| groups.take_out(records, handle));
        move_it(self);
        if let (Some(groups), Some(decides)) = (&mut self.groups, decides) {
            groups.put_back(&mut self.records, handle, counts_as_held(is_held, deadline), decides);
        }
        if let Some(moment) = self.records.get(handle).bounds().expiry(deadline) {
            self.expiries.insert((moment, handle));
        }
    }

    /// Moves a record to another rank, mostly to the tail of the cached queue of `ttl`: with one look at the record and two
    /// at blocks.
    #[inline(always)]
    fn move_to_rank(
        &mut self,
        handle: Handle,
        (ttl, rank): (u64, Rank),
        predicted: PredictedRange,
    ) {
        let (queues, records) = self.queues_of(handle);
        let header = records.header(handle);
        let old_spot = header.spot();
        let blanked = queues.blank(old_spot);
        if let Blanked::NeedsRepair = blanked {
            return self.move_slow(handle, Some(old_spot), (ttl, rank), None);
        }
        let spot = queues.append_recent(handle, ttl, rank, predicted);
        if let Some(spot) = spot {
            header.set_rank(rank, spot);
        }
        if let Blanked::HeadRemoved = blanked {
            queues.head_removed(records, old_spot.block);
        }
        if spot.is_none() {
            self.move_slow(handle, None, (ttl, rank), predicted);
        }
    }

    /// Moves a record whose old place is blank, and that still has its old rank. `sparse`: that place, if its block needs
    /// [`Queues::repair_block`].
    #[inline(never)]
    fn move_slow(
        &mut self,
        handle: Handle,
        sparse: Option<Spot>,
        (ttl, rank): (u64, Rank),
        mut predicted: PredictedRange,
    ) {
        let elements = self.index.len;
        let (queues, records) = self.queues_of(handle);
        if let Some(spot) = sparse {
            queues.repair_block(records, spot);
            // The repair may have changed the ranges.
            predicted = queues.predict_range(ttl, rank, || {});
        }
        let spot = queues.push(records, handle, (ttl, rank), elements, predicted);
        records.header(handle).set_rank(rank, spot);
    }

    /// Removes a record that is no longer in the index from the order of deadlines.
    #[inline(always)]
    pub(super) fn remove_from_queues(&mut self, handle: Handle, spot: Spot) {
        self.remove_expiry(handle);
        let (queues, records) = self.queues_of(handle);
        queues.remove(records, spot);
        if let Some((groups, records)) = self.groups_of(handle) {
            groups.remove(records, handle);
        }
    }

    /// Replaces `old` with `new`, which has the same id, rank and spot, in the index, the leases and the order.
    pub(super) fn replace_handle(&mut self, hash: IdHash, old: Handle, new: Handle) {
        self.index.replace(hash, old, new);
        if self.records.get(new).deliveries() > 0 {
            self.leases.replace(new, self.records.rank(new));
        }
        let spot = self.records.get(new).spot();
        self.queues_of(new).0.replace(spot, new);
        if let Some((groups, records)) = self.groups_of(new) {
            groups.replace(records, old, new);
        }
        if let Some(moment) = self.expiry(new) {
            self.expiries.remove(&(moment, old));
            self.expiries.insert((moment, new));
        }
    }

    /// Removes a record that is about to get another rank, or to be removed, from the expiries.
    #[inline(always)]
    pub(super) fn remove_expiry(&mut self, handle: Handle) {
        if !self.expiries.is_empty()
            && let Some(moment) = self.expiry(handle)
        {
            self.expiries.remove(&(moment, handle));
        }
    }

    /// Returns when a record expires.
    pub(super) fn expiry(&self, handle: Handle) -> Option<u64> {
        let record = self.records.get(handle);
        record.bounds().expiry(record.rank().deadline)
    }
}
