//! The builds of this bench that measure the module's own store.

use std::path::PathBuf;

/// The store of the module.
pub const OURS: &str = "lawn";
/// The module's store in another build of this bench, at the path in the environment variable `BEFORE`.
pub const BEFORE: &str = "before";
/// The module's store in a build with the feature `portable`, at the path in the environment variable `PORTABLE`.
pub const PORTABLE: &str = "portable";

/// Returns the program that measures a store, and the name of the store there; `None` if there is none.
pub fn executable(store: &str) -> Option<(PathBuf, &str)> {
    for (other, variable) in [(BEFORE, "BEFORE"), (PORTABLE, "PORTABLE")] {
        if store == other {
            return Some((std::env::var_os(variable)?.into(), OURS));
        }
    }
    Some((std::env::current_exe().expect("a path"), store))
}
