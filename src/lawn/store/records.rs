//! Records: an element's header, id and payload, together in one slot.
//!
//! ```text
//!   0        8          14      18      19           21
//!   ├────────┼──────────┼───────┼───────┼────────────┼────────┬────┬─────────────┬─────────┬─────────┐
//!   │deadline│ push no. │ block │ place │ deliveries │ id len │ id │ payload len │ payload │ padding │
//!   └────────┴──────────┴───────┴───────┴────────────┴────────┴────┴─────────────┴─────────┴─────────┘
//!    u64      u48        u32     u8      u16          varint        varint                  to 8 bytes
//!
//!   more than 8 KiB:                                │ 80 00 │  and in an allocation: │ id len │ id │ payload len │ payload │
//! ```
//!
//! If bit 7 of the place is set, the element has [`Bounds`], in eight bytes behind the payload, or behind `80 00`. There
//! they cost the other elements nothing: id and payload are where they always are.
//!
//! If bit 6 is set, the element is in a group, and has 16 bytes in front of the header: see [`links`](super::links). Its
//! handle names the unit where the header begins, so reading a record is the same with and without them.
//!
//! Lengths are LEB128: one byte up to 127. The id precedes the length of the payload, so that a look-up reads nothing
//! behind the id. An id of 16 bytes and a payload of 64 make 103 bytes, in a slot of 104. Two things refer to a record:
//! the index, and one place in the order of deadlines, the record's [`Spot`].
//!
//! A deadline has 63 bits. The 64th bit marks a free slot, and together with the 63rd a slot that begins with a group.

use super::super::element::{Bounds, Element, Group};
use super::super::memory::{Mover, Steps};
use super::super::processor::prefetch;
use super::super::rank::Rank;
use super::super::work;
use super::beside::Beside;
use super::handle::{Handle, Unit};
use super::slab::{Slab, WIDEST};

/// The unit of slots. Eight bytes keep the number of classes small and the headers aligned.
pub type Granule = [u8; 8];

impl Unit for Granule {
    /// 2^15 units per page (256 KiB) and 2^17 pages: 32 GiB.
    const BITS: u32 = 15;

    fn set_free(&mut self, next: u32) {
        *self = (1 << 63 | u64::from(next)).to_le_bytes();
    }

    fn free(&self) -> Option<u32> {
        let bits = u64::from_le_bytes(*self);
        // A slot with a group begins with two bits that are set.
        (bits >> 62 == 2).then_some(bits as u32)
    }
}

const PUSH: usize = 8;
const BLOCK: usize = 14;
const PLACE: usize = 18;
const DELIVERIES: usize = 19;
const LENGTHS: usize = 21;
/// The bit of the place that says that the element has bounds. Places are below 64.
const BOUNDED: u8 = 0x80;
/// The bit of the place that says that the element is in a group.
const GROUPED: u8 = 0x40;
/// The units in front of the header of a record in a group.
pub(super) const GROUP_UNITS: usize = 2;
/// The bits that no first unit of another record has, nor a free slot. Handles of groups do not have them either.
pub const GROUP_MARK: u32 = 0xc000_0000;
/// The bits of the place that are the place itself.
const PLACES: u8 = 0x3f;
/// The longest id or payload whose length takes one byte.
const SHORT_MAX: usize = 0x7f;
/// Stored instead of lengths, id and payload, which are in an allocation of their own. As LEB128 this would be an
/// overlong 0, which is never written.
const BOXED: [u8; 2] = [0x80, 0];
/// The size of such a record.
const BOXED_BYTES: usize = LENGTHS + BOXED.len();

/// The position of a record in the order of deadlines: a block, and a place in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    pub block: Handle,
    pub place: u8,
}

impl Spot {
    pub fn new(block: Handle, place: usize) -> Self {
        Self { block, place: place as u8 }
    }
}

/// A record in its slot. Each method reads only the bytes that it needs.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    header: &'a [u8; LENGTHS],
    /// Lengths, id and payload and the rest of the page, or [`BOXED`].
    bytes: &'a [u8],
    handle: Handle,
    records: &'a Records,
}

