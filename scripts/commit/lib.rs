//! Determines, at compile time, the commit that the module is built from.
//!
//! This is a macro, not a build script: after a build script has run, Cargo rebuilds everything in the package, including
//! tests and benches, which takes a minute. The macro runs only when the module is compiled, that is, when its sources
//! have changed. So a module can name a commit before the latest one, or an uncommitted state (`-dirty`), but only if its
//! sources have not changed since. `make package` recompiles it in that case.

mod git;

use std::env;
use std::path::Path;

use proc_macro::{Literal, TokenStream, TokenTree};

/// Expands to the commit as a string: its full hash, with the suffix `-dirty` if the sources differ from it, or `unknown`,
/// for example in an archive.
#[proc_macro]
pub fn commit(_: TokenStream) -> TokenStream {
    let folder = env::var_os("CARGO_MANIFEST_DIR");
    let commit = folder.and_then(|folder| git::commit(Path::new(&folder)));
    TokenTree::from(Literal::string(&commit.unwrap_or_else(|| "unknown".into()))).into()
}
