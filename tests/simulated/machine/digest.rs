//! The digest of a value. Equal for equal values of one run, which is all that is asked of it: it is not the server's SHA-1.

/// A digest, in the making: in any order among sequences, in order within one.
#[derive(Default)]
pub struct Digest {
    sum: [u64; 2],
    sequence: [u64; 2],
}

/// Scrambles a number.
pub fn mix(mut it: u64) -> u64 {
    it = (it ^ it >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    it = (it ^ it >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    it ^ it >> 31
}

fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut it = seed ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        it = mix(it.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from_le_bytes(word));
    }
    mix(it)
}

impl Digest {
    pub fn add(&mut self, bytes: &[u8]) {
        for (at, it) in self.sequence.iter_mut().enumerate() {
            *it = mix(it.wrapping_add(1)) ^ hash(bytes, at as u64 + 1);
        }
    }

    /// Ends a sequence.
    pub fn end(&mut self) {
        for (sum, it) in self.sum.iter_mut().zip(&mut self.sequence) {
            *sum = sum.wrapping_add(mix(std::mem::take(it).wrapping_add(7)));
        }
    }

    pub fn finish(mut self) -> [u8; 20] {
        self.end();
        let mut all = [0; 20];
        all[..8].copy_from_slice(&self.sum[0].to_le_bytes());
        all[8..16].copy_from_slice(&self.sum[1].to_le_bytes());
        all[16..].copy_from_slice(&(mix(self.sum[0] ^ self.sum[1]) as u32).to_le_bytes());
        all
    }
}
