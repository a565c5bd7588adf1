//! A hash that is the same on every server, so that a schedule has the same jitter everywhere.

/// Hashes a name and a moment, alike on every server: FNV-1a, and then the mixing of SplitMix64, because the moments of one
/// schedule differ little.
pub fn hash(name: &[u8], moment: u64) -> u64 {
    let bytes = name.iter().copied().chain(moment.to_be_bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
