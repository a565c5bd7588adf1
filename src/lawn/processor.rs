//! Two things that processors do and the language has no words for: fetching memory before it is needed, and comparing
//! many numbers at once.
//!
//! This is the one place in the core with `unsafe`. With the feature `portable` there is none: memory is asked for by reading
//! it, and numbers are compared as the compiler will have it. What that costs is in docs/benchmarks.md. Tests run either way.

/// How many numbers are compared at once.
pub(super) const LANES: usize = 8;

/// Has the processor fetch the cache line of `at`, and goes on without waiting for it. Nothing is read, so nothing
/// changes but how long a later read takes.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(feature = "portable")
))]
#[inline(always)]
pub(super) fn prefetch<T: Copy>(at: &T) {
    let at = std::ptr::from_ref(at);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of every x86-64 (SSE). It is a hint: it reads and writes nothing that the program
    // can see, and faults for no address. The address is that of a reference, so it is a valid one as well.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: `prfm` is part of every AArch64 and is a hint, as above. The options say what is true of it: it touches no
    // memory that the program can see, no stack and no flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
}

/// As above: a read that nobody waits for until the processor can begin nothing more.
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(feature = "portable")
)))]
#[inline(always)]
pub(super) fn prefetch<T: Copy>(at: &T) {
    std::hint::black_box(*at);
}

/// Returns a bit for each number that is `wanted`, the lowest for the first.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(feature = "portable")))]
#[inline(always)]
pub(super) fn equal(numbers: &[u32; LANES], wanted: u32) -> u32 {
    // SAFETY: the function needs SSE2, which the build says that the processor has: it is part of every x86-64.
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
    // Each answer is all ones or all zeros, whatever the width that it is packed into.
    let answers = _mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128());
    _mm_movemask_epi8(answers).cast_unsigned()
}

/// Returns a bit for each number that is `wanted`, the lowest for the first.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(feature = "portable"))))]
#[inline(always)]
pub(super) fn equal(numbers: &[u32; LANES], wanted: u32) -> u32 {
    // A byte for each answer, which compilers make of the processor's own comparisons, and then a bit for each byte.
    let answers = std::array::from_fn(|at| u8::from(numbers[at] == wanted));
    (u64::from_le_bytes(answers).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}
