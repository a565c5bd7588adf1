//! Which of eight numbers are equal to one: the inner step of a look-up.
//!
//! Written with a byte for each answer instead of a bit, it is what compilers turn into the processor's
//! own comparisons of four numbers at once: twenty instructions without a branch on x86-64.

/// How many numbers are compared.
pub(super) const LANES: usize = 8;

/// The places of those that are equal, from the lowest on: the top bit of a byte for each.
#[derive(Clone, Copy)]
pub(super) struct Lanes(u64);

impl Iterator for Lanes {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        // The remainder changes nothing, and tells the compiler so.
        Some(bit as usize / 8 % LANES)
    }
}

/// Which of them are this one.
pub(super) fn equal(numbers: &[u32; LANES], wanted: u32) -> Lanes {
    let answers = std::array::from_fn(|at| if numbers[at] == wanted { 0x80 } else { 0 });
    Lanes(u64::from_le_bytes(answers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_equal_numbers_is_found_in_order() {
        for set in 0..1_u32 << LANES {
            for (wanted, other) in [(7, 8), (0, 1), (u32::MAX, 0), (1 << 31, 1)] {
                let numbers =
                    std::array::from_fn(|at| if set >> at & 1 == 1 { wanted } else { other });
                let expected: Vec<_> = (0..LANES).filter(|at| set >> at & 1 == 1).collect();
                assert_eq!(equal(&numbers, wanted).collect::<Vec<_>>(), expected);
            }
        }
    }
}
