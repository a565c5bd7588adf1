//! Ids, payloads, TTLs and orders: the same for all stores, and too irregular to favour one of them.

use crate::store::{Id, Payload};

/// All payloads are the same: their content makes no difference.
pub const PAYLOAD: Payload = [b'x'; 64];
/// The shortest TTL: in a load shorter than this, nothing comes due.
pub const TTL_MIN: u64 = 10_000;

/// Scrambles a number with the finisher of splitmix64, which is a bijection.
pub fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the id of a number.
pub fn id(number: usize) -> Id {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&mix(number as u64).to_le_bytes());
    id[8..].copy_from_slice(&(number as u64).to_le_bytes());
    id
}

/// Returns the number of an id.
pub fn number(id: &Id) -> usize {
    u64::from_le_bytes(id[8..].try_into().expect("eight bytes")) as usize
}

/// A few TTLs, evenly spread.
#[derive(Clone, Copy)]
pub struct Ttls {
    count: u64,
    span: u64,
}

impl Ttls {
    /// Returns this many TTLs of 10 to 60 seconds, or up to 1,010 seconds if there are not enough milliseconds in that
    /// range.
    pub fn new(count: usize) -> Self {
        let count = count as u64;
        Self { count, span: if count <= 50_000 { 50_000 } else { count } }
    }

    /// Returns the TTL of a number, modulo their count.
    pub fn get(&self, number: u64) -> u64 {
        TTL_MIN + number % self.count * self.span / self.count
    }

    /// Returns the TTL that an element starts with.
    pub fn of(&self, element: usize) -> u64 {
        self.get(mix(element as u64) >> 20)
    }

    /// Returns a different TTL, if there is one.
    pub fn other(&self, element: usize) -> u64 {
        self.get((mix(element as u64) >> 20) + 1)
    }

    pub fn longest(&self) -> u64 {
        self.get(self.count - 1)
    }
}

/// Random numbers, reproducible from the seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }
}

/// Returns the numbers below `count` in random order.
pub fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    let mut dice = Dice::new(seed);
    for place in (1..count).rev() {
        numbers.swap(place, dice.below(place as u64 + 1) as usize);
    }
    numbers
}
