//! What there is once in the process, whoever runs.
//!
//! | module | noun |
//! |---|---|
//! | `guard` | the one door by which C enters: no panic gets past it |
//! | `allocator` | the server's memory, aligned as Rust asks for it |
//! | `hold` | what is in a key, held: nobody is called meanwhile |
//! | `log` | the server's log |
//! | `info` | what the server says of itself |
//! | `random` | random bits that nobody can guess |

pub mod allocator;
pub mod guard;
pub mod hold;
pub mod info;
pub mod log;
pub mod random;
