//! The module's version and commit.

use std::ffi::c_int;

/// The version, as in `Cargo.toml`.
pub const TEXT: &str = env!("CARGO_PKG_VERSION");

/// The version as MODULE LIST shows it: 10,000 for each major, 100 for each minor, 1 for each patch.
pub const NUMBER: c_int = 10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
    + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
    + number(env!("CARGO_PKG_VERSION_PATCH"));

/// The commit: its full hash, perhaps with `-dirty`, or `unknown`. A build without git can set it by `DEHYDRATOR_COMMIT`.
const COMMIT: &str = match option_env!("DEHYDRATOR_COMMIT") {
    Some(commit) if !commit.is_empty() => commit,
    _ => dehydrator_commit::commit!(),
};

/// The first characters of the commit's hash, as many as in the server's `redis_git_sha1`, or `unknown`.
pub const SHA1: &str = if COMMIT.len() < 40 { COMMIT } else { COMMIT.split_at(8).0 };

/// Set if the sources differed from the commit.
pub const DIRTY: bool = COMMIT.len() > 40;

/// The commit in the binary: `scripts/commit.sh` searches a file for the mark.
#[used]
static MARKED: [u8; MARK.len() + COMMIT.len() + 1] = marked();
const MARK: &str = "dehydrator-commit:";

const fn marked() -> [u8; MARK.len() + COMMIT.len() + 1] {
    let mut text = [0; MARK.len() + COMMIT.len() + 1];
    let (mark, commit) = text.split_at_mut(MARK.len());
    mark.copy_from_slice(MARK.as_bytes());
    commit.split_at_mut(COMMIT.len()).0.copy_from_slice(COMMIT.as_bytes());
    text
}

const fn number(digits: &str) -> c_int {
    match c_int::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("the version in Cargo.toml is not three numbers"),
    }
}
