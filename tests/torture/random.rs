//! Random numbers from a seed, which a failure tells.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::setting;

/// Xorshift: the same for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Of zero nothing but zero comes.
        Self(seed.max(1))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Whether one of so many came.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize].clone()
    }
}

/// DEHYDRATOR_SEED, or one that nobody had before. It is printed: a test that fails shows it.
pub fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let seed = setting("DEHYDRATOR_SEED", now.as_nanos() as u64 | 1);
    println!("DEHYDRATOR_SEED={seed}");
    seed
}