impl<'a> Record<'a> {
    #[inline(always)]
    pub fn rank(&self) -> Rank {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, ..] = *self.header;
        Rank {
            deadline: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            push: u64::from_le_bytes([i, j, k, l, m, n, 0, 0]),
        }
    }

    #[inline(always)]
    pub fn spot(&self) -> Spot {
        spot_of(self.header)
    }

    /// Returns how often the element was given out under a lease.
    #[inline(always)]
    pub fn deliveries(&self) -> u16 {
        u16::from_le_bytes([self.header[DELIVERIES], self.header[DELIVERIES + 1]])
    }

    #[inline(always)]
    pub fn id(&self) -> &'a [u8] {
        match short(self.bytes) {
            Some((id, _)) => id,
            None => self.parts().0,
        }
    }

    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.id_and_payload().1
    }

    #[inline(always)]
    fn id_and_payload(&self) -> (&'a [u8], &'a [u8]) {
        if let Some((id, rest)) = short(self.bytes)
            && let Some((payload, _)) = short(rest)
        {
            return (id, payload);
        }
        self.parts()
    }

    /// Returns id and payload when at least one of them is long or they are boxed.
    #[inline(never)]
    fn parts(&self) -> (&'a [u8], &'a [u8]) {
        let bytes =
            if self.is_boxed() { self.records.beside.content(self.handle) } else { self.bytes };
        let (id, rest) = part(bytes);
        (id, part(rest).0)
    }

    fn is_boxed(&self) -> bool {
        self.bytes.starts_with(&BOXED)
    }

    /// Returns the element's bounds.
    #[inline(always)]
    pub fn bounds(&self) -> Bounds {
        if self.header[PLACE] & BOUNDED == 0 { Bounds::NONE } else { self.read_bounds() }
    }

    #[inline(never)]
    fn read_bounds(&self) -> Bounds {
        let bytes = &self.bytes[self.bounds_at()..];
        Bounds::from_bytes(*bytes.first_chunk().expect("bounds follow"))
    }

    /// Returns the offset of the bounds behind the header.
    fn bounds_at(&self) -> usize {
        if self.is_boxed() {
            return BOXED.len();
        }
        let (_, rest) = part(self.bytes);
        self.bytes.len() - part(rest).1.len()
    }

    #[inline(always)]
    pub fn is_grouped(&self) -> bool {
        self.header[PLACE] & GROUPED != 0
    }

    /// Returns the element's group.
    #[inline(always)]
    pub fn group(&self) -> Option<Group> {
        if self.is_grouped() { Some(self.records.group(self.handle)) } else { None }
    }

    #[inline(always)]
    pub fn has_id(&self, id: &[u8]) -> bool {
        // Another first byte means another id, or a length of more than one byte.
        let is_short = id.len() <= SHORT_MAX && usize::from(self.bytes[0]) == id.len();
        match self.bytes.get(1..1 + id.len()) {
            Some(own) if is_short => are_equal(own, id),
            _ => self.bytes[0] > SHORT_MAX as u8 && self.parts().0 == id,
        }
    }
}

/// Compares ids, or names, of equal length. Many have 8 to 16 bytes, for which this takes less time than a call of `memcmp`.
#[inline(always)]
pub fn are_equal(one: &[u8], other: &[u8]) -> bool {
    if let (Some(start), Some(end)) = (other.first_chunk::<8>(), other.last_chunk::<8>())
        && other.len() <= 16
    {
        return one.first_chunk() == Some(start) && one.last_chunk() == Some(end);
    }
    one == other
}

impl<'a> From<Record<'a>> for Element<'a> {
    #[inline(always)]
    fn from(record: Record<'a>) -> Self {
        let (id, payload) = record.id_and_payload();
        let (deadline, deliveries) = (record.rank().deadline, record.deliveries());
        let (bounds, group) = (record.bounds(), record.group());
        Self { id, payload, deadline, deliveries, bounds, group }
    }
}

#[inline(always)]
fn spot_of(header: &[u8; LENGTHS]) -> Spot {
    let block = header[BLOCK..PLACE].try_into().expect("four bytes");
    let block = Handle::from_bits(u32::from_le_bytes(block)).expect("a record stands somewhere");
    Spot { block, place: header[PLACE] & PLACES }
}

fn put_rank(header: &mut [u8; LENGTHS], rank: Rank) {
    header[..PUSH].copy_from_slice(&rank.deadline.to_le_bytes());
    header[PUSH..BLOCK].copy_from_slice(&rank.push.to_le_bytes()[..BLOCK - PUSH]);
}

fn put_spot(header: &mut [u8; LENGTHS], spot: Spot) {
    header[BLOCK..PLACE].copy_from_slice(&spot.block.bits().to_le_bytes());
    header[PLACE] = header[PLACE] & !PLACES | spot.place;
}

/// Splits off a length-prefixed part whose length takes one byte, as most do. Returns it and the rest.
#[inline(always)]
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    if usize::from(*length) > SHORT_MAX { None } else { rest.split_at_checked((*length).into()) }
}

/// Splits off a length-prefixed part. Returns it and the rest.
fn part(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (mut at, mut length) = (0, 0);
    loop {
        let byte = bytes[at];
        length |= usize::from(byte & 0x7f) << (7 * at);
        at += 1;
        if byte < 0x80 {
            return bytes[at..].split_at(length);
        }
    }
}

