//! Random bits that nobody can guess.
//!
//! They come from ChaCha with twelve rounds, the generator that the `rand` crate calls its standard one: who has seen any
//! number of them learns nothing of the others, as long as the seed is not known. The seed is 256 bits of the server's own
//! generator (SHA-256 in counter mode, seeded from `/dev/urandom`), drawn once a process. Asked each time, that one would
//! cost a lease's token 9,300 instructions.

use std::cell::RefCell;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};

thread_local! {
    // Commands run on the server's main thread alone. What forks (a dump, a rewrite) draws nothing.
    static GENERATOR: RefCell<ChaCha12Rng> = RefCell::new(ChaCha12Rng::from_seed(seed()));
}

/// Draws so many random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    GENERATOR.with_borrow_mut(|generator| generator.fill_bytes(&mut bytes));
    bytes
}

/// Draws a seed from the server.
fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    // SAFETY: the pointer and the length describe `seed`.
    unsafe { api!(RedisModule_GetRandomBytes(seed.as_mut_ptr(), seed.len())) };
    seed
}
