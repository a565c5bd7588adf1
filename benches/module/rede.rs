//! ReDe, the module in C that ours succeeds, for who has built it: nothing of it is in this repository.

use std::env;
use std::path::PathBuf;

/// Names the module, as built by ReDe's own Makefile.
pub const VARIABLE: &str = "REDE_MODULE";

/// Where ReDe is, if the variable says so. It must not depend on the folder that a server runs in.
pub fn module() -> Option<PathBuf> {
    let named = PathBuf::from(env::var_os(VARIABLE)?);
    let found = named.canonicalize();
    Some(found.unwrap_or_else(|error| panic!("{VARIABLE} is {}: {error}", named.display())))
}

/// How often it is asked for what takes it a walk over all TTLs: a thousand times as long as ours takes.
pub const ASKED: usize = 100;
/// Its GIDPUSH begins with the second on the clock, and draws ids until one is not taken: each is dearer than the
/// one before until the second is over.
pub const GIDPUSHED: usize = 2000;
