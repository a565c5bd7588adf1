//! The elements themselves: one slot each, header, id and payload together.
//!
//! ```text
//!   0        8          14     18           20
//!   ├────────┼──────────┼──────┼────────────┼────────┬─────────────┬────┬─────────┬─────────┐
//!   │deadline│ push no. │ block│ deliveries │ id len │ payload len │ id │ payload │ padding │
//!   └────────┴──────────┴──────┴────────────┴────────┴─────────────┴────┴─────────┴─────────┘
//!    u64      u48        u32    u16          varint   varint                       to 8 bytes
//! ```
//!
//! Lengths are LEB128: one byte up to 127. An id of 16 bytes and a payload of 64 make 102 bytes, in a
//! slot of 104. Nothing points at a record but the index, by its id, and one place in the order of
//! deadlines: the block of a queue that `block` names, or the thicket if that is empty.

use super::slab::{Handle, Slab};
use super::turn::Turn;

/// What a slot is measured in. Eight bytes keep the classes few and the headers aligned.
type Granule = [u8; 8];

const PUSH: usize = 8;
const BLOCK: usize = 14;
const DELIVERIES: usize = 18;
const LENGTHS: usize = 20;
/// Two LEB128 numbers of 64 bits.
const LENGTHS_MAX: usize = 20;

/// A record as it lies in its slot.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    header: &'a [u8; LENGTHS],
    id: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) fn turn(&self) -> Turn {
        turn_of(self.header)
    }

    /// The block that holds it, or `None` for the thicket.
    pub(super) fn block(&self) -> Option<Handle> {
        block_of(self.header)
    }

    /// How often it was given out under a lease.
    pub(super) fn deliveries(&self) -> u16 {
        deliveries_of(self.header)
    }

    pub(super) fn id(&self) -> &'a [u8] {
        self.id
    }

    pub(super) fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

fn turn_of(header: &[u8; LENGTHS]) -> Turn {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, ..] = *header;
    Turn {
        deadline: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        push: u64::from_le_bytes([i, j, k, l, m, n, 0, 0]),
    }
}

fn put_turn(header: &mut [u8; LENGTHS], turn: Turn) {
    header[..PUSH].copy_from_slice(&turn.deadline.to_le_bytes());
    header[PUSH..BLOCK].copy_from_slice(&turn.push.to_le_bytes()[..BLOCK - PUSH]);
}

fn block_of(header: &[u8; LENGTHS]) -> Option<Handle> {
    let [a, b, c, d] = [header[BLOCK], header[BLOCK + 1], header[BLOCK + 2], header[BLOCK + 3]];
    Handle::from_bits(u32::from_le_bytes([a, b, c, d]))
}

fn deliveries_of(header: &[u8; LENGTHS]) -> u16 {
    u16::from_le_bytes([header[DELIVERIES], header[DELIVERIES + 1]])
}

/// Where id and payload lie in what follows the header: where the first begins, and both lengths.
fn parts(rest: &[u8]) -> (usize, usize, usize) {
    // As most are: a byte for each length.
    if let [id @ 0..0x80, payload @ 0..0x80, ..] = *rest {
        return (2, id.into(), payload.into());
    }
    let mut at = 0;
    let id = get_length(rest, &mut at);
    let payload = get_length(rest, &mut at);
    (at, id, payload)
}

fn put_length(bytes: &mut [u8], at: &mut usize, mut length: usize) {
    while length >= 0x80 {
        bytes[*at] = length as u8 | 0x80;
        length >>= 7;
        *at += 1;
    }
    bytes[*at] = length as u8;
    *at += 1;
}

fn get_length(bytes: &[u8], at: &mut usize) -> usize {
    let mut length = 0;
    let mut shift = 0;
    loop {
        let byte = bytes[*at];
        *at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return length;
        }
        shift += 7;
    }
}

/// The store of records.
#[derive(Clone)]
pub(super) struct Records {
    slab: Slab<Granule>,
}

impl Records {
    pub(super) fn new() -> Self {
        Self { slab: Slab::new() }
    }

    /// Stores an element, in no block and not delivered yet. `None` if there is no room (see [`Slab::insert`]).
    pub(super) fn insert(&mut self, id: &[u8], payload: &[u8], turn: Turn) -> Option<Handle> {
        let mut lengths = [0; LENGTHS_MAX];
        let mut end = 0;
        put_length(&mut lengths, &mut end, id.len());
        put_length(&mut lengths, &mut end, payload.len());
        let size = LENGTHS + end + id.len() + payload.len();

        let handle = self.slab.insert(size.div_ceil(size_of::<Granule>()))?;
        let bytes = self.slab.get_mut(handle).as_flattened_mut();
        let (header, rest) = bytes.split_first_chunk_mut().expect("a slot holds a header");
        put_turn(header, turn);
        header[BLOCK..].fill(0);
        if let [one, two, ..] = rest
            && end == 2
        {
            // Bytes, not a call that copies them.
            [*one, *two] = [lengths[0], lengths[1]];
        } else {
            rest[..end].copy_from_slice(&lengths[..end]);
        }
        let (id_at, rest) = rest[end..].split_at_mut(id.len());
        id_at.copy_from_slice(id);
        rest[..payload.len()].copy_from_slice(payload);
        Some(handle)
    }

