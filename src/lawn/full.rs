//! The full form of a lawn, for any size: an index of ids, records in pages, queues by TTL and the timeline.

use std::collections::{BTreeMap, BTreeSet};

use ahash::RandomState;

use super::element::{Bounds, Counts, Element, Group, Row};
use super::error::{StartError, UpdateError};
use super::groups::Groups;
use super::index::{IdHash, Index};
use super::lease::{Leases, Token};
use super::queues::{Blanked, PredictedRange, Queues, Walk};
use super::rows::{Merged, Rows};
use super::store::{Handle, Record, Records, Spot};
use super::turn::{DEADLINE_MAX, Start, Turn};

/// Returns the turn of an element that is pushed now, after `pushes` others.
#[inline(always)]
pub(super) fn next_turn(pushes: &mut u64, deadline: u64) -> Turn {
    let push = *pushes % Turn::PUSHES;
    *pushes += 1;
    Turn { deadline, push }
}

/// Returns whether an element counts against the limit of what its group holds. One that never comes due does not.
pub(super) fn counts_as_held(is_held: bool, deadline: u64) -> bool {
    is_held && deadline < DEADLINE_MAX
}

/// Returns the bits of a handle, which name an element that was taken out.
fn bits(record: Handle) -> usize {
    Handle::to_bits(Some(record)) as usize
}

fn record(bits: usize) -> Handle {
    Handle::from_bits(bits as u32).expect("the bits of a handle")
}

/// The old place of a record whose move [`try_move_to_tail`] could not complete.
enum Vacated {
    /// The place is blank, and its block needs no repair.
    Blank,
    /// The place is blank, and its block needs [`Queues::repair_block`].
    NeedsRepair(Spot),
    /// Nothing was moved, because the record is in a group.
    Grouped,
}

/// Moves a record to the tail of the cached queue of `ttl` and gives it a new turn. Nearly all moves succeed here, with
/// one look at the record and two at blocks.
///
/// # Errors
///
/// Returns the state of the old place. [`Full::move_slow`] must complete the move.
#[inline(always)]
fn try_move_to_tail(
    queues: &mut Queues,
    records: &mut Records,
    handle: Handle,
    (ttl, turn): (u64, Turn),
    predicted: PredictedRange,
) -> Result<(), Vacated> {
    let header = records.header(handle);
    let old_spot = header.spot();
    let blanked = queues.blank(old_spot);
    if blanked == Blanked::NeedsRepair {
        return Err(Vacated::NeedsRepair(old_spot));
    }
    let spot = queues.append_recent(handle, ttl, turn, predicted);
    if let Some(spot) = spot {
        header.set_turn(turn, spot);
    }
    if blanked == Blanked::HeadRemoved {
        queues.head_removed(records, old_spot.block);
    }
    spot.map(|_| ()).ok_or(Vacated::Blank)
}

/// The full form of a lawn. Methods are documented in [`Lawn`](super::Lawn) under the same name.
#[derive(Clone)]
pub struct Full {
    pub(super) records: Records,
    pub(super) index: Index,
    pub(super) queues: Queues,
    pub(super) pushes: u64,
    /// Elements that were given out under a lease and are still in the lawn.
    pub(super) delivered: usize,
    pub(super) leases: Leases,
    /// When each element expires whose [`Bounds::until`] is set, with its record: at that moment or when it is due,
    /// whichever is later. So the moment follows from the record alone, and changes with its deadline: a lease or a
    /// back-off that runs longer than that postpones it.
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
            pushes: 0,
            delivered: 0,
            leases: Leases::default(),
            expiries: BTreeSet::new(),
            groups: None,
            hasher,
            has_bounded: false,
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn counts(&self) -> Counts {
        Counts {
            elements: self.index.len(),
            given_out: self.delivered,
            leased: self.leases.len(),
            ttls: self.queues.ttls() + self.groups.as_ref().map_or(0, |it| it.queues.ttls()),
        }
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
        let Element { id, payload, deadline, bounds, .. } = *new;
        if deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        let turn = next_turn(&mut self.pushes, deadline);
        let hash = self.index.hash(id);
        let Self { index, records, queues, groups, .. } = self;
        let groups = groups.as_mut().filter(|_| group.is_some());
        let queues = groups.map_or(queues, |groups| &mut groups.queues);
        // Prefetch bucket and block together, to wait for both at once.
        let predicted = queues.predict_range(ttl, turn, || index.prefetch(hash));
        let vacancy = index.vacancy(hash, |handle| records.get(handle).has_id(id));
        let vacancy = vacancy.ok_or(StartError::Exists)?;
        let reservation = records.reserve(id, payload, bounds, group.is_some());
        let reservation = reservation.ok_or(StartError::Full)?;
        let elements = vacancy.elements();
        let spot = queues.push(records, reservation.handle, (ttl, turn), elements, predicted);
        records.write(reservation, id, payload, (bounds, group), (turn, spot));
        vacancy.fill(reservation.handle);
        self.has_bounded |= !bounds.is_none();
        if let Some(moment) = bounds.expiry(deadline) {
            self.expiries.insert((moment, reservation.handle));
        }
        if group.is_some() {
            self.file_in_group(reservation.handle);
        }
        Ok(())
    }

