//! Asks git.

use std::path::Path;
use std::process::Command;

/// What the module is made of. Other changes do not count as changes.
const SOURCES: [&str; 4] = ["src", "commit", "Cargo.toml", "Cargo.lock"];

/// Returns the commit that is checked out in this folder, with `-dirty` if the sources are not those of the commit.
/// `None` if the folder is not the root of a repository.
pub fn commit(folder: &Path) -> Option<String> {
    // The first line is the way from the root to here: not empty where an archive was unpacked in another's repository.
    let lines = ask(folder, &["rev-parse", "--show-prefix", "HEAD"])?;
    let hash = lines.strip_prefix('\n')?.trim();
    let changed = ask(folder, &[&["status", "--porcelain", "--"][..], &SOURCES].concat())?;
    Some(if changed.is_empty() { hash.to_owned() } else { format!("{hash}-dirty") })
}

/// Returns what git prints; `None` if it is not there, or fails.
fn ask(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.arg("--no-optional-locks").arg("-C").arg(folder).args(arguments).output();
    let output = output.ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}
