//! ReDe, the predecessor of the module in C, for those who have built it: this repository does not contain it.

use std::env;
use std::path::PathBuf;

/// The environment variable with the path of the module, as built by ReDe's own Makefile.
pub const VARIABLE: &str = "REDE_MODULE";

/// Returns the path of ReDe, if the variable is set. It is absolute, because servers run in other folders.
pub fn module() -> Option<PathBuf> {
    let named = PathBuf::from(env::var_os(VARIABLE)?);
    let found = named.canonicalize();
    Some(found.unwrap_or_else(|error| panic!("{VARIABLE} is {}: {error}", named.display())))
}

/// Repetitions of commands for which ReDe walks over all TTLs: a thousand times slower than ours.
pub const ASKED: usize = 100;
/// Its GIDPUSH starts from the current second, and draws ids until one is free: each call is slower than the previous
/// one until the second ends.
pub const GIDPUSHED: usize = 2000;
