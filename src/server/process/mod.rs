//! What the process has once, whichever callback runs: its log, its random numbers, and more in files of their own.
//!
//! | module | contents |
//! |---|---|
//! | `guard` | the panic guard around each callback |
//! | `allocator` | the server's memory, aligned as Rust requires |
//! | `hold` | the hold on a value, which forbids calls that could free the value |
//! | `info` | the server's INFO |

pub mod allocator;
pub mod guard;
pub mod hold;
pub mod info;

use std::cell::RefCell;
use std::ffi::CString;
use std::ptr;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Writes a warning to the server's log. It needs no context.
pub fn log_warning(message: &str) {
    let Ok(message) = CString::new(message.replace('\0', " ")) else { return };
    // SAFETY: the server accepts a null context here, and the format takes one C string.
    unsafe {
        api!(RedisModule_Log(
            ptr::null_mut(),
            c"warning".as_ptr(),
            c"%s".as_ptr(),
            message.as_ptr()
        ))
    };
}

thread_local! {
    // Commands run on the server's main thread alone. Forked children (a dump, a rewrite) draw nothing.
    static GENERATOR: RefCell<ChaCha12Rng> = RefCell::new(ChaCha12Rng::from_seed(seed()));
}

/// Returns `N` random bytes that cannot be predicted.
///
/// They come from ChaCha with twelve rounds, the standard generator of the `rand` crate: without the seed, known output
/// reveals nothing about other output. The server's own generator (SHA-256 in counter mode, seeded from `/dev/urandom`)
/// provides the seed once per process. Calling the server each time would cost a lease's token 9,300 instructions.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    GENERATOR.with_borrow_mut(|generator| generator.fill_bytes(&mut bytes));
    bytes
}

fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    // SAFETY: the pointer and the length describe `seed`.
    unsafe { api!(RedisModule_GetRandomBytes(seed.as_mut_ptr(), seed.len())) };
    seed
}
