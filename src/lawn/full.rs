//! The form of a lawn of any size: an index of ids, records in pages, and a queue for each TTL.

use std::collections::BTreeMap;
use std::fmt;

use ahash::RandomState;

use super::element::{Element, Row};
use super::error::{StartError, UpdateError};
use super::index::{IdHash, Index};
use super::lease::Address;
use super::processor::prefetch;
use super::queues::{AHEAD, Iter, Overflow, PLACES, Queues, Rows};
use super::store::{Handle, Records, Spot};
use super::turn::{DEADLINE_MAX, Start, Turn};

/// Bytes of an id that is hashed before its turn.
const ID_AHEAD_MAX: usize = 256;

/// An element that has been taken out: nothing in the lawn points to it any more. Its bytes are read
/// where they lie, and freed when this is dropped.
pub struct Taken<'a> {
    records: &'a mut Records,
    handle: Handle,
}

impl Taken<'_> {
    /// What was taken.
    #[inline(always)]
    pub fn element(&self) -> Element<'_> {
        self.records.get(self.handle).into()
    }

    /// Where it stood in the order of delivery.
    #[inline(always)]
    pub(super) fn turn(&self) -> Turn {
        self.records.turn(self.handle)
    }

    /// What was taken, and where it stood.
    #[inline(always)]
    fn row(&self, ttl: u64) -> Row<'_> {
        Row { ttl, element: self.element(), number: Some(self.turn().push) }
    }
}

impl fmt::Debug for Taken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taken").field(&self.element()).finish()
    }
}

impl Drop for Taken<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.records.remove(self.handle);
    }
}

/// Puts a record into the order of deadlines. Returns where it stands, or `None` for the overflow.
#[inline(always)]
fn file(
    queues: &mut Queues,
    overflow: &mut Overflow,
    records: &mut Records,
    handle: Handle,
    (ttl, turn): (u64, Turn),
    elements: usize,
) -> Option<Spot> {
    let spot = queues.push(records, handle, ttl, turn, elements);
    if spot.is_none() {
        overflow.insert(turn, ttl, handle);
    }
    spot
}

/// A store of elements that each come due once. See the [module](super).
#[derive(Clone)]
pub struct Full {
    pub(super) records: Records,
    pub(super) index: Index,
    pub(super) queues: Queues,
    pub(super) overflow: Overflow,
    pushes: u64,
    /// Elements that were given out under a lease and are still here.
    pub(super) delivered: usize,
}

impl Full {
    /// An empty lawn. `hasher` keys the table of ids: who knows it can choose ids that collide, so
    /// draw it at random once a process, and keep it secret.
    pub fn new(hasher: RandomState) -> Self {
        Self {
            records: Records::new(),
            index: Index::new(hasher.clone()),
            queues: Queues::new(hasher),
            overflow: Overflow::default(),
            pushes: 0,
            delivered: 0,
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// When `ttl` milliseconds after `now` is.
    ///
    /// # Errors
    ///
    /// [`StartError::TooLate`].
    pub fn deadline(ttl: u64, now: u64) -> Result<u64, StartError> {
        let deadline = now.checked_add(ttl).filter(|deadline| *deadline <= DEADLINE_MAX);
        deadline.ok_or(StartError::TooLate)
    }

    /// Starts an element that comes due `ttl` milliseconds after `now`. Returns its deadline.
    ///
    /// # Errors
    ///
    /// [`StartError`]; then nothing has changed.
    #[allow(
        dead_code,
        reason = "the module states deadlines; tests, benches and the paper start timers"
    )]
    pub fn start(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        now: u64,
    ) -> Result<u64, StartError> {
        let deadline = Self::deadline(ttl, now)?;
        self.start_at(id, ttl, payload, deadline)?;
        Ok(deadline)
    }

