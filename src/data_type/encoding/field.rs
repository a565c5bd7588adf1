//! The fields of a value in an RDB file, the meaning of their numbers, and LEB128: numbers of any length, seven bits in
//! each byte, the lowest first.

use std::ops::Deref;

/// A payload that no server wrote, or that ends too early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt(pub &'static str);

impl Corrupt {
    /// Not corrupt: written by a later version of the module.
    pub const LATER: Self = Self("written by a later version of the module");
}

/// The source of fields: an RDB file, a full sync, RESTORE.
pub trait Source {
    /// The bytes of a string field.
    type Bytes: Deref<Target = [u8]>;

    /// Reads a number. Fails with [`Corrupt`] if the next field is missing or no number.
    fn unsigned(&mut self) -> Result<u64, Corrupt>;

    /// Reads a string. Fails with [`Corrupt`] if the next field is missing or no string.
    fn bytes(&mut self) -> Result<Self::Bytes, Corrupt>;
}

/// The destination of fields.
pub trait Sink {
    fn unsigned(&mut self, number: u64);
    fn bytes(&mut self, bytes: &[u8]);
}

/// The version that is written.
pub const VERSION: i32 = 1;
/// ReDe's version.
pub(super) const VERSION_REDE: i32 = 0;

/// Feature: elements have the number of their deliveries under a lease.
pub(super) const LEASES: u64 = 1;
/// Feature: the policy is not HOLD.
pub(super) const POLICY: u64 = 2;
/// Feature: a pause.
pub(super) const PAUSE: u64 = 4;
/// Feature: leased elements have tokens.
pub(super) const TOKENS: u64 = 8;
/// Feature: the policy came by RESTORE, and is inactive until confirmed.
pub(super) const UNCONFIRMED: u64 = 16;
/// Feature: the destination is a list.
pub(super) const TO_LIST: u64 = 32;
/// Feature: limits.
pub(super) const LIMITS: u64 = 64;
/// Feature: remembered ids.
pub(super) const REMEMBERED: u64 = 128;
/// Feature: stuck dead letters, which a reader without it would keep for ever.
pub(super) const STUCK: u64 = 256;
/// Feature: elements have bounds of their own, or zeros in their place.
pub(super) const BOUNDS: u64 = 512;
/// Feature: elements are in groups, or groups have settings.
pub(super) const GROUPS: u64 = 1024;
/// Feature: elements have the reason why they were given back, or an empty one.
pub(super) const REASONS: u64 = 2048;
/// Feature: schedules.
pub(super) const SCHEDULES: u64 = 4096;
/// All features.
pub(super) const KNOWN: u64 = 2 * SCHEDULES - 1;

pub(super) const DROP: u64 = 1;
pub(super) const STREAM: u64 = 2;
pub(super) const PUBLISH: u64 = 3;
pub(super) const HOLD_DELIVERIES: u64 = 4;
pub(super) const LIST: u64 = 5;

/// Writes a number in LEB128.
pub(super) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number in LEB128 from the front of `rest`. Fails with [`Corrupt`] if it is cut off, or longer than 64 bits.
pub(super) fn take_number(rest: &mut &[u8]) -> Result<u64, Corrupt> {
    let mut number: u64 = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first().ok_or(Corrupt("a number is cut off"))?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Corrupt("a number has more than 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_are_read_as_they_were_written() {
        for number in (0..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, 3 << bits >> 1]) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            assert_eq!(bytes.len(), (64 - number.leading_zeros()).div_ceil(7).max(1) as usize);
            bytes.push(7);
            let mut rest = &bytes[..];
            assert_eq!((take_number(&mut rest), rest), (Ok(number), &[7][..]));
        }
    }
}
