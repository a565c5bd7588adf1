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

    fn put(&mut self, mut number: u64) {
        let len = number.checked_ilog10().map_or(1, |log| log as usize + 1);
        for digit in self.bytes[self.len..][..len].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.len += len;
    }
}

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