    /// Starts an element in the queue of `ttl` that comes due at `deadline`, whatever the two say of
    /// each other: how replicas, dumps and imports bring elements in.
    ///
    /// # Errors
    ///
    /// [`StartError`]; then nothing has changed.
    pub fn start_at(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<(), StartError> {
        if deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        let turn = self.next_turn(deadline);
        let elements = self.len();
        let hash = self.index.hash(id);
        let Self { index, records, queues, overflow, .. } = self;
        let vacancy = index.vacancy(hash, |handle| records.id(handle) == id);
        let vacancy = vacancy.ok_or(StartError::Exists)?;
        let handle = records.reserve(id, payload).ok_or(StartError::Full)?;
        let spot = file(queues, overflow, records, handle, (ttl, turn), elements);
        records.write(handle, id, payload, turn, spot);
        vacancy.fill(handle);
        Ok(())
    }

    /// As [`Full::start_at`], in the place of an element with the same id, if there is one.
    ///
    /// # Errors
    ///
    /// [`StartError`], but not [`StartError::Exists`]; then nothing has changed.
    pub fn replace_at(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<(), StartError> {
        let hash = self.index.hash(id);
        let Some(old) = self.find_hashed(hash, id) else {
            return self.start_at(id, ttl, payload, deadline);
        };
        let new = self.store(id, ttl, payload, deadline)?;
        self.index.replace(hash, old, new);
        let record = self.records.get(old);
        let (spot, deliveries) = (record.spot(), record.deliveries());
        drop(self.unfile(old, spot, deliveries));
        Ok(())
    }

    /// Gives an element a new timer: it comes after all others of that deadline. Returns whether there
    /// is such an element.
    pub fn restart_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        if deadline > DEADLINE_MAX {
            return false;
        }
        let found = self.index.find(self.index.hash(id), |handle| {
            let record = self.records.get(handle);
            (record.id() == id).then(|| record.spot())
        });
        let Some((handle, spot)) = found else { return false };
        self.restart(handle, spot, ttl, deadline);
        true
    }

    /// Takes an element out, due or not.
    pub fn stop(&mut self, id: &[u8]) -> Option<Taken<'_>> {
        let hash = self.index.hash(id);
        let Self { index, records, .. } = self;
        let (handle, (spot, deliveries)) = index.remove(hash, |handle| {
            let record = records.get(handle);
            (record.id() == id).then(|| (record.spot(), record.deliveries()))
        })?;
        Some(self.unfile(handle, spot, deliveries))
    }

