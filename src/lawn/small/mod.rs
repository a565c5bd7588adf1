//! The small form of a lawn: all elements in one allocation, in the order of their ranks.
//!
//! A user who gives each session, basket or device its own key has a million lawns of a few elements each. An index,
//! pages and queues would cost each lawn more than a kilobyte; here an element costs eleven bytes more than its id and
//! payload. All look-ups are linear scans. For a few dozen elements, that is as fast as an index, and needs no hash.
//!
//! All elements are in one group, whose name is stored once, or all in none.
//!
//! [`packed`] describes the layout of an element.
//!
//! A pushed element goes behind all elements with the same or an earlier deadline, so no push number is stored.

mod leases;
mod packed;

use std::collections::BTreeMap;

use super::element::{Bounds, Counts, Element, Group, Row};
use super::element::{StartError, UpdateError};
use super::lease::{Since, Token};
use super::memory::{Mover, relocate, rounded};
use super::rank::DEADLINE_MAX;
use super::store::Handle;
use packed::{PackedElement, PackedElements, PackedHeader, Timer, WIDTH_MAX};

/// The limits of the small form. A lawn that exceeds one is converted to the full form, for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallMax {
    /// 0 disables the small form.
    pub elements: usize,
    /// All elements with their headers and ids.
    pub bytes: usize,
}

impl SmallMax {
    /// The defaults. Beyond them, scans take longer than look-ups, and the full form costs little more.
    pub const USUAL: Self = Self { elements: 32, bytes: 4096 };
}

/// A small lawn. See the [module](self).
#[derive(Default)]
pub struct Small {
    /// The elements; behind the name of their group and its length, if they are in one.
    bytes: Vec<u8>,
    /// The number of elements. Its highest bit says that they are all in one group.
    len: u16,
    /// Elements that were given out under a lease and are still in the lawn.
    delivered: u16,
    ttls: u16,
    /// Elements that are held under a token.
    held: u16,
}

/// The bit of the length that says that the elements are in a group.
const GROUPED: u16 = 1 << 15;

impl Small {
    pub fn len(&self) -> usize {
        (self.len & !GROUPED).into()
    }

    /// Returns the name of the group that all elements are in.
    pub fn group(&self) -> Option<&[u8]> {
        (self.len & GROUPED != 0).then(|| &self.bytes[2..self.begin()])
    }

    /// Returns the offset of the first element.
    #[inline(always)]
    fn begin(&self) -> usize {
        if self.len & GROUPED == 0 { 0 } else { self.long_begin() }
    }

    fn long_begin(&self) -> usize {
        2 + usize::from(u16::from_le_bytes([self.bytes[0], self.bytes[1]]))
    }

    /// Prepares for an element in this group, or in none. Returns whether it may be in here with the others.
    pub fn join(&mut self, group: Option<&[u8]>, max: SmallMax) -> bool {
        if self.len() > 0 || group == self.group() {
            return group == self.group();
        }
        let name = group.unwrap_or_default();
        if name.len() + 2 > max.bytes {
            return false;
        }
        *self = Self::default();
        if group.is_some() {
            self.reserve(2 + name.len());
            self.bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
            self.bytes.extend_from_slice(name);
            self.len |= GROUPED;
        }
        true
    }

