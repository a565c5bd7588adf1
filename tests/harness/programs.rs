//! The tested programs and modules, and other settings, from environment variables.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of the repository.
pub fn root() -> &'static Path {
    const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    Path::new(HERE)
}

/// Returns the server under test.
pub fn server_program() -> PathBuf {
    program("DEHYDRATOR_SERVER", "redis-server")
}

/// Returns the command line client.
pub fn cli_program() -> PathBuf {
    program("DEHYDRATOR_CLI", "redis-cli")
}

/// Returns the program that a variable names: a path, which must be absolute because servers start in other folders, or
/// a name to be found in PATH.
fn program(variable: &str, default: &str) -> PathBuf {
    let named = PathBuf::from(env::var(variable).unwrap_or(default.into()));
    fs::canonicalize(&named).unwrap_or(named)
}

/// Returns the module as it is shipped: built for release, by `make`.
pub fn release_module() -> PathBuf {
    module("DEHYDRATOR_MODULE", "target/release/libdehydrator.so")
}

/// Returns the module with hooks for tests: `make build-debug`.
pub fn debug_module() -> PathBuf {
    module("DEHYDRATOR_DEBUG_MODULE", "target/debug/libdehydrator.so")
}

/// Returns the listening module: `make build-debug`.
pub fn listener_module() -> PathBuf {
    module("DEHYDRATOR_LISTENER", "target/debug/examples/liblistener.so")
}

fn module(variable: &str, default: &str) -> PathBuf {
    let named = env::var_os(variable).map(PathBuf::from);
    let module = named.clone().unwrap_or_else(|| root().join(default));
    let help = "run `make build build-debug` first";
    if named.is_none()
        && let Some(source) = newer_source(&module)
    {
        panic!("{source} is newer than {}: {help}", module.display());
    }
    fs::canonicalize(&module)
        .unwrap_or_else(|_| panic!("no module at {}: {help}", module.display()))
}

/// Returns a source of a module that has changed since the module was built. Cargo lists the sources beside it.
fn newer_source(module: &Path) -> Option<String> {
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let built = changed(module)?;
    let list = fs::read_to_string(module.with_extension("d")).ok()?;
    let mut sources = list.split_whitespace().filter(|it| it.ends_with(".rs"));
    sources.find(|source| changed(Path::new(source)) > Some(built)).map(str::to_owned)
}

/// The server under test. It compares with a number of major and minor.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub is_valkey: bool,
    pub(crate) number: (u32, u32),
}

impl PartialEq<(u32, u32)> for Version {
    fn eq(&self, number: &(u32, u32)) -> bool {
        self.number == *number
    }
}

impl PartialOrd<(u32, u32)> for Version {
    fn partial_cmp(&self, number: &(u32, u32)) -> Option<std::cmp::Ordering> {
        Some(self.number.cmp(number))
    }
}

/// Returns a number from the environment, or else the default.
pub fn setting(variable: &str, default: u64) -> u64 {
    let number = |word: String| word.parse().unwrap_or_else(|_| panic!("{variable}={word}"));
    env::var(variable).map_or(default, number)
}