    /// The element of that id, due or not.
    pub fn look(&self, id: &[u8]) -> Option<Element<'_>> {
        let (_, record) = self.index.find(self.index.hash(id), |handle| {
            Some(self.records.get(handle)).filter(|record| record.id() == id)
        })?;
        Some(record.into())
    }

    /// Gives an element a new payload. It keeps its deadline and its place in the order. Returns what
    /// it was before.
    ///
    /// # Errors
    ///
    /// [`UpdateError`]; then nothing has changed.
    pub fn update(&mut self, id: &[u8], payload: &[u8]) -> Result<Taken<'_>, UpdateError> {
        let hash = self.index.hash(id);
        let old = self.find_hashed(hash, id).ok_or(UpdateError::Missing)?;
        let record = self.records.get(old);
        let (turn, spot, deliveries) = (record.turn(), record.spot(), record.deliveries());
        let new = self.records.reserve(id, payload).ok_or(UpdateError::Full)?;
        self.records.write(new, id, payload, turn, spot);
        self.records.set_deliveries(new, deliveries);
        self.repoint(hash, old, new);
        Ok(Taken { records: &mut self.records, handle: old })
    }

    /// Takes out the element whose turn is first, if it is due at `now`.
    #[allow(
        dead_code,
        reason = "the module takes what is due in runs; tests and benches take one at a time"
    )]
    pub fn pop_due(&mut self, now: u64) -> Option<Taken<'_>> {
        let handle = self.first_due(now, Self::read_ahead_to_take)?;
        let record = self.records.get(handle);
        let (hash, spot, deliveries) =
            (self.index.hash(record.id()), record.spot(), record.deliveries());
        self.index.remove_handle(hash, handle);
        Some(self.unfile(handle, spot, deliveries))
    }

    /// Takes out what is due at `now`, in order, `count` elements at the most. Gives each to `give` with the TTL that it was
    /// started with, and returns how many there were.
    ///
    /// Costs less than as many calls of [`Full::pop_due`]: elements that follow each other in one queue are taken in a run,
    /// which reads ahead and changes the heap once.
    pub fn drain(&mut self, now: u64, count: usize, mut give: impl FnMut(Row<'_>)) -> usize {
        let mut done = 0;
        while done < count {
            if !self.queues.may_be_due(now) && !self.overflow.is_due(now) {
                break;
            }
            self.queues.settle(&self.records);
            let queued = self.queues.first(&self.records).map(|(turn, _)| turn);
            let overflowing = self.overflow.first_entry();
            if let Some((turn, entry)) = overflowing
                && queued.is_none_or(|queued| turn < queued)
            {
                if turn.deadline > now {
                    break;
                }
                let record = self.records.get(entry.handle);
                let (hash, deliveries) = (self.index.hash(record.id()), record.deliveries());
                self.index.remove_handle(hash, entry.handle);
                let taken = self.unfile(entry.handle, None, deliveries);
                give(taken.row(entry.ttl));
                done += 1;
                continue;
            }
            let rivals = [self.queues.rival(), overflowing.map(|(turn, _)| turn)];
            let end = Turn::after(now);
            let end = rivals.into_iter().flatten().fold(end, Turn::min);
            let run = self.drain_run(end, count - done, &mut give);
            if run == 0 {
                break;
            }
            done += run;
        }
        done
    }

    /// Takes out of the queue with the earliest head what comes before `end`. Heads are settled.
    fn drain_run(&mut self, end: Turn, most: usize, give: &mut impl FnMut(Row<'_>)) -> usize {
        let Some((number, ttl, _)) = self.queues.earliest() else { return 0 };
        let mut done = 0;
        // How many are read ahead: more and more, as what is read ahead may come too late for this run.
        let mut ahead = 1;
        let mut run = [(Handle::PLACEHOLDER, 0_u8); PLACES];
        let mut hashes = [IdHash::default(); PLACES];
        while let Some(block) = self.queues.first_block(number, ttl) {
            let view = self.queues.blocks.view(block);
            let mut length = 0;
            for ((place, handle), slot) in view.handles().zip(&mut run) {
                *slot = (handle, place as u8);
                length += 1;
            }
            if let Some(next) = view.block.next {
                self.queues.blocks.prefetch(next);
            }
            let run = &run[..length];
            let (mut asked, mut hashed) = (0, 0);
            for (at, (handle, place)) in run.iter().enumerate() {
                while asked < length.min(at + 2 * ahead) {
                    self.records.prefetch(run[asked].0);
                    asked += 1;
                }
                while hashed < length.min(at + ahead) {
                    let record = self.records.get(run[hashed].0);
                    hashes[hashed] = self.index.hash(record.id());
                    self.index.prefetch(hashes[hashed]);
                    // It begins near the id. Where it ends was not known before.
                    record.payload().last().into_iter().for_each(prefetch);
                    hashed += 1;
                }
                let record = self.records.get(*handle);
                if done == most || record.turn() >= end {
                    return done;
                }
                let deliveries = record.deliveries();
                self.index.remove_handle(hashes[at], *handle);
                self.queues.take_head(Spot { block, place: *place });
                self.delivered -= usize::from(deliveries > 0);
                let taken = Taken { records: &mut self.records, handle: *handle };
                give(taken.row(ttl));
                done += 1;
                ahead = (2 * ahead).min(AHEAD / 2);
            }
        }
        done
    }

    /// Gives out the element whose turn is first, if it is due at `now`, and keeps it: it is due again
    /// after `ttl` milliseconds, and counts the delivery. A lease is a TTL: the element moves into that
    /// queue. `ttl` must not be 0, or the element would be due again at once and never end.
    pub fn lease_due(&mut self, now: u64, ttl: u64) -> Option<Element<'_>> {
        debug_assert_ne!(ttl, 0, "a lease of no time");
        let handle = self.first_due(now, Self::read_ahead)?;
        self.lease(handle, ttl, now.saturating_add(ttl).min(DEADLINE_MAX));
        Some(self.records.get(handle).into())
    }

    /// Leases an element by its id, due or not, until `deadline`. Returns whether there is one.
    pub fn lease_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        let Some(handle) = self.find(id).filter(|_| deadline <= DEADLINE_MAX) else { return false };
        self.lease(handle, ttl, deadline);
        true
    }

    /// Says how often an element was given out, as dumps and the append-only file do. Returns whether
    /// there is one.
    pub fn set_deliveries(&mut self, id: &[u8], deliveries: u16) -> bool {
        let Some(handle) = self.find(id) else { return false };
        self.count_deliveries(handle, deliveries);
        true
    }

    /// How many elements were given out under a lease and not settled, whether it has run out or not.
    pub fn delivered(&self) -> usize {
        self.delivered
    }

    /// When the next element comes due, or did. Exact at all times.
    pub fn next_deadline(&self) -> Option<u64> {
        self.first().map(|(turn, _)| turn.deadline)
    }

    /// How many TTLs have a queue, and how many elements are in none.
    #[cfg(test)]
    pub(super) fn shape(&self) -> (usize, usize) {
        (self.queues.len(), self.overflow.len())
    }

    /// How many elements are due at `now`. Looks at each queue once for each block, which holds up to 62, and at each
    /// element in the overflow.
    pub fn count_due(&self, now: u64) -> usize {
        self.queues.count_due(&self.records, now) + self.overflow.count_due(now)
    }

    /// How many TTLs there are, those of elements in the overflow counted one by one.
    pub fn ttls(&self) -> usize {
        self.queues.len() + self.overflow.len()
    }

    /// How many elements there are of each TTL, by TTL. Costs O(TTLs), and O(1) for each element in
    /// the overflow.
    pub fn counts_by_ttl(&self) -> BTreeMap<u64, usize> {
        let overflowing = self.overflow.iter().map(|(_, entry)| (entry.ttl, 1));
        let mut counts = BTreeMap::new();
        for (ttl, count) in self.queues.counts().chain(overflowing) {
            *counts.entry(ttl).or_default() += count;
        }
        counts
    }

    /// Shows about `count` elements, from `cursor` on, and returns the cursor to carry on with; 0 is
    /// both the beginning and the end. An element that is there from beginning to end is shown exactly
    /// once, whatever comes and goes meanwhile; one that is not may be shown or not.
    ///
    /// Costs O(count), and the length of a table of the index, up to 3,584 entries, for each that shows nothing.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut show: impl FnMut(Element<'a>)) -> u64 {
        self.index.scan(cursor, count, |handle| show(self.records.get(handle).into()))
    }

    /// The elements that are due at `now` in order of delivery, each with the TTL it was started with. Costs nothing for
    /// what is not.
    pub fn iter_until(&self, now: u64) -> Iter<'_> {
        self.iter_from(Turn::FIRST, now)
    }

    fn iter_from(&self, start: Turn, end: u64) -> Iter<'_> {
        Iter::new(&self.records, &self.queues, &self.overflow, start, end)
    }

    /// The elements from a place in the order of delivery on whose deadline is at or before `end`, taking nothing.
    ///
    /// Costs O(TTLs) for those whose first element is before that place, and O(log TTLs) for each element that is
    /// shown, whatever lies before it.
    pub fn rows(&self, start: Start, end: u64) -> Rows<'_> {
        let Start { deadline, behind } = start;
        // Numbers are smaller than that of a push which there never is.
        let push = behind.map_or(0, |number| number.saturating_add(1));
        Rows(self.iter_from(Turn { deadline, push }, end))
    }

    /// The element of that id, as [`Full::rows`] shows it.
    pub fn row(&self, id: &[u8]) -> Option<Row<'_>> {
        let (_, record) = self.index.find(self.index.hash(id), |handle| {
            Some(self.records.get(handle)).filter(|record| record.id() == id)
        })?;
        let ttl = match record.spot() {
            Some(spot) => self.queues.ttl(spot),
            None => self.overflow.get(record.turn())?.ttl,
        };
        Some(Row { ttl, element: record.into(), number: Some(record.turn().push) })
    }

    /// What finds the element of that id, until it has another turn.
    pub(super) fn address(&self, id: &[u8]) -> Option<Address> {
        let hash = self.index.hash(id);
        let handle = self.find_hashed(hash, id)?;
        Some(Address { hash, turn: self.records.turn(handle) })
    }

    /// As [`Full::address`], of the element whose turn is first.
    pub(super) fn first_address(&self) -> Option<Address> {
        let (turn, handle) = self.first()?;
        Some(Address { hash: self.index.hash(self.records.id(handle)), turn })
    }

    /// The element there.
    pub(super) fn at(&self, Address { hash, turn }: Address) -> Option<Element<'_>> {
        let (_, record) = self.index.find(hash, |handle| {
            Some(self.records.get(handle)).filter(|record| record.turn() == turn)
        })?;
        Some(record.into())
    }

    /// The number in the turn of what was pushed, leased or restarted last.
    pub(super) fn last_push(&self) -> u64 {
        self.pushes.wrapping_sub(1) % Turn::PUSHES
    }

    pub(super) fn find(&self, id: &[u8]) -> Option<Handle> {
        self.find_hashed(self.index.hash(id), id)
    }

    fn find_hashed(&self, hash: IdHash, id: &[u8]) -> Option<Handle> {
        let is_it = |handle| (self.records.id(handle) == id).then_some(());
        self.index.find(hash, is_it).map(|(handle, ())| handle)
    }

    /// The record whose turn is first, if it is due at `now`. Each of those that follow it in its queue waits for
    /// memory; before the first of a few is given out, `read` reads all of them, so that they wait together.
    fn first_due(
        &mut self,
        now: u64,
        read: impl FnOnce(&Self, &[Option<Handle>; AHEAD]),
    ) -> Option<Handle> {
        // What is asked most often, at every look at the clock, touches neither block nor record.
        if !self.queues.may_be_due(now) && !self.overflow.is_due(now) {
            return None;
        }
        self.queues.settle(&self.records);
        let (turn, handle) = self.first()?;
        if turn.deadline > now {
            return None;
        }
        if let Some(handles) = self.queues.unread() {
            read(self, &handles);
        }
        Some(handle)
    }

    fn read_ahead(&self, handles: &[Option<Handle>; AHEAD]) {
        handles.iter().flatten().for_each(|handle| self.records.prefetch(*handle));
    }

    /// As [`Full::read_ahead`], of records that will leave the index.
    fn read_ahead_to_take(&self, handles: &[Option<Handle>; AHEAD]) {
        self.read_ahead(handles);
        for handle in handles.iter().flatten() {
            let record = self.records.get(*handle);
            // To hash a long id takes longer than to wait for its bucket.
            if record.id().len() <= ID_AHEAD_MAX {
                self.index.prefetch(self.index.hash(record.id()));
            }
        }
    }

    fn first(&self) -> Option<(Turn, Handle)> {
        match (self.queues.first(&self.records), self.overflow.first()) {
            (Some(queued), Some(overflowing)) => {
                Some(if overflowing.0 < queued.0 { overflowing } else { queued })
            }
            (queued, overflowing) => queued.or(overflowing),
        }
    }

    /// Stores a record and files it. It is in the index only when the caller puts it there.
    fn store(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<Handle, StartError> {
        if deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        let turn = self.next_turn(deadline);
        let handle = self.records.reserve(id, payload).ok_or(StartError::Full)?;
        let spot = self.file(handle, ttl, turn);
        self.records.write(handle, id, payload, turn, spot);
        Ok(handle)
    }

    /// Gives a record that stands there a new timer.
    #[inline(always)]
    fn restart(&mut self, handle: Handle, spot: Option<Spot>, ttl: u64, deadline: u64) {
        self.unlink(handle, spot);
        let turn = self.next_turn(deadline);
        let spot = self.file(handle, ttl, turn);
        self.records.set_turn(handle, turn, spot);
    }

    fn lease(&mut self, handle: Handle, ttl: u64, deadline: u64) {
        let spot = self.records.spot(handle);
        self.restart(handle, spot, ttl, deadline);
        let deliveries = self.records.deliveries(handle);
        self.count_deliveries(handle, deliveries.saturating_add(1));
    }

    fn count_deliveries(&mut self, handle: Handle, deliveries: u16) {
        self.delivered -= usize::from(self.records.deliveries(handle) > 0);
        self.delivered += usize::from(deliveries > 0);
        self.records.set_deliveries(handle, deliveries);
    }

    /// The turn of an element that is pushed now.
    #[inline(always)]
    fn next_turn(&mut self, deadline: u64) -> Turn {
        let push = self.pushes % Turn::PUSHES;
        self.pushes += 1;
        Turn { deadline, push }
    }

    /// See [`file`](fn@file).
    #[inline(always)]
    fn file(&mut self, handle: Handle, ttl: u64, turn: Turn) -> Option<Spot> {
        let elements = self.len();
        let Self { queues, overflow, records, .. } = self;
        file(queues, overflow, records, handle, (ttl, turn), elements)
    }

    /// Takes a record out of the order of deadlines. It still says where it was.
    #[inline(always)]
    fn unlink(&mut self, handle: Handle, spot: Option<Spot>) {
        match spot {
            Some(spot) => self.queues.remove(&mut self.records, spot),
            None => self.overflow.remove(self.records.turn(handle)),
        }
    }

    /// As [`Full::unlink`], of a record that is out of the index already.
    #[inline(always)]
    fn unfile(&mut self, handle: Handle, spot: Option<Spot>, deliveries: u16) -> Taken<'_> {
        self.unlink(handle, spot);
        self.delivered -= usize::from(deliveries > 0);
        Taken { records: &mut self.records, handle }
    }

    /// Index and order point to `new` instead of `old`; the two have the same id, turn and spot.
    pub(super) fn repoint(&mut self, hash: IdHash, old: Handle, new: Handle) {
        self.index.replace(hash, old, new);
        match self.records.spot(new) {
            Some(spot) => self.queues.replace(spot, new),
            None => self.overflow.replace(self.records.turn(new), new),
        }
    }
}

impl fmt::Debug for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full").field("len", &self.len()).finish_non_exhaustive()
    }
}
