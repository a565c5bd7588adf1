//! Runs git.

use std::path::Path;
use std::process::Command;

/// The sources of the module. Changes to other files do not count.
const SOURCES: [&str; 4] = ["src", "scripts/commit", "Cargo.toml", "Cargo.lock"];

/// Returns the commit that is checked out in this folder, with `-dirty` if the sources differ from it. Returns `None` if the
/// folder is not the root of a repository.
pub fn commit(folder: &Path) -> Option<String> {
    // The first line is the path from the root to here: not empty if an archive was unpacked inside another repository.
    let lines = ask(folder, &["rev-parse", "--show-prefix", "HEAD"])?;
    let hash = lines.strip_prefix('\n')?.trim();
    let changed = ask(folder, &[&["status", "--porcelain", "--"][..], &SOURCES].concat())?;
    Some(if changed.is_empty() { hash.to_owned() } else { format!("{hash}-dirty") })
}

/// Returns the output of git, or `None` if git is missing or fails.
fn ask(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.arg("--no-optional-locks").arg("-C").arg(folder).args(arguments).output();
    let output = output.ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}
