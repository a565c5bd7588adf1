//! Numbers as text, written without an allocation.

/// The most digits that a number of 64 bits has.
const DIGITS_MAX: usize = 20;

/// Up to three numbers in one word, with a sign between them.
pub struct Digits {
    bytes: [u8; 3 * DIGITS_MAX + 2],
    len: usize,
}

impl Digits {
    /// Returns the digits of a number.
    pub fn new(number: u64) -> Self {
        let mut digits = Self { bytes: [0; 3 * DIGITS_MAX + 2], len: 0 };
        digits.put(number);
        digits
    }

    /// Adds a sign and another number. There may be three.
    pub fn and(mut self, sign: u8, number: u64) -> Self {
        self.bytes[self.len] = sign;
        self.len += 1;
        self.put(number);
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Puts two digits at a time, from the last on: a division costs more than all else here.
    fn put(&mut self, mut number: u64) {
        let mut digits = [0; DIGITS_MAX];
        let mut from = DIGITS_MAX;
        while number >= 10 {
            from -= 2;
            digits[from..from + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
        }
        // The first one, if it is alone.
        if number > 0 || from == DIGITS_MAX {
            from -= 1;
            digits[from] = b'0' + number as u8;
        }
        let len = DIGITS_MAX - from;
        self.bytes[self.len..][..len].copy_from_slice(&digits[from..]);
        self.len += len;
    }
}

/// The digits of the numbers up to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_the_standard_library_writes() {
        let edges = (0..20).flat_map(|log| [10_u64.pow(log) - 1, 10_u64.pow(log)]);
        for number in edges.chain([u64::MAX]) {
            assert_eq!(Digits::new(number).bytes(), number.to_string().as_bytes());
            let three = Digits::new(number).and(b'@', u64::MAX).and(b'@', number);
            let expected = format!("{number}@{}@{number}", u64::MAX);
            assert_eq!(three.bytes(), expected.as_bytes());
        }
    }
}
