//! Tells which commit the module is built from, when it is compiled.
//!
//! A macro asks git, and not a build script: Cargo builds all that belongs to a package anew when its build script has
//! run, tests and benches too, and they take a minute. The macro runs when the module is compiled, that is when its
//! sources have changed, and at no other time. So a module may tell of a commit before the latest, or of one that was
//! not made yet (`-dirty`), but only where nothing that it is made of has changed since. `make package` has it compiled
//! again then.

mod git;

use std::env;
use std::path::Path;

use proc_macro::{Literal, TokenStream, TokenTree};

/// Expands to the commit as a string: its whole hash; with `-dirty` behind it if the sources are not those of the
/// commit; or `unknown`, as where they are an archive's.
#[proc_macro]
pub fn commit(_: TokenStream) -> TokenStream {
    let folder = env::var_os("CARGO_MANIFEST_DIR");
    let commit = folder.and_then(|folder| git::commit(Path::new(&folder)));
    TokenTree::from(Literal::string(&commit.unwrap_or_else(|| "unknown".into()))).into()
}