    pub fn replace(&mut self, ttl: u64, new: &Element<'_>) -> Result<(), StartError> {
        let Element { id, payload, deadline, bounds, .. } = *new;
        let hash = self.index.hash(id);
        let Some(old) = self.find_hashed(hash, id) else {
            return self.start(ttl, new);
        };
        if deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        if self.records.get(old).is_grouped() {
            return self.exchange(hash, old, ttl, new);
        }
        let new = self.rewrite(hash, old, id, payload, bounds).ok_or(StartError::Full)?;
        self.remove_expiry(old);
        self.records.remove(old);
        let turn = self.records.turn(new);
        if self.count_deliveries(new, 0) > 0 {
            self.leases.end(turn, None);
        }
        self.restart(new, ttl, deadline, false);
        Ok(())
    }

    pub fn restart_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        if deadline > DEADLINE_MAX {
            return false;
        }
        if !self.leases.is_empty() || !self.expiries.is_empty() {
            return self.find(id).map(|handle| self.restart_held(handle, ttl, deadline)).is_some();
        }
        let hash = self.index.hash(id);
        let Self { index, records, queues, pushes, .. } = self;
        let turn = Turn { deadline, push: *pushes % Turn::PUSHES };
        let predicted = queues.predict_range(ttl, turn, || index.prefetch(hash));
        let found = index.find(hash, |handle| {
            let record = records.get(handle);
            if !record.has_id(id) {
                return None;
            }
            if record.is_grouped() {
                return Some(Err(Vacated::Grouped));
            }
            *pushes += 1;
            Some(try_move_to_tail(queues, records, handle, (ttl, turn), predicted))
        });
        let Some((handle, moved)) = found else { return false };
        if let Err(vacated) = moved {
            self.move_slow(handle, vacated, (ttl, turn), predicted);
        }
        true
    }

    /// Removes an element from everything but the store, where it stays until [`Full::free`]. Returns the bits of its
    /// record's handle.
    pub fn stop(&mut self, id: &[u8]) -> Option<usize> {
        let hash = self.index.hash(id);
        let Self { index, records, .. } = self;
        let (handle, (spot, deliveries)) = index.remove(hash, |handle| {
            let record = records.get(handle);
            if record.has_id(id) { Some((record.spot(), record.deliveries())) } else { None }
        })?;
        self.remove_from_queues(handle, spot, deliveries);
        Some(bits(handle))
    }

    /// Does what [`Full::stop`] does, if the element is held under this token.
    pub fn settle(&mut self, id: &[u8], token: Token) -> Option<usize> {
        let hash = self.index.hash(id);
        let Self { index, records, leases, .. } = self;
        let (handle, spot) = index.remove(hash, |handle| {
            let record = records.get(handle);
            let is_it = record.has_id(id) && record.deliveries() > 0;
            (is_it && leases.end(record.turn(), Some(token))).then(|| record.spot())
        })?;
        self.delivered -= 1;
        self.remove_from_queues(handle, spot, 0);
        Some(bits(handle))
    }

    /// Returns the element of a record.
    #[inline(always)]
    pub fn at(&self, bits: usize) -> Element<'_> {
        self.records.get(record(bits)).into()
    }

    /// Frees the record of an element that was taken out.
    #[inline(always)]
    pub fn free(&mut self, bits: usize) {
        self.records.remove(record(bits));
    }

    pub fn look(&self, id: &[u8]) -> Option<Element<'_>> {
        self.record(id).map(Element::from)
    }

    /// Replaces an element's payload. Returns the old record; the caller must free it with [`Full::free`].
    pub fn update(&mut self, id: &[u8], payload: &[u8]) -> Result<usize, UpdateError> {
        let hash = self.index.hash(id);
        let old = self.find_hashed(hash, id).ok_or(UpdateError::Missing)?;
        let bounds = self.records.get(old).bounds();
        self.rewrite(hash, old, id, payload, bounds).ok_or(UpdateError::Full)?;
        Ok(bits(old))
    }

    /// Copies a record with another payload and these bounds. The copy takes the record's place everywhere; the caller must
    /// free the record. Returns the copy. `None` if there is no room; then nothing has changed.
    fn rewrite(
        &mut self,
        hash: IdHash,
        old: Handle,
        id: &[u8],
        payload: &[u8],
        bounds: Bounds,
    ) -> Option<Handle> {
        let record = self.records.get(old);
        let (turn, spot, deliveries) = (record.turn(), record.spot(), record.deliveries());
        let group = record.group();
        let reservation = self.records.reserve(id, payload, bounds, group.is_some())?;
        self.records.write(reservation, id, payload, (bounds, group), (turn, spot));
        let new = reservation.handle;
        if group.is_some() {
            self.records.copy_front(old, new);
        }
        self.has_bounded |= !bounds.is_none();
        self.records.set_deliveries(new, deliveries);
        self.replace_handle(hash, old, new);
        Some(new)
    }

    pub fn set_until(&mut self, id: &[u8], until: u64) -> bool {
        let Some(handle) = self.find(id) else { return false };
        let record = self.records.get(handle);
        let (bounds, deadline) = (record.bounds(), record.turn().deadline);
        let Some(before) = bounds.expiry(deadline) else { return false };
        let bounds = Bounds { until: until.clamp(1, Bounds::UNTIL_MAX), ..bounds };
        self.records.set_bounds(handle, bounds);
        self.expiries.remove(&(before, handle));
        self.expiries.insert((bounds.until.max(deadline), handle));
        true
    }

    pub fn next_deadline(&self) -> Option<u64> {
        Some(self.first()?.0.deadline)
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
        expired.map(|(_, handle)| self.row_of(self.records.get(*handle)))
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

    pub fn rows(&self, start: Start, end: u64) -> Rows<'_> {
        let walk = Walk::new(&self.records, &self.queues, start.turn(), end);
        let Some(groups) = &self.groups else { return Rows::Full(walk) };
        let grouped = Walk::new(&self.records, &groups.queues, start.turn(), end);
        Rows::Grouped(Box::new(Merged::new(walk, grouped)))
    }

    /// Iterates over the queues of elements without a group, and those of elements in groups.
    pub(super) fn all_queues(&self) -> impl Iterator<Item = &Queues> {
        std::iter::once(&self.queues).chain(self.groups.iter().map(|groups| &groups.queues))
    }

    pub fn row(&self, id: &[u8]) -> Option<Row<'_>> {
        Some(self.row_of(self.record(id)?))
    }

    pub(super) fn row_of<'a>(&self, record: Record<'a>) -> Row<'a> {
        let queues = if record.is_grouped() { &self.groups().queues } else { &self.queues };
        let ttl = queues.ttl(record.spot());
        Row { ttl, element: record.into(), number: Some(record.turn().push) }
    }

    #[inline(always)]
    fn record(&self, id: &[u8]) -> Option<Record<'_>> {
        let (_, record) = self.index.find(self.index.hash(id), |handle| {
            let record = self.records.get(handle);
            record.has_id(id).then_some(record)
        })?;
        Some(record)
    }

    #[inline(always)]
    pub(super) fn find(&self, id: &[u8]) -> Option<Handle> {
        self.find_hashed(self.index.hash(id), id)
    }

    #[inline(always)]
    pub(super) fn find_hashed(&self, hash: IdHash, id: &[u8]) -> Option<Handle> {
        let is_it = |handle| self.records.get(handle).has_id(id).then_some(());
        self.index.find(hash, is_it).map(|(handle, ())| handle)
    }

    pub(super) fn first(&self) -> Option<(Turn, Handle)> {
        let first = self.queues.first(&self.records);
        let Some(groups) = &self.groups else { return first };
        let of_groups = if groups.may_hold_back() {
            groups.opens_first(&self.records)
        } else {
            groups.queues.first(&self.records)
        };
        first.into_iter().chain(of_groups).min()
    }

    pub(super) fn settle_first(&mut self) -> Option<u64> {
        self.queues.refresh_heads(&mut self.records);
        let first = self.queues.first_deadline();
        let Some(groups) = &mut self.groups else { return first };
        groups.queues.refresh_heads(&mut self.records);
        if !groups.may_hold_back() {
            return first.into_iter().chain(groups.queues.first_deadline()).min();
        }
        groups.look_again(&self.records);
        self.next_deadline()
    }

    pub(super) fn first_element(&self) -> Option<Element<'_>> {
        Some(self.records.get(self.first()?.1).into())
    }

    /// Restarts a record's timer. `is_held`: it is held under a token from now on. Returns its new turn.
    pub(super) fn restart(
        &mut self,
        handle: Handle,
        ttl: u64,
        deadline: u64,
        is_held: bool,
    ) -> Turn {
        self.remove_expiry(handle);
        let turn = next_turn(&mut self.pushes, deadline);
        let is_grouped = self.groups.is_some() && self.records.get(handle).is_grouped();
        let Self { queues, records, groups, .. } = self;
        let mut groups = groups.as_mut().filter(|_| is_grouped);
        let concerns = groups.as_mut().map(|groups| groups.lift(records, handle));
        let queues = groups.map_or(queues, |groups| &mut groups.queues);
        let predicted = queues.predict_range(ttl, turn, || {});
        if let Err(vacated) = try_move_to_tail(queues, records, handle, (ttl, turn), predicted) {
            self.move_slow(handle, vacated, (ttl, turn), predicted);
        }
        if let (Some(groups), Some(concerns)) = (&mut self.groups, concerns) {
            groups.refile(&mut self.records, handle, counts_as_held(is_held, deadline), concerns);
        }
        if let Some(moment) = self.records.get(handle).bounds().expiry(deadline) {
            self.expiries.insert((moment, handle));
        }
        turn
    }

    /// Completes a move that [`try_move_to_tail`] could not complete. The record still has its old turn.
    #[inline(never)]
    fn move_slow(
        &mut self,
        handle: Handle,
        vacated: Vacated,
        (ttl, turn): (u64, Turn),
        mut predicted: PredictedRange,
    ) {
        let elements = self.len();
        let (queues, records) = self.queues_of(handle);
        match vacated {
            Vacated::NeedsRepair(spot) => {
                queues.repair_block(records, spot);
                predicted = queues.predict_range(ttl, turn, || {});
            }
            Vacated::Grouped => return self.restart_held(handle, ttl, turn.deadline),
            Vacated::Blank => {}
        }
        let spot = queues.push(records, handle, (ttl, turn), elements, predicted);
        self.records.header(handle).set_turn(turn, spot);
    }

    /// Removes a record that is no longer in the index from the order of deadlines.
    #[inline(always)]
    pub(super) fn remove_from_queues(&mut self, handle: Handle, spot: Spot, deliveries: u16) {
        self.remove_expiry(handle);
        if self.groups.is_some() && self.records.get(handle).is_grouped() {
            self.remove_from_group(handle, spot);
        } else {
            self.queues.remove(&mut self.records, spot);
        }
        if deliveries > 0 {
            self.unlease(handle);
        }
    }

    /// Replaces `old` with `new`, which has the same id, turn and spot, in the index, the leases and the order.
    pub(super) fn replace_handle(&mut self, hash: IdHash, old: Handle, new: Handle) {
        self.index.replace(hash, old, new);
        if self.records.get(new).deliveries() > 0 {
            self.leases.replace(new, self.records.turn(new));
        }
        let spot = self.records.get(new).spot();
        self.queues_of(new).0.replace(spot, new);
        if let Some(groups) = &mut self.groups
            && self.records.get(new).is_grouped()
        {
            groups.replace(&mut self.records, old, new);
        }
        if let Some(moment) = self.expiry(new) {
            self.expiries.remove(&(moment, old));
            self.expiries.insert((moment, new));
        }
    }

    /// Removes a record that is about to get another turn, or to be removed, from the expiries.
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
        record.bounds().expiry(record.turn().deadline)
    }
}
