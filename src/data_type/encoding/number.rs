//! Numbers of any length in bytes: LEB128, seven bits in each byte, the lowest first.

use super::field::Corrupt;

/// Writes a number.
pub(super) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number from the front of `rest`.
///
/// # Errors
///
/// [`Corrupt`] if it is cut off, or longer than 64 bits.
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
