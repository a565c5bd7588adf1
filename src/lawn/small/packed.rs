//! The layout of the elements of a small lawn: one behind the other, each with a header of minimal size.
//!
//! ```text
//!   flags   1          bits 0 to 3: which of the parts marked `?` are present; bits 4 to 7: bytes of the TTL
//!   length of the id, length of the element, deadline                    1 + 1 + 6, the low bytes of each
//!   high bytes of the id's length ?, deadline ?, element's length ?      1, 2, 1
//!   number of deliveries, since when it is held, and for how long it had
//!     been due then, and the token or 0 ?                                2 + 6 + 6 + 8
//!   TTL     0 to 8, or 8 and the bounds     8; bits 4 to 7 of the flags are 15 then
//!   id, payload
//! ```

use super::super::element::{Bounds, Element};
use super::super::lease::{Since, Token};

const ID_LONG: u8 = 1;
const DEADLINE_LONG: u8 = 2;
const WIDTH_LONG: u8 = 4;
const DELIVERED: u8 = 8;
/// The flags of optional parts.
const PARTS: u8 = 0b1111;
const TTL_SHIFT: u32 = 4;
/// In the place of the bytes of the TTL: a TTL of eight bytes, and bounds.
const BOUNDED: u8 = 0xf;
const BOUNDED_BYTES: usize = 8 + Bounds::BYTES;

/// Bytes of the flags and the mandatory parts.
const HEADER_MIN: usize = 9;
/// Bytes of deliveries, since when the element is held, and the token.
const DELIVERED_BYTES: usize = 2 + 2 * MOMENT_BYTES + 8;
const MOMENT_BYTES: usize = 6;
pub(super) const HEADER_MAX: usize = HEADER_MIN + 1 + 2 + 1 + DELIVERED_BYTES + BOUNDED_BYTES;
const DEADLINE_BITS: u32 = 48;
/// The widest element, leaving room for the longest header.
pub(super) const WIDTH_MAX: usize = u16::MAX as usize - HEADER_MAX;

/// An element's deadline and what changes together with it, and its bounds.
#[derive(Clone, Copy)]
pub(super) struct Timer {
    pub(super) deadline: u64,
    pub(super) ttl: u64,
    pub(super) deliveries: u16,
    /// Only for an element that was given out.
    pub(super) token: Option<Token>,
    /// Since when it is held. Unknown if it is not.
    pub(super) since: Since,
    pub(super) bounds: Bounds,
}

/// The encoded header of an element: all that precedes the id.
pub(super) struct PackedHeader {
    bytes: [u8; HEADER_MAX],
    pub(super) len: usize,
    /// Bytes of the whole element, header included.
    pub(super) width: usize,
    pub(super) has_token: bool,
}

impl PackedHeader {
    pub(super) fn new(id: usize, payload: usize, timer: Timer) -> Self {
        let Timer { deadline, ttl, deliveries, token, since, bounds } = timer;
        let has_bounds = !bounds.is_none();
        let ttl_bytes =
            if has_bounds { BOUNDED_BYTES } else { 8 - ttl.leading_zeros() as usize / 8 };
        let later = (deadline >> DEADLINE_BITS) as u16;
        let has_token = deliveries > 0 && token.is_some();
        let mut header = Self { bytes: [0; HEADER_MAX], len: HEADER_MIN, width: 0, has_token };
        header.put_if(id > 0xff, ID_LONG, [(id >> 8) as u8]);
        header.put_if(later > 0, DEADLINE_LONG, later.to_le_bytes());
        let delivered = if deliveries > 0 { DELIVERED_BYTES } else { 0 };
        let rest = delivered + ttl_bytes + id + payload;
        // The extra length byte is part of the width.
        let is_wide = header.len + rest > 0xff;
        header.width = header.len + usize::from(is_wide) + rest;
        header.put_if(is_wide, WIDTH_LONG, [(header.width >> 8) as u8]);
        header.put_if(deliveries > 0, DELIVERED, deliveries.to_le_bytes());
        let since = if has_token { since.stored() } else { Since::UNKNOWN };
        for number in [since.moment, since.waited] {
            let [a, b, c, d, e, f, ..] = number.to_le_bytes();
            header.put_if(deliveries > 0, DELIVERED, [a, b, c, d, e, f]);
        }
        header.put_if(deliveries > 0, DELIVERED, token.map_or(0, Token::number).to_le_bytes());
        header.bytes[header.len..][..8].copy_from_slice(&ttl.to_le_bytes());
        header.len += ttl_bytes;
        if has_bounds {
            header.bytes[header.len - Bounds::BYTES..header.len]
                .copy_from_slice(&bounds.to_bytes());
        }
        header.bytes[0] |= (ttl_bytes as u8).min(BOUNDED) << TTL_SHIFT;
        let word = id as u64 & 0xff | (header.width as u64 & 0xff) << 8 | deadline << 16;
        header.bytes[1..HEADER_MIN].copy_from_slice(&word.to_le_bytes());
        header
    }

    pub(super) fn has_deliveries(&self) -> bool {
        self.bytes[0] & DELIVERED != 0
    }