    /// Returns an element as it is in here.
    #[inline(always)]
    fn element(&self, entry: &PackedElement) -> Element<'_> {
        Element { group: self.group_handle(), ..entry.element(&self.bytes) }
    }

    /// Returns what stands for the only group.
    #[inline(always)]
    fn group_handle(&self) -> Option<Group> {
        (self.len & GROUPED != 0).then_some(Group(Handle::PLACEHOLDER))
    }

    fn row_of(&self, entry: &PackedElement) -> Row<'_> {
        Row { ttl: entry.ttl(&self.bytes), element: self.element(entry), number: None }
    }

    pub fn counts(&self) -> Counts {
        Counts {
            elements: self.len(),
            given_out: self.delivered.into(),
            leased: self.held.into(),
            ttls: self.ttls.into(),
        }
    }

    /// Starts an element as [`Lawn::start`](super::Lawn::start) does. `None` if that would exceed `max`; then nothing has
    /// changed.
    pub fn start(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        max: SmallMax,
    ) -> Option<Result<(), StartError>> {
        let Element { id, payload, deadline, bounds, .. } = *new;
        if deadline > DEADLINE_MAX {
            return Some(Err(StartError::TooLate));
        }
        // The offset for the element, and whether another one has its TTL.
        let (mut place, mut has_ttl) = (self.begin(), false);
        for entry in self.entries() {
            if entry.has_id(&self.bytes, id) {
                return Some(Err(StartError::Exists));
            }
            has_ttl |= entry.ttl(&self.bytes) == ttl;
            place = if entry.deadline <= deadline { entry.end } else { place };
        }
        let timer =
            Timer { deadline, ttl, deliveries: 0, token: None, since: Since::UNKNOWN, bounds };
        let header = PackedHeader::new(id.len(), payload.len(), timer);
        // One count is reserved for the element that an update replaces.
        let elements_max = max.elements.min(usize::from(!GROUPED) - 1);
        if self.len() >= elements_max
            || self.bytes.len() + header.width > max.bytes
            || header.width > WIDTH_MAX
        {
            return None;
        }
        self.ttls += u16::from(!has_ttl);
        self.insert(place, &header, id, payload);
        Some(Ok(()))
    }

    #[inline(never)]
    pub fn restart_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        let found = self.find(id).filter(|_| deadline <= DEADLINE_MAX);
        let Some(entry) = found else { return false };
        let before = entry.timer(&self.bytes);
        let token = before.token.filter(|_| ttl > 0);
        self.set_timer(&entry, Timer { deadline, ttl, token, ..before });
        true
    }

    #[inline(never)]
    pub fn put_first(&mut self, id: &[u8], deadline: u64) -> bool {
        if !self.restart_at(id, 0, deadline) {
            return false;
        }
        let (first, own) = (self.entries().find(|it| it.deadline == deadline), self.find(id));
        if let Some((first, own)) = first.zip(own) {
            self.bytes[first.at..own.end].rotate_right(own.width());
        }
        true
    }

    /// Returns the offset of an element that is about to be taken out. The caller must call [`Small::free`] with it.
    #[inline(never)]
    #[must_use = "it must be freed"]
    pub fn stop(&mut self, id: &[u8]) -> Option<usize> {
        self.find(id).map(|entry| entry.at)
    }

    /// Does what [`Small::stop`] does, if the element is held under this token.
    #[must_use = "it must be freed"]
    pub fn settle(&mut self, id: &[u8], token: Token) -> Option<usize> {
        self.find(id).filter(|entry| entry.token(&self.bytes) == Some(token)).map(|entry| entry.at)
    }

    #[inline(never)]
    pub fn at(&self, at: usize) -> Element<'_> {
        self.element(&PackedElement::read(&self.bytes, at))
    }

    /// Returns the element at an offset as [`Small::row`] does.
    pub fn row_at(&self, at: usize) -> Row<'_> {
        self.row_of(&PackedElement::read(&self.bytes, at))
    }

    /// Removes the element at an offset.
    #[inline(never)]
    pub fn free(&mut self, at: usize) {
        let entry = PackedElement::read(&self.bytes, at);
        self.ttls -= u16::from(!self.has_ttl(entry.ttl(&self.bytes), &entry));
        self.delivered -= u16::from(entry.has_deliveries);
        self.held -= u16::from(entry.token(&self.bytes).is_some());
        self.len -= 1;
        self.bytes.drain(entry.at..entry.end);
        self.shrink();
    }

    pub fn look(&self, id: &[u8]) -> Option<Element<'_>> {
        self.find(id).map(|entry| self.element(&entry))
    }

    pub fn row(&self, id: &[u8]) -> Option<Row<'_>> {
        self.find(id).map(|entry| self.row_of(&entry))
    }

    /// Returns whether an element, if it exists, may get this payload without exceeding a limit.
    pub fn may_update(&self, id: &[u8], payload: &[u8], max: SmallMax) -> bool {
        self.find(id).is_none_or(|old| {
            let width = PackedHeader::new(id.len(), payload.len(), old.timer(&self.bytes)).width;
            width <= WIDTH_MAX && self.bytes.len() - old.width() + width <= max.bytes
        })
    }

    /// Replaces a payload for which [`Small::may_update`] is true. Returns the offset of the old element, which the
    /// caller must [free](Small::free).
    #[must_use = "it must be freed"]
    pub fn update(&mut self, id: &[u8], payload: &[u8]) -> Result<usize, UpdateError> {
        let old = self.find(id).ok_or(UpdateError::Missing)?;
        let header = PackedHeader::new(id.len(), payload.len(), old.timer(&self.bytes));
        // Insert the new element before the old one, then rotate the old one to the end.
        self.insert(old.at, &header, id, payload);
        self.bytes[old.at + header.width..].rotate_left(old.width());
        Ok(self.bytes.len() - old.width())
    }

    pub fn drain(
        &mut self,
        now: u64,
        count: usize,
        mut give: impl FnMut(u64, Element<'_>),
    ) -> usize {
        let end = self.begin();
        let mut drained = Drained { small: self, end, count: 0 };
        while usize::from(drained.count) < count
            && let Some(entry) = drained.next().filter(|entry| entry.deadline <= now)
        {
            (drained.end, drained.count) = (entry.end, drained.count + 1);
            let Small { bytes, delivered, held, .. } = &mut *drained.small;
            *delivered -= u16::from(entry.has_deliveries);
            *held -= u16::from(entry.token(bytes).is_some());
            give(entry.ttl(bytes), drained.small.element(&entry));
        }
        drained.count.into()
    }

    /// Returns the offset of the first element, if it is due at `now`.
    pub fn first_due(&self, now: u64) -> Option<usize> {
        self.entries().next().filter(|first| first.deadline <= now).map(|first| first.at)
    }

    pub fn set_until(&mut self, id: &[u8], until: u64) -> bool {
        let found = self.find(id).filter(|entry| entry.expiry(&self.bytes).is_some());
        let Some(entry) = found else { return false };
        let timer = entry.timer(&self.bytes);
        let bounds = Bounds { until: until.clamp(1, Bounds::UNTIL_MAX), ..timer.bounds };
        self.set_header(&entry, Timer { bounds, ..timer });
        true
    }

    pub fn has_bounds(&self) -> bool {
        self.entries().any(|entry| !entry.bounds(&self.bytes).is_none())
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.entries().next().map(|first| first.deadline)
    }

    pub fn first_expiry(&self) -> Option<u64> {
        self.entries().filter_map(|entry| entry.expiry(&self.bytes)).min()
    }

    pub fn expired(&self, now: u64) -> impl Iterator<Item = Row<'_>> {
        let expiry = |entry: PackedElement| Some((entry.expiry(&self.bytes)?, entry));
        let due = self.entries().take_while(|entry| entry.deadline <= now);
        let mut expired: Vec<_> =
            due.filter_map(expiry).filter(|(moment, _)| *moment <= now).collect();
        expired.sort_by_key(|(moment, _)| *moment);
        expired.into_iter().map(|(_, entry)| self.row_of(&entry))
    }

    pub fn first_element(&self) -> Option<Element<'_>> {
        self.entries().next().map(|first| self.element(&first))
    }

    pub fn count_due(&self, now: u64) -> usize {
        self.entries().take_while(|entry| entry.deadline <= now).count()
    }

    pub fn counts_by_ttl(&self) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        for entry in self.entries() {
            *counts.entry(entry.ttl(&self.bytes)).or_default() += 1;
        }
        counts
    }

    /// Iterates over the elements whose deadlines are from `start` to `end`.
    pub fn rows(&self, start: u64, end: u64) -> SmallRows<'_> {
        let mut entries = self.entries();
        while entries.clone().next().is_some_and(|entry| entry.deadline < start) {
            entries.next();
        }
        SmallRows { entries, small: self, end }
    }

    pub fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.bytes, mover);
    }

    /// Returns the bytes allocated, without the struct itself.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    fn entries(&self) -> PackedElements<'_> {
        PackedElements { bytes: &self.bytes, at: self.begin() }
    }

    fn find(&self, id: &[u8]) -> Option<PackedElement> {
        self.entries().find(|entry| entry.has_id(&self.bytes, id))
    }

    /// Returns the offset for an element with this deadline, searching from offset `place` on.
    fn place_after(&self, place: usize, deadline: u64) -> usize {
        let rest = PackedElements { bytes: &self.bytes, at: place };
        rest.take_while(|entry| entry.deadline <= deadline).last().map_or(place, |last| last.end)
    }

    fn insert(&mut self, place: usize, header: &PackedHeader, id: &[u8], payload: &[u8]) {
        self.reserve(header.width);
        self.delivered += u16::from(header.has_deliveries());
        self.held += u16::from(header.has_token);
        self.len += 1;
        let end = self.bytes.len();
        self.bytes.extend_from_slice(header.bytes());
        self.bytes.extend_from_slice(id);
        self.bytes.extend_from_slice(payload);
        if place < end {
            self.bytes[place..].rotate_right(header.width);
        }
    }

    /// Sets an element's timer. The element comes after all others with the same deadline. Returns its new offset.
    fn set_timer(&mut self, entry: &PackedElement, timer: Timer) -> usize {
        let place = if timer.ttl != entry.ttl(&self.bytes) {
            self.recount_ttls(entry, timer)
        } else if timer.deadline < entry.deadline {
            self.place_after(self.begin(), timer.deadline)
        } else {
            self.place_after(entry.end, timer.deadline)
        };
        let PackedElement { at, end, .. } = self.set_header(entry, timer);
        let width = end - at;
        if place <= at {
            self.bytes[place..end].rotate_right(width);
            return place;
        }
        // The header may have changed its length.
        let place = place - entry.end + end;
        self.bytes[at..place].rotate_left(width);
        place - width
    }

    /// Updates the number of TTLs for an element's new timer and returns the element's new offset, in one scan.
    fn recount_ttls(&mut self, entry: &PackedElement, timer: Timer) -> usize {
        let old = entry.ttl(&self.bytes);
        let (mut place, mut has_old, mut has_new) = (self.begin(), false, false);
        for other in self.entries().filter(|other| other.at != entry.at) {
            let ttl = other.ttl(&self.bytes);
            has_old |= ttl == old;
            has_new |= ttl == timer.ttl;
            place = if other.deadline <= timer.deadline { other.end } else { place };
        }
        self.ttls += u16::from(!has_new);
        self.ttls -= u16::from(!has_old);
        place
    }

    /// Rewrites an element's header in place. Does not count TTLs.
    fn set_header(&mut self, entry: &PackedElement, timer: Timer) -> PackedElement {
        let header = PackedHeader::new(entry.payload - entry.id, entry.end - entry.payload, timer);
        self.delivered += u16::from(header.has_deliveries());
        self.delivered -= u16::from(entry.has_deliveries);
        self.held += u16::from(header.has_token);
        self.held -= u16::from(entry.token(&self.bytes).is_some());
        if header.len == entry.id - entry.at {
            self.bytes[entry.at..entry.id].copy_from_slice(header.bytes());
        } else {
            self.reserve(header.len.saturating_sub(entry.id - entry.at));
            self.bytes.splice(entry.at..entry.id, header.bytes().iter().copied());
            self.shrink();
        }
        PackedElement::read(&self.bytes, entry.at)
    }

    /// Returns whether an element other than `besides` has this TTL.
    fn has_ttl(&self, ttl: u64, besides: &PackedElement) -> bool {
        self.entries().any(|entry| entry.ttl(&self.bytes) == ttl && entry.at != besides.at)
    }

    fn different_ttls(&self) -> u16 {
        let mut ttls: Vec<_> = self.entries().map(|entry| entry.ttl(&self.bytes)).collect();
        ttls.sort_unstable();
        ttls.dedup();
        ttls.len() as u16
    }

    /// Reserves `more` bytes. Rounds the capacity up to the allocator's size class.
    fn reserve(&mut self, more: usize) {
        let bytes = self.bytes.len() + more;
        if bytes > self.bytes.capacity() {
            self.bytes.reserve_exact(rounded(bytes) - self.bytes.len());
        }
    }

    /// Frees memory when half of it is unused.
    fn shrink(&mut self) {
        if self.bytes.len() * 2 <= self.bytes.capacity() {
            self.bytes.shrink_to(rounded(self.bytes.len()));
        }
    }

    /// Panics unless the elements are in order, ids are unique and the counters are right. For tests.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        let mut ids = std::collections::BTreeSet::new();
        let mut last = 0;
        for entry in self.entries() {
            assert!(entry.deadline >= last, "{} after {last}", entry.deadline);
            last = entry.deadline;
            let id = entry.id(&self.bytes);
            assert!(ids.insert(id), "{id:?} is there twice");
            let header =
                PackedHeader::new(id.len(), entry.end - entry.payload, entry.timer(&self.bytes));
            assert_eq!(header.bytes(), &self.bytes[entry.at..entry.id], "the header of {id:?}");
        }
        assert_eq!(ids.len(), self.len());
        assert_eq!(self.ttls, self.different_ttls());
        let delivered = self.entries().filter(|entry| entry.has_deliveries).count();
        assert_eq!(usize::from(self.delivered), delivered, "elements under a lease");
        let held = self.entries().filter(|entry| entry.token(&self.bytes).is_some()).count();
        assert_eq!(usize::from(self.held), held, "elements under a token");
        let spare = self.bytes.capacity() - self.bytes.len();
        assert!(spare <= self.bytes.len() + 2 * packed::HEADER_MAX, "{spare} bytes are spare");
        assert!(self.begin() <= self.bytes.len());
    }
}