/// Returns the bytes that an encoded length takes.
#[inline(always)]
fn length_bytes(length: usize) -> usize {
    if length < 0x80 { 1 } else { length.ilog2() as usize / 7 + 1 }
}

/// Writes id and payload with their lengths. Returns the rest.
#[inline(always)]
fn put_parts<'a>(bytes: &'a mut [u8], id: &[u8], payload: &[u8]) -> &'a mut [u8] {
    let rest = put_part(bytes, id);
    put_part(rest, payload)
}

/// Writes a length and the part itself. Returns the rest.
#[inline(always)]
fn put_part<'a>(bytes: &'a mut [u8], part: &[u8]) -> &'a mut [u8] {
    let (mut at, mut length) = (0, part.len());
    while length >= 0x80 {
        bytes[at] = length as u8 | 0x80;
        length >>= 7;
        at += 1;
    }
    bytes[at] = length as u8;
    let (own, rest) = bytes[at + 1..].split_at_mut(part.len());
    own.copy_from_slice(part);
    rest
}

/// Exclusive access to a record's header, to give the record a new rank with one look at it.
pub struct Header<'a>(&'a mut [u8; LENGTHS]);

impl Header<'_> {
    #[inline(always)]
    pub fn spot(&self) -> Spot {
        spot_of(self.0)
    }

    #[inline(always)]
    pub fn set_rank(self, rank: Rank, spot: Spot) {
        put_rank(self.0, rank);
        put_spot(self.0, spot);
    }
}

/// A slot that is reserved for an element.
#[must_use]
#[derive(Clone, Copy)]
pub struct Reservation {
    pub handle: Handle,
    is_boxed: bool,
}

/// All records of a lawn.
#[derive(Clone)]
pub struct Records {
    pub slab: Slab<Granule>,
    beside: Beside,
    /// Makes the order of grouped records unpredictable: see [`Nodes`](super::Nodes). 0 if there never was one.
    pub secret: u64,
}

impl Records {
    /// Returns a bound for the bytes of an id and its payload: the widest slot, or none if any has an allocation of its own.
    pub fn longest(&self) -> usize {
        if !self.beside.has_contents() { WIDEST * size_of::<Granule>() } else { usize::MAX }
    }

    pub fn new() -> Self {
        Self { slab: Slab::new(), beside: Beside::default(), secret: 0 }
    }

    /// Reserves a slot for an element. The caller must [write](Self::write) it next. `None` if the store is full (see
    /// [`Slab::insert`]).
    #[inline(always)]
    pub fn reserve(
        &mut self,
        id: &[u8],
        payload: &[u8],
        bounds: Bounds,
        is_grouped: bool,
    ) -> Option<Reservation> {
        let own = if bounds.is_none() { 0 } else { Bounds::BYTES };
        let size = LENGTHS + size_of_parts(id, payload) + own;
        let front = if is_grouped { GROUP_UNITS } else { 0 };
        let units = size.div_ceil(size_of::<Granule>()) + front;
        let is_boxed = units > WIDEST;
        let boxed = (BOXED_BYTES + own).div_ceil(size_of::<Granule>()) + front;
        let slot = self.slab.insert(if is_boxed { boxed } else { units })?;
        let handle = if is_grouped { slot.behind(GROUP_UNITS) } else { slot };
        Some(Reservation { handle, is_boxed })
    }

    /// Writes an element without deliveries into its reserved slot.
    #[inline(always)]
    pub fn write(
        &mut self,
        reservation: Reservation,
        id: &[u8],
        payload: &[u8],
        (bounds, group): (Bounds, Option<Group>),
        (rank, spot): (Rank, Spot),
    ) {
        let bytes = self.slab.get_mut(reservation.handle).as_flattened_mut();
        let (header, bytes) = bytes.split_first_chunk_mut().expect("a slot holds a header");
        put_rank(header, rank);
        header[PLACE] = if bounds.is_none() { 0 } else { BOUNDED };
        put_spot(header, spot);
        header[DELIVERIES..].fill(0);
        header[PLACE] |= if group.is_some() { GROUPED } else { 0 };
        let rest = if reservation.is_boxed {
            let (mark, rest) = bytes.split_at_mut(BOXED.len());
            mark.copy_from_slice(&BOXED);
            rest
        } else {
            put_parts(bytes, id, payload)
        };
        if !bounds.is_none() {
            rest[..Bounds::BYTES].copy_from_slice(&bounds.to_bytes());
        }
        if reservation.is_boxed {
            self.put_boxed(reservation.handle, id, payload);
        }
        if let Some(group) = group {
            self.put_group(reservation.handle, group);
        }
    }

    #[cold]
    fn put_boxed(&mut self, handle: Handle, id: &[u8], payload: &[u8]) {
        let mut bytes = vec![0; size_of_parts(id, payload)];
        put_parts(&mut bytes, id, payload);
        self.beside.put_content(handle, bytes);
    }