    fn put_if<const N: usize>(&mut self, condition: bool, flag: u8, part: [u8; N]) {
        if condition {
            self.bytes[0] |= flag;
            self.bytes[self.len..][..N].copy_from_slice(&part);
            self.len += N;
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The offsets of an element's parts, decoded from its header.
#[derive(Clone, Copy)]
pub(super) struct PackedElement {
    pub(super) at: usize,
    /// The offsets of the TTL, the id and the payload.
    pub(super) ttl: usize,
    pub(super) id: usize,
    pub(super) payload: usize,
    pub(super) end: usize,
    pub(super) deadline: u64,
    pub(super) has_deliveries: bool,
}

/// The optional high bytes of a header, and the bytes that all optional parts take.
struct Parts {
    id: usize,
    deadline: u64,
    width: usize,
    len: usize,
}

impl PackedElement {
    /// Decodes the element at offset `at`. A scan is a chain of these, each dependent on the one before.
    #[inline(always)]
    pub(super) fn read(bytes: &[u8], at: usize) -> Self {
        let header: &[u8; HEADER_MIN] = bytes[at..].first_chunk().expect("a header");
        let [flags, word @ ..] = *header;
        let word = u64::from_le_bytes(word);
        let (mut id, mut width) = (word as usize & 0xff, word as usize >> 8 & 0xff);
        let (mut deadline, mut ttl) = (word >> 16, at + HEADER_MIN);
        if flags & PARTS != 0 {
            let parts = Parts::read(bytes, flags, ttl);
            id |= parts.id;
            deadline |= parts.deadline;
            width |= parts.width;
            ttl += parts.len;
        }
        let ttl_bytes = flags >> TTL_SHIFT;
        let id_at = ttl + usize::from(ttl_bytes) + usize::from(ttl_bytes == BOUNDED);
        let has_deliveries = flags & DELIVERED != 0;
        Self { at, ttl, id: id_at, payload: id_at + id, end: at + width, deadline, has_deliveries }
    }

    pub(super) fn width(&self) -> usize {
        self.end - self.at
    }

    pub(super) fn element<'a>(&self, bytes: &'a [u8]) -> Element<'a> {
        Element {
            id: self.id(bytes),
            payload: &bytes[self.payload..self.end],
            deadline: self.deadline,
            deliveries: self.deliveries(bytes),
            bounds: self.bounds(bytes),
            group: None,
        }
    }

    pub(super) fn id<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.id..self.payload]
    }

    pub(super) fn deliveries(&self, bytes: &[u8]) -> u16 {
        if !self.has_deliveries {
            return 0;
        }
        let at = self.ttl - DELIVERED_BYTES;
        u16::from_le_bytes([bytes[at], bytes[at + 1]])
    }

    pub(super) fn token(&self, bytes: &[u8]) -> Option<Token> {
        let before = self.has_deliveries.then(|| &bytes[..self.ttl])?;
        Token::new(u64::from_le_bytes(*before.last_chunk()?))
    }

    /// Returns since when the element is held.
    pub(super) fn since(&self, bytes: &[u8]) -> Since {
        if !self.has_deliveries {
            return Since::UNKNOWN;
        }
        let at = self.ttl - DELIVERED_BYTES + 2;
        let number = |at: usize| {
            let bytes = &bytes[at..at + MOMENT_BYTES];
            bytes.iter().rfold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        Since { moment: number(at), waited: number(at + MOMENT_BYTES) }
    }

    #[inline]
    pub(super) fn bounds(&self, bytes: &[u8]) -> Bounds {
        if self.id - self.ttl != BOUNDED_BYTES {
            return Bounds::NONE;
        }
        Bounds::from_bytes(*bytes[..self.id].last_chunk().expect("bounds precede the id"))
    }

    /// Returns when the element expires.
    pub(super) fn expiry(&self, bytes: &[u8]) -> Option<u64> {
        self.bounds(bytes).expiry(self.deadline)
    }

    #[inline]
    pub(super) fn ttl(&self, bytes: &[u8]) -> u64 {
        let length = (self.id - self.ttl).min(8) as u32;
        // Where possible, read eight bytes at once and mask what follows the TTL.
        if let Some(word) = bytes[self.ttl..].first_chunk() {
            return u64::from_le_bytes(*word) & u64::MAX.checked_shr(64 - 8 * length).unwrap_or(0);
        }
        let ttl = &bytes[self.ttl..self.id];
        ttl.iter().rfold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    pub(super) fn timer(&self, bytes: &[u8]) -> Timer {
        Timer {
            deadline: self.deadline,
            ttl: self.ttl(bytes),
            deliveries: self.deliveries(bytes),
            token: self.token(bytes),
            since: self.since(bytes),
            bounds: self.bounds(bytes),
        }
    }

    /// Returns whether the element has this id. Ids often share a prefix, so the ends are compared first.
    #[inline]
    pub(super) fn has_id(&self, bytes: &[u8], id: &[u8]) -> bool {
        let own = self.id(bytes);
        own.len() == id.len() && own.last_chunk::<8>() == id.last_chunk() && own == id
    }
}

impl Parts {
    /// Reads the optional parts, which few elements have, at offset `at`.
    #[inline(never)]
    fn read(bytes: &[u8], flags: u8, at: usize) -> Self {
        let mut len = 0;
        let mut part = |flag: u8, length: usize| {
            let length = if flags & flag == 0 { 0 } else { length };
            len += length;
            let part = &bytes[at + len - length..at + len];
            part.iter().rfold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        let id = (part(ID_LONG, 1) as usize) << 8;
        let deadline = part(DEADLINE_LONG, 2) << DEADLINE_BITS;
        let width = (part(WIDTH_LONG, 1) as usize) << 8;
        part(DELIVERED, DELIVERED_BYTES);
        Self { id, deadline, width, len }
    }
}

/// Iterates over the elements.
#[derive(Clone)]
pub(super) struct PackedElements<'a> {
    pub(super) bytes: &'a [u8],
    /// The offset of the next element.
    pub(super) at: usize,
}

impl Iterator for PackedElements<'_> {
    type Item = PackedElement;

    #[inline(always)]
    fn next(&mut self) -> Option<PackedElement> {
        let entry =
            (self.at < self.bytes.len()).then(|| PackedElement::read(self.bytes, self.at))?;
        self.at = entry.end;
        Some(entry)
    }
}