/// The first elements of a lawn, which are given away. Removed on drop, even if the receiver panics.
struct Drained<'a> {
    small: &'a mut Small,
    /// Where they end.
    end: usize,
    count: u16,
}

impl Drained<'_> {
    /// Returns the element behind them.
    fn next(&self) -> Option<PackedElement> {
        PackedElements { bytes: &self.small.bytes, at: self.end }.next()
    }
}

impl Drop for Drained<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.small.bytes.drain(self.small.begin()..self.end);
            self.small.len -= self.count;
            self.small.ttls = self.small.different_ttls();
            self.small.shrink();
        }
    }
}

impl Clone for Small {
    /// Clones with the capacity that fits the content.
    fn clone(&self) -> Self {
        let mut bytes = Vec::with_capacity(rounded(self.bytes.len()));
        bytes.extend_from_slice(&self.bytes);
        Self { bytes, ..*self }
    }
}

/// Elements in the order of delivery.
pub struct SmallRows<'a> {
    entries: PackedElements<'a>,
    small: &'a Small,
    end: u64,
}

impl<'a> Iterator for SmallRows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        let entry = self.entries.next().filter(|entry| entry.deadline <= self.end)?;
        Some(self.small.row_of(&entry))
    }
}

#[cfg(test)]
mod tests;
