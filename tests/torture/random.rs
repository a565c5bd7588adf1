//! Random numbers from a seed, which a failure prints.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::setting;

/// Xorshift: reproducible from the seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // A seed of zero would only give zeros.
        Self(seed.max(1))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Returns true once in this many times.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize].clone()
    }
}

/// Returns DEHYDRATOR_SEED, or a new seed. It is printed, so that a failing test shows it.
pub fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let seed = setting("DEHYDRATOR_SEED", now.as_nanos() as u64 | 1);
    println!("DEHYDRATOR_SEED={seed}");
    seed
}