    #[inline(always)]
    pub fn get(&self, handle: Handle) -> Record<'_> {
        work::look_at_record();
        let bytes = self.slab.get(handle).as_flattened();
        let (header, bytes) = bytes.split_first_chunk().expect("a slot holds a header");
        Record { header, bytes, handle, records: self }
    }

    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        let units = self.slab.get(handle);
        prefetch(&units[0]);
        // Most records begin in one cache line and end in the next.
        if let Some(unit) = units.get(64 / size_of::<Granule>()) {
            prefetch(unit);
        }
    }

    /// Returns the rank without reading the lengths.
    #[inline(always)]
    pub fn rank(&self, handle: Handle) -> Rank {
        self.get(handle).rank()
    }

    pub fn set_spot(&mut self, handle: Handle, spot: Spot) {
        put_spot(self.header_mut(handle), spot);
    }

    /// Sets how often a record was given out under a lease.
    pub fn set_deliveries(&mut self, handle: Handle, deliveries: u16) {
        self.header_mut(handle)[DELIVERIES..].copy_from_slice(&deliveries.to_le_bytes());
    }

    pub fn set_bounds(&mut self, handle: Handle, bounds: Bounds) {
        let at = LENGTHS + self.get(handle).bounds_at();
        let bytes = self.slab.get_mut(handle).as_flattened_mut();
        bytes[at..at + Bounds::BYTES].copy_from_slice(&bounds.to_bytes());
    }

    /// Returns the header of a record, to give it a new rank.
    #[inline(always)]
    pub fn header(&mut self, handle: Handle) -> Header<'_> {
        Header(self.header_mut(handle))
    }

    #[inline(always)]
    pub fn remove(&mut self, handle: Handle) {
        if !self.beside.is_empty() {
            self.beside.remove(handle, self.get(handle).is_boxed());
        }
        self.slab.remove(self.slot(handle));
    }

    /// Returns why the element was given back the last time, if that was said.
    pub fn reason(&self, handle: Handle) -> Option<&[u8]> {
        self.beside.reason(handle)
    }

    /// Sets the reason of an element; an empty one is none.
    pub fn set_reason(&mut self, handle: Handle, reason: &[u8]) {
        self.beside.set_reason(handle, reason);
    }

    /// Gives the reason of an element to the record that takes its place.
    #[inline(always)]
    pub fn pass_reason(&mut self, old: Handle, new: Handle) {
        if !self.beside.is_empty() {
            self.beside.pass_reason(old, new);
        }
    }

    /// Returns whether any element has a reason. O(1).
    pub fn has_reasons(&self) -> bool {
        self.beside.has_reasons()
    }

    /// Moves a record as [`Slab::relocate`] does. Returns its new handle.
    #[must_use = "the record has another name"]
    pub fn relocate(&mut self, handle: Handle) -> Option<Handle> {
        let slot = self.slot(handle);
        let new = self.slab.relocate(slot)?;
        let new = if slot == handle { new } else { new.behind(GROUP_UNITS) };
        if !self.beside.is_empty() {
            self.beside.rename(handle, new);
        }
        Some(new)
    }

    /// Moves what records have beside their slots. No steps can follow.
    pub fn defrag_beside(&mut self, steps: &mut Steps<'_, impl Mover>) {
        self.beside.defrag(steps);
    }

    /// Returns the bytes allocated, without the struct itself. O(pages).
    pub fn memory(&self) -> usize {
        self.slab.memory() + self.beside.memory()
    }

    /// Returns roughly how many allocations dropping it frees. O(1).
    pub fn allocations(&self) -> usize {
        self.slab.allocations() + self.beside.allocations()
    }

    /// Panics unless pages and what is beside them are consistent. Returns the number of records.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, live: impl Iterator<Item = Handle>) -> usize {
        self.slab.check();
        self.beside.check(live.map(|handle| (handle, self.get(handle).is_boxed())));
        self.slab.len()
    }

    #[inline(always)]
    fn slot(&self, handle: Handle) -> Handle {
        if self.secret != 0 && self.get(handle).is_grouped() {
            handle.before(GROUP_UNITS)
        } else {
            handle
        }
    }

    #[inline(always)]
    fn header_mut(&mut self, handle: Handle) -> &mut [u8; LENGTHS] {
        work::look_at_record();
        let bytes = self.slab.get_mut(handle).as_flattened_mut();
        bytes.first_chunk_mut().expect("a slot holds a header")
    }
}

#[inline(always)]
fn size_of_parts(id: &[u8], payload: &[u8]) -> usize {
    length_bytes(id.len()) + length_bytes(payload.len()) + id.len() + payload.len()
}

#[cfg(test)]
mod tests;
