//! Which of eight numbers are equal to one: the inner step of a look-up.
//!
//! All are compared at once, and the answers come as a bit each: a dozen instructions without a branch.

use super::super::processor;

pub(super) use processor::LANES;

/// The places of those that are equal, from the lowest on: a bit for each.
#[derive(Clone, Copy)]
pub(super) struct Lanes(u32);

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        // The remainder changes nothing, and tells the compiler so.
        Some(place % LANES)
    }
}

/// Returns which of them are this one.
#[inline(always)]
pub(super) fn equal(numbers: &[u32; LANES], wanted: u32) -> Lanes {
    Lanes(processor::equal(numbers, wanted))
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
