//! Two processor features that Rust has no safe API for: prefetching memory, and comparing several numbers at once.
//!
//! This file has the only `unsafe` code of the crate. With the feature `portable` there is none: a prefetch becomes a
//! read, and the compiler chooses how to compare. docs/figures/core-portable.csv has the cost. The tests pass either way.

/// Numbers compared at once.
pub(super) const LANES: usize = 8;

/// Prefetches the cache line of `at` without waiting for it. Reads nothing; only a later read gets faster.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(feature = "portable")
))]
#[inline(always)]
pub(super) fn prefetch<T: Copy>(at: &T) {
    let at = std::ptr::from_ref(at);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of every x86-64 (SSE). It is a hint: it does not read or write memory that the
    // program can observe, and it faults for no address. The address comes from a reference, so it is valid anyway.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: `prfm` is part of every AArch64 and is a hint, as above. The options are true: it accesses no memory that
    // the program can observe, no stack and no flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

/// Reads `at`. Nothing depends on the value, so the processor continues until its queue of instructions is full.
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(feature = "portable")
)))]
#[inline(always)]
pub(super) fn prefetch<T: Copy>(at: &T) {
    std::hint::black_box(*at);
}

/// The indices of the numbers that are equal, in ascending order: one bit each.
#[derive(Clone, Copy)]
pub(super) struct Matches(u32);

impl Iterator for Matches {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        // A no-op that lets the compiler drop bounds checks.
        Some(place % LANES)
    }
}

/// Returns the indices of the numbers that equal `wanted`: a dozen instructions without a branch.
#[inline(always)]
pub(super) fn equal(numbers: &[u32; LANES], wanted: u32) -> Matches {
    Matches(equal_bits(numbers, wanted))
}

/// Returns a bit for each number that equals `wanted`, the lowest bit for the first.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(feature = "portable")))]
#[inline(always)]
fn equal_bits(numbers: &[u32; LANES], wanted: u32) -> u32 {
    // SAFETY: the function needs SSE2, which `target_feature` guarantees; every x86-64 has it.
    unsafe { equal_sse2(numbers, wanted) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(feature = "portable")))]
#[target_feature(enable = "sse2")]
#[inline]
fn equal_sse2(numbers: &[u32; LANES], wanted: u32) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi32,
        _mm_set1_epi32, _mm_setzero_si128,
    };

    let [a, b, c, d, e, f, g, h] = numbers.map(u32::cast_signed);
    let wanted = _mm_set1_epi32(wanted.cast_signed());
    let low = _mm_cmpeq_epi32(_mm_set_epi32(d, c, b, a), wanted);
    let high = _mm_cmpeq_epi32(_mm_set_epi32(h, g, f, e), wanted);
    // Each answer is all ones or all zeros, so narrowing keeps it.
    let answers = _mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128());
    _mm_movemask_epi8(answers).cast_unsigned()
}

/// Returns a bit for each number that equals `wanted`, the lowest bit for the first.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(feature = "portable"))))]
#[inline(always)]
fn equal_bits(numbers: &[u32; LANES], wanted: u32) -> u32 {
    // One byte per answer, which compilers vectorize, then one bit per byte.
    let answers = std::array::from_fn(|at| u8::from(numbers[at] == wanted));
    (u64::from_le_bytes(answers).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
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
