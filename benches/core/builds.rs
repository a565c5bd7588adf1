//! The builds of this bench that measure the module's own store.

use std::path::PathBuf;

/// The store that is the module's own.
pub const OURS: &str = "lawn";
/// The module's own store as another build of this bench has it, which the environment names in `BEFORE`.
pub const BEFORE: &str = "before";
/// The module's own store in a build with the feature `portable`, which the environment names in `PORTABLE`.
pub const PORTABLE: &str = "portable";

/// Which program measures a store, and what it is called there. `None` for what is not to be had.
pub fn executable(store: &str) -> Option<(PathBuf, &str)> {
    for (other, variable) in [(BEFORE, "BEFORE"), (PORTABLE, "PORTABLE")] {
        if store == other {
            return Some((std::env::var_os(variable)?.into(), OURS));
        }
    }
    Some((std::env::current_exe().expect("a path"), store))
}