    pub(super) fn get(&self, handle: Handle) -> Record<'_> {
        let bytes = self.slab.get(handle).as_flattened();
        let (header, rest) = bytes.split_first_chunk().expect("a slot holds a header");
        let (at, id_length, payload_length) = parts(rest);
        let (id, rest) = rest[at..].split_at(id_length);
        Record { header, id, payload: &rest[..payload_length] }
    }

    /// The id alone.
    pub(super) fn id(&self, handle: Handle) -> &[u8] {
        let rest = &self.slab.get(handle).as_flattened()[LENGTHS..];
        let (at, id_length, _) = parts(rest);
        &rest[at..at + id_length]
    }

    /// The block and the deliveries, without reading the lengths.
    pub(super) fn block_and_deliveries(&self, handle: Handle) -> (Option<Handle>, u16) {
        let header = self.header(handle);
        (block_of(header), deliveries_of(header))
    }

    /// The deliveries alone.
    pub(super) fn deliveries(&self, handle: Handle) -> u16 {
        deliveries_of(self.header(handle))
    }

    /// The turn alone, without reading the lengths.
    pub(super) fn turn(&self, handle: Handle) -> Turn {
        turn_of(self.header(handle))
    }

    /// The block alone, without reading the lengths.
    pub(super) fn block(&self, handle: Handle) -> Option<Handle> {
        block_of(self.header(handle))
    }

    /// Says which block holds the record now.
    pub(super) fn set_block(&mut self, handle: Handle, block: Option<Handle>) {
        let bits = Handle::to_bits(block).to_le_bytes();
        self.header_mut(handle)[BLOCK..DELIVERIES].copy_from_slice(&bits);
    }

    /// Says how often a record was given out under a lease.
    pub(super) fn set_deliveries(&mut self, handle: Handle, deliveries: u16) {
        self.header_mut(handle)[DELIVERIES..].copy_from_slice(&deliveries.to_le_bytes());
    }

    /// Gives a record, which is filed nowhere, another turn.
    pub(super) fn set_turn(&mut self, handle: Handle, turn: Turn) {
        put_turn(self.header_mut(handle), turn);
    }

    pub(super) fn remove(&mut self, handle: Handle) {
        self.slab.remove(handle);
    }

    pub(super) fn slab(&self) -> &Slab<Granule> {
        &self.slab
    }

    pub(super) fn slab_mut(&mut self) -> &mut Slab<Granule> {
        &mut self.slab
    }

    pub(super) fn straggler(&mut self) -> Option<Handle> {
        self.slab.straggler()
    }

    pub(super) fn relocate(&mut self, handle: Handle) -> Option<Handle> {
        self.slab.relocate(handle)
    }

    fn header(&self, handle: Handle) -> &[u8; LENGTHS] {
        let bytes = self.slab.get(handle).as_flattened();
        bytes.first_chunk().expect("a slot holds a header")
    }

    fn header_mut(&mut self, handle: Handle) -> &mut [u8; LENGTHS] {
        let bytes = self.slab.get_mut(handle).as_flattened_mut();
        bytes.first_chunk_mut().expect("a slot holds a header")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_what_was_stored_at_every_length() {
        let mut records = Records::new();
        let turn = Turn { deadline: u64::MAX >> 1, push: Turn::PUSHES - 1 };
        for id_length in [0, 1, 16, 127, 128, 300, 16_384] {
            for payload_length in [0, 1, 64, 127, 128, 20_000, 3_000_000] {
                let id: Vec<u8> = (0..id_length).map(|i| i as u8).collect();
                let payload = vec![0xff; payload_length];
                let handle = records.insert(&id, &payload, turn).expect("room");
                let record = records.get(handle);
                assert_eq!((record.id(), record.payload()), (&id[..], &payload[..]));
                assert_eq!((record.turn(), record.block()), (turn, None));
                records.remove(handle);
            }
        }
        records.slab().check();
    }

    #[test]
    fn a_slot_that_is_used_again_shows_nothing_of_the_last_record() {
        let mut records = Records::new();
        let turn = Turn { deadline: 1, push: 2 };
        let old = records.insert(b"abcdefgh", b"ijklmnop", turn).expect("room");
        records.set_block(old, Some(old));
        assert_eq!(records.block(old), Some(old));
        records.remove(old);
        let new = records.insert(b"x", b"yz3456789012", turn).expect("room");
        assert_eq!(new, old, "the slot is reused");
        let record = records.get(new);
        assert_eq!((record.id(), record.payload()), (&b"x"[..], &b"yz3456789012"[..]));
        assert_eq!(record.block(), None);
    }
}
